"""FaceSystem over sockets on loopback: what create, update and destroy do and answer."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from math import sqrt
from pathlib import Path
from random import Random

import pytest
from patience import PATIENCE_S

from forwarder.faces import stream
from forwarder.faces.system import Faces
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.tables.face import FIRST_FACE, Face, Persistency
from forwarder.tables.face_system import (
    CONGESTION_MARKING,
    LOCAL_FIELDS,
    RELIABILITY,
    FaceEvent,
    FaceParameters,
    FaceSystem,
    Outcome,
)
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest

IDLE_NS = 1_000_000_000
LONG_IDLE_NS = 4_000_000_000
"""So long that a busy machine does not make a neighbour silent that writes every fifteenth part of it."""


class World:
    """Faces with a TCP and a UDP channel on 127.0.0.1."""

    def __init__(self, limit: int = 100, idle_ns: int = IDLE_NS, *, segmentation: bool = False) -> None:
        self.host = Host(Forwarder(rng=Random(1)), FIRST_FACE)
        self.faces = Faces(self.host, asyncio.get_running_loop())
        self.tcp = self.faces.listen_tcp("127.0.0.1", 0, limit=limit)
        self.udp = self.faces.listen_udp(
            "127.0.0.1", 0, limit=limit, idle_ns=idle_ns, segmentation=segmentation
        )
        self.events: list[tuple[FaceEvent, str]] = []
        self.faces.listen(lambda event, face, now: self.events.append((event, face.uri)))
        self.faces.driver.start()
        self.system: FaceSystem = self.faces

    async def create(self, uri: str, **more: object) -> Outcome:
        answers: list[Outcome] = []
        self.system.create(FaceParameters(uri=uri, **more), 0, answers.append)  # type: ignore[arg-type]
        await until(lambda: bool(answers))
        return answers[0]

    @property
    def records(self) -> dict[int, Face]:
        return self.host.forwarder.faces


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def world(
    limit: int = 100, idle_ns: int = IDLE_NS, *, segmentation: bool = False
) -> AsyncIterator[World]:
    made = World(limit, idle_ns, segmentation=segmentation)
    try:
        yield made
    finally:
        made.faces.close()


def play(
    story: Callable[[World], Coroutine[object, object, None]],
    limit: int = 100,
    idle_ns: int = IDLE_NS,
    *,
    segmentation: bool = False,
) -> None:
    async def main() -> None:
        async with world(limit, idle_ns, segmentation=segmentation) as made:
            await story(made)

    asyncio.run(main())


def udp_socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.setblocking(False)
    return sock


def uri_of(sock: socket.socket, kind: str = "udp4") -> str:
    return f"{kind}://127.0.0.1:{sock.getsockname()[1]}"


REFUSED = [
    ("udp://127.0.0.1:6363", {}, 400),
    ("udp4://localhost:6363", {}, 400),
    ("nonsense", {}, 400),
    ("udp4://127.0.0.1:6363", {"local_uri": "dev://a/b"}, 400),
    ("unix:///run/nfd/nfd.sock", {}, 406),
    ("fd://3", {}, 406),
    ("internal://", {}, 406),
    ("udp4://127.0.0.1:6363", {"local_uri": "udp4://127.0.0.1:1"}, 406),
    ("udp4://224.0.23.170:56363", {}, 406),
    ("udp4://127.0.0.1:6363", {"persistency": Persistency.ON_DEMAND}, 406),
    ("udp4://127.0.0.1:6363", {"flags": LOCAL_FIELDS, "mask": LOCAL_FIELDS}, 406),
    ("udp4://127.0.0.1:6363", {"mtu": 63}, 406),
    ("tcp4://127.0.0.1:6363", {"mtu": 1500}, 406),
    ("ether://[08:00:27:01:01:01]", {}, 406),
    ("ether://[08:00:27:01:01:01]", {"local_uri": "dev://nothing"}, 504),
    ("udp6://[::1]:6363", {}, 504),
]


@pytest.mark.parametrize(("uri", "more", "code"), REFUSED, ids=str)
def test_what_is_refused(uri: str, more: dict[str, object], code: int) -> None:
    async def story(world: World) -> None:
        outcome = await world.create(uri, **more)
        assert outcome.code == code, outcome
        assert outcome.face is None
        assert not world.records
        assert not world.events

    play(story)


def test_a_udp_face() -> None:
    async def story(world: World) -> None:
        with udp_socket() as there:
            uri = uri_of(there)
            outcome = await world.create(
                uri,
                persistency=Persistency.PERMANENT,
                mtu=1400,
                marking_interval=5,
                marking_threshold=6,
                flags=RELIABILITY,
                mask=RELIABILITY | CONGESTION_MARKING,
            )
            assert outcome.code == 200
            face = outcome.face
            assert face is not None
            assert (face.number, face.uri, face.local_uri) == (256, uri, str(world.udp))
            assert (face.mtu, face.persistency, face.is_local) == (1400, Persistency.PERMANENT, False)
            assert (face.is_reliable, face.is_marking) == (True, False)
            assert (face.marking_interval, face.marking_threshold, face.expiry) == (5, 6, None)
            again = await world.create(uri)
            assert (again.code, again.face) == (409, face)
            assert world.events == [(FaceEvent.CREATED, uri)]
            world.system.destroy(face.number, 0)
            await until(lambda: not world.records)
            assert world.events[1:] == [(FaceEvent.DESTROYED, uri)]
            assert (await world.create(uri)).code == 200, "the number of a face is not used again"
            assert [*world.records] == [257]

    play(story)


def test_a_tcp_face_is_local_on_loopback() -> None:
    async def story(world: World) -> None:
        with socket.create_server(("127.0.0.1", 0)) as there:
            uri = uri_of(there, "tcp4")
            bits = LOCAL_FIELDS | RELIABILITY
            outcome = await world.create(uri, flags=bits, mask=bits)
            assert outcome.code == 200
            face = outcome.face
            assert face is not None
            assert (face.is_local, face.local_fields, face.is_reliable, face.mtu) == (True, True, True, None)
            assert (await world.create(uri)).code == 409
            peer, _ = there.accept()
            peer.close()
            await until(lambda: not world.records)
            assert [event for event, _ in world.events] == [FaceEvent.CREATED, FaceEvent.DESTROYED]

    play(story)


def test_nobody_answers() -> None:
    async def story(world: World) -> None:
        with socket.create_server(("127.0.0.1", 0)) as there:
            uri = uri_of(there, "tcp4")
        outcome = await world.create(uri)
        assert (outcome.code, outcome.face) == (504, None)

    play(story)


def test_a_permanent_face_waits_for_its_connection_to_come_back() -> None:
    async def story(world: World) -> None:
        there = socket.create_server(("127.0.0.1", 0))
        port = there.getsockname()[1]
        face = (await world.create(uri_of(there, "tcp4"), persistency=Persistency.PERMANENT)).face
        assert face is not None
        world.host.forwarder.fib.add(from_uri("/a"), face.number)
        peer, _ = there.accept()
        there.close()
        peer.close()
        await until(lambda: not face.is_up)
        assert not world.host.forwarder.fib.lookup(from_uri("/a"))
        with socket.create_server(("127.0.0.1", port)) as back:
            await until(lambda: face.is_up)
            assert [hop.face for hop in world.host.forwarder.fib.lookup(from_uri("/a"))] == [face.number]
            peer, _ = back.accept()
            events = [event for event, _ in world.events]
            assert events == [FaceEvent.CREATED, FaceEvent.DOWN, FaceEvent.UP]
        peer.close()
        await until(lambda: not face.is_up)
        assert world.system.update(face.number, FaceParameters(persistency=Persistency(0)), 0).code == 200
        await until(lambda: not world.records)

    play(story)


def test_updates() -> None:
    async def story(world: World) -> None:
        with udp_socket() as there:
            face = (await world.create(uri_of(there))).face
            assert face is not None
            wanted = FaceParameters(
                persistency=Persistency.ON_DEMAND,
                mtu=100_000,
                flags=0,
                mask=CONGESTION_MARKING | LOCAL_FIELDS,
                marking_interval=7,
            )
            assert world.system.update(face.number, wanted, 0).code == 200
            assert (face.mtu, face.is_marking, face.marking_interval) == (65467, False, 7)
            assert face.persistency is Persistency.ON_DEMAND
            assert face.expiry is not None
            bad = FaceParameters(mtu=10, flags=LOCAL_FIELDS | RELIABILITY, mask=LOCAL_FIELDS | RELIABILITY)
            outcome = world.system.update(face.number, bad, 0)
            assert outcome.code == 409
            assert outcome.rejected == FaceParameters(mtu=10, flags=LOCAL_FIELDS, mask=LOCAL_FIELDS)
            assert (face.mtu, face.is_reliable) == (65467, False), "nothing is changed"
            assert world.system.update(999, FaceParameters(), 0).code == 404
            await until(lambda: not world.records)  # idle

    play(story)


def test_an_application_s_face_is_on_demand_and_local(tmp_path: object) -> None:
    async def story(world: World) -> None:
        world.faces.listen_unix(tmp_path / "sock", limit=5)  # type: ignore[operator]
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "sock"))  # type: ignore[operator]
            await until(lambda: world.records)
            (face,) = world.records.values()
            assert (face.is_local, face.persistency, face.mtu) == (True, Persistency.ON_DEMAND, None)
            assert face.uri.startswith("fd://")
            update = world.system.update
            assert update(face.number, FaceParameters(flags=LOCAL_FIELDS, mask=LOCAL_FIELDS), 0).code == 200
            assert face.local_fields
            assert update(face.number, FaceParameters(flags=RELIABILITY, mask=RELIABILITY), 0).code == 200
            assert face.is_reliable
            for bad in (FaceParameters(persistency=Persistency.PERMANENT), FaceParameters(mtu=1500)):
                outcome = update(face.number, bad, 0)
                assert (outcome.code, outcome.rejected) == (409, bad)
        await until(lambda: not world.records)

    play(story)


def test_a_neighbour_that_writes_gets_a_face_until_it_falls_silent() -> None:
    async def story(world: World) -> None:
        with udp_socket() as there:
            there.connect(world.udp.address)
            packet = make_interest(from_uri("/nowhere"), nonce=1)
            there.send(packet)
            await until(lambda: world.records)
            (face,) = world.records.values()
            assert (face.uri, face.persistency) == (uri_of(there), Persistency.ON_DEMAND)
            assert (face.in_bytes, face.in_interests) == (len(packet), 1)
            for nonce in range(2, 22):
                there.send(make_interest(from_uri("/nowhere"), nonce=nonce))
                await asyncio.sleep(LONG_IDLE_NS / 15e9)
            assert [*world.records] == [face.number]
            assert face.in_interests == 21
            await until(lambda: not world.records)
            assert [event for event, _ in world.events] == [FaceEvent.CREATED, FaceEvent.DESTROYED]

    play(story, idle_ns=LONG_IDLE_NS)


@pytest.mark.parametrize("burst", [1, 2, 3])
@pytest.mark.parametrize("segmentation", [False, True])
@pytest.mark.parametrize("persistency", [Persistency.PERSISTENT, Persistency.ON_DEMAND])
def test_a_face_whose_neighbour_refuses_ends_with_its_routes(
    persistency: Persistency, segmentation: bool, burst: int
) -> None:
    """Whether the error is noticed in sending, as in a burst of two, or by itself."""

    async def story(world: World) -> None:
        fib = world.host.forwarder.fib
        with udp_socket() as there, udp_socket() as client:
            face = (await world.create(uri_of(there))).face
            assert face is not None
            wanted = FaceParameters(persistency=persistency)
            assert world.system.update(face.number, wanted, 0).code == 200
            fib.add(from_uri("/a"), face.number)
            client.connect(world.udp.address)
            client.send(make_interest(from_uri("/a/0"), nonce=1))
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.sock_recv(there, 9000), PATIENCE_S)
            there.close()
            transport = world.faces.driver.transports[face.number]
            transport.send([make_interest(from_uri(f"/a/{nonce}"), nonce=nonce) for nonce in range(burst)])
            await until(lambda: face.number not in world.records)
            assert not fib.lookup(from_uri("/a"))
            assert (FaceEvent.DESTROYED, face.uri) in world.events

    play(story, idle_ns=0, segmentation=segmentation)


def test_a_refused_datagram_does_not_end_a_permanent_face() -> None:
    async def story(world: World) -> None:
        there = udp_socket()
        port = there.getsockname()[1]
        face = (await world.create(uri_of(there), persistency=Persistency.PERMANENT)).face
        assert face is not None
        there.close()
        world.host.forwarder.fib.add(from_uri("/a"), face.number)
        with udp_socket() as client:
            client.connect(world.udp.address)
            for nonce in range(5):
                client.send(make_interest(from_uri(f"/a/{nonce}"), nonce=nonce))
                await asyncio.sleep(0.02)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as back:
                back.bind(("127.0.0.1", port))
                back.connect(world.udp.address)
                back.setblocking(False)
                client.send(make_interest(from_uri("/a/x"), nonce=9))
                loop = asyncio.get_running_loop()
                assert await asyncio.wait_for(loop.sock_recv(back, 9000), PATIENCE_S)
                back.send(make_data(from_uri("/a/x"), b"yes"))
                data = await asyncio.wait_for(loop.sock_recv(client, 9000), PATIENCE_S)
                assert b"yes" in data

    play(story)


def test_no_more_faces_than_a_channel_may_have() -> None:
    async def story(world: World) -> None:
        neighbours = [udp_socket() for _ in range(8)]
        clients = [socket.create_connection(world.tcp.address) for _ in range(8)]
        for sock in neighbours:
            sock.sendto(make_interest(from_uri("/nowhere"), nonce=1), world.udp.address)
        drops = world.faces.driver.drops
        await until(lambda: drops["too many connections"] == 5 and drops["too many neighbours"] >= 5)
        assert sum(face.uri.startswith("tcp4") for face in world.records.values()) == 3
        assert sum(face.uri.startswith("udp4") for face in world.records.values()) <= 3
        for sock in neighbours + clients:
            sock.close()

    play(story, limit=3)


@pytest.mark.parametrize("window", [160, 1000])
def test_nothing_is_lost_on_a_unix_socket_whose_reader_lives(
    tmp_path: Path, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for many segments at a time and takes its time with reading them."""
    monkeypatch.setattr(stream, "PATIENCE_S", PATIENCE_S)  # on a busy machine it takes more than is usual

    async def story(world: World) -> None:
        loop = asyncio.get_running_loop()
        async with unix_pair(world, tmp_path / "sock") as (client, producer):
            names = [from_uri(f"/big/{number}") for number in range(window)]
            asked = b"".join(make_interest(name, nonce=nonce) for nonce, name in enumerate(names))
            await loop.sock_sendall(client, asked)
            await until(lambda: world.records[max(world.records)].out_interests == window)
            await loop.sock_sendall(producer, b"".join(make_data(name, bytes(8000)) for name in names))
            transport = world.faces.driver.transports[min(world.records)]
            await until(lambda: world.records[max(world.records)].in_data == window)
            await until(lambda: transport.queued > 900_000)  # type: ignore[attr-defined]
            packets, _ = await read_all(client, window)
            assert packets == window
            assert not world.faces.driver.drops
            assert transport.queued == world.faces.driver.waiting == 0  # type: ignore[attr-defined]

    play(story)


