"""Running one layering of a scenario over Mininet: the program in the box
(testbed.experiment.inside_sandbox).

DIRECTORY is that of the run, with scenario.json, which determines the load; results go into
DIRECTORY/LAYERING, result.json last. Every node is a process of its own in its Mininet host's network
namespace, forked from this one, so that fifteen nodes cost one start of Python. A restarted node is a new
process in the same namespace. With `hold` nodes continue after the run's end, until a request or SIGINT ends
them. Many nodes are packed into few processes (testbed.hosts.packs). The run's clock is DILATION times slower
than the machine's (captures.network.clock).
"""

import gc
import json
import multiprocessing
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, cast

from base.key_log import Secret
from base.units import MS
from captures.network.clock import Clock
from testbed.errors import UserError
from testbed.experiment import code
from testbed.experiment.control import ControlServer
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
from testbed.experiment.live import check_node
from testbed.hosts import host_process
from testbed.hosts.host_process import Report
from testbed.hosts.packs import packs
from testbed.hosts.parent import Line
from testbed.hosts.surroundings import ProgramEnvironment, program_environment
from testbed.hosts.user_programs import UserPrograms
from testbed.layerings.nodes.node import AppState
from testbed.layerings.nodes.workload import Workload
from testbed.scenario import workload
from testbed.scenario.conditions import Routes
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change
from testbed.scenario.timeline import Awaited, Timeline, change_row, described
from topologies.mininet import sandbox
from topologies.mininet.child import Child
from topologies.mininet.network import MininetNetwork
from topologies.routing import next_hops

_LEAD_S = 0.3  # from "go" to the first event: all nodes must be awake by then
_GRACE_S = 10.0
_START_S = 90.0  # a node's other programs may take long to start


class RunError(Exception):
    """The run failed; the message is one line."""


def run(
    directory: Path,
    layering: str,
    impairment: Literal["auto", "netem", "relay"],
    dilation: int,
    *,
    is_held: bool = False,
) -> None:
    """Run a layering; raises RunError, or OSError from bringing the network up."""
    scenario = Scenario.model_validate_json((directory / SCENARIO).read_text(encoding="utf-8"))
    code.load(scenario)
    load = workload.load(scenario)
    output = directory / layering
    clock = Clock.from_now(dilation)
    with (
        ControlServer(output) as control,
        MininetNetwork(
            scenario.network,
            scenario.seed,
            impairment,
            directory=output,
            routing=scenario.routing.routing,
            dilation=dilation,
        ) as network,
        _recording(scenario, network, output, clock) as capture,
        TemporaryDirectory() as homes,
    ):
        nodes = _Nodes(scenario, layering, load, network, Path(homes), control, clock, is_held=is_held)
        timeline = nodes.run(output)
    write_secrets(output, nodes.secrets)
    result = {
        "impairment": network.impairment,
        "impairment_reason": network.reason,
        "links": network.relay_counters,
        **timeline.as_row(),
        "sample_interval_ns": round(scenario.sample_interval_ms * 1e6),
        "cpu_ns": dict(nodes.cpu_ns),
        "processes": nodes.most_processes,
        "capture": capture,
        "happened": described(nodes.happened, timeline.start, scenario.network),
        "programs": nodes.programs,
        "cells": (network.relay_counters or {}).pop("cells", {}),
    }
    write_json(output / RESULT, result)


