"""Swarms of peers that speak the real protocols, in virtual time, over lossless connections.

Peers have stores that verify each message. Counts are taken from transmitted bodies, independent of the
protocols' own accounts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from base.units import MS
from ssb.message import Message
from ssb.replication.ebt import RemoteClocks
from ssb.replication.replication import Replication
from ssb.store.clocks import MemoryClocks
from ssb.store.feeds import FeedStore
from ssb.store.memory import MemoryFeeds

Protocol = Callable[[FeedStore, RemoteClocks, Iterable[str]], Replication]
"""Makes a peer's replication from its store, its store of others' clocks, and its wanted feeds."""

_ROOM = 1 << 16  # bytes of bodies taken at once


class Traffic(NamedTuple):
    """Contents of bodies.

    Attributes:
        messages: copies of messages.
        elements: feeds named in clocks.
        notes: feeds named in notes of EBT.
        message_bytes: of bodies with a message.
        header_bytes: of all other bodies.
    """

    messages: int = 0
    elements: int = 0
    notes: int = 0
    message_bytes: int = 0
    header_bytes: int = 0

    @property
    def named(self) -> int:
        """Elements of clocks and notes."""
        return self.elements + self.notes

    def plus(self, other: "Traffic") -> "Traffic":
        """Return the sums."""
        return Traffic(
            self.messages + other.messages,
            self.elements + other.elements,
            self.notes + other.notes,
            self.message_bytes + other.message_bytes,
            self.header_bytes + other.header_bytes,
        )

    def minus(self, other: "Traffic") -> "Traffic":
        """Return the differences."""
        return Traffic(*(a - b for a, b in zip(self, other, strict=True)))

    @classmethod
    def of(cls, bodies: Iterable[bytes]) -> "Traffic":
        """Return the contents of bodies."""
        messages = elements = notes = message_bytes = header_bytes = 0
        for body in bodies:
            if b'"signature"' in body:
                messages += 1
                message_bytes += len(body)
                continue
            header_bytes += len(body)
            # A hub's client reports its total progress: one element, though it names no feed.
            named = body.count(b".ed25519") + (b'"have"' in body)
            if b'"clock"' in body:
                elements += named
            else:
                notes += named
        return cls(messages, elements, notes, message_bytes, header_bytes)


class Peer:
    """A peer of a swarm.

    Attributes:
        name: its reference.
        feeds: its store.
        clocks: its record of others' positions.
        replication: its protocol.
        sent, received: on all connections.
        repeated: redundant copies of messages received.
        called, accepted: numbers of connections opened by it, and by others.
        links: its connections, by its number of each.
        stirred: new ones, and those with new input.
        alarms: times of pending output on some of them, ns.
    """

    def __init__(self, name: str, protocol: Protocol, wanted: Iterable[str]) -> None:
        self.name = name
        self.feeds: FeedStore = MemoryFeeds()
        self.clocks = MemoryClocks()
        self._protocol = protocol
        self.replication = protocol(self.feeds, self.clocks, wanted)
        self.sent = self.received = Traffic()
        self.repeated = 0
        self.called = self.accepted = 0
        self.links: dict[int, Link] = {}
        self.stirred: dict[int, None] = {}
        self.alarms: dict[int, int] = {}

    def restart(self) -> None:
        """Restart with the stored state."""
        self.replication = self._protocol(self.feeds, self.clocks, list(self.replication.wanted))

    def holds(self, message: Message) -> bool:
        """Return whether a message is in the store."""
        return self.feeds.tips().get(message.author, 0) >= message.sequence

    def tips(self) -> dict[str, int]:
        """Return its positions in the wanted feeds with messages."""
        tips = self.feeds.tips()
        return {feed: tips[feed] for feed in self.replication.wanted if tips.get(feed)}


@dataclass(eq=False, slots=True)
class Link:
    """A connection: its ends' indices in the swarm, their numbers of it, and its delay, ns."""

    ends: tuple[int, int]
    numbers: tuple[int, int]
    delay: int
    is_open: bool = True


