"""The emulator: what comes first at one instant, links that break, nodes that start anew."""

from typing import Any

import pytest
from simulation import Result, load_of, scenario, simulate

from base.units import MS


def test_an_entry_that_expires_is_gone_for_the_packet_of_that_instant() -> None:
    # A repeated poll reaches r1 at the very nanosecond at which the Interest before it expires there.
    line = {"generator": "line", "length": 2, "link": {"delay_ms": 5.0}}
    parameters = {"poll": {"window": 1, "lifetime_ms": 100}}
    wanted = scenario(topology=line, subscribers=("s1",), parameters=parameters, warmup_ms=1050, settle_ms=0)
    counters = simulate(wanted, "poll", items=1).nodes["r1"].host.forwarder.counters
    assert counters.in_interests == 11
    assert counters.expired == 10
    assert counters.satisfied == 1


LINE = {"generator": "line", "length": 2, "link": {"delay_ms": 5.0}}


def with_events(*events: dict[str, Any], **changes: Any) -> Result:
    basic = {"topology": LINE, "subscribers": ("s1",), "settle_ms": 10_000}
    return simulate(scenario(**(basic | changes), events=events), "lli")


def arrivals(result: Result, interface: str) -> list[int]:
    return [seen.time for seen in result.packets if seen.interface == interface and not seen.sent]


def test_nothing_arrives_over_a_link_that_is_down_nor_what_was_under_way() -> None:
    far = {"topology": LINE | {"link": {"delay_ms": 50.0}}, "subscribers": ("s1",)}
    down = load_of(scenario(**far)).feeds[0].times[9]
    up = down + 400 * MS
    result = with_events(
        {"at_item": 10, "link_down": "r1 s1", "signalled": False},
        {"at_ms": up / MS, "link_up": "s1 r1", "signalled": False},
        **far,
    )
    assert not [time for time in arrivals(result, "s1-eth0") if down <= time < up + 50 * MS]
    sent = [seen.time for seen in result.packets if seen.interface == "r1-eth1" and seen.sent]
    assert [time for time in sent if down - 50 * MS <= time < down], "something was under way"
    assert [time for time in sent if down <= time < up], "nobody had noticed"
    assert result.delivered("s1") == list(range(1, 21))


@pytest.mark.parametrize("signalled", [True, False])
def test_only_a_signalled_break_is_noticed(signalled: bool) -> None:
    result = with_events({"at_ms": 300, "link_down": "r1 s1", "signalled": signalled})
    sent = [s.time for s in result.packets if s.interface == "s1-eth0" and s.sent and s.time >= 300 * MS]
    assert bool(sent) != signalled
    (row,) = result.events["r1--s1"]
    assert (row["time"], row["event"], row["signalled"]) == (300 * MS, "link-down", signalled)


@pytest.mark.parametrize("node", ["pub", "r1", "s1"])
def test_a_node_that_starts_anew_loses_its_state_and_its_applications_go_on(node: str) -> None:
    at = 300
    result = with_events({"at_ms": at, "restart": node})
    counters = result.nodes[node].host.forwarder.counters
    before = [s for s in result.packets if s.interface.startswith(f"{node}-") and s.time < at * MS]
    assert before
    assert counters.in_interests < sum(
        not s.sent for s in result.packets if s.interface.startswith(f"{node}-")
    )
    assert result.delivered("s1") == list(range(1, 21)), "each once"
    published = [e["seq"] for e in result.events["pub"] if e["event"] == "published"]
    assert published == list(range(1, 21)), "each once"
    assert [e["time"] for e in result.events[node] if e["event"] == "restart"] == [at * MS]


def test_the_same_events_give_the_same_capture() -> None:
    events = (
        {"at_item": 5, "restart": "r1"},
        {"at_item": 9, "link_down": "r1 s1"},
        {"at_ms": 900, "link_up": "r1 s1"},
    )
    assert with_events(*events).capture == with_events(*events).capture


def test_a_link_that_duplicates_delivers_each_item_once() -> None:
    link = {"delay_ms": 5.0, "jitter_ms": 3.0, "duplicate_percent": 50.0}
    result = simulate(scenario(topology=LINE | {"link": link}, subscribers=("s1",)), "lli")
    assert len(arrivals(result, "s1-eth0")) > 25
    assert result.delivered("s1") == list(range(1, 21))


def test_a_node_that_never_rests_is_an_error_not_a_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forwarder.host.Host.next_deadline", lambda host: 7)
    with pytest.raises(RuntimeError, match="wants to be woken at 7 ns for ever"):
        with_events()


DETOUR = {
    "links": [
        {"a": "pub", "b": "r1"},
        {"a": "r1", "b": "s1"},
        {"a": "pub", "b": "r2", "delay_ms": 20.0},
        {"a": "r2", "b": "s1", "delay_ms": 20.0},
    ],
    "link": {"delay_ms": 5.0},
}


@pytest.mark.parametrize("layering", ["lli", "poll", "notify", "ssb", "append-poll"])
@pytest.mark.parametrize("converges", [True, False])
def test_routes_follow_a_break_when_the_scenario_says_so(layering: str, converges: bool) -> None:
    """The only way that is used breaks unnoticed, and for good."""
    routing = {"paths": "shortest"} | ({"converge_ms": 100.0} if converges else {})
    wanted = scenario(
        topology=DETOUR,
        subscribers=("s1",),
        routing=routing,
        events=({"at_ms": 600, "link_down": "r1 s1", "signalled": False},),
        warmup_ms=500,
        settle_ms=12_000,
    )
    result = simulate(wanted, layering)
    whole = result.delivered("s1") == list(range(1, 21))
    assert whole == converges


@pytest.mark.parametrize("layering", ["lli", "poll", "ssb"])
def test_a_node_that_has_stopped_does_nothing_until_it_starts(layering: str) -> None:
    wanted = scenario(
        topology=LINE,
        subscribers=("s1",),
        events=({"at_ms": 900, "stop": "s1"}, {"at_ms": 2500, "start": "s1"}),
        settle_ms=6_000,
    )
    result = simulate(wanted, layering)
    times = {row["seq"]: row["time"] for row in result.events["s1"] if row["event"] == "delivered"}
    assert [*times] == list(range(1, 21))
    assert [time for time in times.values() if time < 900 * MS]
    assert not [time for time in times.values() if 900 * MS < time < 2500 * MS]
    if layering in ("lli", "poll"):
        sent = [each.time for each in result.packets if each.interface == "s1-eth0" and each.sent]
        assert [time for time in sent if time < 900 * MS]
        assert not [time for time in sent if 900 * MS < time < 2500 * MS]
    happened = [row["event"] for row in result.events["s1"]]
    assert [event for event in happened if event in ("stop", "start")] == ["stop", "start"]


def test_a_link_changes_for_the_frames_that_come_after() -> None:
    result = with_events({"at_ms": 900, "link_change": "pub r1", "set": {"delay_ms": 80.0}})
    sent = [each for each in result.packets if each.interface == "pub-eth0" and each.sent]
    received = [each for each in result.packets if each.interface == "r1-eth0" and not each.sent]
    taken = [(out.time, into.time - out.time) for out, into in zip(sent, received, strict=True)]
    assert {delay for time, delay in taken if time < 900 * MS} == {5 * MS}
    assert {delay for time, delay in taken if time >= 900 * MS} == {80 * MS}
    (row,) = result.events["pub--r1"]
    assert (row["event"], row["signalled"]) == ("link-change", False)
