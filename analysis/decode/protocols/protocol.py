"""What a protocol is to the analysis: its ports, its messages, and how they are cut out of TCP.

A protocol over TCP gives a *framer*, one for each connection, which is shown the bytes of both directions in
the order in which they were seen, and told of gaps. It yields messages, each with the layers that its bytes
belong to. NDN has no framer: its packets are decoded by the thousand (analysis/decode/batch.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from analysis.packet_schema import Column
from base.key_log import Secrets

NDN = "ndn"
"""The protocol of layerings whose nodes have PITs."""

PAYLOAD, UNREAD, ENCRYPTED = "payload", "unread", "encrypted"
"""Layers that every protocol may have: the message of a feed; what no framer could read; what it could not
decrypt, as it has no key."""

ITEM = "data"
"""The kind of a message that brings an item of a feed, whatever the protocol."""


class Message(NamedTuple):
    """A message, and each byte that it takes of the stream.

    kind: one of its protocol's kinds; parts: (layer, bytes) in the order of the stream, so that the parts of
    all messages of a direction make up its bytes; feed, seq: of the item that it brings or is about; fields:
    values of the protocol's own columns; said: what it says of feeds, as (feed, words) for readers of
    single messages; plain: its bytes without encryption, for other programs, or nothing.
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
    """The two ends of a connection: addresses and ports of the one that opened it, and of the other."""

    opener: str
    opener_port: int
    acceptor: str
    acceptor_port: int


class Framer(Protocol):
    """Cuts the messages out of both directions of one connection.

    The messages of a direction follow each other without gaps: bytes that belong to none are a message of
    kind UNREAD. One that raises ValueError is asked no more about that direction.
    """

    def receive(self, from_opener: bool, data: bytes) -> Iterable[Message]:
        """Take the next bytes of a direction; return the messages that they complete."""
        ...

    def lose(self, from_opener: bool) -> None:
        """Take note that bytes are missing: what was begun does not go on, and is UNREAD."""
        ...


class Datagram(NamedTuple):
    """What a datagram is: its kind, and what is wrong with it."""

    kind: str
    problem: str | None = None


class Layer(NamedTuple):
    """A layer of overhead: its key, and its name for people."""

    key: str
    title: str


@dataclass(frozen=True)
class Declaration:
    """A protocol, declared.

    Attributes:
        name: its name, that of its table, and what a layering calls its protocol.
        tcp_ports: TCP ports of the end that accepts connections.
        kinds: of its messages, each with its name for people.
        control: the kinds that are not messages of a feed, but about them.
        wrapping: the kinds that hold packets of another protocol, whose items are not told.
        layers: of overhead, besides PAYLOAD, UNREAD and ENCRYPTED.
        columns: of its own table, besides those that all have.
        framer: makes a connection's framer; None if it has none.
        udp_ports: UDP ports of a protocol whose datagrams are packets.
        datagram: what such a datagram is, from its payload; None if there is no such protocol.
        dissector: what reads Message.plain in the plugin for Wireshark, by its name there; "" for nothing.
    """

    name: str
    tcp_ports: frozenset[int] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)
    control: frozenset[str] = frozenset()
    wrapping: frozenset[str] = frozenset()
    layers: Sequence[Layer] = ()
    columns: tuple[Column, ...] = ()
    framer: Callable[[Ends, Secrets], Framer] | None = None
    dissector: str = ""
    udp_ports: frozenset[int] = frozenset()
    datagram: Callable[[bytes], Datagram] | None = None
