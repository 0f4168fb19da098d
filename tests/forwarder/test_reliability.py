"""Link reliability: whatever a link does to frames, a packet comes once or is counted as lost."""

from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.units import MS
from forwarder.links.link import LinkService
from forwarder.links.reliability import IDLE_ACK_NS, MAX_REPEATS
from forwarder.tables.face import Face
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest


def reliable(mtu: int = 1000, sequence: int = 0) -> LinkService:
    face = Face(1)
    face.is_reliable = True
    return LinkService(mtu, sequence, face=face, overhead=0)


def packet_of(number: int, size: int) -> bytes:
    return make_data(from_uri(f"/{number}"), Random(number).randbytes(size))


class Pair:
    """Two ends, and a link between them that may do anything to a frame.

    Args:
        rng: decides what.
        loss, twice: shares of the frames.
        delay: least and greatest, ns.
    """

    def __init__(
        self, rng: Random, *, loss: float = 0, twice: float = 0, delay: tuple[int, int] = (MS, MS)
    ) -> None:
        self.ends = reliable(sequence=(1 << 64) - 3), reliable()
        self.rng = rng
        self.loss = loss
        self.twice = twice
        self.delay = delay
        self.now = 0
        self.got: tuple[list[bytes], list[bytes]] = ([], [])
        self.frames = 0
        self._under_way: list[tuple[int, int, int, bytes]] = []

    def send(self, end: int, packet: bytes) -> None:
        self._put(end, self.ends[end].send(packet, self.now))

    def _put(self, end: int, frames: list[bytes]) -> None:
        for frame in frames:
            assert len(frame) <= 1000
            for _ in range(1 + (self.rng.random() < self.twice)):
                self.frames += 1
                if self.rng.random() >= self.loss:
                    at = self.now + self.rng.randint(*self.delay)
                    heappush(self._under_way, (at, self.frames, 1 - end, frame))

    def run(self, until: int | None = None) -> None:
        """Let time pass, to a point or until nothing happens any more."""
        while True:
            due = [end.next_deadline() for end in self.ends]
            times = [at for at in due if at is not None] + [entry[0] for entry in self._under_way[:1]]
            if not times or (until is not None and min(times) > until):
                break
            self.now = max(self.now, min(times))
            assert self.now < 3600 * 1000 * MS, "it never ends"
            if self._under_way and self._under_way[0][0] <= self.now:
                _, _, end, frame = heappop(self._under_way)
                packet = self.ends[end].receive(frame, self.now)
                if packet is not None:
                    self.got[end].append(packet)
            for number, end in enumerate(self.ends):
                deadline = end.next_deadline()
                if deadline is not None and deadline <= self.now:
                    end.wake(self.now)
                self._put(number, end.take_frames())
        if until is not None:
            self.now = until

    def reliability(self, end: int):  # type: ignore[no-untyped-def]
        found = self.ends[end].reliability
        assert found is not None
        return found

    def assert_no_state(self) -> None:
        for end in (0, 1):
            reliability = self.reliability(end)
            assert not reliability._unacked
            assert not reliability._acks
            assert not reliability._known
            assert reliability._bytes == 0
            assert len(self.ends[end].reassembler) == 0
            assert self.ends[end].next_deadline() is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1]), st.integers(0, 4000), st.integers(0, 300 * MS)),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from([0.0, 0.05, 0.3, 0.6, 1.0]),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([(MS, MS), (0, 40 * MS), (0, 900 * MS)]),
    st.randoms(use_true_random=False),
)
def test_each_packet_arrives_once_or_is_counted_as_lost(
    sent: list[tuple[int, int, int]], loss: float, twice: float, delay: tuple[int, int], rng: Random
) -> None:
    pair = Pair(rng, loss=loss, twice=twice, delay=delay)
    packets: tuple[list[bytes], list[bytes]] = ([], [])
    for number, (end, size, pause) in enumerate(sent):
        packet = packet_of(number, size)
        pair.send(end, packet)
        packets[1 - end].append(packet)
        pair.run(pair.now + pause)
    pair.run()
    for end in (0, 1):
        arrived = [parse_lp(packet).fragment for packet in pair.got[end]]
        assert len(set(arrived)) == len(arrived), "twice"
        assert set(arrived) <= set(packets[end])
        missing = len(packets[end]) - len(arrived)
        sender = pair.reliability(1 - end)
        assert missing <= sender.lost
        assert sender.lost + sender.acknowledged + sender.repeated == len(packets[end])
        if loss == 0 and delay[0] == delay[1]:
            assert (sender.lost, sender.repeated) == (0, 0)
    pair.assert_no_state()


def test_a_lossy_link_loses_next_to_nothing() -> None:
    """Of frames of which a tenth is lost, one in ten thousand is lost four times."""
    pair = Pair(Random(5), loss=0.1, delay=(5 * MS, 6 * MS))
    for number in range(1000):
        pair.send(0, packet_of(number, 500))
        pair.run(pair.now + MS)
    pair.run()
    assert len(pair.got[1]) >= 997
    assert pair.reliability(0).repeated > 80
    pair.assert_no_state()


def test_acknowledgements_travel_with_other_packets() -> None:
    pair = Pair(Random(1))
    for number in range(50):
        pair.send(0, packet_of(number, 100))
        pair.send(1, packet_of(1000 + number, 100))
        pair.run(pair.now + 2 * MS)
    pair.run()
    assert pair.frames <= 102, "100 packets, and no frame for acknowledgements but the last"
    pair.assert_no_state()


