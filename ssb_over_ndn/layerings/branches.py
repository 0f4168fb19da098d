"""Both ends of a feed whose branches are merged (`ssb.branches`): each branch is a feed of a name of its own.

Two devices with one key write items of the same numbers, so they cannot share the feed's name. The first one
goes on under that name; another one's branch is under naming.branch_name(), from its first own item on. The
name ends with the author's key, too. So forwarders verify, cache and push a branch as any feed.

A device also reads the other branches: its next message names their tips. The first message that it does not
share with the others names their branches, so that readers find them:

    "branches": [{"device": <reference>, "first": <number of the first message>}, ...]

A reader gets an item of a branch only behind the message that the branch's first item follows.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from base.timers import earliest
from forwarder.feedcache.items import Item
from forwarder.wire.lp import open_data, open_interest
from forwarder.wire.packet import Data, parse_data
from ssb.application import Event, Plan
from ssb.branches.feeds import BranchedFeeds
from ssb.branches.tree import MOST_BRANCHES
from ssb.keys import Identity, is_feed
from ssb.message import Message
from ssb.work import WORK
from ssb_over_ndn.following.subscriber import Subscriber
from ssb_over_ndn.following.subscriptions import Subscription, WrappedSubscription
from ssb_over_ndn.naming import branch_name, hash_packet, message_id, message_packet
from ssb_over_ndn.serving.server import Announcer, FeedServer

BRANCHES: Final = "branches"
"""The member of a content that names branches."""


class Named(NamedTuple):
    """A branch as a message names it.

    Attributes:
        device: that of naming.branch_name(): 32 bytes, as a feed's reference.
        first: the number of its first message.
    """

    device: str
    first: int


def named_in(message: Message) -> list[Named]:
    """Return the branches that a message names; what is malformed is passed over."""
    content = message.content if isinstance(message.content, dict) else {}
    branches = content.get(BRANCHES)
    found = []
    for each in branches if isinstance(branches, list) else ():
        match each:
            case {"device": str() as device, "first": int() as first} if (
                is_feed(device) and 1 < first < 1 << 53
            ):
                found.append(Named(device, first))
    return found


class BranchPublisher:
    """Signs the messages of one device when they are due, and serves them by number and by hash.

    Args:
        name: the branch's name.
        key: the key of its events.
        identity: the author's.
        branches: what the device has of all branches.
        planned: what it writes, from the feed's first message on, and when, ns: messages before `own` as they
            are, later ones anew, with the tips that the device has read by then.
        own: the number of the first message that the device's branch does not share.
        first: the number of the first message that it serves.
        others: the branches of other devices.
        disk: what it has written so far, also before a restart; kept up to date.
        announcer: see FeedServer.
    """

    def __init__(
        self,
        name: bytes,
        key: str,
        identity: Identity,
        branches: BranchedFeeds,
        planned: Sequence[tuple[int, Message]],
        *,
        own: int,
        first: int,
        others: Sequence[Named],
        disk: list[bytes],
        announcer: Announcer | None = None,
    ) -> None:
        self._name, self._key = name, key
        self._identity = identity
        self._branches = branches
        self._own, self._first, self._others = own, first, others
        self._disk = disk
        self._items: dict[int, Data] = {}
        self._tip = 0
        self._events: list[Event] = []
        self._outputs: list[bytes] = []
        self._server = FeedServer(
            name,
            self._items.get,
            lambda: self._tip,
            oldest=lambda: first,
            announcer=announcer,
        )
        for text in disk:
            self._keep(Message.from_text(text))
        self._due = deque(planned[len(disk) :])

    def receive(self, packet: bytes, now: int) -> None:
        """Answer an Interest, or receive an answer to an announcement."""
        interest = open_interest(packet)
        if interest is None:
            if opened := open_data(packet):
                self._server.on_data(opened[0], now)
        elif id_ := message_id(interest.name):
            found = self._branches.get(id_)
            self._outputs += [] if found is None else [hash_packet(found)]
        else:
            self._server.on_interest(interest, now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        outputs, self._outputs = self._outputs, []
        return outputs + self._server.take_outputs()

    def take_events(self) -> list[Event]:
        """Return the items published since the last call."""
        events, self._events = self._events, []
        return events

    def ends(self) -> tuple[int, int]:
        """Return the feeds with state at this end, and its bytes: docs/architecture.md, State."""
        size = self._server.size()
        return bool(size), size

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._server.next_deadline(), self._due[0][0] if self._due else None)

    def wake(self, now: int) -> None:
        """Write what is due, and process the server's deadlines."""
        while self._due and self._due[0][0] <= now:
            self._write(self._due.popleft()[1], now)
        self._server.wake(now)

    def _write(self, planned: Message, now: int) -> None:
        message = planned
        if planned.sequence >= self._own:
            content = planned.content
            if planned.sequence == self._own and self._others and isinstance(content, dict):
                content = content | {BRANCHES: [each._asdict() for each in self._others]}
            message = self._branches.publish(self._identity, content, planned.timestamp)
        self._disk.append(message.encoded)
        item = self._keep(message)
        if item is None:
            return
        WORK.sign += 1
        size = len(message.encoded)
        self._events.append(Event(now, "published", self._key, message.sequence, size))
        self._server.appended(message.sequence, item, now)

    def _keep(self, message: Message) -> Data | None:
        """Take a message as the device's last; return its packet, if this device serves it."""
        self._branches.append([message], message.timestamp)
        self._branches.resume(message)
        if message.sequence < self._first:
            return None
        self._tip = message.sequence
        item = self._items[message.sequence] = parse_data(message_packet(message, self._name))
        return item


