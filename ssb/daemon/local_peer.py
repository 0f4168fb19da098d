"""A user's peer: it replicates the feeds that the user follows, and those that they follow.

Without sockets and clocks: `ssb.daemon.service` provides both.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from random import Random
from types import MappingProxyType
from typing import Any

from base.endpoint import StreamEvent
from base.timers import earliest
from ssb.applications.fusion import ENTRUST, FUSION
from ssb.applications.pubs import PUB, to_call
from ssb.branches.exchange import BranchExchange
from ssb.canonical import Value, stringify
from ssb.daemon.account import Account
from ssb.daemon.device_calls import DeviceCalls
from ssb.daemon.recovery import Recovery
from ssb.ending import END
from ssb.graph import CONTACT
from ssb.keys import Identity, named_blobs
from ssb.message import Message
from ssb.peer.access import InvalidInvite
from ssb.peer.invites import Invites
from ssb.peer.options import PeerOptions
from ssb.peer.peer import Peer
from ssb.peer.program import PeerEvent, PeerWrapper
from ssb.replication.blobs import Blobs
from ssb.replication.loose import Loose
from ssb.replication.storage import StorageLimit
from ssb.rooms.alias import sign
from ssb.rooms.room import REGISTER, Room, RoomOptions
from ssb.rooms.visits import DENIED, Visits
from ssb.store.feeds import StoreError
from ssb.transport.address import Invite, PeerAddress


class _AccountAccess:
    """See AccessPolicy: blocked peers are refused, invites are the account's.

    A user's block has priority: no invite admits a blocked peer.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._invites = Invites(account.invites())
        self._friends = {address.peer for address in account.known_peers()}
        self._followed: list[Message] = []
        self.now_ms = 0.0

    def admits(self, peer: str) -> bool:
        return not self._account.graph.is_blocked(peer)

    def knows(self, peer: str) -> bool:
        named = peer in self._friends or self._invites.uses.get(peer, 0) > 0
        return named or peer in self._account.graph.replicated() or peer in self._account.comembers()

    def is_member(self, peer: str) -> bool:
        """Whether a peer is a member of the room that this one may be: followed, as invites make it."""
        graph = self._account.graph
        return peer == graph.origin or graph.is_following(graph.origin, peer)

    def meets(self, peer: str) -> bool:
        return self.admits(peer) and self.is_member(peer)

    def is_named(self, peer: str) -> bool:
        """Whether the user has named a peer, and so its address."""
        return peer in self._friends

    def remember(self, peer: str) -> None:
        """Add a peer named by the user."""
        self._friends.add(peer)

    def is_guest(self, peer: str) -> bool:
        return peer in self._invites.uses

    def admit_guest(self, peer: str, uses: int) -> None:
        self._invites.add(peer, uses)
        self._account.set_invites(self._invites.uses)

    def take_followed(self) -> list[Message]:
        """Return the messages that followed guests since the last call."""
        followed, self._followed = self._followed, []
        return followed

    def use_invite(self, peer: str, arguments: Sequence[Value]) -> Value:
        account, before = self._account, self._invites.uses.get(peer)

        def follow(content: dict[str, Any]) -> Message:
            return self._follow(peer, content)

        answer = self._invites.use(peer, arguments, account.graph, account.feeds, follow, self.now_ms)
        if self._invites.uses[peer] != before:
            account.set_invites(self._invites.uses)
        return answer

    def _follow(self, peer: str, content: dict[str, Any]) -> Message:
        """Publish that the guest of an invite is followed; raise InvalidInvite if nothing can be written."""
        account = self._account
        if account.graph.origin in account.feeds.ends():
            raise InvalidInvite("the feed of this peer's user has ended")
        if account.own.doubt:
            raise InvalidInvite("this peer is finding out how far its own feed is; try again later")
        if account.own_key.why():
            raise InvalidInvite("this peer cannot write now; its user has to see to that")
        account.set_invites(self._invites.uses, (peer, content["contact"]))
        message = account.publish(content, self.now_ms)
        self._followed.append(message)
        return message


