"""Models that studies run beside scenarios: real protocols on networks without time, or with little of it,
and scenarios of which a claim needs a figure that no comparison has.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from analysis.files import read_lines
from base.units import MS

if TYPE_CHECKING:
    from analysis.run.manifest import Run

Figures = dict[str, float]


class Model(NamedTuple):
    """A model.

    Attributes:
        kinds: what it distinguishes, in place of layerings.
        metrics: title and unit of each figure, by key.
        play: takes a kind, a setting and a seed; returns the figures.
        scenario: of the library, that it runs; "" for none.
    """

    kinds: tuple[str, ...]
    metrics: dict[str, tuple[str, str]]
    play: Callable[[str, Mapping[str, Any], int], Figures]
    scenario: str = ""


_MEASURES: Final = {
    "paper bytes": "bytes over the ideal hub’s, 660 a message and 60 an element",
    "bytes": "bytes over the ideal hub’s, as sent",
    "peer bytes": "bytes of a peer over those of a client of the hub, as sent",
    "busiest bytes": "bytes of the busiest peer over the hub’s, as sent",
}
_PHASES: Final = ("join", "live", "return")


def _hub(kind: str, setting: Mapping[str, Any], seed: int) -> Figures:
    """Return the cost of EBT over the ideal hub in all phases: `peers` of them, connections of `delay_ms`."""
    from testbed.ladder.swarms import ratio  # slow to import, and commands list studies

    played = ratio.play((int(setting["peers"]), seed), round(float(setting["delay_ms"]) * MS))
    return {
        _key(phase.name, name): value
        for phase in played
        if phase.name in _PHASES
        for name, value in phase.measures().items()
        if name in _MEASURES
    }


def _key(phase: str, measure: str) -> str:
    return f"{phase} {measure}".replace(" ", "-")


@contextmanager
def _emulated(scenario: str, kind: str, setting: Mapping[str, Any], seed: int) -> "Iterator[Run]":
    """Run a scenario; its files are there until the context ends."""
    # Slow to import, and commands list studies.
    from analysis.run.manifest import Run
    from testbed.experiment.options import RunOptions
    from testbed.experiment.sweeps import sweep

    sweeps = tuple(f"{key}={sweep.typed(value)}" for key, value in setting.items())
    options = RunOptions(net="emulated", layerings=(kind,), sweeps=sweeps, seed=seed)
    (job,) = sweep.plan(scenario, options, ["feednet", "run", scenario])
    with TemporaryDirectory() as scratch:
        yield Run(Path(scratch) / sweep.emulate(job, Path(scratch)))


_HOURS: Final = (0, 1, 2, 4, 8, 24)


def _deletion(kind: str, setting: Mapping[str, Any], seed: int) -> Figures:
    """Return the nodes that have contents that their author asks to delete, by hours after the request, and
    the share of the log that readers have in the end.
    """
    with _emulated("deletion", kind, setting, seed) as run:
        request = json.loads((run.directory / "scenario.json").read_text())["deletion"]["after"] + 1
        events = [*read_lines(run.events(kind))]
        samples = sorted(read_lines(run.counters(kind)), key=lambda line: int(line["time"]))
    published = {event["seq"]: event["time"] for event in events if event["event"] == "published"}
    readers = {event["node"] for event in events if event["event"] == "joined"}
    came = {(event["node"], event["seq"]) for event in events if event["event"] == "delivered"}
    found = {"delivered": 100 * len(came) / (len(readers) * len(published))}
    for hours in _HOURS:
        until = published[request] + hours * 3_600_000 * MS
        nodes = {line["node"]: line["asked_contents"] > 0 for line in samples if line["time"] <= until}
        found[_hours_key(hours)] = float(sum(nodes.values()))
    return found


_LATE: Final = {
    "first": ("First item after joining", "ms"),
    "newest": ("Newest item after joining", "ms"),
    "items": ("Items read", "items"),
}


def _late_join(kind: str, setting: Mapping[str, Any], seed: int) -> Figures:
    """Return when the subscriber that joins last, after all items, gets its first item and the newest one."""
    with _emulated("late-join", kind, setting, seed) as run:
        events = [*read_lines(run.events(kind))]
    published = max(event["seq"] for event in events if event["event"] == "published")
    joined, node = max((event["time"], event["node"]) for event in events if event["event"] == "joined")
    came = {
        event["seq"]: (event["time"] - joined) / MS
        for event in events
        if event["event"] == "delivered" and event["node"] == node
    }
    return {"first": min(came.values()), "newest": came[published], "items": float(len(came))}


def _hours_key(hours: int) -> str:
    return f"holders-{hours}h"


MODELS: Final[Mapping[str, Model]] = {
    "hub": Model(
        ("ebt",),
        {
            _key(phase, name): (f"{phase.capitalize()}, {title}", "times")
            for phase in _PHASES
            for name, title in _MEASURES.items()
        },
        _hub,
    ),
    "deletion": Model(
        ("holes",),
        {
            _hours_key(hours): (f"Nodes with contents to be deleted, {hours} h after the request", "nodes")
            for hours in _HOURS
        }
        | {"delivered": ("Share of the log that readers have", "%")},
        _deletion,
        "deletion",
    ),
    "late-join": Model(("sparse", "pull", "lli", "ssb"), _LATE, _late_join, "late-join"),
}
