"""What the experiment commands say is written in one place each."""

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest
from processes import ROOT

from testbed.layerings.nodes.node import MOSQUITTO, SSB_SERVER

PLACES = ("testbed/api", "testbed/artifact", "testbed/cli/runs", "testbed/experiment", "testbed/study")
FEWEST = 4
"""Words of a message; what is shorter is a part of one."""


def said(source: str) -> Iterator[tuple[str, int]]:
    """Yield the text of each message, without its punctuation, and its line."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            text = node.value.strip(" ;:,.")
            if len(text.split()) >= FEWEST:
                yield text, node.lineno


def twice(sources: dict[str, str]) -> list[list[str]]:
    """Return the places of messages that are written more than once."""
    places = defaultdict(list)
    for name, source in sources.items():
        for text, line in said(source):
            places[text].append(f"{name}:{line}: {text}")
    return [found for found in places.values() if len(found) > 1]


def test_each_message_of_the_experiment_commands_is_written_once() -> None:
    files = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    assert len(files) > 40
    assert not twice({str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files})


def test_programs_of_others_have_a_name() -> None:
    """Written out only where it is defined, and where a type has to be."""
    trees = [
        ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "testbed/experiment").rglob("*.py")
    ]
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not texts & {MOSQUITTO, SSB_SERVER}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('a("leave one of them out"); b(f"{x}: leave one of them out")', 1),
        ('"""Leave one of them out."""\na("leave one of them out")', 0),
        ('a("leave it out"); b("leave it out")', 0),
    ],
)
def test_what_is_written_twice_is_found(source: str, count: int) -> None:
    assert len(twice({"x.py": source})) == count
