"""Evidence of a source: how fresh it is, and how far the source is (docs/controlled-push.md, section 6).

A number that only a source of the feed advances, and the hops to that source. Every node of a feed holds
one, and takes for its upstream only a node whose evidence is better than its own. Own evidence never gets
worse, so the upstreams of a feed cannot form a cycle, whatever is lost, late or doubled.

Encoded as one byte of hops, the number as a NonNegativeInteger, and the signature if there is one.
"""

from typing import Final, NamedTuple

from forwarder.wire.tlv import MalformedPacket, nni, read_nni

MOST_HOPS: Final = 64
"""Evidence from further away counts for nothing: more hops than a path has."""
LAST_NUMBER: Final = (1 << 64) - 2
MOST_LEAP: Final = 1 << 32
"""Longest believable lead of a number: a forged one must leave room for higher ones."""
_MOST_FIRST: Final = 1 << 63
PROOF_BYTES: Final = 64
_DOMAIN: Final = b"feednet source\0"  # no packet begins so


class Evidence(NamedTuple):
    """A node's evidence of a source.

    Attributes:
        number: the highest received; only a source issues a higher one.
        hops: to the source that has issued it, at that time.
        proof: the signature of the number by the feed's key, 64 bytes; empty if the source does not have that
            key, or the proof is known. Comparisons ignore it.
    """

    number: int
    hops: int
    proof: bytes = b""

    def beats(self, other: "Evidence | None") -> bool:
        """Return whether it is strictly better: newer, or as new and nearer; any is better than none."""
        if other is None:
            return True
        return self.number > other.number or (self.number == other.number and self.hops < other.hops)

    @property
    def onward(self) -> "Evidence":
        """The evidence of a node that takes this one's owner for upstream."""
        return Evidence(self.number, self.hops + 1, self.proof)

    @property
    def bare(self) -> "Evidence":
        """The same without its proof."""
        return Evidence(self.number, self.hops)

    def shown_to(self, known: "Evidence | None") -> "Evidence":
        """Return it as it is sent to a node with this Known: without its proof if that holds the number.

        A Known of no hops asks for a number above it, and is not held.
        """
        return self.bare if known is not None and known.hops and known.number == self.number else self

    def is_believable(self, known: "Evidence | None") -> bool:
        """Return whether its number's lead over known evidence is believable."""
        return self.number <= (_MOST_FIRST if known is None else known.number + MOST_LEAP)


def encode_evidence(evidence: Evidence) -> bytes:
    """Encode, the proof too if it is there."""
    return bytes((evidence.hops,)) + nni(evidence.number) + evidence.proof


def decode_evidence(value: bytes) -> Evidence:
    """Decode; raise MalformedPacket."""
    end = len(value) - PROOF_BYTES if len(value) > PROOF_BYTES else len(value)
    if end not in (2, 3, 5, 9) or value[0] >= MOST_HOPS:
        raise MalformedPacket(f"evidence of {len(value)} bytes, or from too far away")
    number = read_nni(value[1:end])
    if number > LAST_NUMBER:
        raise MalformedPacket("evidence with a number that leaves no room for another")
    return Evidence(number, value[0], value[end:])


def proven_text(feed: bytes, number: int) -> bytes:
    """Return the text that a source signs, by the feed's key, when it issues a number."""
    return _DOMAIN + number.to_bytes(8, "big") + feed
