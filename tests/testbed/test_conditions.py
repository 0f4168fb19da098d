"""Partitions link by link, the routes that follow from what happens, and links of nodes that move."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulation import load_of, scenario

from testbed.errors import UserError
from testbed.scenario.conditions import link_by_link, reroutes
from testbed.scenario.mobility import mobility_changes, read_trace
from testbed.scenario.sections import Change, Mobility
from testbed.scenario.timeline import Timeline
from topologies.model import Link, Topology, TopologyError
from topologies.routing import Routing

RING = Topology(
    ("a", "b", "c", "d"), (Link("a", "b"), Link("b", "c"), Link("c", "d"), Link("d", "a", delay_ms=2))
)


def planned(*changes):
    return [(int(change.at_ms), change) for change in changes]


def told(changes):
    return [(time, change.event, " ".join(change.ends)) for time, change in changes]


def test_a_partition_breaks_what_joins_its_nodes_with_the_others():
    changes = planned(
        Change(at_ms=1, link_down="a b"),
        Change(at_ms=2, partition="a d", signalled=False),
        Change(at_ms=3, heal=True),
    )
    found = link_by_link(changes, RING)
    assert told(found) == [(1, "link-down", "a b"), (2, "link-down", "c d"), (3, "link-up", "c d")]
    assert [change.is_signalled for _, change in found] == [True, False, True]


def test_what_is_mended_meanwhile_is_not_healed_again():
    changes = planned(
        Change(at_ms=1, partition="a"),
        Change(at_ms=2, link_up="b a"),
        Change(at_ms=3, link_down="a b"),
        Change(at_ms=4, heal=True),
    )
    assert told(link_by_link(changes, RING))[-1] == (4, "link-up", "d a")
    assert len(link_by_link(changes, RING)) == 5


EVENTS = st.one_of(
    st.builds(lambda ends: {"link_down": ends}, st.sampled_from(["a b", "b c", "c d", "d a"])),
    st.builds(lambda ends: {"link_up": ends}, st.sampled_from(["a b", "b c", "c d", "d a"])),
    st.builds(
        lambda some: {"partition": " ".join(some)}, st.sets(st.sampled_from("abcd"), min_size=1, max_size=3)
    ),
    st.just({"heal": True}),
)


@given(st.lists(EVENTS, max_size=12))
def test_partitions_only_break_what_is_up_and_healing_only_mends_what_they_broke(events):
    changes = planned(*(Change(at_ms=number, **event) for number, event in enumerate(events)))
    up, mine = dict.fromkeys(range(4), True), set()
    found = list(link_by_link(changes, RING))
    for time, change in changes:
        steps = [each for at, each in found if at == time]
        indices = [RING.link_between(*each.ends) for each in steps]
        if change.partition:
            inside = set(change.partition.split())
            crossing = {i for i, link in enumerate(RING.links) if (link.a in inside) != (link.b in inside)}
            assert set(indices) == {i for i in crossing if up[i]}
            mine |= set(indices)
        elif change.heal:
            assert set(indices) == mine
            mine = set()
        else:
            assert len(indices) == 1
            mine -= set(indices) if change.link_up else set()
        up |= {i: each.link_up is not None for i, each in zip(indices, steps, strict=True)}


def test_changes_of_a_link_add_up():
    changes = planned(
        Change(at_ms=1, link_change="a b", set={"delay_ms": 5.0}),
        Change(at_ms=2, link_change="b c", set={"bw_mbit": 1.0}),
        Change(at_ms=3, link_change="b a", set={"bw_mbit": 2.0}),
    )
    found = [(change.link_change, change.set) for _, change in link_by_link(changes, RING)]
    assert found == [
        ("a b", {"delay_ms": 5.0}),
        ("b c", {"bw_mbit": 1.0}),
        ("b a", {"delay_ms": 5.0, "bw_mbit": 2.0}),
    ]


def test_routes_follow_what_happens():
    changes = planned(
        Change(at_ms=10, link_down="a b"),
        Change(at_ms=10, link_change="d a", set={"delay_ms": 9.0}),
        Change(at_ms=20, stop="c"),
        Change(at_ms=30, link_up="a b"),
        Change(at_ms=40, start="c"),
    )
    found = reroutes(changes, RING, Routing("hops"), 5)
    assert [each.time for each in found] == [15, 25, 35, 45]
    assert [each.network.links[3].delay_ms for each in found] == [9, 9, 9, 9]
    assert [each.network is found[0].network for each in found] == [True] * 4
    assert [sorted(each.ndn.down) for each in found] == [[0], [0, 1, 2], [1, 2], []]
    assert [sorted(each.ip.down) for each in found] == [[0], [0], [], []]
    assert {each.ndn.metric for each in found} == {"hops"}


LINE = {"generator": "line", "length": 2}


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{"at_ms": 1, "start": "r1"}], r"\[\[events\]\] start: r1 has not stopped before"),
        (
            [{"at_ms": 1, "stop": "r1"}, {"at_item": 2, "stop": "r1"}],
            r"\[\[events\]\] stop: r1 has stopped and not started before",
        ),
        ([{"at_ms": 2, "restart": "r1"}, {"at_ms": 1, "stop": "r1"}], r"restart: r1 has stopped and not"),
    ],
)
def test_nodes_stop_and_start_in_turn(events, message):
    wanted = scenario(topology=LINE, subscribers=("s1",), events=events)
    with pytest.raises(UserError, match=message):
        Timeline.of(wanted, load_of(wanted), 0)


# Mobility.


@pytest.fixture
def trace(tmp_path):
    def write(text, **more):
        path = tmp_path / "trace.csv"
        path.write_text("time_s,node,x_m,y_m\n" + text)
        return Mobility(trace=str(path), **{"range_m": 100, **more})

    return write


WALK = """\
0,a,0,0
10,a,1000,0
0,b,0,0

