"""A layering without NDN in a report: its bytes count on every link, and nothing is said of PITs."""

import json
from collections import Counter

import pcapng_oracle
import pyarrow.parquet as pq
import pytest
from short_runs import emulate

from analysis.metrics.state import held, read_samples
from analysis.pipelines.run import analyze
from analysis.run.context import Case, Span
from captures.pcapng import Direction


@pytest.fixture(scope="module")
def compared(spark, tmp_path_factory):
    run = emulate(
        tmp_path_factory.mktemp("over-tcp") / "run", "line", items=15, layerings=("append-poll", "poll")
    )
    analyze(run.directory)
    return run


def values(run, layering):
    rows = pq.read_table(run.comparison).to_pylist()
    return {row["metric"]: row["value"] for row in rows if row["layering"] == layering}


@pytest.mark.spark
def test_it_is_compared_on_all_but_what_only_ndn_has(compared):
    over_tcp, over_ndn = values(compared, "append-poll"), values(compared, "poll")
    for metric in (
        "delivered",
        "latency_p50",
        "first_item_p50",
        "frames_per_item",
        "bytes_per_item",
        "link_use",
    ):
        assert over_tcp[metric] > 0
    for metric in ("pit_entries_mean", "pit_bytes_peak", "interests_per_item"):
        assert over_tcp[metric] is None
        assert over_ndn[metric] > 0


@pytest.mark.spark
def test_state_is_that_of_samples_and_over_ndn_that_of_pits(compared):
    over_tcp, over_ndn = values(compared, "append-poll"), values(compared, "poll")
    turn = compared.manifest.runs["append-poll"]
    step = turn.sample_interval_ns
    lines = compared.counters("append-poll").read_text().splitlines()
    total, peak, network, nodes = 0, 0, Counter(), set()
    for row in map(json.loads, lines):
        held = sum(kind["bytes"] for kind in row["state"].values())
        # A sample stands until the next one; means are over the time in which items were published.
        lasted = min(row["time"] + step, turn.last_ns) - max(row["time"], turn.first_ns)
        total += held * max(0, lasted)
        peak = max(peak, held)
        network[row["time"]] += held
        nodes.add(row["node"])
    mean = total / (turn.last_ns - turn.first_ns)
    assert over_tcp["state_bytes_network"] == pytest.approx(mean)
    assert over_tcp["state_bytes_mean"] == pytest.approx(mean / len(nodes))
    assert over_tcp["state_bytes_peak"] == peak > 0
    assert over_tcp["state_bytes_network_peak"] == max(network.values()) > peak
    for what in ("entries_mean", "bytes_peak", "entries_network", "bytes_network_peak"):
        assert over_ndn[f"state_{what}"] == over_ndn[f"pit_{what}"] > 0


@pytest.mark.spark
def test_samples_of_pits_come_near_to_what_packets_tell(compared):
    """The two ways to measure agree where both can be gone: they differ by what a sample misses."""
    cases = {"poll": Case(compared, "poll")}
    turn = compared.manifest.runs["poll"]
    spans = {"poll": Span(turn.start_ns, turn.end_ns)}, {"poll": Span(turn.first_ns, turn.last_ns)}
    told = held(read_samples(cases), *spans, 300)
    over_ndn = values(compared, "poll")
    nodes = {row["node"]: row for row in told["summary"]}
    assert nodes.pop("*")["mean_bytes"] == pytest.approx(over_ndn["pit_bytes_network"], rel=0.05)
    mean = sum(row["mean_entries"] for row in nodes.values()) / len(nodes)
    assert mean == pytest.approx(over_ndn["pit_entries_mean"], rel=0.05)
    assert told["kinds"][0]["mean_entries"] == pytest.approx(mean)
    assert over_ndn["pit_bytes_peak"] * 0.5 < told["kinds"][0]["peak_bytes"] <= over_ndn["pit_bytes_peak"]


@pytest.mark.spark
@pytest.mark.parametrize("layering", ["append-poll", "poll"])
def test_the_load_of_links_counts_every_frame(compared, layering):
    capture = compared.directory / layering / "capture.pcapng"
    sent = Counter()
    for packet in pcapng_oracle.read(capture):
        if packet.direction is Direction.OUT:
            sent[packet.interface.name.rpartition("-")[0]] += len(packet.frame)
    load = pq.read_table(compared.directory / "tables" / "link_load.parquet").to_pylist()
    told = Counter()
    for row in load:
        if row["layering"] == layering:
            told[row["sender"]] += row["bytes"]
    assert told == sent


@pytest.mark.spark
def test_what_a_link_has_lost_is_counted(compared):
    capture = compared.directory / "append-poll" / "capture.pcapng"
    seen = Counter(packet.direction for packet in pcapng_oracle.read(capture))
    load = pq.read_table(compared.directory / "tables" / "link_load.parquet").to_pylist()
    lost = sum(row["lost"] for row in load if row["layering"] == "append-poll")
    assert lost == seen[Direction.OUT] - seen[Direction.IN] > 0


@pytest.mark.spark
def test_its_page_has_no_pit_and_no_journey(compared, tmp_path):
    both = compared.report.read_text(encoding="utf-8")
    assert "State over time" in both
    assert "State entries, mean of a node" in both
    assert "PIT entries, mean of a node" not in both
    assert "Lifetime of " in both
    assert "append-poll: IPv4 along static routes; all others: best-route" in both
    alone = emulate(tmp_path / "run", "line", items=5, layerings=("append-poll",))
    page = analyze(alone.directory).read_text(encoding="utf-8")
    assert "State over time" in page
    assert "Lifetime of " not in page
    assert "journey-layering" not in page
    assert "best-route" not in page
