"""Any network, any routes, sensible or not: an Interest crosses a link once at most, and all is forgotten."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from strategy_network import Net

STRATEGIES = ["best-route", "multicast", "asf", "access", "random", "self-learning"]
NODES = "abcde"
PAIRS = list(combinations(NODES, 2))


@st.composite
def networks(draw: st.DrawFn) -> tuple[Net, str]:
    """A network of up to five nodes, and the node of a producer of /x; anybody may route /x anywhere."""
    links = draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=len(PAIRS), unique=True))
    delays = draw(st.lists(st.sampled_from([0, 1, 5, 100]), min_size=len(links), max_size=len(links)))
    net = Net(
        *(f"{a} {b} {delay}" for (a, b), delay in zip(links, delays, strict=True)),
        strategy=draw(st.sampled_from(STRATEGIES)),
        seed=draw(st.integers(0, 3)),
    )
    for node, peer in draw(st.lists(st.sampled_from(sorted(net.faces)), max_size=12, unique=True)):
        net.route(node, "/x", peer, draw(st.integers(0, 2)))
    return net, draw(st.sampled_from(net.topology.nodes))


@given(networks(), st.booleans(), st.sampled_from([50, 300, 4000]))
@settings(max_examples=150)
def test_an_interest_crosses_a_link_once(made: tuple[Net, str], announced: bool, lifetime_ms: int) -> None:
    net, where = made
    producer = net.producer(where, "/x", routed=False, announced=announced)
    consumer = net.consumer(net.topology.nodes[0])
    consumer.ask(0, "/x/1", lifetime_ms=lifetime_ms)
    net.run(30_000)
    assert all(net.interests(*ends) <= 1 for ends in net.faces)
    assert len(producer.asked) <= 1
    assert sum(map(len, consumer.data.values())) + len(consumer.nacks) <= 1
    for node in net.topology.nodes:
        assert len(net.core(node).pit) == 0
        assert net.core(node).counters.malformed == 0


@given(networks(), st.integers(2, 12), st.integers(1, 300))
@settings(max_examples=60)
def test_an_impatient_crowd_costs_each_link_no_more_than_it_asks(
    made: tuple[Net, str], crowd: int, gap_ms: int
) -> None:
    """Consumers at one node, all for the same: with their own nonces, so loops have more to remember."""
    net, where = made
    net.producer(where, "/x", routed=False)
    for n in range(crowd):
        net.consumer(net.topology.nodes[0]).ask(n * gap_ms, "/x/1", lifetime_ms=1000)
    net.run(60_000)
    strategy = net.core(net.topology.nodes[0]).strategies.find(b"", [])
    copies = 2 if strategy.NAME == "asf" else 1  # a probe is a copy
    assert all(net.interests(*ends) <= copies * crowd for ends in net.faces)
    assert all(len(net.core(node).pit) == 0 for node in net.topology.nodes)
