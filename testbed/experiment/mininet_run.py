"""Running one layering of a scenario over Mininet: the program in the box.

    python -m testbed.experiment.mininet_run DIRECTORY LAYERING [auto|netem|relay]

The directory is that of the run, with scenario.json, from which the load follows; what comes of it goes
into DIRECTORY/LAYERING, result.json last. Every node is a process of its own in its Mininet host's network
namespace, forked from this one, so that fifteen nodes cost one start of Python. A node that starts anew is a
new process in the same namespace.
"""

import asyncio
import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, cast

from captures.key_log import Secret
from captures.netns import inside
from forwarder.faces.driver import steady_clock
from testbed.experiment.context import build, processes
from testbed.experiment.files import (
    CAPTURE,
    COUNTERS,
    EVENTS,
    RESULT,
    SCENARIO,
    capture_interfaces,
    write_events,
    write_json,
    write_rows,
    write_secrets,
)
from testbed.experiment.processes import ProcessEnded, Running, running
from testbed.layerings.node import AppState, Node, sample
from testbed.layerings.workload import Workload
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change
from testbed.scenario.timeline import Awaited, Timeline, change_row, described, sample_times
from topologies.mininet import sandbox
from topologies.mininet.child import Child
from topologies.mininet.network import MininetNetwork
from topologies.routing import routes
from topologies.sockets import Sockets

_LEAD_NS = 300_000_000  # from "go" to the first event: all nodes must have woken up by then
_GRACE_S = 10.0
_START_S = 90.0  # programs beside a node's own may take their time


class RunError(Exception):
    """The run failed; the message is one line."""


def run(directory: Path, layering: str, impairment: Literal["auto", "netem", "relay"]) -> None:
    """Run a layering; raises RunError, or OSError from bringing the network up."""
    scenario = Scenario.model_validate_json((directory / SCENARIO).read_text(encoding="utf-8"))
    load = workload.load(scenario)
    output = directory / layering
    with (
        MininetNetwork(scenario.network, scenario.seed, impairment, directory=output) as network,
        _recording(scenario, network, output) as capture,
        TemporaryDirectory() as homes,
    ):
        nodes = _Nodes(scenario, layering, load, network, Path(homes))
        timeline = nodes.run(output)
    write_secrets(output, nodes.secrets)
    result = {
        "impairment": network.impairment,
        "impairment_reason": network.reason,
        "links": network.relay_counters,
        **timeline.as_row(),
        "sample_interval_ns": round(scenario.sample_interval_ms * 1e6),
        "cpu_ns": dict(nodes.cpu_ns),
        "capture": capture,
        "happened": described(nodes.happened, timeline.start, scenario.network),
    }
    write_json(output / RESULT, result)


@contextmanager
def _recording(scenario: Scenario, network: MininetNetwork, output: Path) -> Iterator[dict[str, Any]]:
    """Capture every interface inside the `with` block; yields what becomes the recorder's counts."""
    taps = [
        {"name": described.name, "description": described.description, "ipv4": described.ipv4}
        | {"netns": network.netns(interface.node)}
        for described, interface in zip(
            capture_interfaces(scenario.network), scenario.network.interfaces, strict=True
        )
    ]
    specification = output / "recorder.json"
    specification.write_text(
        json.dumps({"output": str(output / CAPTURE), "application": "feednet", "interfaces": taps}),
        encoding="utf-8",
    )
    capture: dict[str, Any] = {}
    recorder = Child("the recorder", [sys.executable, "-m", "captures.recorder", str(specification)])
    try:
        recorder.wait()
        specification.unlink()
        yield capture
        counts = recorder.finish()
        capture |= {key: value for key, value in counts.items() if key != "interfaces"}
    finally:
        recorder.kill()


class _Process(NamedTuple):
    """A node's process, and the connection to it."""

    process: ForkProcess
    connection: Connection


