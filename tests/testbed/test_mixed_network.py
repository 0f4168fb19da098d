"""Networks in which some nodes run another forwarder: it is managed by NFD's protocol, and LLIs cross it."""

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import nfd_process
import pytest
from daemon_process import running
from processes import FEEDNET, Feednet, wait_for
from real_time import until_delivered

from base.sockets import free_port
from feednet import Experiment, Link, Topology, UserError
from forwarder.daemon.datasets import Client, snapshot
from forwarder.management.parameters import ControlParameters
from testbed.hosts import processes as beside
from testbed.hosts.context import build
from testbed.layerings.kinds.ndn import NDN_LAYERINGS
from testbed.layerings.nodes import other_forwarder
from testbed.layerings.nodes.node import Process
from testbed.layerings.nodes.other_forwarder import ForwarderNode, NotManaged
from testbed.scenario.timeline import Timeline
from topologies.mininet import sandbox
from topologies.routing import Routing

WHY_NOT = sandbox.why_not()
DIAMOND = Topology(
    ("pub", "r1", "r2", "s1"),
    (
        Link("pub", "r2", delay_ms=5.0),
        Link("r2", "s1", delay_ms=5.0),
        Link("pub", "r1", delay_ms=20.0),
        Link("r1", "r2", delay_ms=20.0),
    ),
)
SHORT = {"items": 20, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}


def mixed(forwarder: str = "feednetd", node: str = "r2", **keys: object) -> Experiment:
    given = {"layerings": ["lli"], "publisher": "pub", "subscribers": ["s1"], "workload": SHORT, **keys}
    return Experiment(topology=DIAMOND, **given).node(node, forwarder=forwarder)


def test_faces_routes_and_strategies_are_set_and_follow_the_network(tmp_path: Path) -> None:
    """On a daemon of this machine: its faces lead to addresses of loopback at which nobody listens."""
    made = mixed(layerings=["sync"])
    timeline = Timeline.of(made.scenario, made.workload, 0)
    node = build(made.scenario, "sync", "r2", made.workload, timeline)
    assert isinstance(node, ForwarderNode)
    assert node.programs == []
    ends = {
        peer: replace(end, peer_ipv4=f"127.0.0.{number}")
        for number, (peer, end) in enumerate(node._ends.items(), start=7)
    }
    node._ends = ends
    assert node.routes() == {}
    with running(tmp_path) as daemon, closing(Client(daemon.path)) as client:
        node.manage(daemon.path)
        told = snapshot(client)
        faces = {face["remote"]: face["face"] for face in told["faces"]}
        numbers = {peer: faces[f"udp4://{end.peer_ipv4}:6363"] for peer, end in ends.items()}
        assert sorted(numbers) == ["pub", "r1", "s1"]

        def hops() -> dict[str, set[int]]:
            fib = snapshot(client)["fib"]
            return {row["prefix"]: {hop["face"] for hop in row["hops"]} for row in fib}

        (feed,) = (prefix for prefix in node.routes() if "/logs/" in prefix and "32=" not in prefix)
        first = hops()[feed]
        assert numbers["pub"] in first
        group = next(prefix for prefix in node.routes() if "32=" in prefix)
        chosen = {row["prefix"]: row["strategy"] for row in told["strategies"]}
        assert "multicast" in chosen[group]
        # The link to the publisher breaks: the detour leads to it.
        node.reroute(DIAMOND, replace_down(0))
        assert hops()[feed] == {numbers["r1"]}
        node.reroute(DIAMOND, Routing())
        assert hops()[feed] == first
        again = ForwarderNode(node._twin._context, node._twin._layering)
        again._ends = ends
        again.manage(daemon.path)  # faces are there already
        assert again._faces == numbers
        refused = client.command("rib/register", ControlParameters(face=numbers["pub"]))
        assert refused.code == 400


def test_why_a_program_has_ended_is_told_in_its_words(tmp_path: Path) -> None:
    """NFD prints its errors as Boost does."""
    said = "echo FATAL; echo 'std::exception::what: bind: Address already in use'; exit 1"
    process = Process(("sh", "-c", said), {}, ready=("127.0.0.1", free_port()))
    with (
        pytest.raises(
            beside.ProcessEnded, match=r"^sh has ended with status 1: bind: Address already in use$"
        ),
        beside.running([process], tmp_path),
    ):
        pass


def replace_down(link: int) -> Routing:
    return Routing()._replace(down=frozenset({link}))


