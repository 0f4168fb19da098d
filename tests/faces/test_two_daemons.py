"""Two daemons and a wire between them that loses frames: with link reliability nothing is missing."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from daemon_process import CONFIG, DaemonProcess, running, wait_until
from patience import PATIENCE_S

from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest

ITEMS = 100
PENDING = 20  # so that what is under way fits a socket's buffer, should a daemon get no processor for a while
LOSS = 0.03  # so that hardly any frame is lost four times


def bound() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(PATIENCE_S)
    return sock


def uri_of(sock: socket.socket) -> str:
    return f"udp4://127.0.0.1:{sock.getsockname()[1]}"


@contextmanager
def in_background(*socks: socket.socket, work: object) -> Iterator[None]:
    """Call work(sock) whenever one of the sockets is readable."""
    ended = threading.Event()
    assert callable(work)

    def loop() -> None:
        while not ended.is_set():
            for sock in select.select(socks, [], [], 0.05)[0]:
                work(sock)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def face(uri: str) -> str:
    return f"[[faces]]\nuri = '{uri}'\nmtu = 1000\nreliable = true\nroutes = ['/far']\n"


def test_nothing_is_missing_over_a_wire_that_loses_frames(tmp_path: Path) -> None:
    """Interests and Data, the latter in fragments; each asked for once, so that only the link can repeat."""
    rng = Random(3)
    with bound() as producer, bound() as left, bound() as right:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()

        def answer(sock: socket.socket) -> None:
            frame, to = sock.recvfrom(9000)
            name = parse_interest(parse_lp(frame).fragment).name
            sock.sendto(make_data(name, bytes(3000)), to)

        far = CONFIG + f"[[faces]]\nuri = '{uri_of(producer)}'\nroutes = ['/far']\n"
        near_end = face(uri_of(left))
        far_end = face(uri_of(right)).replace("['/far']", "[]")
        with running(tmp_path / "a", CONFIG + near_end) as a, running(tmp_path / "b", far + far_end) as b:
            lost = 0

            def pass_on(sock: socket.socket) -> None:
                nonlocal lost
                frame = sock.recv(9000)
                if rng.random() < LOSS:
                    lost += 1
                elif sock is left:
                    right.sendto(frame, ("127.0.0.1", b.port("udp4")))
                else:
                    left.sendto(frame, ("127.0.0.1", a.port("udp4")))

            with (
                in_background(left, right, work=pass_on),
                in_background(producer, work=answer),
                a.connect() as consumer,
            ):
                assert fetch(consumer) == {from_uri(f"/far/{number}") for number in range(ITEMS)}
            assert lost >= 5
            no_errors(a)
            no_errors(b)


def fetch(consumer: socket.socket) -> set[bytes]:
    """Ask for everything once; return the names of what comes."""
    asked = 0

    def ask(until: int) -> None:
        nonlocal asked
        while asked < min(until, ITEMS):
            name = from_uri(f"/far/{asked}")
            consumer.sendall(make_interest(name, nonce=asked, lifetime_ms=60_000))
            asked += 1

    ask(PENDING)
    got: set[bytes] = set()
    stream = b""
    while len(got) < ITEMS:
        chunk = consumer.recv(1 << 16)
        assert chunk
        stream += chunk
        while len(stream) > 4 and len(stream) >= (end := 4 + int.from_bytes(stream[2:4], "big")):
            got.add(parse_data(parse_lp(stream[:end]).fragment).name)
            stream = stream[end:]
        ask(len(got) + PENDING)
    return got


def no_errors(daemon: DaemonProcess) -> None:
    assert "Traceback" not in daemon.log.read_text()


def test_after_the_cheaper_of_two_next_hops_has_died_the_other_is_asked(tmp_path: Path) -> None:
    """By best-route, over UDP, nobody asking twice: the one Interest that finds out is all that is lost."""
    with bound() as cheap, bound() as dear:
        hops = "".join(
            f"[[faces]]\nuri = '{uri_of(sock)}'\npersistency = 'persistent'\n"
            f"routes = ['/far']\ncost = {cost}\n"
            for cost, sock in ((1, cheap), (2, dear))
        )
        with running(tmp_path, CONFIG + hops) as daemon, daemon.connect() as consumer:
            for number in range(2 * ITEMS):
                sock = cheap if number < ITEMS else dear
                consumer.sendall(make_interest(from_uri(f"/far/{number}"), nonce=number))
                frame, to = sock.recvfrom(9000)
                sock.sendto(make_data(parse_interest(parse_lp(frame).fragment).name, b"x"), to)
                data = parse_data(parse_lp(consumer.recv(9000)).fragment)
                assert data.name == from_uri(f"/far/{number}")
                if number == ITEMS - 1:
                    cheap.close()
                    consumer.sendall(make_interest(from_uri("/far/lost"), nonce=9999, lifetime_ms=100))
                    wait_until(lambda: "refused" in daemon.log.read_text(), "the face is down")
            no_errors(daemon)
