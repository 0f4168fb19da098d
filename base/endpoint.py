"""Sans-IO interfaces of programs on a node: datagrams, streams and links.

The emulator, the driver of Mininet's nodes and the simulator depend on these interfaces, not on the protocols
above. A program is an endpoint and its ports, the addresses of its datagrams and streams. The endpoint is
called with input, and queried afterwards for its output and its next deadline. Time is an argument, in ns.

Streams are TCP's. An endpoint that opens one chooses its number, above 0; one that others open has a number
below 0. A `Send` is never refused: data beyond the connection's capacity are queued. An endpoint that sends
nothing between `Full` and `Writable` keeps the queue short.
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
    """Datagrams from and to any node, over the underlay: UDP port `number` at the node's address."""

    number: int


class GroupPort(NamedTuple):
    """Datagrams from and to all members of a group on a medium or a link: UDP port `number`.

    The group is an IPv4 multicast address, or 255.255.255.255 for all. A datagram has a time to live of 1,
    and is not returned to its sender. In Mininet the kernel sends IGMP reports for a group outside
    224.0.0.0/24, and captures show them.

    If it `is_shared`, other programs of this machine may listen, too, and receive the datagrams sent here; so
    these have a source port of their own, by which each program recognizes its own.
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
    """A stream is open: requested by this endpoint, or accepted at `port`."""

    stream: int
    peer: Address
    port: int | None = None


class Received(NamedTuple):
    """Bytes were received."""

    stream: int
    data: bytes


class Full(NamedTuple):
    """The connection has queued data; possible before the stream is open."""

    stream: int


class Writable(NamedTuple):
    """The connection has sent its queue, and has room for more; this follows Full."""

    stream: int


class Ended(NamedTuple):
    """The other end has finished sending."""

    stream: int


class Closed(NamedTuple):
    """The stream has ended; `reason` is "" if both ends have closed it, else a few words."""

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
    """Stop reading, so that the other end has to wait; `False` resumes."""

    stream: int
    paused: bool = True


class Close(NamedTuple):
    """Finish sending after the queued data; if `abort`, reset the stream."""

    stream: int
    abort: bool = False


StreamAction = Connect | Send | Pause | Close


class Endpoint(Protocol):
    """A sender and receiver of datagrams, with port numbers of its own."""

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """Process a datagram; `sender` is None at a LinkPort, which has one neighbour."""
        ...

    def set_link(self, port: int, up: bool, now: int) -> None:
        """Handle a change of a LinkPort's link: down, or up again."""
        ...

    def take_outputs(self) -> Sequence[tuple[int, bytes, Address | None]]:
        """Return the (port, datagram, to) to send, in order; `to` is used at a DatagramPort only."""
        ...

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns; it changes only when a program of the node is called."""
        ...

    def wake(self, now: int) -> None:
        """Act on a deadline; no effect if none is due."""
        ...


@runtime_checkable
class StreamEndpoint(Endpoint, Protocol):
    """An endpoint that also opens and accepts streams."""

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """Handle an event of a stream."""
        ...

    def take_actions(self) -> list[StreamAction]:
        """Return the actions on streams, in order."""
        ...


class Program(NamedTuple):
    """An endpoint on a node, and the addresses of its ports."""

    endpoint: Endpoint
    ports: Mapping[int, Port]
