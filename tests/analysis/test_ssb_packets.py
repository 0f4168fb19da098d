"""SSB's packets in analysis: every byte of encrypted streams told with the key log, and none without it."""

from collections import Counter

import pyarrow.parquet as pq
import pytest
from handmade import without_keys
from short_runs import emulate

from analysis.pipelines.run import analyze
from ssb.transport.box_stream import HEADER_BYTES as BOX_BYTES
from ssb.transport.handshake import ACCEPT_BYTES, AUTHENTICATE_BYTES, HELLO_BYTES
from ssb.transport.muxrpc import HEADER_BYTES
from ssb.transport.secure_stream import PLAIN_BYTES

pytestmark = pytest.mark.spark

ITEMS = 15
PLAIN = """
title = "Two peers without encryption"
layerings = ["ssb"]
[topology]
generator = "star"
leaves = 1
[workload]
items = 5
[parameters.ssb]
encrypt = false
"""


@pytest.fixture(scope="module")
def run(spark, tmp_path_factory):
    made = emulate(tmp_path_factory.mktemp("ssb") / "run", "line", items=ITEMS, layerings=("ssb", "lli"))
    analyze(made.directory)
    return made


def rows(run, table):
    return pq.read_table(run.directory / "tables" / f"{table}.parquet").to_pylist()


def layers(run):
    return {row["layer"]: row["bytes"] for row in rows(run, "overhead") if row["layering"] == "ssb"}


def test_messages_notes_and_calls_are_told_apart(run):
    seen = [row for row in rows(run, "ssb") if (row["node"], row["direction"]) == ("s1", "in")]
    kinds = Counter(row["kind"] for row in seen)
    assert kinds["data"] == ITEMS
    assert {row["seq"] for row in seen if row["kind"] == "data"} == set(range(1, ITEMS + 1))
    assert {row["feed"] for row in seen if row["kind"] == "data"} == {run.manifest.workload.feeds[0].feed}
    assert kinds["handshake"] == 2
    assert kinds["note"] >= 1
    sent = [row for row in rows(run, "ssb") if (row["node"], row["direction"]) == ("s1", "out")]
    assert [row["method"] for row in sent if row["kind"] == "request"] == ["ebt.replicate"]


def test_all_bytes_of_the_streams_are_in_a_layer(run):
    told = layers(run)
    assert not told["encrypted"]
    assert not told["unread"]
    links = 6  # which one connection crosses
    assert told["ssb handshake"] == links * (2 * HELLO_BYTES + AUTHENTICATE_BYTES + ACCEPT_BYTES)
    assert told["ssb box"] % BOX_BYTES == 0
    assert told["ssb muxrpc"] % HEADER_BYTES == 0
    assert told["payload"] > told["ssb box"] > told["ssb muxrpc"] > told["ssb note"] > 0


def test_control_and_latency_are_compared_with_other_layerings(run):
    values = {
        (row["layering"], row["metric"]): row["value"] for row in pq.read_table(run.comparison).to_pylist()
    }
    for metric in ("delivered", "latency_p50", "bytes_per_item", "control_per_item"):
        assert values["ssb", metric] is not None, metric
    assert values["ssb", "delivered"] == values["lli", "delivered"]


def test_without_the_keys_nothing_is_guessed(run, tmp_path):
    bare = without_keys(run, tmp_path / "bare", "ssb")
    analyze(bare.directory)
    readable, counted = layers(run), layers(bare)
    assert sum(counted.values()) == sum(readable.values())
    own = [name for name in readable if name.startswith("ssb") or name == "payload"]
    assert counted["encrypted"] + counted["ssb handshake"] == sum(readable[name] for name in own)
    assert {row["kind"] for row in rows(bare, "ssb")} == {"handshake", "sealed"}


def test_streams_without_encryption_need_no_keys(spark, tmp_path):
    scenario = tmp_path / "plain.toml"
    scenario.write_text(PLAIN, encoding="utf-8")
    made = emulate(tmp_path / "run", str(scenario))
    analyze(made.directory)
    told = layers(made)
    assert not (made.directory / "ssb" / "keys.log").exists()
    assert not told["encrypted"]
    assert not told["unread"]
    assert not told["ssb box"]
    links = 2
    assert told["ssb handshake"] == links * 2 * PLAIN_BYTES
    assert told["payload"] > told["ssb muxrpc"] > 0
