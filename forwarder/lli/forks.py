"""Forks of relayed feeds: each ends its feed for all who follow it here."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from base.units import MS
from forwarder.feedcache.cache import FeedStore
from forwarder.feedcache.fork import Fork, open_fork
from forwarder.feedcache.items import Item
from forwarder.lli.downstreams import Downstreams
from forwarder.lli.entry import FeedEntry
from forwarder.tables.face import Face
from forwarder.wire.packet import Data

_PROOF_INTERVAL: Final = 100 * MS


class Forks:
    """The forks that items and proofs show; the arguments are FeedTable's."""

    def __init__(
        self, store: FeedStore, downstreams: Downstreams, faces: Mapping[int, Face], counters: Counter[str]
    ) -> None:
        self._store = store
        self._faces = faces
        self._downstreams = downstreams
        self._counters = counters

    def accept(self, entry: FeedEntry, item: Item, now: int) -> None:
        """Take an item into the cache; raises RejectedItem. A fork that it proves ends the feed there."""
        before = entry.cache.fork
        try:
            self._store.accept(entry.cache, item)
        finally:
            fork = entry.cache.fork
            if fork is not None and fork is not before:
                self._stop(entry, fork, None, now)

    def take(self, entry: FeedEntry, face: int, proof: Data, now: int) -> bool:
        """Take in a proof from a face; return whether it brings news. Raises RejectedItem if it does not."""
        fork = open_fork(entry.feed, proof)
        if not self._store.stop(entry.cache, fork):
            return False
        self._counters["proofs_in"] += 1
        news = entry.cache.fork or fork
        self._stop(entry, news, face if news is fork else None, now)
        return True

    def repeat_proof(self, entry: FeedEntry, face: int, now: int) -> None:
        """Send the proof again to a face that pushes items beyond the fork."""
        fork = entry.cache.fork
        if fork is not None and entry.proof_sent.get(face, -_PROOF_INTERVAL) + _PROOF_INTERVAL <= now:
            self._downstreams.send_proof(entry, face, fork, now)

    def _stop(self, entry: FeedEntry, fork: Fork, teller: int | None, now: int) -> None:
        """End a feed at its fork, and inform all its downstreams and its upstream."""
        self._counters["forks"] += 1
        if entry.face is not None and entry.face != teller:
            self._downstreams.send_proof(entry, entry.face, fork, now)
        # A relay is told by the proof; a producer does not know of proofs.
        is_known = entry.face is None or not self._faces[entry.face].is_local
        entry.upstream.stop_after(fork.seq - 1, is_known=is_known)
        entry.latest = None
        if entry.backfill is not None:
            entry.backfill.stop_at(fork.seq)
        self._downstreams.serve_all(entry, now)
