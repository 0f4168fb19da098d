"""A run over Mininet: real hosts, real sockets, the same directory as an emulated one."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import nobody
import pcapng_oracle
import pytest
from patience import PATIENCE_S
from real_time import holds_in_slower_time

from base.key_log import from_lines
from captures.formats.pcapng import Direction
from captures.network.clock import Clock
from ssb.transport.secure_stream import CLIENT_SECRET, SERVER_SECRET
from testbed.experiment.mininet_run import RunError, _Nodes, _Process
from testbed.hosts.host_process import Report
from testbed.layerings.nodes.node import AppState
from testbed.library import scenarios
from testbed.scenario.reader import load
from topologies.mininet import sandbox

pytestmark = [
    pytest.mark.mininet,
    pytest.mark.skipif(sandbox.why_not() is not None, reason=f"Mininet cannot run here: {sandbox.why_not()}"),
]


# On a busy machine the last items need longer than the usual settling time.
SETTLE = "settle_ms = 10000\n"
FANOUT = SETTLE + scenarios()["fanout"].read_text(encoding="utf-8")


def feednet(
    *arguments: str, command: list[str], cwd: Path, scenario: str = FANOUT
) -> "subprocess.CompletedProcess[str]":
    (cwd / "scenario.toml").write_text(scenario, encoding="utf-8")
    return subprocess.run(
        [
            *command,
            "-m",
            "testbed.cli",
            "run",
            "scenario.toml",
            "--net",
            "mininet",
            "--no-report",
            *arguments,
        ],
        cwd=cwd,
        env=nobody.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def assert_complete(run: Path, items: int, subscribers: int) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["net"] == "mininet"
    assert manifest["impairment"] in ("netem", "relay")
    for layering in manifest["layerings"]:
        events = [json.loads(line) for line in (run / layering / "events.jsonl").read_text().splitlines()]
        delivered: dict[str, list[int]] = {}
        for event in events:
            if event["event"] == "delivered":
                delivered.setdefault(event["node"], []).append(event["seq"])
        assert len(delivered) == subscribers
        assert all(seqs == list(range(1, items + 1)) for seqs in delivered.values())
        capture = manifest["runs"][layering]["capture"]
        assert capture["dropped"] == 0
        assert capture["frames"] == len(list(pcapng_oracle.read(run / layering / "capture.pcapng")))
        last = {}
        for line in (run / layering / "counters.jsonl").read_text().splitlines():
            row = json.loads(line)
            last[row["node"]] = row
        assert {row["state"]["pit"]["entries"] for row in last.values()} == {0}
        assert {row["malformed"] for row in last.values()} == {0}
        turn = manifest["runs"][layering]
        assert turn["cpu_ns"].keys() == last.keys()
        assert all(0 < spent < turn["end_ns"] - turn["start_ns"] for spent in turn["cpu_ns"].values())


def test_what_processes_of_one_node_took_of_a_processor_adds_up() -> None:
    here, there = multiprocessing.Pipe()
    nodes = _Nodes(load("line"), "lli", None, None, Path(), None, Clock.from_now(1), is_held=False)
    nodes._processes["r1"] = _Process(None, here)
    for spent in (5, 7):
        there.send(("report", Report([], [], spent, AppState(), [])))
        nodes._collect("r1", 1)
    assert nodes.cpu_ns == {"r1": 12}
    there.send(("error", "nfd has ended"))
    with pytest.raises(RunError, match=r"^node r1: nfd has ended$"):  # whatever else is waited for
        nodes._receive("r1")


def test_both_layerings_deliver_everything_over_real_sockets(tmp_path: Path) -> None:
    done = feednet("--items", "40", "--out", "run", command=[sys.executable], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "network   mininet" in done.stdout
    assert_complete(tmp_path / "run", items=40, subscribers=8)
    assert not (tmp_path / "run.partial").exists()


def test_peers_deliver_everything_over_real_tcp(tmp_path: Path) -> None:
    done = feednet(
        "--items", "10", "--layering", "ssb", "--out", "run", command=[sys.executable], cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run" / "ssb"
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    delivered = Counter(event["node"] for event in events if event["event"] == "delivered")
    assert delivered == {f"s{number}": 10 for number in range(1, 9)}
    secrets = from_lines((run / "keys.log").read_bytes())
    assert {secret.label for secret in secrets} == {CLIENT_SECRET, SERVER_SECRET}
    assert len({secret.identifier for secret in secrets}) == 8


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other tests run rootless already")
def test_it_runs_without_root_too(tmp_path: Path) -> None:
    python = nobody.interpreter()
    if python is None:
        pytest.skip("nobody may not run a Python that finds this project")
    with TemporaryDirectory() as directory:  # pytest's own are root's alone
        shutil.chown(directory, nobody.NOBODY, nobody.NOBODY)
        arguments = ["--items", "10", "--layering", "lli", "--out", "run"]
        done = feednet(*arguments, command=[*nobody.AS_NOBODY, python], cwd=Path(directory))
        assert done.returncode == 0, done.stderr
        assert_complete(Path(directory) / "run", items=10, subscribers=8)


EVENTS = (
    SETTLE
    + """
