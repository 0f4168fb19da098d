"""The subscribing end of a feed: every item once, in order, verified, or a named error."""

from collections import Counter, deque
from random import Random
from typing import Final

from base.units import MS, NEVER
from forwarder.feedcache.fork import Fork, open_fork
from forwarder.feedcache.items import Item, RejectedItem, open_item, read_data
from forwarder.feedcache.resequencer import Resequencer
from forwarder.lli.credit import CreditPolicy, FixedCredit
from forwarder.lli.estimates import Rtt
from forwarder.lli.upstream import Lli, Recovery, State, Upstream
from forwarder.wire.evidence import MOST_HOPS, Evidence
from forwarder.wire.feed import split_fork, split_item
from forwarder.wire.lp import DUPLICATE, NO_ROUTE, LpPacket
from forwarder.wire.packet import DATA, Data, parse_interest
from forwarder.wire.tlv import MalformedPacket

_REFUSALS = {NO_ROUTE: "no-route", DUPLICATE: "loop"}
STATES: Final = ("waiting", "resumed")
"""The words of take_errors() that say whether the network knows a source, and are no errors."""
_REMEMBERED_NONCES: Final = 8
_FIRST_RETRY: Final = 250 * MS
MAX_RETRY: Final = 8_000 * MS
WAITING: Final = 1_000 * MS
"""Time without a source after which the application is informed."""


