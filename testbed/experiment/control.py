"""The control socket of a run over Mininet: queries, changes, and entering of nodes.

It is RUN.partial/LAYERING/control. Requests and answers are lines of JSON:

    {"ask": "state"}                    time_ns from the run's start, dilation of its clock, and nodes: the
                                        report of each node
    {"ask": "change", "change": {...}}  a testbed.scenario.sections.Change happens now
    {"ask": "node", "node": NAME}       a node's namespace, home and environment
    {"ask": "end"}                      the run ends

The answer to a refused request is {"error": ...}. The kernel identifies the listener (SO_PEERCRED), so a
client with access to the socket finds the run's namespaces without any list of processes.
"""

import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from analysis.files import partial_of
from base.passive import Closing
from testbed.errors import UserError
from testbed.experiment.live import LiveRun, State, state_of
from testbed.hosts.surroundings import ProgramEnvironment
from testbed.layerings.nodes.workload import Workload
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change
from topologies.mininet.sandbox import entering

CONTROL = "control"
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_LOOK_AGAIN_S = 0.01
_CHUNK = 1 << 16

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Answers a request; raises UserError to refuse it."""


_PATIENCE_S = 0.5
"""Timeout of reading an answer."""


@contextmanager
def _address(directory: Path) -> Iterator[str]:
    """Yield a socket address short enough for the kernel, whatever the directory's depth."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{CONTROL}"
    finally:
        os.close(descriptor)


class ControlServer(Closing):
    """The server in the run.

    Args:
        directory: of the layering. Without sockets in its file system there is no control.

    Attributes:
        sockets: to be polled; pass a readable one to serve().
    """

    def __init__(self, directory: Path) -> None:
        self.sockets: list[socket.socket] = []
        self._path = directory / CONTROL
        self._begun: dict[socket.socket, bytes] = {}
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(OSError), _address(directory) as address:
            self._listening.bind(address)
            self._path.chmod(0o600)
            self._listening.listen()
            self.sockets.append(self._listening)

    def serve(self, ready: socket.socket, answer: Answer) -> None:
        """Accept a connection, or answer a request."""
        if ready is self._listening:
            accepted = ready.accept()[0]
            accepted.settimeout(_PATIENCE_S)
            self.sockets.append(accepted)
            return
        data = b""
        with suppress(OSError):
            data = ready.recv(_CHUNK)
        if not data:
            self._drop(ready)
            return
        *lines, self._begun[ready] = (self._begun.get(ready, b"") + data).split(b"\n")
        for line in lines:
            try:
                reply = answer(json.loads(line))
            except (UserError, ValueError, KeyError, TypeError, RecursionError) as error:
                reply = {"error": str(error)}
            try:
                ready.sendall(json.dumps(reply).encode() + b"\n")
            except OSError:  # a client that is gone or does not read must not block the run
                self._drop(ready)
                return

    def _drop(self, which: socket.socket) -> None:
        self.sockets.remove(which)
        self._begun.pop(which, None)
        which.close()

    def close(self) -> None:
        """Close it, and remove the socket's file."""
        for each in {*self.sockets, self._listening}:
            each.close()
        self._path.unlink(missing_ok=True)


class RunEnded(UserError):
    """The run has ended."""


class ControlClient(Closing):
    """The client.

    Args:
        directory: of the layering. Raises OSError if nobody listens there.

    Attributes:
        pid: of the run's program, in this process's namespace.
    """

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _address(directory) as address:
                self._socket.connect(address)
            told = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except BaseException:
            self._socket.close()
            raise
        self.pid = _CREDENTIALS.unpack(told)[0]
        self._file = self._socket.makefile("rwb")

    def ask(self, what: str, **request: Any) -> dict[str, Any]:
        """Return the answer to a request; raise UserError if it is refused, RunEnded if the run is over."""
        line = b""
        with suppress(OSError):
            self._file.write(json.dumps({"ask": what, **request}).encode() + b"\n")
            self._file.flush()
            line = self._file.readline()
        if not line.endswith(b"\n"):
            raise RunEnded("the run has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UserError(answer["error"])
        return answer

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._file.close()
        self._socket.close()


class MininetLiveRun(LiveRun):
    """See LiveRun: time is the machine's, possibly dilated.

    Args:
        client: to the run; closed at the end of the `with` block.
        scenario, layering, load: see LiveRun.
    """

    def __init__(self, client: ControlClient, scenario: Scenario, layering: str, load: Workload) -> None:
        super().__init__(scenario, layering, load)
        self._client = client
        state = client.ask("state")  # answered once all nodes are up
        self._dilation = int(state["dilation"])
        self._start = time.monotonic_ns() - int(state["time_ns"]) * self._dilation

    @property
    def time_s(self) -> float:
        return (time.monotonic_ns() - self._start) / 1e9 / self._dilation

    def state(self) -> State:
        state = self._client.ask("state")
        return state_of(state["nodes"], state["time_ns"], self._expected)

    def command(self, node: str, argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """Return the command line and the environment that run a program on a node, for subprocess."""
        return command_on(self._client, node, argv, os.getcwd())

    def _advance(self, until_s: float) -> None:
        time.sleep(max(until_s - self.time_s, 0) * self._dilation)

    def _apply(self, change: Change) -> None:
        self._client.ask("change", change=change.model_dump(exclude_none=True))

    def _finish(self) -> None:
        self._client.ask("end")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


def command_on(
    client: ControlClient, node: str, argv: Sequence[str], directory: str | None = None
) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the environment to run a program on a node of a run, by default in the
    node's home. Raises UserError.
    """
    place = ProgramEnvironment(**client.ask("node", node=node))
    command = entering(client.pid, place.netns, argv, directory or place.home)
    return command, place.all_environment()


def wait_for(directory: Path, is_running: Callable[[], bool]) -> ControlClient:
    """Connect with a starting run of a layering; raise RunEnded if it ends before listening."""
    while is_running():
        with suppress(OSError):
            return ControlClient(directory)
        time.sleep(_LOOK_AGAIN_S)
    raise RunEnded("the run has ended before its nodes ran")


def connect_to_run(run: Path) -> ControlClient:
    """Connect with the current run of a directory, given by its final or partial name.

    Raises UserError, with one line, if there is none.
    """
    places = [run] if run.name.endswith(".partial") else [partial_of(run), run]
    for place in places:
        for each in sorted(place.glob(f"*/{CONTROL}")):
            with suppress(OSError):
                return ControlClient(each.parent)
    if run.is_dir() and run not in places[:1]:
        raise UserError(f"{run}: the run has ended; a run over Mininet that is started with --hold stays up")
    if places[0].is_dir():
        raise UserError(f"{run}: no nodes can be entered: it has ended, is not up yet, or is emulated")
    raise UserError(f"{run}: there is no such run; give the directory that `feednet run --out` names")
