"""A protocol that encrypts: read out of a capture with the key log of its run, and counted without it."""

import shutil
import subprocess
from collections import Counter

import pcapng_oracle
import pyarrow.parquet as pq
import pytest
from handmade import without_keys
from plain_poll.protocol import LENGTH
from sealed_poll import DECLARATION, LABEL, LAYERING, NAME, SEAL
from short_runs import emulate

from analysis.decode.protocols.registry import PROTOCOLS
from analysis.pipelines.run import analyze
from base.key_log import from_lines
from testbed.layerings.registry import LAYERINGS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def registered(plain_poll):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROTOCOLS, NAME, DECLARATION)
        patch.setitem(LAYERINGS, NAME, LAYERING)
        yield


@pytest.fixture(scope="module")
def run(registered, spark, tmp_path_factory):
    place = tmp_path_factory.mktemp("sealed") / "run"
    made = emulate(place, "line", items=15, layerings=(NAME, "plain-poll"))
    analyze(made.directory)
    return made


def layers(run, layering=NAME):
    rows = pq.read_table(run.directory / "tables" / "overhead.parquet").to_pylist()
    return {row["layer"]: row["bytes"] for row in rows if row["layering"] == layering and row["bytes"]}


def metrics(run, layering=NAME):
    rows = pq.read_table(run.comparison).to_pylist()
    return {row["metric"]: row["value"] for row in rows if row["layering"] == layering}


def told(run, name):
    return pq.read_table(run.directory / "tables" / f"{name}.parquet").to_pylist()


def test_the_key_log_is_a_file_of_the_run_and_in_its_capture(run):
    lines = (run.directory / NAME / "keys.log").read_bytes()
    secrets = from_lines(lines)
    assert {secret.label for secret in secrets} == {LABEL}
    assert f"{NAME}/keys.log" in run.manifest.files
    assert lines in (run.directory / NAME / "capture.pcapng").read_bytes()
    assert not (run.directory / "plain-poll" / "keys.log").exists()
    assert len(secrets) >= metrics(run)["connections"] > 0


def test_messages_are_read_with_the_keys(run):
    rows = told(run, NAME)
    kinds = Counter(row["kind"] for row in rows if (row["node"], row["direction"]) == ("s1", "in"))
    assert kinds.keys() == {"data", "end"}
    items = [row for row in rows if (row["node"], row["kind"]) == ("s1", "data")]
    assert {row["seq"] for row in items} == set(range(1, 16))
    assert {row["stream_bytes"] - row["payload_bytes"] for row in items} == {LENGTH + SEAL}
    assert {row["feed"] for row in items} == {run.manifest.workload.feeds[0].feed}


def test_its_layers_are_those_of_the_open_protocol_and_the_seals(run):
    sealed, open_ = layers(run), layers(run, "plain-poll")
    assert "encrypted" not in sealed
    # Items are as long; what is repeated differs, as losses hit others.
    assert sealed["payload"] == open_["payload"]
    messages = [row for row in told(run, NAME) if row["direction"] == "out"]
    assert sealed[f"{NAME} seal"] >= SEAL * sum(row["kind"] != "hello" for row in messages)
    assert sealed[f"{NAME} length"] * SEAL == sealed[f"{NAME} seal"] * LENGTH
    assert metrics(run)["useful_share"] > 0
    assert metrics(run)["bound_p50"] > metrics(run, "plain-poll")["bound_p50"]


def test_without_the_keys_it_is_encrypted_bytes(run, tmp_path):
    bare = without_keys(run, tmp_path / "bare", NAME)
    analyze(bare.directory)
    readable, counted = layers(run), layers(bare)
    assert sum(counted.values()) == sum(readable.values())
    assert counted.keys() & {"payload", f"{NAME} seal", f"{NAME} length"} == set()
    own = [name for name in readable if name.startswith(NAME) or name == "payload"]
    assert counted["encrypted"] + counted[f"{NAME} identifier"] == sum(readable[name] for name in own)
    assert counted["retransmitted"] == readable["retransmitted"]
    assert {row["kind"] for row in told(bare, NAME)} == {"hello", "sealed"}
    values = metrics(bare)
    assert values["delivered"] == metrics(run)["delivered"]
    assert values["useful_share"] is None
    assert "sealed bytes" in bare.report.read_text(encoding="utf-8")


def test_wiresharks_tools_take_the_capture(run, tmp_path):
    capture = run.directory / NAME / "capture.pcapng"
    if shutil.which("tshark") is None or shutil.which("editcap") is None:
        pytest.skip("Wireshark's tools are not installed")
    said = subprocess.run(["capinfos", "-c", "-M", capture], capture_output=True, text=True, check=True)
    frames = sum(1 for _ in pcapng_oracle.read(capture))
    assert str(frames) in said.stdout
    listed = subprocess.run(
        ["tshark", "-n", "-r", capture, "-T", "fields", "-e", "tcp.len"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(listed.stdout.splitlines()) == frames
    # It keeps the block, or drops it when asked to.
    for option, is_there in (([], True), (["--discard-all-secrets"], False)):
        copy = tmp_path / f"copy{len(option)}.pcapng"
        subprocess.run(["editcap", *option, capture, copy], capture_output=True, check=True)
        assert (LABEL.encode() in copy.read_bytes()) == is_there
