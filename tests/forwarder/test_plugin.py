"""A strategy of a user's own: one plain Python file, whatever the forwarder was built from."""

from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from forwarder import forwarder as core
from forwarder.forwarder import Forwarder
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest

BY_SHAPE = '''
class Costliest:
    """Everything over the most expensive next hop."""

    def after_interest(self, entry, face, hops, now):
        self.seen = (entry.key[0], face, now)
        others = [hop.face for hop in hops if hop.face != face]
        return others[-1:] or None
'''
BY_INHERITANCE = BY_SHAPE.replace(
    "class Costliest:", "from forwarder.strategy import Strategy\n\nclass Costliest(Strategy):"
)
BY_REFINEMENT = BY_SHAPE.replace(
    "class Costliest:", "from forwarder.strategy import BestRoute\n\nclass Costliest(BestRoute):"
)


@pytest.fixture(
    params=[BY_SHAPE, BY_INHERITANCE, BY_REFINEMENT], ids=["by shape", "by inheritance", "by refinement"]
)
def plugin(request: pytest.FixtureRequest, tmp_path: Path) -> ModuleType:
    file = tmp_path / "costliest.py"
    file.write_text(request.param)
    spec = spec_from_file_location("costliest", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_strategy_from_a_file_is_asked(plugin: ModuleType, pytestconfig: pytest.Config) -> None:
    assert Path(core.__file__).suffix == (".so" if pytestconfig.getoption("compiled") else ".py")
    strategy = plugin.Costliest()
    node = Forwarder(rng=Random(1), strategy=strategy)
    for face in (1, 2, 3):
        node.add_face(face)
    name = from_uri("/a/b")
    node.fib.add(from_uri("/a"), 2, cost=1)
    node.fib.add(from_uri("/a"), 3, cost=9)
    interest = make_interest(name, nonce=7, lifetime_ms=1000)
    node.receive(1, interest, 5)
    assert strategy.seen == (name, 1, 5)
    assert node.take_outputs() == [(3, interest)]


def test_one_for_a_prefix_only(plugin: ModuleType) -> None:
    node = Forwarder(rng=Random(1))
    node.strategies.set(from_uri("/a/b"), plugin.Costliest())
    for face in (1, 2, 3):
        node.add_face(face)
    node.fib.add(from_uri("/a"), 2, cost=1)
    node.fib.add(from_uri("/a"), 3, cost=9)
    sent: list[Sequence[int]] = []
    for uri in ("/a/b/1", "/a/c/1"):
        node.receive(1, make_interest(from_uri(uri), nonce=7), 5)
        sent.append([face for face, _ in node.take_outputs()])
    assert sent == [[3], [2]]
