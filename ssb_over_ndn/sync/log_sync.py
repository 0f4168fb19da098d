"""Layering `sync-log`: sync for append-only logs of one writer.

State Vector Sync (ssb_over_ndn.sync.state_vector) is for data of any kind: a member has to fetch new data,
and all members repeat their state periodically. Logs allow more:

- An announcement carries its item. A member with all items before it accepts it at once, as the item's
  signature proves that it extends the log; others fetch the items between. This saves a round trip.
- One number is the state of a log, and only its writer can change it. So the writer alone repeats an
  announcement: soon, as it may have been lost, then at growing intervals.
- A reader announces its own number once. A member with a higher one answers after a random time, unless
  another member does first (SVS' SuppressionPeriod).

Announcements are Interests in the group `<feed>/32=extend`, which forwarders multicast, and which are not
answered with Data. They push unrequested items, which gives up NDN's balance of Interests and Data.

Parameters of an announcement: SeqNo (214), the number of the sender's newest item; then, the first
time, the item's Data packet.
"""

from random import Random

from base.timers import earliest
from base.units import MS
from forwarder.feedcache.items import read_data
from forwarder.wire.feed import split_item
from forwarder.wire.name import VERSION, component
from forwarder.wire.packet import DATA, SENT_HOP_LIMIT, Data, Interest
from forwarder.wire.parameters import make_interest_with_parameters, parameters_of
from forwarder.wire.tlv import MalformedPacket, element, nni, read_header, read_nni
from ssb_over_ndn.following.follower import Follower, Scout
from ssb_over_ndn.naming import extend_prefix
from ssb_over_ndn.serving.server import Announcer
from ssb_over_ndn.sync.state_vector import SEQ_NO, suppression_timeout

_VERSION_1 = component(VERSION, nni(1))
_LIFETIME_MS = 100  # there are no answers; dead nonces end loops
_BACKOFF = 4
_LARGEST_ITEM = 8000
"""Most bytes of an item in an announcement: the packet's limit is 8800."""


def encode_extension(seq: int, item: bytes = b"") -> bytes:
    """Encode the parameters of an announcement: the newest item's number, and its packet."""
    return element(SEQ_NO, nni(seq)) + item


def decode_extension(feed: bytes, content: bytes) -> tuple[int, Data | None]:
    """Decode the parameters of an announcement in a feed's group; raise MalformedPacket.

    The item is not verified, but its name is that of the announced item.
    """
    kind, start, end = read_header(content, 0, len(content))
    if kind != SEQ_NO:
        raise MalformedPacket("an announcement begins with SeqNo")
    seq = read_nni(content[start:end])
    if end == len(content):
        return seq, None
    kind, _, stop = read_header(content, end, len(content))
    if kind != DATA or stop != len(content):
        raise MalformedPacket("an announcement ends with an item")
    data = read_data(content[end:])
    if split_item(data.name) != (feed, seq):
        raise MalformedPacket("the item is not the one that is announced")
    return seq, data


