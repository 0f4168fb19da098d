"""Some thousands of small worlds: what must hold, holds."""

from collections import Counter

import pytest
from fresh_seeds import first_fresh_seed
from saved_stories import SAVED

from testbed.verify.classic.family import CLASSIC
from testbed.verify.kit.chart import draw
from testbed.verify.kit.search import play_seeds
from testbed.verify.kit.shrink import shrink
from testbed.verify.push.family import PUSH
from testbed.verify.push.stories.make import make_story
from testbed.verify.push.stories.story import FORGERIES, MISCHIEF

pytestmark = pytest.mark.long

SEEDS = 500
FRESH = 500
MORE = 5_000
CHUNK = 500

HAPPENS = {
    *("frame lost", "frame twice", "frame late", "frame lost: cut", "frame lost: queue full"),
    *("cut, signalled", "cut, silent", "heal", "restart"),
    *("subscribe", "come again", "cancel", "stall", "delivered"),
    *("adoption", "demands", "deaths", "waits", "relays lost their only way together"),
    *("rewind", "failover", "item by a legacy node", "published after a fork", "error fork"),
    *("sent lli", "sent cancel", "sent item", "sent idle", "sent nack", "sent interest", "congestion mark"),
    *(f"injected {kind}" for kind in (*FORGERIES, *MISCHIEF)),
}
"""What the seeds must have met at least once, or what holds has not been tried."""


@pytest.fixture(scope="module")
def coverage() -> Counter[str]:
    return Counter()


@pytest.mark.parametrize("name", SAVED)
def test_what_once_went_wrong_does_not(name: str) -> None:
    assert CLASSIC.play(SAVED[name]).violation is None


@pytest.mark.compiled
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_what_must_hold_holds(first: int, coverage: Counter[str]) -> None:
    coverage.update(played(first))


@pytest.mark.compiled
@pytest.mark.parametrize("chunk", range(FRESH // CHUNK))
def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to(chunk: int) -> None:
    played(first_fresh_seed() + chunk * CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(1, MORE // CHUNK))
def test_what_must_hold_holds_on_more_of_them(chunk: int) -> None:
    played(first_fresh_seed() + chunk * CHUNK)


def played(first: int) -> Counter[str]:
    found = play_seeds(range(first, first + CHUNK), PUSH)
    if found.failures:
        short = shrink(PUSH, make_story(found.failures[0].seed))
        pytest.fail(f"{found.failures}\n{draw(short, PUSH.play(short, record=True))}")
    return found.coverage


@pytest.mark.compiled
def test_everything_has_happened(coverage: Counter[str]) -> None:
    assert coverage["delivered"], "runs after the seeds"
    assert {what for what in HAPPENS if not coverage[what]} == set()
