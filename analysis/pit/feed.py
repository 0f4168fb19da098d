"""The entry of a feed with long-lived Interests, as packets show it: analysis/pit/model.py has the rules."""

from dataclasses import dataclass, field

import numpy as np

from analysis.decode.schema import FOREVER
from analysis.pit.entry import Entry, Ledger, Message
from captures.records import Flags, Ints

RANGE_BYTES = 28
"""State of a range: face 4, next 8, limit 8, expiry 8 bytes."""

MOST_CREDIT = 1 << 53
"""What is left of a range counts as this if it is more, so that sums stay numbers that tables hold."""

_MOST_MISSING = 1 << 16
"""A gap of more items than this is taken for a jump: nobody waits for what lies between."""

_REMEMBERED_NONCES = 4


@dataclass(slots=True)
class _Range:
    next: int
    limit: int
    expiry: int


@dataclass(slots=True)
class _Upstream:
    """The range asked for; `active` from an LLI until it is spent, expired or cancelled."""

    interface: str
    head: int
    limit: int
    expiry: int
    missing: set[int] = field(default_factory=set)
    repairs: bool = True
    active: bool = True

    def settle(self) -> None:
        if self.head > self.limit and not self.missing:
            self.active = False


class FeedEntry(Entry):
    """The entry of a feed."""

    kind = "feed"

    def __init__(self, feed: str, message: Message, ledger: Ledger) -> None:
        assert message.seq is not None
        # The item's name is the feed's and a SequenceNumNameComponent: type, length, and 1, 2, 4 or 8 bytes.
        digits = next(size for size in (1, 2, 4, 8) if message.seq < 1 << 8 * size)
        super().__init__(feed, message.name_length - 2 - digits, message.time, ledger)
        self.ranges: dict[str, _Range] = {}
        self.upstream: _Upstream | None = None
        self.nonces: list[int | None] = []  # of the LLIs sent
        self.heard: dict[str, list[int | None]] = {}  # of the LLIs that came, by interface

    def held(self) -> tuple[int, int, int]:
        """Return what the entry stands for now."""
        granted = len(self.ranges)
        credit = 0
        for each in self.ranges.values():
            credit += min(each.limit - each.next + 1, MOST_CREDIT)
        return self.name_length + RANGE_BYTES * (granted + (self.upstream is not None)), granted, credit

    def expire(self, now: int) -> bool:
        """Drop ranges that have expired; return whether the entry has."""
        for interface in [i for i, granted in self.ranges.items() if granted.expiry <= now]:
            del self.ranges[interface]
        if self.upstream and self.upstream.expiry <= now:
            self.upstream.active = False
        return self.is_idle()

    def is_idle(self) -> bool:
        """Tell whether nobody waits."""
        return not self.ranges and not (self.upstream and self.upstream.active)

    def lli_in(self, message: Message) -> None:
        """Let an LLI in."""
        first, credit = message.asked
        last = first + credit - 1
        granted = self.ranges.get(message.interface)
        has_nonce = message.nonce is not None
        heard = self.heard.get(message.interface, [])
        is_repeated = has_nonce and message.nonce in heard
        if has_nonce and message.nonce in self.nonces and not is_repeated:
            return
        self.interests_in += 1
        self.downstreams.add(message.interface)
        if credit == 0:
            self.ranges.pop(message.interface, None)
        elif is_repeated:
            return
        elif granted is None:
            self.ranges[message.interface] = _Range(first, last, message.expiry)
        elif last >= granted.next:
            self.renewals += last >= granted.limit
            granted.next = min(granted.next, first)
            granted.limit = max(granted.limit, last)
            granted.expiry = message.expiry
        else:
            granted.expiry = max(granted.expiry, message.expiry)
        if credit:
            self.heard[message.interface] = [*heard[1 - _REMEMBERED_NONCES :], message.nonce]

    def lli_out(self, message: Message) -> None:
        """Let an LLI out."""
        first, credit = message.asked
        last = first + credit - 1
        self.interests_out += 1
        self.upstreams.add(message.interface)
        self.nonces = [*self.nonces[1 - _REMEMBERED_NONCES :], message.nonce]
        up = self.upstream
        if up is None or up.interface != message.interface:
            if credit:
                self.upstream = _Upstream(message.interface, first, last, message.expiry)
        elif credit == 0:
            self.upstream = None
        else:
            self.renewals += up.active and last >= up.limit
            if first > up.limit or (first < up.head and last >= up.limit):
                up.head = first
                up.missing = {seq for seq in up.missing if seq >= first}
            up.limit = max(up.limit, last)
            up.expiry = max(up.expiry, message.expiry)
            up.active = True

    def refused(self, message: Message) -> None:
        """Let a Nack in."""
        if message.nonce in self.nonces:
            self.lost(message.interface)

    def lost(self, interface: str) -> None:
        """Forget the upstream, if it is there."""
        if self.upstream and self.upstream.interface == interface:
            self.upstream = None

    def item_in(self, seq: int) -> None:
        """Let an item in."""
        self.items_in += 1
        up = self.upstream
        if up is None or seq > up.limit:
            return
        up.missing.discard(seq)
        if seq >= up.head:
            if up.repairs and seq - up.head <= _MOST_MISSING:
                up.missing.update(range(up.head, seq))
            up.head = seq + 1
        up.settle()

    def forked(self, seq: int) -> None:
        """Let the proof of a fork pass."""
        if self.upstream:
            self.upstream.limit = min(self.upstream.limit, seq - 1)
            self.upstream.missing = {lost for lost in self.upstream.missing if lost < seq}
            self.upstream.settle()

    def item_out(self, interface: str, seq: int) -> None:
        """Let an item out."""
        self.items_out += 1
        granted = self.ranges.get(interface)
        if granted is not None and granted.next <= seq <= granted.limit:
            if seq > granted.next and self.upstream:
                self.upstream.repairs = False
                self.upstream.missing.clear()
                self.upstream.settle()
            granted.next = seq + 1
            if granted.next > granted.limit:
                del self.ranges[interface]

    @property
    def next_expiry(self) -> int:
        """When time may change something, ns."""
        ends = [granted.expiry for granted in self.ranges.values()]
        if self.upstream and self.upstream.active:
            ends.append(self.upstream.expiry)
        return min(ends, default=FOREVER)

    def pass_items(
        self, times: Ints, is_in: Flags, interfaces: Ints, seqs: Ints, names: list[str | None]
    ) -> Ints | None:
        """Let items pass all at once if they are the next ones, each way, and use nothing up.

        `interfaces` are places in `names`. Returns the times at which credit was used, one for each item of
        it; None, and nothing has changed, if the items are not like that, or if time intervenes.
        """
        if times[-1] >= self.next_expiry:
            return None
        came = seqs[is_in]
        up = self.upstream
        if up is None:
            came = came[:0]
        elif len(came) and (up.missing or came[-1] >= up.limit or not _follow(came, up.head)):
            return None
        goes_out = ~is_in
        used = np.zeros(len(times), bool)
        moved = []
        for interface, granted in self.ranges.items():
            if interface not in names:
                continue
            mine = goes_out & (interfaces == names.index(interface))
            sent = seqs[mine]
            if not len(sent):
                continue
            if granted.limit - granted.next >= MOST_CREDIT - 1 or sent[-1] >= granted.limit:
                return None
            if not _follow(sent, granted.next):
                return None
            used |= mine
            moved.append((granted, int(sent[-1]) + 1))
        if up is not None and len(came):
            up.head = int(came[-1]) + 1
        for granted, after in moved:
            granted.next = after
        self.items_in += int(is_in.sum())
        self.items_out += int(goes_out.sum())
        spent = times[used]
        if len(spent):
            size, ranges, credit = self._held
            lasting = np.flatnonzero(spent > self._since)
            if len(lasting):
                self._peak_bytes = max(self._peak_bytes, size)
                self._peak_credit = max(self._peak_credit, credit - int(lasting[0]))
                self._since = int(spent[-1])
            self._held = size, ranges, credit - len(spent)
        return spent


def _follow(seqs: Ints, first: int) -> bool:
    """Tell whether items follow each other from a first one."""
    return bool(seqs[0] == first and (np.diff(seqs) == 1).all())
