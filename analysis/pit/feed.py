"""The entry of a feed with long-lived Interests, as packets show it: analysis/pit/model.py has the rules."""

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
"""What is left of a range counts as this if it is more, so that sums stay numbers that tables hold."""

_MOST_MISSING = 1 << 16
"""A gap of more items than this is taken for a jump: nobody waits for what lies between."""

_MOST_AGAIN = 64
"""Items that one LLI can ask for again."""

_HEARD_NONCES, _SENT_NONCES = 4, 16
"""LLIs of a downstream, and of the node, that are remembered."""


@dataclass(slots=True)
class _Range:
    """What a downstream has granted; `is_told` that there is a source, `again` what it asks for again."""

    next: int
    limit: int
    expiry: int
    lifetime: int
    is_told: bool = False
    again: set[int] = field(default_factory=set)

    @property
    def is_used_up(self) -> bool:
        return self.next > self.limit and not self.again

    def skip(self, first: int) -> None:
        """Leave out what lies before an item."""
        self.next = max(self.next, first)
        self.again = {seq for seq in self.again if seq >= first}

    def can_pass(self, seqs: Ints) -> bool:
        """Tell whether items are the next ones, none is asked for again, and they use nothing up."""
        if self.again or not len(seqs):
            return not self.again
        is_left = self.limit - self.next < MOST_CREDIT - 1 and seqs[-1] < self.limit
        return bool(is_left and _follow(seqs, self.next))


