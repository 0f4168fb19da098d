"""Congestion marking on a link: by hand, as the developer guide has it."""

from math import sqrt

from base.units import MS
from forwarder.links.link import LinkService
from forwarder.tables.face import Face
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data

PACKET = make_data(from_uri("/a"), bytes(100))


def marking_link(mtu: int | None = None) -> LinkService:
    face = Face(1)
    face.is_marking = True
    face.marking_interval = 100 * MS
    face.marking_threshold = 1000
    return LinkService(mtu, face=face, overhead=0)


def is_marked(link: LinkService, now: int) -> bool:
    frames = link.send(PACKET, now)
    return parse_lp(frames[0]).congestion_mark == 1


def test_a_queue_that_stays_long_is_marked_ever_more_often() -> None:
    link = marking_link()
    times = []
    for now in range(0, 1000 * MS, MS):
        link.set_queue(1001, now)
        if is_marked(link, now):
            times.append(now)
    expected, at = [], 100.0
    while at < 1000:
        expected.append(at)
        at += 100 / sqrt(len(expected) + 1)
    assert len(times) == len(expected)
    assert all(0 <= now / MS - at < 1.01 for now, at in zip(times, expected, strict=True))


def test_a_queue_that_is_short_in_between_is_not() -> None:
    link = marking_link()
    for now in range(0, 1000 * MS, MS):
        link.set_queue(1000 if now % (90 * MS) == 0 else 5000, now)
        assert not is_marked(link, now)


def test_a_face_that_does_not_mark() -> None:
    link = marking_link()
    link.face.is_marking = False
    for now in range(0, 1000 * MS, MS):
        link.set_queue(5000, now)
        assert link.send(PACKET, now) == [PACKET]


def test_a_mark_finds_its_place_in_the_header_and_is_set_once() -> None:
    for mtu in (None, 200):
        link = marking_link(mtu)
        link.set_queue(5000, 0)
        packet = make_lp(PACKET, pit_token=b"t", non_discovery=True)
        first = parse_lp(link.send(packet, 100 * MS)[0])
        assert (first.congestion_mark, first.pit_token, first.non_discovery) == (1, b"t", True)
        link.set_queue(5000, 300 * MS)
        again = link.send(make_lp(PACKET, congestion_mark=1), 300 * MS)
        assert parse_lp(again[0]).congestion_mark == 1


def test_a_marked_packet_that_no_longer_fits_is_cut() -> None:
    size = len(PACKET)
    link, receiver = marking_link(size), LinkService(size, overhead=0)
    assert link.send(PACKET, 0) == [PACKET]
    link.set_queue(5000, 0)
    frames = link.send(PACKET, 200 * MS)
    assert len(frames) == 2
    assert all(len(frame) <= size for frame in frames)
    whole = [packet for frame in frames if (packet := receiver.receive(frame, 0)) is not None]
    assert whole == [make_lp(PACKET, congestion_mark=1)]
