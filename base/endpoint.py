"""Sans-IO contracts of programs on a node: datagrams, streams and links.

The emulator, the driver of Mininet's nodes and the simulator know this contract, and nothing of the
protocols behind it. A program is an endpoint and its ports, which say where datagrams and streams reach it.
The endpoint is called with what arrives, and asked afterwards what it puts out and when it wants to be woken.
Time is an argument, in ns.

Streams are TCP's. An endpoint that opens one chooses its number, above 0; one that others open has a number
below 0. A `Send` is never refused: what the connection does not take waits. An endpoint that sends nothing
between `Full` and `Writable` keeps little waiting.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from base.interface import Interface, LinkEnd

NDN_PORT = 6363
"""UDP port of NDN, at both ends of a link."""

Address = tuple[str, int]
"""An IPv4 address and a port."""


class LinkPort(NamedTuple):
    """Datagrams from and to the neighbour on a link: UDP port `number` at both ends."""

    interface: LinkEnd
    number: int = NDN_PORT


class DatagramPort(NamedTuple):
    """Datagrams from and to any node, by the underlay: UDP port `number` at the node's address."""

    number: int


class GroupPort(NamedTuple):
    """Datagrams from and to all on a medium or a link that listen to a group: UDP port `number`.

    The group is an IPv4 multicast address, or 255.255.255.255 for all. A datagram has a time to live of 1,
    and does not come back to its sender. In Mininet the kernel sends IGMP reports for a group outside
    224.0.0.0/24, and captures show them.

    If it `is_shared`, other programs of this machine may listen, too. They hear what is sent here; so it is
    sent from a port of its own, by which each knows what is its own.
    """

    interface: Interface
    group: str
    number: int
    is_shared: bool = False


class StreamPort(NamedTuple):
    """Streams that others open: TCP port `number` at the node's address."""

    number: int


Port = LinkPort | DatagramPort | GroupPort | StreamPort


class Opened(NamedTuple):
    """A stream is open: one that this endpoint has asked for, or one that has come to `port`."""

    stream: int
    peer: Address
    port: int | None = None


class Received(NamedTuple):
    """Bytes have come."""

    stream: int
    data: bytes


class Full(NamedTuple):
    """The connection cannot take all that was sent; it may be told before the stream is open."""

    stream: int


class Writable(NamedTuple):
    """The connection has taken all that was sent, and has room for more; this follows Full."""

    stream: int


class Ended(NamedTuple):
    """The other end sends no more."""

    stream: int


class Closed(NamedTuple):
    """The stream is over; `reason` is "" if both ends have closed it, else a few words."""

    stream: int
    reason: str


StreamEvent = Opened | Received | Full | Writable | Ended | Closed


class Connect(NamedTuple):
    """Open a stream; Opened or Closed follows."""

    stream: int
    to: Address


class Send(NamedTuple):
    """Send bytes on a stream."""

    stream: int
    data: bytes


class Pause(NamedTuple):
    """Take no more bytes, so that the other end has to wait; `False` takes them again."""

    stream: int
    paused: bool = True


class Close(NamedTuple):
    """Send no more after what was sent; if `abort`, break the stream off."""

    stream: int
    abort: bool = False


StreamAction = Connect | Send | Pause | Close


class Endpoint(Protocol):
    """A sender and receiver of datagrams, with port numbers of its own."""

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """Take in a datagram; `sender` is None at a LinkPort, where there is one neighbour."""
        ...

    def set_link(self, port: int, up: bool, now: int) -> None:
        """Take note that the link of a LinkPort is down, or up again."""
        ...

    def take_outputs(self) -> Sequence[tuple[int, bytes, Address | None]]:
        """Return the (port, datagram, to) to be sent, in order; `to` matters at a DatagramPort alone."""
        ...

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        ...

    def wake(self, now: int) -> None:
        """Act on a deadline; without one that is due, do nothing."""
        ...


@runtime_checkable
class StreamEndpoint(Endpoint, Protocol):
    """An endpoint that also opens and accepts streams."""

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """Take in what has happened to a stream."""
        ...

    def take_actions(self) -> list[StreamAction]:
        """Return what is to be done with streams, in order."""
        ...


class Program(NamedTuple):
    """An endpoint on a node, and the addresses of its ports."""

    endpoint: Endpoint
    ports: Mapping[int, Port]
