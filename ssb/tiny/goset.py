"""A grow-only set of feeds, reconciled between nodes by claims about intervals.

C. Tschudin, "A connectionless grow-only set CRDT" (DICG 2022), as tinySSB runs it. The keys are sorted. A
*claim* describes an interval: its lowest and highest key, the number of keys, and their XOR.

    novelty     demultiplexer | "n" | key 32
    claim       demultiplexer | "c" | lowest 32 | highest 32 | XOR 32 | count 1

In every round a node claims the whole set. The receiver of a claim adds both its ends, and compares the
interval with its own. With fewer keys there, or as many others, it answers with its own claim of the
interval. With more, it drops both ends and claims the two halves of the rest; a rest of one key it sends as a
novelty. So the search halves intervals down to the missing key, and all sets converge to their union.

Anyone can add keys to such a set: claims are not signed. A set with *fixed* keys is agreed on by other means
(`ssb.tiny.isp`): it sends and accepts neither claims nor novelties.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple

from ssb.tiny.entry import DEMUX, KEY

MAX_KEYS: Final = 255
"""Most keys of a set: a claim counts them in one byte."""
COMMON: Final = "tinySSB-0.1 GOset 1"
"""The name of the set that all nodes share."""
NOVELTY_LENGTH: Final = DEMUX + 1 + KEY
CLAIM_LENGTH: Final = DEMUX + 1 + 3 * KEY + 1

_NONE = bytes(KEY)
_MOST_PENDING = 20
_ROUNDS = 8
"""Rounds in which a claim is answered; if it was true, its author repeats it."""
_ASKED, _HELPED, _NOVELTIES = 1, 2, 1
"""Most claims that ask, claims that help, and novelties per round."""


class MalformedClaim(ValueError):
    """Neither a novelty nor a claim; the message has the reason."""


class Claim(NamedTuple):
    """An interval of a set: number of keys, ends, and XOR of the keys."""

    size: int
    lowest: bytes
    highest: bytes
    xor: bytes


def set_demultiplexer(name: str, epoch: int = 0) -> bytes:
    """The demultiplexer of a set's novelties and claims; the epoch counts replacements of the keys.

    Implementations differ in writing the epoch. This is the encoding without a largest epoch: in decimal
    digits behind the name, none for the first.
    """
    return sha256(f"{name}{epoch or ''}".encode()).digest()[:DEMUX]


def make_novelty(demultiplexer: bytes, key: bytes) -> bytes:
    """Return a novelty's packet."""
    return demultiplexer + b"n" + key


def make_claim(demultiplexer: bytes, claim: Claim) -> bytes:
    """Return a claim's packet."""
    return demultiplexer + b"c" + claim.lowest + claim.highest + claim.xor + bytes((claim.size,))


def read(packet: bytes) -> bytes | Claim:
    """Parse a novelty, as its key, or a claim. Raises MalformedClaim."""
    kind = packet[DEMUX : DEMUX + 1]
    if kind == b"n" and len(packet) == NOVELTY_LENGTH:
        return packet[DEMUX + 1 :]
    if kind != b"c" or len(packet) != CLAIM_LENGTH:
        raise MalformedClaim("neither a novelty nor a claim")
    lowest, highest, xor = [packet[at : at + KEY] for at in range(DEMUX + 1, CLAIM_LENGTH - 1, KEY)]
    count = packet[-1]
    if count == 0 or lowest > highest or (count == 1) != (lowest == highest):
        raise MalformedClaim("a claim about no interval")
    return Claim(count, lowest, highest, xor)


