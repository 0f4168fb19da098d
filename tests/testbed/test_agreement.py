"""The emulator against Mininet on one scenario: what is judged, and that it holds."""

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from real_time import DILATIONS, holds_in_slower_time, until_delivered

from analysis.export.text import agreement_text
from analysis.metrics.agreement import AgreementCheck, agreement
from analysis.metrics.study import Record, study
from analysis.pipelines.compare import compare_runs
from analysis.report.study import render_study
from analysis.run.keys import NET
from feednet import Experiment, Link, Topology
from topologies.mininet import sandbox

WHY_NOT = sandbox.why_not()


def record(network: str, seed: int = 1, **values: float) -> Record:
    whole = {"delivered": 40.0, "latency_p50": 20.0, "bytes_per_item": 1000.0, "delivered_share": 100.0}
    return Record({NET: network}, seed, "lli", whole | values)


@pytest.mark.parametrize(
    ("real", "agrees"),
    [
        ({}, [True, True, True]),
        ({"latency_p50": 21.29, "bytes_per_item": 1009.9}, [True, True, True]),
        ({"latency_p50": 18.71, "bytes_per_item": 990.1}, [True, True, True]),
        ({"latency_p50": 21.31, "bytes_per_item": 1010.1}, [True, False, False]),
        ({"latency_p50": 18.69, "bytes_per_item": 989.9}, [True, False, False]),
        ({"delivered": 39.0}, [False, True, True]),
    ],
)
def test_bounds(real: dict[str, float], agrees: list[bool]) -> None:
    judged = agreement(study("s", "t", [record("emulator"), record("Mininet (relay)", **real)]))
    assert [each.metric.key for each in judged] == ["delivered", "latency_p50", "bytes_per_item"]
    assert [each.agrees for each in judged] == agrees
    assert {each.network for each in judged} == {"Mininet (relay)"}


def test_it_is_about_networks_and_told_in_both_forms() -> None:
    both = study("s", "t", [record("emulator"), record("Mininet (relay)", latency_p50=30.0)])
    line = agreement_text(both).splitlines()[2]
    assert line.split()[-8:] == ["+50.0%", "within", "5", "%", "and", "0.3", "ms", "DISAGREES"]
    assert "--dilation 8" in agreement_text(both)
    early = study("s", "t", [record("emulator"), record("Mininet (relay)", latency_p50=10.0)])
    assert "DISAGREES" in agreement_text(early)
    assert "--dilation" not in agreement_text(early)
    assert '<table class="comparison" id="table-agreement">' in render_study(both)
    seeds = study("s", "t", [record("emulator"), record("emulator", seed=2)])
    assert agreement(seeds) == []
    assert agreement_text(seeds) == ""
    assert "table-agreement" not in render_study(seeds)
    real = study("s", "t", [record("Mininet (relay)"), record("Mininet (netem)")])
    assert agreement(real) == []


NETS: tuple[Literal["emulated", "mininet"], ...] = ("emulated", "mininet")
NEEDS_MININET = pytest.mark.skipif(WHY_NOT is not None, reason=f"Mininet cannot run here: {WHY_NOT}")


def experiment(ends: list[tuple[str, str]], delay_ms: float, **keys: Any) -> Experiment:
    nodes = tuple(dict.fromkeys(end for each in ends for end in each))
    links = tuple(Link(*each, delay_ms=delay_ms, bw_mbit=10.0) for each in ends)
    workload = {"items": 25, "schedule": {"speed": 1e6, "idle_limit_ms": 20.0}}
    return Experiment(
        topology=Topology(nodes, links), workload=workload, settle_ms=600_000, drain_ms=0, **keys
    )


@pytest.mark.mininet
@NEEDS_MININET
@pytest.mark.parametrize(
    ("ends", "delay_ms", "dilations"),
    [
        ([("pub", "r1"), ("r1", "s1")], 75.0, (*DILATIONS, 64)),
        ([("pub", "r1"), ("r1", "r2"), ("r2", "s1"), ("r2", "s2")], 10.0, (8, 32, 128)),
    ],
    ids=["long links", "dilated time"],
)
def test_the_emulator_and_mininet_tell_the_same(
    tmp_path: Path, ends: list[tuple[str, str]], delay_ms: float, dilations: tuple[int, ...]
) -> None:
    """The time that processors take is short beside links' delays; on a busy machine, in slower time."""
    wanted = experiment(ends, delay_ms, layerings=["poll", "lli"], warmup_ms=400)
    emulated = wanted.run(tmp_path / "emulated", net="emulated", script=until_delivered).directory

    def wrong(dilation: int) -> list[AgreementCheck]:
        place = tmp_path / f"mininet-{dilation}"
        real = wanted.run(place, net="mininet", dilation=dilation, script=until_delivered).directory
        judged = agreement(compare_runs([emulated, real], tmp_path / "page.html"))
        assert len(judged) == 6
        assert all(each.agrees for each in judged if each.metric.key == "delivered")
        return [each for each in judged if not each.agrees]

    holds_in_slower_time(wrong, dilations)


@pytest.mark.mininet
@NEEDS_MININET
def test_over_real_tcp_the_same_messages_cross_the_links(tmp_path: Path) -> None:
    """Each once, in as many bytes, and no sooner; acknowledgements and notes follow the machine's clock."""
    wanted = experiment([("pub", "r1"), ("r1", "s1")], 75.0, layerings=["ssb"])
    crossed, latencies = [], []
    for net in NETS:
        results = wanted.run(tmp_path / net, net=net, script=until_delivered)
        messages = results.pandas("ssb")
        data = messages[messages.kind == "data"]
        crossed.append(
            Counter(zip(data.interface, data.direction, data.seq, data.payload_bytes, strict=True))
        )
        latencies.append(results.pandas("latency").latency_ns.median())
    assert crossed[0] == crossed[1]
    assert len(crossed[0]) == 2 * 2 * 25
    assert {*crossed[0].values()} == {1}
    assert latencies[1] > 0.95 * latencies[0]
