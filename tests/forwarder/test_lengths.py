"""Look-ups by prefix try what may be there, and not every prefix that a name has."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forwarder.forwarder import Forwarder
from forwarder.strategies.measurements import Measurements
from forwarder.strategies.multicast import Multicast
from forwarder.strategies.strategy_choice import StrategyChoice
from forwarder.tables.pit import Pit
from forwarder.tables.prefix_lengths import Lengths
from forwarder.wire.name import component, from_uri, prefix_ends
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest

MANY = 2000
LONG = from_uri("/a") + component(8, b"") * MANY
A_FEW = 8


class Counting(dict[Any, Any]):
    """Counts how often something is looked for."""

    probes = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.probes += 1
        return super().get(key, default)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40))
def test_lengths_are_those_of_what_is_there(steps: list[tuple[bool, int]]) -> None:
    lengths, there = Lengths(), list[int]()
    for is_added, size in steps:
        if is_added:
            lengths.add(bytes(size))
            there.append(size)
        elif size in there:
            lengths.remove(bytes(size))
            there.remove(size)
        assert lengths.among(range(7)) == sorted(set(there))
        assert bool(lengths) == bool(there)


def test_the_pit() -> None:
    pit = Pit()
    for name in ("/a", "/b/c"):
        pit.insert(parse_interest(make_interest(from_uri(name), nonce=1, can_be_prefix=True)))
    pit._entries = Counting(pit._entries)
    found = pit.match(parse_data(make_data(LONG, b"")))
    assert [entry.name for entry in found] == [from_uri("/a")]
    assert pit._entries.probes <= A_FEW


def test_the_choice_of_strategies() -> None:
    node = Forwarder(rng=Random(1))
    choice = StrategyChoice(Multicast(node, {}))
    for uri in ("/a", "/b/c", "/b"):
        choice.set(from_uri(uri), Multicast(node, {}))
    choice.set(from_uri("/b"), Multicast(node, {}))
    choice.unset(from_uri("/b"))
    choice._by_prefix = Counting(choice._by_prefix)
    assert choice.find(LONG, prefix_ends(LONG)) is choice._by_prefix[from_uri("/a")]
    assert choice._by_prefix.probes <= A_FEW
    assert choice.find(from_uri("/b"), prefix_ends(from_uri("/b"))) is choice.items()[0][1]


def test_measurements_that_come_and_go() -> None:
    known = Measurements[str](lifetime=10, most=3)
    for now, uri in enumerate(("/x", "/y", "/z", "/a", "/a", "/b/c")):
        known.set(from_uri(uri), uri, now)
    assert len(known) == 3
    assert known.find(LONG, prefix_ends(LONG), 6) == "/a"
    assert known._lengths.among(prefix_ends(LONG)) == [len(from_uri("/a"))]
    assert known.find(from_uri("/x"), prefix_ends(from_uri("/x")), 6) is None


def test_a_region_is_a_prefix_of_a_hint() -> None:
    node = Forwarder(rng=Random(1), cs_capacity=0)
    for face in (1, 2, 3):
        node.add_face(face)
    node.regions.add(from_uri("/region/here"))
    node.fib.add(from_uri("/name"), 2)
    node.fib.add(from_uri("/region"), 3)
    for nonce, (hint, out) in enumerate(
        {"/region/here/x": 2, "/region/here": 2, "/region": 3, "/region/he": 3}.items()
    ):
        name = from_uri(f"/name/{nonce}")
        node.receive(1, make_interest(name, nonce=nonce, forwarding_hint=[from_uri(hint)]), 0)
        assert [face for face, _ in node.take_outputs()] == [out]
