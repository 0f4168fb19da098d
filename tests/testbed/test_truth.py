"""The packets tell the truth: PIT state that is derived from captures is what the forwarders counted.

Every layering in every kind of network is held against the model (analysis.pit.model) in every sample; one
run goes all the way through Spark.
"""

import json
import subprocess
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

import nobody
import pandas as pd
import pcapng_oracle
import pytest
from datagrams import parse_udp
from patience import PATIENCE_S
from real_time import holds_in_slower_time
from simulation import load_of, scenario
from slow import but_slow

from analysis.decode.reading import node_of
from analysis.decode.reference import Link, Network, decode_payload
from analysis.packet_schema import FOREVER, MESSAGES, NOTICES
from analysis.pipelines.run import analyze
from analysis.pit.entry import Message, Step
from analysis.pit.model import PitModel
from analysis.run.context import Case, setting
from analysis.run.manifest import Run
from captures.formats.pcapng import Direction
from forwarder.links.link import LinkService
from forwarder.wire.tlv import MalformedPacket
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.layerings.kinds.ndn import NDN_LAYERINGS as LAYERINGS
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load
from topologies.mininet import sandbox

pytestmark = [pytest.mark.long, pytest.mark.compiled]

EVERY = {"layerings": tuple(LAYERINGS), "sample_interval_ms": 3.7, "settle_ms": 4000, "drain_ms": 2000}
ITEMS = {"items": 60, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}
TREE = {"generator": "tree", "depth": 2, "fanout": 2, "link": {"delay_ms": 5.0, "bw_mbit": 10.0}}
LOSSY = {"delay_ms": 5.0, "jitter_ms": 4.0, "loss_percent": 10.0, "duplicate_percent": 5.0}
LINE = {"generator": "line", "length": 4, "link": LOSSY}
CHANGES = [
    {"at_ms": 600.0, "link_down": "r1 s1"},
    {"at_ms": 650.0, "link_down": "pub r2", "signalled": False},
    {"at_ms": 700.0, "restart": "r1"},
    {"at_ms": 800.0, "restart": "s3"},
    {"at_ms": 900.0, "link_up": "r1 s1"},
    {"at_ms": 1100.0, "link_up": "pub r2", "signalled": False},
    {"at_ms": 1200.0, "restart": "pub"},
]
CLASSIC = ("pull", "poll", "long-lived")
BREAKS = [
    {"at_ms": 500.0, "link_down": "r1 r2"},
    {"at_ms": 700.0, "link_up": "r1 r2"},
    {"at_ms": 900.0, "restart": "r3"},
]
NETWORKS: dict[str, Scenario] = {
    "clean tree": scenario(topology=TREE, workload=ITEMS, **EVERY),
    "lossy line": scenario(topology=LINE, subscribers=("s1",), workload=ITEMS, **EVERY),
    "changes": scenario(topology=TREE, workload=ITEMS, events=CHANGES, **EVERY),
    "lossy changes": scenario(topology=LINE, subscribers=("s1",), workload=ITEMS, events=BREAKS, **EVERY),
    "fork": load("fork", items=100),
    "archive": load("archive", items=120),
    "failover": load("failover", items=70),
    "bottleneck": load("bottleneck", items=200),
    "social": load("social", items=12, layerings=("social-routing",)),
    "mobile": load("mobile", items=30, layerings=("link",)),
    **{
        f"failover by {strategy}": load("failover", items=70, strategy=strategy, layerings=CLASSIC)
        for strategy in ("multicast", "random", "access", "self-learning")
    },
}


def _counted(run: Run, layering: str) -> list[dict[str, Any]]:
    """Return what the forwarders say of their PITs, sample by sample."""
    rows, known = [], dict[str, dict[str, Any]]()
    for line in run.counters(layering).read_text().splitlines():
        time, _, rest = line.partition(",")
        if rest not in known:  # most nodes are as they were in the sample before
            row = json.loads("{" + rest)
            state = row.pop("state")
            held = [state[kind] for kind in ("pit", "llis") if kind in state]
            known[rest] = row | {
                f"pit_{what}": sum(each[what] for each in held) for what in ("entries", "bytes")
            }
        rows.append(known[rest] | {"time": int(time.removeprefix('{"time":'))})
    return rows


@pytest.mark.parametrize("network", but_slow(NETWORKS, "archive", "bottleneck", "changes", "fork"))
def test_emulated_exactly_sample_by_sample(tmp_path: Path, network: str) -> None:
    wanted = NETWORKS[network]
    run = _made(wanted, tmp_path / "run")
    for layering in wanted.layerings:
        counted = _counted(run, layering)
        derived = _derived(run, layering)
        wrong = Counter(
            (row["node"], what)
            for row in counted
            for what, value in zip(Step._fields[1:], derived[row["node"]].at(row["time"])[1:], strict=True)
            if value != row[f"pit_{what}"]
        )
        assert not wrong, f"{layering}: samples that are wrong, of {len(counted)}"
        assert {row["node"] for row in counted if row["pit_entries"]} >= {*wanted.subscribers}
        pushes = layering in LAYERINGS and LAYERINGS[layering].controlled_push
        assert (
            any(row["pit_credit"] for row in counted) == any(row["pit_ranges"] for row in counted) == pushes
        )
        # Announcements of sync-log bring items, and nobody need ask.
        assert pushes or layering == "sync-log" or any(row["pit_satisfied"] for row in counted)


