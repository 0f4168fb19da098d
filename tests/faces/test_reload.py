"""A daemon that is told to read its configuration anew, by SIGHUP, while Interests go through it."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from daemon_process import COMMAND, CONFIG, ROOT, DaemonProcess, running, wait_until
from patience import PATIENCE_S

from forwarder.daemon.datasets import Client, snapshot
from forwarder.management.parameters import ControlParameters
from forwarder.tables.rib import Origin
from forwarder.wire.lp import NO_ROUTE, make_lp, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest

AT_TERMINAL = ("setsid", "--ctty", "env", "--default-signal=HUP")
"""Has a command lead a terminal; these tests may run under nohup."""


class Neighbour:
    """Answers Interests over UDP with its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.uri = f"udp4://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        while True:
            frame, sender = self._socket.recvfrom(9000)
            if not frame:
                return
            name = parse_interest(parse_lp(frame).fragment).name
            self.asked += 1
            self._socket.sendto(make_data(name, self.name.encode(), freshness_ms=1000), sender)

    def close(self) -> None:
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


@pytest.fixture(scope="module")
def left() -> Iterator[Neighbour]:
    neighbour = Neighbour("left")
    yield neighbour
    neighbour.close()


@pytest.fixture(scope="module")
def right() -> Iterator[Neighbour]:
    neighbour = Neighbour("right")
    yield neighbour
    neighbour.close()


def face(neighbour: Neighbour, *routes: str, more: str = "") -> str:
    return f'[[faces]]\nuri = "{neighbour.uri}"\nroutes = {list(routes)}\n{more}\n'


def reload(daemon: DaemonProcess, config: str, said: str = "reloaded ") -> str:
    """Reload with another configuration; return what is logged from then on until it is done."""
    before = len(daemon.log.read_text())
    (daemon.log.parent / "feednet.toml").write_text(config)
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: said in daemon.log.read_text()[before:], said)
    return daemon.log.read_text()[before:]


def ask(sock: socket.socket, uri: str) -> str:
    """Ask for a name, which nobody has asked for; return who answers, or "nack N"."""
    sock.sendall(make_lp(make_interest(from_uri(uri), nonce=int.from_bytes(os.urandom(4), "big"))))
    packet = parse_lp(sock.recv(9000))
    if packet.nack_reason is not None:
        return f"nack {packet.nack_reason}"
    return parse_data(packet.fragment).content.decode()


@contextmanager
def client_of(daemon: DaemonProcess) -> Iterator[Client]:
    client = Client(daemon.path)
    yield client
    client.close()


def faces_by_uri(daemon: DaemonProcess) -> dict[str, dict[str, object]]:
    with client_of(daemon) as client:
        return {each["remote"]: each for each in snapshot(client)["faces"]}


def test_routes_come_change_and_go_and_no_interest_misses_one(
    tmp_path: Path, left: Neighbour, right: Neighbour
) -> None:
    """All the time /moving has a route, to the left or to the right, and somebody asks."""
    both = CONFIG + face(left, "/moving", "/left") + face(right, "/right")
    other = CONFIG + face(left, "/left") + face(right, "/moving", more="cost = 7")
    with running(tmp_path, both) as daemon, daemon.connect() as sock:
        assert ask(sock, "/moving/first") == "left"
        numbers = {uri: each["face"] for uri, each in faces_by_uri(daemon).items()}
        answers: list[str] = []
        is_over = threading.Event()

        def keep_asking() -> None:
            with daemon.connect() as other_sock:
                number = 0
                while not is_over.is_set():
                    number += 1
                    answers.append(ask(other_sock, f"/moving/{number}"))

        asking = threading.Thread(target=keep_asking)
        asking.start()
        for round_ in range(1, 11):
            reload(daemon, other if round_ % 2 else both)
            wait_until(lambda enough=20 * round_: len(answers) > enough, "answers after a reload")
        is_over.set()
        asking.join()
        assert set(answers) == {"left", "right"}
        assert ask(sock, "/right/1") == "right"
        reload(daemon, other)
        assert ask(sock, "/moving/last") == "right"
        assert ask(sock, "/right/2") == f"nack {NO_ROUTE}"
        now = faces_by_uri(daemon)
        assert {uri: now[uri]["face"] for uri in (left.uri, right.uri)} == {
            uri: numbers[uri] for uri in (left.uri, right.uri)
        }, "faces that both name stay"
        with client_of(daemon) as client:
            hops = {each["prefix"]: each["hops"] for each in snapshot(client)["fib"]}
        assert [hop["cost"] for hop in hops["/moving"]] == [7]
        assert daemon.stop() == 0
        assert not daemon.path.exists()


