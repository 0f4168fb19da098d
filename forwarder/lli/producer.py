"""The publishing end of a feed: pushes under credit, and answers classic Interests for its items."""

from collections.abc import Callable
from typing import Final

from base.units import MS
from forwarder.lli.ranges import Ranges
from forwarder.wire.evidence import Evidence, proven_text
from forwarder.wire.feed import split_item
from forwarder.wire.lp import make_feed_state
from forwarder.wire.packet import Data, Interest

_FORWARDER: Final = 0  # the one face of an application
_STATE_BYTES: Final = 3 * 8 + 9  # next, limit and expiry of the range, and evidence


class Producer:
    """Serves one feed to the forwarder that it is attached to.

    A classic Interest for an item that does not exist yet stays pending until the item does or the
    Interest's lifetime is over. One for an item that is not held any more gets no answer, as anywhere in NDN.

    Args:
        feed: the feed's name.
        get: returns an item's packet by sequence number, None if there is no such item yet, or any more.
        tip: returns the newest item's sequence number, 0 if none.
        oldest: returns the oldest item's sequence number that is still held.
        relayed: returns what is known of a source, None if nothing is; for an application that passes a feed
            on, such as an archive. Without it this is a source itself.
        sign: signs by the feed's key what shows that only a source has issued a number; None if that key is
            not here.
        max_pending: classic Interests for future items kept at most.
    """

    def __init__(
        self,
        feed: bytes,
        get: Callable[[int], Data | None],
        tip: Callable[[], int],
        *,
        oldest: Callable[[], int] = lambda: 1,
        relayed: Callable[[], Evidence | None] | None = None,
        sign: Callable[[bytes], bytes] | None = None,
        max_pending: int = 1024,
    ) -> None:
        self.feed = feed
        self._get = get
        self._tip = tip
        self._oldest = oldest
        self._relayed = relayed
        self._max_pending = max_pending
        self._sign = sign
        self._own: Evidence | None = None
        self._ranges = Ranges()
        self._pending: dict[int, int] = {}
        self._outputs: list[bytes] = []

    def receive(self, interest: Interest, now: int) -> None:
        """Take in an Interest under the feed's name; others are ignored."""
        parts = split_item(interest.name)
        if parts is None or parts[0] != self.feed:
            return
        seq = parts[1]
        if interest.send_credit is not None:
            self._on_lli(seq, interest, now)
        elif data := self._get(seq):
            self._outputs.append(data.wire)
        elif seq > self._tip():
            self._expire(now)
            expiry = now + interest.lifetime_ms * MS
            self._pending[seq] = max(expiry, self._pending.get(seq, 0))
            if len(self._pending) > self._max_pending:
                del self._pending[max(self._pending)]  # what comes last is wanted least

    def appended(self, seq: int, now: int) -> None:
        """Push item `seq`, which has just come into being, if it is waited for."""
        waited_for = self._pending.pop(seq, 0) > now
        self._ranges.expire(now)
        if not self._serve() and waited_for and (data := self._get(seq)):
            self._outputs.append(data.wire)

    def source_changed(self) -> None:
        """Announce to the forwarder a change of the source, if ranges are open."""
        granted = self._ranges.get(_FORWARDER)
        if granted is not None and granted.told != self.evidence:
            granted.told = self.evidence
            self._tell(granted.limit, None, granted.known)

    def take_outputs(self) -> list[bytes]:
        """Return the packets to be sent."""
        outputs, self._outputs = self._outputs, []
        return outputs

    @property
    def is_relay(self) -> bool:
        """Whether it offers evidence of another source, and is none itself."""
        return self._relayed is not None

    @property
    def waiting(self) -> int:
        """Grants and Interests that wait for items."""
        return len(self._ranges) + len(self._pending)

    def size(self) -> int:
        """Return the bytes of an open range, and of evidence; Interests count in the PIT."""
        return len(self.feed) + _STATE_BYTES if self._ranges else 0

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        expiries = list(self._pending.values())
        if self._ranges:
            expiries.append(self._ranges.first_expiry())
        return min(expiries, default=None)

    def wake(self, now: int) -> None:
        """Drop expired ranges and Interests."""
        self._ranges.expire(now)
        self._expire(now)

    def _on_lli(self, seq: int, lli: Interest, now: int) -> None:
        self._advance(lli.known)
        again = self._ranges.grant(_FORWARDER, seq, lli, now, self._get)
        self._outputs += [data.wire for data in again]
        oldest = self._oldest()
        granted = self._ranges.get(_FORWARDER)
        if granted is not None:
            granted.told = self.evidence
        is_past = granted is not None and granted.wanted < oldest
        if granted is not None and is_past:
            granted.skip(oldest)
            self._ranges.settle(_FORWARDER)
            self._tell(max(granted.limit, seq), oldest, lli.known)
        if not self._serve() and granted is not None and not again and not is_past:
            self._tell(granted.limit, None, lli.known)

    @property
    def evidence(self) -> Evidence | None:
        """Evidence to offer: the newest number of the source, which advances on demand."""
        if self._relayed is not None:
            return self._relayed()
        if self._own is None:
            self._own = self._issued(1)
        return self._own

    def _issued(self, number: int) -> Evidence:
        if self._sign is None:
            return Evidence(number, 0)
        return Evidence(number, 0, True, self._sign(proven_text(self.feed, number)))

    def _advance(self, known: Evidence | None) -> None:
        if self.is_relay:
            return
        own = Evidence(1, 0, self._sign is not None) if self._own is None else self._own
        if known is not None and known.calls_for_more(own):
            self._own = self._issued(own.number_above(known))

    def _tell(self, limit: int, first: int | None, known: Evidence | None) -> None:
        evidence = None if self.evidence is None else self.evidence.shown_to(known)
        state = make_feed_state(self.feed, tip=self._tip(), limit=limit, first=first, evidence=evidence)
        self._outputs.append(state)

    def _serve(self) -> bool:
        packets = list(self._ranges.serve(_FORWARDER, self._get, self._tip(), self.evidence))
        self._outputs += packets
        return bool(packets)

    def _expire(self, now: int) -> None:
        self._pending = {seq: expiry for seq, expiry in self._pending.items() if expiry > now}
