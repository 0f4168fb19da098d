"""TLV-aware mutations of inputs, which a byte-wise mutator would rarely achieve."""

from collections.abc import Sequence
from random import Random

from forwarder.wire.tlv import MalformedPacket, elements, nni, number

# fmt: off
_KINDS = (
    0, 1, 2, 5, 6, 7, 8, 10, 12, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 32, 33, 34, 36, 44, 46, 50, 54,
    58, 80, 81, 82, 83, 98, 100, 104, 105, 106, 128, 240, 242, 244, 246, 248, 250, 253, 800, 801, 812, 816,
    820, 821, 832, 836, 840, 844, 848, 880, 881, 882, 883, 956, 65535, 65536, 1 << 32,
)
# fmt: on
_NUMBERS = (
    *(0, 1, 2, 3, 50, 100, 150, 252, 253, 255, 256, 4000, 65535, 65536, (1 << 32) - 1, 1 << 32),
    *(1 << 62, (1 << 64) - 2, (1 << 64) - 1),
)
_SIZES = (0, 1, 3, 4, 8, 31, 32, 33, 252, 253, 256, 900)
_DEEPEST = 8
_MOST_DEEP = 40


class _Node:
    """An element, with inner elements if its value parses."""

    __slots__ = ("inside", "kind", "length", "value", "width")

    def __init__(self, kind: int, value: bytes, depth: int = 0) -> None:
        self.kind = kind
        self.value = value
        self.inside = parse(value, depth + 1) if value and depth < _DEEPEST else None
        self.length: int | None = None  # a wrong length
        self.width = 0  # of a length not in its shortest form

    def encode(self) -> bytes:
        value = self.value if self.inside is None else encode(self.inside)
        length = len(value) if self.length is None else self.length
        if self.width:
            size = 1 << self.width
            head = bytes((252 + self.width,)) + (length & ((1 << 8 * size) - 1)).to_bytes(size, "big")
        else:
            head = number(length)
        return number(self.kind) + head + value


def parse(buf: bytes, depth: int = 0) -> list[_Node] | None:
    """Parse elements that fill `buf`, recursively; None if malformed."""
    try:
        return [_Node(kind, buf[start:end], depth) for kind, start, end in elements(buf, 0, len(buf))]
    except MalformedPacket:
        return None


def encode(nodes: Sequence[_Node]) -> bytes:
    """Write elements."""
    return b"".join(node.encode() for node in nodes)


def mutate(packet: bytes, pool: Sequence[bytes], rng: Random) -> bytes:
    """Return a mutated packet; `pool` has others to recombine."""
    nodes = parse(packet)
    if not nodes:
        return _bytewise(packet, pool, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if nodes:
            _change(nodes, pool, rng)
    changed = encode(nodes)
    return changed if rng.random() < 0.9 else _bytewise(changed, pool, rng)


def _lists(nodes: list[_Node]) -> list[list[_Node]]:
    """Return all lists of siblings."""
    found = [nodes]
    for siblings in found:  # grows as it goes
        found += [node.inside for node in siblings if node.inside]
    return found


def _change(nodes: list[_Node], pool: Sequence[bytes], rng: Random) -> None:
    siblings = rng.choice(_lists(nodes))
    at = rng.randrange(len(siblings))
    node = siblings[at]
    match rng.randrange(14):
        case 0:
            del siblings[at]
        case 1:
            siblings.insert(at, _Node(node.kind, node.encode() if rng.random() < 0.1 else node.value))
        case 2:
            other = rng.randrange(len(siblings))
            siblings[at], siblings[other] = siblings[other], node
        case 3:
            node.kind = rng.choice(_KINDS)
        case 4:
            node.kind ^= 1 << rng.randrange(8)
        case 5:
            node.inside, node.value = None, nni(rng.choice(_NUMBERS))
        case 6:
            node.inside, node.value = None, rng.randbytes(rng.randrange(10))
        case 7:
            size = rng.choice(_SIZES)
            node.inside, node.value = None, (node.encode()[2:] + bytes(size))[:size]
        case 8 | 9:
            parts = [part for group in _lists(parse(rng.choice(pool)) or []) for part in group]
            if parts:
                siblings[at + rng.randrange(2) : at + 1] = [rng.choice(parts)]
        case 10:
            siblings.insert(at, _Node(rng.choice(_KINDS), nni(rng.choice(_NUMBERS))))
        case 11:
            node.length = max(0, len(node.value) + rng.choice((-2, -1, 1, 2, 253, 1 << 16, 1 << 32, 1 << 60)))
        case 12:
            node.width = rng.randrange(1, 4)
        case _:
            inner = node.encode()
            for _ in range(rng.choice((1, 2, _MOST_DEEP))):
                inner = number(node.kind) + number(len(inner)) + inner
            siblings[at] = _Node(node.kind, inner, _DEEPEST)


def _bytewise(packet: bytes, pool: Sequence[bytes], rng: Random) -> bytes:
    changed = bytearray(packet)
    at = rng.randrange(len(changed) + 1)
    match rng.randrange(6):
        case 0 if at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        case 1:
            del changed[at:]
        case 2:
            changed[at:at] = rng.randbytes(rng.randint(1, 4))
        case 3:
            del changed[at : at + rng.randint(1, 4)]
        case 4:
            other = rng.choice(pool)
            changed[at:] = other[rng.randrange(len(other) + 1) :]
        case _ if at < len(changed):
            changed[at] = rng.choice((0, 1, 2, 31, 32, 33, 34, 252, 253, 254, 255))
    return bytes(changed)
