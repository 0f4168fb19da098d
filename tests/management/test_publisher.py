"""Datasets in segments, and the stream of face events."""

from memory_faces import START, Node
from signing import named, parameters, signed_command

from base.units import MS, SECOND
from forwarder.management.publisher import Datasets
from forwarder.tables.face import FIRST_FACE
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_interest, parse_data, parse_interest

EVENTS = "/localhost/nfd/faces/events"


def interest(uri: str, *, prefix: bool = False, fresh: bool = False, lifetime_ms: int = 4000) -> bytes:
    return make_interest(
        from_uri(uri), nonce=1, can_be_prefix=prefix, must_be_fresh=fresh, lifetime_ms=lifetime_ms
    )


# Datasets.


def test_an_empty_dataset_is_one_empty_segment() -> None:
    data = parse_data(Datasets().publish(from_uri("/d"), b"", 5 * SECOND))
    assert to_uri(data.name) == "/d/v=5000/seg=0"
    assert data.content == b""
    assert bytes.fromhex("1a03320100") in data.wire  # FinalBlockId { seg=0 }


def test_segments_are_full_and_the_last_is_named_in_each() -> None:
    for size, sizes in ((8000, [8000]), (8001, [8000, 1]), (16000, [8000, 8000])):
        datasets = Datasets()
        content = bytes(each % 251 for each in range(size))
        first = parse_data(datasets.publish(from_uri("/d"), content, SECOND))
        stem = to_uri(first.name).removesuffix("/seg=0")
        found = [
            datasets.find(parse_interest(interest(f"{stem}/seg={k}")), SECOND) for k in range(len(sizes) + 1)
        ]
        assert found.pop() is None
        segments = [parse_data(wire or b"") for wire in found]
        assert [len(segment.content) for segment in segments] == sizes
        assert b"".join(segment.content for segment in segments) == content
        last = bytes((0x1A, 3, 50, 1, len(sizes) - 1))
        assert all(last in segment.wire for segment in segments)
        assert all(len(segment.wire) <= 8800 for segment in segments)


def test_a_version_stays_what_it_was_for_a_while() -> None:
    datasets = Datasets()
    first = parse_data(datasets.publish(from_uri("/d"), b"old", SECOND))
    second = parse_data(datasets.publish(from_uri("/d"), b"new", SECOND))
    assert second.name > first.name
    by_version = parse_interest(interest(to_uri(first.name).removesuffix("/seg=0"), prefix=True))
    assert datasets.find(by_version, SECOND) == first.wire
    assert datasets.find(parse_interest(interest(to_uri(first.name))), 11 * SECOND - 1) == first.wire
    assert datasets.find(parse_interest(interest(to_uri(first.name))), 11 * SECOND) is None


def test_few_datasets_are_kept() -> None:
    datasets = Datasets()
    names = [to_uri(parse_data(datasets.publish(from_uri(f"/d/{k}"), b"", SECOND)).name) for k in range(20)]
    held = [datasets.find(parse_interest(interest(name)), SECOND) is not None for name in names]
    assert held == [False] * 4 + [True] * 16


def test_large_datasets_make_room_for_each_other() -> None:
    datasets = Datasets()
    content = bytes(8000 * 3000)
    names = [
        to_uri(parse_data(datasets.publish(from_uri(f"/d/{k}"), content, SECOND)).name) for k in range(2)
    ]
    held = [datasets.find(parse_interest(interest(name)), SECOND) is not None for name in names]
    assert held == [False, True]


def test_a_later_segment_does_not_make_a_new_version() -> None:
    node = Node()
    first = node.reply(interest("/localhost/nfd/fib/list", prefix=True))
    stem = to_uri(first.name).removesuffix("/seg=0")
    assert node.ask(interest(f"{stem}/seg=1")) == []
    assert node.ask(interest("/localhost/nfd/fib/list/v=1", prefix=True)) == []
    assert node.reply(interest(f"{stem}/seg=0"), START + 9 * SECOND).wire == first.wire


