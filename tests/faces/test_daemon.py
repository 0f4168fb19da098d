"""The daemon as applications meet it: over Unix, TCP and UDP sockets, from outside."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_process import COMMAND, CONFIG, DaemonProcess, running
from ndn.app import NDNApp
from ndn.security import KeychainDigest
from ndn.transport.stream_face import TcpFace, UnixFace
from ndn.transport.udp_face import UdpFace
from ndn.types import InterestNack
from patience import PATIENCE_S

from forwarder.wire.lp import NO_ROUTE, make_lp, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest, parse_interest


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("daemon")


@pytest.fixture(scope="module")
def producer() -> Iterator[socket.socket]:
    """A neighbour over UDP that has /prod."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(PATIENCE_S)
        yield sock


@pytest.fixture(scope="module")
def daemon(directory: Path, producer: socket.socket) -> Iterator[DaemonProcess]:
    uri = f"udp4://127.0.0.1:{producer.getsockname()[1]}"
    config = CONFIG + f'[[faces]]\nuri = "{uri}"\npersistency = "permanent"\nroutes = ["/prod"]\n'
    with running(directory, config) as process:
        yield process


def face_to(daemon: DaemonProcess, kind: str) -> object:
    match kind:
        case "unix":
            return UnixFace(str(daemon.path))
        case "tcp":
            return TcpFace("127.0.0.1", daemon.port("tcp4"))
    return UdpFace("127.0.0.1", daemon.port("udp4"))


def ask(daemon: DaemonProcess, kind: str, name: str) -> bytes:
    """What python-ndn's consumer gets."""
    app = NDNApp(face_to(daemon, kind), KeychainDigest())
    result: list[bytes] = []

    async def main() -> None:
        try:
            _, _, content = await app.express_interest(name, lifetime=4000)
            result.append(bytes(content or b""))
        except InterestNack as nack:
            result.append(b"nack %d" % nack.reason)
        finally:
            app.shutdown()

    app.run_forever(main())
    return result[0]


@pytest.fixture(autouse=True)
def _event_loop() -> Iterator[None]:
    """python-ndn takes the thread's event loop as given."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()


@pytest.mark.parametrize("kind", ["unix", "tcp", "udp"])
def test_a_consumer_of_python_ndn_gets_data(
    daemon: DaemonProcess, producer: socket.socket, kind: str
) -> None:
    name = f"/prod/{kind}"

    def answer() -> None:
        frame, neighbour = producer.recvfrom(9000)
        interest = parse_interest(parse_lp(frame).fragment)
        producer.sendto(make_data(interest.name, b"hello " + kind.encode(), freshness_ms=1000), neighbour)

    loop = asyncio.get_event_loop()
    answering = loop.run_in_executor(None, answer)
    assert ask(daemon, kind, name) == b"hello " + kind.encode()
    loop.run_until_complete(answering)
    assert ask(daemon, kind, name) == b"hello " + kind.encode(), "from the content store"


@pytest.mark.parametrize("kind", ["unix", "tcp", "udp"])
def test_a_consumer_of_python_ndn_is_told_that_there_is_no_route(daemon: DaemonProcess, kind: str) -> None:
    assert ask(daemon, kind, "/nowhere") == b"nack %d" % NO_ROUTE


@pytest.mark.parametrize("scheme", ["unix", "tcp4", "udp4"])
def test_the_pit_token_comes_back(daemon: DaemonProcess, scheme: str) -> None:
    with daemon.connect(scheme) as sock:
        sock.send(make_lp(make_interest(from_uri("/nowhere/1"), nonce=5), pit_token=b"\x01\x02\x03\x04"))
        lp = parse_lp(sock.recv(9000))
        assert (lp.pit_token, lp.nack_reason) == (b"\x01\x02\x03\x04", NO_ROUTE)


@pytest.mark.parametrize("scheme", ["unix", "tcp4"])
def test_packets_on_a_stream_in_any_pieces(daemon: DaemonProcess, scheme: str) -> None:
    wires = [make_interest(from_uri(f"/nowhere/{scheme}/{n}"), nonce=n + 1) for n in range(200)]
    stream = b"".join(wires)
    with daemon.connect(scheme) as sock:
        for at in range(0, len(stream), 997):
            sock.sendall(stream[at : at + 997])
        got = b""
        names = []
        while len(names) < len(wires):
            got += sock.recv(65536)
            while len(got) > 1 and len(got) >= 2 + got[1]:
                frame, got = got[: 2 + got[1]], got[2 + got[1] :]
                names.append(parse_interest(parse_lp(frame).fragment).name)
    assert names == [parse_interest(wire).name for wire in wires]


@pytest.mark.parametrize(
    "garbage",
    [b"\x06\xfd\x30\x00" + bytes(100), b"\x00\x00", b"\xfd\x00\x05\x01x", b"\x05\xfe\x00\x00\x00\x01x"],
    ids=["8 kB too large", "type 0", "a long type", "a long length"],
)
@pytest.mark.parametrize("scheme", ["unix", "tcp4"])
def test_what_is_no_packet_ends_the_connection(daemon: DaemonProcess, scheme: str, garbage: bytes) -> None:
    with daemon.connect(scheme) as sock:
        sock.sendall(garbage)
        assert sock.recv(100) == b""


def test_the_socket_is_for_everybody_and_goes_with_the_daemon(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        assert daemon.path.stat().st_mode & 0o777 == 0o666
        assert daemon.stop() == 0
        assert not daemon.path.exists()
        assert "closing" in daemon.log.read_text()


def test_a_stale_socket_file_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stale.bind(str(tmp_path / "nfd.sock"))
    stale.close()
    with running(tmp_path) as daemon:
        inode = daemon.path.stat().st_ino
        second = subprocess.run(
            [*COMMAND, "--config", str(tmp_path / "feednet.toml")],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert second.returncode == 1
        assert second.stderr.count("\n") == 1
        assert "another forwarder listens there" in second.stderr
        assert daemon.path.stat().st_ino == inode
        with daemon.connect() as sock:
            sock.sendall(make_interest(from_uri("/x"), nonce=1))
            assert sock.recv(100)


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    (tmp_path / "nfd.sock").write_text("precious")
    (tmp_path / "feednet.toml").write_text(CONFIG)
    done = subprocess.run(
        [*COMMAND, "--config", str(tmp_path / "feednet.toml")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert "is no socket" in done.stderr
    assert (tmp_path / "nfd.sock").read_text() == "precious"
