"""Driver of a tinySSB program: sockets of a multicast group, the clock, and lines from the terminal."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import IO, Final, Protocol

from base.endpoint import GroupPort, Program
from base.interface import Attachment
from base.netif import Interface, interfaces
from base.sockets import Sockets
from base.units import MS
from ssb.tiny.node import GROUP, PORT, Node
from ssb.tiny.requests import Timing

LAN: Final = Timing(round=2000 * MS, claims=2000 * MS)
"""A local network is fast, and users wait at their terminals."""

_NEWS_EVERY_S = 0.05


class Desk(Protocol):
    """A program with a user at a terminal."""

    node: Node

    def greeting(self) -> list[str]:
        """Return the first lines to show."""
        ...

    def execute(self, line: str, now: int) -> list[str]:
        """Execute a line of input; return the lines to show. Raises ValueError, with one line."""
        ...

    def news(self, now: int) -> Iterator[str]:
        """Yield lines about events since the last confirmation."""
        ...

    def confirm(self, now: int) -> None:
        """Record that the news was shown."""
        ...


def media(names: Collection[str]) -> dict[int, GroupPort]:
    """Return a port for each named interface, by default for all to a local network.

    Without a network it is the loopback interface, for programs on one machine. Raises ValueError for a name
    without an interface that has an IPv4 address.
    """
    found = [each for each in interfaces() if each.ipv4]
    for name in names:
        if name not in {each.name for each in found}:
            there = ", ".join(each.name for each in found)
            raise ValueError(f"no interface {name} with an IPv4 address; there are {there}")
    chosen = [each for each in found if each.name in names]
    chosen = chosen or [each for each in found if each.is_multicast and not each.is_loopback] or found
    return {number: _port(each) for number, each in enumerate(chosen, start=1)}


def _port(interface: Interface) -> GroupPort:
    attachment = Attachment(interface.name, "", interface.mac or b"", interface.ipv4 or "", 0)
    return GroupPort(attachment, GROUP, PORT, is_shared=True)


async def run(
    desk: Desk,
    ports: dict[int, GroupPort],
    lines: IO[str],
    say: Callable[[str], None],
    *,
    ends_with_lines: bool,
) -> None:
    """Run a program until it is cancelled, or its user types /quit.

    Args:
        desk: the program; its node has the ports' numbers.
        ports: see media().
        lines: the input; read in a thread of its own.
        say: shows a line.
        ends_with_lines: whether the end of the input ends the program.

    Raises OSError if it cannot use the network, StoreError if the disk fails.
    """
    clock = time.time_ns
    sockets = Sockets([Program(desk.node, ports)], "", clock)
    inbox: asyncio.Queue[str | None] = asyncio.Queue()
    failures: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context.get("exception") or RuntimeError(context["message"]))
    )
    _read_lines(lines, inbox)
    try:
        await sockets.start()
        for line in desk.greeting():
            say(line)
        while True:
            if failures:  # a node whose disk has failed must be created again
                raise failures[0]
            try:
                typed = await asyncio.wait_for(inbox.get(), _NEWS_EVERY_S)
            except TimeoutError:
                pass
            else:
                if typed is None and ends_with_lines:
                    return
                if typed is not None and typed.strip() == "/quit":
                    return
                _do(desk, typed or "", say, clock())
            for line in desk.news(clock()):
                say(line)
            desk.confirm(clock())
            sockets.settle()
    finally:
        sockets.close()


def _do(desk: Desk, line: str, say: Callable[[str], None], now: int) -> None:
    try:
        for shown in desk.execute(line.rstrip("\n"), now):
            say(shown)
    except ValueError as error:
        say(f"! {error}")


def _read_lines(lines: IO[str], inbox: "asyncio.Queue[str | None]") -> None:
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(RuntimeError):  # the program has ended before its input
            try:
                for line in lines:
                    loop.call_soon_threadsafe(inbox.put_nowait, line)
            except ValueError:
                pass  # not text, or closed: nothing more can be read
            finally:
                loop.call_soon_threadsafe(inbox.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
