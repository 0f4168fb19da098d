"""The paths that items ought to take, and the tables of the setting that come of them."""

from dataclasses import asdict
from itertools import combinations

from handmade import FEED_URI, STORIES, TIMES, manifest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.run.manifest import Manifest
from analysis.run.paths import delivery_paths
from base.units import MS
from topologies.model import Link, Topology
from topologies.routing import Routing, equal_routes

TURN = {**TIMES, "sample_interval_ns": 5 * MS}


def paths(nodes, links, **topology):
    """Return the paths from p to s and t, as texts."""
    made = manifest(dict.fromkeys(STORIES, TURN))
    roles = {"p": "publisher", "s": "subscriber", "t": "subscriber"}
    made["topology"] = {
        "nodes": [{"name": name, "role": roles.get(name, "forwarder")} for name in nodes],
        "links": links,
        **topology,
    }
    found = {}
    for hop in delivery_paths(Manifest.model_validate(made)):
        found.setdefault(hop.subscriber, []).append(f"{hop.sender}>{hop.receiver}")
    return {subscriber: " ".join(reversed(hops)) for subscriber, hops in found.items()}


def link(ends, delay=0.0, **more):
    return {"a": ends[0], "b": ends[1], "delay_ms": delay, **more}


def test_the_path_of_least_delay():
    assert paths("pabs", [link("pa", 1), link("as", 5), link("pb", 2), link("sb", 3)]) == {"s": "p>b b>s"}


def test_of_equal_delays_the_path_of_fewer_hops_then_the_name_that_sorts_first():
    assert paths("pabs", [link("pa", 1), link("ab", 1), link("bs", 1), link("pb", 2)]) == {"s": "p>b b>s"}
    assert paths("pbas", [link("pb"), link("bs"), link("pa"), link("as")]) == {"s": "p>a a>s"}


@given(st.data(), st.sampled_from(["delay", "cost", "hops"]))
@settings(max_examples=50)
def test_paths_are_the_routes_of_the_run_by_every_metric(data, metric):
    nodes = "pabcs"
    ends = data.draw(st.lists(st.sampled_from(list(combinations(nodes, 2))), min_size=1, unique=True))
    links = [
        Link(
            *data.draw(st.permutations(each)),
            data.draw(st.none() | st.integers(0, 3)),
            data.draw(st.none() | st.integers(0, 3)),
            delay_ms=data.draw(st.integers(0, 3)),
        )
        for each in ends
    ]
    found = paths(nodes, [asdict(each) for each in links], metric=metric)
    routes = equal_routes(Topology(tuple(nodes), tuple(links)), "p", Routing(metric))
    steps, node = [], "s"
    while node in routes:
        before = routes[node][0].into.node
        steps.append(f"{before}>{node}")
        node = before
    assert found == ({"s": " ".join(reversed(steps))} if steps else {})


def test_the_least_delay_of_a_link_that_changes():
    made = manifest(dict.fromkeys(STORIES, TURN))
    made["topology"]["links"][1] |= {"least_ns": 7}
    first, second = Manifest.model_validate(made).topology.links
    assert (first.least_delay_ns, second.least_delay_ns) == (10 * MS, 7)


def test_a_forked_feed_comes_from_the_nearer_device():
    made = manifest(dict.fromkeys(STORIES, TURN))
    made["fork"] = {"feed": FEED_URI, "publisher": "r", "after": 2}
    hops = delivery_paths(Manifest.model_validate(made))
    assert [(hop.sender, hop.receiver) for hop in hops] == [("r", "s")]


def test_a_subscriber_that_cannot_be_reached_has_no_path():
    assert paths("pst", [link("ps")]) == {"s": "p>s"}


def test_a_hop_says_what_it_takes():
    made = manifest(dict.fromkeys(STORIES, TURN))
    made["topology"]["links"][1]["bw_mbit"] = 10
    hops = {hop.receiver: hop for hop in delivery_paths(Manifest.model_validate(made))}
    assert (hops["r"].delay_ns, hops["r"].ns_per_byte) == (10 * MS, 0)
    assert (hops["s"].delay_ns, hops["s"].ns_per_byte, hops["s"].feed) == (10 * MS, 800, FEED_URI)


def test_a_link_may_have_a_cost_in_one_direction_only():
    links = [link("pa"), link("as"), {**link("pb"), "cost_back": 0}, link("bs")]
    assert paths("pabs", links, metric="cost") == {"s": "p>b b>s"}
