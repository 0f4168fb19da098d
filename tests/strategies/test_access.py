"""access, decision by decision."""

from decisions import Asked


def test_all_then_the_one_that_answered_for_names_with_the_same_parent() -> None:
    asked = Asked("access")
    assert asked.interest("/a/b/1") == [2, 3, 4]
    asked.wait(10)
    asked.data("/a/b/1", 3)
    assert asked.interest("/a/b/2") == [3]
    assert asked.interest("/a/b/2/deeper") == [3]
    assert asked.interest("/a/c/1") == [2, 3, 4]
    assert asked.interest("/a/b/3", face=3) == [2, 4]
    assert asked.interest("/b") is None


def test_a_repetition_goes_to_all_after_100_ms() -> None:
    asked = Asked("access")
    asked.interest("/a/1")
    asked.data("/a/1", 3)
    assert asked.interest("/a/2") == [3]
    asked.wait(99)
    assert asked.interest("/a/2") == []
    asked.wait(1)
    assert asked.interest("/a/2") == [2, 3, 4]
    asked.wait(99)
    assert asked.interest("/a/2", face=4) == []
    asked.wait(1)
    assert asked.interest("/a/2", face=4) == [2, 3]


def test_an_interest_that_is_overdue_makes_the_next_go_to_all() -> None:
    """After 200 ms, the least that a time-out may be."""
    asked = Asked("access")
    asked.interest("/a/1")
    asked.wait(10)
    asked.data("/a/1", 3)
    assert asked.interest("/a/2") == [3]
    asked.wait(199)
    assert asked.interest("/a/3") == [3]
    asked.wait(1)
    assert asked.interest("/a/4") == [2, 3, 4]
    asked.wait(10)
    asked.data("/a/4", 4)
    assert asked.interest("/a/5") == [4]


def test_one_that_was_answered_is_not_overdue() -> None:
    asked = Asked("access")
    for n in range(5):
        assert asked.interest(f"/a/{n}") == ([3] if n else [2, 3, 4])
        asked.wait(10)
        asked.data(f"/a/{n}", 3)
        asked.wait(1500)


def test_who_answers_second_does_not_count() -> None:
    asked = Asked("access")
    asked.interest("/a/1")
    entry = asked.entries["/a/1"]
    asked.data("/a/1", 3)
    asked.entries["/a/1"] = entry
    asked.data("/a/1", 2)
    assert asked.interest("/a/2") == [3]


def test_forgotten_after_8_s_without_an_answer() -> None:
    asked = Asked("access")
    asked.interest("/a/1")
    asked.data("/a/1", 3)
    asked.wait(7999)
    assert asked.interest("/a/2") == [3]
    asked.wait(1)
    assert asked.interest("/a/3") == [2, 3, 4]


def test_a_route_that_is_gone_is_not_used() -> None:
    asked = Asked("access")
    asked.interest("/a/1")
    asked.data("/a/1", 3)
    asked.node.fib.remove_face(3)
    assert asked.interest("/a/2") == [2, 4]
