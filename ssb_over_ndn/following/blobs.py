"""Fetches of blobs over NDN, by their segments."""

from collections import Counter
from collections.abc import Callable
from random import Random

from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import Data, parse_data
from forwarder.wire.tlv import MalformedPacket
from ssb.store.blobs import BlobStore, Incoming, RefusedBlob
from ssb.store.feeds import StoreError
from ssb_over_ndn.following.fetch import Fetcher
from ssb_over_ndn.following.fetches import PATIENCE, Fetch, Fetches
from ssb_over_ndn.naming import SEGMENT_BYTES, read_segment, segment_name

_WINDOW = 256  # segments that wait for those before them at most
_LIFETIME_MS = 2000
_ATTEMPTS = 3


class _Segments:
    """The Box of a blob: item n of the Fetcher is segment n - 1."""

    def __init__(self, blob: str, incoming: Incoming) -> None:
        self._blob = blob
        self._incoming = incoming
        self._early: dict[int, bytes] = {}
        self.arrived = 0
        self.last: int | None = None

    @property
    def limit(self) -> int:
        return self.arrived + _WINDOW

    def name(self, seq: int) -> bytes:
        return segment_name(self._blob, seq - 1)

    def lacks(self, seq: int) -> bool:
        return self.arrived < seq <= self.limit and seq not in self._early

    def open(self, seq: int, data: Data) -> tuple[int, bytes] | None:
        try:
            last = read_segment(data.final_block) + 1
        except MalformedPacket:
            return None
        if last < seq or (self.last or last) != last or (seq < last and len(data.content) != SEGMENT_BYTES):
            return None
        self.last = last
        return seq, data.content

    def put(self, item: tuple[int, bytes]) -> None:
        """Raises RefusedBlob."""
        if self.lacks(item[0]):
            self._early[item[0]] = item[1]
        while (content := self._early.pop(self.arrived + 1, None)) is not None:
            self.arrived += 1
            self._incoming.write(content)


class BlobFetch(Fetch):
    """Fetches one blob into a store.

    Args:
        blob: its reference.
        blobs: the store.
        rng: source of nonces.
        hint: the Interests' forwarding hint; empty if there is none.
        give_up: time-out without a segment, ns.

    Attributes:
        rejected: failed attempts, by reason.
    """

    def __init__(
        self, blob: str, blobs: BlobStore, *, rng: Random, hint: tuple[bytes, ...], give_up: int
    ) -> None:
        super().__init__(give_up)
        self.rejected: Counter[str] = Counter()
        self._blob = blob
        self._blobs = blobs
        self._rng = rng
        self._hint = hint

    def start(self, now: int) -> None:
        """Request the first segment."""
        try:
            self._incoming = self._blobs.receive(self._blob)
        except StoreError as error:
            self.error = str(error)
            return
        self._segments = _Segments(self._blob, self._incoming)
        self._fetcher = Fetcher(
            self._segments,
            rng=self._rng,
            lifetime_ms=_LIFETIME_MS,
            hint=self._hint,
            must_be_fresh=bool(self.rejected),
        )
        self._fetcher.tip = 1
        self._goes_on(now)
        self._fetcher.request(now)

    def stop(self) -> None:
        """Stop, and drop the received segments."""
        self._incoming.abort()
        super().stop()

    def receive(self, number: int, header: LpPacket, now: int) -> None:
        """Receive Data or a Nack under a segment's name."""
        if self.is_over:
            return
        if header.nack_reason is not None:
            self._fetcher.on_nack(number + 1)
            return
        try:
            before = self._segments.arrived
            data = parse_data(header.fragment)
            self._fetcher.on_item(number + 1, data, header.congestion_mark, now)
            if self._segments.arrived > before:
                self._goes_on(now)
            self._finish(now)
        except MalformedPacket:
            return
        except RefusedBlob as error:
            self._try_again(str(error), now)
        except StoreError as error:
            self.error = str(error)
            self.stop()

    def _finish(self, now: int) -> None:
        """Request further segments; after the last one, verify the blob."""
        if self._segments.last is not None:
            self._fetcher.tip = self._segments.last
        if self._segments.arrived == self._segments.last:
            self._incoming.finish()
            self.is_complete = True
            self._fetcher.stop()
        else:
            self._fetcher.request(now)

    def _try_again(self, reason: str, now: int) -> None:
        """Restart after other data: a cache on the path may be poisoned."""
        self.rejected[reason] += 1
        self.stop()
        if self.rejected.total() >= _ATTEMPTS:
            self.error = reason
        else:
            self.start(now)


class BlobFetches(Fetches[BlobFetch]):
    """Fetches of blobs.

    Args:
        store: the store.
        rng: source of nonces.
        where: blob -> the Interests' forwarding hint; None to postpone it.
        counters: errors, by reason.
    """

    def __init__(
        self,
        store: BlobStore,
        rng: Random,
        where: Callable[[str], tuple[bytes, ...] | None],
        counters: Counter[str],
    ) -> None:
        def fetch(blob: str, hint: tuple[bytes, ...]) -> BlobFetch:
            return BlobFetch(blob, store, rng=rng, hint=hint, give_up=PATIENCE)

        super().__init__(fetch, where, counters, "blob")
