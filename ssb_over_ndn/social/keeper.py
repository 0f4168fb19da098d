"""The keeper: the program beside a forwarder that replicates its users' logs and inspects them.

It follows every carried feed (`community`) by a layering's Subscription over its own forwarder, whose
strategy sends the Interests to neighbours. Items are verified, stored (`replicas`), and served. A user's
application reads messages from the replicas: nothing is requested on demand.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from base.timers import Timers, earliest
from base.units import MS
from forwarder.feedcache.items import Item
from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_interest
from forwarder.wire.packet import Interest, parse_data
from ssb.application import Event, Plan
from ssb.keys import Identity
from ssb.message import InvalidMessage, Message
from ssb_over_ndn.following.subscriptions import Subscription, Subscriptions
from ssb_over_ndn.naming import log_key, log_name, message_packet, read_log_name
from ssb_over_ndn.serving.server import FeedServer
from ssb_over_ndn.serving.servers import Servers
from ssb_over_ndn.social.community import Community
from ssb_over_ndn.social.hello import HELLO
from ssb_over_ndn.social.neighbours import PLACE_BYTES, SOON, Neighbours, Surroundings, Terms
from ssb_over_ndn.social.own_log import OwnLog
from ssb_over_ndn.social.replicas import Replicas

MOST_FEEDS: Final = 10_000
MOST_BYTES: Final = 256 << 20

_AGAIN: Final = 250 * MS  # between repetitions of refused Interests
_CONTACT: Final = b'"type": "contact"'


class Home(NamedTuple):
    """A user of this node: the identity, which signs attachments, and its log.

    Attributes:
        identity: the user's.
        messages: the log from its first message.
        times: when each is published, ns, ascending.
    """

    identity: Identity
    messages: Sequence[Message]
    times: Sequence[int]


class Keeper:
    """An Application of a forwarder, on a face with IncomingFaceIds (Face.local_fields).

    Args:
        terms: see Terms.
        homes: the users of this node.
        subscribe: (feed's name, last stored item, user whose Interests these are) -> a Subscription.
        surroundings: of the forwarder.
        rng: source of nonces.
        plan: when the node's user follows `follows`; None without a user.
        follows: the feeds that the application reads, by their authors' references.
        held: messages stored at the start, by author.
        own_log: of the forwarder itself, which is among `homes`; None if it follows nobody.
        start, stop: when the keeper works, ns.

    Attributes:
        community, replicas: see Community and Replicas.
        counters: errors, by a word each.
    """

    def __init__(
        self,
        terms: Terms,
        homes: Sequence[Home],
        subscribe: Callable[[bytes, int, str], Subscription],
        surroundings: Surroundings,
        rng: Random,
        *,
        plan: Plan | None = None,
        follows: Sequence[str] = (),
        held: Mapping[str, Sequence[Message]] = {},
        own_log: OwnLog | None = None,
        start: int,
        stop: int,
        most_feeds: int = MOST_FEEDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.community = Community(most_feeds)
        self.replicas = Replicas(most_bytes)
        self.counters: Counter[str] = Counter()
        self._terms = terms
        self._homes = {home.identity.ref: home for home in homes}
        self._subscribe = subscribe
        self._surroundings = surroundings
        self._follows = dict.fromkeys(follows)
        self._held, self._own_log = held, own_log
        self._stop: int | None = stop
        self._servers: Servers[bytes] = Servers()
        self._unpublished: dict[str, deque[tuple[int, Message]]] = {}
        self._due: Timers[str] = Timers()  # of the first of these
        self._subscriptions = Subscriptions()
        self._closed: set[bytes] = set()  # feeds that ended: forked, or not SSB's
        self._outputs: list[bytes] = []
        self._neighbours = Neighbours(
            terms,
            [home.identity for home in homes],
            self.community,
            surroundings,
            rng,
            self.counters,
            self._outputs,
            self._schedule_review,
            self._schedule_again,
            start,
        )
        self._review_at: int | None = None
        self._stuck: set[bytes] = set()  # feeds refused by neighbours, without Data since
        self._again_at: int | None = None
        self._asked_again = start - _AGAIN
        self._joins_at = plan.start if plan is not None and self._follows else None
        self._leaves_at = plan.stop if plan is not None and self._follows else None
        self._has_joined = False
        self._given: Counter[str] = Counter()  # author -> the last message that the application has
        self._now = start
        self._events: list[Event] = []
        for home in homes:
            self._serve_home(home, start)
        for author in sorted(held.keys() - self._homes.keys()):
            for message in held[author]:
                self.replicas.append(log_name(author), parse_data(message_packet(message)))

    # Queries of the strategy

    def is_home(self, feed: bytes) -> bool:
        """Whether the author of a feed is a user of this node."""
        return feed in self._servers

    def carries(self, feed: bytes) -> bool:
        """Whether a feed is on the graph of a user, while this node serves users."""
        author = read_log_name(feed)
        return author is not None and self._stop is not None and self.community.carries(author)

    def tip(self, feed: bytes) -> int:
        """Return the number of a feed's newest stored item, 0 if there is none."""
        return self.replicas.tip(feed)

    def holds(self, feed: bytes, seq: int) -> bool:
        """Whether an item is stored."""
        return self.replicas.get(feed, seq) is not None

    def generation(self, face: int) -> int | None:
        """Return the generation of the neighbour at a face; None if it has no keeper."""
        return self._neighbours.generation_of(face)

    def place(self, user: str) -> int | None:
        """Return the face towards a user; None if attached here, or nowhere."""
        return self._neighbours.place(user)

    def reaches(self, user: str, feed: str) -> bool:
        """Whether a feed is on the graph of an attached user."""
        return self._stop is not None and self.community.reaches(user, feed)

    def holders(self, user: str, feed: str) -> list[str]:
        """Return a feed's author, and the author's followers on the graph of a user."""
        return self.community.holders(user, feed)

    # Application

    def receive(self, packet: bytes, now: int) -> None:
        self._now = now
        interest = open_interest(packet)
        if interest is None:
            self._subscriptions.receive(packet, now)
        elif interest.name.startswith(HELLO):
            for user in self._neighbours.on_hello(packet, now):
                message = None if self._own_log is None else self._own_log.follow(user)
                if message is not None:
                    self._publish(message.author, message, now)
        else:
            self._serve(interest, now)
        self._store_received(now)

    def take_outputs(self) -> list[bytes]:
        self._neighbours.check_faces(self._now)
        outputs = self._outputs + self._subscriptions.take_outputs()
        self._outputs.clear()
        return outputs + self._servers.take_outputs()

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    def ends(self) -> tuple[int, int]:
        """Return the feeds and users with state, and its bytes: of subscriptions, and of where users are."""
        feeds, size = self._subscriptions.ends()
        places = self._neighbours.places
        return feeds + places, size + PLACE_BYTES * places

    def next_deadline(self) -> int | None:
        return earliest(
            self._subscriptions.next_deadline(),
            self._servers.next_deadline(),
            self._due.next_deadline(),
            self._neighbours.hello_at,
            self._review_at,
            self._again_at,
            self._stop,
            self._joins_at,
            self._leaves_at,
        )

    def wake(self, now: int) -> None:
        self._now = now
        for author in self._due.expire(now):
            waiting = self._unpublished[author]
            while waiting and waiting[0][0] <= now:
                self._publish(author, waiting.popleft()[1], now)
            self._due.set(author, waiting[0][0] if waiting else None)
        self._servers.wake(now)
        if self._joins_at is not None and now >= self._joins_at:
            self._join(now)
        if self._leaves_at is not None and now >= self._leaves_at:
            self._leave(now)
        if self._stop is not None and now >= self._stop:
            self.end(now)
        self._subscriptions.wake(now)
        self._neighbours.wake(now)
        self._store_received(now)
        if self._review_at is not None and now >= self._review_at:
            self._review(now)
        if self._again_at is not None and now >= self._again_at:
            self._retry_refused(now)

    # Users of this node

    def _serve_home(self, home: Home, start: int) -> None:
        """Serve the log of a user of this node, from its stored items on."""
        author, feed = home.identity.ref, log_name(home.identity.ref)
        is_own = self._own_log is not None and author == self._own_log.identity.ref
        self.community.attach(author, self._terms.neighbour_hops if is_own else self._terms.hops)
        log = self.replicas.open(feed)
        self.community.take_changes()
        before = len(self._held.get(author, ()))
        for message in home.messages[:before]:
            self.replicas.append(feed, parse_data(message_packet(message)))
            self.community.add(message)
        self._unpublished[author] = deque(zip(home.times[before:], home.messages[before:], strict=True))
        self._due.set(author, home.times[before] if before < len(home.times) else None)
        self._servers.add(feed, FeedServer(feed, log.get, lambda: log.tip, oldest=lambda: log.oldest))
        self._review_at = start

    def _publish(self, author: str, message: Message, now: int) -> None:
        data = parse_data(message_packet(message))
        feed = log_name(author)
        self.replicas.append(feed, data)
        self._events.append(Event(now, "published", author, message.sequence, len(message.encoded)))
        self._servers.appended(feed, message.sequence, data, now)
        self.community.add(message)
        self._schedule_review(now)

    def _join(self, now: int) -> None:
        self._joins_at, self._has_joined = None, True
        for author in self._follows:
            self._events.append(Event(now, "joined", author))
            for item in self.replicas.items(log_name(author)):
                self._deliver(author, item.seq, len(item.message), now)

    def _leave(self, now: int) -> None:
        self._leaves_at = self._joins_at = None
        if self._has_joined:
            self._events += [Event(now, "stopped", author) for author in self._follows]
        self._has_joined = False

    def _deliver(self, author: str, seq: int, size: int, now: int) -> None:
        if seq > self._given[author]:  # a log back on the graph is received again
            self._given[author] = seq
            self._events.append(Event(now, "delivered", author, seq, size))

    def end(self, now: int) -> None:
        """Stop all subscriptions and service, and notify neighbours."""
        self._stop = self._review_at = self._again_at = None
        for feed in list(self._subscriptions):
            self._subscriptions.stop(feed, now)
        self._neighbours.end()

    # Feeds

    def _schedule_review(self, now: int) -> None:
        if self._review_at is None and self._stop is not None:
            self._review_at = now + SOON

    def _review(self, now: int) -> None:
        """Follow newly carried feeds, and drop those no longer carried."""
        self._review_at = None
        changes = self.community.take_changes()
        for author in sorted(changes.removed):
            feed = log_name(author)
            if feed in self._subscriptions:
                self._subscriptions.stop(feed, now)
            if feed not in self._servers:
                self.replicas.drop(feed)
                self._surroundings.drop(feed, now)
            self._closed.discard(feed)
        for author in sorted(changes.added):
            self._follow(author, now)
        if changes.added or changes.removed:
            self._neighbours.announce(now)

    def _follow(self, author: str, now: int) -> None:
        feed = log_name(author)
        if feed in self._servers or feed in self._subscriptions or feed in self._closed:
            return
        for item in self.replicas.items(feed):  # stored before a restart
            self._inspect(author, item.message)
        receiver = next((user for user in self._homes if self.community.reaches(user, author)), author)
        self._subscriptions.start(feed, self._subscribe(feed, self.replicas.tip(feed), receiver), now)

    def _schedule_again(self, now: int) -> None:
        self._again_at = max(self._asked_again + _AGAIN, now + SOON)

    def _retry_refused(self, now: int) -> None:
        """Follow refused feeds again, after changes of neighbours or their feeds."""
        self._again_at, self._asked_again = None, now
        stuck, self._stuck = sorted(self._stuck), set()
        for feed in stuck:
            if feed in self._subscriptions:
                self._subscriptions.stop(feed, now)
                self._follow(log_key(feed), now)

    def _store_received(self, now: int) -> None:
        """Store received items."""
        offering = self._subscriptions.offering
        while offering:
            feed = next(iter(offering))
            author = log_key(feed)
            items = self._subscriptions.take_items(feed, now)
            if items:
                self._stuck.discard(feed)
            for item in items:
                if not self._store(feed, author, item, now):
                    self._closed.add(feed)
                    self._subscriptions.stop(feed, now)
                    break
        for feed, word in self._subscriptions.take_errors():
            self.counters[word] += 1
            if word == "resumed":
                self._stuck.discard(feed)
            elif word != "fork":
                self._stuck.add(feed)
            elif feed in self._subscriptions:
                self._closed.add(feed)
                if log_key(feed) in self._follows and self._has_joined:
                    forked = self._subscriptions[feed].forked_at or 0
                    self._events.append(Event(now, "forked", log_key(feed), forked))

    def _store(self, feed: bytes, author: str, item: Item, now: int) -> bool:
        """Store an item; return False if it is not its author's message."""
        if not self._inspect(author, item.message):
            self.counters["a feed with something else than its messages"] += 1
            return False
        self.replicas.append(feed, item.data)
        if not self._terms.keeps:
            self.replicas.forget_items(feed)
        if self._has_joined and author in self._follows:
            self._deliver(author, item.seq, len(item.message), now)
        return True

    def _inspect(self, author: str, text: bytes) -> bool:
        """Process a verified item's message; return False if it is not its author's."""
        if _CONTACT not in text:
            return True
        try:
            message = Message.from_text(text)
        except InvalidMessage:
            return False
        if message.author != author:
            return False
        self.community.add(message)
        self._schedule_review(self._now)
        return True

    def _serve(self, interest: Interest, now: int) -> None:
        """Answer an Interest for a stored item."""
        parts = split_item(interest.name)
        if parts is None:
            return
        if parts[0] in self._servers:
            self._servers.on_interest(parts[0], interest, now)
        elif held := self.replicas.get(*parts):
            self._outputs.append(held.wire)