class BranchReader(WrappedSubscription):
    """A Subscription to a branch, which lets the application have its items behind what they follow.

    Until the message before its first item is here, the branch waits in the subscription's own buffer.
    An item that is no message raises InvalidMessage: for runs, whose authors are honest.

    Args:
        inner: the subscription.
        branches: what the reader has of all branches; kept up to date.

    Attributes:
        named: the branches that its messages name.
    """

    def __init__(self, inner: Subscription, branches: BranchedFeeds) -> None:
        super().__init__(inner)
        self.named: list[Named] = []
        self._branches = branches
        self._held: list[Item] = []
        self._awaited: str | None = None  # the message that the held item follows
        self._is_rooted = False

    @property
    def is_due(self) -> bool:
        """Whether a branch that has waited can go on."""
        is_there = self._awaited is None or self._branches.get(self._awaited) is not None
        return bool(self._held) and is_there

    def take_items(self, limit: int | None = None) -> list[Item]:
        items: list[Item] = []
        if not self._is_rooted:
            if not self._held:
                self._held = super().take_items(1)
                self._awaited = Message.from_text(self._held[0].message).previous if self._held else None
            if not self.is_due:
                return []
            items, self._held, self._is_rooted = self._held, [], True
        items += super().take_items(None if limit is None else limit - len(items))
        messages = [Message.from_text(item.message) for item in items]
        self._branches.append(messages, 0.0)
        self.named += [each for message in messages for each in named_in(message)]
        return items


class Branch(NamedTuple):
    """A branch to be read.

    Attributes:
        name: its name.
        key: the key of its events.
        subscription: to it.
    """

    name: bytes
    key: str
    subscription: BranchReader


class BranchSubscriber:
    """An application that follows several branches of a feed, MOST_BRANCHES at most.

    Args:
        author: reference of the feed.
        branches: those that it follows.
        plan: when and how fast.
        subscribe: (name, after=) -> a subscription to a branch that a message has named; None: none is
            followed.
        tells: whether its events count: those of a device that reads another one's branch do not.
    """

    def __init__(
        self,
        author: str,
        branches: Iterable[Branch],
        plan: Plan,
        subscribe: Callable[..., BranchReader] | None = None,
        *,
        tells: bool = True,
    ) -> None:
        self._author = author
        self._plan = plan
        self._subscribe = subscribe
        self._readers: dict[bytes, tuple[Branch, Subscriber]] = {}
        self._tells = tells
        for each in branches:
            self._follow(each)

    def receive(self, packet: bytes, now: int) -> None:
        """Pass a packet to the branches' subscribers; each takes its own."""
        for _, reader in self._readers.values():
            reader.receive(packet, now)
        self._go_on(now)

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        return [packet for _, reader in self._readers.values() for packet in reader.take_outputs()]

    def take_events(self) -> list[Event]:
        """Return the events since the last call; each names its branch by the key."""
        events = [
            event._replace(feed=branch.key)
            for branch, reader in self._readers.values()
            for event in reader.take_events()
        ]
        return events if self._tells else []

    def ends(self) -> tuple[int, int]:
        """See Subscriber."""
        found = [reader.ends() for _, reader in self._readers.values()]
        return sum(feeds for feeds, _ in found), sum(size for _, size in found)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(*(reader.next_deadline() for _, reader in self._readers.values()))

    def wake(self, now: int) -> None:
        """Wake the subscribers of all branches."""
        for _, reader in self._readers.values():
            reader.wake(now)
        self._go_on(now)

    def _follow(self, branch: Branch) -> Subscriber:
        reader = Subscriber({branch.name: branch.subscription}, self._plan)
        self._readers[branch.name] = branch, reader
        return reader

    def _go_on(self, now: int) -> None:
        """Follow branches that messages have named, and let those go on that have waited for a message that
        has come, also for one of another branch.
        """
        for _ in [*self._readers]:
            for branch, reader in [*self._readers.values()]:
                if branch.subscription.is_due:
                    reader.refresh(branch.name, now)
                named, branch.subscription.named = branch.subscription.named, []
                for device, first in named:
                    self._find(device, first, now)

    def _find(self, device: str, first: int, now: int) -> None:
        """Follow a branch that a message names."""
        name = branch_name(self._author, device, first)
        if self._subscribe is not None and name not in self._readers and len(self._readers) < MOST_BRANCHES:
            self._follow(Branch(name, device, self._subscribe(name, after=first - 1))).wake(now)
