"""Neighbours: whether each lives, and whether both ends of the link agree on all feeds (Hellos).

Theory of operation. A node that has been granted ranges by a neighbour sends it a Hello at least every HELLO,
with a digest of all these ranges if there is nothing else to say, and one more after the last has ended. So
the neighbour knows that the link lives, and that nothing was lost, whatever the number of feeds. If none
comes, or another digest, or if it wants to know what has become of some feed, it sends a Hello that wants a
reply, again and again until one comes; after MAX_TRIES the neighbour counts as dead. News about sources go
the same way. Grants are renewed by the digest of all of them, as RSVP refreshes its state (RFC 2961); the
rest is much like BFD (RFC 5880).

Local faces, and neighbours that have never shown that they know this protocol, are left alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from base.timers import Timers
from base.units import MS, NEVER
from forwarder.lli.entry import FeedEntry
from forwarder.lli.estimates import Rtt
from forwarder.lli.ranges import Range
from forwarder.lli.upstream import MAX_TRIES
from forwarder.tables.face import Face
from forwarder.wire.evidence import Evidence
from forwarder.wire.hello import MOST_PROOFS, MOST_STANDINGS, Hello, Standing, digest, make_hello, membership

HELLO: Final = 3_200 * MS
"""The longest time between Hellos of a neighbour that has been granted something."""
_SLACK: Final = HELLO // 8
AMPLIFICATION: Final = 3
"""Bytes that may go to an address for each that came from it, until it is proven (RFC 9000, section 8)."""

_RETRIES: Final = 8
"""The part of a lifetime after which a renewal that was in vain is tried again."""
_LAST: Final = 4
"""The last part of a lifetime, in which each feed renews for itself if all together have not."""
_GIVEN_UP: Final = 190
"""Hellos to a neighbour that is dead, until it is left alone: ten minutes of them."""


class Neighbour:
    """One neighbour, known by its face.

    Attributes:
        face: its face.
        rtt: what is known of the way there and back.
        fetch_rtt: of the way to the items of the past.
        is_aware: it speaks this protocol.
        is_certain: it is an application of this node that speaks it.
        listens: it, or somebody beyond it, understands Hellos.
        is_dead: it does not answer.
        held: what it was asked for, by the feed's reference.
        granted: what it has granted, likewise.
        owes_digest: it has granted something, or was not told yet that nothing is left.
    """

    def __init__(self, face: int) -> None:
        self.face = face
        self.rtt = Rtt()
        self.fetch_rtt = Rtt()
        self.is_aware = self.is_certain = self.is_dead = self.listens = self.owes_digest = False
        self.held: dict[bytes, FeedEntry] = {}
        self.granted: dict[bytes, FeedEntry] = {}
        self.agreed_at = 0  # when it last showed that it knows of what it was asked for
        self.compared_at = 0  # when it was last sent the digest of what it has been granted
        self.number = 0
        self.pending: dict[int, int] = {}  # Hellos to be replied to, of which the last will do: when sent, ns
        self.pending_checks: dict[bytes, None] = {}
        self.pending_notices: dict[bytes, None] = {}
        self.tries = 0
        self.checks: dict[bytes, None] = {}
        self.notices: dict[bytes, None] = {}
        self.challenge: int | None = None  # what proves its address, if it is repeated
        self.answered = 0  # bytes sent there by this protocol before it was proven
        self.renew_at = NEVER
        self.renews = False  # the pending Hello does
        self.pending_held: bytes | None = None  # what it says to hold

    def due(self) -> int:
        """Return when its next action is due, ns."""
        due = self.compared_at + HELLO if self.owes_digest and (self.listens or self.is_aware) else NEVER
        if not self.is_aware:
            return due
        if self.pending:
            return min(due, self.retry_at())
        if self.checks or self.notices:
            return 0
        if self.held:
            due = min(due, self.silent_at(), self.renew_at)
        return due

    def silent_at(self) -> int:
        """Return when its next Hello is overdue, ns: they are a period apart, however long the way."""
        return self.agreed_at + HELLO + _SLACK

    def retry_at(self) -> int:
        """Return when the pending Hello is to be repeated, ns."""
        return self.pending[self.number] + (HELLO if self.is_dead else self.rtt.timeout(self.tries))

    def asked(self) -> list[Standing]:
        """Return the standings of all grants to it, as this node holds them."""
        standings = []
        for reference, entry in self.held.items():
            holder = entry.holder(self.face)
            if holder is not None and holder.head <= holder.limit:
                standings.append(self.have(reference))
        return standings

    def have(self, reference: bytes) -> Standing:
        """Return the standing of the grant to it of one feed, as this node holds it."""
        entry = self.held.get(reference)
        holder = None if entry is None else entry.holder(self.face)
        if holder is None or holder.next > holder.limit:
            return Standing(reference)
        first = holder.head if holder.head <= holder.limit else holder.next  # the rest is sent, and was lost
        offered = holder.offered
        return Standing(reference, first, holder.limit, None if offered is None else offered.bare)

    def state(self, reference: bytes) -> Standing:
        """Return the standing of its own grant of one feed."""
        entry, granted = self.granted.get(reference), self._range(reference)
        if entry is None or granted is None:
            return Standing(reference)
        # What lies before where the feed begins here, it has skipped.
        first = max(granted.next, entry.told_first.get(self.face, 0))
        if first > granted.limit:
            return Standing(reference)
        told = granted.told
        return Standing(reference, first, granted.limit, None if told is None else told.bare)

    def proven(self, state: Standing, known: Evidence | None) -> Standing:
        """Return a state() with the proof, unless a node with this evidence has it."""
        granted = self._range(state.reference)
        if granted is None or granted.told is None or state.next is None:
            return state
        return state._replace(evidence=granted.told.shown_to(known))

    def news(self, reference: bytes) -> Standing:
        """Return the standing of its own grant of one feed for a neighbour that has sent its Known."""
        granted = self._range(reference)
        return self.proven(self.state(reference), None if granted is None else granted.known)

    def _range(self, reference: bytes) -> Range | None:
        entry = self.granted.get(reference)
        return None if entry is None else entry.ranges.get(self.face)

    def grants(self) -> list[Standing]:
        """Return all that it has granted, as it stands here."""
        return [state for reference in self.granted if (state := self.state(reference)).next is not None]

    def compared(self, now: int) -> bytes:
        """Return the digest of its grants, to be sent now; the last one is that of none."""
        self.compared_at, self.owes_digest = now, bool(self.granted)
        return digest(self.grants())


class News:
    """Consequences of a Hello.

    Attributes:
        states: what the neighbour says of feeds that it was asked for.
        dropped: feeds that it has granted, and knows nothing of any more.
        renewed: feeds that it has granted, for another lifetime.
        left_alone: feeds that it was asked for, and that no Hello renews: one or another is spent each time.
        proven: it receives what is sent to it.
    """

    def __init__(self) -> None:
        self.states: list[tuple[FeedEntry, Standing]] = []
        self.dropped: list[FeedEntry] = []
        self.renewed: list[FeedEntry] = []
        self.left_alone: list[FeedEntry] = []
        self.proven = False


class Neighbours:
    """All neighbours of a forwarder.

    Args:
        send: called with (face, packet) for everything that goes out.
        faces: all of the forwarder's.
        draw: returns 32 random bits, for challenges.
        counters: hellos_in, hellos_out, deaths.
    """

    def __init__(
        self,
        send: Callable[[int, bytes], None],
        faces: Mapping[int, Face],
        draw: Callable[[], int],
        counters: Counter[str],
    ) -> None:
        self._send = send
        self._faces = faces
        self._draw = draw
        self._counters = counters
        self._neighbours: dict[int, Neighbour] = {}
        self._timers: Timers[Neighbour] = Timers()

    def of(self, face: int) -> Neighbour:
        """Return the neighbour behind a face."""
        neighbour = self._neighbours.get(face)
        if neighbour is None:
            neighbour = self._neighbours[face] = Neighbour(face)
        return neighbour

    def is_dead(self, face: int) -> bool:
        """Return whether a neighbour has left Hellos unanswered until it counts as dead."""
        neighbour = self._neighbours.get(face)
        return neighbour is not None and neighbour.is_dead

    def follows(self, face: int) -> int:
        """Return how many feeds a neighbour follows through this node."""
        neighbour = self._neighbours.get(face)
        return 0 if neighbour is None else len(neighbour.granted)

    def rest(self) -> None:
        """Leave the dead alone: nobody follows any feed."""
        for neighbour in self._neighbours.values():
            if neighbour.pending:
                self._give_up(neighbour)
                neighbour.is_dead = False
                self._schedule(neighbour)

    def index(self, entry: FeedEntry) -> None:
        """Update the neighbours that a feed was asked of, and those that have granted it."""
        held, granted = entry.indexed
        now_held = frozenset(face for face, _ in entry.holders())
        now_granted = frozenset(face for face, _ in entry.ranges.items())
        if now_held == held and now_granted == granted:
            return
        for face in held - now_held:
            self._drop(face, self.of(face).held, entry)
        for face in granted - now_granted:
            neighbour = self.of(face)
            self._drop(face, neighbour.granted, entry)
            # That a range is spent or ended is no news: a holder that misses its items asks for them.
            neighbour.notices.pop(entry.reference, None)
            neighbour.pending_notices.pop(entry.reference, None)
        for face in now_held - held:
            self.of(face).held[entry.reference] = entry
            self._schedule(self.of(face))
        for face in now_granted - granted:
            neighbour = self.of(face)
            neighbour.granted[entry.reference] = entry
            neighbour.owes_digest = True
            self._schedule(neighbour)
        entry.indexed = now_held, now_granted

    def _drop(self, face: int, entries: dict[bytes, FeedEntry], entry: FeedEntry) -> None:
        neighbour = self.of(face)
        if entries.get(entry.reference) is entry:
            del entries[entry.reference]
            if not neighbour.held:
                neighbour.renew_at, neighbour.renews = NEVER, False
            self._schedule(neighbour)

    def heard(self, face: int, now: int) -> bool:
        """Take note of a packet from a face; return whether that was dead."""
        neighbour = self._neighbours.get(face)
        if neighbour is None:
            return False
        if not neighbour.held:
            neighbour.agreed_at = now
        if not neighbour.is_dead:
            return False
        neighbour.is_dead = False
        neighbour.tries = 1  # as many as it had are not in vain any more
        # Few of the Hellos that have said so will have come through.
        self._say(neighbour, Hello(is_forgotten=True))
        self._schedule(neighbour)
        return True

    def agrees(self, face: int, now: int) -> None:
        """Note that a neighbour knows of the grants to it, as its Hellos and answers to LLIs show.

        Other packets do not: who has started anew, and forgotten all, may send them.
        """
        neighbour = self.of(face)
        neighbour.agreed_at = now
        self._schedule(neighbour)

    def speaks(self, face: int) -> None:
        """Take note that a neighbour knows this protocol."""
        neighbour = self.of(face)
        if self._faces[face].is_local:
            neighbour.is_certain = True
            for entry in neighbour.held.values():
                if (holder := entry.holder(face)) is not None:
                    holder.is_certain = True
            return
        if not neighbour.is_aware:
            neighbour.is_aware = True
            for entry in neighbour.held.values():
                holder = entry.holder(face)
                if holder is not None:
                    holder.is_watched = True
            self._schedule(neighbour)

    def asked(self, face: int, lifetime_ms: int, now: int) -> None:
        """Note that an LLI has been sent: Hellos renew it after half of its lifetime."""
        neighbour = self.of(face)
        neighbour.renew_at = min(neighbour.renew_at, now + lifetime_ms * MS // 2)
        if neighbour.is_aware:
            self._schedule(neighbour)

    def may_send(self, face: int) -> bool:
        """Return whether items may be pushed to a face.

        Its neighbour is known to receive what is sent there.
        """
        return self._faces[face].is_proven

    def answer(self, face: int, packet: bytes) -> bool:
        """Send a face a packet; return False if its address may be made up and too much has gone there."""
        known = self._faces[face]
        if not known.is_proven:
            neighbour = self.of(face)
            if AMPLIFICATION * known.in_bytes < neighbour.answered + len(packet):
                return False
            neighbour.answered += len(packet)
        self._send(face, packet)
        return True

    def prove(self, face: int, now: int) -> None:
        """Ask a neighbour whose address may be made up to repeat a number that only it can know."""
        neighbour = self.of(face)
        if neighbour.challenge is None:
            neighbour.challenge = self._draw()
        self._say(neighbour, Hello(neighbour.challenge))

    def listens(self, face: int) -> None:
        """Take note that the sender of an LLI, perhaps behind a legacy forwarder, understands Hellos."""
        neighbour = self.of(face)
        if not neighbour.listens and not self._faces[face].is_local:
            neighbour.listens = True
            self._schedule(neighbour)

    def check(self, face: int, entry: FeedEntry) -> None:
        """Ask a neighbour whether something of a feed was lost."""
        neighbour = self.of(face)
        neighbour.checks[entry.reference] = None
        self._schedule(neighbour)

    def notify(self, face: int, entry: FeedEntry) -> bool:
        """Announce the standing of a feed to a neighbour, reliably; return False if it speaks no Hellos."""
        neighbour = self.of(face)
        if not neighbour.is_aware:
            return False
        neighbour.notices[entry.reference] = None
        self._schedule(neighbour)
        return True

    def on_hello(self, face: int, hello: Hello, now: int) -> News:
        """Take in a Hello, and reply if it carries a Number."""
        self._counters["hellos_in"] += 1
        self.speaks(face)
        neighbour, news = self.of(face), News()
        if hello.granted is not None or hello.reply is not None:
            neighbour.agreed_at = now
        if hello.is_forgotten:
            news.dropped = list(neighbour.granted.values())
        unknown = []
        for state in hello.states:
            entry = neighbour.held.get(state.reference)
            if entry is not None:
                news.states.append((entry, state))
            elif state.next is not None:
                unknown.append(Standing(state.reference))
        states = self._compare(neighbour, hello.haves, news)
        held = None
        if hello.held is not None and hello.reply is None:
            held = membership(neighbour.grants())
            if held == hello.held:
                news.renewed = list(neighbour.granted.values())
            else:
                neighbour.notices.update(dict.fromkeys(neighbour.granted))
        is_agreed = hello.granted is None or hello.granted == digest(neighbour.asked())
        if not is_agreed and not neighbour.held:
            # Nothing else would tell it, and it would push until the lifetimes end.
            self._say(neighbour, Hello(is_forgotten=True))
        elif not is_agreed:
            neighbour.checks.update(dict.fromkeys(neighbour.held))
            neighbour.renew_at = min(neighbour.renew_at, now)
        if hello.reply is not None and hello.reply == neighbour.challenge:
            self._faces[face].is_proven = True
            neighbour.challenge = None
            news.proven = True
        if hello.reply in neighbour.pending:
            neighbour.rtt.sample(now - neighbour.pending[hello.reply])
        if neighbour.pending and hello.reply == neighbour.number:
            # What has come since shows that both agree now, and not that the neighbour has renewed anything.
            is_renewed = hello.held is not None and hello.held == neighbour.pending_held
            if hello.held is not None and not is_renewed:
                neighbour.checks.update(dict.fromkeys(neighbour.held))
            news.left_alone = self._replied(neighbour, now, is_renewed=is_renewed)
        if hello.number is not None or unknown:
            reply = Hello(None, hello.number, None, held, tuple(unknown), _fitting(states))
            self._say(neighbour, reply)
        self._schedule(neighbour)
        return news

    def _compare(self, neighbour: Neighbour, haves: Iterable[Standing], news: News) -> list[Standing]:
        """Return the standings that differ from those of Haves."""
        states = []
        for have in haves:
            mine = neighbour.state(have.reference)
            if have.next is None:
                entry = neighbour.granted.get(have.reference)
                if entry is not None:
                    news.dropped.append(entry)
            elif mine != have:
                states.append(neighbour.proven(mine, have.evidence))
        return states

    def _replied(self, neighbour: Neighbour, now: int, *, is_renewed: bool) -> list[FeedEntry]:
        """Take in a reply; return the feeds that must renew for themselves."""
        left_alone = []
        neighbour.pending.clear()
        neighbour.tries = 0
        neighbour.pending_checks.clear()
        neighbour.pending_notices.clear()
        if neighbour.renews:
            neighbour.renew_at = NEVER
            for entry in neighbour.held.values():
                holder = entry.holder(neighbour.face)
                if holder is not None and holder.is_fed:
                    if is_renewed:
                        holder.renewed(now)
                    elif holder.expiry - now <= holder.granted_ms * MS // _LAST:
                        left_alone.append(entry)
                    pause = holder.granted_ms * MS // (2 if is_renewed else _RETRIES)
                    neighbour.renew_at = min(neighbour.renew_at, now + pause)
            neighbour.renews = False
        return left_alone

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._timers.next_deadline()

    def wake(self, now: int) -> list[Neighbour]:
        """Send the Hellos that are due; return the neighbours that have just died."""
        dead = []
        for neighbour in self._timers.expire(now):
            if self._look_after(neighbour, now):
                dead.append(neighbour)
            self._schedule(neighbour)
        return dead

    def forget(self, face: int) -> None:
        """Forget the neighbour behind a face that has gone, or whose link is down."""
        neighbour = self._neighbours.pop(face, None)
        if neighbour is not None:
            self._timers.set(neighbour, None)

    def _look_after(self, neighbour: Neighbour, now: int) -> bool:
        """Act on a neighbour's alarm; return whether it has died."""
        if neighbour.pending and now >= neighbour.retry_at():
            neighbour.tries += 1
            if neighbour.tries >= MAX_TRIES and not neighbour.held and not neighbour.is_dead:
                self._give_up(neighbour)
                return False
            if neighbour.tries >= _GIVEN_UP:
                self._give_up(neighbour)
                neighbour.is_dead = neighbour.is_aware = False
                return False
            is_dying = neighbour.tries >= MAX_TRIES and not neighbour.is_dead
            neighbour.is_dead = neighbour.is_dead or is_dying
            self._ask(neighbour, now, is_dying=is_dying)
            if is_dying:
                self._counters["deaths"] += 1
            return is_dying
        if not neighbour.pending and neighbour.is_aware:
            is_silent = now >= neighbour.silent_at() and bool(neighbour.held)
            is_due = neighbour.checks or neighbour.notices or now >= neighbour.renew_at
            if is_due or is_silent:
                neighbour.renews = neighbour.renews or is_silent
                self._ask(neighbour, now)
                return False
        if neighbour.owes_digest and now >= neighbour.compared_at + HELLO:
            self._say(neighbour, Hello(neighbour.challenge, granted=neighbour.compared(now)))
        return False

    def _give_up(self, neighbour: Neighbour) -> None:
        neighbour.pending.clear()
        neighbour.tries = 0
        neighbour.checks.clear()
        neighbour.notices.clear()
        neighbour.pending_checks.clear()
        neighbour.pending_notices.clear()

    def _ask(self, neighbour: Neighbour, now: int, *, is_dying: bool = False) -> None:
        """Send a numbered Hello with the pending checks and news."""
        room = MOST_STANDINGS
        _move(neighbour.checks, neighbour.pending_checks, room - len(neighbour.pending_notices))
        _move(neighbour.notices, neighbour.pending_notices, room - len(neighbour.pending_checks))
        neighbour.number += 1
        neighbour.pending[neighbour.number] = now
        neighbour.renews = neighbour.renews or now >= neighbour.renew_at
        haves = tuple(map(neighbour.have, neighbour.pending_checks))
        states = _fitting(map(neighbour.news, neighbour.pending_notices))
        held = neighbour.pending_held = membership(neighbour.asked()) if neighbour.renews else None
        granted = None
        if neighbour.owes_digest and now >= neighbour.compared_at + HELLO // 2:
            granted = neighbour.compared(now)
        hello = Hello(neighbour.number, None, granted, held, haves, states, is_forgotten=is_dying)
        self._say(neighbour, hello)

    def _say(self, neighbour: Neighbour, hello: Hello) -> None:
        if self.answer(neighbour.face, make_hello(hello)):
            self._counters["hellos_out"] += 1

    def _schedule(self, neighbour: Neighbour) -> None:
        due = neighbour.due()
        self._timers.set(neighbour, due if due < NEVER else None)


def _fitting(states: Iterable[Standing]) -> tuple[Standing, ...]:
    """Leave out the proofs that a Hello has no room for."""
    room, fitting = MOST_PROOFS, []
    for state in states:
        evidence = state.evidence
        if evidence is not None and evidence.proof:
            room -= 1
            evidence = evidence if room >= 0 else evidence.bare
        fitting.append(state._replace(evidence=evidence))
    return tuple(fitting)


def _move(waiting: dict[bytes, None], pending: dict[bytes, None], most: int) -> None:
    """Let references no longer wait, but be pending, at most so many."""
    for reference in list(waiting)[: max(most - len(pending), 0)]:
        del waiting[reference]
        pending[reference] = None
