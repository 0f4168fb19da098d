"""Pending Interest Table (NFD developer guide, section 3.4).

One entry per (name, CanBePrefix, MustBeFresh), with a record per face that the Interest came from and
per face that it was sent to. Exact names are found by one hash probe; entries that a Data packet can
match otherwise (CanBePrefix, implicit digest) are probed for only while such entries exist.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from base.timers import Timers
from forwarder.tables.face import SPARE, Face
from forwarder.tables.prefix_lengths import Lengths
from forwarder.wire.name import IMPLICIT_DIGEST, component, ends_with_digest, prefix_ends
from forwarder.wire.packet import Data, Interest

RECORD_BYTES: Final = 16
"""State that a record stands for, whatever the implementation: face 4, nonce 4, expiry 8 bytes."""

_PASSED: Final = 1024
"""Names that a persistent Interest's entry remembers, so as not to pass the same Data on again."""

_MOST_COPIES: Final = 4
"""Times that one nonce may come again from one face: more than links duplicate; a ring soon ends."""


class InRecord:
    """An Interest that waits for its Data: from `face`, with its nonce, expiry (ns), PIT token and packet.

    A persistent one (forwarder.wire.persistent) waits for all Data that match it, until it expires. `copies`
    counts how often the same nonce has come again.
    """

    __slots__ = ("copies", "expiry", "face", "nonce", "persistent", "token", "wire")

    def __init__(
        self, face: int, nonce: int, expiry: int, token: bytes | None, wire: bytes, persistent: bool = False
    ) -> None:
        self.face = face
        self.nonce = nonce
        self.expiry = expiry
        self.token = token
        self.wire = wire
        self.persistent = persistent
        self.copies = 0


class OutRecord:
    """An Interest sent to `face` at time `sent`, which waits there until `expiry` (both ns).

    `nacked` is the reason if it was refused there.
    """

    __slots__ = ("expiry", "face", "nacked", "nonce", "sent")

    def __init__(self, face: int, nonce: int, sent: int, expiry: int, nacked: int | None = None) -> None:
        self.face = face
        self.nonce = nonce
        self.sent = sent
        self.expiry = expiry
        self.nacked = nacked


@dataclass(slots=True)
class Tags:
    """NDNLPv2 header fields by which strategies signal to those of other nodes.

    Attributes:
        non_discovery: the Interest is not to be flooded where no route is known (NonDiscovery).
        announcement: PrefixAnnouncement to send with the Data: a Data packet, or None.
    """

    non_discovery: bool = False
    announcement: bytes | None = None


Key = tuple[bytes, bool, bool]


