"""Running a scenario: from a checked scenario to a directory with all measurements."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from platform import python_version, release
from typing import Any

from analysis.files import whole_directory
from testbed.errors import UserError, as_user_error, exists_already
from testbed.experiment import code, emulated_run, inputs, provenance
from testbed.experiment.files import (
    FEED,
    FORMAT,
    MANIFEST,
    RESULT,
    SCENARIO,
    feed_uri,
    sealed,
    write_json,
    write_load,
    writing_out,
)
from testbed.experiment.live import Script
from testbed.experiment.platform import Platform
from testbed.layerings.nodes.workload import Workload
from testbed.layerings.registry import LAYERINGS
from testbed.scenario.model import Scenario
from testbed.scenario.timeline import Timeline, described, expected
from topologies.mininet import sandbox
from topologies.model import Topology

_MOST_SAMPLES = 5_000_000
_OF_ALL = ("impairment", "impairment_reason")
"""Parts of a layering's result that belong to the whole run."""


class _InBox(UserError):
    """A run over Mininet has failed: its partial results are kept."""


def duration_s(scenario: Scenario, load: Workload) -> float:
    """Return the duration of one layering, seconds on the run's clock; raise UserError if excessive."""
    seconds = Timeline.of(scenario, load, 0).end / 1e9
    samples = seconds * 1e3 / scenario.sample_interval_ms * len(scenario.network.nodes)
    if samples > _MOST_SAMPLES:
        raise UserError(
            f"a run of {seconds:.0f} s would take {samples:.0f} samples of its nodes' state;"
            " raise sample_interval_ms or the schedule's speed"
        )
    return seconds


def run(
    scenario: Scenario,
    load: Workload,
    platform: Platform,
    directory: Path,
    *,
    command: str | None = None,
    script: Script | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
    advance: Callable[[str, float], None] = lambda *_: None,
) -> None:
    """Run all layerings of a scenario, with its code (testbed.experiment.code), into a new directory; raise
    UserError.

    `command` is the command line that repeats the run, None if there is none. `script` is called for each
    layering, once its nodes run. With several `jobs`, layerings go side by side in the emulator, each in a
    process, unless there is a script; the result is the same. `progress` receives each layering at its
    start, `advance` the layering and its share done, from 0 to 1: in Mininet 1 only, at its end.

    The directory gets its name only when complete; until then, and after a failure over Mininet, it is
    `<directory>.partial`.
    """
    duration_s(scenario, load)
    code.load(scenario)
    platform.check(scenario)
    if os.path.lexists(directory):
        raise exists_already(directory)
    with writing_out(), whole_directory(directory, keep=(_InBox,)) as partial:
        manifest = _manifest(scenario, load, platform) | {"command": command}
        manifest |= {"scripted": script is not None, "held": platform.is_held}
        manifest |= {"dilation": platform.dilation} if platform.net == "mininet" else {}
        manifest |= {"forwarders": scenario.other_forwarders} if scenario.other_forwarders else {}
        _write_inputs(scenario, load, partial)
        if platform.net == "emulated":
            results = emulated_run.run_all(scenario, load, partial, script, jobs, progress, advance)
        else:
            results = {}
            for layering in scenario.layerings:
                progress(layering)
                (partial / layering).mkdir()
                given = (scenario, layering, load)
                results[layering] = _run_over_mininet(partial, platform, script, given)
                advance(layering, 1.0)
        for layering in scenario.layerings:
            result = results[layering]
            manifest |= {key: result.pop(key) for key in _OF_ALL if key in result}
            manifest["timeline"] += [row | {"layering": layering} for row in result.pop("happened")]
            manifest["runs"][layering] = result
        manifest["files"] = sealed(partial, scenario.layerings)
        write_json(partial / MANIFEST, manifest)


def _write_inputs(scenario: Scenario, load: Workload, partial: Path) -> None:
    table = scenario.model_dump(mode="json", by_alias=True)
    write_json(partial / SCENARIO, table)
    inputs.copy_inputs(table, partial)
    write_load(partial / FEED, load)


def _run_over_mininet(
    partial: Path, platform: Platform, script: Script | None, what: tuple[Scenario, str, Workload]
) -> dict[str, Any]:
    layering = what[1]
    program = [sys.executable, "-m", "testbed.experiment.inside_sandbox"]
    program += [str(partial.resolve()), layering, platform.impairment, str(platform.dilation)]
    program += ["hold"] if platform.is_held else []

    def meanwhile(is_running: Callable[[], bool]) -> None:
        if script is None:
            return
        from testbed.experiment.control import MininetLiveRun, RunEnded, wait_for

        try:
            with MininetLiveRun(wait_for(partial / layering, is_running), *what) as live:
                script(live)
        except RunEnded:
            if is_running():
                raise  # else the box has reported the reason

    with as_user_error(OSError):
        status = sandbox.box(program, meanwhile)
    result = partial / layering / RESULT
    if status == 130:
        raise KeyboardInterrupt
    if status or not result.exists():
        raise _InBox(f"the run over Mininet failed (status {status}); what there is lies in {partial}")
    counts: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    result.unlink()
    return counts


