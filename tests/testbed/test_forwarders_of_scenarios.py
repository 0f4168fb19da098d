"""Scenarios bound what forwarders hold, change their strategies, and replace what files say of links."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from feednet import Experiment, UserError, delivered
from forwarder.wire.name import from_uri
from testbed.cli.main import feednet
from testbed.experiment.control import connect_to_run
from testbed.experiment.emulated_run import Emulation
from testbed.scenario import workload
from testbed.scenario.reader import load
from topologies.generate import star
from topologies.mininet import sandbox

SCENARIO = """
title = "bounds"
layerings = ["poll", "lli"]
settle_ms = 4000
[topology]
links = [{ a = "pub", b = "r1" }, { a = "r1", b = "s1" }, { a = "r1", b = "s2" }]
[topology.link]
delay_ms = 5.0
[workload]
items = 20
schedule = { speed = 1e6, idle_limit_ms = 50.0 }
[forwarders]
cs_packets = 3
cs_policy = "priority_fifo"
pit_entries = 2
feeds = 7
feed_items = 5
feed_bytes = 9000
feeds_bytes = 20000
[[events]]
at_ms = 900
strategy = "asf/max-timeouts~2"
prefix = "/ssb"
on = "r1 s1"
[[events]]
at_ms = 1000
strategy = "multicast"
[[events]]
at_ms = 1100
restart = "r1"
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "bounds.toml").write_text(SCENARIO)
    return str(tmp_path / "bounds.toml")


def chosen(emulation: Emulation, node: str) -> dict[str, str]:
    known = dict(emulation.nodes[node].host.forwarder.strategies.items())
    names = {"root": b"", "ssb": from_uri("/ssb")}
    return {name: known[prefix].NAME for name, prefix in names.items() if prefix in known}


def test_every_forwarder_has_these_bounds(path: str) -> None:
    scenario = load(path)
    for layering in scenario.layerings:
        for node in Emulation(scenario, layering, workload.load(scenario)).nodes.values():
            forwarder = node.host.forwarder
            assert (forwarder.cs.capacity, forwarder.cs.policy, forwarder.pit_capacity) == (
                3,
                "priority_fifo",
                2,
            )
            if forwarder.feeds is not None:
                store = forwarder.feeds.store
                bounds = store.max_feeds, store.max_items, store.max_bytes, store.max_total_bytes
                assert bounds == (7, 5, 9000, 20000)


def test_strategies_change_when_it_is_time_and_outlast_a_restart(path: str) -> None:
    scenario = load(path)
    emulation = Emulation(scenario, "poll", workload.load(scenario))
    seen = []
    for time_ms in (899, 901, 1001, 1101):
        emulation.run(time_ms * 1_000_000)
        seen.append([chosen(emulation, node) for node in ("pub", "r1", "s1", "s2")])
    usual, asf = {"root": "best-route"}, {"root": "best-route", "ssb": "asf"}
    other, both = {"root": "multicast"}, {"root": "multicast", "ssb": "asf"}
    assert seen == [
        [usual] * 4,
        [usual, asf, asf, usual],
        [other, both, both, other],
        [other, both, both, other],
    ]


def test_a_run_within_bounds_is_measured_as_it_was(path: str, tmp_path: Path) -> None:
    """The PITs that are told from packets are those that forwarders had, refusals and all."""
    results = Experiment(path).run(tmp_path / "run", net="emulated")
    rows = [json.loads(line) for line in (tmp_path / "run/poll/counters.jsonl").read_text().splitlines()]
    assert max(row["pit_full"] for row in rows) > 0
    assert max(row["state"]["pit"]["entries"] for row in rows) == 2
    for row in results.analyze(engine="sail").arrow("pit_truth_summary").to_pylist():
        assert row["exact"] == row["samples"] > 0
    happened = [each.words for each in results.manifest.timeline]
    assert happened == ["strategy asf/max-timeouts~2 r1 s1", "strategy multicast", "restart r1"]


def test_it_is_described(path: str) -> None:
    said = CliRunner().invoke(feednet, ["describe", path]).output
    assert "0.90 s  from now on r1, s1 forward /ssb by asf/max-timeouts~2" in said
    assert "1.00 s  from now on all nodes forward / by multicast" in said


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"multicast"', '"fastest"', r"\[\[events\]\] number 2: strategy: there is no strategy 'fastest'"),
        ('"asf/max-timeouts~2"', '"asf/x~1"', "number 1: strategy: strategy asf has no parameter 'x'"),
        ('on = "r1 s1"', 'on = "r1 zz"', "number 1: on: 'zz' is not a node"),
        ('on = "r1 s1"', 'on = " "', "number 1: on must name a node"),
        ('prefix = "/ssb"', 'prefix = "/x=y=z"', "number 1: 'x=y=z': unknown component type 'x'"),
        ('restart = "r1"', 'restart = "r1"\non = "r1"', "number 3: on belongs to strategy"),
        ('strategy = "multicast"', 'strategy = "multicast"\nlink_up = "pub r1"', "number 2: give one of "),
        ("at_ms = 1000", "at_copy = 3", "number 2: at_copy belongs to link_down and link_up"),
        ("pit_entries = 2", "pit_entries = 0", r"forwarders\.pit_entries: must be at least 1"),
        ('"priority_fifo"', '"fifo"', r"forwarders\.cs_policy: must be 'lru' or 'priority_fifo'"),
    ],
)
def test_mistakes_are_one_line(path: str, old: str, new: str, complaint: str) -> None:
    assert old in SCENARIO
    Path(path).write_text(SCENARIO.replace(old, new))
    with pytest.raises(UserError, match=complaint) as error:
        load(path)
    assert "\n" not in str(error.value)


def test_a_report_names_what_replaces_a_file_s_links(tmp_path: Path) -> None:
    (tmp_path / "net.conf").write_text("[nodes]\nBern: _\nGva: _\n[links]\nBern:Gva delay=10ms loss=30\n")
    results = Experiment.load(
        "line", topology_file=str(tmp_path / "net.conf"), loss_percent=0.0, layerings=("poll",), items=3
    ).run(tmp_path / "run", net="emulated")
    page = results.analyze(engine="sail").report.read_text(encoding="utf-8")
    assert "loss of each link 0 %, in place of what net.conf says" in page


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"Mininet cannot run here: {sandbox.why_not()}")
def test_nodes_in_mininet_change_their_strategies(tmp_path: Path) -> None:
    seen = {}

    def script(run):
        run.wait(delivered("s1", 19))
        words, environment = run.command("r1", ["feednet", "status", "--json"])
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)["strategies"]
        seen.update({row["prefix"]: row["strategy"].split("/")[4] for row in told})
        with connect_to_run(tmp_path / "run") as client:
            client.ask("end")

    experiment = Experiment(
        topology=star(1, delay_ms=5.0),
        layerings=["poll"],
        workload={"items": 20, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
        events=[{"at_item": 10, "strategy": "multicast"}],
    )
    experiment.run(tmp_path / "run", net="mininet", script=script, is_held=True)
    assert seen["/"] == "multicast"
