"""Receipts that clients sign, and proofs of misbehaviour.

**Proofs.** Who offers a feed to another client signs, with the key of his root feed, that it is his and for
whom it is. The answer also covers the feed that it answers to, so that it cannot be used again. Both clients
know each other's root feeds, so a provider can neither put its own feed in place of one of theirs nor give
one client the feed of another. Each provider on the way verifies proofs, too, and passes on none that is
false: who hands over a false one is not honest. A feed without a proof may be that of a client who knows of
none, as the prototypes do; whether to take it is up to who gets it (`Terms.proofs`).

**Receipts.** Who reads a feed says now and then how far he is, signed with the key of the feed that he writes
in turn. A provider that takes entries and delivers none cannot make receipts.

**Evidence** is what the accused has signed: two entries for one place, or an entry that must not be. Anyone
who knows the feed can verify the signatures. Of a fork and of a false proof, that is the whole case; an entry
that breaks the protocol does so in the light of what went before (`Evidence.is_proof`).
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
"""Reasons of evidence; others are what a contract says of a line."""

UNPROVEN: Final = "no proof is passed on"
"""Why a feed is not taken without anybody's being convicted: providers that know no proofs drop them."""

_PROOF: Final = b"tinyISP feed"
_RECEIPT: Final = b"tinyISP receipt"


def sign_feed(
    root: Identity, feed: bytes, contact: bytes, answered: bytes = b"", group: Sequence[bytes] | None = None
) -> bytes:
    """Sign that a feed is written by the owner of a root feed, for a contact; return 64 bytes.

    `answered` is the contact's own feed, if this answers to it; `group` the members of a group.
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
    """Whether the owner of a root feed has signed for a feed so."""
    return proof is not None and verify(owner, proof, _statement(feed, contact, answered, group))


def _statement(feed: bytes, contact: bytes, answered: bytes, group: Sequence[bytes] | None) -> bytes:
    members = sha256(b"".join(group)).digest() if group else b""
    return _PROOF + feed + contact + answered + members


def sign_receipt(own: Identity, other: bytes, sequence: int) -> bytes:
    """Sign, with the key of the own feed, that the other's was read up to a number; return 64 bytes."""
    return own.sign(_RECEIPT + other + sequence.to_bytes(4))


def is_receipt(signature: bytes, reader: bytes, feed: bytes, sequence: int) -> bool:
    """Whether the writer of the feed `reader` has signed that he has read `feed` up to a number."""
    return sequence < 1 << 32 and verify(reader, signature, _RECEIPT + feed + sequence.to_bytes(4))


@dataclass(frozen=True)
class Evidence:
    """A contradiction that a party has signed.

    Attributes:
        accused: its root feed.
        reason: what it is, see the constants.
        time: when it was found, ns.
        feed, sequence, previous: the entry's place.
        packets: the entry and its side chain; for a fork, the two entries.
        contact: for a false proof, the root feed of the client who is said to have signed.
        own: for a false proof, the client's root feed for whom, and the feed that was answered to, if any.
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
        """The name of its record: a party needs to be accused of a thing once."""
        return f"evidence {self.accused.hex()} {self.reason}"

    def record(self) -> Value:
        """Return it as a record of the store."""
        return asdict(self)

    @classmethod
    def load(cls, value: Value) -> "Evidence":
        """Return it from its record."""
        assert isinstance(value, dict)
        own_root, own_feed = value["own"]
        return cls(**value | {"own": (own_root, own_feed)})

    def is_signed(self) -> bool:
        """Whether the writer of the feed has signed what is held against him."""
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
        """Whether it convinces who knows nothing else: a fork, or a false proof."""
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
