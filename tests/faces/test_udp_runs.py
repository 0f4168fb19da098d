"""UDP faces with segmentation on: the same packets go through, and cross the kernel in runs."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from daemon_process import running

from forwarder.daemon.config import load
from forwarder.faces.segmentation import can_segment, receive_batch, receive_runs, send_batch
from forwarder.faces.system import Faces
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.tables.face import FIRST_FACE
from forwarder.wire.name import SEQUENCE, component, from_uri
from forwarder.wire.packet import make_data, make_interest, parse_interest
from forwarder.wire.tlv import nni

COUNT = 200
FAR = from_uri("/far")
NAMES = [FAR + component(SEQUENCE, nni(1000 + number)) for number in range(COUNT)]
INTERESTS = [make_interest(name, nonce=number, hop_limit=9) for number, name in enumerate(NAMES)]
DATA = [make_data(name, bytes(500 + 300 * (number % 7 == 3))) for number, name in enumerate(NAMES)]

CONFIG = """
[unix]
listen = false
[tcp]
listen = false
[udp]
addresses = ["127.0.0.1"]
port = 0
segmentation = true
[content_store]
policy = "priority_fifo"
"""


@contextmanager
def connected_to(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        sock.setblocking(False)
        sock.connect(("127.0.0.1", port))
        receive_runs(sock)
        yield sock


async def received(sock: socket.socket, count: int) -> list[list[bytes]]:
    """What each call returns until there are so many frames."""
    batches: list[list[bytes]] = []
    for _ in range(60_000):
        try:
            batches.append(receive_batch(sock))
        except BlockingIOError:
            if sum(map(len, batches)) >= count:
                return batches
            await asyncio.sleep(0.005)
    pytest.fail(f"{sum(map(len, batches))} of {count} frames came")


async def exchange(near: socket.socket, far: socket.socket) -> tuple[list[list[bytes]], list[list[bytes]]]:
    """Send all Interests in at one side and all Data at the other; return what came out at each."""
    return await passed(near, far, INTERESTS), await passed(far, near, DATA)


async def passed(sender: socket.socket, receiver: socket.socket, frames: list[bytes]) -> list[list[bytes]]:
    """Send frames in at one side, no more at a time than the smallest buffer takes; return what comes out."""
    came: list[list[bytes]] = []
    for first in range(0, len(frames), 50):
        burst = frames[first : first + 50]
        send_batch(sender, burst)
        came += await received(receiver, len(burst))
    return came


def flat(batches: list[list[bytes]]) -> list[bytes]:
    return [frame for batch in batches for frame in batch]


def check(asked: list[list[bytes]], answers: list[list[bytes]]) -> None:
    assert [parse_interest(frame).name for frame in flat(asked)] == NAMES
    assert flat(answers) == DATA


@pytest.mark.parametrize("segmentation", [False, True])
def test_the_same_goes_through_with_and_without(segmentation: bool) -> None:
    async def main() -> None:
        host = Host(Forwarder(rng=Random(1)), FIRST_FACE)
        faces = Faces(host, asyncio.get_running_loop())
        uri = faces.listen_udp("127.0.0.1", 0, limit=2, segmentation=segmentation)
        port = uri.address[1]
        try:
            faces.driver.start()
            with connected_to(port) as near, connected_to(port) as far:
                for number, sock in enumerate((near, far)):  # a first packet makes the face
                    sock.send(make_interest(from_uri("/nowhere"), nonce=number))
                    await received(sock, 1)
                host.forwarder.fib.add(FAR, FIRST_FACE + 1)
                asked, answers = await exchange(near, far)
                check(asked, answers)
                if can_segment():
                    assert (max(map(len, asked)) > 1) == segmentation
                    assert (max(map(len, answers)) > 1) == segmentation
                near.send(DATA[0])  # a single frame goes through as well, here one that nobody has asked for
                for _ in range(30_000):
                    if host.forwarder.counters.unsolicited:
                        break
                    await asyncio.sleep(0.01)
                assert host.forwarder.counters.unsolicited == 1
        finally:
            faces.close()

    asyncio.run(main())


def test_two_daemons_that_both_do_it(tmp_path: Path) -> None:
    async def through(port: int, producer: socket.socket) -> None:
        with connected_to(port) as consumer:
            consumer.send(make_interest(from_uri("/nowhere"), nonce=1))  # a first packet makes the face
            await received(consumer, 1)
            check(await passed(consumer, producer, INTERESTS), await passed(producer, consumer, DATA))

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as producer:
        producer.setblocking(False)
        producer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        producer.bind(("127.0.0.1", 0))
        receive_runs(producer)
        with running(tmp_path / "b", CONFIG + face(producer.getsockname()[1])) as b:
            producer.connect(("127.0.0.1", b.port("udp4")))
            with running(tmp_path / "a", CONFIG + face(b.port("udp4"))) as a:
                asyncio.run(through(a.port("udp4"), producer))


def face(port: int) -> str:
    return f"[[faces]]\nuri = 'udp4://127.0.0.1:{port}'\nroutes = ['/far']\n"


def test_the_two_keys_are_off_unless_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(CONFIG)
    config = load(path)
    assert (config.udp.segmentation, config.content_store.policy) == (True, "priority_fifo")
    assert (load(None).udp.segmentation, load(None).content_store.policy) == (False, "lru")