class PitEntry:
    """A pending Interest.

    Attributes:
        key: (name, CanBePrefix, MustBeFresh).
        in_records, out_records: at most one a face.
        deadline: the latest expiry that an Interest for it has had, ns; -1 before the first.
        is_live: whether it is in the table.
        passed: names of Data sent for a persistent Interest, oldest first; None if there is none.
        strategy: of its name.
        notes: state of the strategy.
        tags: header fields of its packets; None without.
        weight: its records of faces to the network, as Pit.weigh() has counted them last.
    """

    __slots__ = (
        "deadline",
        "in_records",
        "is_live",
        "key",
        "notes",
        "out_records",
        "passed",
        "strategy",
        "tags",
        "weight",
    )

    def __init__(self, key: Key) -> None:
        self.key = key
        self.in_records: list[InRecord] = []
        self.out_records: list[OutRecord] = []
        self.deadline = -1
        self.is_live = True
        self.passed: dict[bytes, None] | None = None
        self.strategy: Any = None
        self.notes: Any = None
        self.tags: Tags | None = None
        self.weight = 0

    @property
    def name(self) -> bytes:
        """The Interest's name."""
        return self.key[0]

    @property
    def is_satisfied(self) -> bool:
        """Whether it has no downstreams left, and stays only for its strategy to learn from late answers."""
        return not self.in_records

    def out_record(self, face: int) -> OutRecord | None:
        """Return the record of an upstream face, None if nothing was sent there."""
        for record in self.out_records:
            if record.face == face:
                return record
        return None

    def is_pending(self, now: int, but: int = -1) -> bool:
        """Return whether an upstream other than face `but` may still answer."""
        return any(
            record.nacked is None and record.expiry > now and record.face != but
            for record in self.out_records
        )

    def last_sent(self) -> int:
        """Return when it was sent last, ns; it has been sent."""
        return max([record.sent for record in self.out_records])

    def waits_for(self, face: int, nonce: int) -> bool:
        """Return whether the newest Interest from a face has this nonce."""
        return any(record.face == face and record.nonce == nonce for record in self.in_records)

    def is_loop(self, face: int, nonce: int) -> bool:
        """Return whether an Interest from `face` with `nonce` has looped.

        The same nonce from the same face is the link's duplicate or the consumer's own repetition; if it
        comes more than _MOST_COPIES times, it circulates in a ring whose nodes all take it for that.
        """
        for record in self.in_records:
            if record.nonce == nonce:
                return record.face != face or record.copies >= _MOST_COPIES
        return any(record.nonce == nonce for record in self.out_records)

    def set_in_record(self, record: InRecord) -> bool:
        """Add or replace the record of a downstream face; return whether there are others."""
        for before in self.in_records:
            if before.face == record.face:
                record.copies = before.copies + 1 if before.nonce == record.nonce else 0
                self.drop_in_record(record.face)
                self.in_records.append(record)
                return False
        self.in_records.append(record)
        return len(self.in_records) > 1

    def drop_in_record(self, face: int) -> None:
        """Forget a downstream face."""
        self.in_records = [r for r in self.in_records if r.face != face]

    def begin_passing(self, now: int) -> None:
        """Expect a persistent Interest; those before it that have expired go."""
        if self.passed is None:
            self.passed = {}
        self.in_records = [r for r in self.in_records if not r.persistent or r.expiry > now]

    def note_passing(self, name: bytes) -> bool:
        """Note Data of that name; return whether they are new, as far as is remembered."""
        passed = self.passed
        if passed is None or name in passed:
            return False
        passed[name] = None
        if len(passed) > _PASSED:
            del passed[next(iter(passed))]
        return True

    def keep_persistent(self, now: int) -> bool:
        """Drop all but persistent Interests that have not expired; return whether there are any."""
        self.in_records = [r for r in self.in_records if r.persistent and r.expiry > now]
        return bool(self.in_records)

    def set_out_record(self, record: OutRecord) -> None:
        """Add or replace the record of an upstream face."""
        if self.out_records:
            self.drop_out_record(record.face)
        self.out_records.append(record)

    def drop_out_record(self, face: int) -> None:
        """Forget an upstream face."""
        self.out_records = [r for r in self.out_records if r.face != face]


def compact(face: Face) -> list[PitEntry]:
    """Remove ended entries and duplicates from a face's touches; return the rest."""
    face.touches = list(dict.fromkeys([each for each in face.touches if each.is_live]))
    face.most_touches = 2 * len(face.touches) + SPARE
    return face.touches