class _Nodes:
    """The processes of all nodes.

    Attributes:
        secrets: those that they have reported.
        cpu_ns: processor time, user and system, of each node from the timeline's start to its end.
        happened: what has happened besides the timeline, as it was awaited, each with its time, ns.
    """

    def __init__(
        self, scenario: Scenario, layering: str, load: Workload, network: MininetNetwork, homes: Path
    ) -> None:
        self._scenario = scenario
        self._homes = homes
        self._layering = layering
        self._load = load
        self._network = network
        self._fork = multiprocessing.get_context("fork")
        self._processes: dict[str, _Process] = {}
        self._events: list[dict[str, Any]] = []
        self._samples: list[dict[str, Any]] = []
        self.secrets: list[Secret] = []
        self.cpu_ns: Counter[str] = Counter()
        self.happened: list[tuple[int, Change]] = []
        self._heard: dict[str, tuple[str, Any]] = {}  # what has been said and is yet to be expected

    def run(self, output: Path) -> Timeline:
        """Run all nodes from start to end, and write what they report."""
        routes(self._scenario.network, self._scenario.publisher)  # imports networkx once, before the fork
        gc.collect()
        gc.freeze()  # pages that no collection touches stay shared
        try:
            for name in self._scenario.network.nodes:
                self._start(name)
            for name in self._processes:
                self._expect(name, "ready", _START_S)
            timeline = Timeline.of(self._scenario, self._load, time.time_ns() + _LEAD_NS)
            for name in self._processes:
                self._processes[name].connection.send((timeline, None, None))
            awaited = Awaited(timeline, self._load)
            for at, change in timeline.changes:
                self._wait(at, awaited)
                self._apply(change, at, timeline)
            if awaited:
                self._wait(timeline.end, awaited)
            for name in self._processes:
                self._collect(name, max(timeline.end - time.time_ns(), 0) / 1e9 + _GRACE_S)
        finally:
            for process, _ in self._processes.values():
                process.kill()
                process.join()
        write_events(output / EVENTS, self._events)
        write_rows(output / COUNTERS, self._samples)
        return timeline

    def _wait(self, until: int, awaited: Awaited) -> None:
        """Wait until a time, ns, and let happen what is due as nodes tell what they have got."""
        while awaited and (seconds := (until - time.time_ns()) / 1e9) > 0:
            names = {each.connection: name for name, each in self._processes.items()}
            quiet = [connection for connection, name in names.items() if name not in self._heard]
            for connection in wait(quiet, seconds):
                assert isinstance(connection, Connection)
                kind, content = self._receive(names[connection])
                if kind != "delivered":
                    self._heard[names[connection]] = kind, content
                    continue
                for change in awaited.take(content):
                    now = time.time_ns()
                    self.happened.append((now, change))
                    self._apply(change, now, None)
        time.sleep(max(until - time.time_ns(), 0) / 1e9)

    def _start(self, name: str) -> None:
        """Fork a node's process, which says that it is ready and waits for a timeline."""
        here, there = self._fork.Pipe()
        process = self._fork.Process(
            target=_node,
            args=(
                self._scenario,
                self._layering,
                name,
                self._load,
                self._network.netns(name),
                self._homes / name,
                there,
            ),
            name=name,
        )
        process.start()
        there.close()
        self._processes[name] = _Process(process, here)

    def _apply(self, change: Change, at: int, timeline: Timeline | None) -> None:
        """Let a change happen; without a timeline, the nodes do not know of it yet."""
        self._events.append(change_row(change, self._scenario.network, at))
        if change.restart is None:
            link = self._scenario.network.link_between(*change.ends)
            self._network.set_link(link, change.link_up is not None)
            for end in change.ends if timeline is None and change.is_signalled else ():
                self._processes[end].connection.send(change)
            return
        state = self._collect(change.restart, _GRACE_S)
        self._processes[change.restart].process.join()
        self._start(change.restart)
        self._expect(change.restart, "ready", _START_S)
        self._processes[change.restart].connection.send((timeline, state, at))

    def _collect(self, name: str, seconds: float) -> AppState:
        """Wait for a node's report, with which it ends; return what its applications keep."""
        events, samples, cpu_ns, state, secrets = self._expect(name, "report", seconds)
        self._events += events
        self.secrets += secrets
        self._samples += samples
        self.cpu_ns[name] += cpu_ns
        kept: AppState = state
        return kept

    def _expect(self, name: str, kind: str, seconds: float) -> Any:
        """Wait for a node's message of a kind; return its content."""
        until = time.monotonic() + seconds
        while name not in self._heard:
            left = max(until - time.monotonic(), 0)
            if not self._processes[name].connection.poll(left):
                raise RunError(f"node {name}: nothing heard for {seconds:.0f} s")
            got, content = self._receive(name)
            if got != "delivered":  # nobody waits for that any more
                self._heard[name] = got, content
        got, content = self._heard.pop(name)
        if got != kind:
            raise RunError(f"node {name}: {content}")
        return content

    def _receive(self, name: str) -> tuple[str, Any]:
        """Return a node's next message, its kind and its content."""
        try:
            kind, content = self._processes[name].connection.recv()
        except EOFError:
            raise RunError(f"node {name}: ended unexpectedly") from None
        return kind, content


