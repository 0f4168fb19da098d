"""The sums that samples read, against a walk through all that a node holds, at each sample of a run."""

from typing import Any

import pytest
from simulation import load_of, scenario
from walked_state import granted, walked

from ssb_over_ndn.following.subscriber import Subscriber
from ssb_over_ndn.naming import log_name
from ssb_over_ndn.serving.publisher import Publisher
from testbed.experiment.emulated_run import Emulation
from testbed.layerings.kinds.social import SocialNode
from testbed.layerings.nodes.ndn_node import NdnNode
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load
from testbed.scenario.timeline import sample_times

TREE = scenario(
    topology={"generator": "tree", "depth": 2, "fanout": 2, "link": {"delay_ms": 5.0, "loss_percent": 5.0}},
    publishers=("pub", "s3"),
    subscribers=("s1", "s2", "s4"),
    workload={"items": 40, "feeds": 5, "schedule": {"speed": 1e6, "idle_limit_ms": 60.0}},
    events=[
        {"at_ms": 700, "link_down": "pub r1"},
        {"at_ms": 1000, "link_up": "pub r1"},
        {"at_ms": 1300, "restart": "r2"},
        {"at_ms": 1500, "restart": "s1"},
    ],
    sample_interval_ms=10.0,
    settle_ms=2000,
)
"""Lossy links of which one breaks, a router and a reader that are started again."""
FRIENDS = load("social", items=24)
"""Nodes that come and go."""


def ends(node: NdnNode) -> tuple[int, int] | None:
    """The state of publishers and subscribers, one by one; None if the node has other applications."""
    sizes = []
    for application in node._applications:
        if isinstance(application, Publisher):
            sizes.append(application._server.size())
        elif isinstance(application, Subscriber):
            sizes += [application._open[feed].size() for feed in application._open]
        else:
            return None
    sizes = [size for size in sizes if size]
    return len(sizes), sum(sizes)


def check(node: Any) -> bool:
    """Compare a node's samples with the walk; return whether it holds any PIT entry, or any range."""
    assert isinstance(node, NdnNode)
    forwarder, held = node.host.forwarder, node.held()
    expected = walked(forwarder)
    assert {kind: held[kind] for kind in expected} == expected
    counters = node.counters()
    assert (counters["pit_ranges"], counters["pit_credit"]) == granted(forwarder)
    if (found := ends(node)) is not None:
        assert held["ends"] == found
    if isinstance(node, SocialNode):
        own = {log_name(home.identity.ref) for home in node._homes}
        own |= {log_name(feed.key) for feed in node._workload.follows.get(node.name, ())}
        logs = [node.keeper.replicas[feed] for feed in node.keeper.replicas if feed not in own]
        assert held["messages"] == (sum(map(len, logs)), sum(log.bytes for log in logs))
        said = node.keeper.community._contacts.values()
        assert held["statements"].entries == sum(map(len, said))
    return forwarder.pit_entries() > 0


@pytest.mark.parametrize(
    ("wanted", "layering"),
    [
        *(
            (TREE, name)
            for name in ("pull", "poll", "persistent", "notify-each", "sync", "lli", "lli-selective")
        ),
        *((FRIENDS, name) for name in ("ssb-aware-poll", "ssb-aware")),
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_the_sums_of_a_sample_are_those_of_a_walk(wanted: Scenario, layering: str) -> None:
    emulation = Emulation(wanted, layering, load_of(wanted))
    busy = 0

    def look() -> None:
        nonlocal busy
        busy += sum(check(node) for node in [*emulation.nodes.values()])

    for time in sample_times(wanted, emulation.timeline):
        emulation.network.observe(time, look)
    emulation.run(emulation.timeline.end)
    assert busy > 100