class Pit:
    """The table, with timers of the entries' expiry, and the size of its state towards the network.

    Args:
        network: numbers of the faces to the network, as they are at any time.

    Attributes:
        entries: those that have a record of such a face,
        bytes: and their size: of names, plus RECORD_BYTES for each such record. Both are sums that weigh()
            keeps up to date.
    """

    def __init__(self, network: Collection[int] = ()) -> None:
        self.entries = self.bytes = 0
        self._network = network
        self._entries: dict[Key, PitEntry] = {}
        self._prefixes = Lengths()  # of the names of entries with CanBePrefix
        self._digests = 0  # entries whose name ends with an implicit digest
        self._loose = 0  # entries that Data of another name may satisfy, counted twice if both
        self.timers: Timers[PitEntry] = Timers()

    def find(self, interest: Interest) -> PitEntry | None:
        """Return the entry for an Interest."""
        return self._entries.get((interest.name, interest.can_be_prefix, interest.must_be_fresh))

    def insert(self, interest: Interest) -> PitEntry:
        """Create the entry for an Interest that has none; the caller adds records and extends it."""
        key = (interest.name, interest.can_be_prefix, interest.must_be_fresh)
        entry = self._entries[key] = PitEntry(key)
        if key[1]:
            self._prefixes.add(key[0])
            self._loose += 1
        if ends_with_digest(key[0]):
            self._digests += 1
            self._loose += 1
        return entry

    def extend(self, entry: PitEntry, expiry: int) -> None:
        """Keep an entry until `expiry` (ns) at least."""
        if expiry > entry.deadline:
            entry.deadline = expiry
            self.timers.set(entry, expiry)

    def expire_at(self, entry: PitEntry, deadline: int) -> None:
        """Set the deadline of a live entry (ns), even to an earlier one."""
        entry.deadline = deadline
        self.timers.set(entry, deadline)

    def weigh(self, entry: PitEntry) -> None:
        """Count an entry whose records have changed; no effect on one that is not in the table any more."""
        if not entry.is_live:
            return
        network, weight = self._network, 0
        for waiting in entry.in_records:
            if waiting.face in network:
                weight += 1
        for asked in entry.out_records:
            if asked.face in network:
                weight += 1
        if weight != entry.weight:
            self._uncount(entry)
            entry.weight = weight
            if weight:
                self.entries += 1
                self.bytes += len(entry.key[0]) + RECORD_BYTES * weight

    def _uncount(self, entry: PitEntry) -> None:
        if entry.weight:
            self.entries -= 1
            self.bytes -= len(entry.key[0]) + RECORD_BYTES * entry.weight

    def remove(self, entry: PitEntry) -> None:
        """Remove a live entry and its timer."""
        self.timers.set(entry, None)
        self._forget(entry)

    def expire(self, now: int) -> list[PitEntry]:
        """Remove and return expired entries."""
        due = self.timers.expire(now)
        for entry in due:
            self._forget(entry)
        return due

    def _forget(self, entry: PitEntry) -> None:
        del self._entries[entry.key]
        entry.is_live = False
        self._uncount(entry)
        if not self._loose:
            return
        if entry.key[1]:
            self._prefixes.remove(entry.key[0])
            self._loose -= 1
        if ends_with_digest(entry.key[0]):
            self._digests -= 1
            self._loose -= 1

    def may_match(self, name: bytes) -> bool:
        """Return whether Data of this name may satisfy an entry."""
        entries = self._entries
        return bool(self._loose or (name, False, False) in entries or (name, False, True) in entries)

    def match(self, data: Data) -> list[PitEntry]:
        """Return the entries that a Data packet satisfies; raise MalformedPacket if its name is found out.

        MustBeFresh needs no check here: a packet that has just arrived counts as fresh.
        """
        entries = self._entries
        name = data.name
        found = []
        if entry := entries.get((name, False, False)):
            found.append(entry)
        if entry := entries.get((name, False, True)):
            found.append(entry)
        if not self._loose:
            return found
        if self._prefixes:
            for end in self._prefixes.among(prefix_ends(name)):
                found += [e for fresh in (False, True) if (e := entries.get((name[:end], True, fresh)))]
        if self._digests:
            prefix_ends(name)  # a cut component could swallow the digest
            full = name + component(IMPLICIT_DIGEST, data.digest())
            found += [
                e
                for prefix in (False, True)
                for fresh in (False, True)
                if (e := entries.get((full, prefix, fresh)))
            ]
        return found

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[PitEntry]:
        return iter(self._entries.values())
