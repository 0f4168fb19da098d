"""The layering ssb in whole networks: every item arrives once, in order; a run is the same each time."""

from typing import Any

import pytest
from simulation import Result, assert_all_have_all, load_of, rough_times, scenario, simulate

from base.key_log import Secret
from base.units import MS
from ssb.transport.secure_stream import CLIENT_SECRET, SERVER_SECRET
from testbed.experiment.emulated_run import Emulation

LINE = {"generator": "line", "length": 3, "link": {"delay_ms": 5.0}}
ALL = list(range(1, 21))
CONNECT = pytest.mark.parametrize("connect", ["publishers", "neighbours"])


def run(connect: str = "publishers", **changes: Any) -> Result:
    parameters = {"ssb": {"connect": connect}}
    return simulate(scenario(**{"settle_ms": 20_000, "parameters": parameters} | changes), "ssb")


@CONNECT
def test_everything_arrives_once_and_in_order(connect: str) -> None:
    result = run(connect)
    for node in ("s1", "s2", "s3", "s4"):
        assert result.delivered(node) == ALL


@CONNECT
@pytest.mark.parametrize("loss", [1.0, 5.0])
def test_links_may_lose(connect: str, loss: float) -> None:
    lossy = LINE | {"link": {"delay_ms": 5.0, "loss_percent": loss}}
    result = run(connect, topology=lossy, subscribers=("s1",), settle_ms=40_000)
    assert result.delivered("s1") == ALL


@CONNECT
def test_a_late_joiner_gets_all(connect: str) -> None:
    result = run(connect, plans={"s1": {"start_ms": 900.0}})
    assert result.delivered("s1") == ALL
    first = next(e for e in result.events["s1"] if e["event"] == "delivered")
    assert 900 * MS <= first["time"] < 1_100 * MS


@CONNECT
@pytest.mark.parametrize("node", ["pub", "r1", "s1"])
def test_a_node_that_starts_anew_goes_on(connect: str, node: str) -> None:
    result = run(connect, events=({"at_ms": 450, "restart": node},), settle_ms=60_000)
    for name in ("s1", "s2"):
        assert result.delivered(name) == ALL
    assert [e["seq"] for e in result.events["pub"] if e["event"] == "published"] == ALL


@CONNECT
def test_a_link_that_is_down_for_a_while_loses_nothing(connect: str) -> None:
    events = ({"at_ms": 400, "link_down": "r1 r2"}, {"at_ms": 2_000, "link_up": "r1 r2"})
    result = run(connect, topology=LINE, subscribers=("s1",), events=events, settle_ms=40_000)
    assert result.delivered("s1") == ALL


def test_several_publishers_and_their_subscribers() -> None:
    workload = {"items": 20, "feeds": 4, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}
    result = run(workload=workload, publishers=("pub", "s2"), subscribers=("s1", "s3"))
    for node in ("s1", "s3"):
        delivered = [(e["feed"], e["seq"]) for e in result.events[node] if e["event"] == "delivered"]
        assert len(delivered) == len(set(delivered)) == 20


@CONNECT
def test_a_run_is_the_same_each_time(connect: str) -> None:
    first, second = run(connect), run(connect)
    assert first.capture == second.capture
    assert first.events == second.events


def test_only_messages_for_others_are_counted_as_state() -> None:
    wanted = scenario(parameters={"ssb": {"connect": "neighbours"}})
    emulation = Emulation(wanted, "ssb", load_of(wanted))
    emulation.run(emulation.timeline.stop - 1)
    held = {name: node.held() for name, node in emulation.nodes.items()}
    assert held["pub"]["messages"] == held["s1"]["messages"] == (0, 0)
    assert held["r1"]["messages"].entries == 20
    assert held["r1"]["connections"].entries == 3
    secrets: list[Secret] = [each for node in emulation.nodes.values() for each in node.take_secrets()]
    assert {each.label for each in secrets} == {CLIENT_SECRET, SERVER_SECRET}


def test_after_the_end_no_connection_is_left() -> None:
    result = run()
    assert {node.held()["connections"] for node in result.nodes.values()} == {(0, 0)}


HOMES = {
    "links": [{"a": "r1", "b": "r2"}, *({"a": name, "b": "r1"} for name in ("ann", "ben", "cleo"))],
    "link": {"delay_ms": 5.0},
}
"""Ann writes, Ben follows her, and Cleo follows Ben."""


