"""Fetching a feed's past for late joiners: classic Interests for items that the cache has let go.

The live end of a feed comes from one upstream, and that one may have no past (a camera); a next hop that has
it need not be the one that is upstream (an archive, which follows the same live stream). So the past is
asked for by name, item by item, of each next hop in turn, and the hop that answers is asked again.
"""

from collections.abc import Sequence

from forwarder.lli.estimates import Rtt
from forwarder.wire.packet import Data

WINDOW = 16
"""Items asked for at a time: also the bound of what is held here out of order."""
MAX_ROUNDS = 3
"""Times that every next hop is asked for an item before it counts as gone."""


class Backfill:
    """The past of one feed.

    Attributes:
        held: items that have come, by number, until every downstream has had them.
        deadline: when to call wake(), ns; None if nothing is asked for.
        is_lost: nobody has what is asked for.
    """

    __slots__ = ("_asked", "_rtts", "_turn", "held", "is_lost")

    def __init__(self) -> None:
        self.held: dict[int, Data] = {}
        self.is_lost = False
        self._asked: dict[int, tuple[int, int, int]] = {}  # item -> (when it went out, due again, tries)
        self._turn = 0
        self._rtts: dict[int, Rtt] = {}

    @property
    def deadline(self) -> int | None:
        """When wake() is due, ns."""
        return min((due for _, due, _ in self._asked.values()), default=None)

    def wants(self, seq: int) -> bool:
        """Tell whether an item is asked for."""
        return seq in self._asked

    def want(self, first: int, last: int, hops: Sequence[int], now: int) -> list[tuple[int, int]]:
        """Want items `first` .. `last`, as far as the window goes; return (face, item) to ask for now."""
        self.held = {seq: data for seq, data in self.held.items() if seq >= first}
        last = min(last, first + WINDOW - 1)
        self._asked = {seq: asked for seq, asked in self._asked.items() if first <= seq <= last}
        new = [seq for seq in range(first, last + 1) if seq not in self._asked and seq not in self.held]
        return self._ask(dict.fromkeys(new, 0), hops, now)

    def wake(self, hops: Sequence[int], now: int) -> list[tuple[int, int]]:
        """Ask for what has not come, of the next hop in turn; return (face, item)."""
        due = {seq: tries + 1 for seq, (_, at, tries) in self._asked.items() if at <= now}
        if due:
            self._turn += 1
        return self._ask(due, hops, now)

    def refused(self, seq: int, now: int) -> None:
        """Take note of a Nack: the item is asked for elsewhere at once."""
        if seq in self._asked:
            sent, _, tries = self._asked[seq]
            self._asked[seq] = (sent, now, tries)

    def arrived(self, seq: int, data: Data, face: int, now: int) -> None:
        """Take in a verified item."""
        sent, _, tries = self._asked.pop(seq)
        if tries == 0:
            self._rtts.setdefault(face, Rtt()).sample(now - sent)
        self.held[seq] = data

    def _ask(self, tries: dict[int, int], hops: Sequence[int], now: int) -> list[tuple[int, int]]:
        if not hops:
            self.is_lost = self.is_lost or bool(tries)
            return []
        face = hops[self._turn % len(hops)]
        for seq, count in tries.items():
            self.is_lost = self.is_lost or count >= MAX_ROUNDS * len(hops)
            timeout = self._rtts.setdefault(face, Rtt()).timeout(count // len(hops))
            self._asked[seq] = (now, now + timeout, count)
        return [(face, seq) for seq in tries]