def _manifest(scenario: Scenario, load: Workload, platform: Platform) -> dict[str, Any]:
    """Describe a run. An emulated run's description is equal in every repetition."""
    timeline = Timeline.of(scenario, load, 0)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "feednet": version("feednet"),
        "commit": provenance.commit(),
        "scenario": scenario.name,
        "title": scenario.title,
        "about": scenario.about,
        "question": scenario.question.written() if scenario.question else None,
        "seed": scenario.seed,
        "net": platform.net,
        "net_reason": platform.reason,
        "impairment": "emulated",
        "created": None,
        "layerings": list(scenario.layerings),
        "titles": {name: LAYERINGS[name].title for name in scenario.layerings},
        "protocols": {name: LAYERINGS[name].protocol for name in scenario.layerings},
        "parameters": {name: scenario.layering_parameters(name).model_dump() for name in scenario.layerings},
        "strategies": scenario.strategies,
        "workload": _workload(scenario, load, timeline),
        "timeline": described(timeline.changes, timeline.start, scenario.network),
        "topology": {
            "nodes": [{"name": name, "role": role} for name, role in scenario.roles.items()],
            "links": _links(scenario.network, timeline),
            "metric": scenario.routing.metric,
            "source": _source_of(scenario),
            "replaced": scenario.topology.replacing,
            "media": _media(scenario.network),
        },
        "software": {"python": python_version()},
        "processor": provenance.processor(),
        "runs": {},
    }
    if scenario.fork is not None and load.branch is not None:
        manifest["fork"] = {
            "publisher": scenario.fork.publisher,
            "feed": feed_uri(load.branch.key),
            "after": scenario.fork.after,
        }
    if platform.net == "mininet":
        manifest["created"] = datetime.now(UTC).isoformat(timespec="seconds")
        manifest["software"] |= {
            "kernel": release(),
            "mininet": version("mininet"),
            "root": os.geteuid() == 0,
        }
    return manifest


def _workload(scenario: Scenario, load: Workload, timeline: Timeline) -> dict[str, Any]:
    return {
        "source": Path(scenario.workload.feed).name if scenario.workload.feed else "generated",
        "items": load.items,
        "written": load.written,
        "feeds": [
            {"feed": feed_uri(feed.key), "publisher": feed.publisher, "items": len(feed.messages)}
            for feed in load.feeds
        ],
        "subscribers": len(scenario.subscribers),
        "expected": expected(scenario, load, timeline),
        "paced": [name for name, plan in scenario.plans.items() if plan.pauses_ms or plan.drain_per_s],
        "application": told.kind if (told := scenario.workload.application) else "",
        "cross_traffic": [
            {
                "feed": feed_uri(feed.key),
                "from": feed.publisher,
                "to": traffic.to,
                "items": len(feed.messages),
                "bytes": sum(len(message.encoded) for message in feed.messages),
            }
            for traffic, feed in zip(scenario.cross_traffic, load.bulk, strict=True)
        ],
        "retain": scenario.archive.retain if scenario.archive else None,
        "bytes": sum(len(message.encoded) for feed in load.feeds for message in feed.messages),
        "schedule": scenario.workload.schedule.model_dump(),
    }


def _source_of(scenario: Scenario) -> str:
    """Return the external description of a run's network: a file, or the library's name; None if the scenario
    has it.
    """
    described = scenario.topology
    return inputs.own_name(described.file) if described.file else described.library or ""


def _links(network: Topology, timeline: Timeline) -> list[dict[str, Any]]:
    """Return the links, each with the minimum delay of a frame under any of its parameters."""
    ends = network.link_ends
    least = [link.least_delay_ns for link in network.links]
    for _, change in timeline.changes:
        if change.link_change is not None:
            at = network.link_between(*change.ends)
            least[at] = min(least[at], change.changed(network.links[at]).least_delay_ns)
    return [
        asdict(link) | {"interface_a": a.name, "interface_b": b.name, "least_ns": least_ns}
        for link, a, b, least_ns in zip(network.links, ends[0::2], ends[1::2], least, strict=True)
    ]


def _media(network: Topology) -> list[dict[str, Any]]:
    return [
        asdict(medium)
        | {"interfaces": [each.name for each in network.attachments if network.carrier(each) is medium]}
        | {"words": medium.describe()}
        for medium in network.media
    ]