@contextmanager
def _recording(
    scenario: Scenario, network: MininetNetwork, output: Path, clock: Clock
) -> Iterator[dict[str, Any]]:
    """Capture every interface inside the `with` block; yields a dictionary for the recorder's counts."""
    taps = [
        {"name": described.name, "description": described.description, "ipv4": described.ipv4}
        | {"netns": network.netns(interface.node)}
        for described, interface in zip(
            capture_interfaces(scenario.network), scenario.network.interfaces, strict=True
        )
    ]
    specification = output / "recorder.json"
    specification.write_text(
        json.dumps(
            {"output": str(output / CAPTURE), "application": "feednet", "clock": clock, "interfaces": taps}
        ),
        encoding="utf-8",
    )
    capture: dict[str, Any] = {}
    recorder = Child("the recorder", [sys.executable, "-m", "captures.network.recorder", str(specification)])
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
    """The processes of all nodes, one per node or per pack.

    Attributes:
        secrets: reported by the nodes.
        cpu_ns: processor time, user and system, of each process from the timeline's start to its end, by the
            node, or the first node of a pack.
        most_processes: their number at the start.
        happened: awaited and requested changes, each with its time, ns.
        programs: the endings of the user's programs.
    """

    def __init__(
        self,
        scenario: Scenario,
        layering: str,
        load: Workload,
        network: MininetNetwork,
        homes: Path,
        control: ControlServer,
        clock: Clock,
        *,
        is_held: bool,
    ) -> None:
        self._scenario = scenario
        self._homes = homes
        self._layering = layering
        self._load = load
        self._network = network
        self._control = control
        self._clock = clock
        self._is_held = is_held
        self._is_over = False
        self._fork = multiprocessing.get_context("fork")
        self._processes: dict[str, _Process] = {}  # of a node alone, or of several, by the first of them
        self._packs = packs(scenario, layering)
        self._kept: dict[str, AppState] = {}  # of stopped nodes
        self._events: list[dict[str, Any]] = []
        self._samples: list[dict[str, Any]] = []
        self.secrets: list[Secret] = []
        self.cpu_ns: Counter[str] = Counter()
        self.happened: list[tuple[int, Change]] = []
        self.programs: list[dict[str, Any]] = []
        self._heard: dict[str, tuple[str, Any]] = {}  # received messages not expected yet
        self._copies: list[dict[str, int]] = []  # unprocessed delivery counts of nodes
        self.most_processes = len(self._packs)

    def run(self, output: Path) -> Timeline:
        """Run all nodes from start to end, and write their reports."""
        for source in self._scenario.sources:  # once, before the fork; it also imports networkx
            next_hops(self._scenario.network, source, self._scenario.routing.routing)
        gc.collect()
        gc.freeze()  # pages without collections stay shared
        programs = UserPrograms(self._scenario.programs, output, self._place, self._network.popen)
        try:
            for name in self._packs:
                self._start(name)
            for name in self._processes:
                self._expect(name, "ready", _START_S)
            start = self._clock.at(time.time_ns() + round(_LEAD_S * 1e9))
            timeline = self._timeline = Timeline.of(self._scenario, self._load, start)
            for name in self._processes:
                self._processes[name].connection.send((timeline, None, None))
            awaited = Awaited(timeline, self._load)
            agenda: list[tuple[int, Change | Routes | int]] = [*timeline.changes]
            agenda += [(routes.time, routes) for routes in timeline.routes]
            agenda += [
                (timeline.start + round(program.at_ms * MS), number)
                for number, program in enumerate(self._scenario.programs)
            ]
            for at, due in sorted(agenda, key=lambda entry: entry[0]):
                self._wait(at, awaited)
                if self._is_over:
                    break
                if isinstance(due, Change):
                    self._apply(due, at, is_planned=True)
                elif isinstance(due, int):
                    programs.start(due)
                else:
                    self._network.reroute(due.network, due.ip)
            self._wait(timeline.end, awaited)
            if self._is_held or self._is_over:
                timeline = timeline.ended(self._hold_open(awaited))
            self.programs = programs.end()
            for name in self._processes:
                self._collect(name, self._seconds_until(timeline.end) + _GRACE_S)
        finally:
            programs.end()
            for process, _ in self._processes.values():
                process.kill()
                process.join()
        write_events(output / EVENTS, self._events)
        write_rows(output / COUNTERS, self._samples)
        return timeline

    def _hold_open(self, awaited: Awaited) -> int:
        """Continue until a request to end; return its time, ns."""
        with suppress(KeyboardInterrupt):
            self._wait(None, awaited)
        for name in self._processes:
            self._send(name, "end")
        return self._clock.now()

    def _seconds_until(self, until: int) -> float:
        """Return the machine's seconds until a time of the run, ns."""
        return self._clock.machine_s(max(until - self._clock.now(), 0))

    def _wait(self, until: int | None, awaited: Awaited) -> None:
        """Wait until a time, ns; apply changes that become due by deliveries, and answer requests."""
        while not self._is_over and (until is None or until > self._clock.now()):
            names = {each.connection: name for name, each in self._processes.items()}
            quiet = [connection for connection, name in names.items() if name not in self._heard]
            seconds = None if until is None else self._seconds_until(until)
            for ready in wait([*quiet, *self._control.sockets], seconds):
                if isinstance(ready, socket):
                    self._control.serve(ready, self._answer)
                elif isinstance(ready, Connection) and names[ready] not in self._heard:
                    self._receive(names[ready])
            for copies in self._copies:
                for change in awaited.take(copies):
                    now = self._clock.now()
                    self.happened.append((now, change))
                    self._apply(change, now, is_planned=False)
            self._copies.clear()

    def _answer(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """Answer a request (testbed.experiment.control). Raises UserError."""
        if request["ask"] == "state":
            time_ns = self._clock.now() - self._timeline.start
            return {"time_ns": time_ns, "dilation": self._clock.dilation, "nodes": self._state()}
        if request["ask"] == "change":
            change = Change.model_validate(request["change"])
            if change.strategy is not None:
                raise UserError("strategy: it is for [[events]], not for a run that goes on")
            if change.node is not None and self._packs.get(change.node, ()) is not None:
                raise UserError(
                    f"{change.event}: {change.node} is packed into a process with others; set hosts = "
                    '"processes" in the scenario'
                )
            check_node(change, self._processes)
            now = self._clock.now()
            self.happened.append((now, change))
            self._apply(change, now, is_planned=False)
            return {}
        if request["ask"] == "node":
            return self._place(request["node"])._asdict()
        if request["ask"] == "end":
            self._is_over = True
            return {}
        raise UserError(f"{request['ask']}: nobody knows what that asks")

    def _state(self) -> dict[str, Any]:
        """Return the reports of all running nodes."""
        found: dict[str, Any] = {}
        asked = [name for name in self._processes if name not in self._heard and self._send(name, "state")]
        for name in asked:
            while name not in self._heard:
                state = self._receive(name)
                if state is not None:
                    found |= state
                    break
        return found

    def _place(self, node: str) -> ProgramEnvironment:
        """Return a node's surroundings for a program to be run there. Raises UserError."""
        if node not in self._scenario.network.nodes:
            known = ", ".join(self._scenario.network.nodes)
            raise UserError(f"{node}: there is no such node; there are {known}")
        network = self._scenario.network
        return program_environment(network, node, self._network.netns(node), self._homes / node)

    def _start(self, name: str) -> None:
        """Fork the process of a node or pack, which reports that it is ready and waits for a timeline."""
        here, there = self._fork.Pipe()
        pack, netns = self._packs[name], self._network.netns
        target = host_process.run_node if pack is None else host_process.run_pack
        who = (name, self._load, netns(name)) if pack is None else (pack, self._load, netns)
        line = Line(there, self._is_held, self._clock)
        args = (self._scenario, self._layering, *who, self._homes / name, line)
        process = self._fork.Process(target=target, args=args, name=name)
        process.start()
        there.close()
        self._processes[name] = _Process(process, here)

    def _apply(self, change: Change, at: int, *, is_planned: bool) -> None:
        """Apply a change; nodes are notified of unplanned ones."""
        self._events.append(change_row(change, self._scenario.network, at))
        name = change.node
        if change.strategy is not None:
            return  # nodes follow the timeline
        if change.membership is not None:
            interface = self._scenario.network.attachment_of(*change.membership)
            self._network.set_present(interface, change.join is not None)
            return
        if name is None:
            network = self._scenario.network
            link = network.link_between(*change.ends)
            if change.link_change is not None:
                self._network.change_link(link, change.changed(network.links[link]))
            else:
                self._network.set_link(link, change.link_up is not None)
                if not is_planned and change.is_signalled:
                    for first in {self._pack_head(end) for end in change.ends} & self._processes.keys():
                        self._send(first, change)
            return
        if name not in self._packs or self._packs[name] is not None:
            return  # in a pack it happens by the timeline
        if change.ends_programs:
            if not is_planned:
                self._send(name, change)
            self._kept[name] = self._collect(name, _GRACE_S)
            self._processes.pop(name).process.join()
        if not change.stop:
            self._start(name)
            self._expect(name, "ready", _START_S)
            self._processes[name].connection.send((self._timeline, self._kept.pop(name), at))

    def _pack_head(self, node: str) -> str:
        """Return the first node of a node's pack; of a node alone, itself."""
        packs = (first for first, pack in self._packs.items() if pack is not None and node in pack)
        return next(packs, node)

    def _collect(self, name: str, seconds: float) -> AppState:
        """Wait for the final report of a node or a pack; return its applications' state."""
        report: Report = self._expect(name, "report", seconds)
        self._events += report.events
        self.secrets += report.secrets
        self._samples += report.samples
        self.cpu_ns[name] += report.cpu_ns
        return report.state

    def _expect(self, name: str, kind: str, seconds: float) -> Any:
        """Wait for a node's message of a kind; return its content."""
        until = time.monotonic() + seconds
        while name not in self._heard:
            left = max(until - time.monotonic(), 0)
            if not self._processes[name].connection.poll(left):
                raise RunError(f"node {name}: nothing heard for {seconds:.0f} s")
            self._receive(name)
        got, content = self._heard.pop(name)
        assert got == kind, (name, got)
        return content

    def _send(self, name: str, what: object) -> bool:
        """Send a message to a node; return whether it runs."""
        try:
            self._processes[name].connection.send(what)
        except BrokenPipeError:  # it has just ended
            return False
        return True

    def _receive(self, name: str) -> dict[str, Any] | None:
        """Process a node's next message; return its content if it is a requested state."""
        try:
            kind, content = self._processes[name].connection.recv()
        except EOFError:
            raise RunError(f"node {name}: ended unexpectedly") from None
        if kind == "error":
            raise RunError(f"node {name}: {content}")
        if kind == "state":
            state: dict[str, Any] = content
            return state
        if kind == "delivered":
            self._copies.append(content)
        else:
            self._heard[name] = kind, content
        return None


def main() -> int:
    """Run as the first program in a box; return the exit status."""
    directory, layering, impairment, dilation, *hold = sys.argv[1:]
    try:
        sandbox.prepare()  # from then on an interrupt is an exception
        chosen = cast(Literal["auto", "netem", "relay"], impairment)
        run(Path(directory), layering, chosen, int(dilation), is_held=hold == ["hold"])
    except (RunError, UserError, OSError, subprocess.SubprocessError) as error:
        print(f"feednet: {layering} over Mininet: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