class Consumer:
    """Subscribes to one feed.

    Items wait until the application takes them, and what waits is not granted again: a slow application
    slows its own range down and nothing else.

    Args:
        feed: the feed's name.
        after: the last item already held; the first to be delivered is the one after it.
        credit: items that each LLI grants, or a policy.
        lifetime_ms: InterestLifetime of each LLI.
        recovery: how to ask for what is missing; IN_NETWORK and, over a path that repairs nothing by itself,
            the other two.
        rng: source of nonces.
        skips_gaps: go on behind items that nobody holds any more; else they are waited for.
        is_relay: what it gets is passed on to others, who may be its own upstreams.

    Raises ValueError for a credit below 1.

    Attributes:
        rejected: packets refused, by reason.
        error: why the subscription has ended: "fork"; None while it has not.
        fork: the fork that ended it, whose packet() proves it to others; None if none did.
        gap: the first and the last of the items that nobody holds any more, None if they are not known.
        evidence: the best of a source so far.
        is_fed: the network knows a source at present.
    """

    def __init__(
        self,
        feed: bytes,
        *,
        rng: Random,
        after: int = 0,
        credit: int | CreditPolicy,
        lifetime_ms: int,
        recovery: Recovery = Recovery.IN_NETWORK,
        skips_gaps: bool = False,
        is_relay: bool = False,
    ) -> None:
        self.feed = feed
        self.lifetime_ms = lifetime_ms
        self.rejected: Counter[str] = Counter()
        self.error: str | None = None
        self.fork: Fork | None = None
        self._policy = FixedCredit(credit) if isinstance(credit, int) else credit
        self._recovery = recovery
        self._rng = rng
        self._rtt = Rtt()
        self._upstream = self._new_upstream(after + 1)
        self._items = Resequencer(after)
        self._has_room = False  # something was taken since credit was last renewed
        self._nonces: deque[int] = deque(maxlen=_REMEMBERED_NONCES)
        self._open = False
        self._retry_at: int | None = None
        self._refusals = 0
        self.evidence: Evidence | None = None
        self.is_fed = self._is_waiting = False
        self.gap: tuple[int, int] | None = None
        self._skips_gaps = skips_gaps
        self._is_relay = is_relay
        self._unfed_since = 0
        self._outputs: list[bytes] = []
        self._errors: list[str] = []

    @property
    def arrived(self) -> int:
        """Number of the last item that has come with all before it."""
        return self._items.arrived

    def start(self, now: int) -> None:
        """Subscribe, from the item after the last that has arrived."""
        if self.error is None and not self._open:
            self._open = True
            self.is_fed = self._is_waiting = False
            self._unfed_since = now
            self._begin_anew()
            self._renew(now)

    def cancel(self, now: int) -> None:
        """End the subscription, upstream too; items that have arrived can still be taken."""
        if self._open:
            self._open = False
            self._retry_at = None
            self._send(self._upstream.cancel(now))

    def receive(self, header: LpPacket, now: int) -> None:
        """Take in a packet; packets of other feeds are ignored."""
        if not self._open:
            return
        try:
            if header.nack_reason is not None:
                self._on_nack(header, header.nack_reason, now)
            elif not header.fragment:
                self._on_state(header, now)
            elif header.fragment[0] == DATA:
                self._on_data(read_data(header.fragment), header, now)
        except MalformedPacket:
            self.rejected["malformed"] += 1

    def take_items(self, limit: int | None = None) -> list[Item]:
        """Return the items that have become deliverable, at most so many of them."""
        items = self._items.take(limit)
        self._has_room = self._has_room or bool(items)
        return items

    def take_errors(self) -> list[str]:
        """Return the errors since the last call, a word each: "fork" is final, all others pass.

        "waiting": the network knows no source at present; "resumed": it knows one again. "gone": nobody holds
        the items of `gap` any more. "no-route", "loop", "refused": what the network answered; the
        subscription is tried again later.
        """
        errors, self._errors = self._errors, []
        return errors

    def take_outputs(self) -> list[bytes]:
        """Return the Interests to be sent."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        if not self._open:
            return None
        if self._retry_at is not None:
            return self._retry_at
        up = self._upstream
        if self._has_room and self.fork is None and self._policy.is_due(self._items.taken, up.limit):
            return 0
        deadline = up.deadline
        if self._may_wait():
            deadline = min(deadline, self._unfed_since + WAITING)
        return None if deadline == NEVER else deadline

    def size(self) -> int:
        """Return the bytes of what it has asked for (next, limit, expiry), and of evidence."""
        return len(self.feed) + 3 * 8 + 9 * (self.evidence is not None)

    def wake(self, now: int) -> None:
        """Act on a deadline."""
        if not self._open:
            return
        if self._retry_at is not None:
            if now >= self._retry_at:
                self._retry_at = None
                self._renew(now)
            return
        if self._may_wait() and now >= self._unfed_since + WAITING:
            self._is_waiting = True
            self._errors.append("waiting")
        self._send(self._upstream.wake(now))
        if self._upstream.state is State.SILENT:
            self._upstream.assume_legacy()
        self._renew(now)

    def _may_wait(self) -> bool:
        """Return whether "waiting" is due unless a source is found soon."""
        return not (self.is_fed or self._is_waiting or self._upstream.is_pulled_from)

    def _new_upstream(self, first: int) -> Upstream:
        return Upstream(first, self._rtt, self.lifetime_ms, self._recovery)

    def _begin_anew(self) -> None:
        """Go on after the last item that has arrived in order."""
        self._upstream = self._new_upstream(self._items.arrived + 1)
        self._items.forget_early()

    def _on_nack(self, header: LpPacket, reason: int, now: int) -> None:
        """Try again later: an LLI is refused while there is no way to the feed."""
        lli = parse_interest(header.fragment)
        parts = split_item(lli.name)
        if parts is None or parts[0] != self.feed or self._retry_at is not None:
            return
        if lli.send_credit is None or lli.nonce not in self._nonces:
            return  # a repair by name is repeated anyway
        self._wait(_REFUSALS.get(reason, "refused"), now)

    def _wait(self, error: str, now: int) -> None:
        self._errors.append(error)
        self._begin_anew()
        pause = min(_FIRST_RETRY << min(self._refusals, 10), MAX_RETRY)
        self._retry_at = now + pause - self._rng.randrange(pause // 2)
        self._refusals += 1

    def _on_state(self, header: LpPacket, now: int) -> None:
        if header.feed == self.feed and header.feed_state is not None and self._retry_at is None:
            self._upstream.answered(*header.feed_state, now)
            self._hear_of_source(header, now)
            if header.first is not None and header.first > self._upstream.next:
                self._meet_gap(header.first, now)
            self._renew(now)

    def _meet_gap(self, first: int, now: int) -> None:
        """Skip items that nobody holds, or ask for them again, which announces that they are waited for."""
        before, self.gap = self.gap, (self._upstream.next, first - 1)
        if before == self.gap:
            self._upstream.absent(first)
            return
        if before is None or before[0] != self.gap[0]:  # else it has been told, and the gap has grown
            self._errors.append("gone")
        if self._skips_gaps:
            self._send(self._upstream.cancel(now))
            self._items.skip(first)
            self._begin_anew()
        else:
            self._upstream.absent(first)
            self._send(self._upstream.rewind(self._upstream.next, self._upstream.outstanding, now))

    def _hear_of_source(self, header: LpPacket, now: int) -> None:
        """Take note whether the network knows a source."""
        evidence = header.evidence and header.evidence.proven_by(self.evidence)
        if evidence is not None and evidence.hops >= MOST_HOPS:
            evidence = None
        if evidence is None or (self._is_relay and not (evidence.is_whole and evidence.beats(self.evidence))):
            if self.is_fed:
                self.is_fed, self._unfed_since = False, now
            return
        self.evidence = evidence.onward
        self.is_fed = True
        self._resume()

    def _resume(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._errors.append("resumed")

    def _on_data(self, data: Data, header: LpPacket, now: int) -> None:
        parts = split_item(data.name)
        if parts is None:
            self._on_proof(data, now)
            return
        if parts[0] != self.feed or self._retry_at is not None:
            return
        seq = parts[1]
        up = self._upstream
        if not up.is_missing(seq):
            self.rejected["unasked" if seq > up.limit else "duplicate"] += 1
            up.came_again(seq)
            return
        try:
            item = open_item(self.feed, seq, data)
        except RejectedItem as error:
            self.rejected[error.reason] += 1
            return
        self._refusals = 0
        if header.feed_state is not None:
            up.answered(*header.feed_state, now)
        if header.evidence is not None:
            self._hear_of_source(header, now)
        elif not self.is_fed:
            self._unfed_since = now
            if header.feed_state is None and up.state is State.PULLING:
                self._resume()
        if header.congestion_mark:
            up.congested(seq)
        up.arrived(seq, now, size=len(data.wire), bare=header.feed_state is None)
        self._items.put(item)
        if self.gap is not None and self._items.arrived >= self.gap[1]:
            self.gap = None
        if self._items.fork is not None:
            self._end(self._items.fork, now)
        else:
            self._end_at_fork(now)
        if self._open:
            self._renew(now)

    def _on_proof(self, data: Data, now: int) -> None:
        parts = split_fork(data.name)
        if parts is None or parts[0] != self.feed:
            return
        try:
            fork = open_fork(self.feed, data)
        except RejectedItem as error:
            self.rejected[error.reason] += 1
            return
        if self.fork is None or fork.seq < self.fork.seq:
            self.fork = fork
            self._upstream.stop_after(fork.seq - 1, is_known=True)
            self._end_at_fork(now)

    def _end_at_fork(self, now: int) -> None:
        if self.fork is not None and self._items.arrived >= self.fork.seq - 1:
            self._end(self.fork, now)

    def _end(self, fork: Fork, now: int) -> None:
        """End the subscription, once all undisputed items have arrived."""
        self.fork = fork
        self._items.forget_from(fork.seq)
        self.error = "fork"
        self._errors.append("fork")
        self.cancel(now)

    def _renew(self, now: int) -> None:
        self._has_room = False
        up = self._upstream
        taken, arrived = self._items.taken, self._items.arrived
        limit = self._policy.limit(taken, arrived, max(up.limit, arrived), now)
        if self.fork is not None:
            limit = min(limit, self.fork.seq - 1)
        self._send(up.want(limit, NEVER, now))

    def _send(self, llis: list[Lli]) -> None:
        for lli in llis:
            nonce = self._rng.getrandbits(32)
            self._nonces.append(nonce)
            known = self.evidence.bare if self._is_relay and self.evidence is not None else None
            self._outputs.append(lli.packet(self.feed, nonce, known=known))
