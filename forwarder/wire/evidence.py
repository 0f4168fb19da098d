"""Evidence of a source: how fresh it is, and how far the source is (docs/controlled-push.md, section 6).

A number that only a source of the feed advances, and the hops to that source. Every node of a feed holds
one, and takes for its upstream only a node whose evidence is better than its own. Own evidence never gets
worse, so the upstreams of a feed cannot form a cycle, whatever is lost, late or doubled.

Encoded as one byte of hops, in which one bit tells whether the number is signed, the number as a
NonNegativeInteger, and the signature unless the receiver has it.
"""

from typing import Final, NamedTuple

from forwarder.wire.tlv import MalformedPacket, nni, read_nni

LAST_NUMBER: Final = (1 << 64) - 2
MOST_LEAP: Final = 1 << 32
"""Longest believable lead of a number: a forged one must leave room for higher ones."""
_MOST_FIRST: Final = 1 << 63
SIGNED: Final = 0x80
"""Bit in the byte of hops: the number is signed, even if the signature is left out."""
MOST_HOPS: Final = SIGNED - 1
"""As many as the other bits hold. Evidence from so far is of no use: its receiver's would have one more."""
PROOF_BYTES: Final = 64
_DOMAIN: Final = b"feednet source\0"  # no packet begins so


class Evidence(NamedTuple):
    """A node's evidence of a source.

    Attributes:
        number: the highest received; only a source issues a higher one.
        hops: to the source that has issued it, at that time.
        is_signed: the source has signed the number by the feed's key.
        proof: that signature, 64 bytes; empty if there is none, or the receiver has it.
    """

    number: int
    hops: int
    is_signed: bool = False
    proof: bytes = b""

    def beats(self, other: "Evidence | None") -> bool:
        """Return whether it is strictly better: signed, else newer, else nearer; any is better than none."""
        if other is None:
            return True
        if self.is_signed != other.is_signed:
            return self.is_signed
        return self.number > other.number or (self.number == other.number and self.hops < other.hops)

    @property
    def onward(self) -> "Evidence":
        """The evidence of a node that takes this one's owner for upstream."""
        return Evidence(self.number, self.hops + 1, self.is_signed, self.proof)

    @property
    def bare(self) -> "Evidence":
        """The same without its proof."""
        return Evidence(self.number, self.hops, self.is_signed)

    @property
    def is_whole(self) -> bool:
        """Whether it can be checked: its proof is there if its number is signed."""
        return bool(self.proof) or not self.is_signed

    def shown_to(self, known: "Evidence | None") -> "Evidence":
        """Return it as it is sent to a node with this Known: without its proof if that holds it.

        A Known of no hops asks for a number above it, and is not held.
        """
        is_held = known is not None and known.is_signed and known.hops and known.number == self.number
        return self.bare if is_held else self

    def proven_by(self, known: "Evidence | None") -> "Evidence":
        """Return it with the proof of known evidence that has the same signed number."""
        if self.is_signed and known is not None and known.is_signed and known.number == self.number:
            return self._replace(proof=known.proof)
        return self

    def calls_for_more(self, own: "Evidence") -> bool:
        """Return whether this, as a Known, calls for a newer number than a source's own.

        Without the key a source cannot beat a signed number.
        """
        return not own.beats(self) and self.is_signed == own.is_signed

    def number_above(self, known: "Evidence") -> int:
        """Return a source's next number after this one: above a Known, if that is no leap.

        A leap is made in steps, as it is demanded again: a liar's Known leaves room for higher numbers.
        """
        return min(known.number + 1, self.number + MOST_LEAP, LAST_NUMBER)

    def is_believable(self, known: "Evidence | None") -> bool:
        """Return whether the lead of a number that is not signed over known evidence is believable."""
        return self.number <= (_MOST_FIRST if known is None else known.number + MOST_LEAP)


def encode_evidence(evidence: Evidence) -> bytes:
    """Encode, the proof too if it is there. It has at most MOST_HOPS hops."""
    assert evidence.hops <= MOST_HOPS
    return bytes((evidence.hops | SIGNED * evidence.is_signed,)) + nni(evidence.number) + evidence.proof


def decode_evidence(value: bytes) -> Evidence:
    """Decode; raise MalformedPacket."""
    end = len(value) - PROOF_BYTES if len(value) > PROOF_BYTES else len(value)
    if end not in (2, 3, 5, 9):
        raise MalformedPacket(f"evidence of {len(value)} bytes")
    is_signed = value[0] >= SIGNED
    if end < len(value) and not is_signed:
        raise MalformedPacket("evidence with the signature of a number that is not signed")
    number = read_nni(value[1:end])
    if number > LAST_NUMBER:
        raise MalformedPacket("evidence with a number that leaves no room for another")
    return Evidence(number, value[0] & ~SIGNED, is_signed, value[end:])


def proven_text(feed: bytes, number: int) -> bytes:
    """Return the text that a source signs, by the feed's key, when it issues a number."""
    return _DOMAIN + number.to_bytes(8, "big") + feed
