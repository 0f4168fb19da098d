"""random, decision by decision."""

from collections import Counter

from decisions import Asked


def test_any_next_hop_with_equal_chances_repetitions_too() -> None:
    asked = Asked("random")
    drawn = Counter(asked.interest("/a/1") for _ in range(0))
    for _ in range(3000):
        (face,) = asked.interest("/a/1") or ()
        drawn[face] += 1
    assert set(drawn) == {2, 3, 4}
    assert min(drawn.values()) > 900


def test_never_back_and_nowhere() -> None:
    asked = Asked("random")
    assert {tuple(asked.interest("/a/1", face=2) or ()) for _ in range(100)} == {(3,), (4,)}
    assert asked.interest("/b") is None
