"""What strategies make of whole networks."""

from itertools import pairwise

import pytest
from strategy_network import NO_ROUTE, Net

from base.units import MS
from forwarder.wire.lp import DUPLICATE
from forwarder.wire.name import from_uri

RING = ("a b", "b c", "c d", "d a", "d p")


def cycle(net: Net, *nodes: str) -> None:
    """Route /x in a circle."""
    for node, following in pairwise((*nodes, nodes[0])):
        net.route(node, "/x", following)


@pytest.mark.parametrize("strategy", ["best-route", "random", "multicast", "asf", "access"])
def test_a_short_loop_ends_in_the_pit(strategy: str) -> None:
    net = Net("a b", "b c", "c a", strategy=strategy)
    cycle(net, "a", "b", "c")
    consumer = net.consumer("a")
    consumer.ask(0, "/x/1")
    net.run(1000)
    assert net.all_interests() == 3
    assert [(name, reason) for _, name, reason in consumer.nacks] == [("/x/1", DUPLICATE)]


@pytest.mark.parametrize("strategy", ["best-route", "random", "multicast", "asf", "access"])
def test_a_loop_that_outlives_its_entries_ends_by_the_dead_nonces(strategy: str) -> None:
    """Once round takes 1.5 s, the entries live for 100 ms: no PIT remembers."""
    net = Net("a b 500", "b c 500", "c a 500", strategy=strategy)
    cycle(net, "a", "b", "c")
    net.consumer("a").ask(0, "/x/1", lifetime_ms=100)
    net.run(60_000)
    assert net.all_interests() == 3
    assert sum(net.core(node).counters.looped for node in "abc") == 1


def test_a_loop_longer_than_the_dead_nonces_live_is_bounded_by_the_hop_limit() -> None:
    """Nobody can remember for ever: what is left is HopLimit, and consumers set it."""
    net = Net("a b 3000", "b c 3000", "c a 3000", strategy="best-route")
    cycle(net, "a", "b", "c")
    net.consumer("a").ask(0, "/x/1", lifetime_ms=100, hop_limit=8)
    net.run(120_000)
    assert net.all_interests() == 7  # the consumer's own forwarder takes the first


def test_multicast_on_a_ring_does_not_storm() -> None:
    """Every node routes to all others: each link carries a copy each way at most, and one answer."""
    net = Net(*RING, strategy="multicast")
    for node, peer in net.faces:
        if node != "p":
            net.route(node, "/x", peer)
    producer = net.producer("p", "/x", routed=False)
    consumer = net.consumer("a")
    for n in range(50):
        consumer.ask(100 * n, f"/x/{n}")
    net.run(10_000)
    assert len(consumer.data) == 50
    assert all(len(times) == 1 for times in consumer.data.values())
    assert len(producer.asked) == 50
    # a asks b and d; b asks c, d asks c and p; b's copy and d's meet at c, which passes one of them on.
    assert all(net.interests(*ends) <= 50 for ends in net.faces)
    assert net.all_interests() <= 50 * 6