def test_an_idle_end_acknowledges_after_five_milliseconds() -> None:
    a, b = reliable(), reliable()
    for number in range(3):
        for frame in a.send(packet_of(number, 100), 0):
            b.receive(frame, 0)
    assert b.next_deadline() == IDLE_ACK_NS
    b.wake(IDLE_ACK_NS)
    (idle,) = b.take_frames()
    assert parse_lp(idle).acks == [0, 1, 2]
    assert parse_lp(idle).fragment == b""
    assert a.receive(idle, IDLE_ACK_NS) is None
    assert a.reliability is not None
    assert a.reliability.acknowledged == 3


def test_three_later_acknowledgements_mean_loss_before_any_timeout() -> None:
    a = reliable()
    for number in range(5):
        a.send(packet_of(number, 100), 0)
    a.receive(make_lp(b"", acks=[1, 2]), MS)
    assert a.take_frames() == []
    a.receive(make_lp(b"", acks=[3]), MS)
    (again,) = a.take_frames()
    lp = parse_lp(again)
    assert (lp.sequence, lp.tx_sequence) == (0, 5)
    a.receive(make_lp(b"", acks=[5]), 2 * MS)
    assert a.reliability is not None
    assert (a.reliability.repeated, a.reliability.acknowledged) == (1, 3)


def test_a_packet_is_given_up_after_three_repetitions() -> None:
    a = reliable()
    frames = a.send(packet_of(1, 2500), 0)
    assert len(frames) == 3
    a.receive(make_lp(b"", acks=[0, 1]), 0)
    repeats = 0
    now = 0
    while (deadline := a.next_deadline()) is not None:
        now = deadline
        a.wake(now)
        repeats += len(a.take_frames())
    assert repeats == MAX_REPEATS
    assert a.reliability is not None
    assert a.reliability.lost == 1
    assert not a.reliability._unacked


def test_the_first_rto_is_a_second_and_then_follows_the_round_trip() -> None:
    a = reliable()
    a.send(packet_of(1, 10), 0)
    assert a.next_deadline() == 1000 * MS
    a.receive(make_lp(b"", acks=[0]), 100 * MS)
    a.send(packet_of(2, 10), 200 * MS)
    assert a.next_deadline() == 200 * MS + 300 * MS  # 100 + 4 * 50 (RFC 6298, 2.2)
    a.receive(make_lp(b"", acks=[1]), 201 * MS)
    a.send(packet_of(3, 10), 201 * MS)
    assert a.next_deadline() is not None
    assert (a.next_deadline() or 0) >= 201 * MS + 200 * MS, "never below 200 ms"


def test_a_neighbour_that_starts_anew_is_heard() -> None:
    """It counts from where it began, and its packets are no repetitions of what it sent before."""
    b = reliable()
    for life in (1, 2):
        a = reliable(sequence=7)
        for number in range(10):
            for frame in a.send(packet_of(100 * life + number, 100), life):
                assert b.receive(frame, life) is not None
    assert b.reliability is not None
    assert b.reliability.duplicates == 0


def test_an_acknowledgement_from_before_a_restart_is_none() -> None:
    """It was meant for a frame of the link service before this one, and would hide that a frame was lost."""
    near, far = reliable(sequence=1000), reliable()
    far.receive(near.send(packet_of(1, 10), 0)[0], 0)
    far.wake(IDLE_ACK_NS)
    (late,) = far.take_frames()
    near.reset(5_000_000)
    near.send(packet_of(2, 10), 0)
    near.receive(late, 10 * MS)
    assert near.reliability is not None
    assert near.reliability.acknowledged == 0


def test_a_neighbour_that_never_acknowledges_costs_bounded_memory() -> None:
    a = reliable(9000)
    for number in range(10_000):
        a.send(packet_of(number, 8000), 0)
    assert a.reliability is not None
    assert a.reliability._bytes <= 1 << 22
    assert a.reliability.lost == 10_000 - len(a.reliability._unacked)


def test_what_a_stranger_sends_costs_bounded_memory() -> None:
    b = reliable()
    for number in range(40_000):
        b.receive(make_lp(b"\x05\x00", sequence=number, tx_sequence=number, acks=[number]), 0)
    assert b.reliability is not None
    assert len(b.reliability._known) <= 1 << 14
    assert len(b.reliability._acks) <= 1 << 12


@pytest.mark.parametrize("mark", [False, True])
def test_header_fields_go_with_the_first_fragment(mark: bool) -> None:
    """All of them, those too that this program does not know."""
    body = packet_of(1, 3000)
    packet = make_lp(
        body,
        pit_token=b"token",
        incoming_face=300,
        next_hop_face=301,
        no_cache=True,
        congestion_mark=int(mark),
        non_discovery=True,
        announcement=make_data(from_uri("/x"), b""),
        tip=5,
        limit=9,
    )
    a, b = reliable(), reliable()
    received = [b.receive(frame, 0) for frame in a.send(packet, 0)]
    whole = [each for each in received if each is not None]
    assert whole == [packet]
    plain_a, plain_b = LinkService(600), LinkService(600)
    received = [plain_b.receive(frame, 0) for frame in plain_a.send(packet)]
    assert [each for each in received if each is not None] == [packet]


def test_a_face_may_become_reliable_and_stop_being_so() -> None:
    face = Face(1)
    link = LinkService(1000, face=face, overhead=0)
    interest = make_interest(from_uri("/a"), nonce=1)
    assert link.send(interest, 0) == [interest]
    face.is_reliable = True
    link.configure()
    (frame,) = link.send(interest, 0)
    assert parse_lp(frame).tx_sequence == 0
    face.is_reliable = False
    link.configure()
    assert link.send(interest, 0) == [interest]
    assert link.next_deadline() is None
