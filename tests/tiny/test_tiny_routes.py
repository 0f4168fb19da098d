"""Routes are found by contract and by feed as a look at all of them would find them."""

from hypothesis import given
from hypothesis import strategies as st

from ssb.tiny.isp.provider.route import Route, Routes, Side

names = st.sampled_from([bytes([number]) * 20 for number in range(4)])
feeds = st.sampled_from([bytes([number]) * 32 for number in range(4)])
sides = st.builds(Side, contract=st.none() | names, feed=st.none() | feeds)
steps = st.lists(st.tuples(st.sampled_from(["put", "remove"]), st.integers(0, 5), sides, sides), max_size=30)


@given(steps)
def test_routes_are_found_by_contract_and_by_feed(steps: list[tuple[str, int, Side, Side]]) -> None:
    routes, held = Routes(), dict[bytes, Route]()
    for what, number, a, b in steps:
        ref = bytes([number])
        if what == "remove":
            routes.remove(ref)
            held.pop(ref, None)
        elif ref in held:
            held[ref].a, held[ref].b = a, b
            routes.put(held[ref])
        else:
            held[ref] = Route(ref, a, b, b"", b"")
            routes.put(held[ref])
        assert dict(routes) == held
        everything = [(route, *both) for route in held.values() for both in route.sides()]
        for at in range(4):
            contract, feed = bytes([at]) * 20, bytes([at]) * 32
            of, on = routes.of_contract(contract), routes.of_feed(feed)
            assert {id(side) for _, side, _ in of} == {
                id(side) for _, side, _ in everything if side.contract == contract
            }
            assert {id(side) for _, side, _ in on} == {
                id(side) for _, side, _ in everything if side.feed == feed
            }
    for ref in list(held):
        routes.remove(ref)
    assert routes._found == {}
