"""Attachment of a sans-IO application to the forwarder of a python-ndn application."""

import asyncio
import time
from collections.abc import Callable, Set
from typing import Any, Final

from ndn.appv2 import NDNApp

from feednet.prefixes import Prefixes
from forwarder.host import Application
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import read_name
from forwarder.wire.tlv import MalformedPacket

_AGAIN_S: Final = 1.0
_COMMANDS: Final = from_uri("/localhost")


class Attachment:
    """Passes packets between an application and the forwarder, wakes it, and registers its prefixes.

    Args:
        application: see forwarder.host.Application.
        prefixes: returns the prefixes to register, as the bytes of their components.
        after: called after each packet for the application, and each deadline.
        on_problem: called with a line for each refusal of the forwarder.
    """

    def __init__(
        self,
        application: Application,
        prefixes: Callable[[], Set[bytes]],
        after: Callable[[], None],
        on_problem: Callable[[str], None],
    ) -> None:
        self._application = application
        self._prefixes = prefixes
        self._after = after
        self._on_problem = on_problem
        self._app: NDNApp | None = None
        self._forwarder: Prefixes | None = None
        self._registered: set[bytes] = set()
        self._registering: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Run on a connection to the forwarder until it is lost; raise OSError if there is none."""
        app = NDNApp()
        self._forwarder = Prefixes(app)
        app.face.callback = self._receive_around(app.face.callback)
        self._registered.clear()
        try:
            if not await app.main_loop(self._begin(app)):
                raise asyncio.CancelledError  # swallowed by python-ndn
        except OSError:
            if self._app is None:
                raise
        finally:
            self._app = None
            if self._registering is not None:
                self._registering.cancel()

    def settle(self) -> None:
        """Send the application's outputs, and set its alarm."""
        app = self._app
        packets = self._application.take_outputs()
        if app is None or not app.face.running:
            return  # lost, as on any link that is down
        for packet in packets:
            app.face.send(packet)
        if self._alarm is not None:
            self._alarm.cancel()
        due = self._application.next_deadline()
        if due is not None:
            delay = max(due - time.monotonic_ns(), 0) / 1e9
            self._alarm = asyncio.get_running_loop().call_later(delay, self._wake)
        if self._forwarder and self._registering is None and self._prefixes() != self._registered:
            self._registering = asyncio.get_running_loop().create_task(self._register(self._forwarder))

    async def _begin(self, app: NDNApp) -> None:
        self._app = app
        self.settle()

    def _receive_around(self, pass_on: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """Return a callback that passes packets to the application, and answers of commands to python-ndn."""

        async def receive(kind: int, wire: Any) -> None:
            self._application.receive(bytes(wire), time.monotonic_ns())
            self._after()
            self.settle()
            if _is_answer(bytes(wire)):
                await pass_on(kind, wire)

        return receive

    def _wake(self) -> None:
        self._application.wake(time.monotonic_ns())
        self._after()
        self.settle()

    async def _register(self, forwarder: Prefixes) -> None:
        """Register new prefixes, and unregister former ones."""
        try:
            while (wanted := set(self._prefixes())) != self._registered:
                for name in wanted - self._registered:
                    if await forwarder.register(name):
                        self._registered.add(name)
                    else:
                        self._on_problem(f"the forwarder does not let {to_uri(name)} be served; asking again")
                        await asyncio.sleep(_AGAIN_S)
                for name in self._registered - wanted:
                    await forwarder.unregister(name)
                    self._registered.discard(name)
        finally:
            self._registering = None


def _is_answer(packet: bytes) -> bool:
    """Whether a packet answers a command: python-ndn handles no others."""
    try:
        header = parse_lp(packet)
        return bool(header.fragment) and read_name(header.fragment).startswith(_COMMANDS)
    except MalformedPacket:
        return False
