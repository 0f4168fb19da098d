"""Experiments from Python: made, run with scripts, and their tables; the worked examples."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.run.manifest import Run
from feednet import Experiment, NotYet, Results, UserError, delivered, everything_delivered, has_route
from topologies.generate import star
from topologies.library import build
from topologies.model import Link, Medium, Topology

ROOT = Path(__file__).parents[2]
SHORT = {"items": 20, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}


def small(**keys):
    return Experiment(topology=star(2, delay_ms=5.0), **({"layerings": ["lli"], "workload": SHORT} | keys))


def test_the_worked_example(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "examples" / "experiment.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^delivered  .* items +180\.0 +180\.0$", done.stdout, re.MULTILINE)
    assert [path.name for path in (tmp_path / "runs").iterdir()]


def test_the_example_for_pytest(tmp_path):
    example = runpy.run_path(str(ROOT / "docs" / "examples" / "test_news.py"))
    (test,) = (value for name, value in example.items() if name.startswith("test_"))
    test(tmp_path)


def test_scripts_wait_and_change_the_network(tmp_path):
    seen = {}

    def script(run):
        seen["routes"] = run.wait(has_route("r1", "/ssb/sha256")).routes("r1", "/ssb/sha256")
        run.wait(delivered("s1", 4))
        run.link_down("r1", "s1")
        behind = run.wait(delivered("s2", 10))
        seen["behind"] = behind.delivered("s1")
        seen["held"] = behind.nodes["r1"].held["llis"]["entries"]
        run.change_link("r1", "s1", delay_ms=40.0)
        run.link_up("r1", "s1")
        run.restart("r1")
        run.stop("s2")
        assert "s2" not in run.state().nodes
        with pytest.raises(UserError, match="s2 has stopped"):
            run.restart("s2")
        with pytest.raises(UserError, match="pub runs"):
            run.start("pub")
        run.start("s2")
        seen["all"] = run.wait(everything_delivered, within_s=5).time_s
        run.sleep(0.1)
        assert run.time_s == pytest.approx(seen["all"] + 0.1)

    results = small(settle_ms=5000).run(tmp_path / "run", net="emulated", script=script)
    assert [*seen["routes"]] == ["pub"]
    assert 4 <= seen["behind"] < 10
    assert seen["held"] == 1
    happened = [(row.event, row.place) for row in results.manifest.timeline]
    assert happened == [
        ("link-down", "r1--s1"),
        ("link-change", "r1--s1"),
        ("link-up", "r1--s1"),
        ("restart", "r1"),
        ("stop", "s2"),
        ("start", "s2"),
    ]
    events = results.events("lli")
    got = events[(events.event == "delivered") & (events.node == "s1")]
    assert [*got.seq] == [*range(1, 21)]
    assert got.time.max() <= seen["all"] * 1e9


def test_a_script_ends_a_run_once_nothing_more_is_to_happen(tmp_path):
    ended = []

    def script(run):
        with pytest.raises(UserError, match=r"finish: the scenario goes on until 0\.678 s; wait for that"):
            run.finish()
        run.wait(everything_delivered)
        run.sleep(1)
        run.finish()
        ended.append(run.time_s)

    results = small(settle_ms=600_000).run(tmp_path / "run", net="emulated", script=script)
    turn = results.manifest.runs["lli"]
    assert turn.stop_ns == turn.end_ns == round(ended[0] * 1e9) < 5e9
    assert results.comparison().lli["delivered_share"] == 100


def test_a_script_without_effect_leaves_the_run_as_it_is(tmp_path):
    small().run(tmp_path / "one", net="emulated")
    small().run(tmp_path / "two", net="emulated", script=lambda run: run.wait(everything_delivered))
    one, two = (Run(tmp_path / name).manifest.files for name in ("one", "two"))
    assert one == two


def test_what_does_not_come_true_says_how_far_it_was(tmp_path):
    with pytest.raises(NotYet) as error:
        small().run(
            tmp_path / "run",
            net="emulated",
            script=lambda run: run.wait(delivered("s1", 99)),
        )
    assert str(error.value) == "lli, 3.678 s: not yet: s1 has 99 items (everything is delivered)"
    with pytest.raises(NotYet, match=r"not yet: everything delivered \(s1 has 15 of 20 items, and 1 more"):
        small().run(
            tmp_path / "run",
            net="emulated",
            script=lambda run: run.wait(everything_delivered, within_s=0.001),
        )
    with pytest.raises(UserError, match="link_down: no link joins s1 and s2"):
        small().run(tmp_path / "run", net="emulated", script=lambda run: run.link_down("s1", "s2"))
    assert not [*tmp_path.iterdir()]


def test_experiments_are_scenarios():
    made = (
        Experiment("line", topology=build("abilene"), subscribers=3, layerings=["lli"], workload={"items": 9})
        .at(800, link_down="seattle sunnyvale")
        .node("denver", gateway="houston")
    )
    with pytest.raises(UserError, match="denver"):
        assert made.scenario
    made = Experiment("line", layerings=["poll"], workload={"items": 9}).at(at_item=3, restart="r1")
    assert made.scenario.name == "line"
    assert made.scenario.workload.schedule.speed == 1_500_000
    assert made.scenario.events[0].at_item == 3
    assert made.workload.items == 9
    before = made.scenario
    assert len(made.at(900, restart="r2").scenario.events) == 2
    assert len(before.events) == 1
    with pytest.raises(UserError, match=r"testbed/scenario/files/line.toml: colour: .*there are"):
        assert Experiment("line", colour="red").scenario
    with pytest.raises(UserError, match="no such scenario"):
        Experiment("nowhere")


def test_a_topology_stays_as_it_is():
    links = (Link("b", "a", delay_ms=3.0, cost=2.0), Link("c", "a", loss_percent=1.0))
    said = {"a": {"radius": "1.5", "angle": "0.3"}}
    network = Topology(("c", "b", "a", "d"), links, (Medium("m", ("a", "b"), loss_percent=2.0),), (), said)
    made = Experiment(topology=network, layerings=["ssb"], workload=SHORT, publisher="a", subscribers=["c"])
    assert made.scenario.network == network
    assert made.scenario.network.attributes == said
    assert build("geant") == Experiment(topology=build("geant"), layerings=["lli"]).scenario.network


def test_tables(tmp_path):
    results = small().run(tmp_path / "run", net="emulated")
    comparison = results.comparison()
    assert comparison.loc["delivered", "lli"] == 40
    assert results.arrow("latency").num_rows == len(results.pandas("latency")) == 40
    assert "transits" in results.tables
    assert results.report.is_file()
    with pytest.raises(UserError, match="there is no table 'x'; there are authors, "):
        results.arrow("x")
    with pytest.raises(UserError, match="layering 'poll' has not run; there are lli"):
        results.events("poll")
    with pytest.raises(UserError, match="not a run directory"):
        Results(tmp_path)


def test_all_tables_of_a_run_without_ndn(tmp_path):
    results = small(layerings=["ssb"]).run(tmp_path / "run", net="emulated").analyze(all_tables=True)
    assert {*results.arrow("ssb")["kind"].to_pylist()} >= {"handshake", "note", "data"}
    assert results.arrow("events").num_rows > 0


def test_programs_and_holding_need_mininet(tmp_path):
    with pytest.raises(UserError, match=r"sleep 9 runs in real time, in Mininet only; asked for"):
        small().program("s1", "sleep 9").run(tmp_path / "run", net="emulated")
    with pytest.raises(UserError, match=r"--dilation 8: for Mininet only"):
        small().run(tmp_path / "run", net="emulated", dilation=8)
    with pytest.raises(UserError, match=r"--dilation 0: a whole number from 1 to 1000"):
        small().run(tmp_path / "run", net="mininet", dilation=0)
    with pytest.raises(UserError, match="number 1: 'zz' is not a node"):
        assert small().program("zz", "sleep 9").scenario
    with pytest.raises(UserError, match=r"--hold: emulated nodes are not there to be entered; asked for"):
        small().run(tmp_path / "run", net="emulated", is_held=True)
