"""Choice of a relay's upstream among its next hops, its requests there, and recovery from failures.

Theory of operation. A node takes for its upstream only a next hop whose evidence of a source beats its own
(forwarder.wire.evidence): that alone keeps loops away. A node without a source keeps what its downstreams
have granted, asks all of its next hops, and waits; a next hop that finds a source says so. Section 6 of
docs/controlled-push.md has the rules and the proof.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from base.units import MS, NEVER
from forwarder.feedcache.items import is_signed
from forwarder.lli.backfill import Backfill
from forwarder.lli.downstreams import Downstreams
from forwarder.lli.entry import FeedEntry
from forwarder.lli.estimates import INITIAL_TIMEOUT, MAX_TIMEOUT, MIN_TIMEOUT, Rtt
from forwarder.lli.neighbours import Neighbours
from forwarder.lli.ranges import MOST_AGAIN
from forwarder.lli.upstream import MAX_TRIES, Lli, Recovery, State, Upstream
from forwarder.tables.face import Face, LinkType
from forwarder.tables.fib import NextHop
from forwarder.wire.evidence import MOST_HOPS, Evidence, proven_text
from forwarder.wire.feed import LAST_ITEM
from forwarder.wire.packet import SENT_HOP_LIMIT

FIRST_SEARCH: Final = INITIAL_TIMEOUT
"""Time for which a new feed is asked for at the best next hop alone."""
GRACE: Final = 50 * MS
"""Time that a node without its source searches before it informs its downstreams."""
WAITING: Final = 1_000 * MS
"""Time that a node new to a feed searches for a source before it informs its downstreams."""
SCOUTING: Final = 1_000 * MS
"""Time for which a cheaper next hop is asked beside the upstream."""
_MOST_REACH: Final = 8192
"""Items under way at most: some 10 MB."""
_FIRST_RETRY: Final = 250 * MS
_LAST_RETRY: Final = 8_000 * MS
_BELIEVED: Final = 4_000 * MS
_ASKED: Final = 1
"""The First of an upstream that has been asked for it and has not said."""


class Upstreams:
    """The upstream side of all feeds of a forwarder; the arguments are FeedTable's."""

    def __init__(
        self,
        hops: Callable[[bytes, bool], Sequence[NextHop] | None],
        send: Callable[[int, bytes], None],
        fetch: Callable[[int, bytes, int, int], None],
        faces: Mapping[int, Face],
        rng: Random,
        counters: Counter[str],
        recovery: Recovery,
        downstreams: Downstreams,
        neighbours: Neighbours,
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
        self._neighbours = neighbours

    # What is asked.

    def ask(self, entry: FeedEntry, now: int) -> None:
        """Ask upstream for the items that downstreams have granted and the cache lacks."""
        if not entry.ranges:
            return
        self._find_way(entry, now)
        up = entry.upstream
        up.back_at = NEVER
        first, last = entry.ranges.first_wanted(), entry.ranges.last_wanted()
        if entry.cache.fork is not None:
            last = min(last, entry.cache.fork.seq - 1)
        if first > up.next:
            up.skip(first)
        if first < up.next and entry.is_past(first):
            self._ask_for_the_past(entry, first, now)
        elif first < up.next and self._find_way(entry, now):
            # Nobody has wanted what comes next, so far, but only what comes later.
            self._send_llis(entry, entry.face, entry.upstream.go_back(first, entry.cache.max_items, now), now)
        else:
            entry.backfill = None
        if entry.ranges and self._find_way(entry, now):
            up = entry.upstream
            limit = min(last, up.next - 1 + self._reach(entry, last))
            if not entry.is_fed and entry.cache.fork is None:
                limit = max(limit, up.next)  # a hop tells of a source only those who ask it for something
            limit = min(limit, LAST_ITEM)
            until = entry.ranges.last_expiry()
            if entry.is_fed:
                # A node with a source asks for as long as it is asked.
                lease = max(until, now + entry.ranges.longest_lifetime())
            else:
                lease = self._waits_until(entry, entry.face, until, now)
            self._want(entry, entry.face, up, limit, lease, now)
            for face, scout in list(entry.scouts.items()):
                if scout.head > up.next:  # nobody wanted what lies before, when it was sent
                    self._send_llis(entry, face, scout.rewind(up.next, 1, now), now)
                    continue
                scout.skip(up.next)
                until_then = self._waits_until(entry, face, until, now)
                self._want(entry, face, scout, min(limit, up.next), until_then, now)

    def _want(
        self, entry: FeedEntry, face: int | None, holder: Upstream, limit: int, until: int, now: int
    ) -> None:
        """Ask a holder for new items, and for all once more if a search may go much further than it did."""
        llis = holder.want(limit, until, now)
        if not llis and not entry.is_fed and self._hop_limit(entry, face) >= 2 * holder.hop_limit:
            llis = holder.repeat(now)
        self._send_llis(entry, face, llis, now)

    def _waits_until(self, entry: FeedEntry, face: int | None, until: int, now: int) -> int:
        """Return until when a node without a source asks a next hop that may wait for this node.

        A lifetime counts from the arrival of its LLI: if each asked for all that is left, they would keep
        each other for ever. So a round trip is taken off, but an eighth at most, as a search may have to go
        through many nodes. Where too little is left for an answer, nothing is asked: the last moments of a
        search would be its busiest.
        """
        holder = None if face is None else entry.holder(face)
        if face is None or holder is None:
            return until
        unknown = INITIAL_TIMEOUT if holder.state is State.PULLING else 0
        left = until - now
        until -= min(self._neighbours.of(face).rtt.smoothed or unknown, left // 8)
        return until if until - now >= MIN_TIMEOUT else now

    def _reach(self, entry: FeedEntry, last: int) -> int:
        """Return how many items may be under way.

        The cache is the buffer: no more than it holds, as they may all have to wait for downstreams' links.
        As long as they do not, it may be twice as many each time that all that were allowed have come: what
        the path holds needs no room here. Once they do wait, it is what there is room for. A node that leaves
        repairs to its downstreams needs the room for the items that they ask for again.
        """
        up, room = entry.upstream, entry.cache.max_items
        if self._repair is Recovery.NONE:
            return room
        waiting = max((lag for r in entry.ranges if (lag := up.next - r.wanted) <= room), default=0)
        if waiting > room // 2:
            entry.reach = room
        elif up.next > entry.reach_end:
            if entry.reach_end and waiting <= room // 4:
                entry.reach = min(2 * entry.reach, _MOST_REACH)
            entry.reach_end = up.next - 1 + entry.reach if up.next - 1 + entry.reach < last else 0
        return max(min(entry.reach, entry.reach - waiting), 1)

    def wake(self, entry: FeedEntry, now: int) -> None:
        """Act on the alarm of a feed that somebody has credit for."""
        for face, holder in list(entry.holders()):
            if not self._may_ask(entry, face):
                continue
            self._send_llis(entry, face, holder.wake(now), now)
            if holder.wants_check:
                holder.wants_check = False
                self._neighbours.check(face, entry)
            if holder.state is State.SILENT:
                self._keeps_silent(entry, face, now)
        if entry.refused and self._forgive(entry, now):
            self._scout(entry, now)
        if not entry.is_fed:
            since = now - entry.unfed_since
            if not entry.has_scouted and since >= FIRST_SEARCH:
                self._scout(entry, now)
            if not entry.is_waiting and since >= (GRACE if entry.has_been_fed else WAITING):
                self._wait(entry)
            if entry.is_waiting and entry.upstream.state is not State.PULLING:
                # Those that speak know no source: it may lie behind one that keeps silent.
                self._go_on_with(entry, self._next_silent(entry))
        elif now >= entry.scouts_until:
            self._call_back(entry, now)
        if now >= entry.demand_at:
            self._demand(entry, now)
        if entry.backfill is not None:
            hops = self._past_hops(entry, entry.ranges.first_wanted())
            self._fetch_all(entry, entry.backfill.wake(hops, now), now)
        self.ask(entry, now)

    def deadline(self, entry: FeedEntry, now: int) -> int:
        """Return the time of a feed's next wake(), ns."""
        deadlines = [entry.demand_at]
        if entry.ranges.last_expiry() - now >= MS:  # else no lifetime is left
            for face, holder in entry.holders():
                if holder.until - now >= MS and self._may_ask(entry, face):
                    deadlines.append(holder.deadline)
        if not entry.is_fed:
            if not entry.has_scouted:
                deadlines.append(entry.unfed_since + FIRST_SEARCH)
            if not entry.is_waiting:
                deadlines.append(entry.unfed_since + (GRACE if entry.has_been_fed else WAITING))
        elif entry.scouts:
            deadlines.append(entry.scouts_until)
        deadlines.append(entry.upstream.back_at)
        if entry.gone_ask_at > now:
            deadlines.append(entry.gone_ask_at)
        deadlines += entry.refused.values()
        if entry.backfill is not None and entry.backfill.deadline is not None:
            deadlines.append(entry.backfill.deadline)
        return min(deadlines)

    # What next hops say.

    def offered(self, entry: FeedEntry, face: int, evidence: Evidence | None, now: int) -> None:
        """Take in the evidence that a next hop offers; None: it knows no source."""
        holder = entry.holder(face)
        if holder is None:
            return
        entry.muted.discard(face)
        known = entry.evidence
        if evidence is not None:
            evidence = evidence.proven_by(known)
            if not evidence.is_whole and evidence.beats(known):
                # Who says so takes this node for what it was before it began anew, or had no room for more.
                if now >= holder.proof_due:
                    holder.proof_due = now + self._neighbours.of(face).rtt.timeout()
                    self._name_anew(entry, face, holder, now)
                return
            evidence = self._believed(entry, evidence)
        holder.offered = evidence
        if evidence is None:
            if face == entry.face and entry.is_fed:
                self._lose(entry, now)
            return
        if evidence.hops >= MOST_HOPS:
            return
        if face == entry.face and entry.is_fed:
            if not evidence.beats(known):  # it has begun anew
                self._lose(entry, now)
            elif evidence.onward.beats(known):
                self._improve(entry, evidence.onward, now)
        elif not evidence.beats(known):
            if holder.known_sent == entry.needed():
                return  # it knows that this is of no use
            if entry.is_fed and holder.is_corrected:
                self.leave(entry, face, now)  # what is newer comes sooner from the upstream: it goes on so
            else:
                holder.is_corrected = True
                self._name_anew(entry, face, holder, now)
        elif (
            not entry.is_fed
            or known is None
            or known.is_signed < evidence.is_signed
            or face in _cheaper(entry, self._hops(entry))
        ):
            self._adopt(entry, face, evidence, now)

    def _name_anew(self, entry: FeedEntry, face: int, holder: Upstream, now: int) -> None:
        """Ask a next hop once more, with what is known by now."""
        if self._may_ask(entry, face):
            self._send_llis(entry, face, holder.demand(now), now)

    def _believed(self, entry: FeedEntry, evidence: Evidence) -> Evidence | None:
        """Check the number of evidence, if it is news; None if it is not to be believed.

        Once the feed's author has signed a number, one that is not signed is not believed.
        """
        known = entry.evidence
        if known is not None and evidence.is_signed == known.is_signed and evidence.number <= known.number:
            return evidence
        if evidence.is_signed:
            is_fine = is_signed(entry.feed, evidence.proof, proven_text(entry.feed, evidence.number))
        else:
            is_fine = (known is None or not known.is_signed) and evidence.is_believable(known)
        if not is_fine:
            self._counters["rejected_evidence"] += 1
        return evidence if is_fine else None

    def refused(self, entry: FeedEntry, face: int, now: int) -> None:
        """Take in a next hop's refusal: it is asked again after a pause."""
        times = entry.refusals.get(face, 0)
        pause = min(_FIRST_RETRY << min(times, 10), _LAST_RETRY)
        entry.refused[face] = now + pause - self._rng.randrange(pause // 2)
        entry.refusals[face] = times + 1
        self.leave(entry, face, now, is_gone=True)

    def leave(self, entry: FeedEntry, face: int, now: int, *, is_gone: bool = False) -> None:
        """End the grant to a next hop; `is_gone` if no cancel is needed or possible."""
        if face in entry.scouts:
            self._cancel(entry, face, entry.scouts.pop(face), now, is_gone=is_gone)
        elif face == entry.face:
            self._counters["failovers"] += 1
            self._cancel(entry, face, entry.upstream, now, is_gone=is_gone)
            entry.face = None
            if entry.is_fed:
                self._lose(entry, now)
            self.ask(entry, now)

    def recheck(self, entry: FeedEntry, now: int) -> None:
        """Ask the next hops that changed routes, links and neighbours make worth asking."""
        hops = self._hops(entry)
        entry.muted.clear()
        entry.turn = None
        entry.look_again()
        for face in [face for face in entry.scouts if face not in hops]:
            self.leave(entry, face, now)
        if entry.face is not None and not entry.is_fed and entry.face not in hops:
            self.leave(entry, entry.face, now)
        if entry.is_fed:
            cheaper = _cheaper(entry, hops)
            if cheaper:
                entry.scouts_until = now + SCOUTING
            for face in cheaper:
                self._send_scout(entry, face, now)
        elif entry.has_scouted:
            self._scout(entry, now)
        self.ask(entry, now)

    def end(self, entry: FeedEntry, now: int) -> None:
        """End all grants of a feed."""
        for face, holder in list(entry.holders()):
            self._cancel(entry, face, holder, now, is_end=True)
        entry.scouts.clear()
        if entry.has_scouted and not entry.is_fed and entry.face is not None:
            # Those that speak know no source: the next entry begins with one that keeps silent.
            entry.turn = entry.face
        entry.last_face, entry.face = entry.face, None
        entry.is_fed = False

    def begins_at(self, entry: FeedEntry, face: int, first: int, now: int) -> None:
        """Note that a next hop has nothing before an item."""
        if face != entry.face:
            return
        entry.upstream_first, entry.first_until = first, now + _BELIEVED
        if entry.gone_asks and entry.gone is not None and first > entry.gone[1]:
            entry.gone_ask_at = NEVER
        if first > entry.upstream.next:
            entry.upstream.skip(first)

    def delivered(self, entry: FeedEntry, face: int) -> None:
        """Note that an item has come from a face.

        Of next hops without a source it is the one to go on with, even if it was left as it kept silent.
        """
        if not entry.is_fed and (face in entry.scouts or face in entry.muted):
            self._go_on_with(entry, face)
        entry.muted.discard(face)
        entry.turn = None

    def demand_if_needed(self, entry: FeedEntry, now: int) -> None:
        """Demand newer evidence if a downstream holds evidence that this node's does not beat."""
        if not entry.is_fed or entry.evidence is None:
            return
        wanted = [
            granted.known.number
            for _, granted in entry.ranges.items()
            if granted.known is not None and granted.known.calls_for_more(entry.evidence)
        ]
        number = max(wanted, default=None)
        if number is None or number < entry.evidence.number:
            entry.demanded, entry.demand_at = None, NEVER
        elif entry.demanded is None or number > entry.demanded:
            entry.demanded, entry.demands = number, 0
            self._demand(entry, now)

    # The search.

    def _lose(self, entry: FeedEntry, now: int) -> None:
        """Have no source any more: look for another."""
        entry.is_fed = entry.upstream.is_fed = False
        entry.unfed_since = now
        entry.demanded, entry.demand_at = None, NEVER
        if entry.ranges:  # the last one may have gone by the same packet, or with the same face
            self._scout(entry, now)

    def _wait(self, entry: FeedEntry) -> None:
        """Announce to downstreams that no source has been found."""
        entry.is_waiting = True
        self._counters["waits"] += 1
        self._downstreams.announce(entry)
        self._downstreams.answer(entry)

    def _adopt(self, entry: FeedEntry, face: int, evidence: Evidence, now: int) -> None:
        """Take a next hop for upstream."""
        if entry.face not in (None, face):
            self._counters["failovers"] += 1
        self._go_on_with(entry, face)
        self._call_back(entry, now)
        entry.is_fed = entry.upstream.is_fed = entry.has_been_fed = True
        entry.is_waiting = entry.has_scouted = False
        entry.last_face = entry.turn = None
        entry.look_again()
        if entry.upstream_first > _ASKED:
            entry.upstream_first = 0  # so it was without a source
        entry.muted.clear()
        entry.refused.clear()
        entry.refusals.clear()
        self._neighbours.asked(face, entry.upstream.granted_ms, now)
        self._improve(entry, evidence.onward, now)
        self.ask(entry, now)

    def _improve(self, entry: FeedEntry, evidence: Evidence, now: int) -> None:
        """Adopt better evidence, and offer it to the downstreams that need it."""
        entry.evidence = evidence
        self.demand_if_needed(entry, now)
        self._downstreams.announce(entry)

    def _scout(self, entry: FeedEntry, now: int) -> None:
        """Ask all next hops."""
        entry.has_scouted = True
        self._find_way(entry, now)
        for face in self._hops(entry):
            self._send_scout(entry, face, now)

    def _send_scout(self, entry: FeedEntry, face: int, now: int) -> None:
        if (
            self._may_ask(entry, face)
            and entry.holder(face) is None
            and face not in entry.muted
            and face not in entry.refused
        ):
            scout = entry.scouts[face] = self._new_holder(face, entry.upstream.next)
            entry.has_moved = True
            until = entry.ranges.last_expiry()
            wanted = scout.want(entry.upstream.next, self._waits_until(entry, face, until, now), now)
            self._send_llis(entry, face, wanted, now)

    def _call_back(self, entry: FeedEntry, now: int) -> None:
        """End all scouts."""
        for face in list(entry.scouts):
            self.leave(entry, face, now)
        entry.scouts_until = NEVER

    def _keeps_silent(self, entry: FeedEntry, face: int, now: int) -> None:
        """Pull from a next hop that does not answer.

        It may be unable to push. If that is in vain, from the next.
        """
        is_first_time = face not in entry.muted
        entry.muted.add(face)
        others = [hop for hop in self._hops(entry) if hop in entry.muted and hop != face]
        if face == entry.face and (is_first_time or not others):
            entry.upstream.assume_legacy()
            return
        if face == entry.face:
            entry.turn = face
        self.leave(entry, face, now)

    def _go_on_with(self, entry: FeedEntry, face: int | None) -> None:
        """Let a next hop, if there is one, be granted the credit; the one that was becomes a scout.

        One that keeps silent is pulled from.
        """
        if face is None or face == entry.face:
            return
        scout = entry.scouts.pop(face, None)
        if scout is None:
            scout = self._new_holder(face, entry.upstream.next)
            if face in entry.muted:
                scout.assume_legacy()
        scout.skip(entry.upstream.next)
        if entry.face is not None:
            entry.scouts[entry.face] = entry.upstream
        entry.face, entry.upstream = face, scout
        entry.upstream_first = 0
        entry.has_moved = True

    def _find_way(self, entry: FeedEntry, now: int) -> bool:
        """Settle on a next hop to be granted the credit; return whether an LLI may go there."""
        if entry.face is None:
            self._go_on_with(entry, self._best_hop(entry))
        return entry.face is not None and self._may_ask(entry, entry.face)

    def _may_ask(self, entry: FeedEntry, face: int) -> bool:
        """Return whether an LLI may go to a face: its receiver would drop one without hops left."""
        return entry.hop_limit > 0 or self._faces[face].is_local

    def _hop_limit(self, entry: FeedEntry, face: int | None) -> int:
        """Return the hop limit of an LLI to a face. Behind a legacy forwarder, or a link of many nodes, those
        that ask are not all that can be asked.
        """
        is_one = (
            face is not None
            and self._faces[face].link_type is LinkType.POINT_TO_POINT
            and self._neighbours.of(face).is_aware
        )
        return entry.hop_limit_to(face if is_one else None)

    def _best_hop(self, entry: FeedEntry) -> int | None:
        """Return the next hop to be granted the credit.

        The cheapest; of those that keep silent, the next in turn.
        """
        silent = self._next_silent(entry)
        if entry.turn is not None and silent is not None:
            return silent
        speaking = [face for face in self._willing(entry) if face not in entry.muted]
        if entry.last_face in speaking:
            return entry.last_face
        return speaking[0] if speaking else silent

    def _next_silent(self, entry: FeedEntry) -> int | None:
        """Return the next hop in turn of those that keep silent."""
        silent = [face for face in self._willing(entry) if face in entry.muted]
        before = silent.index(entry.turn) if entry.turn in silent else -1
        return silent[(before + 1) % len(silent)] if silent else None

    def _willing(self, entry: FeedEntry) -> list[int]:
        """Return the next hops that have not refused; those that ask here probably know nothing better."""
        hops = [face for face in self._hops(entry) if face not in entry.refused]
        return sorted(hops, key=lambda face: face in entry.ranges)

    def _new_holder(self, face: int, first: int) -> Upstream:
        neighbour = self._neighbours.of(face)
        holder = Upstream(first, neighbour.rtt, recovery=self._repair)
        holder.is_watched, holder.is_certain = neighbour.is_aware, neighbour.is_certain
        return holder

    def _hops(self, entry: FeedEntry) -> list[int]:
        """Return the next hops whose neighbours live, the cheapest first."""
        hops = [hop.face for hop in self._next_hops(entry.feed, False) or ()]
        return [face for face in hops if self._faces[face].is_up and not self._neighbours.is_dead(face)]

    def _forgive(self, entry: FeedEntry, now: int) -> bool:
        """Return whether some that have refused may be asked again; they go on counting their refusals."""
        due = [face for face, at in entry.refused.items() if at <= now]
        for face in due:
            del entry.refused[face]
        return bool(due)

    def _demand(self, entry: FeedEntry, now: int) -> None:
        if entry.face is None or not entry.is_fed:
            entry.demand_at = NEVER
            return
        self._counters["demands"] += 1
        pause = self._neighbours.of(entry.face).rtt.timeout(entry.demands)
        entry.demand_at = now + min(max(pause, INITIAL_TIMEOUT << min(entry.demands, 4)), MAX_TIMEOUT)
        entry.demands += 1
        self._send_llis(entry, entry.face, entry.upstream.demand(now), now)

    # The past.

    def _ask_for_the_past(self, entry: FeedEntry, first: int, now: int) -> None:
        """Fetch old items that a late joiner asks for and the cache has dropped."""
        waiting = [(face, granted) for face, granted in entry.ranges.items() if granted.wanted <= first]
        if not any(self._downstreams.has_room(face, granted, now) for face, granted in waiting):
            return  # nobody's link has room for it
        if now >= entry.first_until:
            entry.upstream_first = 0  # it may have found what it did not have
        if entry.item(first) is not None:
            return
        if self._can_go_back(entry, first, now):
            self._send_llis(entry, entry.face, entry.upstream.go_back(first, entry.cache.max_items, now), now)
            return
        is_gone = entry.gone is not None and entry.gone[0] <= first <= entry.gone[1]
        if entry.gone is not None and is_gone and now < entry.gone_until:
            entry.backfill = None
            self._give_up_the_past(entry, *entry.gone, now)
            return
        if entry.backfill is None:
            entry.backfill = Backfill(self._fetch_rtt, entry.cache.past_hop, is_gone=is_gone)
        if entry.upstream_first == 0 and self._find_way(entry, now):
            # An upstream that has no past says so at once, where a classic Interest gets no answer.
            entry.upstream_first, entry.first_until = _ASKED, now + _BELIEVED
            lifetime_ms = max((entry.ranges.last_expiry() - now) // MS, 1)
            self._send_llis(entry, entry.face, [Lli(first, 1, lifetime_ms)], now)
        last = next((seq for seq in entry.cache if seq > first), entry.upstream.next) - 1
        last = min(last, max(r.wanted_until for _, r in entry.ranges.items() if r.wanted <= last))
        hops = self._past_hops(entry, first)
        self._fetch_all(entry, entry.backfill.want(first, last, hops, now), now)
        if (entry.is_fed and not hops) or (entry.backfill.is_lost and not self._would_say(entry, hops)):
            lifetime = entry.ranges.longest_lifetime()
            # That nobody answered shows less than what a source has said: the way there may be dead.
            until = now + (lifetime if entry.is_fed else min(lifetime, _BELIEVED))
            entry.gone, entry.gone_until = (first, last), until
            entry.backfill, entry.gone_ask_at, entry.gone_asks = None, 0, 0
            self._give_up_the_past(entry, first, last, now)

    def _can_go_back(self, entry: FeedEntry, first: int, now: int) -> bool:
        """Return whether the upstream is to begin again at an item.

        Only a node with a source asks for that: nodes that wait for each other would send each other back
        without end.
        """
        if self._recovery is not Recovery.GO_BACK_N or first < entry.upstream_first:
            return False
        return entry.is_fed and self._find_way(entry, now)

    def _give_up_the_past(self, entry: FeedEntry, first: int, last: int, now: int) -> None:
        """Send First to each downstream that asks for items that nobody has.

        A downstream that has been told already waits, and so does this node.
        """
        for face, granted in entry.ranges.items():
            is_new = entry.told_first.get(face, 0) <= last
            if granted.wanted <= last and (is_new or face in entry.untold):
                entry.told_first[face] = last + 1
                entry.untold.discard(face)
                wanted = granted.wanted
                if is_new:  # else it has asked to wait, and need not ask again
                    granted.skip(last + 1)
                self._downstreams.send_state(entry, face, granted, wanted)
                entry.ranges.settle(face)
                self._downstreams.serve(entry, face, now)
        if not entry.is_fed or entry.face is None or all(granted.wanted > last for granted in entry.ranges):
            return
        if now >= entry.gone_ask_at and entry.gone_asks <= MAX_TRIES:
            entry.gone_ask_at = now + self._neighbours.of(entry.face).rtt.timeout(entry.gone_asks)
            entry.gone_asks += 1
            lifetime_ms = max(entry.ranges.longest_lifetime() // MS, 1)
            again = Lli(first, min(last - first + 1, MOST_AGAIN), lifetime_ms)
            self._send_llis(entry, entry.face, [again], now)

    def _would_say(self, entry: FeedEntry, hops: list[int]) -> bool:
        """Return whether the upstream would have said First if it lacked an item; others stay silent."""
        if not entry.is_fed or entry.face is None or entry.face not in hops:
            return False
        return self._neighbours.of(entry.face).is_aware

    def _past_hops(self, entry: FeedEntry, first: int) -> list[int]:
        """Return the next hops that may have an item of the past.

        The upstream may, even if no route leads there any more, until it has said otherwise.
        """
        hops = [hop.face for hop in self._next_hops(entry.feed, True) or ()]
        if entry.is_fed and entry.face is not None and entry.face not in hops:
            hops.append(entry.face)
        has_no_past = entry.face if first < entry.upstream_first else None
        return [face for face in hops if face != has_no_past]

    # Packets.

    def _cancel(
        self,
        entry: FeedEntry,
        face: int,
        holder: Upstream,
        now: int,
        *,
        is_gone: bool = False,
        is_end: bool = False,
    ) -> None:
        """Ask nothing more of a next hop.

        Unless the entry ends, a cancel goes out even if nothing is left to be cancelled: else no packet would
        show that this next hop counts no longer.
        """
        entry.has_moved = True
        cancel = holder.cancel(now)
        if not cancel and not is_end and holder.has_asked:
            cancel = [Lli(holder.head, 0, 1)]
        holder.is_fed = False
        holder.offered = None
        if not is_gone and not self._neighbours.is_dead(face):
            self._send_llis(entry, face, cancel, now)

    def _send_llis(self, entry: FeedEntry, face: int | None, llis: list[Lli], now: int) -> None:
        """Send Interests to a next hop."""
        if face is None:
            return
        holder = entry.holder(face)
        for lli in llis:
            if lli.credit is None:
                self._fetch_all(entry, [(face, lli.first)], now)
                continue
            self._counters["llis_out"] += 1
            nonce = self._rng.getrandbits(32)
            entry.sends(nonce)
            known = entry.needed() if lli.credit else None
            is_aware = bool(lli.credit) and not self._faces[face].is_local
            # A cancel goes no further.
            hop_limit = self._hop_limit(entry, face) if lli.credit else SENT_HOP_LIMIT
            if holder is not None:
                holder.known_sent, holder.hop_limit = known, hop_limit
                if lli.credit and holder.is_fed:
                    self._neighbours.asked(face, lli.lifetime_ms, now)
            self._send(face, lli.packet(entry.feed, nonce, hop_limit, known, is_aware=is_aware))

    def _fetch_rtt(self, face: int) -> Rtt:
        return self._neighbours.of(face).fetch_rtt

    def _fetch_all(self, entry: FeedEntry, wanted: list[tuple[int, int]], now: int) -> None:
        for face, seq in wanted:
            self._counters["fetches"] += 1
            self._fetch(face, entry.feed, seq, now)


def _cheaper(entry: FeedEntry, hops: list[int]) -> list[int]:
    """Return those of a feed's next hops, the cheapest first, that cost less than the upstream."""
    return hops if entry.face is None or entry.face not in hops else hops[: hops.index(entry.face)]
