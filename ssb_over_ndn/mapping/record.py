"""Records of the name service: NDN Link objects (packet format 0.3, "Link Object"), signed by ids' own keys.

    Name       /ssb/map/<id>/v=<sequence>
    MetaInfo   ContentType LINK, FreshnessPeriod: how long caches may return it
    Content    at least one Name: the delegations, that is the storage providers of the feed
    Signature  Ed25519 by <id>, with a ValidityPeriod, as in certificates

The id is the public key, so a record can be verified by itself. The highest sequence number wins. A node with
a newer record refuses the replay of an older one; others accept it until it expires.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from base.units import MS
from forwarder.management.keys import signature_info, validity_of, validity_period
from forwarder.wire.name import GENERIC, NAME, VERSION, component, components, from_uri, prefix_ends
from forwarder.wire.packet import ED25519, Data, make_data, parse_data
from forwarder.wire.tlv import MalformedPacket, element, elements, nni, read_nni
from ssb.keys import feed_ref, parse_feed, verify

MAP: Final = from_uri("/ssb/map")
"""The prefix of all records."""

LINK: Final = 1
"""ContentType of a Link object."""

MOST_DELEGATIONS: Final = 4
LARGEST: Final = 1024
"""Most bytes of a record; more than any honest one has."""
MOST_TTL_MS: Final = 3_600_000
_ID_BYTES: Final = 32


class RefusedRecord(ValueError):
    """A packet is no valid record; `reason` is a short word for counters."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class Record(NamedTuple):
    """A record.

    Attributes:
        author: the id (`@...=.ed25519`).
        seq: its sequence number.
        storages: prefixes of the storage providers, the preferred one first.
        begins, expires: its validity, ns since 1970.
        ttl: how long it may be used without a new query, ns.
        wire: the packet.
    """

    author: str
    seq: int
    storages: tuple[bytes, ...]
    begins: int
    expires: int
    ttl: int
    wire: bytes


def map_name(author: str) -> bytes:
    """Return the name for requesting an id's record: /ssb/map/<id>."""
    return MAP + component(GENERIC, parse_feed(author))


def split_map_name(name: bytes) -> tuple[str, bytes] | None:
    """Return the id in a name under MAP, and the components after it; None for other names."""
    header = MAP + bytes((GENERIC, _ID_BYTES))
    end = len(header) + _ID_BYTES
    if not name.startswith(header) or len(name) < end:
        return None
    return feed_ref(name[len(header) : end]), name[end:]


def make_record(
    author: str,
    sign: Callable[[bytes], bytes],
    seq: int,
    storages: Sequence[bytes],
    *,
    now: int,
    lifetime: int,
    ttl: int,
) -> bytes:
    """Build a record, valid from `now` (ns since 1970) for `lifetime` ns, both rounded down to the second.

    `sign` is that of the id's key. Raises ValueError if there is no storage, or too many.
    """
    if not 1 <= len(storages) <= MOST_DELEGATIONS:
        raise ValueError(f"a record has 1 to {MOST_DELEGATIONS} storages, not {len(storages)}")
    return make_data(
        map_name(author) + component(VERSION, nni(seq)),
        b"".join(element(NAME, storage) for storage in storages),
        content_type=LINK,
        freshness_ms=ttl // MS,
        signature_type=ED25519,
        more_info=validity_period(now, now + lifetime),
        sign=sign,
    )


def open_record(data: Data, now: int) -> Record:
    """Read and verify a record at a time, ns since 1970.

    Raises RefusedRecord: "format", "forged", or "expired".
    """
    try:
        record = _parse(data)
    except MalformedPacket as error:
        raise RefusedRecord("format", str(error)) from error
    if not verify(parse_feed(record.author), data.signature, data.signed):
        raise RefusedRecord("forged", "the id's key has not signed it")
    if not record.begins <= now <= record.expires:
        raise RefusedRecord("expired", "it does not count now")
    return record


def read_record(wire: bytes, now: int) -> Record:
    """Read and verify the record in a packet; raise RefusedRecord."""
    try:
        data = parse_data(wire)
    except MalformedPacket as error:
        raise RefusedRecord("format", str(error)) from error
    return open_record(data, now)


def _parse(data: Data) -> Record:
    if len(data.wire) > LARGEST:
        raise MalformedPacket(f"a record of {len(data.wire)} bytes")
    named = split_map_name(data.name)
    if named is None:
        raise MalformedPacket("a record's name begins with /ssb/map and an id")
    author, rest = named
    parts = components(rest)
    if len(parts) != 1 or parts[0][0] != VERSION:
        raise MalformedPacket("a record's name ends with its sequence")
    seq = read_nni(parts[0][1])
    if component(VERSION, nni(seq)) != rest:
        raise MalformedPacket("a sequence in more bytes than it needs")
    if data.content_type != LINK or data.signature_type != ED25519:
        raise MalformedPacket("a record is a Link object, signed by Ed25519")
    content = data.content
    storages = []
    for kind, start, end in elements(content, 0, len(content)):
        if kind != NAME or start == end:
            raise MalformedPacket("a Link object has names of delegations and nothing else")
        prefix_ends(content[start:end])
        storages.append(content[start:end])
    if not 1 <= len(storages) <= MOST_DELEGATIONS:
        raise MalformedPacket(f"{len(storages)} delegations")
    begins, expires = validity_of(signature_info(data))
    if expires is None:
        raise MalformedPacket("a record has a ValidityPeriod")
    ttl = min(data.freshness_ms, MOST_TTL_MS) * MS
    return Record(author, seq, tuple(storages), begins, expires, ttl, data.wire)


class Ledger:
    """The newest valid records, by id.

    Args:
        capacity: most ids.

    Attributes:
        size: bytes of all records together.
        refused: refused records, by reason: those of RefusedRecord; "older" for one that a newer
            one has replaced, and for another one of the same sequence; "full".
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._records: dict[str, Record] = {}
        self.size = 0
        self.refused: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._records)

    def get(self, author: str, now: int) -> Record | None:
        """Return an id's record if it is still valid."""
        record = self._records.get(author)
        return record if record is not None and now <= record.expires else None

    def newest(self, author: str) -> Record | None:
        """Return the newest seen record of an id, also if expired."""
        return self._records.get(author)

    def add_packet(self, wire: bytes, author: str, now: int) -> Record | None:
        """Add the record in a packet; see add()."""
        try:
            data = parse_data(wire)
        except MalformedPacket:
            self.refused["format"] += 1
            return None
        return self.add(data, author, now)

    def add(self, data: Data, author: str, now: int) -> Record | None:
        """Add a record of an id; return it, also if it is known; None if it is refused.

        An expired record stays until drop_expired(), so that no older one with a longer validity replaces it.
        """
        try:
            record = open_record(data, now)
            if record.author != author:
                raise RefusedRecord("forged", "it is another id's")
            known = self._records.get(author)
            if known is not None and known.wire != record.wire and record.seq <= known.seq:
                raise RefusedRecord("older", f"{record.seq} after {known.seq}")
            if known is None and len(self._records) >= self._capacity:
                raise RefusedRecord("full", f"{self._capacity} ids are known")
        except RefusedRecord as error:
            self.refused[error.reason] += 1
            return None
        self.size += len(record.wire) - (0 if known is None else len(known.wire))
        self._records[author] = record
        return record

    def remove(self, author: str) -> None:
        """Remove an id's record."""
        record = self._records.pop(author, None)
        self.size -= 0 if record is None else len(record.wire)

    def drop_expired(self, now: int) -> None:
        """Remove expired records."""
        for author in [author for author, each in self._records.items() if now > each.expires]:
            self.remove(author)