class GrowOnlySet:
    """A sorted set of keys.

    Args:
        name: hashed into the demultiplexer, with the epoch.
        keys: to begin with.
        epoch: counts replacements of the keys.
        is_fixed: whether packets add no keys.

    Attributes:
        demultiplexer: 7 bytes, of this set's novelties and claims.
        state: the XOR of all keys, 32 bytes.
        keys: sorted; read-only.
    """

    def __init__(
        self, name: str = COMMON, keys: Iterable[bytes] = (), epoch: int = 0, *, is_fixed: bool = False
    ) -> None:
        self.name = name
        self.demultiplexer = set_demultiplexer(name, epoch)
        self.is_fixed = is_fixed
        self.keys: list[bytes] = sorted(set(keys))
        self.state = _xor(self.keys)
        if len(self.keys) > MAX_KEYS:
            raise ValueError(f"{len(self.keys)} keys; {MAX_KEYS} are possible")
        self._pending: dict[Claim, int] = {}  # rounds left, by claim
        self._novelties: deque[bytes] = deque()
        self._largest = 0

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: bytes) -> bool:
        at = bisect_left(self.keys, key)
        return at < len(self.keys) and self.keys[at] == key

    def add(self, key: bytes) -> bool:
        """Add a key; return whether it is new. A full set takes no more, and zeros are not a key."""
        if key in self or key == _NONE or len(self.keys) >= MAX_KEYS:
            return False
        insort(self.keys, key)
        self.state = _xor((self.state, key))
        if len(self.keys) >= self._largest and len(self._novelties) < _MOST_PENDING:
            self._novelties.append(key)
        return True

    def claim(self, first: int, last: int) -> Claim:
        """Return the claim of an interval, given the positions of its ends."""
        keys = self.keys[first : last + 1]
        return Claim(len(keys), keys[0], keys[-1], _xor(keys))

    def receive(self, packet: bytes) -> list[bytes]:
        """Process a novelty or a claim; return the new keys.

        Raises MalformedClaim, also if the set is fixed.
        """
        if self.is_fixed:
            raise MalformedClaim("the set is fixed")
        told = read(packet)
        if isinstance(told, bytes):
            return [told] if self.add(told) else []
        self._largest = max(self._largest, told.size)
        if told.size == len(self.keys) and told.xor == self.state:
            return []
        if told in self._pending or len(self._pending) < _MOST_PENDING:
            self._pending[told] = _ROUNDS
        return [key for key in dict.fromkeys((told.lowest, told.highest)) if self.add(key)]

    def beacon(self) -> list[bytes]:
        """Return the packets of a round: novelties, a claim of the whole set, answers to other claims."""
        if self.is_fixed or not self.keys:
            return []
        out = [
            make_novelty(self.demultiplexer, self._novelties.popleft())
            for _ in range(min(_NOVELTIES, len(self._novelties)))
        ]
        out.append(make_claim(self.demultiplexer, self.claim(0, len(self.keys) - 1)))
        return out + self._answers()

    def _answers(self) -> list[bytes]:
        """Answer pending claims, the smallest first; keep the unresolved ones."""
        asked, helped, out = _ASKED, _HELPED, []
        kept: list[Claim] = []
        for claim in sorted(self._pending):
            first, last = [bisect_left(self.keys, end) for end in (claim.lowest, claim.highest)]
            if claim.lowest not in self or claim.highest not in self:
                continue  # the set is full
            own = self.claim(first, last)
            if own.xor == claim.xor and own.size == claim.size:
                continue
            if own.size <= claim.size and asked:
                asked -= 1
                out.append(make_claim(self.demultiplexer, own))
            if own.size < claim.size:
                kept.append(claim)
            elif helped:
                helped -= 1
                out += self._halves(first + 1, last - 1)
            else:
                kept.append(claim)
        rounds = self._pending
        self._pending = {claim: rounds[claim] - 1 for claim in kept if rounds[claim] > 1}
        return out

    def _halves(self, first: int, last: int) -> list[bytes]:
        """Return the most informative packets about an interval whose neighbours the receiver holds."""
        if last < first:
            return []
        if first == last:
            return [make_novelty(self.demultiplexer, self.keys[first])]
        parts = [(first, last)]
        if last - first > 2:
            middle = first + (last + 1 - first) // 2
            parts = [(first, middle - 1), (middle, last)]
        return [make_claim(self.demultiplexer, self.claim(*part)) for part in parts]


def _xor(keys: Iterable[bytes]) -> bytes:
    total = 0
    for key in keys:
        total ^= int.from_bytes(key)
    return total.to_bytes(KEY)