@dataclass(slots=True)
class _Upstream:
    """A range asked for; `active` from an LLI until it is spent or expired; `is_offered` a source."""

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
    """The entry of a feed."""

    kind = "feed"

    def __init__(self, feed: str, message: Message, ledger: Ledger) -> None:
        assert message.seq is not None
        # The item's name is the feed's and a SequenceNumNameComponent: type, length, and 1, 2, 4 or 8 bytes.
        digits = next(size for size in (1, 2, 4, 8) if message.seq < 1 << 8 * size)
        super().__init__(feed, message.name_length - 2 - digits, message.time, ledger)
        self.ranges: dict[str, _Range] = {}
        self.asked: dict[str, _Upstream] = {}
        self.nonces: list[int | None] = []  # of the LLIs sent
        self.heard: dict[str, list[int | None]] = {}  # of the LLIs that came, by interface
        self._begins: dict[str, int] = {}  # where the feed begins, as an interface was told
        self.owed: tuple[int, set[str]] = (0, set())  # the newest item, to whom by classic Interests
        self._repairs = True
        self._reference: bytes | None = None

    @property
    def reference(self) -> bytes:
        """How Hellos name the feed."""
        if self._reference is None:
            self._reference = reference(from_uri(self.name))
        return self._reference

    def held(self) -> tuple[int, int, int]:
        """Return what the entry stands for now."""
        granted = len(self.ranges)
        credit = 0
        for each in self.ranges.values():
            credit += min(each.limit - each.next + 1, MOST_CREDIT)
        return self.name_length + RANGE_BYTES * (granted + len(self.asked)), granted, credit

    def expire(self, now: int) -> bool:
        """Drop ranges that have expired; return whether the entry has."""
        for interface in [i for i, granted in self.ranges.items() if granted.expiry <= now]:
            del self.ranges[interface]
        for up in self.asked.values():
            if up.expiry <= now:
                up.active = False
        return self.is_idle()

    def is_idle(self) -> bool:
        """Tell whether nobody waits."""
        return not self.ranges and not any(up.active for up in self.asked.values())

    def lli_in(self, message: Message) -> None:
        """Let an LLI in."""
        first, credit = message.asked
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

    def lli_out(self, message: Message) -> None:
        """Let an LLI out."""
        first, credit = message.asked
        last = first + credit - 1
        self.interests_out += 1
        self.upstreams.add(message.interface)
        self.nonces = [*self.nonces[1 - _SENT_NONCES :], message.nonce]
        up = self.asked.get(message.interface)
        if credit == 0:
            self.asked.pop(message.interface, None)
        elif up is None:
            lifetime = message.expiry - message.time
            self.asked[message.interface] = _Upstream(first, last, message.expiry, lifetime)
        else:
            self.renewals += up.active and last >= up.limit
            if first > up.limit or (first < up.head and last >= up.limit):
                up.head = first
                up.missing = {seq for seq in up.missing if seq >= first}
            up.limit = max(up.limit, last)
            up.expiry = max(up.expiry, message.expiry)
            up.lifetime = message.expiry - message.time
            up.active = True

    def refused(self, message: Message) -> None:
        """Let a Nack in."""
        if message.nonce in self.nonces:
            self.lost(message.interface)

    def lost(self, interface: str) -> None:
        """Forget what was asked there."""
        self.asked.pop(interface, None)

    def state_in(self, message: Message) -> None:
        """Let a FeedState in."""
        up = self.asked.get(message.interface)
        if up is not None:
            up.is_offered = message.evidence is not None

    def state_out(self, message: Message) -> None:
        """Let a FeedState out."""
        granted = self.ranges.get(message.interface)
        if granted is not None:
            granted.is_told = message.evidence is not None
            self._begin(message.interface, granted, message.feed_first or 0)

    def _begin(self, interface: str, granted: _Range, first: int) -> None:
        """Leave out what nobody has, the first time that it is told."""
        if first > self._begins.get(interface, 0):
            self._begins[interface] = first
            granted.skip(first)
            self._drop_if_used_up(interface, granted)

    def hello(self, interface: str, change: Change, now: int) -> None:
        """Let a Hello pass."""
        granted, up = self.ranges.get(interface), self.asked.get(interface)
        if granted is not None:
            granted.is_told = change.told.get(self.reference, granted.is_told)
            if change.renews and granted.is_told:
                granted.expiry = max(granted.expiry, min(now + granted.lifetime, FOREVER))
            if change.drops or self.reference in change.dropped:
                del self.ranges[interface]
        if up is not None:
            up.is_offered = change.offered.get(self.reference, up.is_offered)
            if change.renews_upstream and up.is_offered:
                up.expiry = max(up.expiry, min(now + up.lifetime, FOREVER))
            if change.drops_upstream:
                self.lost(interface)

    def item_in(self, interface: str, seq: int, *, has_evidence: bool = False) -> None:
        """Let an item in."""
        self.items_in += 1
        for where, up in self.asked.items():
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
        if granted is not None and granted.next == seq:  # who has sent it has it
            granted.skip(seq + 1)
            self._drop_if_used_up(interface, granted)

    def forked(self, seq: int) -> None:
        """Let the proof of a fork pass."""
        for up in self.asked.values():
            up.limit = min(up.limit, seq - 1)
            up.missing = {lost for lost in up.missing if lost < seq}
            up.settle()

    def item_out(self, interface: str, seq: int, *, has_evidence: bool = False) -> None:
        """Let an item out."""
        self.items_out += 1
        granted = self.ranges.get(interface)
        if granted is None:
            return
        granted.is_told |= has_evidence
        if seq in granted.again:
            granted.again.discard(seq)
        elif granted.next <= seq <= granted.limit:
            if seq > granted.next:
                self._leave_repairs()
            granted.next = seq + 1
        self._drop_if_used_up(interface, granted)

    def owes(self, interface: str, seq: int) -> bool:
        """Tell whether an item out answers a classic Interest that has been satisfied by the same item in."""
        newest, interfaces = self.owed
        is_owed = seq == newest and interface in interfaces
        interfaces -= {interface} if is_owed else set()
        return is_owed

    def answer_out(self, interface: str, seq: int, *, has_evidence: bool = False) -> None:
        """Let an item out that answers a classic Interest."""
        self.items_out += 1

    def _leave_repairs(self) -> None:
        """Leave it to the consumer to repair."""
        self._repairs = False
        for up in self.asked.values():
            up.missing.clear()
            up.settle()

    def _drop_if_used_up(self, interface: str, granted: _Range) -> None:
        if granted.is_used_up:
            del self.ranges[interface]

    @property
    def next_expiry(self) -> int:
        """When time may change something, ns."""
        ends = [granted.expiry for granted in self.ranges.values()]
        ends += [up.expiry for up in self.asked.values() if up.active]
        return min(ends, default=FOREVER)

    def pass_items(
        self, times: Ints, is_in: Flags, interfaces: Ints, seqs: Ints, evident: Flags, names: list[str | None]
    ) -> Ints | None:
        """Let items pass all at once if they are the next ones, each way, and use nothing up.

        `interfaces` are places in `names`; `evident` items bring evidence. Returns the times at which credit
        was used, one for each item of it; None, and nothing has changed, if the items are not like that, or
        if time intervenes.
        """
        if times[-1] >= self.next_expiry:
            return None
        came = seqs[is_in]
        waiting = [up for up in self.asked.values() if not up.is_spent]
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
        for granted, after, is_told in moved:
            granted.next = after
            granted.is_told |= is_told
        for place in np.unique(interfaces[is_in & evident]).tolist():
            offering = self.asked.get(cast(str, names[place]))
            if offering is not None:
                offering.is_offered = True
        self.items_in += int(is_in.sum())
        self.items_out += int((~is_in).sum())
        spent = times[used]
        if len(spent):
            self._spend(spent)
        return spent

    def _spend(self, times: Ints) -> None:
        """Let credit be used, one at each of some times."""
        size, ranges, credit = self._held
        lasting = np.flatnonzero(times > self._since)
        if len(lasting):
            self._peak_bytes = max(self._peak_bytes, size)
            self._peak_credit = max(self._peak_credit, credit - int(lasting[0]))
            self._since = int(times[-1])
        self._held = size, ranges, credit - len(times)


def _follow(seqs: Ints, first: int) -> bool:
    """Tell whether items follow each other from a first one."""
    return bool(seqs[0] == first and (np.diff(seqs) == 1).all())
