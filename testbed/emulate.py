"""Running one layering of a scenario in the emulator."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from captures import pcapng
from ssb.message import Message
from testbed.files import CAPTURE, COUNTERS, EVENTS, capture_interfaces, write_rows
from testbed.nodes import Node, Timeline, sample_times
from testbed.scenario import Scenario
from topologies.emulated import EmulatedNetwork


def run(scenario: Scenario, layering: str, feed: Sequence[Message], directory: Path) -> dict[str, Any]:
    """Run a layering from virtual time 0 and write its files; return its entry in the manifest."""
    timeline = Timeline.of(scenario, feed, 0)
    nodes = {name: Node(scenario, layering, name, feed, timeline) for name in scenario.network.nodes}
    samples: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    with (directory / CAPTURE).open("wb") as file:
        capture = pcapng.Writer(file, capture_interfaces(scenario.network), application="feednet")
        network = EmulatedNetwork(
            scenario.network,
            {name: node.host for name, node in nodes.items()},
            {interface.name: face for node in nodes.values() for interface, face in node.faces},
            seed=scenario.seed,
            capture=capture,
        )
        for time in sample_times(scenario, timeline):
            network.at(time, lambda: samples.extend(node.sample(network.now) for node in nodes.values()))
        network.run(timeline.end)
        network.write_statistics()
    for node in nodes.values():
        events += node.take_events()
    write_rows(directory / EVENTS, events)
    write_rows(directory / COUNTERS, samples)
    return {
        "start_ns": timeline.start,
        "end_ns": timeline.end,
        "sample_interval_ns": round(scenario.sample_interval_ms * 1e6),
        "capture": {"frames": network.frames, "dropped": 0},
    }
