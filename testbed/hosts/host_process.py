"""The processes of nodes over Mininet: one node each, or many nodes packed into one.

A socket stays in the network namespace in which it was opened, so one process can run the nodes of many
hosts, each with sockets of its own. A pack costs little more memory than one node, where processes take 20
MiB each, and its nodes share one processor. There is a pack for each processor.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from base.key_log import Secret
from base.sockets import Sockets
from captures.network.clock import Clock
from captures.network.netns import inside
from testbed.hosts.context import build, managed, processes
from testbed.hosts.dilated_loop import DilatedLoop
from testbed.hosts.local_faces import FORWARDER, LocalFaces
from testbed.hosts.processes import ProcessEnded, Running, running
from testbed.layerings.nodes.ndn_node import NdnNode
from testbed.layerings.nodes.node import AppState, Choosing, Node, Rerouted, report_of, sample
from testbed.layerings.nodes.other_forwarder import NotManaged
from testbed.layerings.nodes.workload import Workload
from testbed.scenario.conditions import Routes
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change
from testbed.scenario.timeline import Awaited, Timeline, sample_times

MOST_PROCESSES = 64
"""Nodes that have a process each, unless the scenario says so."""


class Report(NamedTuple):
    """What a process has to tell at its end: its nodes' events, samples and secrets, its processor time, and
    what the applications of a node alone keep."""

    events: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    cpu_ns: int
    state: AppState
    secrets: list[Secret]


def packs(scenario: Scenario, layering: str) -> dict[str, tuple[str, ...] | None]:
    """Return the processes of nodes: None for a node alone; for a pack its nodes, by the first of them.

    A node with programs beside its own is always alone. Packs have about equally many interfaces, because the
    work of a node grows with its interfaces. So a hub shares its process with few others.
    """
    nodes = scenario.network.nodes
    if scenario.hosts == "processes" or (scenario.hosts == "auto" and len(nodes) <= MOST_PROCESSES):
        return dict.fromkeys(nodes)
    alone = [name for name in nodes if processes(scenario, layering, name)]
    others = [name for name in nodes if name not in alone]
    count = min(os.cpu_count() or 1, len(others))
    interfaces = Counter(each.node for each in scenario.network.interfaces)
    shared: list[list[str]] = [[] for _ in range(count)]
    loads = [0] * count
    for name in sorted(others, key=lambda name: -interfaces[name]):
        least = loads.index(min(loads))
        shared[least].append(name)
        loads[least] += max(interfaces[name], 1)
    return {**dict.fromkeys(alone), **{pack[0]: tuple(pack) for pack in shared}}


def one(
    scenario: Scenario,
    layering: str,
    name: str,
    load: Workload,
    netns: str,
    home: Path,
    connection: Connection,
    is_held: bool,
    clock: Clock,
) -> None:
    """Be one node: the process that is forked for it, until the end of the run or its next restart.

    If the run is held, it goes on after its end, until the parent says so.
    """
    _leave_signals()
    line = _Line(connection, is_held, clock)
    try:
        with inside(netns), running(processes(scenario, layering, name), home) as beside:
            socket_path = home / FORWARDER
            forwarder = managed(scenario, layering, name, load)
            try:
                if forwarder is not None:
                    forwarder.manage(socket_path, beside.check)
                connection.send(("ready", None))
                timeline, state, since = connection.recv()
                routes = None if since is None else timeline.routes_at(since)
                if forwarder is not None and routes is not None:
                    forwarder.reroute(routes.network, routes.ndn)
                node = forwarder or build(scenario, layering, name, load, timeline, state=state, since=since)
                watch = _Watch(node, Awaited(timeline, load), line)
                drive = _drive(node, beside, scenario, timeline, since, watch, socket_path)
                samples, cpu_ns = _run(drive, clock)
            finally:
                beside.check()  # a program that has ended is the reason for other failures
        events = [*watch.events, *node.take_events()]
        report = Report(events, samples, cpu_ns, node.state, node.take_secrets())
        connection.send(("report", report))
    except (ProcessEnded, NotManaged) as error:
        connection.send(("error", str(error)))
    except Exception as error:
        connection.send(("error", f"{type(error).__name__}: {error}"))


def pack(
    scenario: Scenario,
    layering: str,
    names: Sequence[str],
    load: Workload,
    netns: Callable[[str], str],
    home: Path,
    connection: Connection,
    is_held: bool,
    clock: Clock,
) -> None:
    """Be many nodes: the process that is forked for them, until the end of the run."""
    _leave_signals()
    cpu_before = 0
    report = Report([], [], 0, AppState(), [])
    line = _Line(connection, is_held, clock)

    async def live(name: str, timeline: Timeline) -> None:
        """Be one of the nodes, as often as it starts."""
        state: AppState | None = None
        within = partial(inside, netns(name))
        starts = (at for at, change in timeline.changes if change.node == name and not change.stop)
        for since in (None, *starts):
            if since is not None:
                await asyncio.sleep((since - clock.now()) / 1e9)
            node = build(scenario, layering, name, load, timeline, state=state, since=since)
            watch = _Watch(node, Awaited(timeline, load), line)
            at = home.with_name(name) / FORWARDER
            samples, _ = await _drive(node, Running(()), scenario, timeline, since, watch, at, within)
            report.events.extend([*watch.events, *node.take_events()])
            report.samples.extend(samples)
            report.secrets.extend(node.take_secrets())
            state = node.state

    async def live_all(timeline: Timeline) -> None:
        nonlocal cpu_before
        lives = asyncio.gather(*(live(name, timeline) for name in names))
        await asyncio.sleep((timeline.start - clock.now()) / 1e9)
        cpu_before = time.process_time_ns()
        await lives

    try:
        connection.send(("ready", None))
        timeline, _, _ = connection.recv()
        _run(live_all(timeline), clock)
        connection.send(("report", report._replace(cpu_ns=time.process_time_ns() - cpu_before)))
    except Exception as error:
        connection.send(("error", f"{type(error).__name__}: {error}"))


_Result = TypeVar("_Result")


def _run(work: Coroutine[Any, Any, _Result], clock: Clock) -> _Result:
    """Do asynchronous work whose timers follow a clock."""
    with asyncio.Runner(loop_factory=partial(DilatedLoop, clock.dilation)) as runner:
        return runner.run(work)


class _Line:
    """The connection of a process to its parent, which its nodes share.

    Args:
        connection: to the parent.
        is_held: whether the run goes on after its end.
        clock: of the run.

    Attributes:
        watches: of the nodes that run, by name.
    """

    def __init__(self, connection: Connection, is_held: bool, clock: Clock) -> None:
        self.connection = connection
        self.is_held = is_held
        self.clock = clock
        self.watches: dict[str, _Watch] = {}

    def hear(self) -> None:
        """Take in what the parent says: what has happened, what it asks, or that it is over."""
        said = self.connection.recv()
        if said == "state":
            self.connection.send(("state", {name: watch.report() for name, watch in self.watches.items()}))
        elif said == "end":
            for watch in self.watches.values():
                watch.end_now()
        elif said.node is not None:
            self.watches[said.node].end_now()
        else:
            for end in said.ends:
                if end in self.watches:
                    self.watches[end].listener(said)


class _Watch:
    """Tells the parent what a node has got, as long as something waits for that, and hears what comes of it.

    Args:
        node: the node.
        awaited: what waits.
        line: to the parent.

    Attributes:
        events: of the node, as far as they have been looked at.
        listener: takes in that a link of the node is down, or up again.
        clock: of the run.
    """

    def __init__(self, node: Node, awaited: Awaited, line: _Line) -> None:
        self.events: list[dict[str, Any]] = []
        self.clock = line.clock
        self.listener: Callable[[Change], None] = lambda _: None
        self._node, self._awaited, self._line = node, awaited, line
        self._has_ended = False
        self._sleeping: asyncio.Future[None] | None = None

    @property
    def is_held(self) -> bool:
        """Whether the run goes on after its end."""
        return self._line.is_held

    def begin(self, listener: Callable[[Change], None]) -> None:
        """Let the node hear what happens to its links besides the timeline."""
        self.listener = listener
        self._line.watches[self._node.name] = self
        asyncio.get_running_loop().add_reader(self._line.connection, self._line.hear)

    def end(self) -> None:
        """Let the node hear nothing more."""
        self._line.watches.pop(self._node.name, None)

    def look(self) -> None:
        """Look at what has been delivered."""
        if self._awaited:
            self.events += self._node.take_events()
            if self._awaited.take(self._node.state.delivered):
                self._line.connection.send(("delivered", dict(self._node.state.delivered)))

    def report(self) -> dict[str, Any]:
        """Return the node's state."""
        self.events += self._node.take_events()
        return report_of(self._node, self.clock.now())

    def end_now(self) -> None:
        """Let the node end before its time, or a run that is held."""
        self._has_ended = True
        self._wake()

    async def sleep(self, until: int | None) -> bool:
        """Sleep until a time, ns, or without one for ever; return whether the node is to end before."""
        loop = asyncio.get_running_loop()
        if not self._has_ended:
            self._sleeping = loop.create_future()
            late = None if until is None else loop.call_later((until - self.clock.now()) / 1e9, self._wake)
            await self._sleeping
            if late is not None:
                late.cancel()
        return self._has_ended

    def _wake(self) -> None:
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)


