"""A path through a forwarder that has never heard of long-lived Interests: it degrades to NDN's pull."""

from itertools import pairwise
from random import Random

import pytest
from simulation import feed_of

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from ssb.application import Plan
from ssb_over_ndn.following.subscriber import Subscriber
from ssb_over_ndn.naming import log_name
from ssb_over_ndn.serving.publisher import Publisher
from testbed.layerings.kinds.ndn import NDN_LAYERINGS as LAYERINGS
from topologies.emulator.network import EmulatedNetwork
from topologies.model import Link, Topology, on_links

ITEMS = 300
MESSAGES = feed_of(ITEMS)
FEED = log_name(MESSAGES[0].author)
WINDOW = 32


def deliveries(layering: str, times: list[int], *, plain: bool, loss: float = 0.0) -> list[int]:
    """When items are delivered over pub - r1 - r2 - sub, r1 and r2 plain forwarders or not."""
    nodes = ("pub", "r1", "r2", "sub")
    links = [
        Link(a, b, bw_mbit=10.0, delay_ms=5.0, loss_percent=loss, max_queue_size=1000)
        for a, b in pairwise(nodes)
    ]
    topology = Topology(nodes, tuple(links))
    kind = LAYERINGS[layering]
    hosts = {
        node: Host(Forwarder(rng=Random(node), controlled_push=not (plain and node in ("r1", "r2"))))
        for node in nodes
    }
    faces = {i.name: hosts[i.node].add_link() for i in topology.link_ends}
    for interface in topology.link_ends:
        if nodes.index(interface.peer) < nodes.index(interface.node):
            hosts[interface.node].forwarder.fib.add(FEED, faces[interface.name])
    end = times[-1] + 20_000 * MS
    publisher = Publisher(MESSAGES, times, stop=end)
    hosts["pub"].forwarder.fib.add(FEED, hosts["pub"].attach(publisher))
    parameters = {"long-lived": {"window": WINDOW}, "lli": {"credit": 64}}[layering]
    values = kind.parameters.model_validate(parameters).model_dump()
    subscription = kind.subscription(FEED, rng=Random(2), **values)
    subscriber = Subscriber({FEED: subscription}, Plan(1000 * MS, end))
    hosts["sub"].attach(subscriber)
    EmulatedNetwork(topology, on_links(topology, hosts, faces), seed=1, capture=None).run(end + 5_000 * MS)
    got = [event for event in subscriber.take_events() if event.event == "delivered"]
    assert [event.seq for event in got] == list(range(1, ITEMS + 1))
    return [event.time for event in got]


@pytest.mark.parametrize("loss", [0.0, 2.0])
def test_what_is_there_comes_as_fast_as_with_windowed_pull(loss: float) -> None:
    known = [0] * ITEMS
    pushed = deliveries("lli", known, plain=True, loss=loss)
    pulled = deliveries("long-lived", known, plain=True, loss=loss)
    # It takes a window or two to find out that nobody pushes: the first grant has been pushed, to a forwarder
    # that passes one item of it on.
    late = 2 * WINDOW
    assert pushed[-1] - pushed[late] <= 1.02 * (pulled[-1] - pulled[late])


def test_no_item_costs_a_time_out() -> None:
    pushed = deliveries("lli", [0] * ITEMS, plain=True)
    assert max(b - a for a, b in pairwise(pushed)) < 100 * MS  # the first time-out is 250 ms


def test_what_is_published_later_comes_in_one_path_delay() -> None:
    live = [2000 * MS + n * 20 * MS for n in range(ITEMS)]
    came = deliveries("lli", live, plain=True)
    waits = [at - published for at, published in zip(came, live, strict=True)]
    assert sorted(waits)[ITEMS // 2] < 20 * MS  # three links of 5 ms, and the bytes
    assert max(waits) < 40 * MS


def test_without_plain_forwarders_it_is_pushed() -> None:
    """The measure of the others: the same path, with controlled push all the way."""
    live = [2000 * MS + n * 20 * MS for n in range(ITEMS)]
    came = deliveries("lli", live, plain=False)
    assert max(at - published for at, published in zip(came, live, strict=True)) < 40 * MS
