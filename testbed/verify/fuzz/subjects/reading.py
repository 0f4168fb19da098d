"""A second reader of the packet formats, plain and slow, that the codec must agree with.

NDN packet format 0.3 and NDNLPv2, as deep as a forwarder reads: values are copied, nothing is skipped, and no
offset is kept. Raises Invalid where the codec raises MalformedPacket.
"""

from collections.abc import Iterator
from typing import Any

Fields = dict[str, Any]


class Invalid(Exception):
    """No packet."""


def numbers_of(buf: bytes) -> tuple[int, bytes]:
    """Read a variable-size number; return (value, remainder)."""
    if not buf:
        raise Invalid("nothing left")
    size = {253: 2, 254: 4, 255: 8}.get(buf[0], 0)
    if not size:
        return buf[0], buf[1:]
    value = int.from_bytes(buf[1 : 1 + size], "big")
    smaller = {2: 252, 4: 0xFFFF, 8: 0xFFFF_FFFF}[size]
    if len(buf) < 1 + size or value <= smaller:
        raise Invalid("cut short, or not the shortest form")
    return value, buf[1 + size :]


def _walk(buf: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Read elements to the end; yield (type, value, all bytes from the element on)."""
    while buf:
        tail = buf
        kind, buf = numbers_of(buf)
        length, buf = numbers_of(buf)
        if kind >= 1 << 32 or length > len(buf):
            raise Invalid("type or length out of range")
        yield kind, buf[:length], tail
        buf = buf[length:]


def elements_of(buf: bytes) -> list[tuple[int, bytes]]:
    """Read elements to the end; return their (type, value)."""
    return [(kind, value) for kind, value, _ in _walk(buf)]


def _one(wire: bytes) -> tuple[int, bytes]:
    found = elements_of(wire)
    if len(found) != 1:
        raise Invalid("not one element")
    return found[0]


def _recognise(found: list[tuple[int, bytes]], order: tuple[int, ...], ignored: int = -1) -> dict[int, bytes]:
    """Keep the elements in the given order; the others must be ignorable."""
    known: dict[int, bytes] = {}
    rest = list(order)
    for kind, value in found:
        if kind in rest:
            del rest[: rest.index(kind) + 1]
            known[kind] = value
        elif (kind < 32 or kind % 2) and kind != ignored:
            raise Invalid(f"critical element {kind}")
    return known


def number(value: bytes) -> int:
    """Read a NonNegativeInteger."""
    if len(value) not in (1, 2, 4, 8):
        raise Invalid("NonNegativeInteger")
    return int.from_bytes(value, "big")


def _exactly(size: int, value: bytes) -> int:
    if len(value) != size:
        raise Invalid(f"{size} bytes")
    return int.from_bytes(value, "big")


def read_name(name: bytes) -> list[tuple[int, bytes]]:
    """Read a Name's value; return its components."""
    found = elements_of(name)
    for kind, value in found:
        if not 0 < kind < 65536 or (kind < 3 and len(value) != 32):
            raise Invalid("component")
    return found


def read_interest(wire: bytes) -> Fields:
    """Read an Interest; return the fields of forwarder.wire.packet.Interest by name."""
    kind, inside = _one(wire)
    found = elements_of(inside)
    if kind != 5 or not found or found[0][0] != 7 or not found[0][1]:
        raise Invalid("an Interest is 5, and has a Name that is not empty")
    granted = [value for kind, value in found[1:] if kind == 240]
    order = (33, 18, 30, 10, 12, 34, 36, 44, 46)
    known = _recognise([pair for pair in found[1:] if pair[0] not in (240, 252)], order)
    hint = elements_of(known.get(30, b""))
    _recognise([pair for pair in hint if pair[0] != 7], ())
    for flag in (33, 18):
        _exactly(0, known.get(flag, b""))
    return {
        "name": found[0][1],
        "can_be_prefix": 33 in known,
        "must_be_fresh": 18 in known,
        "nonce": _exactly(4, known[10]) if 10 in known else None,
        "lifetime_ms": number(known[12]) if 12 in known else 4000,
        "hop_limit": _exactly(1, known[34]) if 34 in known else None,
        "send_credit": _credit(found[0][1], granted),
        "known": _first_evidence(found[1:]) if _credit(found[0][1], granted) is not None else None,
        "forwarding_hint": tuple(value for kind, value in hint if kind == 7 and value),
    }


def _credit(name: bytes, granted: list[bytes]) -> int | None:
    """The first SendCredit, if it is a number and the name is an item's: <...>/<key>/seq=<n>, no fork's."""
    if not granted or len(granted[0]) not in (1, 2, 4, 8):
        return None
    try:
        parts = read_name(name)
    except Invalid:
        return None
    if len(parts) < 2 or parts[-2][0] != 8 or len(parts[-2][1]) != 32 or parts[-1][0] != 58:
        return None
    digits = parts[-1][1]
    seq = int.from_bytes(digits, "big")
    fits = [size for size in (1, 2, 4, 8) if seq < 1 << 8 * size]
    is_item = len(digits) in fits[:1] and 0 < seq < (1 << 64) - 1
    return number(granted[0]) if is_item else None


def _first_evidence(found: list[tuple[int, bytes]]) -> tuple[int, int, bool, bytes] | None:
    """The first evidence after SendCredit; one that is malformed counts as none."""
    kinds = [kind for kind, _ in found]
    first = next((value for kind, value in found[kinds.index(240) :] if kind == 252), b"")
    try:
        return evidence(first)
    except Invalid:
        return None


def evidence(value: bytes) -> tuple[int, int, bool, bytes]:
    """Read evidence of a source: (number, hops, is_signed, proof)."""
    proof = value[-64:] if len(value) > 64 else b""
    rest = value[: len(value) - len(proof)]
    if not rest or (proof and rest[0] < 0x80):
        raise Invalid("evidence")
    issued = number(rest[1:])
    if issued == (1 << 64) - 1:
        raise Invalid("the last number")
    return issued, rest[0] & 0x7F, rest[0] >= 0x80, proof


def read_hello(value: bytes) -> Fields:
    """Read a Hello's value; return the fields of forwarder.wire.hello.Hello by name."""
    found: list[tuple[int, bytes]] = []
    several: dict[int, list[tuple[Any, ...]]] = {0xAA: [], 0xAC: []}
    last = 0
    for kind, part in elements_of(value):
        if kind in several and kind >= last:
            several[kind].append(_standing(part))
            last = kind
        elif kind not in several:
            before = len(_recognise([*found, (kind, part)], _HELLO))
            if before > len(_recognise(found, _HELLO)) and kind > last:
                last = kind
                found.append((kind, part))
    known = _recognise(found, _HELLO)
    return {
        "number": number(known[0xA2]) if 0xA2 in known else None,
        "reply": number(known[0xA4]) if 0xA4 in known else None,
        "granted": _digest(known.get(0xA6)),
        "held": _digest(known.get(0xA8)),
        "haves": tuple(several[0xAA]),
        "states": tuple(several[0xAC]),
        "is_forgotten": 0xAE in known,
    }


_HELLO = (0xA2, 0xA4, 0xA6, 0xA8, 0xAE)


def _digest(value: bytes | None) -> bytes | None:
    if value is not None:
        _exactly(8, value)
    return value


def _standing(value: bytes) -> tuple[Any, ...]:
    if len(value) < 8:
        raise Invalid("no reference")
    known = _recognise(elements_of(value[8:]), (0xB0, 0xB2, 0xB4))
    if (0xB0 in known) != (0xB2 in known):
        raise Invalid("one of Next and Limit")
    offered = evidence(known[0xB4]) if 0xB4 in known else None
    numbers = [number(known[kind]) if kind in known else None for kind in (0xB0, 0xB2)]
    return value[:8], *numbers, offered


def read_data(wire: bytes) -> Fields:
    """Read a Data packet; return the fields of forwarder.wire.packet.Data by name."""
    kind, inside = _one(wire)
    found = elements_of(inside)
    if kind != 6 or not found or found[0][0] != 7:
        raise Invalid("a Data packet is 6, and has a Name")
    known = _recognise(found[1:], (20, 21, 22, 23))
    if 22 not in known or 23 not in known:
        raise Invalid("unsigned")
    meta = _recognise(elements_of(known.get(20, b"")), (24, 25, 26))
    info = _recognise(elements_of(known[22]), (27, 28), ignored=253)
    if 27 not in info:
        raise Invalid("no SignatureType")
    tail = next(tail for kind, _, tail in _walk(inside) if kind == 23)
    return {
        "name": found[0][1],
        "content_type": number(meta[24]) if 24 in meta else 0,
        "freshness_ms": number(meta[25]) if 25 in meta else 0,
        "content": known.get(21, b""),
        "signature_type": number(info[27]),
        "signed": inside.removesuffix(tail),
        "signature": known[23],
    }


def _numbers(value: bytes, order: tuple[int, ...]) -> dict[int, int]:
    return {kind: number(part) for kind, part in _recognise(elements_of(value), order).items()}


def read_lp(wire: bytes) -> Fields:
    """Read an LpPacket or a bare packet; return the fields of forwarder.wire.lp.LpPacket by name."""
    kind, inside = _one(wire)
    fields: Fields = {
        "fragment": b"",
        "sequence": None,
        "frag_index": 0,
        "frag_count": 1,
        "nack_reason": None,
        "pit_token": None,
        "congestion_mark": 0,
        "incoming_face": None,
        "next_hop_face": None,
        "cache_policy": None,
        "tx_sequence": None,
        "acks": [],
        "non_discovery": False,
        "announcement": None,
        "tip": None,
        "limit": None,
        "feed": None,
        "first": None,
        "evidence": None,
        "hello": None,
    }
    if kind in (5, 6):
        return fields | {"fragment": wire}
    if kind != 100:
        raise Invalid("no packet's type")
    found = elements_of(inside)
    if found and found[-1][0] == 0x50:
        fields["fragment"] = found.pop()[1]
    kinds = [kind for kind, _ in found]
    repeated = {kind for kind in kinds if kinds.count(kind) > 1} - {0x344}
    if 0x50 in kinds or kinds != sorted(kinds) or repeated:
        raise Invalid("order")
    for kind, value in found:
        fields |= _lp_field(kind, value, fields)
    if fields["frag_index"] >= fields["frag_count"]:
        raise Invalid("fragment")
    return fields


def _lp_field(kind: int, value: bytes, before: Fields) -> Fields:
    plain = {0x52: "frag_index", 0x53: "frag_count", 0x340: "congestion_mark"}
    plain |= {0x32C: "incoming_face", 0x330: "next_hop_face"}
    if kind in plain:
        return {plain[kind]: number(value)}
    match kind:
        case 0x51:
            return {"sequence": _exactly(8, value)}
        case 0x348:
            return {"tx_sequence": _exactly(8, value)}
        case 0x344:
            return {"acks": [*before["acks"], _exactly(8, value)]}
        case 0x62 if 1 <= len(value) <= 32:
            return {"pit_token": value}
        case 0x320:
            return {"nack_reason": _numbers(value, (0x321,)).get(0x321, 0)}
        case 0x334:
            return {"cache_policy": _numbers(value, (0x335,)).get(0x335, 0)}
        case 0x34C:
            return {"non_discovery": True}
        case 0x350:
            return {"announcement": value}
        case 0x370:
            return _feed_state(value)
        case 0x378:
            return {"hello": value}
        case _ if kind == 0x62 or not 800 <= kind < 960 or kind % 4:
            raise Invalid(f"field {kind}")
    return {}


def _feed_state(value: bytes) -> Fields:
    found = elements_of(value)
    feed = found.pop(0)[1] if found and found[0][0] == 7 else None
    parts = _recognise(found, (0x371, 0x372, 0x373, 0x374))
    offered = evidence(parts.pop(0x374)) if 0x374 in parts else None
    known = {kind: number(part) for kind, part in parts.items()}
    if not {0x371, 0x372} <= set(known):
        raise Invalid("FeedState")
    first = known.get(0x373)
    return {"feed": feed, "tip": known[0x371], "limit": known[0x372], "first": first, "evidence": offered}
