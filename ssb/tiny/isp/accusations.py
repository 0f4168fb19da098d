"""Protocol violations by others: counters, and evidence (`ssb.tiny.isp.evidence`)."""

from collections import Counter

from ssb.tiny.entry import DEMUX
from ssb.tiny.isp.events import Event
from ssb.tiny.isp.evidence import FORKED, Evidence
from ssb.tiny.store import TinyStore


class Accusations:
    """The violations that a party has found.

    Args:
        store: keeps the evidence; it outlives the contracts.
        events: list for the party's events.

    Attributes:
        faults: number of violations by kind. Evidence from before a restart counts once for each reason.
    """

    def __init__(self, store: TinyStore, events: list[Event]) -> None:
        self._store = store
        self._events = events
        self.faults = Counter(evidence.reason for evidence in self.evidence())

    def evidence(self) -> list[Evidence]:
        """Return all evidence."""
        return [Evidence.load(value) for value in self._store.records("evidence ").values()]

    def accuse(
        self,
        accused: bytes,
        reason: str,
        feed: bytes,
        sequence: int,
        now: int,
        contact: bytes = b"",
        own: tuple[bytes, bytes] = (b"", b""),
    ) -> None:
        """Store an entry as evidence; see Evidence."""
        packets, previous = self._store.packets(feed, sequence), self._store.previous(feed, sequence) or b""
        self._hold(Evidence(accused, reason, now, feed, sequence, previous, packets, contact, own))

    def accuse_of_fork(self, accused: bytes, feed: bytes, now: int) -> None:
        """Store the two entries of a fork as evidence."""
        proof = self._store.fork(feed)
        held = self._store.find(proof[0][:DEMUX]) if proof is not None else None
        if proof is not None and held is not None:
            previous = self._store.previous(feed, held[1]) or b""
            self._hold(Evidence(accused, FORKED, now, feed, held[1], previous, list(proof)))

    def _hold(self, evidence: Evidence) -> None:
        """Count a violation, and store its evidence and report it if it is the first for its reason."""
        self.faults[evidence.reason] += 1
        if self._store.get(evidence.name) is None:
            self._store.put(evidence.name, evidence.record())
            self._events.append(Event("accused", evidence.accused, detail=evidence.reason))
