"""Running one layering of a scenario in the emulator."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from base.endpoint import Program
from base.key_log import Secret
from captures.formats import pcapng
from ssb.keys import cached_signatures
from ssb.work import WORK
from testbed.experiment import code
from testbed.experiment.files import (
    CAPTURE,
    COUNTERS,
    EVENTS,
    capture_interfaces,
    line_of,
    write_events,
    write_secrets,
)
from testbed.experiment.live import LiveRun, Script, State, check_node, state_of
from testbed.experiment.workers import rare_collections, report, unless_killed, work_off
from testbed.hosts.context import build
from testbed.layerings.nodes.node import AppState, Node, ReroutableNode, StrategyNode, report_of, sample
from testbed.layerings.nodes.workload import Workload
from testbed.scenario.conditions import Routes
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change
from testbed.scenario.timeline import Awaited, Timeline, change_row, described, sample_times
from topologies.emulator.network import EmulatedNetwork
from topologies.emulator.processor import Processor

BUFFER: Final = 1 << 16
"""Bytes that a file gets at once."""


class EmulatedLiveRun(LiveRun):
    """See LiveRun: time advances only while the script waits."""

    def __init__(self, emulation: "Emulation", scenario: Scenario, layering: str, load: Workload) -> None:
        super().__init__(scenario, layering, load)
        self._emulation = emulation
        emulation.run(0)

    @property
    def time_s(self) -> float:
        return self._emulation.network.now / 1e9

    def state(self) -> State:
        return state_of(self._emulation.state(), self._emulation.network.now, self._expected)

    def _advance(self, until_s: float) -> None:
        self._emulation.run(max(round(until_s * 1e9), self._emulation.network.now))

    def _apply(self, change: Change) -> None:
        self._emulation.apply(change)

    def _finish(self) -> None:
        self._emulation.timeline = self._emulation.timeline.ended(self._emulation.network.now)


class Emulation:
    """The run of a layering, from virtual time 0.

    Args:
        scenario, layering, load: the run's input.
        capture: receives every frame; None to capture nothing.

    Attributes:
        timeline: scheduled changes.
        happened: awaited and requested changes, each with its time, ns.
        nodes: running nodes by name; a restarted node is another object.
        processors: of nodes, by name, if operations take time.
        busy: busy time of the processors that restarts have replaced, ns, by node.
        network: the emulated network.
    """

    def __init__(
        self, scenario: Scenario, layering: str, load: Workload, *, capture: pcapng.Writer | None = None
    ) -> None:
        self.timeline = Timeline.of(scenario, load, 0)
        self.nodes = {
            name: build(scenario, layering, name, load, self.timeline) for name in scenario.network.nodes
        }
        self.costs = scenario.cost.costs
        self.processors: dict[str, Processor] = {}
        self.busy: Counter[str] = Counter()
        self.network = EmulatedNetwork(
            scenario.network,
            {name: self._programs(node) for name, node in self.nodes.items()},
            seed=scenario.seed,
            capture=capture,
            routing=scenario.routing.routing,
        )
        self._scenario = scenario
        self._layering = layering
        self._load = load
        self._events: list[dict[str, Any]] = []
        self._secrets: list[Secret] = []
        for time, change in self.timeline.changes:
            self.network.change(time, lambda change=change: self._apply(change))  # type: ignore[misc]
        self.happened: list[tuple[int, Change]] = []
        self._awaited = Awaited(self.timeline, load)
        for time in sample_times(scenario, self.timeline) if self._awaited else ():
            self.network.observe(time, self._apply_awaited)
        for routes in self.timeline.routes:
            self.network.change(routes.time, lambda routes=routes: self._reroute(routes))  # type: ignore[misc]
        self._stopped: dict[str, AppState] = {}

    def run(self, until: int) -> None:
        """Run up to and including a time, ns."""
        self.network.run(until)

    def take_events(self) -> list[dict[str, Any]]:
        """Return the events as rows, unordered."""
        for node in self.nodes.values():
            self._events += node.take_events()
        events, self._events = self._events, []
        return events

    def state(self) -> dict[str, dict[str, Any]]:
        """Return the report of each running node (testbed.experiment.live.report_of)."""
        for node in self.nodes.values():
            self._events += node.take_events()
        return {name: report_of(node, self.network.now) for name, node in self.nodes.items()}

    def apply(self, change: Change) -> None:
        """Apply an unscheduled change now. Raises UserError."""
        check_node(change, self.nodes)
        self.happened.append((self.network.now, change))
        self._apply(change)

    def take_secrets(self) -> list[Secret]:
        """Return the secrets of all nodes."""
        for node in self.nodes.values():
            self._secrets += node.take_secrets()
        secrets, self._secrets = self._secrets, []
        return secrets

    def _apply_awaited(self) -> None:
        if not self._awaited:
            return
        for node in [*self.nodes.values()]:
            self._events += node.take_events()
            for change in self._awaited.take(node.state.delivered):
                self.happened.append((self.network.now, change))
                self._apply(change)

    def _apply(self, change: Change) -> None:
        now = self.network.now
        topology = self._scenario.network
        self._events.append(change_row(change, topology, now))
        if change.membership is not None:
            self.network.set_present(topology.attachment_of(*change.membership), change.join is not None)
            return
        if change.strategy is not None:
            for name, node in self.nodes.items():
                if change.chooses(name) and isinstance(node, StrategyNode):
                    for prefix, strategy in change.choice.items():
                        node.choose_strategy(prefix, strategy)
                    self.network.settle(name)
            return
        if change.node is None:
            link = topology.link_between(*change.ends)
            if change.link_change is not None:
                self.network.change_link(link, change.changed(topology.links[link]))
            else:
                self.network.set_link(link, change.link_up is not None, signalled=change.is_signalled)
            return
        name = change.node
        if change.ends_programs:
            old = self.nodes.pop(name)
            self._events += old.take_events()
            self._secrets += old.take_secrets()
            self._stopped[name] = old.state
            self.network.replace(name, ())
        if not change.stop:
            state = self._stopped.pop(name)
            new = build(
                self._scenario, self._layering, name, self._load, self.timeline, state=state, since=now
            )
            self.nodes[name] = new
            self.network.replace(name, self._programs(new))

    def _programs(self, node: Node) -> list[Program]:
        """Return a node's programs, behind its processor if operations take time."""
        if self.costs is None:
            return node.programs
        if node.name in self.processors:
            self.busy[node.name] += self.processors[node.name].busy_by(self.network.now)
        processor = self.processors[node.name] = Processor(node.programs, self.costs, WORK)
        return processor.programs

    def _reroute(self, routes: Routes) -> None:
        self.network.reroute(routes.network, routes.ip)
        for name, node in self.nodes.items():
            if isinstance(node, ReroutableNode):
                node.reroute(routes.network, routes.ndn)
                self.network.settle(name)


