"""A strategy of a user's own: one plain Python file, whatever the forwarder was built from."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from forwarder import forwarder as core
from forwarder.forwarder import Forwarder
from forwarder.strategies import STRATEGIES, load
from forwarder.strategies.strategy import Strategy
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest

BY_INHERITANCE = '''
from forwarder.strategies.strategy import Strategy

class Costliest(Strategy):
    """Everything over the most expensive next hop."""

    NAME = "costliest"

    def after_interest(self, entry, face, hops, now):
        self.seen = (entry.name, face, now)
        return [hop.face for hop in hops][-1:] or None
'''
BY_REFINEMENT = BY_INHERITANCE.replace(
    "forwarder.strategies.strategy import", "forwarder.strategies.best_route import"
)
BY_REFINEMENT = BY_REFINEMENT.replace("Strategy", "BestRoute")


@pytest.fixture(params=[BY_INHERITANCE, BY_REFINEMENT], ids=["by inheritance", "by refinement"])
def costliest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[type[Strategy]]:
    file = tmp_path / "costliest.py"
    file.write_text(request.param)
    assert load(file) == ["costliest"]
    yield STRATEGIES["costliest"]
    del STRATEGIES["costliest"]


def test_a_strategy_from_a_file_is_asked(costliest: type[Strategy], pytestconfig: pytest.Config) -> None:
    assert Path(core.__file__).suffix == (".so" if pytestconfig.getoption("compiled") else ".py")
    node = Forwarder(rng=Random(1), strategy=costliest)
    strategy = node.strategies.find(b"", [])
    for face in (1, 2, 3):
        node.add_face(face)
    name = from_uri("/a/b")
    node.fib.add(from_uri("/a"), 2, cost=1)
    node.fib.add(from_uri("/a"), 3, cost=9)
    interest = make_interest(name, nonce=7, lifetime_ms=1000)
    node.receive(1, interest, 5)
    assert vars(strategy)["seen"] == (name, 1, 5)
    assert node.take_outputs() == [(3, interest)]


def test_one_for_a_prefix_only(costliest: type[Strategy]) -> None:
    node = Forwarder(rng=Random(1))
    node.choose_strategy(from_uri("/a/b"), costliest)
    for face in (1, 2, 3):
        node.add_face(face)
    node.fib.add(from_uri("/a"), 2, cost=1)
    node.fib.add(from_uri("/a"), 3, cost=9)
    sent: list[Sequence[int]] = []
    for uri in ("/a/b/1", "/a/c/1"):
        node.receive(1, make_interest(from_uri(uri), nonce=7), 5)
        sent.append([face for face, _ in node.take_outputs()])
    assert sent == [[3], [2]]
