"""Interface of a replication protocol."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ssb.canonical import Value
from ssb.message import ForkedFeed, InvalidMessage, Message


class ProtocolError(ValueError):
    """The peer does not keep to the protocol; the message says how, in few words."""


class SetAside(NamedTuple):
    """Why a feed that is wanted does not come any further.

    Attributes:
        remote: the peer that has sent the message that was refused last.
        reason: of the refusal.
    """

    remote: str
    reason: str


class Replication(Protocol):
    """A peer's replication with all others; its caller numbers the connections.

    It is a duplex call of muxrpc, whose bodies it takes in and puts out.
    """

    @property
    def name(self) -> tuple[str, ...]:
        """Name of the call."""

    @property
    def request(self) -> Mapping[str, Value]:
        """Argument of the call."""

    @property
    def is_mutual(self) -> bool:
        """Whether one connection between two peers does what either of both would call the other for."""

    def refuses(self, request: Value) -> str:
        """Return why a call with this argument is refused; "" if it is not."""

    @property
    def wanted(self) -> Collection[str]:
        """The feeds that are replicated."""

    def want_all(self, feeds: Iterable[str], now: int) -> None:
        """Replicate feeds from now on."""

    def lost(self, feed: str, now: int) -> None:
        """Ask for messages of a feed again: the store has found some damaged, and its tip is before them."""

    def unwant(self, feed: str, now: int) -> None:
        """Replicate a feed no more."""

    def hides(self, feed: str, peer: str) -> bool:
        """Tell whether a feed is not exchanged with a peer, as its author has blocked the peer."""

    @property
    def set_aside(self) -> Mapping[str, SetAside]:
        """The feeds of which a message was refused, and nothing newer has been stored since then."""

    def put_aside(self, feed: str, remote: str, reason: str) -> None:
        """Note that a message of a feed was refused that a peer has sent by another way than this call."""

    def append(
        self, messages: Sequence[Message], now: int, received: float, by: int | None = None
    ) -> Mapping[str, InvalidMessage | ForkedFeed]:
        """Store messages and pass them on; return for each feed with a bad one why it was refused.

        `received` is the time of receipt, in ms since 1970; `by` the connection that they came on.
        """

    def appended(self, feed: str, now: int, by: int | None = None) -> None:
        """Pass on that the store has newer messages of a feed; `by` is the connection that they came on."""

    def open(self, number: int, remote: str, *, is_caller: bool, now: int) -> None:
        """Begin with a connection; `is_caller` on the side that made the call."""

    def close(self, number: int, now: int) -> None:
        """End with a connection."""

    def is_over(self, number: int) -> bool:
        """Tell whether a connection has done what it was opened for, so that the caller may close it."""

    @property
    def sessions(self) -> Mapping[int, object]:
        """The state of each connection, by its number."""

    def exchanges(self) -> int:
        """Return the number of feeds of which there is state, over all connections."""

    def receive(self, number: int, bodies: Iterable[bytes], now: int, received: float) -> None:
        """Take in bodies that came on a connection; raise ProtocolError.

        `received` is the time of receipt for the store, in ms since 1970.
        """

    def take_stored(self) -> list[Message]:
        """Return the messages that were stored since the last call."""

    def output_due(self, number: int) -> int | None:
        """Return when there is something to be sent on a connection, ns; 0 if there is now, None if not."""

    @property
    def is_stirred(self) -> bool:
        """Whether take_stirred() has something to return."""

    def take_stirred(self) -> Iterable[int]:
        """Return the connections whose output_due() may have changed since the last call."""

    def take_output(self, number: int, room: int, now: int) -> list[bytes]:
        """Return bodies to be sent on a connection, in order: about `room` bytes at most."""

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns; what is to be sent is not counted."""

    def wake(self, now: int) -> None:
        """Do what is due."""
