"""Follow graphs: hubs by a power law, friends of friends, and nobody who follows nobody."""

from collections import Counter
from math import log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.scenario.follow_graph import grow, grow_by_number
from testbed.scenario.sections import FollowGraph

PEOPLE = [f"p{number}" for number in range(3000)]


def grown(**changes: float) -> dict[str, list[str]]:
    return grow(PEOPLE, PEOPLE, FollowGraph(**changes), Random(1))


def followers(graph: dict[str, list[str]]) -> list[int]:
    """How many followers people have, the most first."""
    counts = Counter(other for whom in graph.values() for other in whom)
    return sorted((counts[person] for person in graph), reverse=True)


def tail_exponent(counts: list[int], tail: int = 200) -> float:
    """The exponent of a power law that the largest counts have, by Hill's estimator."""
    return 1 + tail / sum(log(count / counts[tail]) for count in counts[:tail])


def share_of_friends_who_are_friends(graph: dict[str, list[str]]) -> float:
    joined = pairs = 0
    for whom in list(graph.values())[:500]:
        for place, one in enumerate(whom):
            pairs += len(whom) - place - 1
            joined += sum(other in graph[one] or one in graph[other] for other in whom[place + 1 :])
    return joined / pairs


@given(
    st.integers(1, 12),
    st.integers(0, 5),
    st.builds(
        FollowGraph,
        follows=st.integers(1, 6),
        closure=st.floats(0, 1),
        mutual=st.floats(0, 1),
        hubs=st.floats(0, 1),
    ),
    st.integers(0, 99),
)
def test_everybody_follows_as_many_as_asked_and_authors_only(
    authors: int, readers: int, graph: FollowGraph, seed: int
) -> None:
    writing = PEOPLE[:authors]
    reading = PEOPLE[max(0, authors - 2) : authors + readers]
    grown = grow(writing, reading, graph, Random(seed))
    assert grown.keys() == {*writing, *reading}
    for person, whom in grown.items():
        others = {*writing} - {person}
        assert len(whom) == len({*whom})
        assert {*whom} <= others
        assert len(whom) >= min(graph.follows, len(others))
    assert grown == grow(writing, reading, graph, Random(seed))


@pytest.mark.parametrize("mutual", [0.0, 0.5])
def test_few_have_many_followers(mutual: float) -> None:
    counts = followers(grown(follows=2, mutual=mutual))
    assert 2 < tail_exponent(counts) < 3.2
    assert counts[0] > 20 * sum(counts) / len(counts)
    assert sum(counts[:30]) > 0.15 * sum(counts), "one in a hundred"


def test_hubs_follow_many_if_follows_are_returned() -> None:
    assert {len(whom) for whom in grown(mutual=0.0).values()} == {2}
    returned = grown(mutual=1.0)
    assert all(person in returned[other] for person, whom in returned.items() for other in whom)
    assert max(map(len, returned.values())) > 50


def test_friends_of_friends_are_friends_the_more_the_more_closure() -> None:
    shares = [
        share_of_friends_who_are_friends(grown(follows=3, closure=closure)) for closure in (0.0, 0.5, 1.0)
    ]
    assert 2 * shares[0] < shares[1] < shares[2]


def test_hubs_have_the_more_followers_the_stronger_the_preference_for_them() -> None:
    shares = []
    for hubs in (0.0, 0.5, 1.0):
        counts = followers(grown(follows=3, closure=0.0, mutual=0.0, hubs=hubs))
        shares.append(sum(counts[:30]) / sum(counts))
    assert 1.5 * shares[0] < shares[1] < shares[2] / 1.5


@given(
    st.integers(0, 40),
    st.builds(FollowGraph, follows=st.integers(1, 6), closure=st.floats(0, 1), mutual=st.floats(0, 1)),
    st.integers(0, 99),
)
def test_people_have_names_or_numbers(people: int, graph: FollowGraph, seed: int) -> None:
    """By number, nobody is shuffled: those who join later have the greater numbers."""
    numbered = grow_by_number(people, people, graph, Random(seed))
    assert [len(whom) for whom in numbered] == [len({*whom} - {who}) for who, whom in enumerate(numbered)]
    shuffled = Random(seed)
    shuffled.sample(PEOPLE[:people], people)
    named = grow(PEOPLE[:people], (), graph, Random(seed))
    again = grow_by_number(people, people, graph, shuffled)
    joined = [*named]
    assert [*named.values()] == [[joined[other] for other in whom] for whom in again]
