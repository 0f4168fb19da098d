"""mine: one Interest at a time, for the next item, repeated when it has expired. Change it into your own."""

from random import Random

from pydantic import Field

from base.units import MS
from forwarder.feedcache.items import read_data
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import DATA, SENT_HOP_LIMIT, make_interest
from forwarder.wire.tlv import MalformedPacket
from ssb_over_ndn.following.inbox import Buffered, Inbox
from testbed.layerings.nodes.ndn_node import FollowParameters, NdnLayering


class MineParameters(FollowParameters):
    """Parameters of `mine`: a scenario's table [parameters.mine], or --set mine.lifetime_ms=200."""

    lifetime_ms: int = Field(default=500, ge=1, le=3_600_000)
    """InterestLifetime: an Interest without an answer is repeated then."""


class Mine(Buffered):
    """A subscriber's end: ssb_over_ndn.following.subscriptions.Subscription says what each method is for."""

    def __init__(self, feed: bytes, *, rng: Random, lifetime_ms: int) -> None:
        super().__init__(Inbox(feed, capacity=64))
        self._rng = rng
        self._lifetime_ms = lifetime_ms
        self._due: int | None = None  # when the pending Interest has expired, ns

    def start(self, now: int) -> None:
        """Ask for the first item."""
        self._is_open = True
        self._ask(now)

    def stop(self, now: int) -> None:
        """Ask no more."""
        self._is_open = False
        self._due = None

    def receive(self, header: LpPacket, now: int) -> None:
        """Take the next item, and ask for the one after it. Nacks are left to the time-out."""
        if not self._is_open or header.nack_reason is not None or header.fragment[:1] != bytes((DATA,)):
            return
        try:
            data = read_data(header.fragment)
        except MalformedPacket:
            return
        seq = self._inbox.arrived + 1
        item = self._inbox.open(seq, data) if data.name == self._inbox.name(seq) else None
        if item is not None:  # else it is old, or not the author's
            self._inbox.put(item)
            self._ask(now)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._due

    def wake(self, now: int) -> None:
        """Ask again if the Interest has expired, or if the application has made room."""
        if self._is_open and (self._due is None or self._due <= now):
            self._ask(now)

    def _ask(self, now: int) -> None:
        seq = self._inbox.arrived + 1
        if seq > self._inbox.limit:
            self._due = None
            return
        self._due = now + self._lifetime_ms * MS
        interest = make_interest(
            self._inbox.name(seq),
            nonce=self._rng.getrandbits(32),
            lifetime_ms=self._lifetime_ms,
            hop_limit=SENT_HOP_LIMIT,
        )
        self.outputs.append(interest)


def layering() -> NdnLayering:
    """Return the layering, which the entry point names."""
    return NdnLayering("one Interest at a time", MineParameters, Mine)
