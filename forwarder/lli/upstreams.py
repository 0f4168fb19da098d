"""What a relay asks of its upstreams: which way it goes, what it asks there, and what if that fails."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from forwarder.face import Face
from forwarder.feedcache.cache import LiveHop
from forwarder.fib import NextHop
from forwarder.lli.backfill import Backfill
from forwarder.lli.downstreams import Downstreams
from forwarder.lli.entry import FeedEntry
from forwarder.lli.estimates import Rtt
from forwarder.lli.ranges import MS
from forwarder.lli.upstream import MAX_TRIES, Lli, Recovery, State, Upstream
from forwarder.wire.feed import LAST_ITEM
from forwarder.wire.lp import NO_ROUTE

_SHUNNED: Final = 16_000 * MS
"""How long other next hops are preferred to one that has not answered, or has refused a feed."""
_BELIEVED: Final = 4_000 * MS
_FEW_TRIES: Final = 2
_REST: Final = 1_000 * MS
"""How long an entry, left without any way to go, waits with trying them all again."""


Cause = tuple[int, int] | None
"""The nonce of the LLI that makes a node ask upstream, and the face that it came from."""


class Upstreams:
    """The upstream side of all feeds of a forwarder; the arguments are FeedTable's."""

    def __init__(
        self,
        hops: Callable[[bytes, bool], Sequence[NextHop]],
        send: Callable[[int, bytes], None],
        fetch: Callable[[int, bytes, int, int], None],
        faces: Mapping[int, Face],
        rng: Random,
        counters: Counter[str],
        recovery: Recovery,
        downstreams: Downstreams,
    ) -> None:
        self._next_hops = hops
        self._send = send
        self._fetch = fetch
        self._faces = faces
        self._rng = rng
        self._counters = counters
        self._recovery = recovery
        self._repair = recovery if recovery is Recovery.IN_NETWORK else Recovery.NONE
        self._downstreams = downstreams
        self._rtts: dict[int, Rtt] = {}
        self._fetch_rtts: dict[int, Rtt] = {}
        self._silent: dict[int, int] = {}  # face that has not answered -> until when others come first, ns

    def pass_on(self, entry: FeedEntry, now: int, cause: Cause) -> None:
        """Ask; and pass on the reissued LLI whose turn it is, though there be nothing new to ask for."""
        reissues = entry.reissues
        is_turn = bool(entry.ranges) and reissues.has_turn(now, alone=cause is None)
        if is_turn and not self._find_way(entry, now):
            reissues.forget()
        passed_on = reissues.take(entry.ranges, now) if is_turn else None
        self.ask(entry, now, passed_on or cause)
        if passed_on is not None and reissues.is_due:
            self._send_llis(entry, entry.upstream.touch(now), passed_on, now)

    def ask(self, entry: FeedEntry, now: int, cause: Cause) -> None:
        """Ask upstream for what downstreams may be sent and the cache does not have."""
        if not entry.ranges:
            return
        self._find_way(entry, now)
        up = entry.upstream
        first, last = entry.ranges.first_wanted(), entry.ranges.last_wanted()
        if entry.cache.fork is not None:
            last = min(last, entry.cache.fork.seq - 1)
        if first > up.next:
            up.skip(first)
        if first < up.next and entry.is_past(first):
            self._ask_for_the_past(entry, first, now, cause)
        elif first < up.next and self._find_way(entry, now):
            # Nobody has wanted what comes next, so far, but only what comes later.
            self._send_llis(entry, entry.upstream.rewind(first, entry.cache.max_items, now), cause, now)
        else:
            entry.backfill = None
        if entry.ranges and self._find_way(entry, now):
            # The cache is the buffer: never more under way than it can hold.
            up = entry.upstream
            limit = min(last, up.next - 1 + entry.cache.max_items, LAST_ITEM)
            self._send_llis(entry, up.want(limit, entry.ranges.last_expiry(), now), cause, now)

    def wake(self, entry: FeedEntry, now: int) -> None:
        """Act on the alarm of a feed that somebody has credit for."""
        llis = entry.upstream.wake(now)
        if entry.upstream.is_probing:
            entry.reissues.probe(now)
        self._send_llis(entry, llis, None, now)
        if entry.upstream.state is State.SILENT:
            self.fail_over(entry, NO_ROUTE, now)
        if entry.backfill is not None:
            hops = self._past_hops(entry, entry.ranges.first_wanted())
            self._fetch_all(entry, entry.backfill.wake(hops, now), now)
        self.pass_on(entry, now, None)

    def fail_over(self, entry: FeedEntry, reason: int, now: int, *, is_gone: bool = False) -> None:
        """Go on with the next hop that has not failed yet; with none left, refuse, or pull from the best."""
        failed = entry.face
        assert failed is not None
        if entry.upstream.state is State.SILENT:
            self._silent[failed] = now + _SHUNNED
        if not is_gone:
            self._note_failure(entry, failed, now)
        cancel = entry.upstream.cancel(now)
        if not is_gone:
            self._send_llis(entry, cancel, None, now)
        entry.leave_upstream()
        self._counters["failovers"] += 1
        entry.reissues.is_due = True
        self.ask(entry, now, None)
        if entry.face is not None:
            return
        silent = {face for face in entry.tried if self._shunned_until(face, now)}
        if is_gone:
            silent.discard(failed)
        if silent and not entry.refused:
            gone = {failed} if is_gone else set()
            if self._ask_again(entry, entry.tried - silent - gone, now):
                return
            if self._ask_nobody_else(entry, silent, now):
                return
        self._downstreams.refuse_all(entry, reason, now)
        entry.tried.clear()
        entry.refused = False
        entry.rest_until = now + _REST

    def leave(self, entry: FeedEntry, now: int) -> None:
        """Want nothing more of a feed, and tell the upstream so."""
        if entry.face is None:
            return
        if entry.upstream.is_doubtful(now):
            self._silent[entry.face] = now + _SHUNNED
            self._note_failure(entry, entry.face, now)
        self._send_llis(entry, entry.upstream.cancel(now), None, now)

    def deadline(self, entry: FeedEntry, now: int) -> int:
        """Return when a feed that somebody has credit for wants wake(), ns."""
        deadlines = [now + _REST if entry.face is None else entry.reissues.deadline]
        if entry.face is not None and entry.ranges.last_expiry() - now >= MS:  # else no lifetime is left
            deadlines.append(entry.upstream.deadline)
        if entry.backfill is not None and entry.backfill.deadline is not None:
            deadlines.append(entry.backfill.deadline)
        return min(deadlines)

    def heard(self, face: int) -> None:
        """Note that a face shows life."""
        self._silent.pop(face, None)

    def forget(self, face: int) -> None:
        """Forget a face that has gone."""
        for known in (self._rtts, self._fetch_rtts, self._silent):
            known.pop(face, None)

    def remember(self, entry: FeedEntry, now: int) -> None:
        """Remember, for longer than the entry lasts, that the upstream has just brought an item."""
        assert entry.face is not None
        entry.cache.live_hop = LiveHop(entry.face, now + _SHUNNED, entry.upstream.early_pulls)

    def begins_at(self, entry: FeedEntry, first: int, now: int) -> None:
        """Note that the upstream has nothing before an item."""
        entry.upstream_first, entry.first_until = first, now + _BELIEVED
        if first > entry.upstream.next:
            entry.upstream.skip(first)

    def _ask_for_the_past(self, entry: FeedEntry, first: int, now: int, cause: Cause) -> None:
        """Fetch what a late joiner wants and the cache has let go."""
        waiting = [(face, granted) for face, granted in entry.ranges.items() if granted.wanted <= first]
        if not any(self._downstreams.has_room(face, granted, now) for face, granted in waiting):
            return  # nobody's link has room for it
        if now >= entry.first_until:
            entry.upstream_first = 0  # it may have found what it did not have
        if entry.item(first) is not None:
            return
        if self._can_go_back(entry, first, now):
            self._send_llis(entry, entry.upstream.rewind(first, entry.cache.max_items, now), cause, now)
            return
        if entry.backfill is None:
            entry.backfill = Backfill(self._fetch_rtts, entry.cache.past_hop)
        if entry.upstream_first == 0 and self._find_way(entry, now):
            # An upstream that has no past says so at once, where a classic Interest gets no answer.
            entry.upstream_first, entry.first_until = 1, now + _BELIEVED
            self._send_llis(
                entry, [Lli(first, 1, max((entry.ranges.last_expiry() - now) // MS, 1))], None, now
            )
        last = next((seq for seq in entry.cache if seq > first), entry.upstream.next) - 1
        last = min(last, max(r.wanted_until for _, r in entry.ranges.items() if r.wanted <= last))
        self._fetch_all(entry, entry.backfill.want(first, last, self._past_hops(entry, first), now), now)
        if entry.backfill.is_lost:
            self._give_up_the_past(entry, last + 1)

    def _can_go_back(self, entry: FeedEntry, first: int, now: int) -> bool:
        """Tell whether the upstream is to begin again at an item.

        One that is pulled from is not: what follows may come from its cache, and look like life.
        """
        if self._recovery is not Recovery.GO_BACK_N or first < entry.upstream_first:
            return False
        return self._find_way(entry, now) and entry.upstream.state is not State.PULLING

    def _give_up_the_past(self, entry: FeedEntry, first: int) -> None:
        """Tell every downstream that waits for what nobody has where the feed begins here."""
        entry.backfill = None
        for face, granted in entry.ranges.items():
            if granted.wanted < first:
                granted.skip(first)
                self._downstreams.send_state(entry, face, granted, first)
                entry.ranges.settle(face)

    def _past_hops(self, entry: FeedEntry, first: int) -> list[int]:
        """Return the next hops that may have an item of the past."""
        has_no_past = entry.face if first < entry.upstream_first else None
        return [hop.face for hop in self._next_hops(entry.feed, True) if hop.face != has_no_past]

    def _find_way(self, entry: FeedEntry, now: int) -> bool:
        """Settle on an upstream face; return whether an LLI may go there."""
        if entry.face is None and now >= entry.rest_until:
            hops = [face for face in self._hops(entry) if face not in entry.tried]
            hops.sort(key=lambda face: self._reluctance(entry, face, now))  # else by cost
            face = next(iter(hops), None)
            granted = entry.ranges.get(face) if face is not None else None
            if face is not None and (granted is None or len(entry.ranges) > 1):
                entry.displaced = granted is not None
                if granted is not None:
                    self._downstreams.refuse(entry, face, granted, NO_ROUTE, now)
                entry.face = face
                entry.upstream = Upstream(
                    entry.upstream.next,
                    self._rtts.setdefault(face, Rtt()),
                    recovery=self._repair,
                    max_tries=self._tries_for(entry, face, now),
                )
                entry.upstream_first = 0
                live = entry.cache.live_hop
                if live is not None and live.face == face and live.early is not None and now < live.until:
                    entry.upstream.go_on_pulling(live.early, now)
        return entry.face is not None and (entry.hop_limit > 0 or self._faces[entry.face].is_local)

    def _reluctance(self, entry: FeedEntry, face: int, now: int) -> tuple[bool, int, bool]:
        """Return what puts a next hop behind others; see docs/controlled-push.md, "Failure"."""
        failed_until = max(self._shunned_until(face, now), entry.cache.failures.get(face, 0))
        live = entry.cache.live_hop
        is_live = live is not None and live.face == face and now < live.until
        return face in entry.ranges, failed_until if failed_until > now else 0, not is_live

    def _shunned_until(self, face: int, now: int) -> int:
        """Return until when others come first, ns; 0 if they do not. Who has been silent last comes last."""
        until = self._silent.get(face, 0)
        return until if until > now else 0

    def _tries_for(self, entry: FeedEntry, face: int, now: int) -> int:
        """Return the tries after which a face counts as silent: few if it was so before, and others refuse.

        Who waits for this node gives it MAX_TRIES, and has to hear of the refusals before.
        """
        return _FEW_TRIES if entry.refused and self._shunned_until(face, now) else MAX_TRIES

    def _hops(self, entry: FeedEntry) -> list[int]:
        return [hop.face for hop in self._next_hops(entry.feed, False)]

    def _note_failure(self, entry: FeedEntry, face: int, now: int) -> None:
        """Prefer others for this feed, though the face may show life for the sake of another."""
        others = {other: until for other, until in entry.cache.failures.items() if until > now}
        entry.cache.failures = others | {face: now + _SHUNNED}
        entry.cache.leave_hop(face)

    def _ask_again(self, entry: FeedEntry, hops: set[int], now: int) -> bool:
        """Try once more, until an item comes, those that have refused because they needed this node.

        They live, and may know another way by now. If not, their refusal counts.
        """
        if entry.retried or not hops:
            return False
        entry.retried = True
        entry.tried -= hops
        self.ask(entry, now, None)
        return entry.face is not None

    def _ask_nobody_else(self, entry: FeedEntry, silent: set[int], now: int) -> bool:
        """Take the silence for that of a forwarder that cannot push, and pull through one, if any."""
        entry.tried -= silent
        has_way = self._find_way(entry, now)
        entry.tried.clear()
        if has_way:
            entry.upstream.assume_legacy()
            self.ask(entry, now, None)
        return entry.face is not None

    def _send_llis(self, entry: FeedEntry, llis: list[Lli], cause: Cause, now: int) -> None:
        """Send Interests upstream, the first with the nonce of the LLI that caused it, if one did."""
        if entry.face is None:
            return
        for lli in llis:
            if lli.credit is None:
                self._fetch_all(entry, [(entry.face, lli.first)], now)
                continue
            self._counters["llis_out"] += 1
            if cause is not None and entry.has_sent(cause[0]):
                cause = None
            if cause is None and lli.credit:
                cause = entry.reissues.take(entry.ranges, now)
            # The second of one nonce would be taken for a duplicate of the first.
            if cause is not None and not entry.has_sent(cause[0]):
                nonce, origin = cause
                entry.sends(nonce, origin)
            else:
                nonce = self._rng.getrandbits(32)
                entry.sends(nonce, None)
            cause = None
            packet = lli.packet(
                entry.feed, nonce, entry.hop_limit, reissued=entry.reissues.is_due and bool(lli.credit)
            )
            self._send(entry.face, packet)
        if llis:
            entry.reissues.is_due = False

    def _fetch_all(self, entry: FeedEntry, wanted: list[tuple[int, int]], now: int) -> None:
        for face, seq in wanted:
            self._counters["fetches"] += 1
            self._fetch(face, entry.feed, seq, now)
