"""Documents say what is: their commands exist, their links lead somewhere, their paths are there."""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from testbed.cli.main import feednet

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
ROOMS = "analysis|captures|docs|forwarder|ndn_over_ssb|ssb|ssb_over_ndn|testbed|tests|topologies"


def blocks(path: Path) -> list[str]:
    """Return the lines of a document's blocks of no language, without comments."""
    fence = r"^```(\w*)\n(.*?)^```$"
    found = re.findall(fence, path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [
        line.partition("  #")[0].strip()
        for language, block in found
        if not language
        for line in block.splitlines()
    ]


COMMANDS = [line for path in DOCUMENTS for line in blocks(path) if re.match(r"(feednet|make) ", line)]


def command_of(name: str) -> click.Command:
    command = feednet.get_command(click.Context(feednet), name)
    assert command is not None, name
    return command


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("feednet ")])
def test_a_command_is_understood(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    command_of(name).make_context(name, arguments)


def test_the_readme_s_commands_find_what_they_name() -> None:
    """From an empty directory, one after the other: what a command reads, one before it has written."""
    written: list[str] = []

    def is_there(name: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for path in written)

    for line in blocks(ROOT / "README.md"):
        if not re.match(r"(feednet|printf|tshark) ", line):
            continue
        words = shlex.split(line.removesuffix(" &"))
        if words[0] == "feednet":
            context = command_of(words[1]).make_context(words[1], words[2:])
            given = context.params
            named = [given.get(name) for name in ("feed", "topology_file", "directory", "capture")]
            named += [*given.get("directories", ()), *given.get("captures", ())]
            if words[1] == "watch":  # of a run that is to begin, as well
                named += [path for path in given["targets"] if path.suffix]
            for name in filter(None, map(str, filter(None, named))):
                path = name.partition("=")[2] or name
                assert "*" in path or is_there(path.rstrip("/")), line
            if words[1] in ("run", "analyze") and given["out"] is not None:  # else called by the time
                assert not is_there(str(given["out"])), f"{line}: it is there already"
                written.append(str(given["out"]))
        else:
            written += [words[words.index(sign) + 1] for sign in (">", "-w") if sign in words]


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
