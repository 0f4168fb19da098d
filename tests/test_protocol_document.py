"""The protocol document says what the code does: its generated parts are current, what it names exists."""

import re
import runpy
from enum import EnumMeta
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import forwarder
from forwarder.wire.evidence import SIGNED

ROOT = Path(__file__).parents[1]
GENERATE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generate.py"))
TEXT = (ROOT / "docs" / "controlled-push.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"<!-- generated: ([a-z ]+) -->\n(.*?)<!-- end -->", re.DOTALL)
PROSE = BLOCK.sub("", TEXT)


def names_in_code() -> set[str]:
    """Every constant of a module or a class, and every member of an enumeration, of the forwarder's rooms."""
    found: set[str] = set()
    for info in walk_packages(forwarder.__path__, "forwarder."):
        module = import_module(info.name)
        for holder in (module, *(value for value in vars(module).values() if isinstance(value, type))):
            found |= {name for name in dir(holder) if name.isupper()}
            if isinstance(holder, EnumMeta):
                found |= set(holder.__members__)
    return found


@pytest.mark.parametrize("name", list(GENERATE["BLOCKS"]))
def test_a_generated_part_is_current(name: str) -> None:
    found = [block for title, block in BLOCK.findall(TEXT) if title == name]
    made = GENERATE["BLOCKS"][name]()
    assert found == [made + "\n"], "mend: python docs/generate.py"


def test_no_part_is_left_that_nothing_makes() -> None:
    assert {title for title, _ in BLOCK.findall(TEXT)} == set(GENERATE["BLOCKS"])
    assert TEXT.count("<!--") == 2 * len(GENERATE["BLOCKS"])


def test_states_events_modes_and_constants_exist() -> None:
    named = set(re.findall(r"`(_?[A-Z][A-Z_]+)`", TEXT))
    assert len(named) > 30
    assert not named - names_in_code()


def test_type_numbers_in_prose_are_registered() -> None:
    known = set(re.findall(r"^\| `(0x[0-9A-F]+)`", GENERATE["registry"](), re.MULTILINE))
    assert len(known) == 22
    assert set(re.findall(r"0x[0-9A-Fa-f]+", PROSE)) <= known | {f"0x{SIGNED:X}"}  # a bit, no type


@pytest.mark.parametrize("name", ["lli", "cancel", "item", "idle", "hello", "nack", "fork"])
def test_an_annotated_packet_has_all_its_bytes(name: str) -> None:
    wire = GENERATE[f"{name}_packet"]()
    assert b"".join(part for _, part, _, _ in GENERATE["dissect"](wire)) == wire


def test_sections_that_are_referred_to_exist() -> None:
    headings = {int(number) for number in re.findall(r"^## (\d+)\. ", TEXT, re.MULTILINE)}
    assert headings == set(range(1, len(headings) + 1))
    foreign = re.sub(
        r"RFC \d+, section [\d.]+|\(2019, section [\d.]+\)|the paper \(section [\d.]+\)", "", PROSE
    )
    assert {int(number) for number in re.findall(r"[Ss]ection (\d+)", foreign)} <= headings
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= anchors


def test_every_table_has_a_head() -> None:
    tables = re.findall(r"(?:^\|.*\|$\n?)+", TEXT, re.MULTILINE)
    assert len(tables) >= 15
    for table in tables:
        head, rule, *rows = table.splitlines()
        assert re.fullmatch(r"\|( ?-+ ?\|)+", rule), head
        assert {row.count("|") for row in rows} == {head.count("|")}, head
