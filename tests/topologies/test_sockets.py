"""Programs on real sockets, over loopback: streams mean what they mean in the emulator."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from patience import PATIENCE_S
from stream_programs import Echo, Quiet, Source

from base.endpoint import (
    Address,
    Close,
    Closed,
    Connect,
    DatagramPort,
    Ended,
    Full,
    GroupPort,
    Opened,
    Pause,
    Program,
    Received,
    Send,
    StreamEvent,
    StreamPort,
    Writable,
)
from base.event_loop import steady_clock
from base.interface import Attachment
from base.sockets import Sockets, free_port

HERE = "127.0.0.1"


class World:
    """A client and a server, each with sockets of its own; complaints of the event loop fail the test."""

    def __init__(self, client: Quiet, server: Quiet, *, listens: bool = True) -> None:
        self.port = free_port()
        self.client = Sockets([Program(client, {})], HERE, steady_clock())
        ports = {1: StreamPort(self.port)} if listens else {}
        self.server = Sockets([Program(server, ports)], HERE, steady_clock())
        self.complaints: list[dict[str, Any]] = []

    async def __aenter__(self) -> "World":
        asyncio.get_running_loop().set_exception_handler(lambda _, told: self.complaints.append(told))
        await self.server.start()
        await self.client.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.close()
        self.server.close()
        await asyncio.sleep(0.05)
        assert self.complaints == []


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.005)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_everything_comes_back_and_both_ends_close() -> None:
    async def test() -> None:
        content = bytes(range(256)) * 20_000
        source, echo = Source((HERE, 0), content), Echo()
        world = World(source, echo)
        source.to = (HERE, world.port)
        async with world:
            await until(lambda: Closed in source.kinds(1) and Closed in echo.kinds(-1))
        assert source.received(1) == content
        assert [event for _, event in source.events][-2:] == [Ended(1), Closed(1, "")]
        assert echo.events[-1][1] == Closed(-1, "")
        told = [type(event) for _, event in echo.events if isinstance(event, Full | Writable)]
        assert told == [Full, Writable] * (len(told) // 2)

    run(test())


def act(world: World, client: Quiet, *actions: Any) -> None:
    client.actions += actions
    world.client.settle()


def test_small_pieces_do_not_wait_for_acknowledgements() -> None:
    """Neither end has Nagle's algorithm, as in the emulator: over long paths it would cost a round trip."""

    async def test() -> None:
        client, server = Quiet(), Quiet()
        async with World(client, server) as world:
            act(world, client, Connect(1, (HERE, world.port)))
            await until(lambda: bool(client.events and server.events))
            for end in (world.client, world.server):
                (stream,) = end._streams.values()
                assert stream._transport is not None
                sock = stream._transport.get_extra_info("socket")
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(test())


def test_what_is_broken_off_before_it_is_open_is_never_seen() -> None:
    async def test() -> None:
        client, server = Quiet(), Quiet()
        async with World(client, server) as world:
            act(world, client, Connect(1, (HERE, world.port)), Send(1, b"request"), Close(1, abort=True))
            await until(lambda: bool(client.events))
            await asyncio.sleep(0.1)
        assert [event for _, event in client.events] == [Closed(1, "broken off here")]
        assert server.received(-1) == b""

    run(test())


def test_who_breaks_off_resets_the_other_end() -> None:
    async def test() -> None:
        client, server = Quiet(), Quiet()
        async with World(client, server) as world:
            act(world, client, Connect(1, (HERE, world.port)), Send(1, b"request"))
            await until(lambda: server.received(-1) == b"request")
            act(world, client, Close(1, abort=True))
            await until(lambda: Closed in server.kinds(-1) and Closed in client.kinds(1))
        assert client.events[-1][1] == Closed(1, "broken off here")
        ending = server.events[-1][1]
        assert isinstance(ending, Closed)
        assert "reset" in ending.reason
        assert Ended not in server.kinds(-1)

    run(test())


def test_the_end_is_told_once() -> None:
    async def test() -> None:
        client, server = Quiet(), Quiet()
        async with World(client, server) as world:
            act(world, client, Connect(1, (HERE, world.port)), Close(1))
            await until(lambda: Ended in server.kinds(-1))
            for paused in (True, False):
                server.actions.append(Pause(-1, paused))
                world.server.settle()
                await asyncio.sleep(0.05)
            assert [type(event) for _, event in server.events] == [Opened, Ended]
            server.actions.append(Close(-1))
            world.server.settle()
            await until(lambda: Closed in client.kinds(1))

    run(test())


@pytest.mark.parametrize(("port", "reason"), [(70_000, "port must be 0-65535"), (0, "")])
def test_what_cannot_be_opened_is_closed_with_a_reason(port: int, reason: str) -> None:
    async def test() -> None:
        client = Quiet()
        async with World(client, Quiet(), listens=False) as world:
            act(world, client, Connect(1, (HERE, port or world.port)))
            await until(lambda: bool(client.events))
        ((_, event),) = client.events
        assert isinstance(event, Closed)
        assert reason in event.reason != ""

    run(test())


