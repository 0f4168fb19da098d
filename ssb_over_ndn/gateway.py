"""The gateway: a Scuttlebutt peer on one side, NDN on the other; feeds, blobs and messages cross it.

Peers that connect to the gateway are *at home* there: it replicates their feeds and serves them over NDN.
What they want to replicate besides, it subscribes to over NDN for as long as one of them does, and hands on
what comes. EBT's notes show what they want, and so do the messages by which they follow and leave others. So
two Scuttlebutt peers exchange feeds across an NDN network, each through its own gateway, by any layering,
and neither knows of NDN.

| name | what the gateway serves |
|---|---|
| /ssb/logs/<id>/seq=<n> | the messages of a feed that is at home, as all layerings have it |
| /ssb/sha256/<hash> | a message that it holds, by its hash |
| /ssb/blobs/<hash>/seg=<n> | a blob that it holds, in segments |

Blobs are at no certain place. The gateway asks where the author of the first message that names the blob is
at home: the Interests' forwarding hint is that feed.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Callable
from random import Random
from typing import Final

from forwarder.feedcache.items import Item
from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_data, open_interest, parse_lp
from forwarder.wire.packet import Data, Interest, parse_data, read_name
from forwarder.wire.tlv import MalformedPacket
from ssb.keys import InvalidRef, parse_feed
from ssb.message import InvalidMessage, Message
from ssb.peer.peer import Peer, PeerEvent, PeerProgram
from ssb.peer.surrounding import Surrounding
from ssb.replication.blobs import Blobs
from ssb.store.feeds import FeedStore
from ssb_over_ndn.blobs import BlobFetch, segment_packet
from ssb_over_ndn.naming import (
    hash_packet,
    log_key,
    log_name,
    message_id,
    message_packet,
    read_log_name,
    split_segment,
)
from ssb_over_ndn.server import Announcer, FeedServer
from ssb_over_ndn.subscriptions import Subscription, Subscriptions

_BLOB: Final = re.compile(r"&[A-Za-z0-9+/]{43}=\.sha256")
_HOMES = 1_000  # feeds that are served
_FOLLOWS = 10_000  # feeds that are subscribed to
_MENTIONS = 10_000  # blobs whose authors are remembered
_FETCHES = 16  # blobs that are fetched over NDN at once
_WAITING = 100  # blobs that others ask for and that are looked for here
_BLOB_PATIENCE = 30_000_000_000


class Gateway(Surrounding):
    """A StreamEndpoint in the place of its peer's program, and an Application of a forwarder.

    Args:
        program: the Scuttlebutt side.
        peer: the peer in it.
        feeds, blobs: the peer's.
        subscribe: (feed's name, last item that is here) -> the layering's Subscription.
        announce: feed's name -> the layering's Announcer; None if subscribers find out by themselves.
        random: source of nonces.
        settle: called with the time, ns, when the application has something for the forwarder.

    Attributes:
        application: the NDN side.
        counters: what did not go as it should, by a word each.
    """

    def __init__(
        self,
        program: PeerProgram,
        peer: Peer,
        feeds: FeedStore,
        blobs: Blobs | None,
        subscribe: Callable[[bytes, int], Subscription],
        announce: Callable[[bytes], Announcer | None],
        random: Random,
        settle: Callable[[int], None] = lambda now: None,
    ) -> None:
        super().__init__(program)
        self._settle = settle
        self.counters: Counter[str] = Counter()
        self.application = _NdnSide(peer, feeds, blobs, subscribe, announce, random, self.counters)
        peer.replication.act_on(self.application)

    def _follow_up(self, now: int) -> None:
        events = self._program.take_events()
        self._events += events
        self.application.take_in(events, now)
        self._settle(now)


class _NdnSide:
    """The Application; and the Behalf of the peer, which says for whom feeds are replicated."""

    def __init__(
        self,
        peer: Peer,
        feeds: FeedStore,
        blobs: Blobs | None,
        subscribe: Callable[[bytes, int], Subscription],
        announce: Callable[[bytes], Announcer | None],
        random: Random,
        counters: Counter[str],
    ) -> None:
        self._peer = peer
        self._feeds = feeds
        self._blobs = blobs
        if blobs is not None:
            blobs.take_news()
        self._subscribe = subscribe
        self._announce = announce
        self._random = random
        self._counters = counters
        self._homes: dict[str, FeedServer] = {}
        self._wishes: dict[str, set[str]] = {}  # feed -> peers that want it
        self._arriving: dict[str, None] = {}  # feeds that are at home from now on
        self._changed: dict[str, None] = {}
        self._followed = Subscriptions()
        self._mentions: OrderedDict[str, str] = OrderedDict()  # blob -> author of a message that names it
        self._fetches: dict[str, BlobFetch] = {}
        self._waiting: dict[str, int] = {}  # blob -> when to stop looking for it here
        self._outputs: list[bytes] = []

    @property
    def homes(self) -> list[str]:
        """The feeds that are at home here."""
        return list(self._homes)

    @property
    def follows(self) -> list[str]:
        """The feeds that are subscribed to."""
        return [log_key(name) for name in self._followed]

    def add_home(self, feed: str, now: int) -> None:
        """Serve a feed from now on; raises InvalidRef."""
        if feed not in self._homes:
            self._homes[feed] = self._server(feed)
            self._changed[feed] = None
            for seq in sorted({1, self._feeds.tips().get(feed, 0)}):
                item = self._item(feed, seq)
                if item is not None:
                    self._homes[feed].appended(seq, item, now)

    # For whom

    def asks(self, remote: str, feed: str) -> bool:
        """See Behalf."""
        if feed in self._homes:
            return True
        if feed == remote:
            if len(self._homes) >= _HOMES:
                self._counters["too many homes"] += 1
                return False
            self._arriving[feed] = None
        elif feed not in self._wishes and len(self._wishes) >= _FOLLOWS:
            self._counters["too many follows"] += 1
            return False
        else:
            self._wishes.setdefault(feed, set()).add(remote)
        self._changed[feed] = None
        return True

    def leaves(self, remote: str, feed: str) -> None:
        """See Behalf."""
        wishes = self._wishes.get(feed)
        if wishes is not None:
            wishes.discard(remote)
            if not wishes:
                del self._wishes[feed]
                self._changed[feed] = None

    def _note_contact(self, message: Message, now: int) -> None:
        """Act on a message by which somebody who is at home follows or leaves a feed."""
        content = message.content
        if (
            message.author not in self._homes
            or not isinstance(content, dict)
            or content.get("type") != "contact"
        ):
            return
        contact = content.get("contact")
        try:
            parse_feed(contact if isinstance(contact, str) else "")
        except InvalidRef:
            return
        assert isinstance(contact, str)
        if content.get("following") is False or content.get("blocking") is True:
            self._peer.replication.left(contact, message.author)
            self.leaves(message.author, contact)
        elif content.get("following") is True and self.asks(message.author, contact):
            self._peer.want(contact, now)

    def take_in(self, events: list[PeerEvent], now: int) -> None:
        """Act on what has happened on the Scuttlebutt side."""
        for event in events:
            if event.message is not None:
                self._note_mentions(event.message)
                self._note_contact(event.message, now)
                self._published(event.message, now)
            elif event.event == "connected" and self.asks(event.remote, event.remote):
                self._peer.want(event.remote, now)
        self._follow_up(now)

    # The application: the NDN side

    def receive(self, packet: bytes, now: int) -> None:
        """See Application."""
        interest = open_interest(packet)
        if interest is not None:
            self._on_interest(interest, packet, now)
        else:
            self._on_answer(packet, now)
        self._take_items(now)
        self._follow_up(now)

    def take_outputs(self) -> list[bytes]:
        """See Application."""
        outputs, self._outputs = self._outputs + self._followed.take_outputs(), []
        for server in self._homes.values():
            outputs += server.take_outputs()
        for fetch in self._fetches.values():
            outputs += fetch.take_outputs()
        return outputs

    def next_deadline(self) -> int | None:
        """See Application."""
        due = [self._followed.next_deadline(), *self._waiting.values()]
        due += [server.next_deadline() for server in self._homes.values()]
        due += [fetch.next_deadline() for fetch in self._fetches.values()]
        return min((time for time in due if time is not None), default=None)

    def wake(self, now: int) -> None:
        """See Application."""
        self._followed.wake(now)
        self._take_items(now)
        for server in self._homes.values():
            server.wake(now)
        for fetch in self._fetches.values():
            fetch.wake(now)
        self._follow_up(now)

    # Feeds that are at home

    def _server(self, feed: str) -> FeedServer:
        name, tips = log_name(feed), self._feeds.tips()
        return FeedServer(
            name,
            lambda seq: self._item(feed, seq),
            lambda: tips.get(feed, 0),
            announcer=self._announce(name),
        )

    def _published(self, message: Message, now: int) -> None:
        """Pass on a new message of a feed that is at home."""
        server = self._homes.get(message.author)
        if server is not None:
            server.appended(message.sequence, parse_data(message_packet(message)), now)

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
            server = self._homes.get(feed)
            if server is not None:
                server.on_interest(interest, now)
            self._followed.receive(packet, now)
        elif segment is not None:
            self._answer_segment(*segment, now)
        elif wanted is not None:
            message = self._feeds.get(wanted)
            if message is not None:
                self._outputs.append(hash_packet(message))

    # Feeds that are elsewhere

    def _on_answer(self, packet: bytes, now: int) -> None:
        try:
            header = parse_lp(packet)
            name = read_name(header.fragment) if header.fragment else b""
        except MalformedPacket:
            return
        segment = split_segment(name)
        if segment is not None:
            fetch = self._fetches.get(segment[0])
            if fetch is not None:
                fetch.receive(segment[1], header, now)
            return
        server = self._homes.get(read_log_name(name) or "")
        if server is not None and split_item(name) is None and (opened := open_data(packet)):
            server.on_data(opened[0], now)
        self._followed.receive(packet, now)

    def _take_items(self, now: int) -> None:
        """Hand what has come of other feeds to the peer."""
        messages: list[Message] = []
        offering = self._followed.offering
        while offering:
            name = next(iter(offering))
            items = self._followed.take_items(name, now)
            try:
                messages += _messages(log_key(name), items)
            except InvalidMessage:  # its key has signed it, so nothing better will come
                self._counters["a feed with something else than its messages"] += 1
                self._followed.stop(name, now)
        if messages:
            for message in messages:
                self._note_mentions(message)
            self._peer.append(messages, now)
        for _, word in self._followed.take_errors():
            self._counters[word] += 1

    def _follow_up(self, now: int) -> None:
        """Start and stop subscriptions, and the fetching of blobs, as the peers at home want it."""
        arriving, self._arriving = self._arriving, {}
        for feed in arriving:
            self.add_home(feed, now)
        changed, self._changed = self._changed, {}
        for feed in changed:
            name = log_name(feed)
            is_wanted = feed in self._wishes and feed not in self._homes
            if is_wanted and name not in self._followed:
                self._followed.start(name, self._subscribe(name, self._feeds.tips().get(feed, 0)), now)
            elif not is_wanted and name in self._followed:
                self._followed.stop(name, now)
            if feed not in self._homes and feed not in self._wishes:
                self._peer.unwant(feed, now)
        if self._blobs is not None:
            self._carry_blobs(self._blobs, now)

    # Blobs

    def _note_mentions(self, message: Message) -> None:
        for blob in _BLOB.findall(message.text):
            self._mentions.setdefault(blob, message.author)
            if len(self._mentions) > _MENTIONS:
                self._mentions.popitem(last=False)

    def _answer_segment(self, blob: str, number: int, now: int) -> None:
        if self._blobs is None:
            return
        packet = segment_packet(self._blobs.store, blob, number)
        if packet is not None:
            self._outputs.append(packet)
        elif blob not in self._waiting and len(self._waiting) < _WAITING:
            # A peer at home may have it; who asks for it asks again.
            self._waiting[blob] = now + _BLOB_PATIENCE
            self._peer.want_blob(blob, now)

    def _carry_blobs(self, blobs: Blobs, now: int) -> None:
        """Fetch over NDN what the peers at home want, and let go of what is over."""
        for blob in blobs.take_news():
            if blob in self._waiting or blob in self._fetches:
                continue
            if len(self._fetches) >= _FETCHES:
                self._counters["too many blobs"] += 1
                continue
            author = self._mentions.get(blob)
            if author in self._homes:
                continue
            hint = () if author is None else (log_name(author),)
            fetch = BlobFetch(blob, blobs.store, rng=self._random, hint=hint, give_up=_BLOB_PATIENCE)
            fetch.start(now)
            self._fetches[blob] = fetch
        for blob, fetch in list(self._fetches.items()):
            if blobs.store.size(blob) is not None and not fetch.is_over:
                fetch.stop()
            elif not fetch.is_over:
                continue
            del self._fetches[blob]
            if fetch.is_complete:
                self._peer.added_blob(blob, now)
            elif fetch.error:
                self._counters[f"blob: {fetch.error}"] += 1
                blobs.unwant(blob)
        for blob, until in list(self._waiting.items()):
            if blobs.store.size(blob) is not None:
                del self._waiting[blob]
            elif now >= until:
                del self._waiting[blob]
                blobs.unwant(blob)


def _messages(feed: str, items: list[Item]) -> list[Message]:
    """Return the messages in items of a feed; raise InvalidMessage if one is none, or another feed's."""
    messages = []
    for item in items:
        message = Message.from_text(item.message)
        if message.author != feed:
            raise InvalidMessage(f"a message of {message.author} as an item of {feed}")
        messages.append(message)
    return messages