def test_a_unix_socket_that_is_read_slowly_carries_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PATIENCE_S", PATIENCE_S)

    async def story(world: World) -> None:
        loop = asyncio.get_running_loop()
        async with unix_pair(world, tmp_path / "sock") as (client, producer):
            begun = loop.time()
            for number in range(400):
                name = from_uri(f"/big/{number}")
                await loop.sock_sendall(client, make_interest(name, nonce=number))
                await until(lambda asked=number + 1: world.records[max(world.records)].out_interests == asked)
                await loop.sock_sendall(producer, make_data(name, bytes(8000)))
                await asyncio.sleep(0.001)
            packets, marks = await read_all(client, 400)
            assert packets == 400
            assert 0 < marks <= most_marks(loop.time() - begun)

    play(story)


def test_a_full_tcp_connection_carries_marks_though_the_kernel_takes_everything() -> None:
    """A bottleneck beyond: the neighbour reads nothing for a while, and this end's kernel holds it all."""

    async def story(world: World) -> None:
        loop = asyncio.get_running_loop()
        with udp_socket() as producer, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(world.tcp.address)
            client.setblocking(False)
            await until(lambda: world.records)
            transport = world.faces.driver.transports[min(world.records)]
            transport._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)  # type: ignore[attr-defined]
            face = (await world.create(uri_of(producer))).face
            assert face is not None
            world.host.forwarder.fib.add(from_uri("/big"), face.number)
            producer.connect(world.udp.address)
            begun = loop.time()
            for number in range(100):
                name = from_uri(f"/big/{number}")
                await loop.sock_sendall(client, make_interest(name, nonce=number))
                await asyncio.wait_for(loop.sock_recv(producer, 9000), PATIENCE_S)
                producer.send(make_data(name, bytes(2000)))
                await asyncio.sleep(0.003)
                assert transport.queued == 0  # type: ignore[attr-defined]
            packets, marks = await read_all(client, 100)
            assert packets == 100
            assert 0 < marks <= most_marks(loop.time() - begun)
            # Once the queue is gone, whatever comes next is not marked, however late.
            await asyncio.sleep(0.2)
            for number in range(100, 110):
                name = from_uri(f"/big/{number}")
                await loop.sock_sendall(client, make_interest(name, nonce=number))
                await asyncio.wait_for(loop.sock_recv(producer, 9000), PATIENCE_S)
                producer.send(make_data(name, bytes(2000)))
                assert await read_all(client, 1) == (1, 0)

    play(story)


