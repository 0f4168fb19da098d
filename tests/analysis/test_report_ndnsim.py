"""The traces in ndnSIM's formats, from a run that was made by hand."""

import csv
import json
import shutil

import pytest
from handmade import FEED_URI

from analysis.errors import AnalysisError
from analysis.export.ndnsim import cache, delays, export
from analysis.pipelines.run import analyze
from analysis.run.manifest import Run
from base.units import MS


@pytest.fixture(scope="module")
def traces(spark, handmade_run, tmp_path_factory):
    analyze(handmade_run)
    written = export(handmade_run, tmp_path_factory.mktemp("traces"), 0.25)

    def read(layering, name):
        (path,) = [path for path in written if path.parent.name == layering and path.name == name]
        with path.open(newline="") as file:
            return list(csv.DictReader(file, delimiter="\t"))

    return read


@pytest.mark.spark
def test_rates(traces):
    rows = traces("poll", "rate-trace.txt")
    assert list(rows[0]) == [
        "Time", "Node", "FaceId", "FaceDescr", "Type", "Packets", "Kilobytes", "PacketRaw", "KilobytesRaw",
    ]  # fmt: skip
    assert {row["Time"] for row in rows} == {"0.25", "0.5"}
    assert {row["Type"] for row in rows} == {
        "InInterests", "OutInterests", "InData", "OutData", "InNacks", "OutNacks",
    }  # fmt: skip
    faces = {(row["Node"], row["FaceId"], row["FaceDescr"]) for row in rows}
    assert ("r", "256", "netdev://r-eth0-to-p") in faces
    assert ("r", "257", "netdev://r-eth1-to-s") in faces
    # The subscriber asks at 50, 150 and 330 ms: two in the first quarter of a second and one in the next, so
    # the average goes from 0.8 * 2 / 0.25 to 0.8 * 1 / 0.25 + 0.2 * 6.4.
    own = [row for row in rows if row["Node"] == "s" and row["Type"] == "OutInterests"]
    assert [(row["PacketRaw"], float(row["Packets"])) for row in own] == [
        ("2", 6.4),
        ("1", pytest.approx(4.48)),
    ]
    assert all(float(row["Kilobytes"]) > 0 for row in own)


@pytest.mark.spark
def test_delays(traces):
    poll = traces("poll", "app-delays-trace.txt")
    assert list(poll[0]) == [
        "Time", "Node", "AppId", "SeqNo", "Type", "DelayS", "DelayUS", "RetxCount", "HopCount",
    ]  # fmt: skip
    third = {row["Type"]: row for row in poll if row["SeqNo"] == "3"}
    # Published at 300 ms, asked for at 330, there at 370.
    assert (third["FullDelay"]["DelayS"], third["FullDelay"]["DelayUS"]) == ("0.07", "70000")
    assert (third["LastDelay"]["DelayS"], third["LastDelay"]["RetxCount"]) == ("0.04", "1")
    assert third["FullDelay"]["Time"] == "0.37"
    assert {row["HopCount"] for row in poll} == {"2"}
    first = {row["Type"]: row["DelayS"] for row in poll if row["SeqNo"] == "1"}
    assert first == {"FullDelay": "0.02", "LastDelay": "0.02"}  # asked for before it was there
    lli = traces("lli", "app-delays-trace.txt")
    assert {row["RetxCount"] for row in lli} == {"0"}
    assert {row["DelayS"] for row in lli} == {"0.02"}


def test_a_run_that_has_not_been_analysed_is_refused(handmade_run, tmp_path):
    shutil.copytree(handmade_run, tmp_path / "run", ignore=shutil.ignore_patterns("tables"))
    with pytest.raises(AnalysisError, match=r"messages.parquet: missing: analyse the run first"):
        export(tmp_path / "run", tmp_path / "out")


def test_repeated_interests_are_counted(handmade_run):
    usual = {"node": "s", "feed": FEED_URI, "seq": 1}
    asked = [
        usual | {"time": t * MS, "kind": "interest", "direction": "out", "interface": "s-eth0"}
        for t in (10, 40, 99)
    ]
    came = [usual | {"time": 60 * MS, "kind": "data", "direction": "in", "interface": "s-eth0"}]
    late = [usual | {"purpose": "subscribed", "delivered": 60 * MS, "latency_ns": 55 * MS}]
    last, full = delays(Run(handmade_run), "poll", asked + came, late)
    assert last[5:8] == (0.02, 20_000, 1)
    assert full[5:8] == (0.055, 55_000, 2)  # what is asked for later does not count


def test_caches_are_counted_from_the_forwarders_own_counters(handmade_run, tmp_path):
    shutil.copytree(handmade_run, tmp_path / "run")
    run = Run(tmp_path / "run")
    assert list(cache(run, "lli", 0.25)) == []  # these do not count
    samples = [(0, 0, 0), (240, 1, 2), (260, 4, 2), (500, 1, 1)]  # and then the node starts anew
    lines = [
        {"time": t * MS, "node": "r", "cs_hits": hits, "cs_misses": misses} for t, hits, misses in samples
    ]
    lines.append({"time": 250 * MS, "node": "s"})  # a node without a content store
    run.counters("lli").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(cache(run, "lli", 0.25)) == [
        (0.25, "r", "CacheHits", 1),
        (0.25, "r", "CacheMisses", 2),
        (0.5, "r", "CacheHits", 0),
        (0.5, "r", "CacheMisses", 1),
    ]