@contextmanager
def beginning(path: Path, daemon: Path) -> Iterator[list[bytes]]:
    """A way to a daemon that begins as NFD does: its Unix socket is late, and the management of its routes
    later still, so that the first Interest gets no answer. Yields all that has been asked."""
    came: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def pass_on(source: socket.socket, target: socket.socket, is_asking: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_asking:
                    came.append(data)
                if not is_asking or len(came) > 1:
                    target.sendall(data)
        target.close()

    def serve() -> None:
        time.sleep(0.1)
        listener.bind(str(path))
        listener.listen()
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                behind = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                behind.connect(str(daemon))
                for way in ((client, behind, True), (behind, client, False)):
                    threading.Thread(target=pass_on, args=way, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield came
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_a_forwarder_is_managed_as_soon_as_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_forwarder, "_ASK_S", 0.1)
    made = mixed(layerings=["poll"])
    timeline = Timeline.of(made.scenario, made.workload, 0)
    node = build(made.scenario, "poll", "r2", made.workload, timeline)
    assert isinstance(node, ForwarderNode)
    node._ends = {}

    def ended() -> None:
        raise EOFError

    with running(tmp_path) as daemon, beginning(tmp_path / "late.sock", daemon.path) as came:
        with pytest.raises(EOFError):
            node.manage(tmp_path / "late.sock", ended)
        node._twin.routes = dict  # type: ignore[method-assign]
        node.manage(tmp_path / "late.sock")
        assert b"list" in came[0]
        assert b"list" in came[1]
        node._faces = {"s1": 1 << 20}
        with pytest.raises(
            NotManaged, match=r"its forwarder refuses rib/register: 410 there is no face 1048576"
        ):
            node._route("rib/register", "/x", "s1", 1)
    with pytest.raises(NotManaged, match="has closed the connection"):
        node._route("rib/register", "/x", "s1", 1)


MININET = [
    pytest.mark.mininet,
    pytest.mark.skipif(WHY_NOT is not None, reason=f"Mininet cannot run here: {WHY_NOT}"),
]
WITH_NFD = pytest.mark.skipif(nfd_process.WHY_NOT is not None, reason=str(nfd_process.WHY_NOT))
FORWARDERS = [
    pytest.param("feednetd", marks=MININET),
    pytest.param("nfd", marks=[*MININET, WITH_NFD]),
]


@pytest.mark.parametrize("forwarder", FORWARDERS)
def test_llis_cross_another_forwarder(tmp_path: Path, forwarder: str) -> None:
    """The first of them, too: the run begins when the forwarder has its routes."""
    results = mixed(forwarder, settle_ms=600_000).run(tmp_path / "run", net="mininet", script=until_delivered)
    events = results.events("lli")
    assert [*events[events.event == "delivered"].seq] == [*range(1, 21)]
    sampled = Counter(
        line.partition('"node":"')[2].partition('"')[0]
        for line in (results.directory / "lli" / "counters.jsonl").read_text().splitlines()
    )
    assert sampled["r1"] > 0
    assert sampled["r2"] > 0
    packets = subprocess.run(
        [FEEDNET, "dissect", results.directory / "lli" / "capture.pcapng", "--filter", "ndn.type == Nack"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "NoRoute" not in packets.stdout


@pytest.mark.slow
@pytest.mark.parametrize("forwarder", FORWARDERS)
@pytest.mark.parametrize("layering", NDN_LAYERINGS)
def test_every_layering_crosses_another_forwarder(tmp_path: Path, layering: str, forwarder: str) -> None:
    results = mixed(forwarder, layerings=[layering], settle_ms=600_000).run(
        tmp_path / "run", net="mininet", script=until_delivered
    )
    events = results.events(layering)
    assert sorted(events[events.event == "delivered"].seq) == [*range(1, 21)]


@pytest.mark.parametrize("forwarder", FORWARDERS)
def test_a_run_ends_with_a_forwarder_that_dies(tmp_path: Path, forwarder: str) -> None:
    """At once, in a line that names it, and nothing goes on."""
    (tmp_path / "s.toml").write_text(LONG.format(forwarder=forwarder), encoding="utf-8")
    with Feednet("run", "s.toml", "--net", "mininet", "--no-report", "--out", "out", cwd=tmp_path) as run:

        def begun() -> list[int]:
            there = (tmp_path / "out.partial" / "lli" / "capture.pcapng").exists()
            named = ("nfd --config", "forward --config")
            return [pid for pid, what in run.others().items() if any(name in what for name in named)][:there]

        wait_for(begun, forwarder)
        time.sleep(3)  # it may still begin
        os.kill(begun()[0], signal.SIGKILL)
        status, _, complained = run.ended()
        assert status == 1
        assert re.search(r"lli over Mininet: node r2: \S+ has ended with status -9: ", complained), complained
        assert "Traceback" not in complained
        wait_for(lambda: not run.others(), "the end of all")


LONG = """
title = "long"
layerings = ["lli"]
publisher = "pub"
subscribers = ["s1"]
settle_ms = 600000
[topology]
links = [{{ a = "pub", b = "r2" }}, {{ a = "r2", b = "s1" }}]
[workload]
items = 5
[nodes.r2]
forwarder = "{forwarder}"
"""


def test_what_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"nodes.r2.forwarder: feednetd runs in real time, in Mininet only"):
        mixed().run(tmp_path / "run", net="emulated")
    with pytest.raises(UserError, match=r"nodes.s1.forwarder: 's1' is a subscriber, and nfd only forwards"):
        assert mixed("nfd", "s1").scenario
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"nfd is not on PATH; see https://"):
        other_forwarder.check("nfd")
    assert not [*tmp_path.iterdir()]
