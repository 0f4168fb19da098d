"""Workload of the bench: deterministic packets and feeds, and the forwarders."""

import hashlib
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.wire.feed import feed_name, item_name, native_content
from forwarder.wire.name import SEQUENCE, component, from_uri
from forwarder.wire.packet import DEFAULT_LIFETIME_MS, ED25519, SENT_HOP_LIMIT, make_data, make_interest
from forwarder.wire.tlv import nni
from ssb.keys import SIGNATURE_BYTES, Identity
from ssb.message import Message
from ssb_over_ndn.naming import log_name, message_packet

DOWN, UP, DOWN_TOO = 1, 2, 3
"""Faces: Interests come from below, Data from above."""

WINDOW = 64
"""Packets in flight at a time."""

PAYLOAD_BYTES = 1024

_PREFIX = from_uri("/feednet/bench")
_FIRST = 1 << 16  # sequence numbers of equal length make packets of equal length
_CS_CAPACITY = 4096  # less than a repetition's packets: in a full store each arrival evicts one


class BenchError(Exception):
    """A failed or invalid measurement; the message is one line."""


class Exchanges(NamedTuple):
    """Interests, each with its Data packet."""

    interests: list[bytes]
    data: list[bytes]

    def windows(self) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield the Interests and the Data of one window after the other."""
        for first in range(0, len(self.interests), WINDOW):
            yield self.interests[first : first + WINDOW], self.data[first : first + WINDOW]


def make_exchanges(count: int) -> Exchanges:
    """Make Interests of 49 bytes with HopLimit and lifetime, and Data of 1155 bytes.

    The signatures are not real: a forwarder verifies feed items only.
    """
    payload = Random(0).randbytes(PAYLOAD_BYTES)
    writer = from_uri("/writer")
    prefix = _PREFIX + from_uri("/forwards")
    load = Exchanges([], [])
    for number in range(count):
        name = prefix + component(SEQUENCE, nni(_FIRST + number))
        load.interests.append(
            make_interest(name, nonce=number, lifetime_ms=DEFAULT_LIFETIME_MS, hop_limit=SENT_HOP_LIMIT)
        )
        load.data.append(
            make_data(
                name,
                payload,
                freshness_ms=DEFAULT_LIFETIME_MS,
                signature_type=ED25519,
                key_name=writer,
                sign=lambda _: bytes(SIGNATURE_BYTES),
            )
        )
    return load


class Feed(NamedTuple):
    """A feed's name and its items' Data packets, from the first."""

    name: bytes
    items: list[bytes]


def native_feed(count: int) -> Feed:
    """Make a feed of native items with payloads of 1 kB."""
    rng = Random(0)
    writer = Identity.from_seed(rng.randbytes(32))
    feed = Feed(feed_name(_PREFIX, writer.public_key), [])
    backlink = b""
    for seq in range(1, count + 1):
        content = native_content(backlink, rng.randbytes(PAYLOAD_BYTES))
        item = make_data(item_name(feed.name, seq), content, signature_type=ED25519, sign=writer.sign)
        backlink = hashlib.sha256(item).digest()
        feed.items.append(item)
    return feed


def ssb_feed(messages: Sequence[Message]) -> Feed:
    """Make a feed of classic SSB messages."""
    return Feed(log_name(messages[0].author), [message_packet(message) for message in messages])


def _forwarder() -> Forwarder:
    """Return a forwarder with routes of one to three components; the bench's own has two."""
    forwarder = Forwarder(rng=Random(0), cs_capacity=_CS_CAPACITY)
    for number in range(32):
        for uri in (f"/{number}", f"/{number}/other", f"/{number}/other/route"):
            forwarder.fib.add(from_uri(uri), UP)
    forwarder.fib.add(_PREFIX, UP)
    return forwarder


def new_forwarder() -> Forwarder:
    """Return a forwarder with its three faces."""
    forwarder = _forwarder()
    for face in (DOWN, UP, DOWN_TOO):
        forwarder.add_face(face)
    return forwarder


def bare_host() -> Host:
    """Return a host that creates faces on demand: the second one is UP."""
    return Host(_forwarder())


def new_host() -> Host:
    """Return a forwarder with the links of two faces, as a driver runs it."""
    host = Host(_forwarder())
    if (host.add_link(), host.add_link()) != (DOWN, UP):
        raise BenchError("a Host no longer numbers its faces from 1")
    return host
