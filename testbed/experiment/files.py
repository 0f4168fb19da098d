"""The files of a run, and their writers."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from analysis.errors import system_reason
from base.files import write_whole
from base.key_log import Secret, to_lines
from captures.formats import pcapng
from captures.formats.key_log import add_to_capture
from forwarder.wire.name import to_uri
from ssb.export import entry_line
from ssb_over_ndn.naming import log_name
from testbed.errors import UserError
from testbed.layerings.nodes.workload import Workload
from topologies.model import Topology

MANIFEST = "manifest.json"
FORMAT = 2
"""Of the manifest: analysis.run.manifest reads this one, and reports any other in a line."""

SCENARIO = "scenario.json"
INPUTS = "inputs"
"""Copies of the files named by the scenario."""
FEED = "feed.jsonl"
"""All published feeds, one after the other, a fork's other branch last."""

# In the directory of each layering:
CAPTURE = "capture.pcapng"
EVENTS = "events.jsonl"
COUNTERS = "counters.jsonl"
KEY_LOG = "keys.log"
"""The secrets of the run (captures.formats.key_log), also in its capture; absent if empty."""
RESULT = "result.json"
"""The result of a run in a box; becomes part of the manifest."""


@contextmanager
def writing_out() -> Iterator[None]:
    """Raise what the system says against --out as UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{system_reason(error)}; or choose another --out") from error


def line_of(row: dict[str, Any]) -> bytes:
    """Return a row as a JSON line, in UTF-8."""
    return to_json(row) + b"\n"  # a fifth of the time of json's


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as JSON lines in order of time."""
    with path.open("wb") as file:
        for row in sorted(rows, key=lambda row: (row["time"], row["node"])):
            file.write(line_of(row))


@cache  # of few feeds there are many events
def feed_uri(key: str) -> str:
    """Return a feed's identifier in the files of a run: the URI of its NDN name, whatever carried it."""
    return to_uri(log_name(key))


def write_events(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows of events, which name feeds by their keys; "" for none."""
    write_rows(path, [row | {"feed": row["feed"] and feed_uri(row["feed"])} for row in rows])


def write_secrets(directory: Path, secrets: Iterable[Secret]) -> None:
    """Write the key log of a layering, if there are secrets, and put it into its capture."""
    if lines := to_lines(secrets):
        (directory / KEY_LOG).write_bytes(lines)
        add_to_capture(directory / CAPTURE, lines)


def write_load(path: Path, load: Workload) -> None:
    """Write all feeds as an export."""
    branch = load.branch.messages[load.common :] if load.branch else ()
    with path.open("wb") as file:
        for messages in (*(feed.messages for feed in load.feeds), branch):
            file.writelines(entry_line(message, message.timestamp) for message in messages)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, indented for people."""
    write_whole(path, json.dumps(value, indent=2) + "\n")


def sealed(directory: Path, layerings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return size and SHA-256 of the files of a run, by their paths in its directory, for its manifest.

    They let an analysis detect truncated or mixed runs.
    """
    names = [SCENARIO, FEED]
    names += [f"{layering}/{name}" for layering in layerings for name in (CAPTURE, EVENTS, COUNTERS)]
    keys = (f"{layering}/{KEY_LOG}" for layering in layerings)
    names += [name for name in keys if (directory / name).exists()]
    names += sorted(path.relative_to(directory).as_posix() for path in (directory / INPUTS).glob("*"))
    seals: dict[str, dict[str, Any]] = {}
    for name in names:
        with (directory / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            seals[name] = {"bytes": file.tell(), "sha256": digest}
    return seals


def capture_interfaces(topology: Topology) -> list[pcapng.Interface]:
    """Describe a topology's interfaces for the head of a capture."""
    return [
        pcapng.Interface(i.name, f"node {topology.description(i)}", f"{i.ipv4}/{i.PREFIX_LENGTH}")
        for i in topology.interfaces
    ]
