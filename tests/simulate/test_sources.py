"""The observers of upstreams: what they see, and that the networks that seeds draw show it to them."""

import json
from collections import Counter
from unittest.mock import patch

import pytest
from mutants.patches import mutated
from mutants.sources import SOURCE_MUTANTS
from saved_stories import SAVED

from testbed.verify.kit.explore import SearchFindings, climb_all
from testbed.verify.push.family import PUSH
from testbed.verify.push.stories.make import make_story
from testbed.verify.push.stories.networks import OUTAGES, NetworkMaker
from testbed.verify.push.stories.promise import PLAIN_NS, promise
from testbed.verify.push.stories.story import Story
from testbed.verify.push.world.sources import Sources

SOME = 150


@pytest.fixture(scope="module")
def networks() -> list[Story]:
    return [NetworkMaker(seed).make() for seed in range(SOME)]


def test_networks_are_of_all_sizes_and_kinds(networks: list[Story]) -> None:
    assert min(len(story.nodes) for story in networks) <= 5
    assert max(len(story.nodes) for story in networks) >= 30
    assert max(len(story.feeds) for story in networks) >= 20
    shown: Counter[str] = Counter()
    for story in networks:
        assert Story.from_json(json.loads(json.dumps(story.to_json()))) == story
        shown["converging"] += story.converge is not None
        shown["legacy"] += not all(node.push for node in story.nodes)
        shown["mixed"] += len({node.recovery for node in story.nodes}) > 1
        shown["small caches"] += any(node.cache_items == 8 for node in story.nodes)
        shown["quotas"] += any(node.cache_feeds < 8 for node in story.nodes)
        for step in story.steps:
            if step.do == "cut":
                shown["told" if step.what[2] else "not told"] += 1
            shown[step.do] += 1
        starts = {step.what[:2]: step.at for step in story.steps if step.do == "cut"}
        lasts = [step.at - starts[step.what[:2]] for step in story.steps if step.do == "heal"]
        for timer in OUTAGES:
            shown[f"just over {timer}"] += any(timer < each <= timer * 3 // 2 for each in lasts)
            shown[f"just under {timer}"] += any(timer // 2 <= each < timer for each in lasts)
    assert all(shown.values()), shown


def test_most_stories_are_small() -> None:
    sizes = [len(make_story(seed).nodes) for seed in range(200)]
    assert sum(size <= 8 for size in sizes) > 100


@pytest.mark.patches
@pytest.mark.parametrize("name", ["evidence not compared", "evidence lost with the source"])
def test_a_loop_is_seen(name: str, networks: list[Story]) -> None:
    # Worse evidence would be seen first.
    with mutated(name, SOURCE_MUTANTS), patch.object(Sources, "_check_evidence"):
        violations = (PUSH.play(story).violation for story in networks)
        first = next(violation for violation in violations if violation is not None)
    assert first.invariant == "loop"
    assert "->" in first.detail


@pytest.mark.patches
def test_an_upstream_without_a_source_is_seen() -> None:
    # Nobody notices a neighbour's silence: those behind it go on counting as fed.
    with mutated("silence unnoticed", SOURCE_MUTANTS):
        violations = (PUSH.play(make_story(seed)).violation for seed in (409, *range(400)))
        assert "source" in (violation.invariant for violation in violations if violation is not None)


@pytest.mark.patches
def test_a_forgotten_next_hop_is_seen() -> None:
    with mutated("silent hops forgotten", SOURCE_MUTANTS):
        violation = PUSH.play(SAVED["left-hop-delivers"]).violation
    assert violation is not None
    assert violation.invariant == "hops"


def test_the_bound_is_short_where_nothing_special_takes_part() -> None:
    promises = [promise(make_story(seed)) for seed in range(200)]
    assert sum(each.is_plain for each in promises) > 100
    assert all(each.within >= PLAIN_NS for each in promises)


def test_a_climb_finds_slower_stories_than_it_begins_with() -> None:
    parts = list(climb_all(PUSH, 1, 60, 1))
    assert sum(part.stories for part in parts) == 60
    found: SearchFindings[Story] = parts[-1]
    assert not found.failures
    times = [time for time, _ in found.slowest]
    assert times == sorted(times, reverse=True)
    time, story = found.slowest[0]
    assert PUSH.lateness(story, PUSH.play(story)) == time
    assert promise(story).is_plain
