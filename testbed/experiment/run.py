"""Running a scenario: from a checked scenario to a directory with everything that was measured."""

import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from analysis.errors import of_system
from analysis.files import whole_directory
from testbed.errors import UserError
from testbed.experiment import emulated_run, provenance
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
)
from testbed.layerings import stock_peer
from testbed.layerings.registry import LAYERINGS
from testbed.layerings.workload import Workload
from testbed.scenario.model import Scenario
from testbed.scenario.timeline import Timeline, described, expected
from topologies.mininet import sandbox
from topologies.model import Topology

Net = Literal["emulated", "mininet"]
Impairment = Literal["auto", "netem", "relay"]

_MOST_SAMPLES = 5_000_000


class _InBox(UserError):
    """A run over Mininet has failed: what there is of it is kept."""


def choose_net(asked: Net | Literal["auto"]) -> tuple[Net, str]:
    """Decide how to bring a network up; return it and why, in a few words. Raises UserError."""
    if asked == "emulated":
        return "emulated", "asked for"
    why_not = sandbox.why_not()
    if why_not is None:
        return "mininet", "asked for" if asked == "mininet" else "Mininet can run here"
    if asked == "mininet":
        raise UserError(f"Mininet cannot run here: {why_not}; or use --net emulated")
    return "emulated", f"Mininet cannot run here: {why_not}"


def duration_s(scenario: Scenario, load: Workload) -> float:
    """Return how long one layering runs, seconds on the run's clock; raise UserError if it is too much."""
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
    net: Net,
    net_reason: str,
    directory: Path,
    *,
    impairment: Impairment = "auto",
    command: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Run all layerings of a scenario into a new directory; raise UserError.

    `command` is what the user would type to have this run again, None if nothing would do.
    The directory appears under its name only when it is complete; until then, and after a failure over
    Mininet, it is `<directory>.partial`.
    """
    duration_s(scenario, load)
    if scenario.stock_peers:
        stock_peer.check()
        if net == "emulated":
            node = min(scenario.stock_peers)
            raise UserError(
                f"nodes.{node}.peer: {stock_peer.SSB_SERVER} runs in real time, in Mininet only; {net_reason}"
            )
    if os.path.lexists(directory):
        raise UserError(f"{directory}: exists already; choose another --out or remove it")
    try:
        with whole_directory(directory, keep=(_InBox,)) as partial:
            _run(scenario, load, net, net_reason, partial, impairment, command, progress)
    except OSError as error:
        raise UserError(f"{of_system(error)}; or choose another --out") from error


def _run(
    scenario: Scenario,
    load: Workload,
    net: Net,
    net_reason: str,
    partial: Path,
    impairment: Impairment,
    command: str | None,
    progress: Callable[[str], None],
) -> None:
    write_json(partial / SCENARIO, scenario.model_dump(mode="json", by_alias=True))
    write_load(partial / FEED, load)
    manifest = _manifest(scenario, load, net, net_reason) | {"command": command}
    for layering in scenario.layerings:
        progress(layering)
        (partial / layering).mkdir()
        if net == "emulated":
            result = emulated_run.run(scenario, layering, load, partial / layering)
        else:
            result = _run_over_mininet(partial, layering, impairment)
            manifest["impairment"] = result.pop("impairment")
            manifest["impairment_reason"] = result.pop("impairment_reason")
        manifest["timeline"] += [row | {"layering": layering} for row in result.pop("happened")]
        manifest["runs"][layering] = result
    manifest["files"] = sealed(partial, scenario.layerings)
    write_json(partial / MANIFEST, manifest)


def _run_over_mininet(partial: Path, layering: str, impairment: Impairment) -> dict[str, Any]:
    program = [
        sys.executable,
        "-m",
        "testbed.experiment.mininet_run",
        str(partial.resolve()),
        layering,
        impairment,
    ]
    try:
        status = sandbox.box(program)
    except OSError as error:
        raise UserError(str(error)) from error
    result = partial / layering / RESULT
    if status == 130:
        raise KeyboardInterrupt
    if status or not result.exists():
        raise _InBox(f"the run over Mininet failed (status {status}); what there is lies in {partial}")
    counts: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    result.unlink()
    return counts


def _manifest(scenario: Scenario, load: Workload, net: Net, net_reason: str) -> dict[str, Any]:
    """Describe a run. An emulated run names nothing that differs between two of them."""
    timeline = Timeline.of(scenario, load, 0)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "feednet": version("feednet"),
        "commit": provenance.commit(),
        "scenario": scenario.name,
        "title": scenario.title,
        "seed": scenario.seed,
        "net": net,
        "net_reason": net_reason,
        "impairment": "emulated",
        "created": None,
        "layerings": list(scenario.layerings),
        "titles": {name: LAYERINGS[name].title for name in scenario.layerings},
        "protocols": {name: LAYERINGS[name].protocol for name in scenario.layerings},
        "parameters": {name: scenario.layering_parameters(name).model_dump() for name in scenario.layerings},
        "strategies": scenario.strategies,
        "workload": {
            "source": Path(scenario.workload.feed).name if scenario.workload.feed else "generated",
            "items": load.items,
            "feeds": [
                {"feed": feed_uri(feed.key), "publisher": feed.publisher, "items": len(feed.messages)}
                for feed in load.feeds
            ],
            "subscribers": len(scenario.subscribers),
            "expected": expected(scenario, load, timeline),
            "paced": [name for name, plan in scenario.plans.items() if plan.pauses_ms or plan.drain_per_s],
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
        },
        "timeline": described(timeline.changes, timeline.start, scenario.network),
        "topology": {
            "nodes": [{"name": name, "role": role} for name, role in scenario.roles.items()],
            "links": _links(scenario.network, timeline),
            "metric": scenario.routing.metric,
            "media": _media(scenario.network),
        },
        "software": {"python": platform.python_version()},
        "processor": provenance.processor(),
        "runs": {},
    }
    if scenario.fork is not None and load.branch is not None:
        manifest["fork"] = {
            "publisher": scenario.fork.publisher,
            "feed": feed_uri(load.branch.key),
            "after": scenario.fork.after,
        }
    if net == "mininet":
        manifest["created"] = datetime.now(UTC).isoformat(timespec="seconds")
        manifest["software"] |= {
            "kernel": platform.release(),
            "mininet": version("mininet"),
            "root": os.geteuid() == 0,
        }
    return manifest


def _links(network: Topology, timeline: Timeline) -> list[dict[str, Any]]:
    """Return the links, each with the least delay that a frame may have under any of its parameters."""
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
