"""Declaration of a protocol: its ports, its messages, and its framer for TCP.

A framer is created for each connection, receives the bytes of both directions in capture order and notice of
gaps, and yields messages with their layers. NDN has no framer: analysis/decode/batch.py decodes its packets
by the thousand.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from base.key_log import Secrets

if TYPE_CHECKING:
    from analysis.packet_schema import Column

NDN = "ndn"
"""The protocol of layerings with PITs."""

PAYLOAD, UNREAD, ENCRYPTED = "payload", "unread", "encrypted"
"""Layers of every protocol: a feed's message; unparsed bytes; bytes without a decryption key."""

ITEM = "data"
"""The kind of a message that carries a feed item, in every protocol."""


class Message(NamedTuple):
    """A message, with each of its stream bytes assigned to a layer.

    kind: one of its protocol's kinds; parts: (layer, bytes) in stream order, so that all parts of a direction
    add up to its bytes; feed, seq: of the item it carries or concerns; fields: values of the protocol's own
    columns; said: (feed, words) for readers of single messages; plain: decrypted bytes for export, or empty.
    """

    kind: str
    parts: tuple[tuple[str, int], ...]
    feed: str | None = None
    seq: int | None = None
    fields: Mapping[str, Any] = {}
    said: tuple[tuple[str, str], ...] = ()
    plain: bytes = b""

    @property
    def size(self) -> int:
        """Its bytes of the stream."""
        return sum(size for _, size in self.parts)


class Ends(NamedTuple):
    """The two ends of a connection: address and port of the opener, and of the acceptor."""

    opener: str
    opener_port: int
    acceptor: str
    acceptor_port: int


class Framer(Protocol):
    """Frames both directions of one connection.

    The messages of a direction are contiguous: bytes outside messages form a message of kind UNREAD. After a
    ValueError, the direction is given up.
    """

    def receive(self, from_opener: bool, data: bytes) -> Iterable[Message]:
        """Process the next bytes of a direction; return completed messages."""
        ...

    def on_gap(self, from_opener: bool) -> None:
        """Handle a gap: incomplete messages become UNREAD."""
        ...


class Datagram(NamedTuple):
    """A classified datagram: its kind, its problem if malformed, its name, as a URI, if it has one, how
    many of its bytes are a feed's message, and the feed and number of a message that begins in it.
    """

    kind: str
    problem: str | None = None
    name: str | None = None
    payload: int = 0
    feed: str | None = None
    seq: int | None = None


class Layer(NamedTuple):
    """A layer of overhead: key and display name."""

    key: str
    title: str


@dataclass(frozen=True)
class Declaration:
    """Declaration of a protocol.

    Attributes:
        name: of the protocol, of its table, and of a layering's protocol.
        tcp_ports: TCP ports of the accepting end.
        kinds: message kinds with their display names.
        control: kinds that concern feeds and carry no item.
        wrapping: kinds that hold packets of another protocol, whose items are not listed.
        layers: of overhead, besides PAYLOAD, UNREAD and ENCRYPTED.
        columns: of its own table, besides the common ones.
        framer: creates a connection's framer; None if it has none.
        udp_ports: UDP ports, if datagrams are packets.
        datagram: classifies a datagram's payload; None if packets are not datagrams.
        dissector: name of the dissector for Message.plain in the plugin for Wireshark; "" for none.
    """

    name: str
    tcp_ports: frozenset[int] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)
    control: frozenset[str] = frozenset()
    wrapping: frozenset[str] = frozenset()
    layers: Sequence[Layer] = ()
    columns: "tuple[Column, ...]" = ()
    framer: Callable[[Ends, Secrets], Framer] | None = None
    dissector: str = ""
    udp_ports: frozenset[int] = frozenset()
    datagram: Callable[[bytes], Datagram] | None = None
