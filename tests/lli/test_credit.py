"""How much a consumer asks for: steps that coincide, and that follow path and application."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.units import MS
from forwarder.lli.credit import AdaptiveCredit, CreditPolicy, FixedCredit


def limits(policy: CreditPolicy, takes: list[int], rtt: int = 0) -> list[int]:
    """The last item asked for, after the application has taken so many each time."""
    asked, found = 0, []
    for place, taken in enumerate(takes):
        asked = policy.limit(taken, taken, asked, place * rtt)
        found.append(asked)
    return found


def test_a_new_step_is_granted_while_half_of_the_last_one_is_left() -> None:
    assert limits(FixedCredit(8), list(range(16))) == [8] * 4 + [16] * 8 + [24] * 4
    assert limits(AdaptiveCredit(8, 8), list(range(16))) == [8] * 4 + [16] * 8 + [24] * 4


def test_credit_one_is_pull() -> None:
    assert limits(FixedCredit(1), list(range(5))) == [1, 2, 3, 4, 5]
    assert limits(AdaptiveCredit(1, 1), list(range(5))) == [1, 2, 3, 4, 5]


def test_the_grants_of_independent_subscribers_end_at_the_same_items() -> None:
    """Wherever they began, so that a forwarder can join them."""
    assert limits(FixedCredit(8), [0])[-1] == limits(FixedCredit(8), [3])[-1] == 8
    assert limits(FixedCredit(8), [6])[-1] == limits(FixedCredit(8), [11])[-1] == 16


@given(st.integers(1, 64), st.lists(st.integers(0, 30), max_size=60))
def test_a_fixed_step_bounds_what_is_not_taken(credit: int, takes: list[int]) -> None:
    policy = FixedCredit(credit)
    taken = asked = 0
    for now, take in enumerate(takes):
        taken = min(taken + take, asked)
        is_due = policy.is_due(taken, asked)
        limit = policy.limit(taken, asked, asked, now)
        assert (limit > asked) == is_due
        assert limit % credit == 0
        assert limit - taken <= credit + credit // 2
        assert limit - taken > credit // 2, "half is left, or it is granted anew"
        asked = limit


def test_a_step_that_does_not_last_two_round_trips_doubles() -> None:
    policy = AdaptiveCredit(8, 64)
    now = taken = asked = 0
    steps = []
    for _ in range(6):
        asked = policy.limit(taken, taken, asked, now)
        assert (
            policy.limit(taken, taken + 1, asked, now + 10 * MS) == asked
        )  # the first item, a round trip later
        taken = asked
        now += 15 * MS
        steps.append(policy.credit)
    assert steps == [8, 16, 32, 64, 64, 64]


def test_a_step_that_lasts_long_enough_stays() -> None:
    policy = AdaptiveCredit(8, 64)
    asked = policy.limit(0, 0, 0, 0)
    assert policy.limit(1, 1, asked, 10 * MS) == asked
    assert policy.limit(8, 8, asked, 20 * MS) > asked
    assert policy.credit == 8


def test_a_step_that_the_application_leaves_half_untaken_halves() -> None:
    policy = AdaptiveCredit(8, 64)
    policy.credit = 64
    policy.limit(0, 0, 0, 0)
    policy.limit(56, 56 + 33, 64, 1000 * MS)
    assert policy.credit == 32
    for taken in (90, 130, 170, 210):
        policy.limit(taken, taken + 40, taken, 2000 * MS)
    assert policy.credit == 8


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([8, 64, 1024]),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 50)), max_size=60),
)
def test_an_adaptive_step_stays_in_its_bounds(
    smallest: int, largest: int, events: list[tuple[int, int, int]]
) -> None:
    policy = AdaptiveCredit(smallest, largest)
    taken = arrived = asked = now = 0
    for come, take, wait in events:
        now += wait * MS
        arrived = min(arrived + come, asked)
        taken = min(taken + take, arrived)
        is_due = policy.is_due(taken, asked)
        limit = policy.limit(taken, arrived, asked, now)
        assert limit > asked or not is_due or limit >= taken + 1
        assert limit >= asked
        if limit > asked:
            assert is_due
            assert limit % policy.credit == 0
            assert limit - taken <= largest + largest // 2
        assert smallest <= policy.credit <= largest
        assert policy.credit & (policy.credit - 1) == 0
        asked = limit
        assert asked > taken, "an application that has taken everything can always get more"


def test_wrong_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="credit of at least 1"):
        FixedCredit(0)
    for smallest, largest in ((0, 8), (3, 8), (8, 12)):
        with pytest.raises(ValueError, match="power of 2"):
            AdaptiveCredit(smallest, largest)
    with pytest.raises(ValueError, match="nothing lies between"):
        AdaptiveCredit(16, 8)
