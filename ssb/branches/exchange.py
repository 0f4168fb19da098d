"""Replication of feeds with all their branches.

Peers call `branches` as they call EBT, and send messages and notes. A note names feeds, each with ids:

    {"clock": {<feed>: [<id>, ...], ...}}

The sender replicates the feed. It has these messages, and so all before them on their branches. The first
note of a feed has the tips of all branches, and some messages before each (`FeedTree.locator`), by which the
other peer finds most of the messages that both have. Later notes have new tips only. null in place of ids:
the sender does not replicate the feed. `"ask": true` in a note asks for all messages that its sender lacks.
A peer asks one peer at a time for a feed: one that has named a message that is not here. If nothing comes
for a while, it asks another one.

In a user's peer EBT carries a feed until it is known to be forked. Meanwhile a peer sends notes here, asks
only for messages that EBT has not brought when nothing more comes for a while, and so hears of a fork that
EBT does not show to either side.

A message that is written here is sent at once to peers that surely have those before it. Other peers, and
all peers if it came from one of them, are told by a note after a random time, unless they tell it before, as
in `ssb.replication.ebt`. So most peers get a message once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from types import MappingProxyType
from typing import Final

from base.timers import Timers
from base.token_bucket import TokenBucket
from base.units import SECOND
from ssb.branches.feeds import Branches
from ssb.canonical import Value, parse, stringify
from ssb.keys import is_message
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.replication.replication import ProtocolError
from ssb.replication.replicator import Replicator, count_unwanted
from ssb.replication.session import DEFAULT_LIMITS, Limits

BRANCHES: Final = ("branches",)
"""The name of the call that opens the stream between two peers."""
MOST_IDS: Final = 1_000
"""Most ids of a feed in a note."""

_FEEDS = 50  # in one note at most
_IDS_A_NOTE = 64  # many more than an honest note of a feed has count as several notes; so do those to read


@dataclass(slots=True)
class Session:
    """A connection.

    Attributes:
        number: its number.
        remote: the other peer's reference.
        known: feed that both replicate -> ids of messages here that the remote surely has.
        offers: feed that the remote replicates -> ids that it has named, and that are not here; no ids of
            feeds that are not replicated here.
        told: feeds of which the remote has heard all that is here, though it has sent no note yet.
        allowance: of notes.
        left: feeds that are not replicated here any more, to be told first.
        greetings: feeds whose first note is to be sent.
        asks: feeds to ask for.
        ready: ids of messages to send, in order, each with its feed.
        reports: feeds with news to tell the remote at `report_due`, ns.
        aside: feeds with a refused message: their further messages are dropped.
        unwanted: received messages that are not wanted here.
    """

    number: int
    remote: str
    allowance: TokenBucket
    known: dict[str, set[str]] = field(default_factory=dict)
    offers: dict[str, dict[str, None]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    left: dict[str, None] = field(default_factory=dict)
    greetings: dict[str, None] = field(default_factory=dict)
    asks: dict[str, None] = field(default_factory=dict)
    ready: dict[str, str] = field(default_factory=dict)
    reports: dict[str, None] = field(default_factory=dict)
    report_due: int | None = None
    aside: set[str] = field(default_factory=set)
    unwanted: int = 0


class BranchExchange(Replicator):
    """Replication with all peers that know branches; see ssb.replication.replication.Replication.

    Args:
        feeds: the store, which verifies messages.
        wanted: the initially replicated feeds.
        limits: see Limits.
        rng: draws how long news wait; None: all wait for as long as they may.
        is_carried: whether another protocol carries a feed between the same peers.
        is_hidden: whether a feed is hidden from a peer, as its author has blocked the peer.
    """

    name: Final = BRANCHES
    request: Final[Mapping[str, Value]] = MappingProxyType({})
    is_mutual: Final = True
    other = "a note"

    def __init__(
        self,
        feeds: Branches,
        wanted: Iterable[str] = (),
        limits: Limits = DEFAULT_LIMITS,
        rng: Random | None = None,
        is_carried: Callable[[str], bool] = lambda feed: False,
        is_hidden: Callable[[str, str], bool] = lambda feed, peer: False,
    ) -> None:
        super().__init__(feeds.served, wanted)
        self._branched = feeds
        self._limits = limits
        self._rng = rng
        self._is_carried = is_carried
        self._is_hidden = is_hidden
        self._awaited: dict[str, int] = {}  # feed that another protocol carries -> messages here before
        self.sessions: dict[int, Session] = {}
        self._asked: dict[str, int] = {}  # feed -> the connection on which it is asked for
        self._patience: Timers[str] = Timers()

    def refuses(self, request: Value) -> str:
        return ""

    def hides(self, feed: str, peer: str) -> bool:
        return self._is_hidden(feed, peer)

    def exchanges(self) -> int:
        return sum(len(session.known) for session in self.sessions.values())

    # Feeds

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        new = [feed for feed in feeds if feed not in self._wanted]
        self._wanted |= dict.fromkeys(new)
        for session in self.sessions.values():
            self._greet(session, new)
            for feed in new:
                if feed in session.offers:
                    self._hear(session, feed, session.offers[feed], now)

    def unwant(self, feed: str, now: int) -> None:
        if self._wanted.pop(feed, feed) is None:
            self._set_aside.pop(feed, None)
            self._asked.pop(feed, None)
            self._awaited.pop(feed, None)
            self._patience.set(feed, None)
            for session in self.sessions.values():
                known = session.known.pop(feed, None)
                if known is not None:  # should it be wanted again, the remote is known to replicate it
                    session.offers[feed] = dict.fromkeys(self._branched.tree(feed).tips.keys() & known)
                for queue in (session.greetings, session.reports, session.asks):
                    queue.pop(feed, None)
                session.aside.discard(feed)
                session.left[feed] = None
                self._changed[session.number] = None

    def append(
        self, messages: Sequence[Message], now: int, received: float, by: int | None = None
    ) -> Mapping[str, InvalidMessage | ForkedFeed]:
        new = {each.id: each for each in messages if each.id not in self._branched.tree(each.author)}
        try:
            return self._branched.append(messages, received).refused
        finally:  # the store may have failed behind the first ones
            stored = [each for each in new.values() if each.id in self._branched.tree(each.author)]
            self._stored += stored
            for message in stored:
                self._set_aside.pop(message.author, None)
                self.pass_on(message, now, by)

    def on_appended(self, feed: str, now: int, by: int | None = None) -> None:
        """See Replication: the last message that was written here is sent at once."""
        message = self._branched.last(feed)
        if message is not None:
            self.pass_on(message, now, by)

    def pass_on(self, message: Message, now: int, by: int | None) -> None:
        """Send a message that was written here, if the remote has those before it; else tell of it."""
        feed = message.author
        is_sent = by is None and not self._is_carried(feed)
        for session in self.sessions.values():
            known = session.known.get(feed)
            if feed in session.offers:
                session.offers[feed].pop(message.id, None)
            if known is None:
                session.told.discard(feed)  # its first note may be under way
            if known is not None and session.number == by:
                self._branched.tree(feed).extend(known, [message.id])
            is_known = known is None or message.id in known
            if known is None or is_known or session.number == by or self._is_hidden(feed, session.remote):
                continue
            missing = self._branched.tree(feed).behind([message], known) if is_sent else ()
            if is_sent and all(each.id == message.id or each.id in session.ready for each in missing):
                self._send(session, [message])
            else:  # the remote asks for what it lacks
                self._report(session, feed, now)

    # Connections

    def open(self, number: int, remote: str, *, is_caller: bool, now: int) -> None:
        allowance = TokenBucket(SECOND // self._limits.notes_per_s, self._limits.notes_burst, now)
        self.sessions[number] = session = Session(number, remote, allowance)
        self._greet(session, [*self._wanted])

    def close(self, number: int, now: int) -> None:
        del self.sessions[number]
        for feed in [feed for feed, asked in self._asked.items() if asked == number]:
            self._give_up(feed, now)

    def output_due(self, number: int) -> int | None:
        session = self.sessions[number]
        is_due = session.left or session.greetings or session.asks or session.ready
        return 0 if is_due else session.report_due

    def take_output(self, number: int, room: int, now: int) -> list[bytes]:
        session = self.sessions[number]
        bodies: list[bytes] = []
        for body in self._notes(session, now):
            bodies.append(body)
            room -= len(body)
            if room <= 0:
                return bodies
        while room > 0 and session.ready:
            id_ = next(iter(session.ready))
            feed = session.ready.pop(id_)
            message, known_there = self._branched.tree(feed).get(id_), session.known.get(feed)
            if self._is_hidden(feed, session.remote):
                continue
            if message is not None and known_there is not None and id_ not in known_there:
                known_there.add(id_)
                bodies.append(stringify(parse(message.text), indent=0).encode())
                room -= len(bodies[-1])
        return bodies

    def next_deadline(self) -> int | None:
        return self._patience.next_deadline()

    def wake(self, now: int) -> None:
        """See Replication: another peer is asked in place of a silent one."""
        for feed in sorted(self._patience.expire(now)):
            if feed in self._awaited:  # unless the other protocol has just brought something
                before = self._awaited.pop(feed)
                self._ask(feed, now, is_overdue=len(self._branched.tree(feed)) <= before)
                continue
            session = self.sessions.get(self._asked.get(feed, 0))
            if session is not None:
                session.offers.get(feed, {}).clear()
            self._give_up(feed, now)

    # Notes

    def _notes(self, session: Session, now: int) -> Iterator[bytes]:
        """Yield the notes that are due, with what is here now."""
        while left := _taken(session.left):
            yield _note(dict.fromkeys(left))
        while greetings := _taken(session.greetings):
            yield _note({feed: [*self._branched.tree(feed).locator()[:MOST_IDS]] for feed in greetings})
        if session.report_due is not None and session.report_due <= now:
            while reports := _taken(session.reports):
                yield _note({feed: self._news(session, feed) for feed in reports})
            session.report_due = None
        while asks := _taken(session.asks):
            yield _note({feed: [*self._branched.tree(feed).tips][:MOST_IDS] for feed in asks}, asks=True)

    def _news(self, session: Session, feed: str) -> Sequence[Value]:
        """Return the tips of a feed that the remote does not have."""
        known = session.known.get(feed, set())
        return [id_ for id_ in self._branched.tree(feed).tips if id_ not in known][:MOST_IDS]

    def _greet(self, session: Session, feeds: Sequence[str]) -> None:
        """Send the first note of feeds."""
        feeds = [feed for feed in feeds if not self._is_hidden(feed, session.remote)]
        session.told |= {*feeds}
        session.greetings |= dict.fromkeys(feeds)
        self._changed[session.number] = None

    def _report(self, session: Session, feed: str, now: int) -> None:
        """Tell the remote of new messages after a random time."""
        session.reports[feed] = None
        if session.report_due is None:  # else it joins the others
            delay = self._limits.note_delay
            session.report_due = now + (delay if self._rng is None else self._rng.randrange(delay + 1))
            self._changed[session.number] = None

    def _send(self, session: Session, messages: Iterable[Message]) -> None:
        for message in messages:  # those that wait already take their place behind their previous ones
            session.ready.pop(message.id, None)
            session.ready[message.id] = message.author
        self._changed[session.number] = None

    def _read(self, number: int, value: dict[str, Value], now: int) -> None:
        session = self.sessions[number]
        clock = value.get("clock")
        if not isinstance(clock, dict):
            raise ProtocolError("a body that is neither a message nor a note")
        ids_named = sum(len(ids) for ids in clock.values() if isinstance(ids, list))
        # An answer, and a first note after the remote has left a feed, read the whole feed.
        is_asked = value.get("ask") is True
        read = (len(self._branched.tree(feed)) for feed, ids in clock.items() if is_asked or ids is None)
        if session.allowance.charge(now, len(clock) + (ids_named + sum(read)) // _IDS_A_NOTE):
            raise ProtocolError("too many notes")
        for feed, ids in clock.items():
            if self._is_hidden(feed, session.remote):
                continue
            if ids is None:
                session.known.pop(feed, None)
                session.offers.pop(feed, None)
                session.told.discard(feed)
                session.ready = {id_: of for id_, of in session.ready.items() if of != feed}
                if self._asked.get(feed) == number:
                    self._give_up(feed, now)
                continue
            if not isinstance(ids, list) or len(ids) > MOST_IDS or not all(is_message(id_) for id_ in ids):
                raise ProtocolError(f"a note without a list of at most {MOST_IDS} ids")
            self._hear(session, feed, [str(id_) for id_ in ids], now)
            if is_asked and feed in session.known:
                tree = self._branched.tree(feed)
                self._send(session, tree.behind(tree.tips.values(), session.known[feed]))
        if len(session.offers) > len(self._wanted) + self._limits.unwanted:
            raise ProtocolError("notes of too many feeds")

    def _hear(self, session: Session, feed: str, ids: Iterable[str], now: int) -> None:
        """Take in what a remote has of a feed."""
        if feed not in self._wanted:
            session.offers[feed] = {}
            return
        tree = self._branched.tree(feed)
        self._know(session, feed, ids)
        if feed not in session.told:
            self._greet(session, [feed])
        before = session.offers.get(feed, {})
        offers = [id_ for id_ in (*before, *ids) if id_ not in tree]
        session.offers[feed] = dict.fromkeys(offers[-MOST_IDS:])
        if self._asked.get(feed) == session.number and session.offers[feed].keys() - before.keys():
            session.asks[feed] = None  # its answer may have begun before it got these
            self._changed[session.number] = None
        self._ask(feed, now)

    def _know(self, session: Session, feed: str, ids: Iterable[str]) -> None:
        """Record what the remote has; it need not be told of that."""
        tree, known = self._branched.tree(feed), session.known.setdefault(feed, set())
        tree.extend(known, ids)
        if tree.tips.keys() <= known:
            session.reports.pop(feed, None)
            if not session.reports and session.report_due is not None:
                session.report_due = None
                self._changed[session.number] = None

    def _ask(self, feed: str, now: int, *, is_overdue: bool = False) -> None:
        """Ask a peer that has named a message that is not here, unless one is asked.

        What another protocol carries is asked for only when it `is_overdue`.
        """
        if feed in self._asked or feed not in self._wanted:
            return
        if self._is_carried(feed) and not is_overdue:
            if feed not in self._awaited and any(each.offers.get(feed) for each in self.sessions.values()):
                self._awaited[feed] = len(self._branched.tree(feed))
                self._patience.set(feed, now + self._limits.patience)
            return
        self._awaited.pop(feed, None)
        for session in self.sessions.values():
            if session.offers.get(feed) and feed not in session.aside:
                self._asked[feed] = session.number
                self._patience.set(feed, now + self._limits.patience)
                session.asks[feed] = None
                self._changed[session.number] = None
                return

    def _give_up(self, feed: str, now: int) -> None:
        """Ask another peer for a feed, if there is one."""
        self._asked.pop(feed, None)
        self._patience.set(feed, None)
        self._ask(feed, now)

    # Replicator

    def _expects(self, number: int, feed: str) -> bool:
        session = self.sessions[number]
        if self._is_hidden(feed, session.remote):
            return False
        if feed in self._wanted:
            return feed not in session.aside
        count_unwanted(session, self._limits.unwanted)
        return False

    def _connected(self, session: Session, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that follow one that is here, or among them.

        Others were under way when their feed was left and wanted again.
        """
        found: dict[str, Message] = {}
        for each in messages:
            tree = self._branched.tree(each.author)
            if each.previous is None or each.previous in found or each.previous in tree:
                found[each.id] = each
            else:
                count_unwanted(session, self._limits.unwanted)
        return [*found.values()]

    def _refuse(self, number: int, feed: str, error: InvalidMessage | ForkedFeed, now: int) -> None:
        session = self.sessions[number]
        session.aside.add(feed)
        self.put_aside(feed, session.remote, str(error))
        if self._asked.get(feed) == number:
            self._give_up(feed, now)

    def _store(self, number: int, messages: Sequence[Message], now: int, received: float) -> None:
        session = self.sessions[number]
        messages = self._connected(session, messages)
        sizes = {each.author: len(self._branched.tree(each.author)) for each in messages}
        refused = self.append(messages, now, received, by=number)
        for feed, size in sizes.items():
            if feed in session.known:
                self._know(session, feed, [each.id for each in messages if each.author == feed])
            if self._asked.get(feed) == number:
                if len(self._branched.tree(feed)) > size:
                    self._patience.set(feed, now + self._limits.patience)
                if not session.offers.get(feed):
                    self._give_up(feed, now)
        for feed, error in refused.items():
            self._refuse(number, feed, error, now)


def _taken(feeds: dict[str, None]) -> list[str]:
    """Remove the feeds of one note from a queue, and return them."""
    part = list(islice(feeds, _FEEDS))
    for feed in part:
        del feeds[feed]
    return part


def _note(clock: Mapping[str, Sequence[Value] | None], *, asks: bool = False) -> bytes:
    named: dict[str, Value] = {feed: None if ids is None else [*ids] for feed, ids in clock.items()}
    return stringify({"clock": named} | ({"ask": True} if asks else {}), indent=0).encode()