class LogMember(Announcer):
    """A member of a log's group; the writer's member is its Announcer.

    Args:
        feed: the feed's name.
        rng: source of nonces and of the timers' randomness.
        is_writer: whether it writes the log.
        first_ms, longest_ms: how long after an item the writer repeats its announcement, four times as long
            each time, and how long at most. The same for a reader's question, until it has an answer.
        suppression_ms: SuppressionPeriod.

    Attributes:
        held: the newest item that this member has, with all before it.
        newest: the newest announced item, unverified: it is fetched, but not passed on.
        found: items from others' announcements.
    """

    def __init__(
        self,
        feed: bytes,
        *,
        rng: Random,
        is_writer: bool,
        first_ms: int,
        longest_ms: int,
        suppression_ms: int,
    ) -> None:
        super().__init__()
        self.held = 0
        self.newest = 0
        self.found: list[Data] = []
        self._feed = feed
        self._group = extend_prefix(feed) + _VERSION_1
        self._rng = rng
        self._is_writer = is_writer
        self._first = first_ms * MS
        self._longest = longest_ms * MS
        self._suppression = suppression_ms * MS
        self._pause = self._first
        self._due: int | None = None  # of the next repetition
        self._answer_due: int | None = None  # of an answer to a lower number

    def begin(self, now: int) -> None:
        """Request the group's state."""
        self._announce(now)
        self._repeat_after(self._first, now)

    def published(self, seq: int, item: Data, now: int) -> None:
        """Announce an item that extends the log to the group."""
        self.held = self.newest = seq
        self._announce(now, item.wire if len(item.wire) <= _LARGEST_ITEM else b"")
        self._repeat_after(self._first, now)

    def on_interest(self, interest: Interest, now: int) -> None:
        """Receive an announcement; other packets are ignored."""
        if not interest.name.startswith(self._group):
            return
        try:
            parameters = parameters_of(interest)
            if parameters is None:
                return
            seq, item = decode_extension(self._feed, parameters)
        except MalformedPacket:
            return
        if item is not None and not self._is_writer:
            self.found.append(item)
        if seq >= self.held:
            self._answer_due = None  # another member has answered
            if seq and not self._is_writer:
                self.newest = max(self.newest, seq)
                self._due = None  # the request is answered, and the writer repeats new announcements
        elif self._answer_due is None:
            self._answer_due = now + suppression_timeout(self._suppression, self._rng)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(self._due, self._answer_due)

    def wake(self, now: int) -> None:
        """Send due repetitions and answers."""
        if self._answer_due is not None and self._answer_due <= now:
            self._announce(now)
        elif self._due is not None and self._due <= now:
            self._announce(now)
            self._repeat_after(min(_BACKOFF * self._pause, self._longest), now)

    def size(self) -> int:
        """See Announcer: two numbers, and the times of a repetition and of an answer."""
        return len(self._feed) + 4 * 8

    def stop(self) -> None:
        """Leave the group."""
        self._due = self._answer_due = None

    def _announce(self, now: int, item: bytes = b"") -> None:
        self._answer_due = None
        self.outputs.append(
            make_interest_with_parameters(
                self._group,
                encode_extension(self.held, item),
                nonce=self._rng.getrandbits(32),
                lifetime_ms=_LIFETIME_MS,
                hop_limit=SENT_HOP_LIMIT,
            )
        )

    def _repeat_after(self, pause: int, now: int) -> None:
        self._pause = pause
        self._due = now + round(pause * self._rng.uniform(0.9, 1.1))


class LogScout(Scout):
    """A subscriber's member of the group."""

    def __init__(self, member: LogMember) -> None:
        super().__init__()
        self._member = member

    def start(self, now: int) -> None:
        self._member.held = self.arrived
        self._member.begin(now)
        self._follow_up()

    def stop(self, now: int) -> None:
        self._member.stop()

    def on_interest(self, interest: Interest, now: int) -> None:
        self._member.held = self.arrived
        self._member.on_interest(interest, now)
        self._follow_up()

    def next_deadline(self) -> int | None:
        return self._member.next_deadline()

    def wake(self, now: int) -> None:
        self._member.held = self.arrived
        self._member.wake(now)
        self._follow_up()

    def size(self) -> int:
        return self._member.size()

    def _follow_up(self) -> None:
        self.tip = max(self.tip, self._member.newest)
        self.found += self._member.found
        self.outputs += self._member.take_outputs()
        self._member.found = []


def subscribe(
    feed: bytes, *, rng: Random, buffer: int, lifetime_ms: int, after: int = 0, **timing: int
) -> Follower:
    """Return a subscription; see Follower and, for `timing`, LogMember."""
    member = LogMember(feed, rng=rng, is_writer=False, **timing)
    return Follower(feed, LogScout(member), rng=rng, buffer=buffer, lifetime_ms=lifetime_ms, after=after)