def test_a_query_that_is_malformed_is_answered_as_one() -> None:
    node = Node()
    for name in (
        "/localhost/nfd/faces/query",
        "/localhost/nfd/faces/query/x",
        "/localhost/nfd/faces/query/%96%03i%01",
    ):
        data = node.reply(interest(name, prefix=True))
        assert (to_uri(data.name), data.content_type) == (name, 3)
        assert bytes.fromhex("66020190") in data.content  # StatusCode 400


# Events.


def test_an_interest_waits_for_the_next_event() -> None:
    node = Node()
    assert node.ask(interest(EVENTS, prefix=True, fresh=True), START + 2 * SECOND) == []
    face = node.faces.add("udp4://192.0.2.9:6363", local=False, now=START + 3 * SECOND)
    (packet,) = node.collect()
    data = parse_data(packet)
    assert to_uri(data.name) == f"{EVENTS}/seq=1"  # the application's own face was 0
    assert data.freshness_ms == 1000
    uris = element_texts(face.uri, face.local_uri)
    assert data.content == bytes.fromhex(
        f"c0{len(uris) + 19:02x}" + "c10101" + "69020101"
    ) + uris + bytes.fromhex("840100" + "850101" + "860100" + "6c0100")


def element_texts(remote: str, local: str) -> bytes:
    return bytes((0x72, len(remote))) + remote.encode() + bytes((0x81, len(local))) + local.encode()


def test_events_have_numbers_and_can_be_had_later() -> None:
    node = Node()
    node.faces.add("udp4://192.0.2.9:6363", local=False)
    node.faces.destroy(FIRST_FACE + 1, START)
    kinds = [node.reply(interest(f"{EVENTS}/seq={number}")).content[4] for number in range(3)]
    assert kinds == [1, 1, 2]
    assert node.ask(interest(f"{EVENTS}/seq=3")) == []
    node.faces.add("udp4://192.0.2.10:6363", local=False)
    (packet,) = node.collect()
    assert to_uri(parse_data(packet).name) == f"{EVENTS}/seq=3"


def test_the_latest_event_is_had_at_once_while_it_is_fresh() -> None:
    node = Node()
    assert (
        to_uri(node.reply(interest(EVENTS, prefix=True, fresh=True), START + 999 * MS).name)
        == f"{EVENTS}/seq=0"
    )
    assert node.ask(interest(EVENTS, prefix=True, fresh=True), START + 1000 * MS) == []
    assert node.ask(interest(EVENTS, prefix=True), START + 1000 * MS) != []
    assert node.ask(interest(EVENTS), START) == []


def test_nobody_is_told_who_does_not_wait_any_more() -> None:
    node = Node()
    assert node.ask(interest(EVENTS, prefix=True, fresh=True, lifetime_ms=500), START + 2 * SECOND) == []
    node.faces.add(now=START + 2 * SECOND + 500 * MS)
    assert node.collect() == []
    node.faces.add(now=START + 3 * SECOND)
    assert node.collect() == []
    assert node.forwarder.counters.unsolicited == 0


def test_events_through_the_whole_node() -> None:
    node = Node()
    assert node.forward(interest(EVENTS, prefix=True, fresh=True), START + 5 * SECOND) == []
    node.faces.add("udp4://192.0.2.9:6363", local=False, now=START + 6 * SECOND)
    ((face, packet),) = node.settle(START + 6 * SECOND)
    assert face == node.application
    assert to_uri(parse_data(packet).name) == f"{EVENTS}/seq=1"


def test_waiting_and_history_are_bounded() -> None:
    node = Node()
    for number in range(1000, 2000):
        node.ask(interest(f"{EVENTS}/seq={number}"))
    for _ in range(200):
        node.faces.add()
    events = node.management._events
    assert len(events._waiting) <= 256
    assert len(events._kept) <= 64
    assert node.ask(signed_command("rib/register", parameters(named("/a"))))
