"""The RIB: hand-computed cases of inheritance, and a model that works everything out anew."""

from itertools import permutations
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from forwarder.tables.fib import Fib
from forwarder.tables.rib import Rib, Route, RouteFlag
from forwarder.wire.name import from_uri, prefix_ends

INHERIT, CAPTURE = RouteFlag.CHILD_INHERIT, RouteFlag.CAPTURE


def table(*routes: tuple[str, int, int, int]) -> Fib:
    """The FIB after these routes, (prefix, face, cost, flags), each of an origin of its own."""
    fib = Fib()
    rib = Rib(fib)
    for origin, (prefix, face, cost, flags) in enumerate(routes):
        rib.register(Route(from_uri(prefix), face, origin, cost, flags))
    return fib


def hops(fib: Fib, prefix: str) -> dict[int, int]:
    return {hop.face: hop.cost for hop in dict(fib.items()).get(from_uri(prefix), ())}


def order(fib: Fib, prefix: str) -> list[int]:
    return [hop.face for hop in fib.lookup(from_uri(prefix))]


def test_a_child_has_its_parents_routes() -> None:
    fib = table(("/a", 1, 10, INHERIT), ("/a/b", 2, 20, 0))
    assert hops(fib, "/a") == {1: 10}
    assert hops(fib, "/a/b") == {1: 10, 2: 20}


def test_at_equal_cost_a_prefix_s_own_route_comes_first() -> None:
    """The older an application, the lower its face: it must not get what another one has registered since."""
    own = ("/x/ping", 7, 0, INHERIT)
    parent, root = ("/x", 3, 0, INHERIT), ("/", 1, 0, INHERIT)
    for routes in permutations((own, parent, root)):
        fib = table(*routes)
        assert order(fib, "/x/ping") == [7, 3, 1], "the nearest first"
        assert order(fib, "/x") == [3, 1]
    assert order(table(own, ("/x", 9, 0, INHERIT), ("/x", 3, 0, INHERIT)), "/x/ping") == [7, 3, 9]
    assert order(table(("/x", 3, 0, INHERIT), ("/x/ping", 7, 1, 0)), "/x/ping") == [3, 7], "a cheaper one is"


def test_an_inherited_route_becomes_a_prefix_s_own_and_back() -> None:
    fib = Fib()
    rib = Rib(fib)
    for prefix, face in (("/", 1), ("/", 2), ("/a", 3)):
        rib.register(Route(from_uri(prefix), face, 0, 0))
    assert order(fib, "/a") == [3, 1, 2]
    rib.register(Route(from_uri("/a"), 1, 0, 0))
    assert order(fib, "/a") == [1, 3, 2]
    rib.unregister(from_uri("/a"), 1, 0)
    assert order(fib, "/a") == [3, 1, 2]


def test_without_child_inherit_it_has_not() -> None:
    assert hops(table(("/a", 1, 10, 0), ("/a/b", 2, 20, 0)), "/a/b") == {2: 20}


def test_a_childs_own_route_counts_even_if_it_is_dearer() -> None:
    assert hops(table(("/a", 1, 10, INHERIT), ("/a/b", 1, 20, 0)), "/a/b") == {1: 20}


def test_the_nearest_ancestor_counts() -> None:
    fib = table(("/", 1, 1, INHERIT), ("/a", 1, 5, INHERIT), ("/a/b", 2, 7, 0))
    assert hops(fib, "/a/b") == {1: 5, 2: 7}


def test_an_ancestor_that_does_not_pass_on_is_passed_over() -> None:
    fib = table(("/", 1, 1, INHERIT), ("/a", 1, 5, 0), ("/a/b", 2, 7, 0))
    assert hops(fib, "/a/b") == {1: 1, 2: 7}


def test_capture_keeps_out_what_is_above_and_passes_on_its_own() -> None:
    fib = table(("/", 1, 1, INHERIT), ("/a", 2, 5, INHERIT | CAPTURE), ("/a/b", 3, 7, 0))
    assert hops(fib, "/a") == {2: 5}
    assert hops(fib, "/a/b") == {2: 5, 3: 7}


def test_capture_without_child_inherit_leaves_children_alone() -> None:
    fib = table(("/", 1, 1, INHERIT), ("/a", 2, 5, CAPTURE), ("/a/b", 3, 7, 0))
    assert hops(fib, "/a/b") == {3: 7}


def test_the_cheapest_of_several_origins_counts() -> None:
    fib = table(("/a", 1, 10, INHERIT), ("/a", 1, 3, 0), ("/a/b", 2, 1, 0))
    assert hops(fib, "/a") == {1: 3}
    assert hops(fib, "/a/b") == {1: 10, 2: 1}  # the cheaper one is not passed on