class Sampler:
    """Writes the samples of all nodes, in order of their names: a node that nothing has happened to since its
    last sample has the same state and counters.

    Attributes:
        taken: samples taken; the others repeat an earlier one.
    """

    def __init__(self, emulation: Emulation, file: BinaryIO) -> None:
        self._emulation, self._file = emulation, file
        self.taken = 0
        self._rows: dict[str, bytes] = {}  # each node's last sample, without its time

    def write(self) -> None:
        """Write a sample of each node."""
        network, nodes = self._emulation.network, self._emulation.nodes
        processors = self._emulation.processors
        time = b'{"time":%d' % network.now
        for name in network.take_active():
            if name in nodes:
                self.taken += 1
                row = sample(nodes[name], network.now)
                if name in processors:
                    row |= processors[name].counters(network.now)
                self._rows[name] = line_of(row).removeprefix(time)
        write, rows = self._file.write, self._rows
        for name in sorted(nodes):
            write(time)
            write(rows[name])


@contextmanager
def recorded(
    scenario: Scenario, layering: str, load: Workload, directory: Path
) -> Iterator[tuple[Emulation, Sampler]]:
    """Make a run that writes its capture, and the sampler of its counters, into a directory."""
    with (
        (directory / CAPTURE).open("wb", BUFFER) as file,
        (directory / COUNTERS).open("wb", BUFFER) as counters,
        cached_signatures(),
        rare_collections(),
    ):
        capture = pcapng.Writer(file, capture_interfaces(scenario.network), application="feednet")
        emulation = Emulation(scenario, layering, load, capture=capture)
        yield emulation, Sampler(emulation, counters)


