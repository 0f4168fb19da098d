"""Prefix announcements (NFD wiki, "Prefix Announcement Protocol"): Data that ask for a route.

Name     <prefix>/32=PA/<version>/seg=0
MetaInfo ContentType 5
Content  ExpirationPeriod (ms), ValidityPeriod?
"""

from dataclasses import dataclass

from forwarder.management.keys import validity_of
from forwarder.management.parameters import EXPIRATION_PERIOD
from forwarder.wire.name import KEYWORD, SEGMENT, VERSION, component, components
from forwarder.wire.packet import Data, make_data, parse_data
from forwarder.wire.tlv import (
    MalformedPacket,
    check_ignorable,
    element,
    elements,
    nni,
    read_header,
    read_nni,
)

CONTENT_TYPE = 5
_MARK = (KEYWORD, b"PA")
_FIRST = (SEGMENT, nni(0))
_VALIDITY_PERIOD = 253

ROUTE_COST = 2048
"""Of a route that is made from one, as in NFD."""


@dataclass(frozen=True)
class Announcement:
    """A prefix announcement.

    Attributes:
        data: the packet.
        prefix: the announced prefix.
        expiration_ms: validity after it has been received.
        not_before, not_after: validity period, ns since 1970; 0 and None without bounds.
    """

    data: Data
    prefix: bytes
    expiration_ms: int
    not_before: int
    not_after: int | None

    def expires(self, now: int) -> int:
        """Return until when it counts if it has come at `now`, ns; not after `now` if it does not."""
        if now < self.not_before:
            return now
        expiry = now + self.expiration_ms * 1_000_000
        return expiry if self.not_after is None else min(expiry, self.not_after)


def announcement_in(payload: bytes) -> Announcement:
    """Parse the prefix announcement that ApplicationParameters begin with; raise MalformedPacket."""
    _, _, end = read_header(payload, 0, len(payload))
    return parse_announcement(payload[:end])


def parse_announcement(wire: bytes) -> Announcement:
    """Parse a prefix announcement; raise MalformedPacket. Its signature is not looked at."""
    data = parse_data(wire)
    parts = components(data.name)
    if len(parts) < 3 or parts[-3] != _MARK or parts[-2][0] != VERSION or parts[-1] != _FIRST:
        raise MalformedPacket("a prefix announcement's name ends with 32=PA, a version and seg=0")
    read_nni(parts[-2][1])
    if data.content_type != CONTENT_TYPE:
        raise MalformedPacket(f"ContentType {data.content_type} is not that of a prefix announcement")
    content = data.content
    expiration = None
    for kind, start, end in elements(content, 0, len(content)):
        if kind == EXPIRATION_PERIOD:
            expiration = read_nni(content[start:end])
        elif kind != _VALIDITY_PERIOD:
            check_ignorable(kind)
    if expiration is None:
        raise MalformedPacket("a prefix announcement has an ExpirationPeriod")
    prefix = b"".join(component(*part) for part in parts[:-3])
    return Announcement(data, prefix, expiration, *validity_of(content))


def make_announcement(prefix: bytes, expiration_ms: int, version: int) -> bytes:
    """Build a prefix announcement, with a DigestSha256 signature."""
    name = prefix + component(*_MARK) + component(VERSION, nni(version)) + component(*_FIRST)
    content = element(EXPIRATION_PERIOD, nni(expiration_ms))
    return make_data(name, content, content_type=CONTENT_TYPE)
