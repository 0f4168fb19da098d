"""Runs of people over SSB-aware forwarders: who gets what, and that nobody else does."""

from collections import Counter, defaultdict
from typing import Any

import pytest
from simulation import load_of

from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_data
from ssb.graph import Graph
from ssb.message import Message
from ssb_over_ndn.naming import log_key
from testbed.experiment.emulated_run import Emulation
from testbed.layerings.kinds.social import SOCIAL_LAYERINGS, SocialNode
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load

HOPS = 2


def people(**graph: Any) -> Scenario:
    """Return `social`, shorter, and with other numbers of its graph."""
    table = load("social", items=24).model_dump(exclude_unset=True)
    table["workload"]["graph"] |= graph
    table |= {"name": "people", "layerings": tuple(SOCIAL_LAYERINGS), "settle_ms": 4000}
    return Scenario.model_validate({**table, "sessions": None, "parameters": {}})


class Watched:
    """A run, and what has come to each of its nodes: messages by node and author."""

    def __init__(self, scenario: Scenario, layering: str) -> None:
        self.load = load_of(scenario)
        emulation = Emulation(scenario, layering, self.load, capture=None)
        self.came: Counter[tuple[str, str]] = Counter()
        for node in emulation.nodes.values():
            assert isinstance(node, SocialNode)
            self._watch(node)
        emulation.run(emulation.timeline.end)
        self.nodes = emulation.nodes
        self._graphs: dict[str, set[str]] = {}
        self.delivered: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for row in emulation.take_events():
            if row["event"] == "delivered":
                self.delivered[row["node"], row["feed"]].append(row["seq"])
        self.neighbours: defaultdict[str, set[str]] = defaultdict(set)
        for link in scenario.network.links:
            self.neighbours[link.a].add(link.b)
            self.neighbours[link.b].add(link.a)

    def _watch(self, node: SocialNode) -> None:
        forwarder = node.host.forwarder
        original = forwarder.receive

        def receive(face: int, packet: bytes, *rest: Any) -> None:
            opened = None if forwarder.faces[face].is_local else open_data(packet)
            parts = None if opened is None else split_item(opened[0].name)
            if parts is not None:
                self.came[node.name, log_key(parts[0])] += 1
            original(face, packet, *rest)

        forwarder.receive = receive  # type: ignore[method-assign, assignment]

    def arriving(self) -> dict[str, set[str]]:
        """Return the authors whose logs can come to each node, by the rule alone.

        A node knows the logs of its users. It gets a log that a neighbour has if the logs that it knows put
        the author on a user's graph: one that nobody brings the friend's log to does not learn of friends.
        """
        known: defaultdict[str, set[str]] = defaultdict(set)
        for feed in self.load.feeds:
            known[feed.publisher].add(feed.key)
        growing = set(self.neighbours)
        while growing:
            node = min(growing)
            growing.remove(node)
            offered = set().union(*(known[other] for other in self.neighbours[node]))
            while came := offered & self._graph(node, known[node]) - known[node]:
                known[node] |= came
                growing |= self.neighbours[node]
        return known

    def graph(self, node: str) -> set[str]:
        """Return the authors that are on the graphs of a node's users, if all logs are known."""
        if node not in self._graphs:
            self._graphs[node] = self._graph(node, {feed.key for feed in self.load.feeds})
        return self._graphs[node]

    def _graph(self, node: str, known: set[str]) -> set[str]:
        publishers = {feed.publisher for feed in self.load.feeds}
        users = [node] if node in publishers else self.neighbours[node] & publishers
        found: set[str] = set()
        for feed in self.load.feeds:
            if feed.publisher in users:
                graph = Graph(feed.key, HOPS)
                for each in self.load.feeds:
                    if each.key in known:
                        for message in each.messages:
                            graph.add(message)
                found |= graph.replicated()
        return found

    def leaks(self) -> dict[str, int]:
        """Return how many messages have come to which node that are of no author on its users' graphs."""
        found: Counter[str] = Counter()
        for (node, author), count in self.came.items():
            if author not in self.graph(node):
                found[node] += count
        return dict(found)


@pytest.mark.parametrize("layering", SOCIAL_LAYERINGS)
def test_messages_reach_nodes_on_a_followers_graph_only_and_blocks_are_kept(layering: str) -> None:
    """Everybody blocks three; relays are held to the rule where nodes replicate by their users' graphs."""
    run = Watched(people(blocks=3), layering)
    blocked = 0
    for node, feeds in run.load.blocks.items():
        for feed in feeds:
            blocked += 1
            assert not run.came[node, feed.key], f"{node} gets {feed.publisher}, whom it blocks"
    assert blocked == 36
    routers = {"r1", "r2", "r3", "r4"}
    leaks = run.leaks()
    if layering == "social-routing":
        assert {*leaks} <= routers
        assert leaks, "routers carry what a receiver far away asks for: this is what the layering costs"
    else:
        assert not leaks
        assert any(feed.key not in run.graph(node) for node in routers for feed in run.load.feeds)
    assert sum(run.came.values()) > 500


def test_all_that_is_followed_is_delivered_once_in_order() -> None:
    run = Watched(people(), "ssb-aware")
    for node, feeds in run.load.follows.items():
        for feed in feeds:
            assert run.delivered[node, feed.key] == [message.sequence for message in feed.messages]


