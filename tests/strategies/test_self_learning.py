"""self-learning, decision by decision. Faces 1 to 4 are neighbours; /a has routes, /b has none."""

from decisions import LOCAL, Asked

from forwarder.tables.pit import Tags
from forwarder.wire.lp import DUPLICATE, NO_ROUTE
from forwarder.wire.name import from_uri


def tags(asked: Asked, uri: str) -> Tags | None:
    return asked.entries[uri].tags


def test_flooded_where_no_route_is_known() -> None:
    asked = Asked("self-learning")
    assert asked.interest("/b/1", face=LOCAL) == [1, 2, 3, 4]
    assert tags(asked, "/b/1") is None
    assert asked.interest("/b/2", face=1) == [2, 3, 4]


def test_marked_and_to_all_next_hops_where_one_is_known() -> None:
    asked = Asked("self-learning")
    assert asked.interest("/a/1") == [2, 3, 4]
    assert tags(asked, "/a/1") == Tags(non_discovery=True)
    assert asked.interest("/a/2", non_discovery=True) == [2, 3, 4]
    assert tags(asked, "/a/2") == Tags(non_discovery=True)


def test_a_marked_one_is_refused_where_the_way_ends() -> None:
    asked = Asked("self-learning")
    assert asked.interest("/b/1", non_discovery=True) is None


def test_a_marked_one_where_a_search_is_going_on_waits_for_that() -> None:
    asked = Asked("self-learning")
    assert asked.interest("/b/1") == [2, 3, 4]
    assert asked.interest("/b/1", face=2, non_discovery=True) == []


def test_a_repetition_is_held_back_where_it_has_just_gone() -> None:
    asked = Asked("self-learning")
    asked.interest("/b/1")
    asked.wait(5)
    assert asked.interest("/b/1") == []
    assert asked.interest("/b/1", face=2) == [1]
    asked.wait(5)
    assert asked.interest("/b/1") == [2, 3, 4]


def test_a_route_of_the_announcement_that_answers_a_flood() -> None:
    asked = Asked("self-learning")
    asked.interest("/b/1")
    asked.data("/b/1", 3, announcement=b"b")
    assert asked.node.log == ["announce 3 b"]


def test_no_route_of_an_announcement_that_nobody_has_asked_for() -> None:
    asked = Asked("self-learning")
    asked.interest("/a/1")
    asked.data("/a/1", 3, announcement=b"a")
    assert asked.node.log == []


def test_an_announcement_for_a_neighbour_that_searches() -> None:
    asked = Asked("self-learning")
    asked.node.announcements[from_uri("/a")] = b"a"
    asked.interest("/a/1", face=1)
    entry = asked.entries["/a/1"]
    asked.data("/a/1", 2)
    assert entry.tags == Tags(announcement=b"a")


def test_none_for_an_application_nor_for_who_does_not_search() -> None:
    asked = Asked("self-learning")
    asked.node.announcements[from_uri("/a")] = b"a"
    for uri, face, non_discovery in (("/a/1", LOCAL, False), ("/a/2", 1, True)):
        asked.interest(uri, face=face, non_discovery=non_discovery)
        entry = asked.entries[uri]
        asked.data(uri, 2)
        assert entry.tags is None or entry.tags.announcement is None


def test_a_way_that_is_refused_is_forgotten() -> None:
    asked = Asked("self-learning")
    asked.interest("/a/1")
    asked.nack("/a/1", 3, NO_ROUTE)
    asked.nack("/a/1", 4, DUPLICATE)
    assert asked.node.log == ["withdraw 3"]


def test_a_refused_flood_says_nothing_of_routes() -> None:
    asked = Asked("self-learning")
    asked.interest("/b/1")
    asked.nack("/b/1", 3, NO_ROUTE)
    assert asked.node.log == []
