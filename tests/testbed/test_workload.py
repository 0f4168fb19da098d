"""What is published and when."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import feed_of, scenario

from base.units import MS
from ssb.message import Message
from testbed.errors import UserError
from testbed.layerings.nodes.workload import Workload
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Schedule
from testbed.scenario.workload import load, publication_times

REAL = Path(__file__).parents[1] / "data" / "ssb-feed-235.jsonl"


def with_workload(**changes: Any) -> Scenario:
    schedule = {"speed": 1e6, "idle_limit_ms": 50.0}
    return scenario(workload={"schedule": schedule} | changes)


def published(feed: Path) -> Workload:
    return load(with_workload(feed=str(feed)))


def test_a_real_feed_is_published_whole() -> None:
    (feed,) = published(REAL).feeds
    assert [m.sequence for m in feed.messages] == list(range(1, 236))
    assert feed.publisher == "pub"


def test_a_generated_feed_follows_its_seed() -> None:
    first, again, other = (
        load(scenario(seed=seed, workload={"items": 5})).feeds[0].messages for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len(first) == 5


@given(items=st.integers(1, 60), feeds=st.integers(1, 12), exponent=st.floats(0, 3))
@settings(max_examples=15, deadline=None)
def test_feeds_share_the_items_by_a_power_law(items: int, feeds: int, exponent: float) -> None:
    feeds = min(feeds, items)
    wanted = with_workload(items=items, feeds=feeds, activity_exponent=exponent)
    shares = [len(feed.messages) for feed in load(wanted).feeds]
    assert sum(shares) == items
    assert min(shares) >= 1
    assert shares == sorted(shares, reverse=True)


def test_the_shares_are_those_of_the_law() -> None:
    # One each, and 1 : 1/2 : 1/4 of the 70 that are left.
    wanted = with_workload(items=73, feeds=3, activity_exponent=2.0)
    weights = [1, 1 / 4, 1 / 9]
    exact = [1 + 70 * weight / sum(weights) for weight in weights]
    shares = [len(feed.messages) for feed in load(wanted).feeds]
    assert all(abs(share - value) < 1 for share, value in zip(shares, exact, strict=True))


def test_a_feed_with_fewer_items_is_as_much_slower() -> None:
    wanted = with_workload(items=400, feeds=4, activity_exponent=1.0)
    spans = [feed.times[-1] - feed.times[0] for feed in load(wanted).feeds]
    assert max(spans) < 2 * min(spans)


def test_feeds_go_to_publishers_in_turn_and_nobody_follows_his_own() -> None:
    schedule = {"speed": 1e6, "idle_limit_ms": 50.0}
    wanted = scenario(
        publishers=("pub", "s1"), workload={"items": 9, "feeds": 5, "follows": 2, "schedule": schedule}
    )
    made = load(wanted)
    assert [feed.publisher for feed in made.feeds] == ["pub", "s1", "pub", "s1", "pub"]
    assert len({feed.key for feed in made.feeds}) == 5
    for node in ("s1", "s2", "s3", "s4"):
        followed = made.follows[node]
        assert len(followed) == 2
        assert node not in {feed.publisher for feed in followed}
    assert {made.follows[f"s{n}"] for n in range(1, 5)} != {made.follows["s1"]}


def test_a_forked_feed_has_two_valid_branches_that_part_where_it_says() -> None:
    made = load(scenario(fork={"publisher": "s4", "after": 7}, subscribers=("s1",)))
    (feed,) = made.feeds
    assert made.branch is not None
    first, second = feed.messages, made.branch.messages
    assert (made.branch.publisher, made.common, len(second)) == ("s4", 7, len(first))
    assert first[:7] == second[:7]
    assert feed.times[:7] == made.branch.times[:7]
    assert not {m.id for m in first[7:]} & {m.id for m in second[7:]}
    for tip, message in zip((None, *second), second, strict=False):
        message.verify()
        message.follow(tip)
    assert second[7].previous == first[7].previous == first[6].id


def test_a_second_device_has_the_branch_a_feed_or_nothing() -> None:
    """What it writes, and when, is the same in each way; the author would write it under a lock, too."""
    devices = {"publisher": "s4", "after": 7}
    forked, locked, apart, merged = (
        load(scenario(fork=devices | {"cure": cure}, subscribers=("s1",)))
        for cure in ("none", "lock", "feeds", "merge")
    )
    (feed,) = forked.feeds
    assert locked.feeds == forked.feeds == apart.feeds[:1]
    assert locked.branch is apart.branch is None
    assert forked.branch is not None
    assert len(locked.feeds) == 1
    second = apart.feeds[1]
    assert (second.publisher, second.key == feed.key) == ("s4", False)
    assert second.times == forked.branch.times[7:]
    assert [m.content for m in second.messages] == [m.content for m in forked.branch.messages[7:]]
    assert apart.follows["s1"] == apart.feeds
    assert merged.feeds[0] == feed
    assert merged.feeds[1].messages == forked.branch.messages[7:]
    assert (merged.feeds[1].times, merged.feeds[1].key) == (second.times, second.key)
    assert merged.follows["s1"] == merged.feeds
    assert (
        forked.written
        == merged.written
        == locked.written
        == apart.written
        == len(feed.messages) + len(second.messages)
    )
    for tip, message in zip((None, *second.messages), second.messages, strict=False):
        message.verify()
        message.follow(tip)


def test_a_wrong_signature_is_refused_with_its_line(tmp_path: Path) -> None:
    lines = REAL.read_text(encoding="utf-8").splitlines()
    entry = json.loads(lines[16])
    entry["value"]["timestamp"] += 1
    lines[16] = json.dumps(entry)
    path = tmp_path / "feed.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UserError, match=r"feed\.jsonl:17: signature does not verify") as error:
        published(path)
    assert "\n" not in str(error.value)


def test_a_missing_feed_is_one_line() -> None:
    with pytest.raises(UserError, match="nosuch: No such file or directory; give a feed export's path"):
        published(Path("nosuch"))


def stamped(timestamp: float) -> Message:
    original = feed_of(1)[0]
    return Message.from_value(json.loads(original.text) | {"timestamp": timestamp})


def test_times_follow_the_timestamps_faster_and_without_long_silences() -> None:
    feed = [stamped(t) for t in (1000, 3000, 3000, 2000, 1e300, 1e300)]
    times = publication_times(feed, Schedule(speed=10.0, idle_limit_ms=500.0), first=7)
    assert [time - 7 for time in times] == [0, 200 * MS, 200 * MS, 200 * MS, 700 * MS, 700 * MS]
