"""Fetching a feed's past for late joiners: classic Interests for items that the cache has let go.

The live end of a feed comes from one upstream, and that one may have no past (a camera); a next hop that has
it need not be the one that is upstream (an archive, which follows the same live stream). So the past is
asked for by name, item by item, of each next hop in turn, and the hop that answers is asked again.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from forwarder.lli.estimates import Rtt
from forwarder.wire.packet import Data

WINDOW: Final = 16
"""Items asked for at a time: also the bound of what is held here out of order."""
MAX_ROUNDS: Final = 3
"""Times that every next hop is asked for an item before it counts as gone."""


class _Asked(NamedTuple):
    """An item asked for: of whom, when (ns), when that has been in vain (ns), how often before, and whether
    of the same hop."""

    face: int
    sent: int
    due: int
    tries: int
    is_again: bool


class Backfill:
    """The past of one feed.

    Args:
        rtts: returns what is known of the way through a face.
        face: the next hop that had the past last time.
        is_gone: nobody had it the last time that it was looked for: one item is asked for, once of each hop.

    Attributes:
        held: items that have come, by number, until every downstream has had them.
        deadline: when to call wake(), ns; None if nothing is asked for.
        is_lost: no next hop has what is asked for.
    """

    __slots__ = ("_asked", "_face", "_rounds", "_rtts", "_window", "held", "is_lost")

    def __init__(self, rtts: Callable[[int], Rtt], face: int | None = None, *, is_gone: bool = False) -> None:
        self.held: dict[int, Data] = {}
        self.is_lost = False
        self._asked: dict[int, _Asked] = {}
        self._face = face
        self._rtts = rtts
        self._window, self._rounds = (1, 1) if is_gone else (WINDOW, MAX_ROUNDS)

    @property
    def deadline(self) -> int | None:
        """When wake() is due, ns."""
        return min((asked.due for asked in self._asked.values()), default=None)

    def wants(self, seq: int) -> bool:
        """Return whether an item has been requested and has not come."""
        return seq in self._asked

    def want(self, first: int, last: int, hops: Sequence[int], now: int) -> list[tuple[int, int]]:
        """Request items `first` .. `last` within the window; return (face, item) to send now."""
        self.held = {seq: data for seq, data in self.held.items() if seq >= first}
        last = min(last, first + self._window - 1)
        self._asked = {seq: asked for seq, asked in self._asked.items() if first <= seq <= last}
        new = [seq for seq in range(first, last + 1) if seq not in self._asked and seq not in self.held]
        return self._ask(dict.fromkeys(new, 0), hops, now)

    def wake(self, hops: Sequence[int], now: int) -> list[tuple[int, int]]:
        """Request the items that have not come, of the next hop in turn; return (face, item)."""
        due = {seq: asked.tries + 1 for seq, asked in self._asked.items() if asked.due <= now}
        if due and hops:
            failed = {self._asked[seq].face for seq in due}
            others = [face for face in hops if face not in failed]
            if others:
                last = max((hops.index(face) for face in failed if face in hops), default=-1)
                self._face = next((face for face in others if hops.index(face) > last), others[0])
        return self._ask(due, hops, now)

    def stop_at(self, fork: int) -> None:
        """Drop the items from a fork on."""
        self.held = {seq: data for seq, data in self.held.items() if seq < fork}

    def refused(self, seq: int, now: int) -> None:
        """Take note of a Nack: the item is asked for elsewhere at once."""
        if seq in self._asked:
            self._asked[seq] = self._asked[seq]._replace(due=now)

    def arrived(self, seq: int, data: Data, face: int, now: int) -> None:
        """Take in a verified item."""
        asked = self._asked.pop(seq)
        if asked.face == face and not asked.is_again:
            self._rtts(face).sample(now - asked.sent)
        self._face = face
        self._window, self._rounds = WINDOW, MAX_ROUNDS
        self.held[seq] = data

    def _ask(self, tries: dict[int, int], hops: Sequence[int], now: int) -> list[tuple[int, int]]:
        if not hops:
            self._asked.clear()  # until there is one
            return []
        face = self._face if self._face is not None and self._face in hops else hops[0]
        for seq, count in tries.items():
            self.is_lost = self.is_lost or count >= self._rounds * len(hops)
            rounds = count // len(hops)
            timeout = self._rtts(face).timeout(rounds)
            self._asked[seq] = _Asked(face, now, now + timeout, count, is_again=rounds > 0)
        return [(face, seq) for seq in tries]
