"""What strangers can do to a daemon: little, and nothing that lasts."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from daemon_process import CONFIG, DaemonProcess, running, wait_until

from forwarder.wire.lp import make_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest

MANY = 500
MB = 1 << 20
FLOOD = """
import socket, sys
kind, address, most = sys.argv[1:]
if kind == "unix":
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(address)
else:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("127.0.0.1", int(address)))
sock.setblocking(False)
head, nonce = bytes((5, 17, 7, 9, 8, 7)), bytes((10, 4, 1, 2))
packets = [head + b"x%06d" % n + nonce + n.to_bytes(2, "big") for n in range(1000)]
stream = b"".join(packets)
print("on", flush=True)
while True:
    try:
        if kind == "unix":
            sock.send(stream)
        else:
            for packet in packets:
                sock.send(packet)
    except OSError:
        pass
    if most == "read":
        try:
            sock.recv(1 << 16)
        except OSError:
            pass
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(
        tmp_path_factory.mktemp("strangers"), CONFIG.replace("port = 0", "port = 0\nmax_faces = 200")
    ) as it:
        yield it


@contextmanager
def flood(kind: str, address: str, most: str) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", FLOOD, kind, address, most], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        yield
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def exchanges_per_second(sock: socket.socket, seconds: float = 1.5, window: int = 32) -> float:
    """Interests for names that nobody has, each answered by a Nack."""
    packet = make_interest(from_uri("/nobody/has/it"), nonce=1)
    answer = len(make_lp(packet, nack_reason=150))
    sent = got = 0
    begun = time.monotonic()
    now = begun
    while not got or now < begun + seconds:  # one at least
        while sent - got // answer < window:
            sent += 1
            sock.sendall(packet[:-4] + sent.to_bytes(4, "big"))
        got += len(sock.recv(1 << 16))
        now = time.monotonic()
    return got / answer / (now - begun)


@pytest.mark.parametrize("kind", ["unix", "udp"])
@pytest.mark.parametrize("most", ["read", "never read"])
def test_a_flood_leaves_the_others_their_share(daemon: DaemonProcess, kind: str, most: str) -> None:
    address = str(daemon.path) if kind == "unix" else str(daemon.port("udp4"))
    with daemon.connect() as sock:
        exchanges_per_second(sock, 0.3)
        alone = exchanges_per_second(sock)
        with flood(kind, address, most):
            exchanges_per_second(sock, 0.3)
            before = daemon.memory()
            beset = exchanges_per_second(sock)
            grown = daemon.memory() - before
        # A fair share is a third or so; the bar is low since the test's own processes want the CPU too.
        assert beset / alone > 0.04, (alone, beset)
        assert grown < 20 * MB


def test_those_who_never_finish_a_packet_cost_what_they_sent(daemon: DaemonProcess) -> None:
    """Two hundred connections, each with a packet that comes a byte at a time and never ends."""
    with daemon.connect() as sock, ExitStack() as stack:
        exchanges_per_second(sock, 0.3)
        before, files = daemon.memory(), daemon.files()
        slow = [
            stack.enter_context(daemon.connect(scheme)) for scheme in ("unix", "tcp4") for _ in range(100)
        ]
        wait_until(lambda: daemon.files() == files + 200, "all connected")
        for each in slow:
            each.sendall(b"\x05\xfd\x22\x00" + bytes(8000))
        for _ in range(20):
            for each in slow:
                each.send(b"\0")
            assert exchanges_per_second(sock, 0.02, window=1) > 0
        assert daemon.memory() - before < 200 * 8192 + 10 * MB
    wait_until(lambda: daemon.files() <= files, "all gone")


def test_fragments_of_packets_that_never_end_cost_bounded_memory(daemon: DaemonProcess) -> None:
    with daemon.connect("udp4") as sock, daemon.connect() as other:
        exchanges_per_second(other, 0.3)
        before = daemon.memory()
        body = bytes(4000)
        for number in range(20_000):
            sock.send(make_lp(body, sequence=number * 1000, frag_index=1, frag_count=400))
            if number % 50 == 0:
                assert exchanges_per_second(other, 0.001, window=1) > 0
        assert daemon.memory() - before < 20 * MB


@pytest.mark.parametrize("scheme", ["unix", "tcp4", "udp4"])
def test_faces_that_come_and_go_leave_nothing(tmp_path: Path, scheme: str) -> None:
    """No file descriptors, no faces, no memory; what was pending for them is gone too."""
    config = CONFIG + "idle_s = 0.2\n" + "[[faces]]\nuri = 'udp4://127.0.0.1:9'\nroutes = ['/']\n"
    with running(tmp_path, config) as daemon:
        with daemon.connect() as sock:
            wait_until(lambda: "face 257" in daemon.log.read_text(), "connected")
        wait_until(lambda: "face 257: closed" in daemon.log.read_text(), "closed")
        files = daemon.files()
        memory = 0
        for number in range(MANY):
            with daemon.connect(scheme) as sock:
                sock.send(make_interest(from_uri(f"/pending/{number}"), nonce=number, lifetime_ms=600_000))
                if number % 20 == 0:
                    own = sock.getsockname()
                    want = f"127.0.0.1:{own[1]} " if own else f"face {258 + number}: "
                    wait_until(lambda want=want: want in daemon.log.read_text(), "taken in")  # type: ignore[misc]
            if number == MANY // 2:
                memory = daemon.memory()
        log = daemon.log
        # A neighbour's port may be one that was in use before, and its face still there.
        wait_until(lambda: log.read_text().count(" from ") >= MANY * 0.9, "all made")
        wait_until(
            lambda: log.read_text().count(": closed: ") == log.read_text().count(" from ") - 1, "closed"
        )
        wait_until(lambda: daemon.files() == files, "let go of")  # some may just have been taken in
        assert daemon.memory() - memory < 4 * MB
        assert log.read_text().count("ERROR") == 0
        assert "Traceback" not in log.read_text()