def test_a_boat_carries_logs_between_islands() -> None:
    scenario = load("village", items=20, layerings=("ssb-aware",))
    run = Watched(scenario, "ssb-aware")
    island = {"ada": 0, "bo": 0, "cy": 0, "dee": 1, "eli": 1, "fay": 1}
    on_boat = run.graph("boat")
    crossed = Counter()
    for node, feeds in run.load.follows.items():
        for feed in feeds:
            if "boat" in (node, feed.publisher) or island[node] == island[feed.publisher]:
                assert len(run.delivered[node, feed.key]) == len(feed.messages)
            else:
                came = len(run.delivered[node, feed.key])
                assert came == (len(feed.messages) if feed.key in on_boat else 0)
                crossed[feed.key in on_boat] += 1
    assert crossed[True]
    assert crossed[False]
    assert not run.leaks()


def following(name: str, hops: int, **more: Any) -> Watched:
    changes = {"parameters.ssb-aware.neighbour_hops": hops}
    return Watched(load(name, layerings=("ssb-aware",), changes=changes, **more), "ssb-aware")


def missing(run: Watched) -> set[tuple[str, str]]:
    """Return who lacks an item of whose feed, and assert that nobody has one twice or out of order."""
    found = set()
    for node, feeds in run.load.follows.items():
        for feed in feeds:
            came = run.delivered[node, feed.key]
            assert came == sorted(set(came))
            if len(came) < len(feed.messages):
                found.add((node, feed.publisher))
    return found


def test_forwarders_that_follow_their_neighbours_carry_logs_across_a_core_without_users() -> None:
    """Authors move from router to router; home and work are far from each other."""
    alone = following("mobile", 0, items=60)
    assert missing(alone)
    assert not alone.nodes["core"].keeper.community.statements
    run = following("mobile", 3, items=60)
    assert not missing(run)
    assert run.nodes["core"].held()["messages"].entries >= 60


def test_a_sailor_carries_the_logs_of_whoever_its_forwarder_meets() -> None:
    """At seed 1 somebody is followed on the other island whom the sailor does not know."""
    assert missing(following("village", 0, items=20))
    run = following("village", 3, items=20)
    assert not missing(run)
    writing = {name for name, node in run.nodes.items() if node.state.log}
    assert writing == {"north", "pier", "boat", "south"}, "two links or more"


def test_a_forwarder_that_starts_anew_does_not_fork_its_log() -> None:
    table = load("mobile", items=60, layerings=("ssb-aware",)).model_dump(exclude_unset=True)
    table["parameters"] = {"ssb-aware": {"neighbour_hops": 3}}
    table["events"] = ({"at_ms": 3000.0, "restart": "core"}, {"at_ms": 5000.0, "restart": "r2"})
    run = Watched(Scenario.model_validate({"name": "mobile", **table}), "ssb-aware")
    assert not missing(run)
    for node in run.nodes.values():
        assert not {"fork", "a feed with something else than its messages"} & node.keeper.counters.keys()
        texts = node.state.log
        follows = [Message.from_text(text).content["contact"] for text in texts]
        assert len(follows) == len(set(follows))
    assert run.nodes["r2"].state.log


def test_a_node_that_starts_anew_goes_on_where_it_was() -> None:
    table = people().model_dump(exclude_unset=True)
    events = ({"at_ms": 1500.0, "restart": "cleo"}, {"at_ms": 2000.0, "restart": "r1"})
    run = Watched(Scenario.model_validate({**table, "events": events}), "ssb-aware")
    for node, feeds in run.load.follows.items():
        for feed in feeds:
            assert run.delivered[node, feed.key] == [message.sequence for message in feed.messages]


def town(routers: int, layering: str) -> Scenario:
    """Return a tree of routers, each with four homes."""
    homes = [f"p{number}" for number in range(4 * routers)]
    ends = [(f"r{number}", f"r{(number - 1) // 3}") for number in range(1, routers)]
    ends += [(home, f"r{number % routers}") for number, home in enumerate(homes)]
    table = {
        "name": "town",
        "title": "Town",
        "layerings": (layering,),
        "publishers": tuple(homes),
        "subscribers": tuple(homes),
        "settle_ms": 6000,
        "topology": {"links": tuple({"a": a, "b": b, "delay_ms": 5.0} for a, b in ends)},
        "workload": {
            "items": 4 * len(homes),
            "graph": {"follows": 2, "stated": True},
            "schedule": {"speed": 1.5e6, "idle_limit_ms": 1000.0},
        },
    }
    return Scenario.model_validate(table)


@pytest.mark.parametrize("routers", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_a_log_arrives_where_nodes_with_the_author_on_their_graph_lead(routers: int) -> None:
    """The larger town has 200 nodes, and takes three minutes of one core."""
    run = Watched(town(routers, "ssb-aware"), "ssb-aware")
    assert not run.leaks()
    arriving = run.arriving()
    reached = missed = 0
    for node, feeds in run.load.follows.items():
        for feed in feeds:
            arrives = feed.key in arriving[node]
            came = len(run.delivered[node, feed.key])
            assert came == (len(feed.messages) if arrives else 0), f"{node} has {came} of {feed.publisher}"
            reached += arrives
            missed += not arrives
    assert reached
    assert missed