def test_a_route_is_replaced_and_its_end_with_it() -> None:
    fib = Fib()
    rib = Rib(fib)
    rib.register(Route(b"", 1, 0, 5, deadline=100))
    rib.register(Route(b"", 1, 0, 6))
    assert rib.next_deadline() is None
    rib.wake(200)
    assert hops(fib, "/") == {1: 6}


def test_the_last_cheaper_route_gives_way_to_the_dearer() -> None:
    fib = Fib()
    rib = Rib(fib)
    rib.register(Route(b"", 1, 0, 5))
    rib.register(Route(b"", 1, 255, 9))
    rib.unregister(b"", 1, 0)
    assert hops(fib, "/") == {1: 9}


def test_what_others_put_into_the_fib_stays() -> None:
    fib = Fib()
    rib = Rib(fib)
    fib.add(from_uri("/a"), 9, 1)
    rib.register(Route(from_uri("/a"), 1, 0, 5))
    rib.unregister(from_uri("/a"), 1, 0)
    assert hops(fib, "/a") == {9: 1}


NAMES = [from_uri(uri) for uri in ("/", "/a", "/a/b", "/a/b/c", "/a/bb", "/b", "/%00", "/a/b/c/d/e")]
FACES = st.integers(1, 3)


class RoutesMachine(RuleBasedStateMachine):
    """Routes come and go; the FIB is always what working through the list of routes says."""

    def __init__(self) -> None:
        super().__init__()
        self.fib = Fib()
        self.rib = Rib(self.fib)
        self.now = 0
        self.model: list[Route] = []

    def keep(self, *, but: Route | None = None, face: int | None = None) -> None:
        self.model = [
            route
            for route in self.model
            if not (
                but is not None
                and (route.prefix, route.face, route.origin) == (but.prefix, but.face, but.origin)
            )
            and route.face != face
        ]

    @rule(
        prefix=st.sampled_from(NAMES),
        face=FACES,
        origin=st.sampled_from([0, 129, 255]),
        cost=st.integers(0, 3),
        flags=st.integers(0, 3),
        lasts=st.none() | st.integers(0, 3_000_000),
    )
    def register(
        self, prefix: bytes, face: int, origin: int, cost: int, flags: int, lasts: int | None
    ) -> None:
        route = Route(prefix, face, origin, cost, flags, -1 if lasts is None else self.now + lasts)
        self.keep(but=route)
        self.model.append(route)
        self.rib.register(route)

    @rule(prefix=st.sampled_from(NAMES), face=FACES, origin=st.sampled_from([0, 129, 255]))
    def unregister(self, prefix: bytes, face: int, origin: int) -> None:
        self.keep(but=Route(prefix, face, origin))
        self.rib.unregister(prefix, face, origin)

    @rule(face=FACES, fib_first=st.booleans())
    def destroy(self, face: int, fib_first: bool) -> None:
        self.keep(face=face)
        if fib_first:
            self.fib.remove_face(face)
        self.rib.remove_face(face)

    @rule(passes=st.integers(0, 2_000_000))
    def expire(self, passes: int) -> None:
        self.now += passes
        self.model = [route for route in self.model if route.deadline < 0 or route.deadline > self.now]
        self.rib.wake(self.now)

    @invariant()
    def the_fib_is_what_the_routes_say(self) -> None:
        wanted = {}
        for prefix in {route.prefix for route in self.model}:
            found: dict[int, int] = {}
            for end in reversed([0, *prefix_ends(prefix)]):
                here = [route for route in self.model if route.prefix == prefix[:end]]
                passing = [route for route in here if end == len(prefix) or route.flags & INHERIT]
                for face in {route.face for route in passing} - found.keys():
                    found[face] = min(route.cost for route in passing if route.face == face)
                if any(route.flags & CAPTURE for route in here):
                    break
            if found:
                wanted[prefix] = found
        assert {prefix: {hop.face: hop.cost for hop in hops} for prefix, hops in self.fib.items()} == wanted

    @invariant()
    def the_lists_agree(self) -> None:
        listed = [route for _, routes in self.rib.items() for route in routes]
        assert sorted(listed, key=id) == sorted(self.model, key=id)
        assert len(self.rib) == len(self.model)
        ends = [route.deadline for route in self.model if route.deadline >= 0]
        assert self.rib.next_deadline() == min(ends, default=None)


TestRoutes = RoutesMachine.TestCase
TestRoutes.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_many_routes_of_a_face_go_at_once() -> None:
    fib = Fib()
    rib = Rib(fib)
    rng = Random(7)
    for number in range(2000):
        rib.register(Route(from_uri(f"/{rng.randrange(50)}/{number}"), number % 2, 0))
    rib.remove_face(0)
    assert len(rib) == 1000
    assert len(fib) == 1000
