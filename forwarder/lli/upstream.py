"""Requests of one holder to its upstream for one feed: the sending side of send credit.

Theory of operation. Every LLI is answered: by items, or at once by a FeedState if there is nothing to push
yet. So a holder knows whether its upstream lives, whether it pushes at all (an upstream that has never heard
of LLIs answers with a bare item, and is then pulled from, item by item), and how far it has got. The state
machine is TRANSITIONS; each state has one alarm:

state      alarm                                        what it does
IDLE       none
ASKING     recovery time-out, doubling (RFC 6298)       repeats the LLI; after MAX_TRIES: SILENT
OPEN       longest silence to be expected, doubling;    probes with the LLI: a lost tail shows no gap; on a
                                                        link that Hellos watch, has the link checked, once
           half the lifetime of what was asked          repeats the LLI, to outlive it; not where Hellos do
REPAIRING  reordering delay, then recovery time-out     asks for what is missing
PULLING    each Interest's lifetime, or half of it      asks for the first one again
SILENT     none: the owner leaves it at once            pulls, or turns to another next hop

A neighbour that is known to speak this protocol is never SILENT: whether it lives is a matter of the link.
"""

from collections.abc import Iterable, Iterator
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from base.units import MS, NEVER
from forwarder.lli.estimates import INITIAL_TIMEOUT, MAX_TIMEOUT, Rtt, Window
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import item_name
from forwarder.wire.packet import MOST_LIFETIME_MS, SENT_HOP_LIMIT, make_interest

MAX_TRIES: Final = 4
"""LLIs, or rounds of repair, without any sign of life, before another upstream is better."""
IDLE_PROBE: Final = 1_000 * MS
"""First time-out of a holder that has no reason to believe that anything is missing, at most."""
MAX_IDLE_PROBES: Final = 3
"""Doublings of that time-out at most: what looks like an idle feed may be a link that loses a lot."""
_LEAST_GAIN: Final = 8
_MOST_DOUBLINGS: Final = 10  # from a shorter one
_LOSSES_REMEMBERED: Final = 64
PULL_WINDOW: Final = 32
"""Items asked for at a time of an upstream that cannot push."""
PULL_LIFETIME_MS: Final = 4_000
_SOON: Final = 500 * MS
_EARLY_IN_A_ROW: Final = 8


class Recovery(Enum):
    """Recovery mode: requests for missing items.

    IN_NETWORK: an LLI for each run of missing items, for just these.
    GO_BACK_N: one LLI from the first missing item on, to the end of the credit.
    SELECTIVE: a classic Interest for each missing item.
    NONE: not at all; a relay passes on what it has, and the consumer asks.
    """

    IN_NETWORK = "in-network"
    GO_BACK_N = "go-back-n"
    SELECTIVE = "selective"
    NONE = "none"


# Texts, as these are keys that each packet looks up: C hashes texts.
class State(StrEnum):
    """State of a holder towards its upstream."""

    IDLE = "idle"
    ASKING = "asking"
    OPEN = "open"
    REPAIRING = "repairing"
    PULLING = "pulling"
    SILENT = "silent"


class Event(StrEnum):
    """Events of the state machine."""

    ASK = "an LLI is sent"
    ANSWER = "FeedState, or an item that came with it"
    BARE = "the first answer is an item without FeedState"
    ASSUME = "nobody answers: taken for an upstream that cannot push"
    GAP = "items are missing that the upstream has"
    FILLED = "the last missing item has come"
    UNANSWERED = "MAX_TRIES without a sign of life"
    SPENT = "no credit left"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.IDLE: {Event.ASK: State.ASKING, Event.ASSUME: State.PULLING},
    State.ASKING: {
        Event.ANSWER: State.OPEN,
        Event.BARE: State.PULLING,
        Event.GAP: State.REPAIRING,
        Event.UNANSWERED: State.SILENT,
        Event.SPENT: State.IDLE,
    },
    State.OPEN: {
        Event.ASK: State.ASKING,
        Event.GAP: State.REPAIRING,
        Event.SPENT: State.IDLE,
    },
    State.REPAIRING: {
        Event.FILLED: State.ASKING,
        Event.UNANSWERED: State.SILENT,
        Event.SPENT: State.IDLE,
    },
    State.PULLING: {
        Event.ANSWER: State.OPEN,
        Event.UNANSWERED: State.SILENT,
    },
    State.SILENT: {
        Event.ANSWER: State.OPEN,
        Event.BARE: State.PULLING,
        Event.ASSUME: State.PULLING,
        Event.SPENT: State.IDLE,
    },
}
"""The state machine of a holder; an event that is not in a state's row leaves it where it is."""


