"""Packets between neighbours in a multicast tree: a byte of type, then its fields, big-endian.

| type | fields |
|---|---|
| 1 join, 2 prune | channels, 8 bytes each |
| 3 restart | |
| 4 item, 5 repair | channel, number (4), before (1), place (1), content |
| 6 heartbeat | channel, oldest (4), newest (4), before (1) |
| 7 request | channel, ranges of a first number (4) and a count (2) |

A channel is a source's IPv4 address and a group (RFC 4607). Segments are numbered from 1. `before` counts the
segments right before this one, or up to the newest, that the sender does not lack; 255 stands for 255 or
more. A receiver that lacks one of these has lost it on this link, and asks for it. Others lack at the sender
as well, which asks for them itself: so one node asks for a lost segment, not all below it.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

PORT: Final = 4607
"""UDP port at both ends of a link."""
MOST_CHANNELS: Final = 64
"""Channels of a join or prune."""
MOST_RANGES: Final = 80
"""Ranges of a request."""
MOST_BEFORE: Final = 255
LAST_NUMBER: Final = (1 << 32) - 1
FIRST, LAST = 1, 2
"""Bits of a segment's place: it begins an item, it ends one."""

_JOIN, _PRUNE, _RESTART, _ITEM, _REPAIR, _HEARTBEAT, _REQUEST = range(1, 8)
_CHANNEL: Final = struct.Struct("!4s4s")
_HEAD: Final = struct.Struct("!4s4sIBB")
_BEAT: Final = struct.Struct("!4s4sIIB")
_RANGE: Final = struct.Struct("!IH")
ITEM_BYTES: Final = 1 + _HEAD.size
"""Bytes of an item's packet besides its content."""


class InvalidPacket(ValueError):
    """These bytes are no packet; the message says why, in few words."""


class Channel(NamedTuple):
    """A source and one of its groups: four bytes each."""

    source: bytes
    group: bytes


class Join(NamedTuple):
    """The sender wants these channels."""

    channels: tuple[Channel, ...]


class Prune(NamedTuple):
    """The sender does not want these channels any longer."""

    channels: tuple[Channel, ...]


class Restart(NamedTuple):
    """The sender has lost its state, as a new generation ID of PIM says."""


class Segment(NamedTuple):
    """A part of an item, or all of it; see FIRST and LAST for its place."""

    place: int
    content: bytes


class Item(NamedTuple):
    """A segment; `is_repair` if somebody has asked for it."""

    channel: Channel
    number: int
    before: int
    segment: Segment
    is_repair: bool = False


class Heartbeat(NamedTuple):
    """The source has the segments from `oldest` to `newest`; none if `newest` is smaller."""

    channel: Channel
    oldest: int
    newest: int
    before: int = MOST_BEFORE


class Request(NamedTuple):
    """The sender lacks segments: ranges of a first number and a count."""

    channel: Channel
    ranges: tuple[tuple[int, int], ...]


Packet = Join | Prune | Restart | Item | Heartbeat | Request


def encode(packet: Packet) -> bytes:
    """Return the bytes of a packet."""
    if isinstance(packet, Item):
        kind = _REPAIR if packet.is_repair else _ITEM
        place, content = packet.segment
        return bytes((kind,)) + _HEAD.pack(*packet.channel, packet.number, packet.before, place) + content
    if isinstance(packet, Heartbeat):
        channel, *numbers = packet
        return bytes((_HEARTBEAT,)) + _BEAT.pack(*channel, *numbers)
    if isinstance(packet, Request):
        ranges = b"".join(_RANGE.pack(*each) for each in packet.ranges)
        return bytes((_REQUEST,)) + _CHANNEL.pack(*packet.channel) + ranges
    if isinstance(packet, Restart):
        return bytes((_RESTART,))
    kind = _JOIN if isinstance(packet, Join) else _PRUNE
    return bytes((kind,)) + b"".join(_CHANNEL.pack(*each) for each in packet.channels)


def parse(data: bytes) -> Packet:
    """Return the packet that bytes are. Raises InvalidPacket."""
    kind, body = (data[0], data[1:]) if data else (0, b"")
    if kind in (_JOIN, _PRUNE):
        if not body or len(body) % _CHANNEL.size or len(body) > MOST_CHANNELS * _CHANNEL.size:
            raise InvalidPacket("no list of channels")
        channels = tuple(Channel(*each) for each in _CHANNEL.iter_unpack(body))
        return Join(channels) if kind == _JOIN else Prune(channels)
    if kind == _RESTART and not body:
        return Restart()
    if kind in (_ITEM, _REPAIR) and len(body) > _HEAD.size:
        source, group, number, before, place = _HEAD.unpack_from(body)
        if not number or place > FIRST | LAST:
            raise InvalidPacket("no segment's number and place")
        segment = Segment(place, body[_HEAD.size :])
        return Item(Channel(source, group), number, before, segment, kind == _REPAIR)
    if kind == _HEARTBEAT and len(body) == _BEAT.size:
        source, group, oldest, newest, before = _BEAT.unpack(body)
        if not 1 <= oldest <= newest + 1:
            raise InvalidPacket("no range of segments")
        return Heartbeat(Channel(source, group), oldest, newest, before)
    if kind == _REQUEST and len(body) > _CHANNEL.size:
        return _request(body)
    raise InvalidPacket("no packet of a multicast tree")


def _request(body: bytes) -> Request:
    said = body[_CHANNEL.size :]
    if len(said) % _RANGE.size or len(said) > MOST_RANGES * _RANGE.size:
        raise InvalidPacket("no list of ranges")
    ranges = tuple((first, count) for first, count in _RANGE.iter_unpack(said))
    end = 1
    for first, count in ranges:
        if first < end or not count or first + count - 1 > LAST_NUMBER:
            raise InvalidPacket("ranges that are empty or not in order")
        end = first + count
    return Request(Channel(*_CHANNEL.unpack_from(body)), ranges)


def requests(channel: Channel, numbers: Iterable[int]) -> Sequence[Request]:
    """Return the requests for some segments, as few as possible."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and sum(ranges[-1]) == number and ranges[-1][1] < 0xFFFF:
            ranges[-1] = ranges[-1][0], ranges[-1][1] + 1
        else:
            ranges.append((number, 1))
    return [
        Request(channel, tuple(ranges[at : at + MOST_RANGES])) for at in range(0, len(ranges), MOST_RANGES)
    ]
