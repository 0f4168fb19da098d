"""Running one layering of a scenario over Mininet: the program in the box.

    python -m testbed.boxed DIRECTORY LAYERING [auto|netem|relay]

The directory is that of the run, with scenario.json and feed.jsonl; what comes of it goes into
DIRECTORY/LAYERING, result.json last. Every node is a process of its own in its Mininet host's network
namespace, forked from this one, so that fifteen nodes cost one start of Python.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Literal, cast

from captures.netns import inside
from forwarder.faces.udp import PORT, UdpDriver
from ssb.export import read_export
from ssb.message import Message
from testbed.files import (
    CAPTURE,
    COUNTERS,
    EVENTS,
    FEED,
    RESULT,
    SCENARIO,
    capture_interfaces,
    write_json,
    write_rows,
)
from testbed.nodes import Node, Timeline, sample_times
from testbed.scenario import Scenario
from topologies import box
from topologies.mininet_net import MininetNetwork

_LEAD_NS = 300_000_000  # from "go" to the first event: all nodes must have woken up by then
_GRACE_S = 10.0


class RunError(Exception):
    """The run failed; the message is one line."""


def run(directory: Path, layering: str, impairment: Literal["auto", "netem", "relay"]) -> None:
    """Run a layering; raises RunError, or OSError from bringing the network up."""
    scenario = Scenario.model_validate_json((directory / SCENARIO).read_text(encoding="utf-8"))
    feed = read_export(directory / FEED)
    output = directory / layering
    with (
        MininetNetwork(scenario.network, scenario.seed, impairment, directory=output) as network,
        _recording(scenario, network, output) as capture,
    ):
        timeline = _run_nodes(scenario, layering, feed, network, output)
    result = {
        "impairment": network.impairment,
        "impairment_reason": network.reason,
        "links": network.relay_counters,
        "start_ns": timeline.start,
        "end_ns": timeline.end,
        "sample_interval_ns": round(scenario.sample_interval_ms * 1e6),
        "capture": capture,
    }
    write_json(output / RESULT, result)


@contextmanager
def _recording(scenario: Scenario, network: MininetNetwork, output: Path) -> Iterator[dict[str, Any]]:
    """Capture every interface inside the `with` block; yields what becomes the recorder's counts."""
    taps = [
        {"name": described.name, "description": described.description, "ipv4": described.ipv4}
        | {"netns": network.netns(interface.node)}
        for described, interface in zip(
            capture_interfaces(scenario.network), scenario.network.interfaces(), strict=True
        )
    ]
    specification = output / "recorder.json"
    specification.write_text(
        json.dumps({"output": str(output / CAPTURE), "application": "feednet", "interfaces": taps}),
        encoding="utf-8",
    )
    recorder = subprocess.Popen(
        [sys.executable, "-m", "captures.recorder", str(specification)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert recorder.stdout is not None
    capture: dict[str, Any] = {}
    try:
        if recorder.stdout.readline() != "ready\n":
            raise RunError(f"the recorder did not start: {_last_line(recorder.communicate()[1])}")
        yield capture
        counts, errors = recorder.communicate(timeout=_GRACE_S)
        if recorder.returncode:
            raise RunError(f"the recorder failed: {_last_line(errors)}")
        capture |= {key: value for key, value in json.loads(counts).items() if key != "interfaces"}
    finally:
        recorder.kill()
        recorder.wait()
    specification.unlink()


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "it said nothing"


def _run_nodes(
    scenario: Scenario, layering: str, feed: Sequence[Message], network: MininetNetwork, output: Path
) -> Timeline:
    """Run all nodes from start to end, and collect what they report."""
    fork = multiprocessing.get_context("fork")
    scenario.network.routes(scenario.publisher)  # imports networkx once, before the fork
    gc.collect()
    gc.freeze()  # pages that no collection touches stay shared
    processes: list[tuple[str, ForkProcess, Connection]] = []
    try:
        for name in scenario.network.nodes:
            here, there = fork.Pipe()
            process = fork.Process(
                target=_node, args=(scenario, layering, name, feed, network.netns(name), there), name=name
            )
            process.start()
            there.close()
            processes.append((name, process, here))
        for name, _, connection in processes:
            _expect(name, connection, "ready", _GRACE_S)
        timeline = Timeline.of(scenario, feed, time.time_ns() + _LEAD_NS)
        for _, _, connection in processes:
            connection.send(timeline)
        events: list[dict[str, Any]] = []
        samples: list[dict[str, Any]] = []
        for name, _, connection in processes:
            patience = max(timeline.end - time.time_ns(), 0) / 1e9 + _GRACE_S
            report = _expect(name, connection, "report", patience)
            events += report["events"]
            samples += report["samples"]
        write_rows(output / EVENTS, events)
        write_rows(output / COUNTERS, samples)
        return timeline
    finally:
        for _, process, _ in processes:
            process.kill()
            process.join()


def _expect(name: str, connection: Connection, kind: str, seconds: float) -> Any:
    """Wait for a node's message of a kind; return its content."""
    try:
        if not connection.poll(seconds):
            raise RunError(f"node {name}: nothing heard for {seconds:.0f} s")
        got, content = connection.recv()
    except EOFError:
        raise RunError(f"node {name}: ended unexpectedly") from None
    if got != kind:
        raise RunError(f"node {name}: {content}")
    return content


def _node(
    scenario: Scenario,
    layering: str,
    name: str,
    feed: Sequence[Message],
    netns: str,
    connection: Connection,
) -> None:
    """Be one node: the process that is forked for it."""
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, signal.SIG_DFL)  # the parent's handlers are not for its children
    try:
        with inside(netns):
            connection.send(("ready", None))
            timeline = connection.recv()
            node = Node(scenario, layering, name, feed, timeline)
            samples = asyncio.run(_drive(node, sample_times(scenario, timeline), timeline.end))
        connection.send(("report", {"events": node.take_events(), "samples": samples}))
    except Exception as error:
        connection.send(("error", f"{type(error).__name__}: {error}"))


async def _drive(node: Node, times: range, end: int) -> list[dict[str, Any]]:
    """Run a node in real time until `end`, sampling its counters."""
    loop = asyncio.get_running_loop()
    failures: list[Exception] = []
    loop.set_exception_handler(
        lambda _, context: failures.append(context.get("exception") or RuntimeError(context["message"]))
    )
    driver = UdpDriver(node.host, loop)
    for interface, face in node.faces:
        driver.open(face, (interface.ipv4, PORT), (interface.peer_ipv4, PORT))
    driver.start()
    samples = []
    try:
        for at in times:
            await asyncio.sleep((at - time.time_ns()) / 1e9)
            samples.append(node.sample(time.time_ns()))
        await asyncio.sleep((end - time.time_ns()) / 1e9)
    finally:
        driver.close()
    if failures:
        raise failures[0]
    return samples


def main() -> int:
    """Run as the first program in a box; return the exit status."""
    directory, layering, impairment = sys.argv[1:]
    box.prepare()
    try:
        run(Path(directory), layering, cast(Literal["auto", "netem", "relay"], impairment))
    except (RunError, OSError, subprocess.TimeoutExpired) as error:
        print(f"feednet: {layering} over Mininet: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # nothing is left to clean up: the box goes with this process