class Lli(NamedTuple):
    """An Interest to be sent for items `first` .. `first + credit - 1`; a classic one if `credit` is None."""

    first: int
    credit: int | None
    lifetime_ms: int

    def packet(
        self,
        feed: bytes,
        nonce: int,
        hop_limit: int = SENT_HOP_LIMIT,
        known: Evidence | None = None,
        *,
        is_aware: bool = False,
    ) -> bytes:
        """Build the packet, for the feed of that name; see Interest.known and is_aware."""
        return make_interest(
            item_name(feed, self.first),
            nonce=nonce,
            lifetime_ms=self.lifetime_ms,
            hop_limit=hop_limit,
            send_credit=self.credit,
            known=known,
            is_aware=is_aware,
        )


class Upstream:
    """State towards one upstream.

    Args:
        first: the first item that is wanted.
        rtt: what is known of the way there; may be shared among feeds.
        max_lifetime_ms: InterestLifetime of an LLI at most.
        recovery: how to ask for what is missing.

    Attributes:
        state: see State.
        head: every item before it is here, or known to be missing.
        limit: the last item asked for.
        until: how long the holder wants items, ns.
        expiry: when the upstream may forget, ns; it keeps what an earlier LLI has granted for longer.
        granted_ms: InterestLifetime of the last LLI.
        known_tip: the newest item that the upstream is known to hold, 0 if it never said.
        window: how much of the credit is in use.
        is_watched: Hellos watch the link: they show that it lives, and what was lost last.
        is_certain: it speaks this protocol, and goes on answering as long as its face is there.
        is_fed: the upstream has offered evidence that is of use, so that Hellos renew the lifetime, too.
        renews_alone: they do not: the LLI is repeated.
        offered: evidence that the upstream has offered, None if it knows of no source.
        known_sent, hop_limit: evidence that the last LLI has named, and the hops that it had left.
        is_corrected: it was named anew, as an offer was of no use.
        proof_due: from when on the proof of a number may be asked for once more, ns.
        wants_check: the upstream is to be asked by a Hello whether anything was lost.
        back_at: when a rewind that was put off may go out, ns.
        deadline: when to call wake(), ns.
    """

    def __init__(
        self,
        first: int,
        rtt: Rtt,
        max_lifetime_ms: int = MOST_LIFETIME_MS,
        recovery: Recovery = Recovery.IN_NETWORK,
    ) -> None:
        self.state = State.IDLE
        self.head = first
        self.limit = first - 1
        self.until = 0
        self._credit = 0  # most items that the holder has wanted at a time
        self.expiry = self._latest_expiry = 0
        self.known_tip = 0
        self.window = Window()
        self.is_watched = self.is_certain = self.is_fed = False
        self.renews_alone = False
        self.offered: Evidence | None = None
        self.known_sent: Evidence | None = None
        self.hop_limit = SENT_HOP_LIMIT
        self.is_corrected = False
        self.proof_due = 0
        self.wants_check = False
        self.back_at = NEVER
        self._is_checked = False  # nothing was lost, as the upstream has said since the last item
        self.deadline = NEVER
        self._rtt = rtt
        self._max_lifetime_ms = max_lifetime_ms
        self._recovery = recovery
        self._missing: dict[int, int] = {}  # item before head -> when to ask for it (again), ns
        self._repaired: dict[int, int] = {}  # item asked for again -> when, to tell the late from the lost
        self._asked_twice: set[int] = set()  # of them: what came is no measure of the round trip (Karn)
        self._pulled: dict[int, int] = {}  # item -> when to ask for it again, ns
        self._repeated = (0, 0)  # the pull that was repeated last: item, when (ns)
        self._repeat_at = NEVER  # when to repeat the first pull early, ns
        self._early = 0  # items in a row that a repetition has brought
        self._tries = 0  # time-outs since the last sign of life
        self._unanswered = False
        self._answered_once = False
        self._is_heard = False
        self._went_back = range(0)  # the items of the last rewind, until the last of them has come
        self._back_until = 0  # its time-out, ns
        self._is_cut = False  # more has been asked for than is wanted, and the upstream may not know
        self._asked_at = 0
        self.granted_ms = 0
        self._lease = 0  # what would be granted now, ns
        self._first_there = 0  # what lies before, the upstream has not
        self._begun_at = -1  # when the first LLI went out
        self._asked_first = first
        self._sample = False  # the next answer tells the round-trip time
        self._judged = -1  # when the last repair was sent whose answer was ambiguous, ns
        self._sent_at = 0
        self._quiet_since = 0  # when the last LLI went out or the last item came in
        self._last_arrival = 0
        self._longest_gap = self._recent_gap = IDLE_PROBE // 2  # between items, ns: for long, and of late
        self._losses = 0  # items that must come without a loss until the path counts as one that loses none
        self._idle_probes = 0
        self._is_pushing = False  # the upstream held more when the last item came; nothing was asked since
        self._pace = 0  # smoothed time between items that come one after the other, ns

    @property
    def next(self) -> int:
        """The first item that is not here."""
        return min(self._missing) if self._missing else self.head

    @property
    def outstanding(self) -> int:
        """Items asked for that have not come."""
        return self.limit - self.head + 1 + len(self._missing)

    @property
    def is_credible(self) -> bool:
        """Whether there is reason to think that an item would come from there if there were one."""
        return self._is_heard and self._tries == 0

    @property
    def is_pulled_from(self) -> bool:
        """Whether items come from there though it cannot push."""
        return self.state is State.PULLING and self._is_heard

    @property
    def has_asked(self) -> bool:
        """Whether an LLI has gone there."""
        return self._begun_at >= 0

    def is_missing(self, seq: int) -> bool:
        """Return whether an item has been asked for and has not come."""
        return self.head <= seq <= self.limit or seq in self._missing

    def want(self, limit: int, until: int, now: int) -> list[Lli]:
        """Ask for items up to `limit`, until a time (ns); return the LLIs to send now.

        An extension goes out once it is no smaller than the credit that is left: one LLI each half window, at
        most. It starts after the old limit, see Ranges.
        """
        self.until, self._lease = until, min(until - now, self._max_lifetime_ms * MS)
        self._credit = max(self._credit, limit - self.next + 1)
        if self.window.size is not None:
            limit = min(limit, self.head - 1 + self.window.size)
        if self.state is State.PULLING:
            # In doubt whether anybody is there, one at a time.
            return self._pull(min(limit, self.next - 1 + (PULL_WINDOW if self.is_credible else 1)), now)
        extra = limit - self.limit
        is_small = extra <= 0 or extra < self.limit - self.head + 1
        if is_small or self._is_tail_overdue(now) or self._lifetime_ms(now) <= 0:
            self._schedule()  # the alarm of an overdue tail goes first: an extension would put it off
            return []
        first, self.limit = self.limit + 1, limit
        return self._ask(first, now)

    def answered(self, tip: int, limit: int, now: int) -> None:
        """Take in a FeedState; it answers the last LLI if it grants all that that one asked for."""
        self.known_tip = max(self.known_tip, tip)
        self._tries = 0
        if self._unanswered and limit >= self.limit:
            self.known_tip = tip  # it may have lost what it had, or look for it
            if not self._sample:
                self._rtt.sample_ambiguous(now - self._asked_at)
            elif self._answered_once:
                self._rtt.sample(now - self._asked_at)
            elif now >= self._rtt.owed_until:
                # The first answer has come from as far away as the upstream had to ask.
                self._rtt.sample(now - self._asked_at, is_rough=True)
            self._unanswered = False
        self._answered_once = self._is_heard = True
        if self.state in (State.PULLING, State.SILENT):
            self._pulled.clear()
            self._unanswered = False
            self._move(Event.ANSWER)
        self._look_for_gaps()
        self._schedule()

    def arrived(self, seq: int, now: int, *, size: int = Window.SEGMENT, bare: bool = False) -> None:
        """Take note of an item of `size` bytes that was missing; `bare` if it came without FeedState."""
        self._tries = self._idle_probes = 0
        self._is_heard = True
        self._is_checked = False
        if self._last_arrival and self._is_pushing:
            gap = min(now - self._last_arrival, INITIAL_TIMEOUT)  # within a burst, and not of an outage
            self._pace = (7 * self._pace + gap) // 8
        self._is_pushing = self.known_tip > seq
        if self._last_arrival:
            gap = now - self._last_arrival
            self._longest_gap = max(gap, self._longest_gap * 127 // 128)
            self._recent_gap = max(gap, self._recent_gap * 7 // 8)
        self._losses = max(self._losses - 1, 0)
        self._last_arrival = self._quiet_since = now
        if self._pulled.pop(seq, None) is not None:
            is_due_to_that = seq == self._repeated[0] and now <= self._repeated[1] + _SOON
            self._early = self._early + 1 if is_due_to_that else 0
            # Now and then it is given time to come without: items may come within _SOON by their own pace.
            time = 0 if self._early % _EARLY_IN_A_ROW else _SOON
            self._repeat_at = now + self._rtt.timeout() + time if is_due_to_that else NEVER
        self.window.arrived(size, self._credit)
        is_first_answer = not self._answered_once and seq == self._asked_first and seq not in self._repaired
        if bare and is_first_answer:
            self._unanswered = False
            self.limit = seq  # it has understood no more
            self._move(Event.BARE)
        if seq < self.head:
            self._missing.pop(seq, None)
            if seq in self._asked_twice:
                if self._repaired[seq] > self._judged:  # else by another item of the same repair
                    self._judged = self._repaired[seq]
                    self._rtt.sample_ambiguous(now - self._judged)
            elif seq in self._repaired:
                self._rtt.sample_of_repair(now - self._repaired[seq])
        else:
            if self._recovery is not Recovery.NONE or self.state is State.PULLING:
                due = now + self._rtt.reorder_delay()
                there = min(max(self._first_there, self.head), seq)
                self._missing.update((gone, NEVER) for gone in range(self.head, there))
                self._missing.update((lost, due) for lost in range(there, seq))
            self.head = seq + 1
        self._forget_repairs(now)
        self._look_for_gaps()
        self._schedule()

    def shows_life(self) -> None:
        """Take note of an item that was asked for otherwise."""
        self._tries = 0

    def came_again(self, seq: int) -> None:
        """Take note of an item that is here already."""
        if seq in self._repaired:
            self._forget_repair(seq)
            self._rtt.repaired_for_nothing()

    def congested(self, seq: int) -> None:
        """Take note of an item with a congestion mark, or that was lost to congestion."""
        self.window.congested(seq, self.limit - self.next + 1, self.limit)

    def skip(self, first: int) -> None:
        """Ask for nothing before `first` any more: it is here, or is fetched elsewhere."""
        if first <= self.next and not self._pulled:
            return  # nothing lies before
        self._is_cut = self._is_cut or self.next <= min(first - 1, self.limit)
        self.head = max(self.head, first)
        self.limit = max(self.limit, self.head - 1)
        self._keep(first, self.limit)

    def stop_after(self, last: int, *, is_known: bool) -> None:
        """Ask for nothing beyond an item any more; `is_known` if the upstream knows why."""
        asked, self.limit = self.limit, max(min(self.limit, last), self.head - 1)
        self._is_cut = self._is_cut or (self.limit < asked and not is_known)
        self._keep(0, last)

    def _keep(self, first: int, last: int) -> None:
        """Wait for items of a range, and no others."""
        self._missing = {seq: due for seq, due in self._missing.items() if first <= seq <= last}
        self._pulled = {seq: end for seq, end in self._pulled.items() if first <= seq <= last}
        self._look_for_gaps()
        self._schedule()

    def assume_legacy(self) -> None:
        """Go on by single pulls: nobody answers, as from an upstream that cannot push."""
        self._tries = 0
        self._unanswered = self._is_heard = False
        self.limit = self.head - 1
        self._schedule()
        self._move(Event.ASSUME)

    def go_back(self, first: int, most: int, now: int) -> list[Lli]:
        """Rewind, but not to the same items before all of the last rewind has come, or timed out."""
        again = self._back_until if first in self._went_back else 0
        if self._asked_first <= first:
            again = max(again, self._answer_until())
        if now < again:
            self.back_at = again
            return []
        llis = self.rewind(first, most, now)
        self._went_back, self._back_until = range(first, self.limit + 1), now + self._rtt.timeout()
        return llis

    def passes(self, seq: int, now: int) -> None:
        """Note an item that has come, wanted or not: with the last of a rewind, another may go out."""
        if seq == self._went_back.stop - 1:
            self._went_back = range(0)
            if self.back_at < NEVER:
                self.back_at = now

    def rewind(self, first: int, most: int, now: int) -> list[Lli]:
        """Ask for items from `first` on, again or after all, at most so many."""
        if self._asked_first <= first and now < self._answer_until():
            return []
        self.head = min(self.head, first)
        self.limit = min(self.limit, self.head - 1 + most)
        self._missing = {seq: due for seq, due in self._missing.items() if seq < self.head}
        return self._ask(self.head, now)

    def wake(self, now: int) -> list[Lli]:
        """Act on the alarm; return the LLIs to send."""
        if now < self.deadline:
            return []
        if self.state is State.PULLING:
            return self._repair(now) + self._pull_early(now) + self._pull_again(now)
        if self._repair_at() < NEVER:
            first = self.head if self.head <= self.limit else self.next  # only what is missing may be left
            return self._repair(now) + (self._ask(first, now) if now >= self._refresh_at() else [])
        if self._is_tail_overdue(now):
            self._time_out(now)
            return self._ask(self.head, now, again=True)  # the answer says whether they exist
        if self._unanswered:
            self._time_out(now)
            is_due = self.head <= self._asked_first <= self.limit  # it may have come, or lie beyond a fork
            return self._ask(self._asked_first if is_due else self.head, now, again=True)
        if self.is_watched and not self._losses and now < self._refresh_at():
            self.wants_check = self._is_checked = True
            self._schedule()
            return []
        if self.head > self.limit or now >= self._refresh_at():
            return self._ask(self.next, now)
        self._is_checked = True  # on a link that loses, by an LLI, which brings what was lost at once
        if self._is_quiet(now, self._patience()):
            self._idle_probes = min(self._idle_probes + 1, _MOST_DOUBLINGS)
        return self._ask(self.head, now)

    def cancel(self, now: int) -> list[Lli]:
        """Ask for nothing more; return the cancel, none if the upstream knows."""
        is_known = (self.next > self.limit and not self._is_cut) or self._latest_expiry <= now
        self._is_cut = False
        self._missing.clear()
        self.limit = self.head - 1
        if self._unanswered:
            self._rtt.owed_until = now + MAX_TIMEOUT
        self._unanswered = False
        self._schedule()
        return [] if is_known else [Lli(self.head, 0, 1)]

    def demand(self, now: int) -> list[Lli]:
        """Ask for newer evidence."""
        if self.head > self.limit or self.state is State.PULLING:
            return []
        # All that is wanted: the upstream may have started anew, and would grant no more than this asks for.
        self.granted_ms = max(self._lifetime_ms(now), 1)
        self._set_expiry(now + self.granted_ms * MS)
        self._sent_at = now
        return [Lli(self.head, self.limit - self.head + 1, self.granted_ms)]

    def repeat(self, now: int) -> list[Lli]:
        """Ask once more for all that is open."""
        if self.state is State.PULLING or self.head > self.limit:
            return []
        return self._ask(self.head, now, again=True)

    def absent(self, first: int) -> None:
        """Note that the upstream has nothing before an item: it is no use to ask for that ever again."""
        self._first_there = first
        self._missing.update((seq, NEVER) for seq in self._missing if seq < first)
        self._look_for_gaps()
        self._schedule()

    def renewed(self, now: int) -> None:
        """Note that the upstream has prolonged the grant, as if the LLI had been repeated."""
        self._set_expiry(max(self.expiry, now + self.granted_ms * MS))
        self._sent_at = now
        self.renews_alone = False

    def renew_alone(self) -> None:
        """Note that no Hello renews the grant."""
        self.renews_alone = True
        self._schedule()

    def forgotten(self, now: int) -> None:
        """Note that the upstream has lost the grant, which is to be made again.

        It need not have had an LLI that is still on its way, whose own alarm repeats it.
        """
        if now < self._answer_until():
            return
        self._unanswered = False
        self._missing.clear()
        self.limit = self.head - 1
        self._schedule()

    def _set_expiry(self, expiry: int) -> None:
        self.expiry, self._latest_expiry = expiry, max(self._latest_expiry, expiry)

    def _move(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state].get(event, self.state)

    def _repair_at(self) -> int:
        """When the first missing item is to be asked for, ns; NEVER if nobody has any of them."""
        return min(self._missing.values()) if self._missing else NEVER

    def _answer_until(self) -> int:
        """Until when the last LLI may be answered, ns; 0 if it has been."""
        return self._asked_at + self._rtt.timeout() if self._unanswered else 0

    def _is_quiet(self, now: int, silence: int) -> bool:
        return now >= self._quiet_since + silence

    def _is_tail_known(self) -> bool:
        """Whether the upstream has announced the next item."""
        return self._first_there <= self.head <= self.known_tip and self.head <= self.limit

    def _is_tail_overdue(self, now: int) -> bool:
        return self._is_tail_known() and self._is_quiet(now, self._tail_timeout())

    def _patience(self) -> int:
        """Longest silence before a probe; shorter on a path that loses."""
        longest = self._recent_gap if self._losses else self._longest_gap
        usual = max(min(2 * longest, IDLE_PROBE), self._rtt.timeout())
        return min(usual << self._idle_probes, IDLE_PROBE << MAX_IDLE_PROBES)

    def _tail_timeout(self) -> int:
        """Longest wait for an item that the upstream holds: it may be pacing a burst."""
        return self._rtt.timeout(self._tries) + 4 * self._pace

    def _time_out(self, now: int) -> None:
        self._tries += 1
        # Its first answer takes as long as it has to ask further up, however quickly it has answered others.
        least = 0 if self._is_heard else (INITIAL_TIMEOUT << MAX_TRIES) - INITIAL_TIMEOUT
        if self._tries < MAX_TRIES or now < self._begun_at + least:
            return
        self._rtt.unanswered()
        if self.is_watched:
            self.wants_check = True
        elif not self.is_certain:
            self._move(Event.UNANSWERED)

    def _look_for_gaps(self) -> None:
        if self.state is State.PULLING:
            return
        if self._repair_at() < NEVER:
            self._move(Event.GAP)
        elif self.state is State.REPAIRING:
            self._move(Event.FILLED)
        if not self._unanswered:
            self._move(Event.ANSWER)

    def _repair(self, now: int) -> list[Lli]:
        """Ask for the missing items whose time has come."""
        due = sorted(seq for seq, time in self._missing.items() if time <= now)
        if not due:
            self._schedule()
            return []
        asked_in_vain = not self._repaired.keys().isdisjoint(due)
        if asked_in_vain:
            self._time_out(now)
            if not self._asked_twice.isdisjoint(due):
                self._rtt.unanswered()
            self._asked_twice.update(self._repaired.keys() & due)
        if self.known_tip >= self.head:  # it holds more than has come: the path, and not the feed, is slow
            self.congested(due[-1])
        self._repaired.update(dict.fromkeys(due, now))
        self._is_pushing = False  # what comes next comes late as it was lost
        self._losses = _LOSSES_REMEMBERED
        again = now + self._rtt.timeout(self._tries)
        lifetime_ms = self._lifetime_ms(now)
        llis: Iterable[Lli]
        if self.state is State.PULLING:
            llis = [Lli(seq, 1, min(lifetime_ms, PULL_LIFETIME_MS)) for seq in due]
        elif self._recovery is Recovery.GO_BACK_N:
            due = [seq for seq, time in self._missing.items() if time < NEVER]
            llis = [Lli(min(due), self.limit - min(due) + 1, lifetime_ms)]
        elif self._recovery is Recovery.SELECTIVE or asked_in_vain:
            # By name: an upstream that has let go of an item finds it further up.
            llis = [Lli(seq, None, PULL_LIFETIME_MS) for seq in due]
        else:
            llis = [Lli(first, last - first + 1, lifetime_ms) for first, last in _runs(due)]
        self._missing.update((seq, again) for seq in due)
        self._schedule()
        return list(llis) if lifetime_ms > 0 else []

    def _forget_repairs(self, now: int) -> None:
        """Count repaired items as lost indeed, once their first copies would have come."""
        if not self._repaired:
            return
        before = now - 2 * self._rtt.timeout()
        for seq in [seq for seq, at in self._repaired.items() if at < before and seq not in self._missing]:
            self._forget_repair(seq)
            self._rtt.repaired()

    def _forget_repair(self, seq: int) -> None:
        del self._repaired[seq]
        self._asked_twice.discard(seq)

    def _ask(self, first: int, now: int, *, again: bool = False) -> list[Lli]:
        lifetime_ms = self._lifetime_ms(now)
        if lifetime_ms <= 0 or first > self.limit:
            self.deadline = NEVER
            return []
        self._sample = not again and not self._unanswered  # else it could answer the one before (Karn)
        self._asked_at = self._sent_at = self._quiet_since = now
        self._is_pushing = False
        self.granted_ms = lifetime_ms
        if self._begun_at < 0:
            self._begun_at = now
        # What an LLI before has asked for, and nobody has answered, is asked for again with it.
        is_due = self._unanswered and self.is_missing(self._asked_first)
        self._asked_first = min(first, self._asked_first) if is_due else first
        self._unanswered = True
        self._set_expiry(now + lifetime_ms * MS)
        self._move(Event.ASK)
        self._schedule()
        return [Lli(first, self.limit - first + 1, lifetime_ms)]

    def _pull(self, limit: int, now: int) -> list[Lli]:
        """Ask for single items ahead, of an upstream that cannot push."""
        llis = []
        for seq in range(self.head, limit + 1):
            if seq not in self._pulled:
                llis += self._pull_one(seq, now)
        self.limit = max(self.limit, limit)
        self._schedule()
        return llis

    def _pull_one(self, seq: int, now: int) -> list[Lli]:
        lifetime_ms = min(self._lifetime_ms(now), PULL_LIFETIME_MS)
        if lifetime_ms <= 0:
            return []
        # In doubt it is repeated while it is pending: only then does a legacy forwarder try another next hop.
        # It holds back what comes sooner than its longest suppression interval, our first time-out.
        lifetime = lifetime_ms * MS
        again = min(lifetime, max(lifetime // 2, INITIAL_TIMEOUT)) if self._tries else lifetime
        self._pulled[seq] = now + again
        if self._repeat_at != NEVER and seq == self.next:
            self._repeat_at = min(self._repeat_at, now + lifetime // 2)  # while it is pending
        self._sent_at = now
        self._set_expiry(max(self.expiry, now + lifetime))
        return [Lli(seq, 1, lifetime_ms)]

    def _pull_early(self, now: int) -> list[Lli]:
        """Repeat the first pull while it is pending, where that has brought the one before."""
        if now < self._repeat_at:
            return []
        self._repeat_at = NEVER
        if self.next not in self._pulled:
            return []
        self._repeated = (self.next, now)
        return self._pull_one(self.next, now)

    def _pull_again(self, now: int) -> list[Lli]:
        """Repeat the pull of the next item alone: the others wait until want() finds that it has come."""
        ended = [seq for seq, expiry in self._pulled.items() if expiry <= now]
        llis = []
        if ended:
            self._time_out(now)
            for seq in ended:
                del self._pulled[seq]
            if self.next not in self._pulled:
                self._repeated = (self.next, now)
                llis = self._pull_one(self.next, now)
        self._schedule()
        return llis

    def _lifetime_ms(self, now: int) -> int:
        return min((self.until - now) // MS, self._max_lifetime_ms)

    def _refresh_at(self) -> int:
        """When to repeat the LLI to outlive it: half a lifetime before the end, for there may be losses."""
        gain = max(self.granted_ms * MS // _LEAST_GAIN, MS)
        is_whole = self._lease - self.granted_ms * MS < gain  # Hellos renew it by no more than was granted
        hellos_renew = self.is_watched and self.is_fed and not self.renews_alone and self.head <= self.limit
        if self.next > self.limit or (hellos_renew and is_whole):
            return NEVER
        if self.until - self.expiry < gain:
            return NEVER  # nodes that wait for each other would repeat it ever more often
        return (self._sent_at + self.expiry) // 2

    def _schedule(self) -> None:
        if self.next > self.limit:
            self._move(Event.SPENT)
            self.deadline = NEVER
            return
        if self.state is State.PULLING:
            early = self._repeat_at if self.next in self._pulled else NEVER
            self.deadline = min((*self._pulled.values(), *self._missing.values(), early))
        elif (repair := self._repair_at()) < NEVER:
            self.deadline = repair
        elif self.head > self.limit:
            self.deadline = NEVER
        else:
            if self._unanswered:
                self.deadline = self._asked_at + self._rtt.timeout(self._tries)
            elif self.is_watched and self._is_checked:
                self.deadline = NEVER
            else:
                self.deadline = self._quiet_since + self._patience()
            if self._is_tail_known():
                self.deadline = min(self.deadline, self._quiet_since + self._tail_timeout())
        if self.state is not State.PULLING:
            self.deadline = min(self.deadline, self._refresh_at())
        if self.state is State.SILENT:
            self.deadline = max(self.deadline, self._quiet_since + MAX_TIMEOUT)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each run of consecutive numbers in an ascending list."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
