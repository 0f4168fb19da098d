"""Programs that are not ours on the nodes of runs over Mininet, and scripts there."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import FEEDNET, Feednet, wait_for

from analysis.run.manifest import Run
from feednet import Experiment, UserError, delivered, everything_delivered
from testbed.experiment.control import ControlServer, command_on, connect_to_run
from topologies.generate import star
from topologies.mininet import sandbox

PROGRAMS = Path(__file__).parents[1] / "interop" / "python_ndn"
SHORT = {"items": 20, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}
SLOW = SHORT | {"schedule": {"speed": 1e6, "idle_limit_ms": 400.0}}
"""A script acts between two items, on a busy machine, too."""
WHY_NOT = sandbox.why_not()
NEEDS_MININET = pytest.mark.skipif(WHY_NOT is not None, reason=f"Mininet cannot run here: {WHY_NOT}")

HELD = f"""
title = "held"
layerings = ["lli"]
settle_ms = 0
drain_ms = 0
[topology]
generator = "star"
leaves = 2
[topology.link]
delay_ms = 5.0
[workload]
items = 3
[[programs]]
node = "s1"
run = ["{sys.executable}", "{PROGRAMS / "producer.py"}"]
prefixes = ["/example"]
[[programs]]
node = "pub"
run = "sh -c 'echo $FEEDNET_NODE; exit 4'"
"""


def on_node(*words: object, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [FEEDNET, "exec", *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False
    )


def bare(cwd: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    """Call `feednet exec run` by its path, where no other feednet is found."""
    path = os.pathsep.join(
        each for each in os.environ["PATH"].split(os.pathsep) if not Path(each, "feednet").exists()
    )
    return subprocess.run(
        [FEEDNET, "exec", "run", *map(str, words)],
        cwd=cwd,
        env=os.environ | {"PATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.mininet
@NEEDS_MININET
def test_programs_find_the_forwarder_of_their_node_while_a_run_is_held(tmp_path: Path) -> None:
    (tmp_path / "held.toml").write_text(HELD)
    command = ["run", "held.toml", "--net", "mininet", "--hold", "--no-report", "--out", "run"]
    with Feednet(*command, cwd=tmp_path) as held:
        programs = tmp_path / "run.partial" / "lli" / "programs"
        wait_for((programs / "pub-2.txt").exists, "programs that run")
        consumer = f"{sys.executable} {PROGRAMS / 'consumer.py'}; ls /sys/class/net; pwd; exit 7"
        got = on_node("run", "s2", "--", "sh", "-c", consumer, cwd=tmp_path)
        assert "b'Hello, world!'" in got.stdout, got.stderr
        assert (got.returncode, got.stdout.split()[-3:]) == (7, ["lo", "s2-eth0", str(tmp_path)])
        shell = subprocess.run(
            [FEEDNET, "shell", "run", "s2"],
            cwd=tmp_path,
            input="echo $HOME; pwd; exit 3\n",
            capture_output=True,
            text=True,
            check=False,
        )
        home, here = shell.stdout.split()
        assert (shell.returncode, home) == (3, here)
        faces = json.loads(bare(tmp_path, "r1", "feednet", "status", "--json").stdout)["faces"]
        links = {(face["remote"], face["local"]) for face in faces if face["remote"].startswith("udp4")}
        assert links == {
            (f"udp4://10.0.0.{far}:6363", f"udp4://10.0.0.{near}:6363")
            for near, far in ((2, 1), (5, 6), (9, 10))
        }
        told = bare(tmp_path, "r1", "feednet", "status").stdout
        for address, name in ((1, "pub"), (6, "s1"), (10, "s2")):
            assert f"udp4://10.0.0.{address}:6363 ({name})" in told
        with connect_to_run(tmp_path / "run") as client:
            with pytest.raises(UserError, match="zz: there is no such node; there are pub, r1, s1, s2"):
                command_on(client, "zz", ["ls"])
            with pytest.raises(UserError, match="nobody knows"):
                client.ask("why")
            # Before its own end, Ctrl-C would interrupt the run.
            end_ns = Experiment.load(str(tmp_path / "held.toml")).duration_s * 1e9
            wait_for(lambda: client.ask("state")["time_ns"] > end_ns, "the run is held")
        held.press_ctrl_c()
        status, said, complained = held.ended()
    assert (status, complained) == (0, "")
    assert "feednet shell run NODE" in said
    assert (tmp_path / "run" / "lli" / "programs" / "pub-2.txt").read_text() == "pub\n"
    turn = Run(tmp_path / "run").manifest.runs["lli"]
    assert [(each.node, each.status) for each in turn.programs] == [("s1", None), ("pub", 4)]
    with pytest.raises(UserError, match=f"{tmp_path}/run: the run has ended; "):
        connect_to_run(tmp_path / "run")


@pytest.mark.mininet
@NEEDS_MININET
def test_scripts_wait_for_real_nodes_and_change_their_network(tmp_path: Path) -> None:
    seen = {}

    def script(run):
        run.wait(delivered("s1", 4))
        run.link_down("r1", "s1")
        seen["behind"] = run.wait(delivered("s2", 12)).delivered("s1")
        run.link_up("r1", "s1")
        run.restart("r1")
        with pytest.raises(UserError, match="pub runs"):
            run.start("pub")
        words, environment = run.command("s2", ["ip", "-br", "address", "show", "s2-eth0"])
        seen["address"] = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        run.wait(everything_delivered)
        run.finish()

    experiment = Experiment(
        topology=star(2, delay_ms=5.0), layerings=["lli"], workload=SLOW, settle_ms=600_000
    )
    results = experiment.run(tmp_path / "run", net="mininet", script=script)
    assert 4 <= seen["behind"] < 12
    assert "10.0.0.10/30" in seen["address"].stdout
    happened = [(row.event, row.place) for row in results.manifest.timeline]
    assert happened == [("link-down", "r1--s1"), ("link-up", "r1--s1"), ("restart", "r1")]
    events = results.events("lli")
    for node in ("s1", "s2"):
        got = events[(events.event == "delivered") & (events.node == node)]
        assert [*got.seq] == [*range(1, 21)]
    assert not (tmp_path / "run" / "lli" / "control").exists()


@pytest.mark.mininet
@NEEDS_MININET
def test_a_script_that_fails_ends_the_run(tmp_path: Path) -> None:
    def script(run):
        raise ValueError("mine")

    experiment = Experiment(topology=star(1), layerings=["lli"], workload=SHORT)
    with pytest.raises(ValueError, match="mine"):
        experiment.run(tmp_path / "run", net="mininet", script=script)
    assert not [*tmp_path.iterdir()]


def test_who_has_ended_or_was_never_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path}/no: there is no such run"):
        connect_to_run(tmp_path / "no")
    place = tmp_path / "run.partial" / "lli"
    place.mkdir(parents=True)
    with pytest.raises(UserError, match="run: no nodes can be entered: it has ended, is not up yet, or"):
        connect_to_run(tmp_path / "run")
    if (child := os.fork()) == 0:
        ControlServer(place)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (place / "control").exists()
    with pytest.raises(UserError, match="no nodes can be entered"):
        connect_to_run(tmp_path / "run.partial")
