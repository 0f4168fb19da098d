"""Stories of a provider and its clients: what must hold holds, and deliberate bugs are found."""

from collections import Counter

import pytest
from click.testing import CliRunner
from fresh_seeds import first_fresh_seed
from mutants.patches import mutated
from mutants.tiny import MUTANTS

from base.units import SECOND
from ssb.store.feeds import StoreError
from ssb.tiny.feed import ForkedFeed
from ssb.tiny.isp.terms import Terms
from testbed.cli.simulate import simulate
from testbed.verify.kit.outcome import Outcome, OutcomeOptions
from testbed.verify.kit.outcome import played as played_in
from testbed.verify.kit.search import play_seeds
from testbed.verify.kit.story import Step
from testbed.verify.tiny.story import ABOVE, INSIDE, ISP, OUTSIDE, Cell, Kill, make_story
from testbed.verify.tiny.world import TINY, CellWorld

SEEDS = range(9, 14)
"""Short stories, in which most things happen."""
FRESH = 3
MANY = 70
"""Stories, of which each attack has one at least."""
WITHIN = 60
QUICK = 60 * SECOND
"""After its last step the dialogue is well much earlier than that."""
HAPPENS = {
    *("onboard", "onboarded", "announced", "subscribe", "requested", "subscribed", "refused", "send", "sent"),
    *("received", "read", "unsubscribe", "ended", "leave", "dismiss", "part", "farewell", "over", "killed"),
    *("off", "on", "sleep", "awake", "found done", "post done", "unpeer", "accused"),
}
"""What the seeds must have met at least once, or what holds has not been tried."""
CAUGHT_BY_THE_STORE = (StoreError, ForkedFeed)
IN_STORIES = {
    "what cannot be assigned is passed over",
    "a line ends before the farewell is agreed",
    "a farewell waits for receivers",
    "a line ends before all is sent",
    "marks lag behind",
    "no last words",
    "proofs are not verified",
    "members of a group are forgotten",
    "what is lost is still told",
    "other providers are told to pause for ever",
    "pauses unheard",
    "signatures are not verified",
    "the limit of commands is unheeded",
}
"""Mutants that the short dialogue does not meet: `make test-slow` looks for them in stories."""


def played(first: int, count: int) -> Counter[str]:
    found = play_seeds(range(first, first + count), TINY)
    assert not found.failures, found.failures
    return found.coverage


def test_what_must_hold_holds() -> None:
    played(SEEDS.start, len(SEEDS))


def test_what_must_hold_holds_on_seeds_that_nobody_has_tuned_to() -> None:
    played(first_fresh_seed(), FRESH)


def test_a_sender_that_leaves_does_not_wait_for_a_receiver_that_is_gone() -> None:
    """The receiver is another provider's client, and the sender was told to pause before it left."""
    assert TINY.play_seed(9_500_004).violation is None


def test_a_provider_that_forges_answers_cannot_explain_what_honest_ones_send_then() -> None:
    assert TINY.play_seed(9_810_095).violation is None


@pytest.mark.slow
def test_what_must_hold_holds_on_many_seeds_and_everything_has_happened() -> None:
    coverage = played(0, MANY) + played(first_fresh_seed() + FRESH, 20)
    assert {what for what in HAPPENS if not coverage[what]} == set()
    assert {kind for seed in range(MANY) for kind in make_story(seed).hostile.values()} == {
        *INSIDE,
        *OUTSIDE,
        *ABOVE,
    }


def test_the_command() -> None:
    ran = CliRunner().invoke(simulate, ["tiny", "--seeds", "3", "--jobs", "1", "--first", "10"])
    assert ran.exit_code == 0, ran.output
    assert "3 seeds from 10, " in ran.output
    ran = CliRunner().invoke(simulate, ["tiny", "--seed", "11"])
    assert ran.output.startswith("seed 11: everything holds (")


def test_a_replay_is_exact() -> None:
    first, again = TINY.play_seed(10), TINY.play_seed(10)
    assert (first.digest, first.time, first.coverage) == (again.digest, again.time, again.coverage)


def quick(story: Cell) -> Outcome:
    return played_in(lambda: CellWorld(story, OutcomeOptions(), within=QUICK), OutcomeOptions())


def dialogue(kill: Kill | None) -> Cell:
    """Onboarding, a subscription, entries through several data feeds, and a farewell of each kind."""
    clients = ("c0", "c1")
    steps = [Step(0, "onboard", (client,)) for client in clients]
    steps.append(Step(2 * SECOND, "subscribe", clients))
    steps += [Step(5 * SECOND, "send", (*pair, (10, 120, 10, 10, 10))) for pair in (clients, clients[::-1])]
    steps += [Step(9 * SECOND, "leave", ("c0",)), Step(9 * SECOND, "dismiss", ("c1",))]
    terms = Terms(size=4, unread=2, backlog=2, linger=20 * SECOND)
    home = dict.fromkeys(clients, ISP)
    return Cell(
        seed=1,
        medium={"delay_ms": 1.0},
        terms=terms,
        clients=clients,
        hostile={},
        steps=tuple(steps),
        kills=(kill,) if kill else (),
        home=home,
    )


PACKETS = {ISP: 140, "c0": 70, "c1": 70}
"""That a node takes in the dialogue, at least."""


def test_the_dialogue_has_so_many_packets() -> None:
    for node, packets in PACKETS.items():
        coverage = TINY.play(dialogue(Kill(node, packets, False))).coverage
        assert coverage["killed"] == 1, node
        assert coverage["read"] == 10


@pytest.mark.parametrize("node", [ISP, "c0", "c1"])
@pytest.mark.parametrize("within", [False, True])
def test_a_kill_at_some_steps_of_every_dialogue(node: str, within: bool) -> None:
    for packets in range(1 + within, PACKETS[node], PACKETS[node] // 7):
        killed_at(node, packets, within=within)


@pytest.mark.slow
@pytest.mark.parametrize("node", [ISP, "c0", "c1"])
def test_a_kill_at_every_step_of_every_dialogue(node: str) -> None:
    for packets in range(1, PACKETS[node]):
        for within in (False, True):
            killed_at(node, packets, within=within)


def killed_at(node: str, packets: int, *, within: bool) -> None:
    outcome = quick(dialogue(Kill(node, packets, within)))
    assert outcome.violation is None, (node, packets, within)
    assert outcome.coverage["sent"] == 10 or outcome.coverage["refused"], "one request in eight is refused"


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in IN_STORIES])
def test_a_mutant_is_caught(name: str) -> None:
    found = []
    with mutated(name, MUTANTS):
        for kill in (None, Kill(ISP, 45, True)):
            try:
                found.append(quick(dialogue(kill)).violation is not None)
            except CAUGHT_BY_THE_STORE:
                found.append(True)
    assert any(found), f"{name!r} passes"


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name: str) -> None:
    with mutated(name, MUTANTS):
        try:
            caught = next(
                (seed for seed in range(WITHIN) if TINY.play_seed(seed).violation is not None), None
            )
        except CAUGHT_BY_THE_STORE:
            return
    assert caught is not None, f"{name!r} passes {WITHIN} seeds"
    assert TINY.play_seed(caught).violation is None
