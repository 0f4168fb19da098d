"""The running peer: its sockets to others, and a Unix socket for its user's commands.

Commands are calls of muxrpc without handshake and boxes, as at the socket of stock peers (`noauth`): the
socket has the permissions of the identity.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import SystemRandom
from typing import Protocol

from base.endpoint import GroupPort, Program, StreamPort
from base.interface import Attachment
from base.netif import interfaces
from base.sockets import Sockets
from ssb.canonical import Value
from ssb.daemon.account import Account
from ssb.daemon.commands import CommandError, Commands
from ssb.daemon.local_peer import LocalPeer
from ssb.daemon.views import shown
from ssb.peer.options import BROADCAST, PORT, PeerOptions
from ssb.peer.program import PeerProgram
from ssb.rooms.room import RoomOptions
from ssb.store.feeds import StoreError
from ssb.transport.address import PeerAddress
from ssb.transport.calls import Called, Calls
from ssb.transport.muxrpc import ProtocolError

_logger = logging.getLogger("feednet.ssb")

_LOG_EVERY_S = 0.2
_FAILED = "the peer has failed to answer: its log says why"


class Surroundings(Protocol):
    """A program around a peer, such as a gateway."""

    def around(self, peer: LocalPeer, now: int) -> PeerProgram:
        """Return the program in the peer's place."""
        ...

    def status(self) -> Mapping[str, Value]:
        """Return additions to the peer's status."""
        ...

    async def run(self, settle: Callable[[], None]) -> None:
        """Run until cancelled; call `settle` after input to the program."""
        ...


async def run(
    account: Account,
    host: str,
    port: int,
    options: PeerOptions,
    on_ready: Callable[[PeerAddress], None],
    external: str = "",
    *,
    announces: bool = False,
    room: Callable[[PeerAddress], RoomOptions] | None = None,
    surroundings: Surroundings | None = None,
) -> None:
    """Run an account's peer until it is cancelled.

    Args:
        account: see Account.
        host, port: where it listens; `0.0.0.0` for everywhere.
        options: see PeerOptions.
        on_ready: called when others can reach it.
        external: the host by which others reach it, for invites; "" to tell it from `host`.
        room: returns the settings of the room that it is at its address; None if it is none.
        announces: whether it announces itself in the local networks of all interfaces, and listens to others.
        surroundings: the program around the peer.

    Raises OSError if it cannot listen there, and the errors of the surroundings.
    """
    clock = time.monotonic_ns
    epoch_ms = time.time() * 1000 - clock() / 1e6
    media = _media() if announces else {}
    address = PeerAddress(external or _reachable(host), port, account.identity.ref)
    announced = {number: address._replace(host=group.interface.ipv4) for number, group in media.items()}
    peer = LocalPeer(account, options, SystemRandom(), epoch_ms, clock(), announced, room and room(address))
    program: PeerProgram = peer if surroundings is None else surroundings.around(peer, clock())
    sockets = Sockets([Program(program, {1: StreamPort(port), **media})], host, clock)
    more = None if surroundings is None else surroundings.status
    commands = Commands(account, lambda: epoch_ms + clock() // 1_000_000, (peer, clock), address, more)

    def settle() -> None:
        program.wake(clock())
        sockets.settle()

    server = await _listen(path := account.path / "socket", lambda: _CommandSocket(commands, settle))
    beside = None
    try:
        await sockets.start()
        if surroundings is not None:
            beside = asyncio.create_task(surroundings.run(settle))
            await asyncio.sleep(0)
        on_ready(address)
        while beside is None or not beside.done():
            _log(program, account)
            await asyncio.sleep(_LOG_EVERY_S)
        await beside
    finally:
        if beside is not None:
            beside.cancel()
        sockets.close()
        server.close()
        path.unlink(missing_ok=True)
        await asyncio.sleep(0)


async def _listen(path: Path, connection: Callable[[], asyncio.Protocol]) -> asyncio.Server:
    """Listen for commands at a path, which only this user may open."""
    path.unlink(missing_ok=True)  # of a killed process: the account is locked by this one
    mask = os.umask(0o177)
    try:
        return await asyncio.get_running_loop().create_unix_server(connection, str(path))
    finally:
        os.umask(mask)


def _log(program: PeerProgram, account: Account) -> None:
    events = [event for event in program.take_events() if event.event != "stored"]
    namer = account.views.namer() if events else None
    for event in events:
        name = namer(event.remote) if namer is not None else None
        _logger.info("%s %s%s %s", event.event, event.remote, shown(name), event.detail)


def _reachable(host: str) -> str:
    """Return a host by which others on a local network reach a socket bound to `host`."""
    found = [each.ipv4 for each in interfaces() if each.ipv4 and not each.is_loopback]
    return found[0] if host == "0.0.0.0" and found else host


def _media() -> dict[int, GroupPort]:
    """Return a port for each interface of this machine to a local network."""
    found = [each for each in interfaces() if each.ipv4 and not each.is_loopback]
    return {
        number: GroupPort(Attachment(each.name, "", each.mac or b"", each.ipv4 or "", 0), BROADCAST, PORT)
        for number, each in enumerate(found, start=2)
    }


class _CommandSocket(asyncio.Protocol):
    """A user's connection: calls in, answers out."""

    def __init__(self, commands: Commands, settle: Callable[[], None]) -> None:
        self._commands = commands
        self._settle = settle
        self._calls = Calls()
        self._transport: asyncio.Transport | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._streams: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        for stream in self._streams:
            stream.cancel()

    def pause_writing(self) -> None:
        """See asyncio.Protocol: the user does not keep up."""
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            events = self._calls.receive(data)
        except ProtocolError:
            self._transport.abort()
            return
        try:
            for event in events:
                if isinstance(event, Called):
                    self._answer(event)
        finally:  # on any failure, the user is answered and the peer continues
            self._transport.write(self._calls.take_output())
            if self._calls.has_ended:
                self._transport.close()
            self._settle()

    def _answer(self, call: Called) -> None:
        try:
            if call.form == "async":
                self._calls.answer(call.call, self._commands.answer(call.name, call.arguments))
            else:
                answers = self._commands.stream(call.name, call.arguments)
                task = asyncio.get_running_loop().create_task(self._stream(call.call, answers))
                self._streams.add(task)
                task.add_done_callback(self._streams.discard)
        except (CommandError, StoreError) as error:
            self._calls.end(call.call, str(error))
        except Exception:
            self._calls.end(call.call, _FAILED)
            raise

    async def _stream(self, call: int, answers: Iterator[Value]) -> None:
        assert self._transport is not None
        error = ""
        try:
            for answer in answers:
                if not self._calls.is_open(call):
                    return
                self._calls.answer(call, answer)
                self._transport.write(self._calls.take_output())
                await self._has_room.wait()
        except (CommandError, StoreError) as failure:
            error = str(failure)
        except Exception:
            error = _FAILED
            raise
        finally:
            self._calls.end(call, error)
            self._transport.write(self._calls.take_output())
