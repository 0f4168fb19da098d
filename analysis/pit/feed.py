"""The PIT entry of a feed with long-lived Interests, derived from packets. The rules are in
analysis/pit/model.py."""

from dataclasses import dataclass, field
from typing import cast

import numpy as np

from analysis.packet_schema import FOREVER
from analysis.pit.entry import Entry, Ledger, Message
from analysis.pit.hellos import Change
from captures.formats.records import Flags, Ints
from forwarder.wire.hello import reference
from forwarder.wire.name import from_uri

RANGE_BYTES = 28
"""State of a range: face 4, next 8, limit 8, expiry 8 bytes."""

MOST_CREDIT = 1 << 53
"""Largest remaining credit counted of a range, so that sums fit the tables' numbers."""

_MOST_MISSING = 1 << 16
"""A larger gap of items is a jump; its items are not awaited."""

_MOST_AGAIN = 64
"""Most items that one LLI can request again."""

_HEARD_NONCES, _SENT_NONCES = 4, 16
"""LLIs remembered per downstream, and per node."""


@dataclass(slots=True)
class _Range:
    """A downstream's range; `has_source`: it was offered a source, `again`: items requested again."""

    next: int
    limit: int
    expiry: int
    lifetime: int
    has_source: bool = False
    again: set[int] = field(default_factory=set)

    @property
    def is_used_up(self) -> bool:
        return self.next > self.limit and not self.again

    def skip(self, first: int) -> None:
        """Skip the items before one."""
        self.next = max(self.next, first)
        self.again = {seq for seq in self.again if seq >= first}

    def can_pass(self, seqs: Ints) -> bool:
        """Return whether items are the next ones, none is requested again, and the range is not used up."""
        if self.again or not len(seqs):
            return not self.again
        is_left = self.limit - self.next < MOST_CREDIT - 1 and seqs[-1] < self.limit
        return bool(is_left and _follow(seqs, self.next))


@dataclass(slots=True)
class _Upstream:
    """A range requested upstream; `active` from an LLI until spent or expired; `is_offered`: a source."""

    head: int
    limit: int
    expiry: int
    lifetime: int
    missing: set[int] = field(default_factory=set)
    is_offered: bool = False
    active: bool = True

    def settle(self) -> None:
        if self.is_spent:
            self.active = False

    @property
    def is_spent(self) -> bool:
        return self.head > self.limit and not self.missing


