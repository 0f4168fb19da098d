"""Peers that speak a rung of the ladder, joined by connections without delay or loss."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count

from ssb.message import Message
from ssb.replication.replication import Replication
from ssb.store.memory import MemoryFeeds

ROOM = 1 << 30


class RungPeer:
    """A peer; `rung` makes its replication from its store."""

    def __init__(
        self, name: str, rung: Callable[[MemoryFeeds], Replication], messages: Sequence[Message] = ()
    ) -> None:
        self.name = name
        self.feeds = MemoryFeeds()
        self.feeds.append([*messages], 0.0)
        self.rung = rung(self.feeds)
        self.numbers = count(1)
        self.copies = 0

    def publish(self, message: Message) -> None:
        self.rung.append([message], 0, 0.0)

    def holds(self, message: Message) -> bool:
        return self.feeds.tips().get(message.author, 0) >= message.sequence


class Link:
    """A connection of two peers."""

    def __init__(self, caller: RungPeer, called: RungPeer) -> None:
        self.peers = (caller, called)
        self.numbers = (next(caller.numbers), next(called.numbers))
        for side in (0, 1):
            other = self.peers[1 - side].name
            self.peers[side].rung.open(self.numbers[side], other, is_caller=side == 0, now=0)

    def take(self) -> list[tuple[int, list[bytes]]]:
        """Return what each side has to send: the other side, and the bodies."""
        taken = []
        for side in (0, 1):
            peer, number = self.peers[side], self.numbers[side]
            if peer.rung.output_due(number) is not None:
                bodies = peer.rung.take_output(number, ROOM, 0)
                peer.copies += sum(b'"signature"' in body for body in bodies)
                taken.append((1 - side, bodies))
        return taken

    def give(self, side: int, bodies: list[bytes]) -> None:
        self.peers[side].rung.receive(self.numbers[side], bodies, 0, 0.0)

    def close(self) -> None:
        for peer, number in zip(self.peers, self.numbers, strict=True):
            peer.rung.close(number, 0)


def rounds(links: Iterable[Link], after: Callable[[int], None] = lambda number: None) -> int:
    """Let all sides send at once, and receive, until nobody has anything to say; return how often."""
    for number in count(1):
        under_way = [(link, side, bodies) for link in links for side, bodies in link.take()]
        if not under_way:
            return number - 1
        for link, side, bodies in under_way:
            link.give(side, bodies)
        after(number)
    raise AssertionError


def meet(caller: RungPeer, called: RungPeer) -> None:
    """Let two peers connect, and part when both have done what there was to do."""
    link = Link(caller, called)
    rounds([link])
    assert caller.rung.is_over(link.numbers[0])
    link.close()
