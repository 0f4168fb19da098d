"""The author's side: a device uploads its log to a storage, and registers the storage for it."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from base.timers import earliest
from base.units import MS
from forwarder.wire.packet import Data, parse_interest
from ssb_over_ndn.following.timeout import Timeout
from ssb_over_ndn.mapping.messages import make_put, make_update, read_tip, server_of
from ssb_over_ndn.mapping.record import RefusedRecord, make_record, map_name, read_record
from ssb_over_ndn.serving.server import Announcer

_WINDOW: Final = 8
_PROBE: Final = 0
_PAUSE: Final = 500 * MS


class _Sent:
    """A pending Interest."""

    __slots__ = ("due", "is_again", "sent")

    def __init__(self, now: int, due: int, is_again: bool) -> None:
        self.sent = now
        self.due = due
        self.is_again = is_again


class _Update(NamedTuple):
    """An update of the name service."""

    wire: bytes
    storage: bytes
    made: int


class Device(Announcer):
    """A publisher's Announcer that uploads its feed, registers its location, and renews the record.

    A record is changed once the new storage has all items; until then it names the old one. It is
    renewed after half of its lifetime, once the storage has confirmed that it still has all items.

    Args:
        author: the feed's author, and
        sign: signs with its key.
        servers: the names of the name service's servers.
        rng: source of nonces.
        lifetime: of records, ns.
        ttl: for how long resolvers and caches may use a record without a new query, ns.

    Attributes:
        counters: "uploads" and "updates" sent, retransmissions included.
    """

    def __init__(
        self,
        author: str,
        sign: Callable[[bytes], bytes],
        servers: Sequence[bytes],
        *,
        rng: Random,
        lifetime: int,
        ttl: int,
    ) -> None:
        super().__init__()
        self._author = author
        self._sign = sign
        self._server = server_of(author, servers)
        self._rng = rng
        self._lifetime = lifetime
        self._ttl = ttl
        self._storage: bytes | None = None
        self._is_moved = False
        self._items: list[Data] = []
        self._stored: int | None = None  # last item of the storage; None if unknown
        self._ahead: set[int] = set()  # items stored there beyond a gap
        self._flying: dict[int, _Sent] = {}  # by item; _PROBE for a query of the storage's last item
        self._names: dict[bytes, int] = {}  # Interests' names -> items
        self._timeout = Timeout()
        self._seq = 0
        self._registered: bytes | None = None  # the storage in the name service's record
        self._renew_at: int | None = None
        self._update: _Update | None = None
        self._updating: _Sent | None = None
        self._update_timeout = Timeout()
        self.counters: Counter[str] = Counter()

    def move(self, storage: bytes) -> None:
        """Upload to this storage from now on; call it again after the device has moved."""
        self._is_moved = True
        if storage != self._storage:
            self._storage = storage
            self._update = self._updating = None

    def published(self, seq: int, item: Data, now: int) -> None:
        self._items.append(item)
        self._advance(now)

    def on_data(self, data: Data, now: int) -> None:
        """See Announcer; processes answers of the storage and of the name service."""
        seq = self._names.get(data.name)
        if seq is not None:
            self._on_stored(seq, data, now)
        elif (
            self._update is not None
            and self._updating is not None
            and data.name.startswith(map_name(self._author))
        ):
            self._on_answer(self._update, self._updating, data, now)
        self._advance(now)

    def next_deadline(self) -> int | None:
        if self._is_moved:
            return 0
        updating = None if self._updating is None else self._updating.due
        return earliest(updating, self._renew_at, *(sent.due for sent in self._flying.values()))

    def wake(self, now: int) -> None:
        if self._is_moved:
            self._is_moved = False
            # Pending Interests were sent to the old place.
            self._drop_pending()
            self._stored = None
            if self._updating is not None:
                self._updating.due = now
        late = [seq for seq, sent in self._flying.items() if sent.due <= now]
        for seq in late:
            self._timeout.missed(now)
            self._upload(seq, now, is_again=True)
        if self._update is not None and self._updating is not None and self._updating.due <= now:
            self._update_timeout.missed(now)
            if now < self._update.made + self._lifetime // 2:
                self._send_update(self._update, now, is_again=True)
            else:  # it may arrive late, and must still be valid
                self._register(self._update.storage, now)
        if self._renew_at is not None and self._renew_at <= now:
            self._renew_at = None
            self._registered = None
            self._drop_pending()
            self._stored = None  # it may have lost items
        self._advance(now)

    @property
    def _has_all(self) -> bool:
        return self._stored is not None and self._stored >= len(self._items)

    def _drop_pending(self) -> None:
        self._flying.clear()
        self._names.clear()
        self._ahead.clear()

    def _advance(self, now: int) -> None:
        """Upload missing items, as far as the window allows; register when none is missing."""
        if self._storage is None or not self._items:
            return
        if self._stored is None:
            if _PROBE not in self._flying:
                self._upload(_PROBE, now)
            return
        if self._has_all:
            if self._registered != self._storage and self._update is None:
                self._register(self._storage, now)
            return
        missing = range(self._stored + 1, len(self._items) + 1)
        for seq in missing:
            if len(self._flying) >= _WINDOW:
                return
            if seq not in self._flying and seq not in self._ahead:
                self._upload(seq, now)
        if not self._flying:  # its answers are contradictory
            self._ahead.clear()
            self._stored = None
            self._upload(_PROBE, now)

    def _upload(self, seq: int, now: int, *, is_again: bool = False) -> None:
        assert self._storage is not None
        item = b"" if seq == _PROBE else self._items[seq - 1].wire
        interest = make_put(self._author, item, self._storage, self._rng.getrandbits(32))
        self._flying[seq] = _Sent(now, now + self._timeout.length, is_again)
        self._names[parse_interest(interest).name] = seq
        self.counters["uploads"] += 1
        self.outputs.append(interest)

    def _on_stored(self, seq: int, data: Data, now: int) -> None:
        sent = self._flying.pop(seq, None)
        tip = read_tip(data)
        if sent is None:
            return
        del self._names[data.name]
        if tip is None:
            return
        self._timeout.answered(None if sent.is_again else now - sent.sent)
        if seq == _PROBE or self._stored is None:
            self._stored = tip
        else:
            self._stored = max(self._stored, tip)
        if seq > self._stored:
            self._ahead.add(seq)
        self._ahead = {ahead for ahead in self._ahead if ahead > self._stored}

    def _register(self, storage: bytes, now: int) -> None:
        self._seq = max(self._seq + 1, now // MS)
        wire = make_record(
            self._author,
            self._sign,
            self._seq,
            (storage,),
            now=now,
            lifetime=self._lifetime,
            ttl=self._ttl,
        )
        self._update = _Update(wire, storage, now)
        self._send_update(self._update, now)

    def _send_update(self, update: _Update, now: int, *, is_again: bool = False) -> None:
        self._updating = _Sent(now, now + self._update_timeout.length, is_again)
        self.counters["updates"] += 1
        self.outputs.append(make_update(self._author, update.wire, self._server, self._rng.getrandbits(32)))

    def _on_answer(self, update: _Update, sent: _Sent, data: Data, now: int) -> None:
        """Process the name service's answer, its current record."""
        try:
            record = read_record(data.content, now)
        except RefusedRecord:
            sent.due = now + _PAUSE  # and again
            return
        if record.author != self._author:
            return
        self._update_timeout.answered(None if sent.is_again else now - sent.sent)
        self._update = self._updating = None
        if record.wire == update.wire:
            self._registered = update.storage
            self._renew_at = now + self._lifetime // 2
        else:  # from before a restart, or of another device of the author: the next one is newer
            self._seq = max(self._seq, record.seq)
