"""Sessions: a link is down whenever one of its ends is offline, and mended in the end."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from simulation import load_of, scenario

from base.units import MS
from testbed.errors import UserError
from testbed.library import scenarios
from testbed.scenario.reader import load
from testbed.scenario.sessions import session_changes
from testbed.scenario.timeline import Timeline

LINKS = [{"a": "ann", "b": "r1"}, {"a": "ben", "b": "r1"}, {"a": "ann", "b": "ben"}, {"a": "r1", "b": "r2"}]


def people(**changes: Any) -> Any:
    """Two people, each with a link to a router and one to the other."""
    table = {
        "topology": {"links": LINKS},
        "publishers": ("ann", "ben"),
        "subscribers": ("ann", "ben"),
        "sessions": {"online_ms": 200.0, "offline_ms": 100.0},
        "workload": {"items": 200, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
    }
    return scenario(**table | changes)


def downtimes(wanted: Any) -> dict[str, list[tuple[float, float]]]:
    """When each link is down; every break is mended before the next."""
    downs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    begun: dict[str, float] = {}
    changes = session_changes(wanted, load_of(wanted))
    assert [change.at_ms for change in changes] == sorted(change.at_ms or 0 for change in changes)
    for change in changes:
        assert change.at_ms is not None
        assert change.is_signalled
        if change.link_down:
            assert change.link_down not in begun
            begun[change.link_down] = change.at_ms
        else:
            assert change.link_up is not None
            downs[change.link_up].append((begun.pop(change.link_up), change.at_ms))
    assert not begun
    return downs


@pytest.mark.parametrize("seed", range(20))
def test_a_link_is_down_when_one_of_its_ends_is_offline(seed: int) -> None:
    downs = downtimes(people(seed=seed))
    assert downs.keys() == {"ann r1", "ben r1", "ann ben"}, "a router is always online"
    moments = {time for spans in downs.values() for span in spans for time in span}
    for moment in moments:
        for time in (moment - 0.0001, moment + 0.0001):
            down = {link: any(a <= time < b for a, b in spans) for link, spans in downs.items()}
            assert down["ann ben"] == (down["ann r1"] or down["ben r1"])


def test_all_are_online_before_the_first_item_and_from_the_last_on() -> None:
    wanted = people(seed=3)
    feeds = load_of(wanted).feeds
    first, last = min(feed.times[0] for feed in feeds), max(feed.times[-1] for feed in feeds)
    spans = [span for spans in downtimes(wanted).values() for span in spans]
    assert all(first / MS <= begin < end <= last / MS for begin, end in spans)
    plain = people(seed=3, sessions=None)
    with_sessions, without = (Timeline.of(each, load_of(each), 0) for each in (wanted, plain))
    assert (with_sessions.settle, with_sessions.end) == (without.settle, without.end)


def test_times_have_the_means_that_are_asked_for() -> None:
    table = {"items": 20_000, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}
    downs = downtimes(people(workload=table, subscribers=("ann",), publishers=("ben",)))["ann r1"]
    offline = [end - begin for begin, end in downs]
    online = [after[0] - before[1] for before, after in pairwise(downs)]
    assert len(offline) > 300
    assert 85 < sum(offline) / len(offline) < 115
    assert 170 < sum(online) / len(online) < 230


def test_seeds_draw_them() -> None:
    assert downtimes(people(seed=1)) == downtimes(people(seed=1)) != downtimes(people(seed=2))
    assert not session_changes(people(sessions=None), load_of(people()))


def test_people_on_a_medium_have_no_link_to_lose(tmp_path: Any) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        """
title = "A cell"
layerings = ["ssb"]
publisher = "a"
subscribers = ["b"]
[[topology.media]]
name = "cell"
members = ["a", "b"]
[sessions]
online_ms = 10
offline_ms = 10
"""
    )
    with pytest.raises(UserError, match="sessions: people go offline with their links, and a broadcast"):
        load(str(path))


def test_a_zone_sleeps_together_and_zones_one_after_the_other() -> None:
    names = [f"n{number}" for number in range(6)]
    wanted = people(
        topology={"links": [{"a": name, "b": "r"} for name in names]},
        publishers=tuple(names),
        subscribers=tuple(names),
        sessions={"online_ms": 1e7, "offline_ms": 1.0, "day_ms": 900.0, "zones": 3, "night": 0.5},
        workload={"items": 400, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}},
    )
    downs = downtimes(wanted)
    first = min(feed.times[0] for feed in load_of(wanted).feeds) / MS
    last = max(feed.times[-1] for feed in load_of(wanted).feeds) // MS
    assert last - first > 2 * 900
    nights: dict[int, list[tuple[float, float]]] = {}
    for zone in range(3):
        ours, theirs = downs[f"n{zone} r"], downs[f"n{zone + 3} r"]
        assert ours == theirs, "two who are in one zone"
        nights[zone] = ours
    begin = first + 450
    assert nights[0][:2] == [(begin, begin + 450), (begin + 900, begin + 1350)]
    assert nights[1][:2] == [(begin - 300, begin + 150), (begin + 600, begin + 1050)]
    assert nights[2][:2] == [(first, begin - 150), (begin + 300, begin + 750)]
    assert all(end <= last for spans in nights.values() for _, end in spans)


def test_a_night_that_is_no_share_of_a_day_is_refused(tmp_path: Path) -> None:
    text = scenarios()["intermittent"].read_text()
    for before, after, said in (
        ("day_ms = 9000.0\n", "", "zones belongs to day_ms"),
        ("night = 0.5", "night = 1.0", "must be at most 0.99"),
        ("zones = 3", "zones = 0", "must be at least 1"),
    ):
        (tmp_path / "own.toml").write_text(text.replace(before, after))
        with pytest.raises(UserError, match=said):
            load(str(tmp_path / "own.toml"))