def _node(
    scenario: Scenario,
    layering: str,
    name: str,
    load: Workload,
    netns: str,
    home: Path,
    connection: Connection,
) -> None:
    """Be one node: the process that is forked for it, until the end of the run or its next restart."""
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, signal.SIG_DFL)  # the parent's handlers are not for its children
    try:
        with inside(netns), running(processes(scenario, layering, name), home) as beside:
            connection.send(("ready", None))
            timeline, state, since = connection.recv()
            node = build(scenario, layering, name, load, timeline, state=state, since=since)
            watch = _Watch(node, Awaited(timeline, load), connection)
            samples, cpu_ns = asyncio.run(_drive(node, beside, scenario, timeline, since, watch))
            beside.check()
        events = [*watch.events, *node.take_events()]
        connection.send(("report", (events, samples, cpu_ns, node.state, node.take_secrets())))
    except ProcessEnded as error:
        connection.send(("error", str(error)))
    except Exception as error:
        connection.send(("error", f"{type(error).__name__}: {error}"))


class _Watch:
    """Tells the parent what a node has got, as long as something waits for that.

    Args:
        node: the node.
        awaited: what waits.
        connection: to the parent.

    Attributes:
        events: of the node, as far as they have been looked at.
    """

    def __init__(self, node: Node, awaited: Awaited, connection: Connection) -> None:
        self.events: list[dict[str, Any]] = []
        self.connection = connection
        self._node, self._awaited = node, awaited

    def look(self) -> None:
        """Look at what has been delivered."""
        if self._awaited:
            self.events += self._node.take_events()
            if self._awaited.take(self._node.state.delivered):
                self.connection.send(("delivered", dict(self._node.state.delivered)))


async def _drive(
    node: Node,
    beside: Running,
    scenario: Scenario,
    timeline: Timeline,
    since: int | None,
    watch: _Watch,
) -> tuple[list[dict[str, Any]], int]:
    """Run a node in real time until the run's end or its next restart.

    `since` is when it was restarted, ns; None if it was not. Returns samples of its state and counters, and
    the processor time that it took since it was started, or since the timeline's start if that is later, ns.
    """
    loop = asyncio.get_running_loop()
    failures: list[Exception] = []
    loop.set_exception_handler(
        lambda _, context: failures.append(context.get("exception") or RuntimeError(context["message"]))
    )
    sockets = Sockets(node.programs, scenario.network.address(node.name), steady_clock())
    samples: list[dict[str, Any]] = []
    cpu_before = 0

    def begin() -> None:
        nonlocal cpu_before
        cpu_before = time.process_time_ns() + beside.cpu_ns

    def observe() -> None:
        samples.append(sample(node, time.time_ns()))
        watch.look()

    def apply(change: Change) -> None:
        peer = next(end for end in change.ends if end != node.name)
        sockets.set_link(peer, change.link_up is not None)

    own = [(at, change) for at, change in timeline.changes if since is None or at > since]
    end = min((at for at, change in own if change.restart == node.name), default=timeline.end)
    agenda: list[tuple[int, Callable[[], None]]] = [
        (at, lambda change=change: apply(change))  # type: ignore[misc]
        for at, change in own
        if change.tells(node.name)
    ]
    agenda += [(at, observe) for at in sample_times(scenario, timeline) if since is None or at >= since]
    if since is None:
        agenda.insert(0, (timeline.start, begin))
    try:
        await sockets.start()
        loop.add_reader(watch.connection, lambda: apply(watch.connection.recv()))
        for at, action in sorted(agenda, key=lambda entry: entry[0]):
            if at > end:
                break
            await asyncio.sleep((at - time.time_ns()) / 1e9)
            action()
        await asyncio.sleep((end - time.time_ns()) / 1e9)
        cpu_ns = time.process_time_ns() + beside.cpu_ns - cpu_before
    finally:
        sockets.close()
    if failures:
        raise failures[0]
    return samples, cpu_ns


def main() -> int:
    """Run as the first program in a box; return the exit status."""
    directory, layering, impairment = sys.argv[1:]
    sandbox.prepare()
    try:
        run(Path(directory), layering, cast(Literal["auto", "netem", "relay"], impairment))
    except (RunError, OSError, subprocess.SubprocessError) as error:
        print(f"feednet: {layering} over Mininet: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # nothing is left to clean up: the box goes with this process
