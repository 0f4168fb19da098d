"""The forwarder as a service: reloads, moved logs, signals, restarts and kills, with active clients.

Theory of operation. The process is supervised as by systemd (`daemon`). Two neighbours answer Interests.
Clients over Unix, TCP and UDP request names under prefixes that always have a route to one neighbour or both.
Random events follow each other; before the process ends, clients fall silent.

Invariants:

1. Each Interest is answered by its Data: a reload loses none.
2. After a reload the routes are those of the file; a wrong file is refused, and changes nothing.
3. All files of the log together have each line: one for each reload and each refusal, and no traceback.
4. SIGTERM ends the process with status 0, and removes its socket file. After SIGKILL it starts again.
5. Counters never decrease during a process's life. It has as many open files at its end as at its beginning.
"""

import json
import re
import signal
import socket
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from base.sockets import free_port
from forwarder.daemon.datasets import Client, snapshot
from forwarder.wire.lp import open_data, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import DATA, make_data, make_interest, parse_interest
from testbed.verify.kit.outcome import Violation
from testbed.verify.soak.applications import content_of
from testbed.verify.soak.daemon import PATIENCE_S, SCHEMES, Connection, Supervised

PREFIXES = 8
_LIFETIME_MS = 20_000
_PAUSE_S = 0.5
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?:DEBUG|INFO|WARNING|ERROR) ")
EVENTS = {"reload": 60, "refused": 12, "move the log": 14, "signal": 6, "restart": 4, "kill": 4}
"""Events, and their frequency in percent."""


class Neighbour:
    """Answers Interests over UDP.

    Attributes:
        uri: its address.
        answered: number of Interests.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._socket.bind(("127.0.0.1", 0))
        self.uri = f"udp4://127.0.0.1:{self._socket.getsockname()[1]}"
        self.answered = 0
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        while frame := self._socket.recvfrom(1 << 16):
            if not frame[0]:
                return
            name = parse_interest(parse_lp(frame[0]).fragment).name
            self._socket.sendto(make_data(name, content_of(name), freshness_ms=1), frame[1])
            self.answered += 1

    def close(self) -> None:
        """End."""
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


class Service(Supervised):
    """A supervised forwarder with a log, rules, and counters over HTTP.

    Attributes:
        log: path of the log.
        head: the configuration's keys outside tables.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = folder / "log"
        self.head = 'log_file = "log"\nauthorizations = "who.toml"\n'
        port = free_port()
        self._address = f"http://127.0.0.1:{port}"
        self.base += f"[metrics]\nlisten = true\nport = {port}\n"

    def counters(self) -> dict[str, Any]:
        """Return the counters served over HTTP."""
        with urllib.request.urlopen(f"{self._address}/status.json", timeout=PATIENCE_S) as answer:
            told: dict[str, Any] = json.load(answer)
        with urllib.request.urlopen(f"{self._address}/metrics", timeout=PATIENCE_S) as answer:
            if b"feednet_packets_total" not in answer.read():
                raise Violation("service", "/metrics", "has no packets")
        return told


