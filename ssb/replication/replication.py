"""Interface of a replication protocol."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ssb.canonical import InvalidJson, Value, parse_bytes
from ssb.message import ForkedFeed, InvalidMessage, Message


class ProtocolError(ValueError):
    """The peer violates the protocol; the message has the reason, in few words."""


class InvalidRequest(ValueError):
    """Invalid arguments of a call, or an invalid part of its stream; the message has the reason."""


def read_object(body: bytes, what: str) -> dict[str, Value]:
    """Return the object in a part of a stream; raise InvalidRequest, which says what cannot be read."""
    try:
        value = parse_bytes(body)
    except InvalidJson as error:
        raise InvalidRequest(f"{what} that cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"{what} that are no object")
    return value


class SetAside(NamedTuple):
    """Why a wanted feed makes no progress.

    Attributes:
        remote: the peer that sent the last refused message.
        reason: of the refusal.
    """

    remote: str
    reason: str


class Replication(Protocol):
    """A peer's replication with all others; its caller numbers the connections.

    It is a duplex call of muxrpc, whose bodies it receives and sends.
    """

    @property
    def name(self) -> tuple[str, ...]:
        """Name of the call."""

    @property
    def request(self) -> Mapping[str, Value]:
        """Argument of the call."""

    @property
    def is_mutual(self) -> bool:
        """Whether one connection between two peers serves both, whichever has called."""

    def refuses(self, request: Value) -> str:
        """Return why a call with this argument is refused; "" if it is not."""

    @property
    def wanted(self) -> Collection[str]:
        """The feeds that are replicated."""

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """Replicate feeds from now on."""

    def on_lost(self, feed: str, now: int) -> None:
        """Request messages of a feed again: some are damaged in the store, and its tip is before them."""

    def unwant(self, feed: str, now: int) -> None:
        """Stop replicating a feed."""

    def hides(self, feed: str, peer: str) -> bool:
        """Whether a feed is hidden from a peer, as its author has blocked the peer."""

    @property
    def set_aside(self) -> Mapping[str, SetAside]:
        """Feeds with a refused message, and none stored since then."""

    def put_aside(self, feed: str, remote: str, reason: str) -> None:
        """Record the refusal of a message that a peer has sent outside of this call."""

    def append(
        self, messages: Sequence[Message], now: int, received: float, by: int | None = None
    ) -> Mapping[str, InvalidMessage | ForkedFeed]:
        """Store messages and forward them; return the reason for each feed with an invalid one.

        `received` is the time of receipt, in ms since 1970; `by` their connection.
        """

    def on_appended(self, feed: str, now: int, by: int | None = None) -> None:
        """Forward newer messages of a feed in the store; `by` is their connection."""

    def open(self, number: int, remote: str, *, is_caller: bool, now: int) -> None:
        """Add a connection; `is_caller` on the side that made the call."""

    def close(self, number: int, now: int) -> None:
        """Remove a connection."""

    def is_over(self, number: int) -> bool:
        """Whether a connection is finished, so that the caller may close it."""

    @property
    def sessions(self) -> Mapping[int, object]:
        """The state of each connection, by its number."""

    def exchanges(self) -> int:
        """Return the number of feeds with state, over all connections."""

    def receive(self, number: int, bodies: Iterable[bytes], now: int, received: float) -> None:
        """Process bodies received on a connection; raise ProtocolError.

        `received` is the time of receipt for the store, in ms since 1970.
        """

    def take_stored(self) -> list[Message]:
        """Return the messages stored since the last call."""

    def output_due(self, number: int) -> int | None:
        """Return when there is output for a connection, ns; 0 for now, None for none."""

    @property
    def has_changed(self) -> bool:
        """Whether take_changed() is not empty."""

    def take_changed(self) -> Iterable[int]:
        """Return the connections whose output_due() may have changed since the last call."""

    def take_output(self, number: int, room: int, now: int) -> list[bytes]:
        """Return bodies to send on a connection, in order: about `room` bytes at most.

        The caller then asks output_due(): take_changed() does not name the connection for this.
        """

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns, regardless of output."""

    def wake(self, now: int) -> None:
        """Handle the deadlines that have passed."""