def test_what_asf_keeps_for_late_answers_shows_in_no_packet(tmp_path: Path) -> None:
    """An entry that has been probed for stays for 50 ms once it is satisfied: the model lets it go at once.

    Apart from those few the packets tell the truth here, too.
    """
    wanted = load("failover", items=70, strategy="asf/probing-interval~1000", layerings=CLASSIC)
    run = _made(wanted, tmp_path / "run")
    for layering in wanted.layerings:
        counted = _counted(run, layering)
        derived = _derived(run, layering)
        more = [row["pit_entries"] - derived[row["node"]].at(row["time"]).entries for row in counted]
        assert min(more) >= 0
        assert sum(map(bool, more)) < len(more) / 50


@pytest.mark.spark
def test_the_tables_have_the_same(tmp_path: Path) -> None:
    wanted = NETWORKS["lossy changes"].model_copy(update={"layerings": ("poll", "persistent", "lli")})
    run = _made(wanted, tmp_path / "run")
    samples = _truth(run.directory)
    counters = [run.counters(layering).read_text().splitlines() for layering in wanted.layerings]
    assert len(samples) == sum(map(len, counters))
    assert (samples.derived_entries == samples.counted_entries).all()
    for what in Step._fields[1:]:
        assert (samples[f"derived_{what}"] == samples[f"counted_{what}"]).all()
        assert samples[f"counted_{what}"].any()
    assert samples.agrees.all()
    assert {*samples[samples.counted_entries > 0].node} == {*wanted.network.nodes}


def _made(wanted: Scenario, directory: Path) -> Run:
    loaded = load_of(wanted) if wanted.name == "test" else workload.load(wanted)
    running.run(wanted, loaded, EMULATED, directory)
    return Run(directory)


def _truth(run: Path) -> "pd.DataFrame":
    analyze(run)
    return pd.read_parquet(run / "tables" / "pit_truth.parquet")


class _Curve:
    """A node's table over time."""

    def __init__(self, messages: list[Message]) -> None:
        model = PitModel()
        for message in messages:
            model.receive(message)
        model.finish(FOREVER)
        steps = model.take_steps()
        self._times = [step.time for step in steps]
        nothing = Step(0, 0, 0)
        self._states = list(
            accumulate(steps, lambda a, b: Step(*map(sum, zip(a, b, strict=True))), initial=nothing)
        )

    def at(self, time: int) -> Step:
        """Return the sums of all changes up to a time; its own time means nothing."""
        return self._states[bisect_right(self._times, time)]


def _derived(run: Run, layering: str) -> dict[str, _Curve]:
    """Follow every node's table by the packets that a forwarder would see, without Spark."""
    messages: dict[str, list[Message]] = {node.name: [] for node in run.manifest.topology.nodes}
    breaks = setting({layering: Case(run, layering)}).breaks.to_pylist()
    breaks = [row for row in breaks if row["event"] != "peer-restart"]  # it forgets, its peers do not
    breaks.sort(key=lambda row: row["time"], reverse=True)
    links: dict[tuple[str, bool], LinkService] = defaultdict(LinkService)
    for captured in pcapng_oracle.read(run.capture(layering)):
        while breaks and breaks[-1]["time"] <= captured.time:
            row = breaks.pop()
            for way in (False, True):
                links.pop((row["interface"], way), None)
            messages[row["node"]].append(Message(row["time"], row["interface"], "", row["event"], "", 0))
        view = parse_udp(captured.frame)
        assert view is not None
        interface, is_out = captured.interface.name, captured.direction is Direction.OUT
        payload = captured.frame[view.payload_offset : view.payload_offset + view.payload_length]
        with suppress(MalformedPacket):
            packet = links[interface, is_out].receive(payload, captured.time)
            fields = dict(zip(_DECODED, decode_payload(packet or b""), strict=True))
            if fields["kind"] in (*MESSAGES, *NOTICES):
                values: dict[str, Any] = {name: fields[name] for name in Message._fields if name in fields}
                message = Message(captured.time, interface, "out" if is_out else "in", **values)
                messages[node_of(interface)].append(message)
    return {node: _Curve(seen) for node, seen in messages.items()}


_DECODED = (*Link._fields, *Network._fields)


@pytest.mark.spark
@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"Mininet cannot run here: {sandbox.why_not()}")
def test_mininet_within_what_is_in_flight_in_a_millisecond(tmp_path: Path) -> None:
    """But for now and then, and then not by much: a process may be kept from its packets for longer."""

    def wrong(dilation: int) -> list[str]:
        arguments = ["run", "fanout", "--net", "mininet", "--items", "80", "--no-report"]
        arguments += ["--dilation", str(dilation), "--out", f"run-{dilation}"]
        subprocess.run(
            [sys.executable, "-m", "testbed.cli", *arguments],
            cwd=tmp_path,
            env=nobody.environment(),
            timeout=PATIENCE_S * dilation,
            check=True,
        )
        samples = _truth(tmp_path / f"run-{dilation}")
        found = []
        for layering in ("poll", "lli"):
            seen = samples[samples.layering == layering]
            assert len(seen) > 1000
            apart = {"agrees": (1 - seen.agrees.mean(), 0.01)}
            for what, most in (("satisfied", 10), ("expired", 10), ("entries", 4)):
                apart[what] = (seen[f"derived_{what}"] - seen[f"counted_{what}"]).abs().max(), most
            found += [
                f"{layering}: {what}: {value} > {most}"
                for what, (value, most) in apart.items()
                if value > most
            ]
        return found

    holds_in_slower_time(wrong, (1, 4, 8))