class Stubborn(Quiet):
    """Opens a stream again whenever one is closed."""

    def on_stream(self, event: Any, now: int) -> None:
        super().on_stream(event, now)
        if isinstance(event, Closed):
            self.actions.append(Connect(event.stream + 1, (HERE, 9)))


def test_a_program_that_has_ended_is_told_nothing() -> None:
    async def test() -> None:
        client, server = Stubborn(), Quiet()
        world = World(client, server)
        await world.server.start()
        await world.client.start()
        act(world, client, Connect(1, (HERE, world.port)))
        await until(lambda: Opened in client.kinds(1))
        world.client.close()
        await until(lambda: Ended in server.kinds(-1))
        world.server.close()
        await asyncio.sleep(0.05)
        assert client.kinds(1) == [Opened]
        assert client.actions == []

    run(test())


def test_datagrams_go_to_any_address_and_back() -> None:
    async def test() -> None:
        ports = [free_port(socket.SOCK_DGRAM) for _ in range(2)]
        asking, answering = Quiet(), Echo()
        one = Sockets([Program(asking, {1: DatagramPort(ports[0])})], HERE, steady_clock())
        other = Sockets([Program(answering, {5: DatagramPort(ports[1])})], HERE, steady_clock())
        await other.start()
        asking.outputs.append((1, b"hello", (HERE, ports[1])))
        await one.start()
        await until(lambda: bool(asking.datagrams))
        one.close()
        other.close()
        assert [(payload, sender) for _, payload, sender in asking.datagrams] == [
            (b"hello", (HERE, ports[1]))
        ]

    run(test())


def test_programs_of_one_machine_share_a_group_and_none_hears_itself() -> None:
    """Two programs that know nothing of each other listen at one port."""

    async def test() -> list[list[bytes]]:
        port = free_port(socket.SOCK_DGRAM)
        loopback = Attachment("lo", "", bytes(6), HERE, 0)
        nodes = Quiet(), Quiet()
        group = GroupPort(loopback, "239.255.77.1", port, is_shared=True)
        both = [Sockets([Program(node, {1: group})], HERE, steady_clock()) for node in nodes]
        for sockets, node, word in zip(both, nodes, (b"one", b"other"), strict=True):
            await sockets.start()
            node.outputs.append((1, word, None))
        for sockets in both:
            sockets.settle()
        async with asyncio.timeout(PATIENCE_S):
            while not all(node.datagrams for node in nodes):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        for sockets in both:
            sockets.close()
        return [[payload for _, payload, _ in node.datagrams] for node in nodes]

    assert asyncio.run(test()) == [[b"other"], [b"one"]]


class Faulty(Quiet):
    """A program that makes mistakes: in each of its `faulty` methods, once."""

    def __init__(self) -> None:
        super().__init__()
        self.due: int | None = None
        self.faulty: set[str] = set()
        self.woken = 0

    def _slip(self, what: str) -> None:
        if what in self.faulty:
            self.faulty.remove(what)
            raise ZeroDivisionError(what)

    def next_deadline(self) -> int | None:
        return self.due

    def wake(self, now: int) -> None:
        self._slip("wake")
        if self.due is not None and now >= self.due:
            self.due = None
            self.woken += 1

    def on_stream(self, event: StreamEvent, now: int) -> None:
        super().on_stream(event, now)
        if isinstance(event, Received):
            self.actions.append(Send(event.stream, b"answer"))
            self.due = now
            self._slip("on_stream")

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        super().receive(port, payload, sender, now)
        assert sender is not None
        self.outputs.append((port, b"answer", sender))
        self.due = now
        self._slip("receive")


def test_a_mistake_of_a_program_is_told_and_the_program_goes_on() -> None:
    """What it has asked for is done, and it is woken when it is time, or a second after it failed at that."""

    async def test() -> None:
        faulty, client = Faulty(), Quiet()
        world = World(client, faulty)
        ports = [free_port(socket.SOCK_DGRAM) for _ in range(2)]
        beside = Sockets([Program(faulty, {1: DatagramPort(ports[0])})], HERE, steady_clock())
        asking = Quiet()
        other = Sockets([Program(asking, {1: DatagramPort(ports[1])})], HERE, steady_clock())
        async with world:
            await beside.start()
            await other.start()
            faulty.faulty = {"on_stream", "wake"}
            client.actions += [Connect(1, (HERE, world.port)), Send(1, b"question")]
            world.client.settle()
            await until(lambda: client.received(1) == b"answer" and faulty.woken == 1)
            faulty.faulty = {"receive"}
            asking.outputs.append((1, b"question", (HERE, ports[0])))
            other.settle()
            await until(lambda: bool(asking.datagrams) and faulty.woken == 2)
            told = sorted(str(each["exception"]) for each in world.complaints)
            assert told == ["on_stream", "receive", "wake"]
            world.complaints.clear()
        beside.close()
        other.close()

    run(test())