class FeedEntry(Entry):
    """The PIT entry of a feed."""

    kind = "feed"

    def __init__(self, feed: str, message: Message, ledger: Ledger) -> None:
        assert message.seq is not None
        # The item's name is the feed's and a SequenceNumNameComponent: type, length, and 1, 2, 4 or 8 bytes.
        digits = next(size for size in (1, 2, 4, 8) if message.seq < 1 << 8 * size)
        super().__init__(feed, message.name_length - 2 - digits, message.time, ledger)
        self.ranges: dict[str, _Range] = {}
        self.requested: dict[str, _Upstream] = {}
        self.nonces: list[int | None] = []  # of the LLIs sent
        self.heard: dict[str, list[int | None]] = {}  # of the LLIs received, by interface
        self._begins: dict[str, int] = {}  # first item of the feed, as announced on an interface
        # The newest item, and the interfaces whose classic Interests it answers.
        self.owed: tuple[int, set[str]] = (0, set())
        self._repairs = True
        self._reference: bytes | None = None

    @property
    def reference(self) -> bytes:
        """The feed's reference in Hellos."""
        if self._reference is None:
            self._reference = reference(from_uri(self.name))
        return self._reference

    def state_size(self) -> tuple[int, int, int]:
        """Return the entry's bytes, ranges and credit."""
        granted = len(self.ranges)
        credit = 0
        for each in self.ranges.values():
            credit += min(each.limit - each.next + 1, MOST_CREDIT)
        return self.name_length + RANGE_BYTES * (granted + len(self.requested)), granted, credit

    def expire(self, now: int) -> bool:
        """Remove expired ranges; return whether the entry has expired."""
        for interface in [i for i, granted in self.ranges.items() if granted.expiry <= now]:
            del self.ranges[interface]
        for up in self.requested.values():
            if up.expiry <= now:
                up.active = False
        return self.is_idle()

    def is_idle(self) -> bool:
        """Return whether no downstream or upstream range is pending."""
        return not self.ranges and not any(up.active for up in self.requested.values())

    def receive_lli(self, message: Message) -> None:
        """Process a received LLI."""
        first, credit = message.requested_range
        last = first + credit - 1
        has_nonce = message.nonce is not None
        if has_nonce and message.nonce in self.nonces:
            return
        self.interests_in += 1
        self.downstreams.add(message.interface)
        heard = self.heard.get(message.interface, [])
        if credit == 0:
            self.ranges.pop(message.interface, None)
        elif not (has_nonce and message.nonce in heard):
            self.heard[message.interface] = [*heard[1 - _HEARD_NONCES :], message.nonce]
            self._grant(message, first, last)

    def _grant(self, message: Message, first: int, last: int) -> None:
        lifetime = message.expiry - message.time
        granted = self.ranges.get(message.interface)
        if granted is None:
            self.ranges[message.interface] = _Range(first, last, message.expiry, lifetime)
            return
        granted.lifetime = lifetime
        if last >= granted.next:
            self.renewals += last >= granted.limit
            granted.next = min(granted.next, first)
            granted.limit = max(granted.limit, last)
            granted.expiry = message.expiry
            granted.again = {seq for seq in granted.again if seq < granted.next}
        else:
            granted.expiry = max(granted.expiry, message.expiry)
            again = granted.again.union(range(max(first, last - _MOST_AGAIN + 1), last + 1))
            granted.again = set(sorted(again)[-_MOST_AGAIN:])

    def send_lli(self, message: Message) -> None:
        """Process a sent LLI."""
        first, credit = message.requested_range
        last = first + credit - 1
        self.interests_out += 1
        self.upstreams.add(message.interface)
        self.nonces = [*self.nonces[1 - _SENT_NONCES :], message.nonce]
        up = self.requested.get(message.interface)
        if credit == 0:
            self.requested.pop(message.interface, None)
        elif up is None:
            lifetime = message.expiry - message.time
            self.requested[message.interface] = _Upstream(first, last, message.expiry, lifetime)
        else:
            self.renewals += up.active and last >= up.limit
            if first > up.limit or (first < up.head and last >= up.limit):
                up.head = first
                up.missing = {seq for seq in up.missing if seq >= first}
            up.limit = max(up.limit, last)
            up.expiry = max(up.expiry, message.expiry)
            up.lifetime = message.expiry - message.time
            up.active = True

    def receive_nack(self, message: Message) -> None:
        """Process a received Nack."""
        if message.nonce in self.nonces:
            self.remove_interface(message.interface)

    def remove_interface(self, interface: str) -> None:
        """Remove the upstream range of an interface."""
        self.requested.pop(interface, None)

    def receive_state(self, message: Message) -> None:
        """Process a received FeedState."""
        up = self.requested.get(message.interface)
        if up is not None:
            up.is_offered = message.evidence is not None

    def send_state(self, message: Message) -> None:
        """Process a sent FeedState."""
        granted = self.ranges.get(message.interface)
        if granted is not None:
            granted.has_source = message.evidence is not None
            self._skip_before(message.interface, granted, message.feed_first or 0)

    def _skip_before(self, interface: str, granted: _Range, first: int) -> None:
        """Skip the items that no node has, at their first announcement."""
        if first > self._begins.get(interface, 0):
            self._begins[interface] = first
            granted.skip(first)
            self._drop_if_used_up(interface, granted)

    def process_hello(self, interface: str, change: Change, now: int) -> None:
        """Process a Hello."""
        granted, up = self.ranges.get(interface), self.requested.get(interface)
        if granted is not None:
            granted.has_source = change.sourced.get(self.reference, granted.has_source)
            if change.renews and granted.has_source:
                granted.expiry = max(granted.expiry, min(now + granted.lifetime, FOREVER))
            if change.drops or self.reference in change.dropped:
                del self.ranges[interface]
        if up is not None:
            up.is_offered = change.offered.get(self.reference, up.is_offered)
            if change.renews_upstream and up.is_offered:
                up.expiry = max(up.expiry, min(now + up.lifetime, FOREVER))
            if change.drops_upstream:
                self.remove_interface(interface)

    def receive_item(self, interface: str, seq: int, *, has_evidence: bool = False) -> None:
        """Process a received item."""
        self.items_in += 1
        for where, up in self.requested.items():
            up.is_offered |= has_evidence and where == interface
            if seq > up.limit:
                continue
            up.missing.discard(seq)
            if seq >= up.head:
                if self._repairs and seq - up.head <= _MOST_MISSING:
                    up.missing.update(range(up.head, seq))
                up.head = seq + 1
            up.settle()
        granted = self.ranges.get(interface)
        if granted is not None and granted.next == seq:  # the sender has the item
            granted.skip(seq + 1)
            self._drop_if_used_up(interface, granted)

    def process_proof(self, seq: int) -> None:
        """Process the proof of a fork."""
        for up in self.requested.values():
            up.limit = min(up.limit, seq - 1)
            up.missing = {lost for lost in up.missing if lost < seq}
            up.settle()

    def send_item(self, interface: str, seq: int, *, has_evidence: bool = False) -> None:
        """Process a sent item."""
        self.items_out += 1
        granted = self.ranges.get(interface)
        if granted is None:
            return
        granted.has_source |= has_evidence
        if seq in granted.again:
            granted.again.discard(seq)
        elif granted.next <= seq <= granted.limit:
            if seq > granted.next:
                self._cancel_repairs()
            granted.next = seq + 1
        self._drop_if_used_up(interface, granted)

    def owes(self, interface: str, seq: int) -> bool:
        """Return whether a sent item answers a classic Interest that the same item, received, has
        satisfied."""
        newest, interfaces = self.owed
        is_owed = seq == newest and interface in interfaces
        interfaces -= {interface} if is_owed else set()
        return is_owed

    def send_answer(self, interface: str, seq: int, *, has_evidence: bool = False) -> None:
        """Process a sent item that answers a classic Interest."""
        self.items_out += 1

    def _cancel_repairs(self) -> None:
        """Leave repairs to the consumer."""
        self._repairs = False
        for up in self.requested.values():
            up.missing.clear()
            up.settle()

    def _drop_if_used_up(self, interface: str, granted: _Range) -> None:
        if granted.is_used_up:
            del self.ranges[interface]

    @property
    def next_expiry(self) -> int:
        """Time of the next expiry, ns."""
        ends = [granted.expiry for granted in self.ranges.values()]
        ends += [up.expiry for up in self.requested.values() if up.active]
        return min(ends, default=FOREVER)

    def process_items(
        self, times: Ints, is_in: Flags, interfaces: Ints, seqs: Ints, evident: Flags, names: list[str | None]
    ) -> Ints | None:
        """Process items at once if they are the next ones in each direction and use no range up.

        `interfaces` are indices into `names`; `evident` items carry evidence. Returns the times at which
        credit was used, one for each; None, with no change, if the items do not qualify or an expiry
        intervenes.
        """
        if times[-1] >= self.next_expiry:
            return None
        came = seqs[is_in]
        waiting = [up for up in self.requested.values() if not up.is_spent]
        for up in waiting if len(came) else ():
            if up.missing or came[-1] >= up.limit or not _follow(came, up.head):
                return None
        used = np.zeros(len(times), bool)
        moved = []
        for interface, granted in self.ranges.items():
            if interface not in names:
                continue
            there = interfaces == names.index(interface)
            mine = ~is_in & there
            sent = seqs[mine]
            if (is_in & there).any() or not granted.can_pass(sent):
                return None
            if len(sent):
                used |= mine
                moved.append((granted, int(sent[-1]) + 1, bool(evident[mine].any())))
        for up in waiting if len(came) else ():
            up.head = int(came[-1]) + 1
        for granted, after, has_source in moved:
            granted.next = after
            granted.has_source |= has_source
        for place in np.unique(interfaces[is_in & evident]).tolist():
            offering = self.requested.get(cast(str, names[place]))
            if offering is not None:
                offering.is_offered = True
        self.items_in += int(is_in.sum())
        self.items_out += int((~is_in).sum())
        spent = times[used]
        if len(spent):
            self._spend(spent)
        return spent

    def _spend(self, times: Ints) -> None:
        """Use credit, one at each of some times."""
        size, ranges, credit = self._held
        lasting = np.flatnonzero(times > self._since)
        if len(lasting):
            self._peak_bytes = max(self._peak_bytes, size)
            self._peak_credit = max(self._peak_credit, credit - int(lasting[0]))
            self._since = int(times[-1])
        self._held = size, ranges, credit - len(times)


def _follow(seqs: Ints, first: int) -> bool:
    """Return whether items are consecutive from a first one."""
    return bool(seqs[0] == first and (np.diff(seqs) == 1).all())
