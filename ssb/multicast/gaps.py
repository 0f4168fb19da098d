"""The numbers that have come of a channel, those that lack, and when to ask for them.

Theory of operation. A lost request or repair shows by silence alone, so a node asks again after a time-out,
until the segment comes or is gone. The time-out follows measured round trips (RFC 6298, section 2). A
neighbour that has a segment answers sooner than one that has to ask for it in turn, so these are two round
trips. If a segment was asked for several times, nobody knows which request was answered, so the answer
measures nothing (Karn's algorithm, section 3). But if the segment then comes once more, two requests were
answered: the time-out was too short, and the first answer is measured from the first request (as D-SACK
tells TCP of needless repetitions, RFC 2883). Losses of a link are no congestion here, so the first requests
for a segment do not back off; further ones do, as the way may be cut.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from base.round_trip import RoundTrip
from base.timers import Timers
from base.units import MS, SECOND
from ssb.multicast.packets import MOST_BEFORE

AT_ONCE: Final = 64
"""Lacking segments, the oldest, that a node asks for at one time: what comes back has to fit into queues."""
MOST_AHEAD: Final = 1 << 14
"""Segments that may be here beyond one that lacks."""
MOST_ASKED: Final = 1 << 12
"""Segments that are asked for, those that others lack included."""
UNMEASURED: Final = SECOND // 4
"""Time-out of a request or a join before a round trip is known, ns."""
_LONGEST: Final = 4 * SECOND
"""Longest time-out of a request, ns."""
_SAME: Final = 3
"""Requests for a segment that are followed by the same time-out; it doubles after each further one."""
_MOST_DOUBLINGS: Final = 6
_MOST_RISE: Final = 8
"""A round trip measured from repeated requests is so many time-outs at most: the segment may have come after
an outage, and its second copy from a link that doubles frames.
"""


class Patience(NamedTuple):
    """How long a node waits before it asks, ns.

    Attributes:
        reorder: for a segment that the neighbour has sent: a later one may have overtaken it.
        suppression: for one that the neighbour lacks as well, and asks for itself.
    """

    reorder: int = 2 * MS
    suppression: int = 100 * MS


class Gaps:
    """What has come of a channel, and what is asked for.

    Args:
        floor: the segments up to it are here, or not wanted.
        patience: see Patience.
        trip: a round trip to the neighbour that is asked, ns; None if none was measured.

    Attributes:
        floor: all segments up to it are here or gone.
        newest: the newest that the source is known to have, or the floor if that is later.
    """

    def __init__(self, floor: int, patience: Patience, trip: int | None = None) -> None:
        self.floor = self.newest = floor
        self._patience = patience
        self._above: set[int] = set()
        self._asked: dict[int, tuple[int, int]] = {}  # how often, and when first, ns
        self._near: set[int] = set()  # those that the neighbour has
        self._due: Timers[int] = Timers()
        self._doubtful: dict[int, tuple[RoundTrip, int]] = {}  # answers to repeated requests, ns
        self.forget_trips()
        if trip is not None:
            self._near_trip.sample(trip)

    @property
    def asked(self) -> int:
        """Segments that this node asks for, or is about to."""
        return len(self._due)

    @property
    def ahead(self) -> int:
        """Segments that are here beyond one that lacks."""
        return len(self._above)

    def lacks(self, number: int) -> bool:
        """Whether a segment is known to exist, and has not come."""
        return self.floor < number <= self.newest and number not in self._above

    def lacking(self) -> Iterator[int]:
        """Yield the segments that lack, the oldest first."""
        return (each for each in range(self.floor + 1, self.newest + 1) if each not in self._above)

    def before(self, number: int) -> int:
        """Return how many segments right before one do not lack here, MOST_BEFORE at most."""
        if number - 1 <= self.floor:
            return MOST_BEFORE
        at = number - 1
        while number - 1 - at < MOST_BEFORE and at > self.floor and at in self._above:
            at -= 1
        return MOST_BEFORE if at <= self.floor else number - 1 - at

    def take(self, number: int, before: int, now: int) -> bool:
        """Note that a segment has come; return whether it lacked, and is not too far ahead."""
        is_new = number > self.newest or self.lacks(number)
        self.settle(number, now)
        if not is_new or number > self.floor + MOST_AHEAD:
            return False
        self._above.add(number)
        self.newest = max(self.newest, number)
        self._advance()
        self._seek(number, before, now)
        return True

    def learn(self, newest: int, before: int, now: int) -> None:
        """Note the newest segment of the source; `before` is that of its heartbeat."""
        self.newest = max(self.newest, newest)
        self._seek(newest + 1, before, now)

    def forget(self, oldest: int) -> None:
        """Give up the segments before one: nobody has them any longer."""
        if oldest - 1 > self.floor:
            self.floor = oldest - 1
            self.newest = max(self.newest, self.floor)
            self._above = {each for each in self._above if each > self.floor}
            self._near = {each for each in self._near if each > self.floor}
            self._advance()
        for number in [each for each in self._due if each < oldest]:
            self.abandon(number)

    def want(self, number: int, at: int) -> None:
        """Ask for a segment at a time, ns, unless it was asked for, or will be sooner."""
        due = self._due.get(number)
        if number not in self._asked and (due is None or at < due) and len(self._due) < MOST_ASKED:
            self._due.set(number, at)

    def settle(self, number: int, now: int) -> None:
        """Note that a segment has come that was asked for, if it was."""
        self._due.set(number, None)
        tries, since = self._asked.pop(number, (0, 0))
        trip = self._trip(number)
        self._near.discard(number)
        if tries == 1:
            trip.sample(now - since)
        elif tries:
            self._doubtful[number] = trip, now - since
            if len(self._doubtful) > AT_ONCE:
                del self._doubtful[next(iter(self._doubtful))]
        elif (answered := self._doubtful.pop(number, None)) is not None:
            trip, took = answered
            trip.sample(min(took, _MOST_RISE * trip.timeout()))

    def abandon(self, number: int) -> None:
        """Ask for a segment no longer."""
        self._due.set(number, None)
        self._near.discard(number)
        self._asked.pop(number, None)

    def renew(self, now: int) -> None:
        """Ask at once for all that was asked for: another neighbour leads to the source now."""
        for number in self._asked:
            self._due.set(number, now)
        self._asked.clear()
        self._near.clear()

    def forget_trips(self) -> None:
        """Forget the round trips: another neighbour is asked from now on."""
        self._near_trip, self._far_trip = (
            RoundTrip(UNMEASURED, 2 * self._patience.reorder, _LONGEST, margin=10 * MS) for _ in range(2)
        )
        self._doubtful.clear()

    def next_deadline(self) -> int | None:
        """Return when something is to be asked for, ns."""
        return self._due.next_deadline()

    def ask(self, now: int) -> list[int]:
        """Return what to ask for now; each is asked for again after a time-out."""
        found = self._due.expire(now)
        for number in found:
            tries, since = self._asked.get(number, (0, now))
            tries += 1
            self._asked[number] = tries, since
            pause = self._trip(number).timeout() << min(max(tries - _SAME, 0), _MOST_DOUBLINGS)
            self._due.set(number, now + min(pause, _LONGEST))
        return found

    def _trip(self, number: int) -> RoundTrip:
        return self._near_trip if number in self._near else self._far_trip

    def _advance(self) -> None:
        while self.floor + 1 in self._above:
            self.floor += 1
            self._above.remove(self.floor)
        self.newest = max(self.newest, self.floor)

    def _seek(self, number: int, before: int, now: int) -> None:
        """Ask for what lacks; the neighbour has or had `before` segments before a number."""
        if self.floor == self.newest:
            return
        least = number - before if before < MOST_BEFORE else 0
        for each in islice(self.lacking(), AT_ONCE):
            if least <= each < number:
                if each not in self._near:  # if it was asked for, the repair is lost, or just behind this
                    self.abandon(each)
                    self._near.add(each)
                self.want(each, now + self._patience.reorder)
            else:
                self.want(each, now + self._patience.suppression)
