"""The layering moq in whole networks: items arrive once, in order, whatever happens to relays and links."""

from typing import Any

import pytest
from simulation import Result, load_of, scenario, simulate

from base.units import MS
from ssb.keys import Identity
from ssb.message import Message
from ssb.moq.followed import SUBSCRIPTION_BYTES
from ssb.moq.tracks import track_of
from testbed.experiment.emulated_run import Emulation
from testbed.layerings.kinds.moq import RelayNode

LINE = {"generator": "line", "length": 3, "link": {"delay_ms": 5.0}}
TWO_WAYS = {
    "links": [
        *({"a": "pub", "b": "r1"}, {"a": "r1", "b": "a"}, {"a": "a", "b": "r2"}),
        *({"a": "r1", "b": "b", "delay_ms": 15.0}, {"a": "b", "b": "r2", "delay_ms": 15.0}),
        {"a": "r2", "b": "s1"},
    ],
    "link": {"delay_ms": 10.0},
}
ALL = list(range(1, 21))


def run(parameters: dict[str, Any] | None = None, **changes: Any) -> Result:
    given = {"settle_ms": 20_000, "parameters": {"moq": parameters or {}}}
    return simulate(scenario(**given | changes), "moq")


def test_everything_arrives_once_and_in_order() -> None:
    result = run()
    for node in ("s1", "s2", "s3", "s4"):
        assert result.delivered(node) == ALL


@pytest.mark.parametrize("cache", [0, 65_536])
def test_links_may_lose(cache: int) -> None:
    lossy = LINE | {"link": {"delay_ms": 5.0, "loss_percent": 5.0}}
    result = run({"cache": cache}, topology=lossy, subscribers=("s1",), settle_ms=40_000)
    assert result.delivered("s1") == ALL


@pytest.mark.parametrize("cache", [0, 3, 65_536])
def test_a_late_joiner_gets_all(cache: int) -> None:
    result = run({"cache": cache}, plans={"s1": {"start_ms": 900.0}})
    assert result.delivered("s1") == ALL
    assert result.delivered("s2") == ALL


@pytest.mark.parametrize("node", ["pub", "s1", "r1"])
def test_whoever_starts_anew_goes_on(node: str) -> None:
    result = run(events=({"at_ms": 450, "restart": node},), settle_ms=60_000)
    for name in ("s1", "s2"):
        assert result.delivered(name) == ALL


def test_a_dead_link_is_noticed_and_the_other_way_is_taken() -> None:
    events = ({"at_ms": 300, "link_down": "a r2", "signalled": False},)
    result = run({"idle_ms": 2000}, topology=TWO_WAYS, subscribers=("s1",), events=events)
    assert result.delivered("s1") == ALL
    late = [e for e in result.events["s1"] if e["event"] == "delivered" and e["time"] > 2_000_000_000]
    assert late
    assert result.nodes["r2"].counters()["refused"] == 1


def test_new_routes_move_a_subscription_at_once() -> None:
    events = ({"at_ms": 300, "link_down": "a r2"},)
    routing = {"converge_ms": 100.0}
    result = run(topology=TWO_WAYS, subscribers=("s1",), events=events, routing=routing)
    assert result.delivered("s1") == ALL
    assert max(e["time"] for e in result.events["s1"] if e["event"] == "delivered") < 3_000_000_000
    assert result.nodes["r2"].counters() == {"refused": 0, "rejected": 0, "route_changes": 1}


def test_a_relay_holds_sessions_subscriptions_and_routes() -> None:
    wanted = scenario(topology=LINE, subscribers=("s1",))
    workload = load_of(wanted)
    emulation = Emulation(wanted, "moq", workload)
    emulation.run(300 * MS)
    size = track_of(workload.feeds[0].key).size
    assert size == 38
    assert emulation.nodes["r1"].held() == {
        "connections": (2, 80),
        "exchanges": (2, size + 2 * SUBSCRIPTION_BYTES),
        "routes": (1, size + 8),
    }


def test_an_item_that_is_none_is_dropped() -> None:
    node = run(topology=LINE, subscribers=("s1",)).nodes["s1"]
    assert isinstance(node, RelayNode)
    ((feed, before),) = node._store.tips().items()
    other = Message.create(Identity.from_seed(bytes(32)), None, {"type": "post", "text": "x"}, 1.0)
    forged = node._store.after(feed, 5, 1)[0].text.replace(b"post", b"past")
    node._role.follows = {feed: None}  # type: ignore[dict-item]
    for text in (b"garbage", other.encoded, forged):
        node._relay.received.append((track_of(feed), before, text))
        node._take_in(0)
    assert node.counters()["rejected"] == 3
    assert node._store.tips()[feed] == before


def test_a_reader_of_a_forged_item_accepts_no_later_one() -> None:
    node = run(topology=LINE, subscribers=("s1",)).nodes["s1"]
    assert isinstance(node, RelayNode)
    author = Identity.from_seed(bytes(32))
    first = Message.create(author, None, {"type": "post", "text": "x"}, 1.0)
    second = Message.create(author, first, {"type": "post", "text": "y"}, 2.0)
    node._role.follows = {author.ref: None}  # type: ignore[dict-item]
    forged = first.encoded.replace(b"post", b"past")
    for number, text in ((0, forged), (1, second.encoded)):
        node._relay.received.append((track_of(author.ref), number, text))
    node._take_in(0)
    assert node.counters()["rejected"] == 2
    assert node.take_actions() == []  # it fetches no item twice
