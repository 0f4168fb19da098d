"""The FIB against a list of routes that is searched from end to end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwarder.fib import Fib, NextHop
from forwarder.wire.name import component, components, from_uri, prefix_ends
from forwarder.wire.tlv import MalformedPacket

PARTS = st.sampled_from(
    [component(8, b"a"), component(8, b"b"), component(8, b""), component(32, b"a"), component(1, bytes(32))]
)
NAMES = st.lists(PARTS, max_size=4).map(b"".join)
FACES = st.integers(1, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES, FACES, st.integers(0, 2)),
        st.tuples(st.just("remove"), NAMES, FACES, st.just(0)),
        st.tuples(st.just("remove_face"), st.just(b""), FACES, st.just(0)),
    ),
    max_size=25,
)

Routes = dict[tuple[bytes, int], int]


def longest_match(routes: Routes, name: bytes) -> list[tuple[int, int]]:
    """(face, cost) of the routes whose prefix is the longest of which all components begin the name."""
    parts = components(name)
    matching = [prefix for prefix, _ in routes if components(prefix) == parts[: len(components(prefix))]]
    if not matching:
        return []
    best = max(matching, key=lambda prefix: len(components(prefix)))
    hops = [(face, cost) for (prefix, face), cost in routes.items() if prefix == best]
    return sorted(hops, key=lambda hop: (hop[1], hop[0]))


@given(STEPS, st.lists(NAMES, min_size=1, max_size=6))
def test_fib_against_a_list(steps: list[tuple[str, bytes, int, int]], names: list[bytes]) -> None:
    fib, routes = Fib(), Routes()
    for step, prefix, face, cost in steps:
        if step == "add":
            fib.add(prefix, face, cost)
            routes[prefix, face] = cost
        elif step == "remove":
            fib.remove(prefix, face)
            routes.pop((prefix, face), None)
        else:
            fib.remove_face(face)
            routes = {key: cost for key, cost in routes.items() if key[1] != face}
        assert len(fib) == len({prefix for prefix, _ in routes})
        for name in [*names, prefix]:
            assert list(fib.lookup(name)) == longest_match(routes, name)
            assert fib.lookup(name, prefix_ends(name)) == fib.lookup(name)


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
