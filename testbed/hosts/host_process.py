"""The processes of nodes over Mininet: one node each, or many nodes packed into one (testbed.hosts.packs)."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from base.key_log import Secret
from captures.network.clock import Clock
from captures.network.netns import inside
from testbed.hosts.context import build, managed, processes
from testbed.hosts.dilated_loop import DilatedLoop
from testbed.hosts.live_node import LiveNode
from testbed.hosts.local_faces import FORWARDER
from testbed.hosts.parent import Line, Watch
from testbed.hosts.processes import ProcessEnded, running
from testbed.layerings.nodes.node import AppState
from testbed.layerings.nodes.other_forwarder import NotManaged
from testbed.layerings.nodes.workload import Workload
from testbed.scenario.model import Scenario
from testbed.scenario.timeline import Awaited, Timeline


class Report(NamedTuple):
    """Final report of a process: its nodes' events, samples and secrets, its processor time, and the
    application state of a node alone.
    """

    events: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    cpu_ns: int
    state: AppState
    secrets: list[Secret]


def run_node(
    scenario: Scenario, layering: str, name: str, load: Workload, netns: str, home: Path, line: Line
) -> None:
    """Run as the process of one node, until the end of the run or its next restart.

    A held run continues after its end, until the parent ends it.
    """
    _reset_signals()
    try:
        with inside(netns), running(processes(scenario, layering, name), home) as beside:
            forwarder = managed(scenario, layering, name, load)
            try:
                if forwarder is not None:
                    forwarder.manage(home / FORWARDER, beside.check)
                line.connection.send(("ready", None))
                timeline, state, since = line.connection.recv()
                routes = None if since is None else timeline.routes_at(since)
                if forwarder is not None and routes is not None:
                    forwarder.reroute(routes.network, routes.ndn)
                node = forwarder or build(scenario, layering, name, load, timeline, state=state, since=since)
                watch = Watch(node, Awaited(timeline, load), line)
                live = LiveNode(node, scenario, timeline, watch, since=since, beside=beside)
                _run(live.run(home / FORWARDER), line.clock)
            finally:
                beside.check()  # an ended program causes other failures
        events = [*watch.events, *node.take_events()]
        report = Report(events, live.samples, live.cpu_ns, node.state, node.take_secrets())
        line.connection.send(("report", report))
    except (ProcessEnded, NotManaged) as error:
        line.connection.send(("error", str(error)))
    except Exception as error:
        line.connection.send(("error", f"{type(error).__name__}: {error}"))


def run_pack(
    scenario: Scenario,
    layering: str,
    names: Sequence[str],
    load: Workload,
    netns: Callable[[str], str],
    home: Path,
    line: Line,
) -> None:
    """Run as the process of many nodes, until the end of the run."""
    _reset_signals()
    cpu_before = 0
    report = Report([], [], 0, AppState(), [])

    async def live_one(name: str, timeline: Timeline) -> None:
        """Run one of the nodes, through its restarts."""
        state: AppState | None = None
        within = partial(inside, netns(name))
        starts = (at for at, change in timeline.changes if change.node == name and not change.stop)
        for since in (None, *starts):
            if since is not None:
                await asyncio.sleep((since - line.clock.now()) / 1e9)
            node = build(scenario, layering, name, load, timeline, state=state, since=since)
            watch = Watch(node, Awaited(timeline, load), line)
            live = LiveNode(node, scenario, timeline, watch, since=since, within=within)
            await live.run(home.with_name(name) / FORWARDER)
            report.events.extend([*watch.events, *node.take_events()])
            report.samples.extend(live.samples)
            report.secrets.extend(node.take_secrets())
            state = node.state

    async def live_all(timeline: Timeline) -> None:
        nonlocal cpu_before
        lives = asyncio.gather(*(live_one(name, timeline) for name in names))
        await asyncio.sleep((timeline.start - line.clock.now()) / 1e9)
        cpu_before = time.process_time_ns()
        await lives

    try:
        line.connection.send(("ready", None))
        timeline, _, _ = line.connection.recv()
        _run(live_all(timeline), line.clock)
        line.connection.send(("report", report._replace(cpu_ns=time.process_time_ns() - cpu_before)))
    except Exception as error:
        line.connection.send(("error", f"{type(error).__name__}: {error}"))


def _run(work: Coroutine[Any, Any, None], clock: Clock) -> None:
    """Run a coroutine whose timers follow a clock."""
    with asyncio.Runner(loop_factory=partial(DilatedLoop, clock.dilation)) as runner:
        runner.run(work)


def _reset_signals() -> None:
    """Restore default signals: the parent's handlers do not apply, and a terminal's Ctrl-C is for the parent
    alone, which may collect reports first.
    """
    os.setsid()
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, signal.SIG_DFL)
