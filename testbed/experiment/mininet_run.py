"""Running one layering of a scenario over Mininet: the program in the box.

    python -m testbed.experiment.mininet_run DIRECTORY LAYERING [auto|netem|relay]

The directory is that of the run, with scenario.json, from which the load follows; what comes of it goes
into DIRECTORY/LAYERING, result.json last. Every node is a process of its own in its Mininet host's network
namespace, forked from this one, so that fifteen nodes cost one start of Python. A node that starts anew is a
new process in the same namespace. Many nodes are packed into few processes (testbed.experiment.host_process).
"""

import gc
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, cast

from captures.key_log import Secret
from testbed.experiment import host_process
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
from testbed.experiment.host_process import Report
from testbed.layerings.node import AppState
from testbed.layerings.workload import Workload
from testbed.scenario import workload
from testbed.scenario.conditions import Routes
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change
from testbed.scenario.timeline import Awaited, Timeline, change_row, described
from topologies.mininet import sandbox
from topologies.mininet.child import Child
from topologies.mininet.network import MininetNetwork
from topologies.routing import next_hops

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
        MininetNetwork(
            scenario.network,
            scenario.seed,
            impairment,
            directory=output,
            routing=scenario.routing.routing,
        ) as network,
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
        "processes": nodes.most_processes,
        "capture": capture,
        "happened": described(nodes.happened, timeline.start, scenario.network),
        "cells": (network.relay_counters or {}).pop("cells", {}),
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
    """The processes of all nodes: each has one of its own, or many are packed into one.

    Attributes:
        secrets: those that they have reported.
        cpu_ns: processor time, user and system, of each process from the timeline's start to its end, by the
            node, or the first of the nodes that are packed into it.
        most_processes: how many there were at the start.
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
        self._processes: dict[str, _Process] = {}  # of a node alone, or of several, by the first of them
        self._packs = host_process.packs(scenario, layering)
        self._kept: dict[str, AppState] = {}  # of nodes that have stopped
        self._events: list[dict[str, Any]] = []
        self._samples: list[dict[str, Any]] = []
        self.secrets: list[Secret] = []
        self.cpu_ns: Counter[str] = Counter()
        self.happened: list[tuple[int, Change]] = []
        self._heard: dict[str, tuple[str, Any]] = {}  # what has been said and is yet to be expected
        self.most_processes = len(self._packs)

    def run(self, output: Path) -> Timeline:
        """Run all nodes from start to end, and write what they report."""
        for source in self._scenario.sources:  # once, before the fork; it also imports networkx
            next_hops(self._scenario.network, source, self._scenario.routing.routing)
        gc.collect()
        gc.freeze()  # pages that no collection touches stay shared
        try:
            for name in self._packs:
                self._start(name)
            for name in self._processes:
                self._expect(name, "ready", _START_S)
            timeline = Timeline.of(self._scenario, self._load, time.time_ns() + _LEAD_NS)
            for name in self._processes:
                self._processes[name].connection.send((timeline, None, None))
            awaited = Awaited(timeline, self._load)
            agenda: list[tuple[int, Change | Routes]] = [*timeline.changes]
            agenda += [(routes.time, routes) for routes in timeline.routes]
            for at, due in sorted(agenda, key=lambda entry: entry[0]):
                self._wait(at, awaited)
                if isinstance(due, Change):
                    self._apply(due, at, timeline)
                else:
                    self._network.reroute(due.network, due.ip)
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
        """Fork a node's process, or a pack's, which says that it is ready and waits for a timeline."""
        here, there = self._fork.Pipe()
        common = self._scenario, self._layering
        pack = self._packs[name]
        process = self._fork.Process(
            target=host_process.one if pack is None else host_process.pack,
            args=(
                *common,
                name if pack is None else pack,
                self._load,
                self._network.netns(name) if pack is None else self._network.netns,
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
        name = change.node
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
            if timeline is None and change.is_signalled:
                for first in {self._first(end) for end in change.ends} & self._processes.keys():
                    with suppress(BrokenPipeError):  # it has just ended
                        self._processes[first].connection.send(change)
            return
        if name not in self._packs or self._packs[name] is not None:
            return  # in a pack it happens by the timeline
        if change.ends_programs:
            self._kept[name] = self._collect(name, _GRACE_S)
            self._processes.pop(name).process.join()
        if not change.stop:
            self._start(name)
            self._expect(name, "ready", _START_S)
            self._processes[name].connection.send((timeline, self._kept.pop(name), at))

    def _first(self, node: str) -> str:
        """Return the first node of a node's pack; of a node alone, itself."""
        packs = (first for first, pack in self._packs.items() if pack is not None and node in pack)
        return next(packs, node)

    def _collect(self, name: str, seconds: float) -> AppState:
        """Wait for the report of a node or a pack, with which it ends; return what its applications keep."""
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