def test_neighbours_come_and_go_and_what_is_pending_at_them_is_answered(
    tmp_path: Path, right: Neighbour
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as slow, running(tmp_path) as daemon:
        slow.bind(("127.0.0.1", 0))
        slow.settimeout(PATIENCE_S)
        uri = f"udp4://127.0.0.1:{slow.getsockname()[1]}"
        reload(daemon, CONFIG + f'[[faces]]\nuri = "{uri}"\nroutes = ["/x"]\n')
        with daemon.connect() as sock:
            sock.sendall(make_interest(from_uri("/x/pending"), nonce=1, lifetime_ms=60_000))
            frame, sender = slow.recvfrom(9000)
            reload(daemon, CONFIG + face(right, "/x"))
            assert ask(sock, "/x/after") == "right"
            name = parse_interest(parse_lp(frame).fragment).name
            slow.sendto(make_data(name, b"late"), sender)
            assert parse_data(parse_lp(sock.recv(9000)).fragment).content == b"late"
        assert faces_by_uri(daemon)[uri]["persistency"] == "on-demand", "it goes when it is idle"


def test_a_connection_that_is_named_no_more_is_closed_and_one_that_is_refused_does_not_hold_up_the_rest(
    tmp_path: Path, right: Neighbour
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        named = CONFIG + f'[[faces]]\nuri = "tcp4://127.0.0.1:{server.getsockname()[1]}"\nroutes = ["/tcp"]\n'
        refused = f'[[faces]]\nuri = "tcp4://127.0.0.1:{nobody.getsockname()[1]}"\nroutes = ["/nobody"]\n'
        with running(tmp_path, named) as daemon, daemon.connect() as sock:
            server.settimeout(PATIENCE_S)
            accepted, _ = server.accept()
            with accepted:
                accepted.settimeout(PATIENCE_S)
                reload(daemon, CONFIG + refused + face(right, "/tcp"))
                assert ask(sock, "/tcp/1") == "right"
                assert accepted.recv(1) == b"", "closed"


def test_a_route_that_a_command_has_made_stays(tmp_path: Path, left: Neighbour, right: Neighbour) -> None:
    with running(tmp_path, CONFIG + face(left, "/a")) as daemon, client_of(daemon) as client:
        number = int(str(faces_by_uri(daemon)[left.uri]["face"]))
        for name, origin in (("/mine", Origin.STATIC), ("/a", Origin.CLIENT)):
            parameters = ControlParameters(name=from_uri(name), face=number, origin=origin)
            assert client.command("rib/register", parameters).code == 200
        reload(daemon, CONFIG + face(left, "/b"))
        routes = {(each["prefix"], hop["origin"]) for each in snapshot(client)["rib"] for hop in each["hops"]}
        assert {("/mine", Origin.STATIC), ("/a", Origin.CLIENT), ("/b", Origin.STATIC)} <= routes
        assert ("/a", Origin.STATIC) not in routes


def test_a_file_that_is_refused_changes_nothing(tmp_path: Path, left: Neighbour, right: Neighbour) -> None:
    good = CONFIG + face(left, "/a")
    authorisation = tmp_path / "who.toml"
    authorisation.write_text("[[authorize]]\ncertfile = 'nowhere'\nprivileges = ['rib']\n")
    bad = [
        "log_level = 'loud'\n" + CONFIG,
        CONFIG + face(right, "/a") + "[[faces]]\nuri = 'udp://no.such.host.invalid'\n",
        CONFIG + face(right, "/a") + "[[strategies]]\nprefix = '/a'\nstrategy = 'worst-route'\n",
        CONFIG + face(right, "/a") + "[[strategies]]\nprefix = '/a'\nstrategy = 'best-route/v=5/x~1'\n",
        f"authorizations = '{authorisation}'\n" + CONFIG + face(right, "/a"),
        f"log_file = '{tmp_path}/no/such/directory/log'\n" + CONFIG + face(right, "/a"),
        "[unix\n",
    ]
    with running(tmp_path, good) as daemon, daemon.connect() as sock:
        with client_of(daemon) as client:
            before = snapshot(client)
        for config in bad:
            said = reload(daemon, config, "not reloaded, all stays as it was: ")
            (line,) = [line for line in said.splitlines() if " INFO " not in line]
            assert " ERROR not reloaded" in line
        (tmp_path / "feednet.toml").unlink()
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "No such file" in daemon.log.read_text(), "told")
        with client_of(daemon) as client:
            after = snapshot(client)
        for table in ("fib", "rib", "strategies"):
            assert after[table] == before[table]
        assert ask(sock, "/a/1") == "left"


def test_log_level_log_file_strategies_and_content_store_follow(tmp_path: Path, left: Neighbour) -> None:
    with running(tmp_path, CONFIG) as daemon, client_of(daemon) as client:
        chosen = "[[strategies]]\nprefix = '/a'\nstrategy = 'multicast'\n[content_store]\ncapacity = 7\n"
        reload(daemon, f"log_file = '{tmp_path}/file'\n" + CONFIG + chosen)
        now = snapshot(client)
        assert now["cs"]["capacity"] == 7
        by_prefix = {each["prefix"]: each["strategy"] for each in now["strategies"]}
        assert by_prefix.keys() == {"/", "/a"}
        assert "/multicast/" in by_prefix["/a"]
        assert "reloaded" in (tmp_path / "file").read_text()
        (tmp_path / "feednet.toml").write_text("log_level = 'warning'\n" + CONFIG)
        told = daemon.log.read_text().count("reloaded")
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: snapshot(client)["cs"]["capacity"] == 65536, "reloaded")
        now = snapshot(client)
        assert "WARNING" in reload(
            daemon, "log_level = 'warning'\ncontrolled_push = false\n" + CONFIG, "restart"
        )
        assert daemon.log.read_text().count("reloaded") == told, "of too low a level"
        assert {each["prefix"] for each in now["strategies"]} == {
            "/",
            "/localhost",
            "/localhost/nfd",
            "/ndn/broadcast",
        }


def test_keys_that_wait_for_a_restart_are_named(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        said = reload(daemon, "controlled_push = false\n" + CONFIG + "idle_s = 5\n", said="after a restart")
        assert "take effect after a restart: controlled_push, udp.idle_s" in said
        assert "restart" not in reload(daemon, CONFIG)


def test_other_signals_leave_it_alone_and_a_terminal_that_goes_ends_it(tmp_path: Path) -> None:
    with running(tmp_path) as daemon, daemon.connect() as sock:
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            daemon.process.send_signal(number)
            said = f"{number.name} has no meaning"
            wait_until(lambda said=said: said in daemon.log.read_text(), said)
        assert ask(sock, "/x") == f"nack {NO_ROUTE}"
        assert daemon.stop() == 0
    assert not daemon.path.exists()
    main, terminal = os.openpty()
    process = subprocess.Popen(
        [*AT_TERMINAL, *COMMAND, "--config", str(tmp_path / "feednet.toml")],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    os.close(terminal)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"feednet: ready")
    os.close(main)
    assert process.wait(PATIENCE_S) == 0
    process.stdout.close()
    assert not daemon.path.exists()