def people(**changes: Any) -> Result:
    table = {
        "topology": HOMES,
        "publishers": ("ann", "ben"),
        "subscribers": ("ben", "cleo"),
        "workload": {
            "items": 20,
            "activity_exponent": 0.0,
            "schedule": {"speed": 1e6, "idle_limit_ms": 50.0},
        },
        "settle_ms": 10_000,
    }
    return simulate(scenario(**table | changes), "ssb", until_drained=False)


def messages_for_others(result: Result) -> dict[str, int]:
    held = {name: node.held()["messages"].entries for name, node in result.nodes.items()}
    return {name: entries for name, entries in held.items() if entries}


def test_friends_hand_on_what_a_friend_of_theirs_has_written_while_that_one_is_offline() -> None:
    # Cleo comes when Ann has written all and has gone for good.
    away = {"at_ms": 3000, "link_down": "ann r1"}
    result = people(events=(away,), plans={"cleo": {"start_ms": 4000.0}})
    assert result.delivered("cleo", 0) == result.delivered("cleo", 1) == list(range(1, 11))
    last = max(event["time"] for event in result.events["cleo"] if event["event"] == "delivered")
    assert last < 5000 * MS


@pytest.mark.parametrize(("hops", "held"), [(1, {}), (2, {"dan": 10}), (3, {"dan": 20})])
def test_feeds_so_many_follows_away_are_replicated(hops: int, held: dict[str, int]) -> None:
    names = ("ann", "ben", "cleo", "dan")
    result = people(
        topology=HOMES | {"links": [{"a": name, "b": "r1"} for name in names]},
        publishers=("ann", "ben", "cleo"),
        subscribers=("ben", "cleo", "dan"),
        workload={
            "items": 30,
            "activity_exponent": 0.0,
            "follows": 1,
            "schedule": {"speed": 1e6, "idle_limit_ms": 50.0},
        },
        seed=42,  # by which each follows the one before
        parameters={"ssb": {"hops": hops}},
    )
    follows = {
        name: [feed.publisher for feed in result.load.follows[name]] for name in ("ben", "cleo", "dan")
    }
    assert follows == {"ben": ["ann"], "cleo": ["ben"], "dan": ["cleo"]}
    held = held if hops < 2 else held | {"cleo": 10}
    assert messages_for_others(result) == held
    assert len(result.delivered("dan")) == 10, "what is replicated and not followed is not delivered"


def test_a_peer_that_has_unsubscribed_gets_no_more_messages_though_others_call_it() -> None:
    both = ("ann", "ben")
    result = people(publishers=both, subscribers=both, plans={"ben": {"stop_ms": 170.0}})
    delivered = [event for event in result.events["ben"] if event["event"] == "delivered"]
    assert 0 < len(delivered) < 10
    assert max(event["time"] for event in delivered) <= 170 * MS
    assert result.delivered("ann") == list(range(1, 11)), "Ben goes on writing"
    assert messages_for_others(result) == {}
    assert result.nodes["ben"].held()["connections"].entries == 1
    assert result.nodes["ben"].held()["exchanges"].entries == 1


def test_a_peer_calls_as_many_as_it_follows() -> None:
    authors = tuple(f"s{number}" for number in range(1, 13))
    result = run(
        topology={"generator": "star", "leaves": 13, "link": {"delay_ms": 5.0}},
        publishers=authors,
        subscribers=("s13",),
        workload={"items": 24, "activity_exponent": 0.0, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
    )
    assert len(result.delivered("s13")) == 24


@CONNECT
def test_over_a_medium_that_loses(connect: str) -> None:
    cell = {"name": "cell", "members": ["pub", "s1", "s2"], "delay_ms": 2.0, "losses": {"s2": 10.0}}
    link = {"a": "pub", "b": "s3"}
    result = run(connect, topology={"media": [cell], "links": [link]}, subscribers=("s1", "s2", "s3"))
    for node in ("s1", "s2", "s3"):
        assert result.delivered(node) == ALL


@CONNECT
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_on_the_way_all_have_all_in_the_end(connect: str, seed: int) -> None:
    result = run(connect, **rough_times(seed), settle_ms=300_000)
    assert_all_have_all(result, "s1", "s3", "s4")


def test_seeds_draw_keys() -> None:
    def secrets(seed: int) -> set[Secret]:
        return {each for node in run(seed=seed).nodes.values() for each in node.take_secrets()}

    assert secrets(1) == secrets(1)
    assert not secrets(1) & secrets(2)