0,d,500,0
"""


def test_links_are_up_while_their_ends_are_near(trace):
    found = mobility_changes(trace(WALK, every_ms=500), RING)
    # a leaves b after one second, is near d from the fourth to the sixth; d is far from all others.
    assert [(change.at_ms, change.event, " ".join(change.ends)) for change in found] == [
        (0, "link-down", "d a"),
        (1500, "link-down", "a b"),
        (4000, "link-up", "d a"),
        (6500, "link-down", "d a"),
    ]


def test_nodes_of_no_trace_keep_their_links_and_what_stands_stays(trace):
    assert mobility_changes(trace("0,a,0,0\n0,b,0,100\n"), RING) == []
    (down,) = mobility_changes(trace("0,a,0,0\n0,b,0,101\n", signalled=False), RING)
    assert (down.at_ms, down.link_down, down.is_signalled) == (0, "a b", False)


@given(st.lists(st.integers(-300, 300), min_size=2, max_size=6), st.integers(1, 4))
def test_at_every_look_a_link_is_up_if_its_ends_are_near(tmp_path_factory, places, every):
    path = tmp_path_factory.mktemp("walk") / "t.csv"
    rows = [f"{second},a,{x},0" for second, x in enumerate(places)]
    path.write_text("\n".join(["time_s,node,x_m,y_m", *rows, "0,b,0,0"]) + "\n")
    changes = mobility_changes(Mobility(trace=str(path), range_m=100, every_ms=250 * every), RING)
    is_up = True
    for step in range(4 * len(places)):
        now = 250 * every * step
        for change in changes:
            if change.at_ms == now:
                assert (change.link_up is not None) != is_up
                is_up = change.link_up is not None
        second = min(now / 1000, len(places) - 1)
        before = min(int(second), len(places) - 2)
        x = places[before] + (second - before) * (places[before + 1] - places[before])
        assert is_up == (abs(x) <= 100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,z,0,0\n", "trace.csv:2: 'z' is not a node of the network"),
        ("0,a,0\n", "trace.csv:2: 3 columns; there must be 4"),
        ("0,a,0,0\n\nsoon,a,0,0\n", "trace.csv:4: time_s must be a number, not 'soon'"),
        ("0,a,nan,0\n", "trace.csv:2: x_m must be a number, not 'nan'"),
        ("-1,a,0,0\n", "trace.csv:2: time_s must be from 0 to 86400, not -1"),
        ("1,a,0,0\n1,a,0,0\n", "trace.csv:3: times of a must increase"),
        ("0,a,0,0\n0,c,0,0\n", "trace.csv: no link joins two of its nodes"),
        ("", "trace.csv: no link joins two of its nodes"),
    ],
)
def test_traces_that_cannot_be(trace, text, message):
    with pytest.raises(TopologyError) as error:
        read_trace(trace(text), RING)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_trace(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(TopologyError, match=r"t\.csv:1: the first line must be time_s,node,x_m,y_m"):
        read_trace(Mobility(trace=str(tmp_path / "t.csv"), range_m=1), RING)
    Path(tmp_path / "t.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(TopologyError, match="is not a text file of CSV in UTF-8"):
        read_trace(Mobility(trace=str(tmp_path / "t.csv"), range_m=1), RING)