class TestAsf:
    """c -> r, and from there to p over x, the fast way, or y."""

    LINKS = ("c r 1", "r x 5", "x p 5", "r y 15", "y p 15")

    def make(self, **parameters: str) -> Net:
        net = Net(*self.LINKS, strategy="asf", **{"probing_interval": "1000"} | parameters)
        self.producer = net.producer("p", "/x")
        self.consumer = net.consumer("c")
        for n in range(400):  # 20 a second, never twice for the same
            self.consumer.ask(50 * n, f"/x/{n}", lifetime_ms=1000)
        return net

    def came(self, first: int, last: int) -> float:
        """Share of the Interests of a time in ms that were answered."""
        wanted = range(first // 50, last // 50)
        return sum(f"/x/{n}" in self.consumer.data for n in wanted) / len(wanted)

    def taken(self, net: Net, until: int) -> tuple[int, int]:
        """Interests over x and over y since the last call."""
        before = (net.interests("r", "x"), net.interests("r", "y"))
        net.run(until)
        return net.interests("r", "x") - before[0], net.interests("r", "y") - before[1]

    def test_the_fast_way_and_now_and_then_a_probe(self) -> None:
        net = self.make()
        fast, slow = self.taken(net, 20_000)
        assert fast == 400
        assert 15 <= slow <= 20  # one a second after up to 5 s
        assert self.came(0, 20_000) == 1

    def test_off_a_way_that_dies_and_back_once_it_heals(self) -> None:
        net = self.make()
        self.taken(net, 6_000)
        net.set_link(6_000, "r", "x", up=False)
        net.set_link(12_000, "r", "x", up=True)
        self.taken(net, 7_000)  # three time-outs of 200 ms, with up to 50 ms in between
        fast, slow = self.taken(net, 12_000)
        assert slow >= 100
        assert fast <= 5  # probes
        self.taken(net, 15_000)
        fast, slow = self.taken(net, 20_000)
        assert fast >= 100
        assert slow <= 5
        assert self.came(6_000, 7_000) >= 0.2
        assert self.came(7_000, 20_000) == 1

    def test_off_a_way_that_gets_slow_and_back_once_it_is_fast(self) -> None:
        net = self.make()
        self.taken(net, 6_000)
        net.set_delay(6_000, "r", "x", 40)
        net.set_delay(12_000, "r", "x", 5)
        self.taken(net, 8_000)
        fast, slow = self.taken(net, 12_000)
        assert slow >= 80
        assert fast <= 4
        self.taken(net, 19_000)
        fast, slow = self.taken(net, 20_000)
        assert fast >= 20
        assert slow <= 1
        assert self.came(0, 20_000) == 1

    def test_a_repetition_that_reuses_the_entry_does_not_hide_the_loss(self) -> None:
        """One name only, asked for again and again while it is pending."""
        net = Net(*self.LINKS, strategy="asf", probing_interval="100000", measurements_lifetime="300000")
        net.producer("p", "/x")
        consumer = net.consumer("c")
        for n in range(10):
            consumer.ask(100 * n, f"/x/{n}")
        net.set_link(1_500, "r", "x", up=False)
        for n in range(10, 13):
            consumer.ask(2_000 + 1000 * (n - 10), f"/x/{n}", again_ms=300, tries=3)
        net.run(9_000)
        assert len(consumer.data) == 13  # a repetition tries the other way
        fast = net.interests("r", "x")
        consumer.ask(9_500, "/x/99")
        net.run(12_000)
        assert net.interests("r", "x") == fast  # and after three time-outs a new Interest does, too
        assert "/x/99" in consumer.data

    def test_a_nack_is_enough(self) -> None:
        net = self.make()
        net.core("x").fib.remove(from_uri("/x"), net.faces["x", "p"])
        net.core("x").fib.remove(from_uri("/x"), net.faces["x", "r"])
        fast, slow = self.taken(net, 4_000)
        assert fast <= 4
        assert slow >= 76


class TestSelfLearning:
    """A mesh where nobody has a route."""

    LINKS = ("c r1", "r1 r2", "r1 r3", "r2 r4", "r3 r4", "r4 p", "r3 q", "c2 r2")

    def make(self) -> Net:
        net = Net(*self.LINKS, strategy="self-learning")
        self.producer = net.producer("p", "/x", routed=False, announced=True)
        self.consumer = net.consumer("c")
        return net

    def test_one_flood_then_one_way(self) -> None:
        net = self.make()
        self.consumer.ask(0, "/x/1")
        net.run(1000)
        flooded = net.all_interests()
        assert self.consumer.data == {"/x/1": [40]}
        assert net.interests("r3", "q") == 1
        assert flooded <= 2 * len(self.LINKS)
        for n in range(2, 12):
            self.consumer.ask(1000 + 100 * n, f"/x/{n}")
        net.run(4000)
        assert len(self.consumer.data) == 11
        assert net.all_interests() == flooded + 10 * 4
        assert net.interests("r3", "q") == 1

    def test_another_consumer_learns_the_way_from_whoever_knows_it(self) -> None:
        net = self.make()
        self.consumer.ask(0, "/x/1")
        other = net.consumer("c2")
        other.ask(1000, "/x/2")
        net.run(2000)
        assert list(other.data) == ["/x/2"]
        assert net.core("c2").fib.longest_prefix(from_uri("/x/3")) == from_uri("/x")

    def test_a_search_in_vain_ends_before_the_lifetime(self) -> None:
        net = self.make()
        self.consumer.ask(0, "/nobody/1", lifetime_ms=10_000)
        net.run(1000)
        assert [(name, reason in (NO_ROUTE, DUPLICATE)) for _, name, reason in self.consumer.nacks] == [
            ("/nobody/1", True)
        ]
        assert not any(len(net.core(node).pit) for node in net.topology.nodes)

    def test_a_route_that_leads_nowhere_is_forgotten_and_another_way_found(self) -> None:
        net = self.make()
        self.consumer.ask(0, "/x/1")
        net.run(500)
        (hop,) = net.core("r1").fib.lookup(from_uri("/x"))
        on_way = next(node for node in ("r2", "r3") if net.faces["r1", node] == hop.face)
        net.core(on_way).fib.remove_face(net.faces[on_way, "r4"])
        net.core(on_way).set_face(net.faces[on_way, "r4"], up=False, now=500 * MS)
        self.consumer.ask(1000, "/x/2", again_ms=200, tries=3)
        net.run(3000)
        assert [name for _, name, _ in self.consumer.nacks] == ["/x/2"]
        assert "/x/2" in self.consumer.data

    def test_a_neighbour_that_does_not_announce_is_flooded_to_again(self) -> None:
        net = Net(*self.LINKS, strategy="self-learning")
        net.producer("p", "/x", routed=False)
        consumer = net.consumer("c")
        consumer.ask(0, "/x/1")
        consumer.ask(1000, "/x/2")
        net.run(2000)
        assert len(consumer.data) == 2
        assert net.interests("r3", "q") == 2


class TestAccess:
    """A router with three machines, of which one has the data, behind a link that loses a fifth."""

    LINKS = ("c r 5", "r m1 5 20", "r m2 5 20", "r m3 5 20")

    def make(self) -> Net:
        net = Net(*self.LINKS, strategy="access")
        for machine in ("m1", "m2", "m3"):
            net.route("r", "/x", machine)
        net.route("c", "/x", "r")
        net.producer("m2", "/x", routed=False)
        self.consumer = net.consumer("c")
        return net

    def test_survives_a_lossy_last_hop(self) -> None:
        net = self.make()
        for n in range(200):
            self.consumer.ask(100 * n, f"/x/{n}", again_ms=250, tries=12)
        net.run(30_000)
        assert len(self.consumer.data) == 200
        # Were it multicast, the others would get as many as m2.
        assert net.interests("r", "m1") < net.interests("r", "m2") * 2 / 3
        assert net.interests("r", "m1") == net.interests("r", "m3")

    def test_finds_a_producer_that_has_moved_without_any_repetition(self) -> None:
        net = self.make()
        for n in range(200):
            self.consumer.ask(100 * n, f"/x/{n}", lifetime_ms=400)
        net.run(10_000)
        net.core("m2").fib.remove_face(max(net.core("m2").faces))
        net.producer("m3", "/x", routed=False)
        net.run(20_000)
        late = [n for n in range(120, 200) if f"/x/{n}" in self.consumer.data]
        assert len(late) > 0.5 * 80  # two crossings of a link that loses a fifth: 0.64
        assert net.core("r").fib.lookup(from_uri("/x")) != ()


class TestScope:
    """c - r - p, routes everywhere."""

    def make(self, prefix: str, strategy: str) -> Net:
        net = Net("c r", "r p", strategy=strategy)
        self.producer = net.producer("p", prefix)
        self.neighbour = net.producer("r", prefix, routed=False)
        self.consumer = net.consumer("c")
        self.consumer.ask(0, f"{prefix}/1", lifetime_ms=500)
        net.run(2000)
        return net

    STRATEGIES = ("best-route", "multicast", "asf", "access", "random", "self-learning")

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_localhost_never_leaves_a_node(self, strategy: str) -> None:
        net = self.make("/localhost/x", strategy)
        assert net.all_interests() == 0
        assert self.consumer.data == {}

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_localhop_goes_one_hop(self, strategy: str) -> None:
        net = self.make("/localhop/x", strategy)
        assert net.interests("c", "r") == 1
        assert net.interests("r", "p") == 0
        assert self.producer.asked == []
        assert list(self.consumer.data) == ["/localhop/x/1"]

    @pytest.mark.parametrize("strategy", ["self-learning"])
    def test_a_flood_keeps_to_the_scope(self, strategy: str) -> None:
        for prefix, hops in (("/localhost/x", 0), ("/localhop/x", 1), ("/x", 2)):
            net = Net("c r", "r p", strategy=strategy)
            net.consumer("c").ask(0, f"{prefix}/1", lifetime_ms=500)
            net.run(2000)
            assert net.all_interests() == hops


@pytest.mark.parametrize("strategy", ["best-route", "multicast", "asf", "access", "random"])
def test_a_forwarding_hint_leads_to_the_region_and_the_name_from_there(strategy: str) -> None:
    """Nobody on the way has a route for the name; p, in the region, has."""
    net = Net("c r", "r p", "p q", strategy=strategy)
    net.route("c", "/region", "r")
    net.route("r", "/region", "p")
    net.core("p").regions.add(from_uri("/region"))
    net.producer("q", "/x", routed=False)
    net.route("p", "/x", "q")
    consumer = net.consumer("c")
    consumer.ask(0, "/x/1", forwarding_hint=[from_uri("/region/p")])
    consumer.ask(0, "/x/2")
    net.run(1000)
    assert list(consumer.data) == ["/x/1"]
    assert [name for _, name, _ in consumer.nacks] == ["/x/2"]
