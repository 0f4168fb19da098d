"""A layering without NDN in a report: its bytes count on every link, and nothing is said of PITs."""

from collections import Counter

import pcapng_oracle
import pyarrow.parquet as pq
import pytest
from short_runs import emulate

from analysis.pipelines.run import analyze
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
    assert "State: the" in both
    assert "append-poll: IPv4 along static routes; all others: best-route" in both
    alone = emulate(tmp_path / "run", "line", items=5, layerings=("append-poll",))
    page = analyze(alone.directory).read_text(encoding="utf-8")
    assert "State: the" not in page
    assert "journey-layering" not in page
    assert "best-route" not in page