def unix_client(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(str(path))
    sock.setblocking(False)
    return sock


@asynccontextmanager
async def unix_pair(world: World, path: Path) -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """Connect a client and a producer of /big."""
    world.faces.listen_unix(path, limit=5)
    with unix_client(path) as client, unix_client(path) as producer:
        await until(lambda: len(world.records) == 2)
        world.host.forwarder.fib.add(from_uri("/big"), max(world.records))
        yield client, producer


def most_marks(seconds: float) -> int:
    """Most marks in an incident so long: the n-th is due 100 ms / sqrt(n) after the one before."""
    marks, at = 0, 0.0
    while (at := at + 0.1 / sqrt(marks + 1)) <= seconds:
        marks += 1
    return marks


async def read_all(client: socket.socket, most: int, silence: float = PATIENCE_S) -> tuple[int, int]:
    """Read packets of a stream until there are that many or none come for so long, s: how many, how many
    of them are marked."""
    loop = asyncio.get_running_loop()
    got, packets, marks = b"", 0, 0
    while packets < most:
        try:
            got += await asyncio.wait_for(loop.sock_recv(client, 1 << 16), silence)
        except TimeoutError:
            break
        while len(got) > 4 and len(got) >= (size := 4 + int.from_bytes(got[2:4], "big")):
            marks += parse_lp(got[:size]).congestion_mark
            got = got[size:]
            packets += 1
    assert got == b""
    return packets, marks


def test_a_neighbour_that_does_not_read_has_a_bounded_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PATIENCE_S", 0.1)

    async def story(world: World) -> None:
        client = socket.create_connection(world.tcp.address)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        producer = udp_socket()
        face = (await world.create(uri_of(producer))).face
        assert face is not None
        world.host.forwarder.fib.add(from_uri("/big"), face.number)
        await until(lambda: len(world.records) == 2)
        accepted = next(face for face in world.records.values() if face.uri.startswith("tcp4"))
        world.system.update(accepted.number, FaceParameters(marking_interval=1000), 0)
        producer.connect(world.udp.address)
        asked = 0
        while not world.faces.driver.drops["send queue full"]:
            for _ in range(10):
                name = from_uri(f"/big/{asked}")
                asked += 1
                assert asked < 5000
                await loop.sock_sendall(client, make_interest(name, nonce=asked))
                await asyncio.wait_for(loop.sock_recv(producer, 9000), PATIENCE_S)
                producer.send(make_data(name, bytes(8000)))
            await asyncio.sleep(0)
        transport = world.faces.driver.transports[accepted.number]
        await until(lambda: transport.queued <= 1 << 20)  # type: ignore[attr-defined]
        assert transport.queued == world.faces.driver.waiting  # type: ignore[attr-defined]
        # It reads again: what comes is whole packets, of which some are marked.
        packets, marks = await read_all(client, asked, silence=5)
        assert 0 < packets < asked
        assert 0 < marks < packets
        assert world.faces.driver.waiting == 0
        client.close()
        producer.close()

    play(story)


def test_no_other_channel_gets_the_port_of_a_channel() -> None:
    """Neither one that asks for it nor one for which the kernel chooses."""

    async def story(world: World) -> None:
        taken = {world.udp.address[1]}
        for _ in range(300):
            channel = world.faces.listen_udp("127.0.0.1", 0, limit=1)
            assert channel.address[1] not in taken
            taken.add(channel.address[1])
        with pytest.raises(OSError, match="already in use"):
            world.faces.listen_udp(*world.udp.address, limit=1)

    play(story)
