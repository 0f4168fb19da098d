"""The gateway between a Scuttlebutt peer and NDN, for feeds, blobs and messages.

Peers that connect to the gateway are *at home* there: it replicates their feeds and serves them over NDN. It
subscribes over NDN to the other feeds that at least one of them replicates, and passes on the items
(`ssb_over_ndn.gateway.interests`). So two Scuttlebutt peers exchange feeds across an NDN network,
each through its own gateway, by any layering, and neither knows of NDN.

| name | content |
|---|---|
| /ssb/logs/<id>/seq=<n> | the messages of a feed at home, as in all layerings |
| /ssb/sha256/<hash> | a stored message, by its hash |
| /ssb/blobs/<hash>/seg=<n> | a stored blob, in segments |

Blobs and single messages cross in both directions: wants of peers at home become Interests, and Interests
become wants. For single messages (`ssb.replication.loose`) NDN is one more connection of the peer.

The names of blobs and hashes have no location. The gateway fetches them from the gateway where an author is
at home who has named them: the Interests' forwarding hint is that author's feed.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from random import Random

from base.timers import Timers, earliest
from forwarder.feedcache.items import Item
from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_data, open_interest, parse_lp
from forwarder.wire.packet import Data, Interest, parse_data, read_name
from forwarder.wire.tlv import MalformedPacket
from ssb.applications.links import links_of
from ssb.canonical import Value, object_in, stringify
from ssb.graph import Graph
from ssb.keys import is_message, named_blobs
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.peer.peer import Peer
from ssb.peer.program import PeerEvent, PeerProgram, PeerWrapper
from ssb.replication.blobs import Blobs
from ssb.replication.loose import Loose
from ssb.store.feeds import FeedStore, StoreError
from ssb_over_ndn.following.blobs import BlobFetches
from ssb_over_ndn.following.messages import MessageFetches
from ssb_over_ndn.following.subscriptions import Subscription, Subscriptions
from ssb_over_ndn.gateway.interests import GatewayInterests
from ssb_over_ndn.naming import (
    hash_packet,
    log_key,
    log_name,
    message_id,
    message_packet,
    read_log_name,
    segment_packet,
    split_segment,
)
from ssb_over_ndn.serving.server import Announcer, FeedServer
from ssb_over_ndn.serving.servers import Servers

Naming = Callable[[str, int], Sequence[tuple[int, str]]]

_MENTIONS = 10_000  # blobs whose authors are recorded
_MOST_NAMING = 8  # authors of a blob
_WAITING = 100  # blobs and messages requested by others and looked for here
_PATIENCE_HERE = 30_000_000_000  # of Interests, while peers at home are asked
_NDN = 0  # connection number of NDN in `Loose`; no stream has this number
_ROOM = 1 << 16  # bytes of messages at once
_SPARE = 16  # fetches of messages that nobody wants any more
_PAUSE = 10_000_000_000  # until a feed is subscribed to, or a message fetched, again after a storage error


class Gateway(PeerWrapper):
    """A StreamEndpoint that wraps its peer's program, and an Application of a forwarder.

    Args:
        program: the Scuttlebutt side.
        peer: the peer in it.
        feeds, blobs: the peer's.
        graph: see GatewayInterests; its origin is at home here, too, after add_home().
        subscribe: (feed's name, last stored item) -> the layering's Subscription.
        announce: feed's name -> the layering's Announcer; None if the layering has none.
        random: source of nonces.
        settle: called with the time, ns, when the application has output for the forwarder.
        naming: message, position -> the next positions after it of messages that name it, with their feeds,
            as many as are read at once.

    Attributes:
        application: the NDN side.
        counters: errors, by a word each.
    """

    def __init__(
        self,
        program: PeerProgram,
        peer: Peer,
        feeds: FeedStore,
        blobs: Blobs | None,
        graph: Graph,
        subscribe: Callable[[bytes, int], Subscription],
        announce: Callable[[bytes], Announcer | None],
        random: Random,
        settle: Callable[[int], None] = lambda now: None,
        naming: Naming = lambda id_, after: [],
    ) -> None:
        super().__init__(program)
        self._settle = settle
        self.counters: Counter[str] = Counter()
        interests = GatewayInterests(peer, graph, self.counters)
        peer.replication.selection.behalf = interests
        self.application = _NdnSide(
            peer, feeds, blobs, interests, subscribe, announce, random, self.counters, naming
        )

    def _follow_up(self, now: int) -> None:
        events = self._program.take_events()
        self._events += events
        self.application.process_events(events, now)
        self._settle(now)


class _NdnSide:
    """The Application."""

    def __init__(
        self,
        peer: Peer,
        feeds: FeedStore,
        blobs: Blobs | None,
        interests: GatewayInterests,
        subscribe: Callable[[bytes, int], Subscription],
        announce: Callable[[bytes], Announcer | None],
        random: Random,
        counters: Counter[str],
        naming: Naming,
    ) -> None:
        self._peer = peer
        self._feeds = feeds
        self._blobs = blobs
        if blobs is not None:
            blobs.take_new_wants()
            self._fetches = BlobFetches(blobs.store, random, self._hint, counters)
        self._loose = peer.services.loose
        self._naming = naming
        self._asked: dict[str, tuple[int, str]] = {}  # message -> position and author of the last hint to it
        self._newly_named: dict[str, str] = {}  # message -> author of a new link to it
        self._messages = MessageFetches(random, self._hint_to_message, counters)
        if self._loose is not None:
            self._loose.open(_NDN, "NDN")
        self._interests = interests
        self._subscribe = subscribe
        self._announce = announce
        self._counters = counters
        self._homes: Servers[str] = Servers()
        self._again: Timers[str] = Timers()  # of when to subscribe to feeds again
        self._followed = Subscriptions()
        # blob -> authors of messages that name it, in the order in which they are to be asked
        self._mentions: OrderedDict[str, list[str]] = OrderedDict()
        self._waiting: Timers[str] = Timers()  # of when to stop looking for blobs and messages here
        self._outputs: list[bytes] = []

    @property
    def homes(self) -> list[str]:
        """The feeds at home."""
        return list(self._homes)

    @property
    def follows(self) -> list[str]:
        """The feeds subscribed to."""
        return [log_key(name) for name in self._followed]

    def add_home(self, feed: str, now: int) -> None:
        """Serve a feed permanently; raises InvalidRef."""
        self._interests.keep(feed, now)
        self._follow_up(now)

    def process_events(self, events: list[PeerEvent], now: int) -> None:
        """Process events of the Scuttlebutt side."""
        messages = []
        for event in events:
            if event.message is not None:
                self._note_mentions(event.message, now)
                self._note_links(event.message, now)
                self._published(event.message, now)
                messages.append(event.message)
            elif event.event == "connected":
                self._interests.on_connected(event.remote, now)
            elif event.event == "closed":
                self._interests.on_disconnected(event.remote, now)
        self._interests.process(messages, now)
        self._follow_up(now)

    # The application: the NDN side

    def receive(self, packet: bytes, now: int) -> None:
        interest = open_interest(packet)
        if interest is not None:
            self._on_interest(interest, packet, now)
        else:
            self._on_answer(packet, now)
        self._take_items(now)
        self._follow_up(now)

    def take_outputs(self) -> list[bytes]:
        outputs, self._outputs = self._outputs + self._followed.take_outputs(), []
        outputs += self._homes.take_outputs()
        outputs += self._messages.take_outputs()
        if self._blobs is not None:
            outputs += self._fetches.take_outputs()
        return outputs

    def next_deadline(self) -> int | None:
        due = [
            self._followed.next_deadline(),
            self._interests.next_deadline(),
            self._waiting.next_deadline(),
            self._again.next_deadline(),
            self._homes.next_deadline(),
            self._messages.next_deadline(),
        ]
        if self._blobs is not None:
            due.append(self._fetches.next_deadline())
        return earliest(*due)

    def wake(self, now: int) -> None:
        self._followed.wake(now)
        self._take_items(now)
        self._homes.wake(now)
        self._messages.wake(now)
        if self._blobs is not None:
            self._fetches.wake(now)
        self._interests.wake(now)
        self._follow_up(now)

    # Feeds at home

    def _serve(self, feed: str, now: int) -> None:
        name, tips = log_name(feed), self._feeds.tips()
        server = FeedServer(
            name,
            lambda seq: self._item(feed, seq),
            lambda: tips.get(feed, 0),
            announcer=self._announce(name),
        )
        self._homes.add(feed, server)
        for seq in sorted({1, tips.get(feed, 0)}):
            item = self._item(feed, seq)
            if item is not None:
                self._homes.appended(feed, seq, item, now)

    def _published(self, message: Message, now: int) -> None:
        """Publish a new message of a feed at home."""
        if message.author in self._homes:
            self._homes.appended(message.author, message.sequence, parse_data(message_packet(message)), now)

    def _item(self, feed: str, seq: int) -> Data | None:
        if not 1 <= seq <= self._feeds.tips().get(feed, 0):
            return None
        found = self._feeds.after(feed, seq - 1, 1)
        return parse_data(message_packet(found[0].message)) if found else None

    def _on_interest(self, interest: Interest, packet: bytes, now: int) -> None:
        feed = read_log_name(interest.name)
        segment = split_segment(interest.name)
        wanted = message_id(interest.name)
        if feed is not None:
            self._homes.on_interest(feed, interest, now)
            self._followed.receive(packet, now)
        elif segment is not None:
            self._answer_segment(*segment, now)
        elif wanted is not None:
            self._answer_hash(wanted, now)

    # Feeds elsewhere

    def _on_answer(self, packet: bytes, now: int) -> None:
        try:
            header = parse_lp(packet)
            name = read_name(header.fragment) if header.fragment else b""
        except MalformedPacket:
            return
        segment = split_segment(name)
        if segment is not None:
            if self._blobs is not None:
                self._fetches.receive(*segment, header, now)
            return
        if (wanted := message_id(name)) is not None:
            self._messages.receive(wanted, 1, header, now)
            return
        feed = read_log_name(name) or ""
        if feed in self._homes and split_item(name) is None and (opened := open_data(packet)):
            self._homes.on_data(feed, opened[0], now)
        self._followed.receive(packet, now)

    def _take_items(self, now: int) -> None:
        """Pass received items to the peer, for each feed up to the first invalid message."""
        messages: list[Message] = []
        ended: dict[str, str] = {}
        offering = self._followed.offering
        while offering:
            name = next(iter(offering))
            for item in self._followed.take_items(name, now):
                try:
                    messages.append(_message(log_key(name), item))
                except InvalidMessage as error:  # signed by its key, so final
                    ended[log_key(name)] = str(error)
                    self._followed.stop(name, now)
                    break
        if messages:
            self._store(messages, now)
        for feed, reason in ended.items():
            self._counters["a feed with something else than its messages"] += 1
            self._peer.replication.put_aside(feed, "NDN", reason)
        for _, word in self._followed.take_errors():
            self._counters[word] += 1

    def _store(self, messages: list[Message], now: int) -> None:
        """Pass messages to the peer; after an error, subscribe again from the last stored one.

        The subscription of a feed that has ended is over.
        """
        for message in messages:
            self._note_mentions(message, now)
            self._note_links(message, now)
        try:
            refused = self._peer.append(messages, now)
        except StoreError as error:
            refused = dict.fromkeys((message.author for message in messages), InvalidMessage(str(error)))
        for feed, reason in refused.items():
            self._counters[f"not stored: {reason}"] += 1
            name = log_name(feed)
            if name in self._followed:
                self._followed.stop(name, now)
            if not isinstance(reason, ForkedFeed):
                self._again.set(feed, now + _PAUSE)
        for feed in {message.author for message in messages}:
            if self._feeds.is_complete(feed) and log_name(feed) in self._followed:
                self._followed.stop(log_name(feed), now)

    def _follow_up(self, now: int) -> None:
        """Serve feeds, start and stop subscriptions, and fetch blobs for the peers at home."""
        again = self._again.expire(now)
        for feed in self._interests.take_changes() + again:
            if not self._interests.is_home(feed):
                self._homes.remove(feed)
            elif feed not in self._homes:
                self._serve(feed, now)
            name = log_name(feed)
            is_followed = self._interests.is_followed(feed) and not self._feeds.is_complete(feed)
            if not is_followed:
                self._again.set(feed, None)
            if is_followed and name not in self._followed and feed not in self._again:
                self._followed.start(name, self._subscribe(name, self._feeds.tips().get(feed, 0)), now)
            elif not is_followed and name in self._followed:
                self._followed.stop(name, now)
            if not self._interests.is_wanted(feed):
                self._peer.unwant(feed, now)
        given_up = self._waiting.expire(now)
        if self._blobs is not None:
            self._carry_blobs(self._blobs, [ref for ref in given_up if not is_message(ref)], now)
        if self._loose is not None:
            self._carry_messages(self._loose, [ref for ref in given_up if is_message(ref)], now)

    # Single messages

    def _answer_hash(self, id_: str, now: int) -> None:
        message = self._feeds.get(id_)
        if message is not None:
            self._outputs.append(hash_packet(message))
        elif self._loose is not None and len(self._waiting) < _WAITING:
            # A peer at home may have it; the requester repeats its Interest.
            self._waiting.set(id_, now + _PATIENCE_HERE)
            self._loose.receive(_NDN, stringify({id_: -1}).encode(), 0.0)
            self._peer.connections.update(now)

    def _carry_messages(self, loose: Loose, given_up: list[str], now: int) -> None:
        """Fetch over NDN the messages that are wanted here; answer Interests that wait for some."""
        for id_ in given_up:
            loose.forget(_NDN, id_)
        while loose.has_output(_NDN):
            for told in map(object_in, loose.take_output(_NDN, _ROOM)):
                self._hear(told or {}, now)
        if len(self._messages) > 2 * len(loose.wanted) + _SPARE:
            for id_ in [id_ for id_ in self._messages if id_ not in loose.wanted]:
                self._messages.drop(id_)
        for kept in (self._asked, self._newly_named):
            if len(kept) > len(self._messages) + _SPARE:
                for id_ in [id_ for id_ in kept if id_ not in self._messages]:
                    del kept[id_]
        self._messages.start(now)
        for id_, fetch in self._messages.take_complete().items():
            assert fetch.message is not None
            try:
                self._peer.take_loose(fetch.message, now)
            except StoreError as error:
                self._counters[f"not stored: {error}"] += 1
                self._messages.want(id_, now + _PAUSE)
                continue
            if id_ in loose.wanted:  # it is not what its author has signed, and no other message has its id
                self._counters["message: not valid"] += 1

    def _hear(self, told: dict[str, Value], now: int) -> None:
        """Act on wants that are new here, and on answers to Interests."""
        for id_, value in told.items():
            if isinstance(value, dict):
                self._waiting.set(id_, None)
                self._outputs.append(hash_packet(Message.from_value(value)))
            else:
                self._messages.want(id_, now)

    def _hint_to_message(self, id_: str) -> tuple[bytes, ...]:
        """Return the forwarding hint to a message: the feed of an author elsewhere who has named it.

        Each attempt takes another author, first of a new link, then of all in order of receipt; after the
        last one, and for messages that nobody elsewhere names, there is an attempt without a hint.
        """
        author = self._newly_named.pop(id_, None)
        if author is not None and not self._interests.is_home(author):
            return (log_name(author),)
        after, last = self._asked.pop(id_, (0, ""))
        named = self._naming(id_, after)
        for place, author in named:
            if author != last and not self._interests.is_home(author):
                self._asked[id_] = place, author
                return (log_name(author),)
        if named:
            self._asked[id_] = named[-1][0], last
        return ()

    def _note_links(self, message: Message, now: int) -> None:
        """Fetch again the messages that an author elsewhere has just named."""
        if not len(self._messages) or self._interests.is_home(message.author):
            return
        for id_ in dict.fromkeys(link.dest for link in links_of(message.content)):
            if id_ in self._messages:
                self._newly_named[id_] = message.author
                self._messages.want(id_, now)

    # Blobs

    def _note_mentions(self, message: Message, now: int) -> None:
        """Record who names a blob; one that an author elsewhere has just named is fetched at once."""
        author = message.author
        for blob in named_blobs(message.text):
            authors = self._mentions.setdefault(blob, [])
            is_fetched = self._blobs is not None and blob in self._fetches
            if is_fetched and author not in authors and not self._interests.is_home(author):
                authors.insert(0, author)
                self._fetches.want(blob, now)
            elif author not in authors and len(authors) < _MOST_NAMING:
                authors.append(author)
            del authors[_MOST_NAMING:]
            if len(self._mentions) > _MENTIONS:
                self._mentions.popitem(last=False)

    def _answer_segment(self, blob: str, number: int, now: int) -> None:
        if self._blobs is None:
            return
        packet = segment_packet(self._blobs.store, blob, number)
        if packet is not None:
            self._outputs.append(packet)
        elif (
            blob not in self._blobs.wanted
            and len(self._waiting) < _WAITING
            and self._blobs.store.size(blob) is None
        ):
            # A peer at home may have it; the requester repeats its Interest.
            self._waiting.set(blob, now + _PATIENCE_HERE)
            self._blobs.want(blob)
            self._peer.connections.update(now)

    def _carry_blobs(self, blobs: Blobs, given_up: list[str], now: int) -> None:
        """Fetch over NDN the blobs wanted by peers at home; stop ended fetches."""
        for blob in blobs.take_ended_wants():
            if blob not in blobs.wanted:
                self._fetches.drop(blob)
                self._waiting.set(blob, None)
        for blob in blobs.take_new_wants():
            if blob not in self._waiting:
                self._fetches.want(blob, now)
        self._fetches.start(now)
        for blob in self._fetches.take_complete():
            blobs.announce(blob)
            self._peer.connections.update(now)
        for blob in given_up:
            if blobs.is_wanted_by_peer(blob) and blobs.store.size(blob) is None:
                self._fetches.want(blob, now)
            else:
                blobs.unwant(blob)

    def _hint(self, blob: str) -> tuple[bytes, ...] | None:
        """Return the forwarding hint to a blob: the feed of an author elsewhere who names it.

        None if an author at home is next: a peer at home is to send it meanwhile. Each attempt takes another
        author, and all at home together are one.
        """
        authors = self._mentions.get(blob)
        if not authors:
            return ()
        if self._interests.is_home(authors[0]):
            authors.sort(key=self._interests.is_home)
            return None
        author = authors.pop(0)
        authors.append(author)
        return (log_name(author),)


def _message(feed: str, item: Item) -> Message:
    """Return the message in an item; raise InvalidMessage if there is none, or another feed's."""
    message = Message.from_text(item.message)
    if message.author != feed:
        raise InvalidMessage(f"a message of {message.author} as an item of {feed}")
    return message
