"""A node's end of a sync group of all feeds, whatever its protocol."""

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import DATA, Data, Interest, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket
from ssb.application import Event
from ssb_over_ndn.following.follower import Follower, Scout
from ssb_over_ndn.serving.server import Announcer


class GroupMember(Protocol):
    """A member of a group of all feeds, of one sync protocol or another.

    Attributes:
        newest: feed's name -> its newest known item.
        changed: the feeds with newer items than at the last look.
    """

    newest: dict[bytes, int]
    changed: dict[bytes, None]

    def send(self, now: int) -> None:
        """Begin: ask for the others' state."""

    def publish(self, feed: bytes, seq: int, item: Data, now: int) -> None:
        """Announce an item of a local feed."""

    def on_interest(self, interest: Interest, now: int) -> None:
        """Receive an Interest."""

    def on_data(self, data: Data, now: int) -> None:
        """Receive a Data packet."""

    def on_nack(self, interest: Interest, now: int) -> None:
        """Receive a Nack."""

    def take_outputs(self) -> list[bytes]:
        """Return the packets for the forwarder."""
        ...

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""

    def wake(self, now: int) -> None:
        """Process the timers."""

    def stop(self) -> None:
        """Leave the group."""

    def ends(self) -> tuple[int, int]:
        """Return the names that it knows, and the bytes of its state."""
        ...


class Group:
    """A node's end of the group: the Application that receives its packets.

    The node is a member while it follows a feed or may publish.

    Args:
        member: the group's, which does the rest.
        rng, buffer, lifetime_ms: see Follower.

    Attributes:
        refresh: called with a feed and the time when the feed may have newer items.
    """

    def __init__(self, member: GroupMember, rng: Random, *, buffer: int, lifetime_ms: int) -> None:
        self.member = member
        self._rng = rng
        self._fetch = {"buffer": buffer, "lifetime_ms": lifetime_ms}
        self.refresh: Callable[[bytes, int], None] = lambda feed, now: None
        self._ends = 0
        self._has_asked = False

    def subscription(self, feed: bytes, **more: Any) -> Follower:
        """Return a subscription of a feed; see Follower."""
        return Follower(feed, AllScout(feed, self), rng=self._rng, **self._fetch)

    def announcer(self, feed: bytes) -> Announcer:
        """Return the announcer of a local feed."""
        self._ends += 1
        return AllAnnouncer(feed, self)

    def joined(self, now: int) -> None:
        """Count a feed that is followed; the first asks for the group's state."""
        self._ends += 1
        if not self._has_asked:
            self._has_asked = True
            self.member.send(now)

    def left(self) -> None:
        """Count a feed that is no longer followed or published."""
        self._ends -= 1
        if not self._ends:
            self._has_asked = False
            self.member.stop()

    def receive(self, packet: bytes, now: int) -> None:
        if not self._ends:
            return
        try:
            header = parse_lp(packet)
            if header.fragment[:1] == bytes((DATA,)):
                self.member.on_data(parse_data(header.fragment), now)
            elif header.nack_reason is not None:
                self.member.on_nack(parse_interest(header.fragment), now)
            elif header.fragment:
                self.member.on_interest(parse_interest(header.fragment), now)
        except MalformedPacket:
            return
        changed, self.member.changed = self.member.changed, {}
        for feed in changed:
            self.refresh(feed, now)

    def take_outputs(self) -> list[bytes]:
        return self.member.take_outputs()

    def take_events(self) -> list[Event]:
        """Return no events: subscribers and publishers report theirs."""
        return []

    def ends(self) -> tuple[int, int]:
        """See Subscriber: the names that the member knows, and the bytes of its state."""
        return self.member.ends()

    def next_deadline(self) -> int | None:
        return self.member.next_deadline()

    def wake(self, now: int) -> None:
        self.member.wake(now)


class AllAnnouncer(Announcer):
    """Announces a feed's new items by the node's member."""

    def __init__(self, feed: bytes, group: Group) -> None:
        super().__init__()
        self._feed = feed
        self._group = group

    def published(self, seq: int, item: Data, now: int) -> None:
        self._group.member.publish(self._feed, seq, item, now)

    def stop(self) -> None:
        self._group.left()


class AllScout(Scout):
    """Looks a feed's newest item up among those that the node's member knows."""

    def __init__(self, feed: bytes, group: Group) -> None:
        super().__init__()
        self._feed = feed
        self._group = group

    def start(self, now: int) -> None:
        self._group.joined(now)
        self.wake(now)

    def stop(self, now: int) -> None:
        self._group.left()

    def wake(self, now: int) -> None:
        self.tip = max(self.tip, self._group.member.newest.get(self._feed, 0))