class Clients:
    """Clients that request one name at a time each, and fall silent on request.

    Attributes:
        asked: answered Interests, by scheme.
        problems: unanswered ones.
    """

    def __init__(self, service: Supervised, seed: int) -> None:
        self.asked: Counter[str] = Counter()
        self.problems: list[str] = []
        self._service = service
        self._turn = {scheme: threading.Lock() for scheme in SCHEMES}
        self._is_over = threading.Event()
        self._life = 0
        self._threads = [
            threading.Thread(target=self._guard, args=(scheme, Random(f"{seed} {scheme}")))
            for scheme in SCHEMES
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Keep all clients idle during this block; reconnect afterwards."""
        for lock in self._turn.values():
            lock.acquire()
        self._life += 1
        try:
            yield
        finally:
            for lock in self._turn.values():
                lock.release()

    def stop(self) -> None:
        """End."""
        self._is_over.set()
        for thread in self._threads:
            if thread.is_alive():  # else it has ended, or the service has not started
                thread.join()

    def _guard(self, scheme: str, rng: Random) -> None:
        try:
            self._ask(scheme, rng)
        except Exception as error:
            self.problems.append(f"a client over {scheme}: {type(error).__name__}: {error}")

    def _ask(self, scheme: str, rng: Random) -> None:
        connection, life = None, -1
        while not self._is_over.is_set():
            with self._turn[scheme]:
                if connection is None or life != self._life:
                    if connection is not None:
                        connection.sock.close()
                    connection, life = Connection(self._service, scheme), self._life
                name = from_uri(f"/p{rng.randrange(PREFIXES)}/{rng.getrandbits(60)}")
                nonce = rng.getrandbits(32)
                connection.send(make_interest(name, nonce=nonce, lifetime_ms=_LIFETIME_MS))
                frame = connection.wait_for(lambda lp: True, _LIFETIME_MS / 1000)
                lp = None if frame is None else parse_lp(frame)
                if frame is None or lp is None or lp.fragment[:1] != bytes((DATA,)):
                    said = "nothing" if lp is None else f"Nack {lp.nack_reason}"
                    raise Violation("answer", scheme, f"{said} for an Interest between reloads")
                opened = open_data(frame)
                if opened is None or opened[0].name != name or opened[0].content != content_of(name):
                    raise Violation("answer", scheme, "another one's")
                self.asked[scheme] += 1
            time.sleep(0.002)
        if connection is not None:
            connection.sock.close()


class Drill:
    """A service, its neighbours, its clients, and the events.

    Attributes:
        happened: events so far.
        most_kb: peak of resident memory.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.happened: Counter[str] = Counter()
        self.most_kb = 0
        self.service = Service(folder)
        self._folder = folder
        self._rng = Random(f"{seed} drill")
        self._neighbours = [Neighbour(), Neighbour()]
        self.clients = Clients(self.service, seed)
        self._files = 0
        self._seen: dict[str, int] = {}
        self._good = ""
        self._lines: Counter[str] = Counter()
        self._moved = 0

    def run(self, is_over: Callable[["Drill"], bool]) -> None:
        """Run events until `is_over` returns true, which is called after each. Raises Violation."""
        self.service.config.write_text(self._draw(), encoding="utf-8")
        self._begin()
        self.clients.start()
        names, weights = list(EVENTS), list(EVENTS.values())
        doing = {
            "reload": self._reload,
            "refused": self._refused,
            "move the log": self._move,
            "signal": self._signal,
            "restart": self._restart,
            "kill": self._kill,
        }
        while not is_over(self) and not self.clients.problems:
            (event,) = self._rng.choices(names, weights)
            doing[event]()
            self.happened[event] += 1
            self._check_service()
            time.sleep(self._rng.random() * _PAUSE_S)
        self.clients.stop()
        if self.clients.problems:
            raise Violation("service", "a client", "; ".join(self.clients.problems))
        self._end()
        self._check_log()

    def close(self) -> None:
        """End all of it."""
        self.clients.stop()
        self.service.close()
        for neighbour in self._neighbours:
            neighbour.close()

    # Configurations.

    def _draw(self) -> str:
        """Return a configuration with a route for every prefix; write the rules that it refers to."""
        rng = self._rng
        level, strategy = rng.choice(("info", "debug")), rng.choice(("best-route", "asf", "multicast"))
        text = f'{self.service.head}log_level = "{level}"\n{self.service.base}'
        text += f"[content_store]\ncapacity = {rng.choice((0, 100, 65536))}\n"
        routes: list[set[int]] = [set(), set()]
        for prefix in range(PREFIXES):
            for which in rng.choice(((0,), (1,), (0, 1))):
                routes[which].add(prefix)
        for neighbour, prefixes in zip(self._neighbours, routes, strict=True):
            if prefixes:
                text += f'[[faces]]\nuri = "{neighbour.uri}"\ncost = {rng.randrange(9)}\n'
                text += f"routes = {[f'/p{prefix}' for prefix in sorted(prefixes)]}\n"
        text += f'[[strategies]]\nprefix = "/p{rng.randrange(PREFIXES)}"\nstrategy = "{strategy}"\n'
        modules = rng.sample(("faces", "fib", "rib", "cs", "strategy-choice"), rng.randrange(6))
        who = f'[[authorize]]\ncertfile = "any"\nprivileges = {modules}\n'
        who += rng.choice(("", '[[localhop]]\ncertfile = "any"\n'))
        (self._folder / "who.toml").write_text(who, encoding="utf-8")
        self._good = text
        return text

    def _check_routes(self) -> None:
        wanted = {
            (prefix, uri)
            for uri, prefixes in re.findall(r'uri = "([^"]+)"\ncost = \d\nroutes = \[(.*)\]', self._good)
            for prefix in re.findall(r"'([^']+)'", prefixes)
        }
        with closing(Client(self._folder / "nfd.sock")) as client:
            told = snapshot(client)
        uris = {face["face"]: face["remote"] for face in told["faces"]}
        found = {
            (entry["prefix"], uris[hop["face"]])
            for entry in told["fib"]
            for hop in entry["hops"]
            if entry["prefix"].startswith("/p")
        }
        if found != wanted:
            raise Violation("service", "routes after a reload", f"{found ^ wanted}")

    # Events.

    def _begin(self) -> None:
        self.service.start()
        self._seen = {}
        self._files = self.service.files()
        self._check_routes()

    def _reload(self) -> None:
        self.service.reload(self._draw())
        self._lines["INFO reloaded"] += 1
        self._check_routes()

    def _refused(self) -> None:
        good, wrong = self._good, ("log_level = 'loud'", "[unix", "[[faces]]\nuri = 'x'", "port = -1")
        self.service.reload(good + "\n" + self._rng.choice(wrong) + "\n")
        self._lines["ERROR not reloaded"] += 1
        self.service.config.write_text(good, encoding="utf-8")
        self._check_routes()

    def _move(self) -> None:
        """Move the log like logrotate, and possibly notify the forwarder, which need not know."""
        if self.service.log.exists():  # else nothing was logged since the last time
            self._moved += 1
            self.service.log.rename(self._folder / f"log.{self._moved}")
        if self._rng.random() < 0.5:
            self._reload()

    def _signal(self) -> None:
        number = self._rng.choice((signal.SIGUSR1, signal.SIGUSR2))
        self.service.process.send_signal(number)
        self._lines[f"INFO {number.name}"] += 1
        self._reload()  # signals are handled in order: by its end both were

    def _restart(self) -> None:
        with self.clients.silence():
            self._end()
            self._begin()

    def _kill(self) -> None:
        with self.clients.silence():
            self.service.kill()
            self._begin()

    def _end(self) -> None:
        """Stop; clients are silent, but connected."""
        self.service.stop()
        self._lines["INFO closing"] += 1

    # Checks.

    def _check_service(self) -> None:
        if self.service.process.poll() is not None:
            raise Violation("service", "the process", f"status {self.service.process.returncode}")
        told = self.service.counters()
        counts = told["counters"]
        fallen = [name for name, count in self._seen.items() if counts[name] < count]
        if fallen:
            raise Violation("service", "counters", f"have fallen: {fallen}")
        self._seen = counts
        self.most_kb = max(self.most_kb, self.service.memory())
        # One for each client's connection, and one for a neighbour added since the start.
        if self.service.files() > self._files + len(SCHEMES) + len(self._neighbours) + 2:
            raise Violation(
                "service", "open files", f"{self._files} at the start, {self.service.files()} now"
            )

    def _check_log(self) -> None:
        files = [*self._folder.glob("log.*"), self.service.log]
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        strange = [line for line in lines if not _LINE.match(line)]
        if strange:
            raise Violation("service", "the log", f"has {len(strange)} lines such as {strange[0]!r}")
        for text, count in self._lines.items():
            found = sum(text in line for line in lines)
            if found != count:
                raise Violation("service", "the log", f"{text!r}: {found} lines for {count} events")


def soak(is_over: Callable[[Drill], bool], seed: int) -> Drill:
    """Run a service until `is_over`; return the events. Raises Violation."""
    with tempfile.TemporaryDirectory() as folder, closing(Drill(Path(folder), seed)) as drill:
        drill.run(is_over)
        return drill