class LocalPeer(PeerWrapper):
    """The peer of an account, as a StreamEndpoint.

    Args:
        account: see Account; closed by the caller.
        options: see PeerOptions.
        random: for keys and pauses.
        epoch_ms: the time at 0 ns, in ms since 1970.
        now: the time, ns.
        announcements: see Peer.
        room: the room that it is to be; None if it is none.

    Attributes:
        peer, blobs, loose, visits, room: see Peer.
        epoch_ms: see above.
        blob_storage_limit: see PeerOptions.
    """

    def __init__(
        self,
        account: Account,
        options: PeerOptions,
        random: Random,
        epoch_ms: float,
        now: int,
        announcements: Mapping[int, PeerAddress] = MappingProxyType({}),
        room: RoomOptions | None = None,
    ) -> None:
        self._account = account
        self.epoch_ms = epoch_ms
        self._access = _AccountAccess(account)
        self._unread: deque[PeerEvent] = deque()
        self._passing: deque[StreamEvent] = deque()  # of streams through rooms
        self._beside = account.beside()
        wanted = sorted(account.graph.replicated() | self._beside)
        limit = self.blob_storage_limit = options.blob_storage_limit
        self._read_devices: set[str] = set()  # whose messages tell which blobs are the user's
        self._storage = None if limit is None else self._limited(limit)
        self.blobs = Blobs(account.blobs, contents=account.contents, storage=self._storage)
        self.blobs.update_contents()
        self.loose = Loose(account.feeds)
        self.visits = Visits(account.identity.ref, self._access.meets, self._replicates)
        self.room = room and Room(
            room,
            self._access.is_member,
            self._replicates,
            account.aliases(),
            account.set_aliases,
            lambda: int(self._access.now_ms),
        )
        self.peer = Peer(
            account.identity,
            account.feeds,
            account.clocks,
            wanted,
            options,
            random,
            epoch_ms,
            self.blobs,
            self._access,
            announcements,
            loose=self.loose,
            visits=self.visits,
            room=self.room,
            branches=self._branches(options, random),
        )
        super().__init__(self.peer)
        self._begin(now)
        self._recovery = Recovery(account.own, self.peer, now)
        self._time = now
        self._has_news_of_devices = True
        self._calls_loopback = options.calls_loopback
        self._has_news_of_pubs = True
        self._call_pubs(now)
        self._make_room()

    def _begin(self, now: int) -> None:
        """Tell the peer of blocks and of addresses that are known."""
        for author, blocked in self._account.graph.blocks():
            self.peer.replication.hide(author, blocked, now)
        for host, port, reference in self._account.known_peers():
            self.peer.add(reference, (host, port), now)

    # For the user

    def publish(
        self, content: Mapping[str, Any] | str, now: int, recipients: list[str] | None = None
    ) -> Message:
        """Write a message and forward it; raise InvalidMessage and StoreError, in particular UnsureFeed."""
        message = self._account.publish(content, self._now_ms(now), recipients)
        self._published(message, now)
        return message

    def settle(self) -> None:
        """Continue the own feed after the last message held here: the user declares that nobody has more."""
        self._recovery.settle()
        self._make_room()

    def merge_branches(self, now: int) -> None:
        """Exchange the branches of the feeds that are merged, and follow what these say."""
        self._apply_graph(now)

    def connect(self, address: PeerAddress, now: int) -> None:
        """Call a peer, now and whenever there is no connection with it, unless it is blocked."""
        self._account.remember(address)
        self._access.remember(address.peer)
        self.peer.add(address.peer, (address.host, address.port), now, is_kept=True)

    def invite(self, address: PeerAddress, uses: int, seed: bytes) -> Invite:
        """Create an invite; raise StoreError."""
        identity = Identity.from_seed(seed)
        self._access.admit_guest(identity.ref, uses)
        return Invite(address, seed)

    def alias(self, room: str, name: str) -> Value:
        """Register an alias in a room; return its URI, None until the room has answered.

        Raises ValueError with the room's reason.
        """
        alias = sign(self._account.identity, room, name)
        return self.visits.ask(room, REGISTER, [name, alias.signature])

    # The endpoint

    def next_deadline(self) -> int | None:
        rooms = 0 if self.visits.has_news or self._passing else None
        return earliest(rooms, self.peer.next_deadline(), self._recovery.next_deadline())

    def wake(self, now: int) -> None:
        super().wake(now)
        self._visit(now)
        if self._recovery.wake(now):
            own = self._account.own
            detail = f"{own.tip} messages; it can go on"
            self._events.append(PeerEvent(now, "recovered", own.feed, detail))
            self._make_room()

    def on_stream(self, event: StreamEvent, now: int) -> None:
        self._access.now_ms = self._now_ms(now)
        super().on_stream(event, now)
        if self._account.merged.is_forked(self._account.own.feed):
            self._recovery.on_fork()
        else:
            self._recovery.check_claim(event.stream, now)

    def _follow_up(self, now: int) -> None:
        """Process new messages: follow and unfollow feeds, and report damage."""
        for message in self._access.take_followed():
            self._published(message, now)
        lost = self._account.feeds.take_lost()
        for feed, sequence in lost:
            detail = f"message {sequence} is damaged here, and comes again from others"
            self._events.append(PeerEvent(now, "damaged", feed, detail))
            self.peer.on_lost(feed, now)
        if any(feed == self._account.own.feed for feed, _ in lost):
            self._recovery.on_lost(now)
        events = self.peer.take_events()
        self._events += events
        self._unread += events
        while self._unread:  # one that fails stays
            event = self._unread[0]
            self._recovery.on_event(event, now)
            if event.message is not None:
                self._account.update_views(event.message)
            self._unread.popleft()
            if event.message is not None:
                self._apply(event.message, now)
        if self._account.restate():
            self._apply_graph(now)
        self._call_pubs(now)
        self._time = now
        if self._has_news_of_devices:
            self._proceed_with_devices(now)

    def _proceed_with_devices(self, now: int) -> None:
        """Take the steps about devices that are due; a failure is reported, and harms nothing else."""
        try:
            self._has_news_of_devices = not self._devices.proceed()
        except (ValueError, StoreError) as error:
            detail = f"a step to become one identity failed: {error}"
            self._events.append(PeerEvent(now, "failed", self._account.identity.ref, detail))

    def _published(self, message: Message, now: int) -> None:
        """Report and forward a message that was written here."""
        self._events.append(PeerEvent(now, "stored", message=message))
        self.blobs.came([message])
        self.peer.on_appended(message.author, now)
        self._apply(message, now)

    @cached_property
    def _devices(self) -> DeviceCalls:
        return DeviceCalls(
            self._account,
            lambda content: self.publish(content, self._time),
            lambda: self._now_ms(self._time),
        )

    def _replicate_beside(self, now: int) -> None:
        """Replicate feeds of members of groups and of invited devices, and branches of merged feeds."""
        before, self._beside = self._beside, self._account.beside()
        self.peer.want_all(sorted(self._beside - before), now)
        for feed in sorted(before - self._beside - self._account.graph.replicated()):
            self.peer.unwant(feed, now)
        self.peer.merge([feed for feed in self._account.merged.feeds if self._replicates(feed)], now)

    def _visit(self, now: int) -> None:
        """Pass on what comes through rooms, and call those who are there."""
        self._passing += self.visits.take_events()
        while self._passing:  # one that fails takes no others with it
            self.on_stream(self._passing.popleft(), now)
        for kind, peer, room in self.visits.take_news():
            if kind == DENIED:
                self.peer.connections.refused["called through a room, and is not followed"] += 1
                detail = f"called through the room {room}, and is not followed"
                self._events.append(PeerEvent(now, "refused", peer, detail))
            else:
                self.peer.heed(peer, now, room)

    def _make_room(self) -> None:
        """Bring the blobs within the limit, if there is one."""
        if self._storage is not None:
            self._storage.make_room()

    def _limited(self, limit: int) -> StorageLimit:
        """Return the limit on blobs; what the user has added or named, and contents of messages, stay."""
        account, own = self._account, self._account.own_blobs
        self._keep_named()
        own.begin(account.blobs.blobs(), account.backlinks.is_named)

        def is_kept(blob: str) -> bool:
            return blob in own or account.contents.needs(blob)

        def on_drop(blob: str, size: int) -> None:
            detail = f"{size:,} bytes, as all blobs may have {limit:,}"
            self._events.append(PeerEvent(self._time, "dropped", blob, detail))
            self.blobs.unwant(blob)  # so that a later want is told to others again

        def may_drop() -> bool:
            """Whether all messages of the user's are here."""
            return not account.own.doubt and account.feeds.damaged().keys().isdisjoint(self._read_devices)

        return StorageLimit(account.blobs, limit, is_kept, on_drop, may_drop)

    def _keep_named(self, *messages: Message) -> None:
        """Keep the blobs that messages of the user's name, private ones, too.

        Of a feed that has become a device of the user's all messages are read.
        """
        account = self._account
        devices = {*account.views.fusions.devices(account.identity.ref)}
        new, self._read_devices = devices - self._read_devices, self._read_devices | devices
        of_feeds = (account.feeds.newest(account.feeds.last(feed), feed) for feed in sorted(new))
        older = (stored.message for stored in chain(*of_feeds, account.merged.others(new)))
        for message in chain(older, messages):
            if message.author in devices:
                opened = account.open_private(message) if isinstance(message.content, str) else None
                text = message.text if opened is None else stringify(dict(opened))
                account.own_blobs.name(named_blobs(text))

    def _branches(self, options: PeerOptions, random: Random) -> BranchExchange:
        """Return the exchange of branches beside EBT, which carries a feed until it is forked."""
        merged, feeds = self._account.merged, self._account.feeds
        return BranchExchange(
            merged,
            [feed for feed in merged.feeds if self._replicates(feed)],
            options.replication,
            random,
            is_carried=lambda feed: feed not in feeds.forks(),
            is_hidden=lambda feed, peer: self.peer.protocol.hides(feed, peer),  # noqa: PLW0108 - made later
        )

    def _replicates(self, feed: str) -> bool:
        return feed in self._account.graph.replicated() or feed in self._beside

    def _apply(self, message: Message, now: int) -> None:
        """Apply a message about follows or blocks, the end of a feed, devices, a pub, or groups."""
        content = message.content
        if self.blob_storage_limit is not None:
            self._keep_named(message)
        if not isinstance(content, dict):
            self._replicate_beside(now)
            opened = self._account.groups.opened(message.id)
            self._has_news_of_devices |= opened is not None and opened.content.get("type") == ENTRUST
            return
        kind = content.get("type")
        self._has_news_of_pubs |= kind == PUB
        self._has_news_of_devices |= kind == FUSION
        if kind in (CONTACT, END, FUSION):
            self._apply_graph(now)

    def _apply_graph(self, now: int) -> None:
        """Apply changes of follows and blocks."""
        graph = self._account.graph
        for author, feed in sorted(graph.take_restated()):
            self._apply_block(author, feed, now)
            if author == graph.origin:
                self.peer.heed(feed, now)
        changes = graph.take_changes()
        self._has_news_of_pubs |= bool(changes.added)
        self.peer.want_all(sorted(changes.added), now)
        self._replicate_beside(now)  # a block counts there, too
        for feed in sorted(changes.removed - self._beside):
            self.peer.unwant(feed, now)

    def _apply_block(self, author: str, feed: str, now: int) -> None:
        """Hide an author's feed from one that the author blocks, or show it again."""
        if self._account.graph.is_blocked(feed, by=author):
            self.peer.replication.hide(author, feed, now)
            if author == self._account.identity.ref:
                self.peer.remove(feed, now)
        else:
            self.peer.replication.selection.show(author, feed)

    def _call_pubs(self, now: int) -> None:
        """Add the pubs that logs name to the peers to call, after news about them."""
        if not self._has_news_of_pubs:
            return
        self._has_news_of_pubs = False
        for host, port, pub in to_call(self._account.pubs(), with_loopback=self._calls_loopback):
            if not self._access.is_named(pub):
                self.peer.add(pub, (host, port), now, is_hearsay=True)

    def _now_ms(self, now: int) -> float:
        return self.epoch_ms + now // 1_000_000
