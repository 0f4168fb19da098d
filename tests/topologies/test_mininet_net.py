import json
import os
import shutil
import statistics
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from networks_in_box import BINARY_TREE, DATAGRAMS, LOSSY, PINGS, SEED
from patience import PATIENCE_S

from topologies.generate import generate
from topologies.mininet import sandbox
from topologies.mininet.network import BringUpError, MininetNetwork, bridge_commands
from topologies.model import Link, Topology
from topologies.pipe import Pipe, netem, pipe_rng
from topologies.routing import routes

ROOT = Path(__file__).parents[2]
PROGRAMS = str(Path(__file__).with_name("networks_in_box.py"))
NOBODY = 65534

why_not = cache(sandbox.why_not)


@pytest.fixture
def needs_box():
    if reason := why_not():
        pytest.skip(reason)


def run(name, *arguments):
    """What a program of networks_in_box.py prints."""
    argv = sandbox.command([sys.executable, PROGRAMS, name, *arguments])
    return finished(argv, {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"})


def finished(argv, environment):
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def check_pings(found):
    """Never faster than the delays allow, and not much slower."""
    assert found["delay_ns"] == 20_000_000
    assert len(found["trips_ns"]) == PINGS
    assert min(found["trips_ns"]) >= 2 * found["delay_ns"]
    # What is late for want of a processor is late without a delay, too.
    waiting = 3 * statistics.median(found["undelayed_ns"])
    assert min(found["trips_ns"]) < 1.5 * 2 * found["delay_ns"] + waiting
    assert [pipe["sent"] for pipe in found["pipes"]] == [PINGS] * 4
    assert (found["under_way"], found["unread"]) == (0, 0)
    assert 0 < found["late_mean_us"] <= found["late_max_us"]


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_round_trips_take_the_links_delays():
    check_pings(run("ping"))


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_round_trips_without_root():
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    python, environment = interpreter_of(as_nobody)
    if python is None:
        pytest.skip("nobody may not run a Python that finds Mininet")
    outside = "import sys; from topologies.mininet import sandbox; sys.exit(sandbox.box(sys.argv[1:]))"
    check_pings(finished([*as_nobody, python, "-c", outside, python, PROGRAMS, "ping"], environment))


def interpreter_of(as_user):
    """A Python that a user may run and that finds Mininet and this project, and its environment."""
    mininet = Path(sys.modules["mininet"].__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{mininet}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for python in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        # In a user namespace of its own, as the box will be: what nobody inherits from root ends there.
        argv = [*as_user, "unshare", "--user", "--", str(python), "-c", "import mininet.net, topologies"]
        if subprocess.run(argv, capture_output=True, check=False, env=environment).returncode == 0:
            return python, environment
    return None, environment


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_the_relay_loses_the_frames_that_the_pipe_does():
    found = run("loss")
    for sender, arrived, counted in zip("ab", found["arrived"], found["pipes"], strict=True):
        pipe = Pipe(LOSSY, pipe_rng(SEED, LOSSY, sender))
        predicted = [number for number in range(DATAGRAMS) if pipe.send(number, bytes(60))]
        assert arrived == predicted
        assert 0 < len(predicted) < DATAGRAMS
        assert (counted["sent"], counted["lost"]) == (DATAGRAMS, DATAGRAMS - len(predicted))
    assert found["arrived"][0] != found["arrived"][1]


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
@pytest.mark.parametrize("impairment", ["relay", "netem"])
def test_a_tree_comes_up_as_modelled_and_leaves_nothing(impairment):
    runs = run("tree", impairment)
    interfaces = BINARY_TREE.link_ends
    assert len(runs) == 2
    for found in runs:
        assert found["clean"]
        assert found["namespaces"] == 1 + len(BINARY_TREE.nodes) + 1
        assert found["heard"] == {interface.name: [interface.peer_name] for interface in interfaces}
        for interface in interfaces:
            (own,) = [a for a in found["addresses"][interface.node] if a["ifname"] == interface.name]
            assert own["address"] == interface.mac.hex(":")
            assert own["operstate"] == "UP"
            # Not an IPv6 address among them.
            assert [(a["local"], a["prefixlen"]) for a in own["addr_info"]] == [(interface.ipv4, 30)]
        for node in BINARY_TREE.nodes:
            expected = ["lo", *(interface.name for interface in interfaces if interface.node == node)]
            assert [a["ifname"] for a in found["addresses"][node]] == expected
        assert found["mininet"] == [
            [a.name, a.ipv4, b.name, b.mac.hex(":")]
            for a, b in zip(interfaces[::2], interfaces[1::2], strict=True)
        ]
        if impairment == "relay":
            # The tests' own datagram through each, and no frame that the kernel sent by itself.
            assert [(p["interface"], p["sent"]) for p in found["counters"]["pipes"]] == [
                (interface.name, 1) for interface in interfaces
            ]
        else:
            assert found["counters"] is None


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_mininets_own_commands_run_on_hosts():
    found = run("host_commands")
    assert found["addresses"] == ["10.0.0.2/30", "10.0.0.5/30"]
    assert {"r1-eth0", "r1-eth1", "lo"} <= {*found["sys"]}
    assert found["popen"].startswith("r1-eth0@")
    assert found["shells"] == 1, "a shell for the host that was asked for one"
    assert found["left"] == 2


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_the_kernel_routes_as_routing_says():
    topology = generate("random", {"nodes": 25, "degree": 3.0}, {"delay_ms": 1.0})
    for node, devices in run("routes_of_a_network").items():
        expected = [
            "lo" if other == node else routes(topology, other)[node].out.name for other in topology.nodes
        ]
        assert devices == expected


@pytest.mark.slow
@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_a_large_network_comes_up_in_half_a_minute():
    found = run("large_network")
    assert found["heard"] == found["sent"]
    # Of processor time: others may have the processor.
    assert found["took"][1] < 30


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_round_trips_under_netem():
    if reason := sandbox.why_no_netem():
        pytest.skip(reason)
    found = run("netem")
    assert found["impairment"] == "netem"
    assert min(found["trips_ns"]) >= 2 * 9_500_000
    assert min(found["trips_ns"]) < 1.5 * 2 * 10_000_000  # others may have waited for the processor


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_failures_are_told_in_a_line_and_leave_nothing():
    found = run("failures")
    assert found["messages"] == [
        "the network cannot be brought up: [Errno 2] No such file or directory: '/nowhere/relay.json'",
        "the network cannot be brought up: the relay did not start: no output",
        "the relay failed during the run: no output",
        'ip link set dev x2 up: Cannot find device "x2" Command failed -:2',
        'ip nonsense: Object "nonsense" is unknown, try "ip help". Command failed -:1',
        "interface x0 has no carrier",
    ]
    assert found["clean"]


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_sigterm_ends_the_relay_and_it_reports():
    found = run("relay_terminated")
    assert (found["ready"], found["status"]) == ("ready\n", 0)
    assert found["lengths"] == [60]
    assert found["counters"]["under_way"] == 3
    nothing = {"sent": 0, "lost": 0, "queue_drops": 0, "unsent": 0, "cut": 0}
    assert found["counters"]["pipes"] == [
        {**nothing, "interface": "a-eth0", "to": "b-eth0", "sent": 4},
        {**nothing, "interface": "b-eth0", "to": "a-eth0"},
    ]


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_a_ring_hands_over_what_comes_in_and_counts_what_it_could_not_hold():
    found = run("ring_overflow")
    assert found["numbers"] == list(range(32))
    assert found["lengths"] == [1514]
    assert found["stamps_fit"]
    assert found["dropped"] == 8
    assert found["interfaces"] == ["x1"]
    # What the ring's own socket sends out at x1 comes in at x0, and does not count as come in at x1.
    assert found["later"] == [*(["x1", number] for number in range(100, 110)), ["x0", 0]]


@pytest.mark.parametrize(
    ("parameters", "settings"),
    [
        ({}, ""),
        ({"max_queue_size": 5}, ""),
        ({"delay_ms": 10}, "delay 10000.000us limit 1000000"),
        (
            {"delay_ms": 5, "jitter_ms": 1, "jitter_distribution": "pareto"},
            "delay 5000.000us 1000.000us distribution pareto limit 1000000",
        ),
        (
            {"loss_percent": 2, "loss_burst": 4},
            "loss gemodel 0.510204% 25.000000% limit 1000000",
        ),
        (
            {"loss_percent": 5, "loss_burst": 4, "loss_bad_percent": 45, "loss_good_percent": 5},
            "loss gemodel 0.000000% 25.000000% 45.000000% 5.000000% limit 1000000",
        ),
        ({"delay_ms": 0.0015, "jitter_ms": 1}, "delay 1.500us 1000.000us limit 1000000"),
        ({"jitter_ms": 2}, "delay 0.000us 2000.000us limit 1000000"),
        ({"loss_percent": 0.5}, "loss random 0.500000% limit 1000000"),
        ({"bw_mbit": 10}, "rate 10000000bit limit 100"),
        ({"bw_mbit": 0.5, "max_queue_size": 7}, "rate 500000bit limit 7"),
        # 100 Mbit/s for 12.112 ms: 151400 bytes, 100 full frames under way
        ({"bw_mbit": 100, "delay_ms": 12.112}, "delay 12112.000us rate 100000000bit limit 200"),
        (
            {"bw_mbit": 100, "delay_ms": 10, "jitter_ms": 2.112, "loss_percent": 1},
            "delay 10000.000us 2112.000us loss random 1.000000% rate 100000000bit limit 200",
        ),
    ],
)
def test_what_netem_is_told(parameters, settings):
    assert " ".join(netem(Link("a", "b", **parameters))) == settings


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_tc_understands_what_netem_is_told():
    settings = netem(
        Link(
            "a",
            "b",
            bw_mbit=10,
            delay_ms=0.1,
            loss_percent=5,
            loss_burst=3,
            loss_bad_percent=50,
            loss_good_percent=1,
            jitter_ms=0.01,
            jitter_distribution="paretonormal",
            max_queue_size=7,
        )
    )
    argv = sandbox.command(["tc", "qdisc", "add", "dev", "lo", "root", "netem", *settings])
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    # tc checks its arguments before the kernel says that it has no netem.
    assert done.stderr.strip() in ("", "Error: Specified qdisc kind is unknown.")


def test_what_joins_the_ends_of_a_link():
    assert bridge_commands("link0", "a-eth0", "b-eth1") == [
        "link add name link0 type bridge stp_state 0 mcast_snooping 0",
        "link set dev a-eth0 master link0",
        "link set dev b-eth1 master link0",
        "link set dev link0 up",
    ]


def test_the_impairment_is_chosen_by_what_the_kernel_has(monkeypatch, tmp_path):
    topology = Topology(("a", "b"), (Link("a", "b"),))

    def chosen(impairment):
        network = MininetNetwork(topology, SEED, impairment, directory=tmp_path)
        return network.impairment, network.reason

    monkeypatch.setattr(sandbox, "why_no_netem", lambda: None)
    assert chosen("auto") == ("netem", "this kernel has netem")
    assert chosen("netem") == ("netem", "asked for")
    assert chosen("relay") == ("relay", "asked for")
    monkeypatch.setattr(sandbox, "why_no_netem", lambda: "no netem here")
    assert chosen("auto") == ("relay", "no netem here")
    assert chosen("relay") == ("relay", "asked for")
    with pytest.raises(BringUpError) as error:
        chosen("netem")
    assert str(error.value) == "links cannot be impaired by netem: no netem here; choose the relay"


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_programs_reach_each_other_over_a_router():
    found = run("programs_over_tcp")
    assert found["failures"] == []
    assert found["is_whole"]
    assert found["kinds"][0] == "Opened"
    assert found["kinds"][-2:] == ["Ended", "Closed"]
    assert found["last"] == ""
    assert found["datagrams"] == [["hello", ["10.255.0.3", 7000]]]
    assert found["largest"] == 1514, "no offload is on: what is captured is what a link carries"
    assert found["ttls"] == [254, 255]


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_a_node_hears_a_group_on_each_of_its_media():
    found = run("one_group_on_two_media")
    assert found["failures"] == []
    assert found["heard"] == ["a", "a", "c", "c"]


@pytest.mark.mininet
@pytest.mark.usefixtures("needs_box")
def test_members_of_a_medium_hear_what_the_emulator_s_hear():
    found = run("datagrams_in_a_cell")
    assert found["failures"] == []
    for name in "abc":
        assert sorted(found["mininet"][name]) == sorted(found["emulated"][name])
    assert len(found["emulated"]["b"]) == 102
    assert 30 < len(found["emulated"]["c"]) < 90
