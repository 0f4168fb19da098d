"""Receipts that clients sign, and proofs of misbehaviour.

**Proofs.** A client that offers a feed to another signs, with the key of its root feed, that the feed is its
own and for whom. The answer also covers the offered feed, so that it cannot be replayed. Both clients know
each other's root feeds, so a provider can neither substitute its own feed for one of theirs nor give one
client the feed of another. Each provider on the way verifies proofs, too, and drops false ones: a party that
passes on a false one is dishonest. A feed without a proof may come from a client without this extension, such
as the prototypes; whether to accept it is up to the receiver (`Terms.proofs`).

**Receipts.** The reader of a feed now and then acknowledges the entries read, signed with the key of its own
feed of the pair. A provider that takes entries and delivers none cannot make receipts.

**Evidence** is signed by the accused: two entries with one number, or an illegal entry. Anyone who knows the
feed can verify the signatures. Of a fork and of a false proof, that is the whole case; other violations need
their context (`Evidence.is_proof`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Final

from ssb.bipf import Value
from ssb.keys import Identity, verify
from ssb.tiny.entry import InvalidEntry, check_chain, parse
from ssb.tiny.isp.messages import SubRequestIsp, SubResponseIsp, read

FORKED: Final = "two entries for one place"
FORGED: Final = "a feed that its owner has not signed for"
NOBODYS: Final = "an entry of nobody's"
"""Reasons of evidence; contracts have others for lines."""

UNPROVEN: Final = "no proof is passed on"
"""Reason to refuse a feed without an accusation: providers without this extension drop proofs."""

_PROOF: Final = b"tinyISP feed"
_RECEIPT: Final = b"tinyISP receipt"


def sign_feed(
    root: Identity, feed: bytes, contact: bytes, answered: bytes = b"", group: Sequence[bytes] | None = None
) -> bytes:
    """Sign that a feed is written by the owner of a root feed, for a contact; return 64 bytes.

    `answered` is the contact's own feed, if this is an answer; `group` the members of a group.
    """
    return root.sign(_statement(feed, contact, answered, group))


def is_signed(
    proof: bytes | None,
    owner: bytes,
    feed: bytes,
    contact: bytes,
    answered: bytes = b"",
    group: Sequence[bytes] | None = None,
) -> bool:
    """Whether this is the proof of sign_feed() by a root feed's owner."""
    return proof is not None and verify(owner, proof, _statement(feed, contact, answered, group))


def _statement(feed: bytes, contact: bytes, answered: bytes, group: Sequence[bytes] | None) -> bytes:
    members = sha256(b"".join(group)).digest() if group else b""
    return _PROOF + feed + contact + answered + members


def sign_receipt(own: Identity, other: bytes, sequence: int) -> bytes:
    """Sign, with the key of the own feed, that the other's was read up to a number; return 64 bytes."""
    return own.sign(_RECEIPT + other + sequence.to_bytes(4))


def is_receipt(signature: bytes, reader: bytes, feed: bytes, sequence: int) -> bool:
    """Whether the author of the feed `reader` has signed that `feed` was read up to a number."""
    return sequence < 1 << 32 and verify(reader, signature, _RECEIPT + feed + sequence.to_bytes(4))


@dataclass(frozen=True)
class Evidence:
    """A contradiction that a party has signed.

    Attributes:
        accused: its root feed.
        reason: see the constants.
        time: of detection, ns.
        feed, sequence, previous: the entry's position.
        packets: the entry and its side chain; for a fork, the two entries.
        contact: for a false proof, the root feed of the alleged signer.
        own: for a false proof, the root feed of the client addressed, and the feed answered to, if any.
    """

    accused: bytes
    reason: str
    time: int
    feed: bytes
    sequence: int
    previous: bytes
    packets: list[bytes]
    contact: bytes = b""
    own: tuple[bytes, bytes] = (b"", b"")

    @property
    def name(self) -> str:
        """The name of its record: one for each party and reason."""
        return f"evidence {self.accused.hex()} {self.reason}"

    def record(self) -> Value:
        """Return a record of the store."""
        return asdict(self)

    @classmethod
    def load(cls, value: Value) -> "Evidence":
        """Return evidence from its record."""
        assert isinstance(value, dict)
        own_root, own_feed = value["own"]
        return cls(**value | {"own": (own_root, own_feed)})

    def is_signed(self) -> bool:
        """Whether the author of the feed has signed the packets."""
        place = self.feed, self.sequence, self.previous
        try:
            if self.reason == FORKED:
                first, second = (parse(packet, *place) for packet in self.packets)
                return first.packet != second.packet
            entry, *_ = parsed = [parse(self.packets[0], *place)]
            check_chain(entry, self.packets[1:])
        except (InvalidEntry, ValueError, IndexError):
            return False
        return bool(parsed)

    def is_proof(self) -> bool:
        """Whether it convinces without context: a fork, or a false proof."""
        if not self.is_signed() or self.reason not in (FORKED, FORGED):
            return False
        if self.reason == FORKED:
            return True
        entry = parse(self.packets[0], self.feed, self.sequence, self.previous)
        message = read(entry.content(self.packets[1:]))
        own_root, own_feed = self.own
        match message:
            case SubRequestIsp(_, source, feed, bytes() as proof, group):
                return source == self.contact and not is_signed(proof, source, feed, own_root, group=group)
            case SubResponseIsp(_, _, bytes() as feed, bytes() as proof):
                return not is_signed(proof, self.contact, feed, own_root, own_feed)
        return False
