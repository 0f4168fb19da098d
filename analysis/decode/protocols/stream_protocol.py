"""What the analysis knows of a protocol over TCP."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from captures.framing import Framing


class StreamMessage(NamedTuple):
    """A message in one direction of a connection.

    Attributes:
        kind: what it is, one of the protocol's kinds.
        sizes: its bytes by layer, in the order of the protocol's layers, without
        payload_bytes: those that are an application's message.
        feed, seq: the feed's reference and the message's number, if it is a message of a feed.
    """

    kind: str
    sizes: tuple[int, ...]
    payload_bytes: int = 0
    feed: str | None = None
    seq: int | None = None


class Conversation(Protocol):
    """A connection, whose two directions are cut by framings that may know of each other."""

    def framing(self, from_client: bool) -> Framing[StreamMessage]:
        """Return what cuts one direction; a client is the end that has opened the connection."""


class StreamProtocol(Protocol):
    """A protocol over TCP.

    Attributes:
        ports: the TCP ports of its servers.
        layers: what its bytes are for, from the wire up, beside the payload.
        control: the kinds of messages that bring no message of a feed.
    """

    @property
    def ports(self) -> frozenset[int]: ...  # noqa: D102

    @property
    def layers(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def control(self) -> frozenset[str]: ...  # noqa: D102

    def conversation(self, secrets: Sequence[bytes]) -> Conversation:
        """Return a connection that is about to be read; `secrets` are the keys of its run."""