async def _drive(
    node: Node,
    beside: Running,
    scenario: Scenario,
    timeline: Timeline,
    since: int | None,
    watch: _Watch,
    forwarder: Path,
    within: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[list[dict[str, Any]], int]:
    """Run a node in real time until the run's end, its next restart or stop; `within` is that of Sockets.

    `forwarder` is the socket at which programs find the forwarder of a node over NDN. `since` is when it was
    started anew, ns; None if it was not. Returns samples of its state and counters, and the processor time
    that it took since it was started, or since the timeline's start if that is later, ns.
    """
    loop = asyncio.get_running_loop()
    failures: list[Exception] = []
    loop.set_exception_handler(
        lambda _, context: failures.append(context.get("exception") or RuntimeError(context["message"]))
    )
    sockets = Sockets(node.programs, scenario.network.address(node.name), watch.clock.steady(), within)
    samples: list[dict[str, Any]] = []
    closing = ExitStack()
    cpu_before = 0

    def begin() -> None:
        nonlocal cpu_before
        cpu_before = time.process_time_ns() + beside.cpu_ns

    def observe() -> None:
        beside.check()
        samples.append(sample(node, watch.clock.now()))
        watch.look()

    def apply(change: Change) -> None:
        peer = next(end for end in change.ends if end != node.name)
        sockets.set_link(peer, change.link_up is not None)

    def choose(node: Choosing, change: Change) -> None:
        for prefix, strategy in change.choice.items():
            node.choose_strategy(prefix, strategy)

    def reroute(node: Rerouted, routes: Routes) -> None:
        node.reroute(routes.network, routes.ndn)
        sockets.settle()

    own = [(at, change) for at, change in timeline.changes if since is None or at > since]
    ends = (at for at, change in own if change.ends_programs and change.node == node.name)
    end = min(ends, default=timeline.end)
    agenda: list[tuple[int, Callable[[], None]]] = [
        (at, lambda change=change: apply(change))  # type: ignore[misc]
        for at, change in own
        if change.tells(node.name)
    ]
    agenda += [
        (at, partial(choose, node, change))
        for at, change in own
        if change.chooses(node.name) and isinstance(node, Choosing)
    ]
    agenda += [(at, observe) for at in sample_times(scenario, timeline) if since is None or at >= since]
    if isinstance(node, Rerouted):
        agenda += [
            (routes.time, partial(reroute, node, routes))
            for routes in timeline.routes
            if since is None or routes.time > since
        ]
    if since is None:
        agenda.insert(0, (timeline.start, begin))
    try:
        await sockets.start()
        watch.begin(apply)
        # Other programs follow the machine's clock, so a dilated node must not talk to them.
        if isinstance(node, NdnNode) and watch.clock.dilation == 1:
            closing.callback(LocalFaces(node.host, sockets, forwarder).close)
        for at, action in sorted(agenda, key=lambda entry: entry[0]):
            if at > end or await watch.sleep(at):
                break
            action()
        await watch.sleep(end)
        cpu_ns = time.process_time_ns() + beside.cpu_ns - cpu_before
        if watch.is_held and end == timeline.end:
            await watch.sleep(None)
    finally:
        watch.end()
        closing.close()
        sockets.close()
    if failures:
        raise failures[0]
    return samples, cpu_ns


def _leave_signals() -> None:
    """Let signals end this process: its parent's handlers are not for it, and a terminal's Ctrl-C is for the
    parent alone, which may have nodes report before they end."""
    os.setsid()
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, signal.SIG_DFL)
