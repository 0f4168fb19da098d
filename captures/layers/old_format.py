"""Interests of the packet format before 0.3 (with Selectors), converted to the current format.

So readers of captures need one parser only; forwarders drop such Interests. An old Interest requests any Data
whose name it is a prefix of, unless MaxSuffixComponents is 1: then only the digest may follow. Of the
Selectors, MustBeFresh is kept. Old Interests without Selectors, and old Data, are valid in the current
format.

Source: NDN packet format 0.2, section "Interest Packet".
"""

from typing import Final

from forwarder.wire.name import NAME
from forwarder.wire.packet import INTEREST
from forwarder.wire.tlv import MalformedPacket, check_ignorable, element, elements, read_header, read_nni

OLD_FORMAT: Final = "old packet format (Selectors)"
"""Note on such an Interest."""

SELECTORS: Final = 9
MIN_SUFFIX, MAX_SUFFIX, PUBLISHER, EXCLUDE, CHILD, FRESH = 13, 14, 28, 16, 17, 18
ORDER: Final = (MIN_SUFFIX, MAX_SUFFIX, PUBLISHER, EXCLUDE, CHILD, FRESH)
_NUMBERS = (MIN_SUFFIX, MAX_SUFFIX, CHILD)
_CAN_BE_PREFIX = 33


def is_old(packet: bytes) -> bool:
    """Return whether an Interest has Selectors after its Name."""
    try:
        _, start, end = read_header(packet, 0, len(packet))
        kind, _, after = read_header(packet, start, end)
        return kind == NAME and after < end and packet[after] == SELECTORS
    except MalformedPacket:
        return False


def to_current_format(packet: bytes) -> bytes:
    """Convert an old Interest to the current format; raise MalformedPacket."""
    _, start, end = read_header(packet, 0, len(packet))
    _, _, name_end = read_header(packet, start, end)
    _, first, after = read_header(packet, name_end, end)
    if after < end and packet[after] in (_CAN_BE_PREFIX, FRESH):
        raise MalformedPacket(f"element of type {packet[after]} out of order or repeated")
    can_be_prefix, must_be_fresh = _read_selectors(packet[first:after])
    flags = element(_CAN_BE_PREFIX) * can_be_prefix + element(FRESH) * must_be_fresh
    return element(INTEREST, packet[start:name_end] + flags + packet[after:end])


def _read_selectors(value: bytes) -> tuple[bool, bool]:
    last, most, must_be_fresh = -1, 0, False
    for kind, start, end in elements(value, 0, len(value)):
        rank = ORDER.index(kind) if kind in ORDER else -1
        if rank <= last:
            check_ignorable(kind, rank >= 0)
            continue
        last = rank
        number = read_nni(value[start:end]) if kind in _NUMBERS else 0
        if kind == MAX_SUFFIX:
            most = number
        elif kind == FRESH:
            if start != end:
                raise MalformedPacket(f"MustBeFresh of {end - start} bytes")
            must_be_fresh = True
    return most != 1, must_be_fresh