def run(
    scenario: Scenario,
    layering: str,
    load: Workload,
    directory: Path,
    script: Script | None = None,
    advance: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """Run a layering and write its files; return its entry in the manifest.

    `advance` receives the share of the run's time at each sample.
    """
    with recorded(scenario, layering, load, directory) as (emulation, sampler):
        network, timeline = emulation.network, emulation.timeline

        def observe() -> None:
            sampler.write()
            advance(network.now / timeline.end)

        for time in sample_times(scenario, timeline):
            network.observe(time, observe)
        if script is not None:
            script(EmulatedLiveRun(emulation, scenario, layering, load))
        timeline = emulation.timeline
        emulation.run(timeline.end)
        network.write_statistics()
    write_secrets(directory, emulation.take_secrets())
    write_events(directory / EVENTS, emulation.take_events())
    return {
        **timeline.as_row(),
        "sample_interval_ns": round(scenario.sample_interval_ms * 1e6),
        "capture": {"frames": network.frames, "dropped": 0},
        "happened": described(emulation.happened, timeline.start, scenario.network),
        "cells": network.air_counters(),
        "cpu_ns": {
            name: each.busy_by(network.now) + emulation.busy[name]
            for name, each in emulation.processors.items()
        },
    }


class _Task(NamedTuple):
    """The emulated runs of layerings, each a task."""

    scenario: Scenario
    load: Workload
    directory: Path
    script: Script | None

    def run(self, layering: str) -> tuple[str, dict[str, Any]]:
        """Run a layering; return it, and its entry in the manifest. Reports it and its share done: None at
        its start, 1 at its end.
        """
        report((layering, None))
        told = 0

        def advance(share: float) -> None:
            nonlocal told
            if told / 100 <= share < 1:
                told = int(100 * share) + 1
                report((layering, share))

        directory = self.directory / layering
        directory.mkdir()
        result = run(self.scenario, layering, self.load, directory, self.script, advance)
        report((layering, 1.0))
        return layering, result

    def run_apart(self, layering: str) -> tuple[str, dict[str, Any]]:
        """Run a layering in a process that may not have loaded the scenario's code."""
        code.load(self.scenario)
        return self.run(layering)


def run_all(
    scenario: Scenario,
    load: Workload,
    directory: Path,
    script: Script | None,
    jobs: int,
    progress: Callable[[str], None],
    advance: Callable[[str, float], None],
) -> dict[str, dict[str, Any]]:
    """Run all layerings, `jobs` at a time or, with a script, one; return their entries in the manifest.

    `progress` receives each layering at its start, `advance` its share done: 1 at its end. Raises UserError.
    """

    def hear(told: tuple[str, float | None]) -> None:
        layering, share = told
        if share is None:
            progress(layering)
        else:
            advance(layering, share)

    task = _Task(scenario, load, directory, script)
    many = 1 if script is not None else min(jobs, len(scenario.layerings))
    work = task.run if many == 1 else task.run_apart
    with unless_killed("the run"), closing(work_off(work, scenario.layerings, many, hear)) as results:
        return dict(results)