title = "A star whose links break and whose nodes start anew"
layerings = ["lli"]
[topology]
generator = "star"
leaves = 2
[topology.link]
delay_ms = 5.0
[workload]
items = 40
[workload.schedule]
speed = 1e6
idle_limit_ms = 60.0
[[events]]
at_copy = 5
link_down = "r1 s1"
[[events]]
at_copy = 15
link_up = "r1 s1"
[[events]]
at_ms = 1200
restart = "r1"
[[events]]
at_ms = 1400
restart = "s2"
"""
)


def at_dilation(dilation: int, cwd: Path, scenario: str) -> Path:
    """A run in slower time, in a directory of its own; it settles for as long by the machine's clock."""
    scenario = scenario.replace(SETTLE, f"settle_ms = {10_000 // dilation}\n")
    words = ["--dilation", str(dilation), "--out", f"run-{dilation}"]
    done = feednet(*words, command=[sys.executable], cwd=cwd, scenario=scenario)
    assert done.returncode == 0, done.stderr
    return cwd / f"run-{dilation}"


def test_links_break_and_nodes_start_anew_over_real_sockets(tmp_path: Path) -> None:
    holds_in_slower_time(
        lambda dilation: arrivals_over_a_broken_link(at_dilation(dilation, tmp_path, EVENTS))
    )


def arrivals_over_a_broken_link(directory: Path) -> list[int]:
    assert_complete(directory, items=40, subscribers=2)
    run = directory / "lli"
    assert {path.name for path in run.iterdir()} == {"capture.pcapng", "events.jsonl", "counters.jsonl"}
    rows = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    changes = [
        (row["event"], row["node"]) for row in rows if row["event"] in ("link-down", "link-up", "restart")
    ]
    restarts = [("restart", "r1"), ("restart", "s2")]
    assert sorted(changes) == [("link-down", "r1--s1"), ("link-up", "r1--s1"), *restarts]
    down, up = (row["time"] for row in rows if row["event"] in ("link-down", "link-up"))
    for item, change in ((5, down), (15, up)):
        had = [row["time"] for row in rows if (row["event"], row["seq"]) == ("delivered", item)]
        assert min(had) <= change
    manifest = json.loads((directory / "manifest.json").read_text())
    told = {row["event"]: row for row in manifest["timeline"] if row.get("layering") == "lli"}
    assert [told[event]["link"] for event in ("link-down", "link-up")] == ["r1--s1", "r1--s1"]
    assert told["link-down"]["time_ns"] == down - manifest["runs"]["lli"]["start_ns"]
    late = 50_000_000  # the one who breaks the link wakes up late
    arrived = [
        packet.time
        for packet in pcapng_oracle.read(run / "capture.pcapng")
        if packet.interface.name == "s1-eth0" and packet.direction is Direction.IN
    ]
    assert [row["event"] for row in rows if row["node"] == "s2"].count("joined") == 2
    return [time for time in arrived if down + late < time < up]


STOPS = """
title = "A detour, packed into few processes: a node stops and starts, a link changes, routes follow"
layerings = ["lli", "append-poll"]
publisher = "a"
subscribers = ["d"]
hosts = "packed"
settle_ms = 2500
drain_ms = 200
[topology]
links = [
    { a = "a", b = "b" },
    { a = "b", b = "d" },
    { a = "a", b = "c", delay_ms = 15.0 },
    { a = "c", b = "d", delay_ms = 15.0 },
]
[topology.link]
delay_ms = 5.0
[routing]
paths = "shortest"
converge_ms = 100.0
[workload]
items = 30
[workload.schedule]
speed = 1e6
idle_limit_ms = 60.0
[parameters.append-poll]
interval_ms = 100
[[events]]
at_ms = 800
stop = "b"
[[events]]
at_ms = 1200
link_down = "b d"
signalled = false
[[events]]
at_ms = 1400
start = "b"
[[events]]
at_ms = 1500
link_change = "c d"
set = { delay_ms = 1.0 }
"""


def test_packed_nodes_stop_and_start_and_routes_follow(tmp_path: Path) -> None:
    holds_in_slower_time(lambda dilation: sent_by_a_stopped_node(at_dilation(dilation, tmp_path, STOPS)))


def sent_by_a_stopped_node(directory: Path) -> list[int]:
    sent: list[int] = []
    manifest = json.loads((directory / "manifest.json").read_text())
    for layering in ("lli", "append-poll"):
        run = directory / layering
        turn = manifest["runs"][layering]
        assert turn["processes"] == min(os.cpu_count() or 1, 4)
        assert len(turn["cpu_ns"]) == turn["processes"]
        assert min(turn["cpu_ns"].values()) > 0
        rows = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        happened = [row["event"] for row in rows if row["node"] in ("b", "b--d", "c--d")]
        assert happened == ["stop", "link-down", "start", "link-change"]
        delivered = [row["seq"] for row in rows if row["event"] == "delivered"]
        assert sorted(delivered) == list(range(1, 31)), "by the detour, as routes follow"
        frames = [
            (packet.time, packet.interface.name)
            for packet in pcapng_oracle.read(run / "capture.pcapng")
            if packet.direction is Direction.OUT
        ]
        assert {"a-eth1", "c-eth1"} <= {name for _, name in frames}
        if layering == "lli":  # the kernel forwards IP, and answers, while nothing runs on b
            times = {row["event"]: row["time"] for row in rows if row["node"] == "b"}
            late = 100_000_000
            at_b = [time for time, name in frames if name == "b-eth0"]
            sent += [time for time in at_b if times["stop"] + late < time < times["start"]]
    return sent


def test_a_failure_inside_is_one_line_and_keeps_what_there_is(tmp_path: Path) -> None:
    if sandbox.has_netem():
        pytest.skip("netem is here, so asking for it does not fail")
    arguments = ["--items", "5", "--impairment", "netem", "--out", "run"]
    done = feednet(*arguments, command=[sys.executable], cwd=tmp_path)
    assert done.returncode == 1
    assert "netem" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
