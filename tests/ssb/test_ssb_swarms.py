"""Swarms of whole peers: what must hold holds on many seeds, and deliberate bugs are found."""

from collections import Counter

import pytest
from fresh_seeds import first_fresh_seed
from mutants.devices import MUTANTS as DEVICE_MUTANTS
from mutants.devices import PEER_MUTANTS
from mutants.patches import mutated
from mutants.rooms import ROOM_MUTANTS
from mutants.swarms import HOLE_MUTANTS, MUTANTS

from testbed.verify.kit.family import from_text, to_text
from testbed.verify.kit.search import play_seeds
from testbed.verify.kit.shrink import shrink
from testbed.verify.swarms.story import HOSTILE, make_swarm
from testbed.verify.swarms.world import SWARMS

SEEDS = 100
FRESH = 40
WITHIN = 150
PLAYS = 40
ALL_MUTANTS = MUTANTS | HOLE_MUTANTS | DEVICE_MUTANTS | PEER_MUTANTS | ROOM_MUTANTS
FROM = {
    "called once": 187,
    "messages not verified": 182,
    "patience without end": 842,
    "progress not told": 157,
    "proofs of forks dropped": 225,
    "remote clock as sent": 1200,
    "wants end with nothing": 207,
    "wants not told to who comes later": 292,
    # Logs with holes.
    "contents stay": 152,
    "anybody asks to delete": 257,
    "a false claim deletes": 263,
    "deleted for all that name it": 235,
    "fetched again for others": 152,
    "fetched again after a restart": 152,
    "the user's deletions forgotten": 362,
    "any blob shown as content": 152,
    "any blob stored": 152,
    "bytes of broken transfers counted": 152,
    "blobs not told": 172,
    "wants of blobs not told to who comes later": 280,
    "patience with blobs": 559,
    # Devices.
    "strangers invite and end": 178,
    "no consent is needed": 461,
    "any proof counts": 178,
    "an end is none beside other messages": 155,
    "a message is judged by all that came before it": 468,
    "nothing waits": 155,
    "statements of devices are apart": 193,
    "keys are not handed on": 155,
    "each device has a name of its own": 164,
    "invited feeds are not replicated": 193,
    # Rooms.
    "the room says who calls": 196,
    "the first way only": 50230,
    "a handshake outlives a farewell": 307,
    "a tunnel is no connection": 181,
    "half a tunnel stays": 165,
    "nothing is sealed inside tunnels": 165,
    "who comes is not told of": 174,
}
"""Where the search for a mutant begins, if not at 150: before a story that meets it, maybe one in 400."""
REMOVED = 155
"""A story in which a device is removed, as in one of 200."""
HAPPENS = {
    *("write", "stored", "connected", "closed", "refused"),
    *(
        "cut",
        "heal",
        "restart",
        "forget",
        "follow",
        "leave",
        "block",
        "ended",
        "goes on",
        "want",
        "out of order",
    ),
    *("drop", "fetch", "content", "deleted", "false content"),
    *("enter", "exit", "tunnel", "tunnel dropped", "tunnel delayed", "tunnel altered", "tunnel swallowed"),
    *("misled", "invented", "impersonated"),
    *("invite done", "join done", "remove done", "intrude done", "command refused", "one name"),
}
"""What the seeds must have met at least once, or what holds has not been tried."""


def played(first: int, count: int) -> Counter[str]:
    found = play_seeds(range(first, first + count), SWARMS)
    assert not found.failures, found.failures
    return found.coverage


def test_what_must_hold_holds_and_everything_has_happened() -> None:
    coverage = played(0, SEEDS) + played(REMOVED, 1)
    assert {what for what in HAPPENS if not coverage[what]} == set()
    kinds = {kind for seed in range(SEEDS) for kind in make_swarm(seed).hostile.values()}
    assert kinds == {*HOSTILE}


def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to() -> None:
    played(first_fresh_seed(), FRESH)


def test_a_wish_outlives_the_peer_that_heard_it() -> None:
    """A peer is killed that had heard that another one now replicates a feed; neither says so again."""
    played(19382910647803, 1)


@pytest.mark.parametrize("seed", [7002892, 12000082])
def test_two_friends_leave_a_bad_room_at_once(seed: int) -> None:
    """They are in a good one, too; or only one of them knows the other's address, and both call at once."""
    played(seed, 1)


@pytest.mark.parametrize("seed", [*range(0, 20, 4), FROM["any blob stored"], FROM["any proof counts"]])
def test_a_replay_is_exact(seed: int) -> None:
    first, again = SWARMS.play_seed(seed), SWARMS.play_seed(seed)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)


@pytest.mark.parametrize("name", ["any blob shown as content", "nothing waits", "half a tunnel stays"])
def test_a_failing_story_with_holes_users_or_rooms_is_cut_down_and_plays_again(name: str) -> None:
    story = make_swarm(FROM[name])
    with mutated(name, ALL_MUTANTS):
        short = shrink(SWARMS, story, plays=PLAYS)
        loaded = from_text(to_text(SWARMS, short), {SWARMS.name: SWARMS}, "")[1]
        first, again = SWARMS.play(short), SWARMS.play(loaded)
    assert loaded == short
    assert first.violation is not None
    assert str(first.violation) == str(again.violation)
    assert (first.digest, first.time) == (again.digest, again.time)
    assert len(short.steps) < len(story.steps)
    kept, had = ([bool(part) for part in (each.holes, each.users, each.rooms)] for each in (short, story))
    assert kept == had


@pytest.mark.parametrize("name", ALL_MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    first = FROM.get(name, 150)
    with mutated(name, ALL_MUTANTS):
        caught = next(
            (seed for seed in range(first, first + WITHIN) if SWARMS.play_seed(seed).violation is not None),
            None,
        )
    assert caught is not None, f"{name!r} passes {WITHIN} seeds"
    assert SWARMS.play(make_swarm(caught)).violation is None
