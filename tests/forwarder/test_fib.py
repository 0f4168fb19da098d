"""The FIB against a list of routes that is searched from end to end."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from forwarder.tables.fib import Fib, NextHop
from forwarder.wire.name import component, components, from_uri, prefix_ends
from forwarder.wire.tlv import MalformedPacket

PARTS = st.sampled_from(
    [component(8, b"a"), component(8, b"b"), component(8, b""), component(32, b"a"), component(1, bytes(32))]
)
NAMES = st.lists(PARTS, max_size=4).map(b"".join)
FACES = st.integers(1, 3)
Routes = dict[tuple[bytes, int], tuple[int, int]]


def longest_match(routes: Routes, name: bytes) -> list[tuple[int, int, int]]:
    """Next hops of the routes whose prefix is the longest of which all components begin the name."""
    parts = components(name)
    matching = [prefix for prefix, _ in routes if components(prefix) == parts[: len(components(prefix))]]
    if not matching:
        return []
    best = max(matching, key=lambda prefix: len(components(prefix)))
    hops = [(face, *route) for (prefix, face), route in routes.items() if prefix == best]
    return sorted(hops, key=lambda hop: (hop[1], hop[2], hop[0]))


class FibAgainstList(RuleBasedStateMachine):
    """All routes in one dict, and a set of the faces whose routes rest."""

    def __init__(self) -> None:
        super().__init__()
        self.fib = Fib()
        self.routes = Routes()
        self.resting: set[int] = set()

    @rule(prefix=NAMES, face=FACES, cost=st.integers(0, 2), above=st.integers(0, 2))
    def add(self, prefix: bytes, face: int, cost: int, above: int) -> None:
        self.fib.add(prefix, face, cost, above)
        self.routes[prefix, face] = cost, above

    @rule(prefixes=st.lists(NAMES, max_size=4), face=FACES, cost=st.integers(0, 2))
    def add_many(self, prefixes: list[bytes], face: int, cost: int) -> None:
        self.fib.add_many(prefixes, face, cost)
        self.routes |= {(prefix, face): (cost, 0) for prefix in prefixes}

    @rule(prefixes=st.lists(NAMES, max_size=4), face=FACES)
    def remove_many(self, prefixes: list[bytes], face: int) -> None:
        self.fib.remove_many(prefixes, face)
        for prefix in prefixes:
            self.routes.pop((prefix, face), None)

    @rule(prefix=NAMES, face=FACES)
    def remove(self, prefix: bytes, face: int) -> None:
        self.fib.remove(prefix, face)
        self.routes.pop((prefix, face), None)

    @rule(face=FACES)
    def remove_face(self, face: int) -> None:
        """Its number may be given to another one, which is up."""
        self.fib.remove_face(face)
        self.routes = {key: cost for key, cost in self.routes.items() if key[1] != face}
        self.resting.discard(face)

    @rule(face=FACES)
    def suspend(self, face: int) -> None:
        self.fib.suspend(face)
        self.resting.add(face)

    @rule(face=FACES)
    def resume(self, face: int) -> None:
        self.fib.resume(face)
        self.resting.discard(face)

    @rule(name=NAMES)
    def lookup(self, name: bytes) -> None:
        routes = self.in_use()
        expected = longest_match(routes, name)
        assert list(self.fib.lookup(name)) == expected
        assert self.fib.lookup(name, prefix_ends(name)) == self.fib.lookup(name)
        prefix = self.fib.longest_prefix(name)
        assert components(prefix) == components(name)[: len(components(prefix))]
        assert list(self.fib.lookup(prefix)) == expected
        if expected and prefix:
            assert any(route == prefix for route, _ in routes)

    @invariant()
    def same_size(self) -> None:
        assert len(self.fib) == len({prefix for prefix, _ in self.in_use()})

    def in_use(self) -> Routes:
        return {key: cost for key, cost in self.routes.items() if key[1] not in self.resting}


TestFibAgainstList = FibAgainstList.TestCase
TestFibAgainstList.settings = settings(max_examples=150, stateful_step_count=40)


def test_longest_prefix_and_lowest_cost() -> None:
    fib = Fib()
    fib.add(from_uri("/"), 9)
    fib.add(from_uri("/a"), 1, cost=10)
    fib.add(from_uri("/a"), 2, cost=5)
    fib.add(from_uri("/a/b/c"), 3)
    assert fib.lookup(from_uri("/a/b/c/d")) == (NextHop(3, 0),)
    assert fib.lookup(from_uri("/a/b")) == (NextHop(2, 5), NextHop(1, 10))
    assert fib.lookup(from_uri("/ab")) == (NextHop(9, 0),)
    fib.add(from_uri("/a"), 1, cost=0)
    assert fib.lookup(from_uri("/a/b")) == (NextHop(1, 0), NextHop(2, 5))


def test_no_route() -> None:
    fib = Fib()
    assert fib.lookup(from_uri("/a")) == ()
    fib.add(from_uri("/b"), 1)
    assert fib.lookup(from_uri("/a")) == ()
    assert fib.lookup(b"") == ()


def test_a_malformed_name_is_found_out_route_or_not() -> None:
    fib = Fib()
    with pytest.raises(MalformedPacket):
        fib.lookup(b"\x08\x05a")
    with pytest.raises(MalformedPacket):
        fib.add(b"\x08\x05a", 1)
    assert len(fib) == 0
    fib.add(b"", 1)
    with pytest.raises(MalformedPacket):
        fib.lookup(b"\x08\x01a\x08")
