"""Layering `link` in whole runs: no routes to feeds, authors who move, services that start anew."""

from functools import cache
from itertools import pairwise

import pytest
from simulation import Result, simulate

from forwarder.wire.name import from_uri
from testbed.errors import UserError
from testbed.layerings.kinds.link import LinkNode, candidates
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load
from testbed.scenario.sections import Change
from testbed.scenario.timeline import expected

ITEMS = 240


@cache
def ran(storage: str, **more: object) -> tuple[Scenario, Result]:
    wanted = load(
        "mobile", layerings=("link",), items=ITEMS, parameters={"link": {"storage": storage, **more}}
    )
    return wanted, simulate(wanted, "link")


def node(result: Result, name: str) -> LinkNode:
    found = result.nodes[name]
    assert isinstance(found, LinkNode)
    return found


@pytest.mark.parametrize("storage", ["stays", "follows"])
def test_commuters_are_read(storage: str) -> None:
    wanted, result = ran(storage)
    counts = {name: len(result.delivered(name)) for name in ("home", "work")}
    assert counts == expected(wanted, result.load, result.timeline)


def test_no_forwarder_has_a_route_to_a_feed() -> None:
    """Routes lead to servers and storages; a storage's node has one for all feeds, to the storage."""
    _, result = ran("follows")
    logs = from_uri("/ssb/logs")
    for name in ("core", "home", "r2", "work"):
        prefixes = [prefix for prefix, _ in node(result, name).host.forwarder.fib.items()]
        assert not [prefix for prefix in prefixes if prefix.startswith(logs) and prefix != logs]
        assert len(prefixes) == 6


def test_a_record_changes_when_the_log_has_moved_and_readers_follow_within_two_times_to_live() -> None:
    _, result = ran("follows")
    rows = [row for rows in result.events.values() for row in rows]
    mapped = sorted((row["feed"], row["time"], row["seq"]) for row in rows if row["event"] == "mapped")
    again = [(after, time) for (feed, *_), (other, time, after) in pairwise(mapped) if feed == other]
    assert len(again) == 8  # moves
    for seq, time in again:
        used = [row["time"] for row in rows if row["event"] == "resolved" and row["seq"] == seq]
        # A later move may come before a reader has seen this one.
        assert all(at - time < 4_200_000_000 for at in used)
        assert all(at >= time for at in used)


def test_records_of_logs_that_stay_do_not_change() -> None:
    _, result = ran("stays")
    rows = [row for rows in result.events.values() for row in rows if row["event"] == "mapped"]
    assert len(rows) == len({row["feed"] for row in rows}) == 3


def test_services_that_start_anew_are_told_again() -> None:
    """A server and a storage are on r1; devices notice when they renew their records."""
    wanted = load(
        "mobile",
        layerings=("link",),
        items=ITEMS,
        parameters={"link": {"storage": "stays", "record_ms": 4000}},
    )
    (first, *_) = candidates(wanted.network, {*wanted.sources, *wanted.subscribers})
    again = wanted.model_copy(update={"events": (Change(at_ms=6000, restart=first),)})
    result = simulate(again, "link")
    counts = {name: len(result.delivered(name)) for name in ("home", "work")}
    assert counts == expected(again, result.load, result.timeline)
    storages = [node(result, name).storage for name in wanted.network.nodes]
    assert sum(storage.messages for storage in storages if storage is not None) == ITEMS


def test_what_link_cannot_do_is_one_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match="an export has no secret key"):
        load("fanout", layerings=("link",), feed=str(tmp_path / "feed.jsonl"))
    pair = tmp_path / "pair.toml"
    pair.write_text(
        'title = "pair"\nlayerings = ["link"]\npublisher = "a"\n[topology]\nlinks = [{ a = "a", b = "b" }]\n'
    )
    with pytest.raises(UserError, match="a node that neither publishes nor follows"):
        load(str(pair))
    with pytest.raises(UserError, match="gateways do not know link"):
        load("gateways", layerings=("link",))
