"""A node's links: up and down, their known rate, catch-ups that are paced, answers that are marked."""

from collections.abc import Iterator
from random import Random

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.links.link import LinkService
from forwarder.wire.feed import feed_name, item_name, native_content
from forwarder.wire.lp import make_feed_state, make_lp, parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import (
    DATA,
    ED25519,
    INTEREST,
    make_data,
    make_interest,
    parse_data,
    parse_interest,
)
from ssb.keys import Identity

WRITER = Identity.from_seed(b"w" * 32)
FEED = feed_name(from_uri("/cam"), WRITER.public_key)


def native_feed(items: int, size: int) -> Iterator[bytes]:
    link = b""
    for seq in range(1, items + 1):
        content = native_content(link, bytes(size))
        wire = make_data(item_name(FEED, seq), content, signature_type=ED25519, sign=WRITER.sign)
        link = parse_data(wire).digest()
        yield wire


ITEMS = list(native_feed(40, 900))


class Node:
    """A host with links to the source of /cam and to two others; all links work both ways."""

    def __init__(self, rate_mbit: float | None = None, mtu: int = 1500) -> None:
        self.host = Host(Forwarder(rng=Random(1)))
        self.up = self.host.add_link()
        self.down, self.other = (self.host.add_link(mtu, rate_mbit) for _ in range(2))
        self.host.forwarder.fib.add(from_uri("/cam"), self.up)
        self.now = 0
        self.nonce = 0
        self.ends = {face: LinkService(mtu) for face in (self.up, self.down, self.other)}

    def give(self, face: int, packet: bytes) -> list[str]:
        for frame in self.ends[face].send(packet):
            self.host.receive(face, frame, None, self.now)
        return self.out()

    def lli(self, face: int, first: int, credit: int, lifetime_ms: int = 60_000) -> list[str]:
        self.nonce += 1
        name = item_name(FEED, first)
        packet = make_interest(
            name, nonce=self.nonce, lifetime_ms=lifetime_ms, hop_limit=9, send_credit=credit
        )
        return self.give(face, packet)

    def ask(self, face: int, uri: str) -> list[str]:
        self.nonce += 1
        return self.give(face, make_interest(from_uri(uri), nonce=self.nonce, lifetime_ms=4000))

    def out(self) -> list[str]:
        lines = []
        for face, frame, _ in self.host.take_outputs():
            packet = self.ends[face].receive(frame, self.now)
            if packet is not None:
                lines.append(f"{face} {told(packet)}")
        return lines

    def wait_for(self, end: int) -> list[tuple[int, str]]:
        """Let time pass, waking the node whenever that is due; return (when, what) of all that is sent."""
        sent = []
        while (deadline := self.host.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.host.wake(self.now)
            sent += [(self.now, line) for line in self.out()]
        self.now = end
        return sent

    def fill(self, items: int) -> None:
        """Let the node have items of the feed: a downstream on its other link has followed it."""
        self.lli(self.other, 1, 40)
        self.give(self.up, make_feed_state(FEED, tip=0, limit=40))
        for wire in ITEMS[:items]:
            self.give(self.up, make_lp(wire, tip=items, limit=40))
            self.wait_for(self.now + 200 * MS)


def told(packet: bytes) -> str:
    header = parse_lp(packet)
    if not header.fragment:
        return "idle"
    mark = " marked" if header.congestion_mark else ""
    if header.fragment[0] == INTEREST:
        interest = parse_interest(header.fragment)
        kind = "nack" if header.nack_reason is not None else "interest"
        return f"{kind} {to_uri(interest.name).rpartition('/')[2]}"
    assert header.fragment[0] == DATA
    return f"data {to_uri(parse_data(header.fragment).name).rpartition('/')[2]}{mark}"


def test_a_catch_up_is_paced_to_the_link() -> None:
    node = Node(rate_mbit=8.0)  # a byte a microsecond
    node.fill(30)
    start = node.now
    sent = [(node.now, line) for line in node.lli(node.down, 1, 40)]
    sent += node.wait_for(node.now + 1000 * MS)
    times = [at - start for at, line in sent if line.startswith(f"{node.down} data")]
    assert len(times) == 30
    size = len(ITEMS[0]) + 42
    assert times[-1] >= 28 * size * 1000, "faster than the link"
    assert times[-1] <= 33 * size * 1000, "slower than the link, with nothing else on it"
    assert max(times.count(at) for at in times) <= 4, "a burst"


def test_a_node_that_does_not_know_the_rate_sends_at_once() -> None:
    node = Node()
    node.fill(30)
    assert len([line for line in node.lli(node.down, 1, 40) if "data" in line]) == 30


def test_a_live_item_does_not_wait() -> None:
    node = Node(rate_mbit=8.0)
    node.fill(3)
    node.lli(node.down, 4, 40)
    node.now += 1000 * MS
    assert f"{node.down} data seq=4" in node.give(node.up, ITEMS[3])


def test_a_catch_up_ends_with_its_cancellation() -> None:
    node = Node(rate_mbit=8.0)
    node.fill(30)
    node.lli(node.down, 1, 40)
    node.lli(node.down, 1, 0)
    assert [line for _, line in node.wait_for(node.now + 1000 * MS) if line.startswith(str(node.down))] == []


def test_answers_that_make_a_queue_are_marked() -> None:
    node = Node(rate_mbit=8.0)
    node.host.forwarder.fib.add(from_uri("/file"), node.up)
    for n in range(30):
        node.ask(node.down, f"/file/{n}")
    marks = []
    for n in range(30):
        marks += node.give(node.up, make_data(from_uri(f"/file/{n}"), bytes(950)))
    assert [line.endswith("marked") for line in marks] == sorted(line.endswith("marked") for line in marks)
    assert marks[0].endswith("data 0")
    assert marks[-1].endswith("data 29 marked")
    node.now += 1000 * MS
    node.ask(node.down, "/file/a")
    assert node.give(node.up, make_data(from_uri("/file/a"), bytes(950))) == [f"{node.down} data a"]


def test_a_mark_from_further_up_is_passed_on() -> None:
    node = Node()
    node.host.forwarder.fib.add(from_uri("/file"), node.up)
    node.ask(node.down, "/file/1")
    marked = make_lp(make_data(from_uri("/file/1"), b""), congestion_mark=1)
    assert node.give(node.up, marked) == [f"{node.down} data 1 marked"]


def test_a_catch_up_and_a_file_share_the_link() -> None:
    """The catch-up takes its share and no more, and the file's answers are not marked for it."""
    node = Node(rate_mbit=8.0)
    node.host.forwarder.fib.add(from_uri("/file"), node.up)
    node.fill(40)
    lines = [(node.now, line) for line in node.lli(node.down, 1, 40)]
    start = node.now
    for n in range(20):
        node.ask(node.down, f"/file/{n}")
        answers = node.give(node.up, make_data(from_uri(f"/file/{n}"), bytes(900)))
        lines += [(node.now, line) for line in answers]
        lines += node.wait_for(node.now + 2 * MS)
    items = [at for at, line in lines if "data seq=" in line and line.startswith(str(node.down))]
    assert 12 <= len(items) <= 26  # about half of the 40 packets that fit into 40 ms
    assert not any("marked" in line for at, line in lines if at > start + 5 * MS)


def test_a_link_that_is_down_is_no_way_and_its_state_goes() -> None:
    node = Node()
    node.lli(node.down, 1, 8)
    node.lli(node.other, 1, 8)
    assert node.host.forwarder.pit_entries() == 1
    node.host.set_link(node.other, False, node.now)
    assert node.out() == []
    assert node.give(node.up, ITEMS[0])[:1] == [f"{node.down} data seq=1"]
    node.host.set_link(node.up, False, node.now)
    assert node.out() == []
    assert node.ask(node.down, "/cam/x") == [f"{node.down} nack x"]
    node.host.set_link(node.down, False, node.now)
    assert node.host.forwarder.pit_entries() == 0
    assert node.host.next_deadline() is None


def test_a_link_that_is_up_again_is_used_again() -> None:
    node = Node()
    for up in (False, False, True):
        node.host.set_link(node.up, up, node.now)
    assert node.lli(node.down, 1, 8) == [f"{node.up} interest seq=1"]


def test_a_route_that_is_removed_while_its_link_is_down_does_not_come_back() -> None:
    node = Node()
    node.host.set_link(node.up, False, node.now)
    node.host.forwarder.fib.remove(from_uri("/cam"), node.up)
    node.host.set_link(node.up, True, node.now)
    assert node.lli(node.down, 1, 8) == [], "it waits"


def test_half_a_packet_is_forgotten_with_its_link() -> None:
    node = Node(mtu=300)
    node.host.forwarder.fib.add(from_uri("/cam"), node.down, 5)
    node.lli(node.other, 1, 8)
    frames = LinkService(300).send(ITEMS[0])
    assert len(frames) > 2
    for frame in frames[:-1]:
        node.host.receive(node.down, frame, None, node.now)
    node.host.set_link(node.down, False, node.now)
    node.host.set_link(node.down, True, node.now)
    node.out()
    node.host.receive(node.down, frames[-1], None, node.now)
    assert node.out() == []
    for frame in frames:
        node.host.receive(node.down, frame, None, node.now)
    assert "data seq=1" in " ".join(node.out())


def test_an_idle_answer_passes_a_link_of_the_smallest_mtu() -> None:
    """However long the feed's name is, it takes fragments that a receiver can put together."""
    sender, receiver = LinkService(256), LinkService(256)
    feed = feed_name(from_uri("/" + "/".join("x" * 40 for _ in range(8))), WRITER.public_key)
    state = make_feed_state(feed, tip=3, limit=9, first=2)
    packets = [packet for frame in sender.send(state) if (packet := receiver.receive(frame, 0)) is not None]
    assert len(packets) == 1
    header = parse_lp(packets[0])
    assert (header.feed, header.tip, header.limit, header.first) == (feed, 3, 9, 2)


def test_an_item_with_state_passes_a_link_in_fragments() -> None:
    sender, receiver = LinkService(300), LinkService(300)
    whole = make_lp(ITEMS[0], tip=3, limit=9, congestion_mark=1)
    frames = sender.send(whole)
    assert len(frames) > 3
    (packet,) = [packet for frame in frames if (packet := receiver.receive(frame, 0)) is not None]
    assert packet == whole
