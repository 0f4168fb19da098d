"""The table of what the papers say: no row without a command or a reason, and all that it names exists."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
from test_documents import ROOT, command_of

from testbed.library import scenarios


def generator():  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location("seeds", ROOT / "docs" / "seeds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SEEDS = generator()
ROWS = SEEDS.rows()


def test_the_page_is_what_the_rows_say() -> None:
    assert (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8") == SEEDS.document()


def wrong(row) -> str | None:  # type: ignore[no-untyped-def]
    """What is wrong with a row; None if nothing is."""
    if row.verdict not in SEEDS.VERDICTS:
        return "unknown verdict"
    if (row.verdict == "missing") != (not row.command):
        return "a row has a command, or is missing"
    if (row.verdict == "works") == bool(row.reason):
        return "only what works needs no reason"
    if bool(row.where) != bool(row.command) or not (ROOT / row.where).exists():
        return "no such place"
    return None if not row.command or is_command(row.command) else "no such command"


def is_command(line: str) -> bool:
    words = shlex.split(line)
    if line.startswith("tests/"):
        return re.fullmatch(r"tests/[\w/]+\.py", line) is not None and (ROOT / line).is_file()
    if words[:2] == ["python", "-m"]:
        return importlib.util.find_spec(words[2]) is not None
    if words[0] != "feednet" or (words[1] == "run" and words[2] not in scenarios()):
        return False
    command_of(words[1]).make_context(words[1], words[2:])
    return True


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.claim[:40])
def test_a_row_has_a_command_that_exists_or_a_reason(row) -> None:  # type: ignore[no-untyped-def]
    assert wrong(row) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "done"},
        {"command": ""},
        {"reason": "", "verdict": "in part"},
        {"where": "forwarder/nowhere.py"},
        {"command": "tests/test_nothing.py"},
        {"command": "feednet run nothing"},
        {"command": "python -m testbed.nothing"},
    ],
    ids=str,
)
def test_a_bad_row_is_noticed(changes: dict[str, str]) -> None:
    row = SEEDS.Row("", "P 2", "claim", "works", "forwarder/", "feednet run fanout", "")
    assert wrong(row) is None
    assert wrong(row._replace(**changes)) is not None


def test_there_are_all_rows() -> None:
    assert len(ROWS) >= 170
    assert len({(row.section, row.claim) for row in ROWS}) == len(ROWS)
    assert Path(SEEDS.__file__).is_file()
