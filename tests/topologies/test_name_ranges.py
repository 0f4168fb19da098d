"""Ranges of node names: contracted names are short, and expand to what they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.ranges import contract_ranges, expand_ranges

NAMES = st.lists(
    st.builds(
        lambda stem, number: f"{stem}{number}",
        st.sampled_from(["u", "r-", "a1b", "_", "Ä", ""]),
        st.one_of(st.integers(0, 12), st.sampled_from(["", "03", "x", "9" * 12])),
    ),
    max_size=12,
)


@given(NAMES)
def test_contracted_names_expand_to_what_they_were(names: list[str]) -> None:
    assert expand_ranges(contract_ranges(names)) == tuple(names)


@given(st.integers(0, 50), st.integers(3, 60))
def test_names_in_a_row_are_one_range(first: int, count: int) -> None:
    names = [f"u{number}" for number in range(first, first + count)]
    assert contract_ranges(names) == [f"u{first}..u{first + count - 1}"]
    assert contract_ranges([*names, "hub", *names]) == [
        *contract_ranges(names),
        "hub",
        *contract_ranges(names),
    ]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("p1 p2", "p1 p2"),
        ("p1 p3 p5", "p1 p3 p5"),
        ("p3 p2 p1", "p3 p2 p1"),
        ("u9 u10 u11 r1", "u9..u11 r1"),
        ("a1 b2 b3 b4 a5", "a1 b2..b4 a5"),
        ("u01 u02 u03", "u01 u02 u03"),
    ],
)
def test_only_names_in_a_row_are_contracted(names: str, said: str) -> None:
    assert contract_ranges(names.split()) == said.split()


def test_a_range_is_never_longer_than_one_may_be() -> None:
    names = [f"n{number}" for number in range(10_005)]
    assert contract_ranges(names) == ["n0..n9999", "n10000..n10004"]
    assert expand_ranges(contract_ranges(names)) == tuple(names)
