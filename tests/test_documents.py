"""Documents say what is: their commands exist, their links lead somewhere, their paths are there."""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from testbed.cli import feednet

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
ROOMS = "analysis|captures|docs|forwarder|ndn_over_ssb|ssb|ssb_over_ndn|testbed|tests|topologies"


def blocks(path: Path) -> list[str]:
    found = re.findall(r"^```\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line.partition("  #")[0].strip() for block in found for line in block.splitlines()]


COMMANDS = [line for path in DOCUMENTS for line in blocks(path) if re.match(r"(feednet|make) ", line)]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("feednet ")])
def test_a_command_is_understood(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    command = feednet.commands[name]
    assert isinstance(command, click.Command)
    command.make_context(name, arguments)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make ")])
def test_a_target_exists(line: str) -> None:
    subprocess.run(["make", "--dry-run", *shlex.split(line)[1:]], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (path.parent / target).exists(), target
    for named in re.findall(rf"`((?:{ROOMS})/[\w./-]*)`", text):
        assert (ROOT / named).exists(), named


def test_the_commands_were_found() -> None:
    assert len(COMMANDS) >= 8
