"""A node of tinySSB on real interfaces: UDP multicast, the machine's clock, lines from the keyboard."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from random import SystemRandom
from typing import Protocol, TextIO

from forwarder.faces.driver import steady_clock
from forwarder.faces.netif import interfaces
from ssb.tiny.node import GROUP, PORT, Node
from topologies.endpoint import Address, GroupPort, Port, Program
from topologies.model import Attachment
from topologies.sockets import Sockets


class NoInterface(OSError):
    """There is no interface to use; the message is one line."""


class Application(Protocol):
    """What a user's program does with a node."""

    def go_on(self, now: int) -> None:
        """Do what is due."""

    def next_deadline(self) -> int | None:
        """Return when go_on() is due, ns."""


def ports_of(names: Sequence[str]) -> dict[int, Port]:
    """Return a port on each of this machine's interfaces: those named; else those that lead to a network, and
    without any, loopback. Raises NoInterface."""
    usable = {each.name: each for each in interfaces() if each.ipv4}
    unknown = [name for name in names if name not in usable]
    if unknown:
        known = ", ".join(usable) or "none"
        raise NoInterface(f"{unknown[0]}: no interface with an IPv4 address; there are {known}")
    chosen = [usable[name] for name in dict.fromkeys(names)]
    chosen = chosen or [each for each in usable.values() if not each.is_loopback] or [*usable.values()]
    if not chosen:
        raise NoInterface("no interface has an IPv4 address")
    return {
        number: GroupPort(
            Attachment(each.name, "", each.mac or b"", each.ipv4 or "", 0), GROUP, PORT, is_shared=True
        )
        for number, each in enumerate(chosen, start=1)
    }


class _Station:
    """A node and its application, as one Endpoint."""

    def __init__(self, node: Node, application: Application) -> None:
        self._node = node
        self._application = application

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        """See Endpoint."""
        self._node.receive(port, payload, sender, now)
        self._application.go_on(now)

    def set_link(self, port: int, up: bool, now: int) -> None:
        """See Endpoint."""

    def take_outputs(self) -> Sequence[tuple[int, bytes, Address | None]]:
        """See Endpoint."""
        return self._node.take_outputs()

    def next_deadline(self) -> int | None:
        """See Endpoint."""
        deadlines = self._node.next_deadline(), self._application.next_deadline()
        return min((due for due in deadlines if due is not None), default=None)

    def wake(self, now: int) -> None:
        """See Endpoint."""
        self._node.wake(now)
        self._application.go_on(now)


async def run(
    make: Callable[[int], tuple[Node, Application]],
    ports: dict[int, Port],
    ready: Callable[[], None],
    lines: TextIO | None = None,
    take_line: Callable[[str, int], None] | None = None,
) -> None:
    """Run a node until it is cancelled.

    Args:
        make: makes the node and its application, at a time, ns.
        ports: see ports_of().
        ready: called when others can be heard.
        lines: what the user writes; its end ends nothing.
        take_line: takes a line of it, at a time.

    Raises OSError if the sockets cannot be opened, and what the node raises: StoreError if the disk fails.
    """
    loop = asyncio.get_running_loop()
    clock = steady_clock()
    failed: asyncio.Future[None] = loop.create_future()

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if not failed.done():
            whole = error if isinstance(error, Exception) else RuntimeError(str(context["message"]))
            failed.set_exception(whole)

    loop.set_exception_handler(fail)
    node, application = make(clock())
    sockets = Sockets([Program(_Station(node, application), ports)], "", clock)

    def take(line: str) -> None:
        assert take_line is not None
        take_line(line, clock())
        sockets.settle()

    try:
        await sockets.start()
        ready()
        if lines is not None and take_line is not None:
            _read_lines(lines, loop, take)
        await failed
    finally:
        sockets.close()


def _read_lines(lines: TextIO, loop: asyncio.AbstractEventLoop, take: Callable[[str], None]) -> None:
    """Hand over each line in the event loop; a file or a terminal cannot be waited for there."""

    def read() -> None:
        for line in lines:
            try:
                loop.call_soon_threadsafe(take, line.rstrip("\n"))
            except RuntimeError:
                return  # the loop has ended

    threading.Thread(target=read, daemon=True).start()


RANDOM = SystemRandom()
"""For key pairs and waits."""
