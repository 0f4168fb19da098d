"""Running a scenario: from a checked scenario to a directory with everything that was measured."""

import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from analysis.errors import of_system
from analysis.files import whole_directory
from testbed.errors import UserError, shown
from testbed.experiment import code, emulated_run, inputs, provenance
from testbed.experiment.control import MininetLiveRun, RunEnded, wait_for
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
from testbed.experiment.live import Script
from testbed.layerings.nodes import other_forwarder, stock_peer
from testbed.layerings.nodes.workload import Workload
from testbed.layerings.registry import LAYERINGS
from testbed.scenario.model import Scenario
from testbed.scenario.timeline import Timeline, described, expected
from topologies.mininet import sandbox
from topologies.model import Topology

Net = Literal["emulated", "mininet"]
Impairment = Literal["auto", "netem", "relay"]

MOST_DILATION = 1000
_MOST_SAMPLES = 5_000_000


class _InBox(UserError):
    """A run over Mininet has failed: what there is of it is kept."""


def choose_net(
    asked: Net | Literal["auto"], impairment: Impairment = "auto", dilation: int = 1
) -> tuple[Net, str]:
    """Decide how to bring a network up; return it and why, in a few words. Raises UserError, also if an
    impairment or a dilation is asked for that the emulator would not heed."""
    net, why = _choose_net(asked)
    if type(dilation) is not int or not 1 <= dilation <= MOST_DILATION:
        raise UserError(f"--dilation {dilation}: a whole number from 1 to {MOST_DILATION}")
    for name, value, default in (("impairment", impairment, "auto"), ("dilation", dilation, 1)):
        if net == "emulated" and value != default:
            raise UserError(
                f"--{name} {value}: for Mininet only, and this would be emulated; leave it out, or add"
                " --net mininet"
            )
    return net, why


def _choose_net(asked: Net | Literal["auto"]) -> tuple[Net, str]:
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
    dilation: int = 1,
    command: str | None = None,
    script: Script | None = None,
    is_held: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    advance: Callable[[float], None] = lambda _: None,
) -> None:
    """Run all layerings of a scenario into a new directory, with the code that comes with it
    (testbed.experiment.code); raise UserError.

    `dilation`: see captures.network.clock; for Mininet only.
    `command` is what the user would type to have this run again, None if nothing would do. `script` is called
    for each layering, once its nodes run. A run over Mininet that is held goes on after its end, until it is
    told to end (testbed.experiment.control) or interrupted. `progress` is told the layering that begins,
    `advance` how much of it is done, from 0 to 1, in the emulator only.
    The directory appears under its name only when it is complete; until then, and after a failure over
    Mininet, it is `<directory>.partial`.
    """
    duration_s(scenario, load)
    code.load(scenario)
    if scenario.stock_peers:
        stock_peer.check()
    for forwarder in scenario.other_forwarders.values():
        other_forwarder.check(forwarder)
    for place, program in _programs_in_real_time(scenario).items():
        if net == "emulated":
            raise UserError(f"{place}: {program} runs in real time, in Mininet only; {net_reason}")
        if dilation > 1:
            raise UserError(f"--dilation {dilation}: {program} ({place}) would not follow the slower clock")
    if is_held and (net == "emulated" or len(scenario.layerings) > 1):
        why = "emulated nodes are not there to be entered" if net == "emulated" else "choose one --layering"
        raise UserError(f"--hold: {why}; {net_reason if net == 'emulated' else 'it is held till Ctrl-C'}")
    if os.path.lexists(directory):
        raise UserError(f"{directory}: exists already; choose another --out or remove it")
    try:
        with whole_directory(directory, keep=(_InBox,)) as partial:
            manifest = _manifest(scenario, load, net, net_reason) | {"command": command}
            manifest |= {"scripted": script is not None, "held": is_held}
            manifest |= {"dilation": dilation} if net == "mininet" else {}
            manifest |= {"forwarders": scenario.other_forwarders} if scenario.other_forwarders else {}

            def run_one(layering: str) -> dict[str, Any]:
                if net == "emulated":
                    return emulated_run.run(scenario, layering, load, partial / layering, script, advance)
                words = [impairment, str(dilation), *(["hold"] if is_held else [])]
                return _run_over_mininet(partial, layering, words, script, (scenario, layering, load))

            _run(scenario, load, partial, manifest, run_one, progress)
    except OSError as error:
        raise UserError(f"{of_system(error)}; or choose another --out") from error


def _run(
    scenario: Scenario,
    load: Workload,
    partial: Path,
    manifest: dict[str, Any],
    run_one: Callable[[str], dict[str, Any]],
    progress: Callable[[str], None],
) -> None:
    table = scenario.model_dump(mode="json", by_alias=True)
    write_json(partial / SCENARIO, table)
    inputs.keep(table, partial)
    write_load(partial / FEED, load)
    for layering in scenario.layerings:
        progress(layering)
        (partial / layering).mkdir()
        result = run_one(layering)
        manifest |= {key: result.pop(key) for key in ("impairment", "impairment_reason") if key in result}
        manifest["timeline"] += [row | {"layering": layering} for row in result.pop("happened")]
        manifest["runs"][layering] = result
    manifest["files"] = sealed(partial, scenario.layerings)
    write_json(partial / MANIFEST, manifest)


def _programs_in_real_time(scenario: Scenario) -> dict[str, str]:
    """Return the programs beside feednet's own, by their place in the scenario."""
    peers = {f"nodes.{node}.peer": stock_peer.SSB_SERVER for node in sorted(scenario.stock_peers)}
    forwarders = {f"nodes.{node}.forwarder": name for node, name in scenario.other_forwarders.items()}
    found = peers | forwarders
    if scenario.programs:
        found["[[programs]]"] = shown(" ".join(scenario.programs[0].run))
    return found


def _run_over_mininet(
    partial: Path,
    layering: str,
    words: Sequence[str],
    script: Script | None,
    what: tuple[Scenario, str, Workload],
) -> dict[str, Any]:
    program = [sys.executable, "-m", "testbed.experiment.inside_sandbox"]
    program += [str(partial.resolve()), layering, *words]

    def meanwhile(is_running: Callable[[], bool]) -> None:
        if script is None:
            return
        try:
            with MininetLiveRun(wait_for(partial / layering, is_running), *what) as live:
                script(live)
        except RunEnded:
            if is_running():
                raise  # else the box has said why

    try:
        status = sandbox.box(program, meanwhile)
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
        "about": scenario.about,
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
            "source": _source_of(scenario),
            "replaced": scenario.topology.replacing,
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


def _source_of(scenario: Scenario) -> str:
    """Return what describes a run's network if the scenario does not: a file, or the library's name."""
    described = scenario.topology
    return inputs.own_name(described.file) if described.file else described.library or ""


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
