"""The files of a run, and how they are written."""

import json
from pathlib import Path
from typing import Any

from captures import pcapng
from topologies.model import Topology

MANIFEST = "manifest.json"
SCENARIO = "scenario.json"
FEED = "feed.jsonl"


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as JSON lines in order of time."""
    rows.sort(key=lambda row: (row["time"], row["node"]))
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file that a person may read."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def capture_interfaces(topology: Topology) -> list[pcapng.Interface]:
    """Describe a topology's interfaces for the head of a capture."""
    return [
        pcapng.Interface(i.name, f"node {i.node} to {i.peer}", f"{i.ipv4}/30") for i in topology.interfaces()
    ]
