"""The files of a run, and how they are written."""

import json
from pathlib import Path
from typing import Any

from captures import pcapng
from topologies.model import Topology

MANIFEST = "manifest.json"
SCENARIO = "scenario.json"
FEED = "feed.jsonl"

# In the directory of each layering:
CAPTURE = "capture.pcapng"
EVENTS = "events.jsonl"
COUNTERS = "counters.jsonl"
RESULT = "result.json"
"""What a run in a box tells its parent; goes into the manifest."""


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as JSON lines in order of time."""
    with path.open("w", encoding="utf-8") as file:
        for row in sorted(rows, key=lambda row: (row["time"], row["node"])):
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file that a person may read."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def capture_interfaces(topology: Topology) -> list[pcapng.Interface]:
    """Describe a topology's interfaces for the head of a capture."""
    return [
        pcapng.Interface(i.name, f"node {i.node} to {i.peer}", f"{i.ipv4}/30") for i in topology.interfaces()
    ]