class Swarm:
    """Peers and their connections. Bodies arrive in order, each `delay` later.

    Args:
        protocols: one for each peer, whose reference is @peer and its index.
        wanted: the feeds that all want from the start.

    Attributes:
        now: ns.
        peers: by index.
        links: the connections, by the lower index and the higher.
    """

    def __init__(self, protocols: Iterable[Protocol], wanted: Sequence[str] = ()) -> None:
        self.now = 0
        self.peers = [Peer(name_of(place), protocol, wanted) for place, protocol in enumerate(protocols)]
        self.links: dict[tuple[int, int], Link] = {}
        self._numbers = count(1)
        self._order = count()
        self._under_way: list[tuple[int, int, Link, int, list[bytes], Traffic]] = []
        self._touched: dict[int, None] = {}
        self._alarms: dict[int, int] = {}

    def connect(self, caller: int, other: int, delay: int = 0) -> None:
        """Connect two peers, unless already connected or identical."""
        key = (min(caller, other), max(caller, other))
        if caller == other or key in self.links:
            return
        link = Link((caller, other), (next(self._numbers), next(self._numbers)), delay)
        self.links[key] = link
        self.peers[caller].called += 1
        self.peers[other].accepted += 1
        for place, number, remote in zip(link.ends, link.numbers, reversed(link.ends), strict=True):
            peer = self.peers[place]
            peer.links[number] = link
            peer.stirred[number] = None
            peer.replication.open(number, self.peers[remote].name, is_caller=place == caller, now=self.now)
            self._touched[place] = None

    def cut(self, one: int, other: int) -> None:
        """Close the connection of two peers, if there is one; bodies in flight are lost."""
        link = self.links.pop((min(one, other), max(one, other)), None)
        if link is None:
            return
        link.is_open = False
        for place, number in zip(link.ends, link.numbers, strict=True):
            peer = self.peers[place]
            del peer.links[number]
            peer.alarms.pop(number, None)
            peer.replication.close(number, self.now)
            self._touched[place] = None

    def meet(self, caller: int, other: int) -> None:
        """Connect two peers until both have finished."""
        self.connect(caller, other)
        number = self.links[min(caller, other), max(caller, other)].numbers[0]
        self.run()
        assert self.peers[caller].replication.is_over(number)
        self.cut(caller, other)

    def restart(self, place: int) -> None:
        """Restart a peer with its stored state."""
        for link in list(self.peers[place].links.values()):
            self.cut(*link.ends)
        self.peers[place].restart()

    def publish(self, place: int, messages: Sequence[Message]) -> None:
        """Let a peer publish messages, all of which must be accepted."""
        peer = self.peers[place]
        for message in messages:
            refused = peer.replication.append([message], self.now, self.now / MS)
            assert not refused, refused
        self._touched[place] = None

    def touch(self, place: int) -> None:
        """Send a peer's pending output after an external change of its protocol."""
        self._touched[place] = None

    def run(self, until: int | None = None) -> int:
        """Let time pass until `until`, ns, or until no output is pending; return the rounds."""
        return sum(1 for _ in self.rounds(until))

    def rounds(self, until: int | None = None) -> Iterator[list[int]]:
        """Likewise, and yield after each round the peers that have received something.

        In a round all arrivals are processed, and then all output is sent. So without delays, and without
        waiting protocols, a round is a step along each connection.
        """
        while True:
            times = [self.now] if self._touched else []
            times += [entry[0] for entry in self._under_way[:1]]
            times += self._alarms.values()
            due = min(times, default=None)
            if due is None or (until is not None and due >= until):
                self.now = self.now if until is None else max(until, self.now)
                return
            self.now = max(due, self.now)
            reached = self._take_in()
            for place in [place for place, alarm in self._alarms.items() if alarm <= self.now]:
                self.peers[place].replication.wake(self.now)
                self._touched[place] = None
            touched, self._touched = self._touched, {}
            for place in touched:
                self._send_from(place)
            if reached:
                yield [*reached]

    def _take_in(self) -> dict[int, None]:
        """Process all arrivals; return the peers that have received something."""
        arrived = []
        while self._under_way and self._under_way[0][0] <= self.now:
            arrived.append(heappop(self._under_way))
        reached: dict[int, None] = {}
        for _, _, link, side, bodies, traffic in arrived:
            if not link.is_open:
                continue
            place = link.ends[side]
            peer = self.peers[place]
            stored = peer.feeds.end
            peer.replication.receive(link.numbers[side], bodies, self.now, self.now / MS)
            peer.received = peer.received.plus(traffic)
            peer.stirred[link.numbers[side]] = None
            peer.repeated += traffic.messages - (peer.feeds.end - stored)
            reached[place] = self._touched[place] = None
        return reached

    def _send_from(self, place: int) -> None:
        peer = self.peers[place]
        late = [number for number, due in peer.alarms.items() if due <= self.now]
        stirred = dict.fromkeys([*peer.stirred, *peer.replication.take_changed(), *late])
        peer.stirred = {}
        for number in stirred:
            peer.alarms.pop(number, None)
            if number not in peer.links:
                continue
            due = peer.replication.output_due(number)
            if due is not None and due <= self.now:
                bodies: list[bytes] = []
                while taken := peer.replication.take_output(number, _ROOM, self.now):
                    bodies += taken
                self._send(place, peer.links[number], bodies)
                due = peer.replication.output_due(number)
            if due is not None:
                peer.alarms[number] = due
        deadline = peer.replication.next_deadline()
        alarms = [*peer.alarms.values(), *([] if deadline is None else [deadline])]
        if alarms:
            self._alarms[place] = min(alarms)
        else:
            self._alarms.pop(place, None)

    def _send(self, place: int, link: Link, bodies: list[bytes]) -> None:
        if bodies:
            traffic = Traffic.of(bodies)
            self.peers[place].sent = self.peers[place].sent.plus(traffic)
            side = link.ends.index(place) ^ 1
            entry = (self.now + link.delay, next(self._order), link, side, bodies, traffic)
            heappush(self._under_way, entry)


def name_of(place: int) -> str:
    """Return the reference of the peer at an index."""
    return f"@peer{place}"
