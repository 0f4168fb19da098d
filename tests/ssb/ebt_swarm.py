"""A swarm of peers that speak EBT over connections with delay, in virtual time."""

from collections import deque
from collections.abc import Sequence
from itertools import count
from random import Random

from ssb.message import Message
from ssb.replication.ebt import DEFAULT_LIMITS, Ebt, Limits
from ssb.store.clocks import MemoryClocks
from ssb.store.feeds import FeedStore
from ssb.store.memory import MemoryFeeds

MS = 1_000_000
ROOM = 2_000


class SwarmPeer:
    """A peer: its store, what it wants and its connections' numbers."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self.limits = limits
        self.feeds: FeedStore = MemoryFeeds()
        self.clocks = MemoryClocks()
        self.ebt = Ebt(self.feeds, self.clocks, limits=limits)
        self.numbers = count(1)
        self.messages = 0
        self.notes = 0

    def publish(self, message: Message, now: int) -> None:
        """Append a message of this peer's own."""
        assert not self.feeds.append([message], 0.0).refused
        self.ebt.appended(message.author, now)

    def tips(self) -> dict[str, int]:
        return {feed: self.feeds.tips()[feed] for feed in self.ebt.wanted if self.feeds.tips().get(feed)}


class Wire:
    """A connection of two peers: bodies arrive in order, each side's `delay` later."""

    def __init__(self, caller: SwarmPeer, other: SwarmPeer, delay: int, now: int) -> None:
        self.ends = (caller, other)
        self.numbers = (next(caller.numbers), next(other.numbers))
        self.delay = delay
        self.queues: tuple[deque[tuple[int, list[bytes]]], ...] = (deque(), deque())
        caller.ebt.open(self.numbers[0], other.name, is_caller=True, now=now)
        other.ebt.open(self.numbers[1], caller.name, is_caller=False, now=now)

    def collect(self, now: int) -> None:
        """Take what both sides put out."""
        for side in (0, 1):
            end = self.ends[side]
            while bodies := end.ebt.take_output(self.numbers[side], ROOM, now):
                messages = sum(b'"signature"' in body for body in bodies)
                end.messages += messages
                end.notes += len(bodies) - messages
                self.queues[1 - side].append((now + self.delay, bodies))

    def deliver(self, now: int) -> None:
        """Hand over what has arrived."""
        for side in (0, 1):
            queue = self.queues[side]
            while queue and queue[0][0] <= now:
                self.ends[side].ebt.receive(self.numbers[side], queue.popleft()[1], now, now / MS)

    def deadline(self) -> int | None:
        return min((queue[0][0] for queue in self.queues if queue), default=None)

    def cut(self, now: int) -> None:
        """Close both ends; what is on its way is lost."""
        for end, number in zip(self.ends, self.numbers, strict=True):
            end.ebt.close(number, now)


class Swarm:
    """Peers and their connections."""

    def __init__(self, peers: int, limits: Limits = DEFAULT_LIMITS) -> None:
        self.now = 0
        self.peers = [SwarmPeer(f"@peer{number}", limits) for number in range(peers)]
        self.wires: dict[tuple[int, int], Wire] = {}

    def connect(self, caller: int, other: int, delay: int = 5 * MS) -> None:
        """Connect two peers, unless they are."""
        key = (min(caller, other), max(caller, other))
        if caller != other and key not in self.wires:
            self.wires[key] = Wire(self.peers[caller], self.peers[other], delay, self.now)

    def cut(self, one: int, other: int) -> None:
        """Cut the connection of two peers, if there is one."""
        wire = self.wires.pop((min(one, other), max(one, other)), None)
        if wire is not None:
            wire.cut(self.now)

    def restart(self, number: int) -> None:
        """Start a peer anew on what it has stored."""
        for other in range(len(self.peers)):
            self.cut(number, other)
        peer = self.peers[number]
        peer.ebt = Ebt(peer.feeds, peer.clocks, list(peer.ebt.wanted), peer.limits)

    def run(self, until: int) -> None:
        """Let time pass; between two steps, everything that is due has happened."""
        while True:
            for wire in self.wires.values():
                wire.deliver(self.now)
            for peer in self.peers:
                peer.ebt.wake(self.now)
            for wire in self.wires.values():
                wire.collect(self.now)
            deadlines = [wire.deadline() for wire in self.wires.values()]
            deadlines += [peer.ebt.next_deadline() for peer in self.peers]
            deadlines += [
                end.ebt.output_due(number)
                for wire in self.wires.values()
                for end, number in zip(wire.ends, wire.numbers, strict=True)
            ]
            due = min((time for time in deadlines if time is not None), default=until)
            if due >= until:
                self.now = until
                return
            self.now = max(due, self.now)

    def publish(self, number: int, messages: Sequence[Message]) -> None:
        """Have a peer publish messages."""
        for message in messages:
            self.peers[number].publish(message, self.now)


def connect_all(swarm: Swarm, random: Random) -> None:
    """Connect the peers in a random tree."""
    for number in range(1, len(swarm.peers)):
        swarm.connect(number, random.randrange(number))
