"""Persistent Interests (Moll, Theuermann and Hellwagner 2018): one that Data do not use up.

A persistent Interest is an Interest with one more element, empty, of a type that is even and in the
application range: a forwarder that does not know it ignores it, and sees a plain Interest.
"""

from typing import Final

from forwarder.wire.packet import Interest
from forwarder.wire.tlv import element, elements, read_header

PERSISTENT: Final = 0xFA


def make_persistent(interest: bytes) -> bytes:
    """Return an Interest packet made persistent; it must hold no other application's element of that type."""
    _, start, end = read_header(interest, 0, len(interest))
    return element(interest[0], interest[start:end] + element(PERSISTENT))


def is_persistent(interest: Interest) -> bool:
    """Return whether an Interest is persistent: its first such element must be empty."""
    wire = interest.wire
    _, start, end = read_header(wire, 0, len(wire))
    for kind, value, after in elements(wire, start, end):
        if kind == PERSISTENT:
            return value == after  # else it is of others, who may use this type too
    return False
