"""Documents say what is: their commands exist, their links lead somewhere, their paths are there."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from testbed.cli.main import feednet

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FROM_EMPTY = [
    ROOT / name
    for name in (
        "README.md",
        "docs/first-steps.md",
        "docs/running.md",
        "docs/captures.md",
        "docs/simulation.md",
        "docs/teach.md",
    )
]
"""Documents whose commands work as they stand, one after the other from an empty directory."""
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


@pytest.mark.parametrize("path", FROM_EMPTY, ids=lambda path: path.name)
def test_commands_from_an_empty_directory_find_what_they_name(path: Path) -> None:
    """What a command reads, one before it has written."""
    written: list[str] = []

    def is_there(name: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for path in written)

    for line in blocks(path):
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
                read = name.partition("=")[2] or name
                assert "*" in read or is_there(read.rstrip("/")), line
            if words[1] in ("run", "analyze") and given["out"] is not None:  # else called by the time
                assert not is_there(str(given["out"])), f"{line}: it is there already"
                written.append(str(given["out"]))
        else:
            written += [words[words.index(sign) + 1] for sign in (">", "-w") if sign in words]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make ")])
def test_a_target_exists(line: str) -> None:
    subprocess.run(["make", "--dry-run", *shlex.split(line)[1:]], cwd=ROOT, capture_output=True, check=True)


def prose(path: Path) -> str:
    """Return a document without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Return what links may lead to: a document's headings, as GitHub and the site call them, and its ids.

    Of headings with one text the first alone: the two number the others differently.
    """
    text = prose(path)
    headings = [re.sub(r"\]\(.*?\)", "", line) for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    made = {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in headings}
    return made | {*re.findall(r'<a id="(.+?)">', text)}


def links(path: Path) -> list[tuple[Path, str]]:
    """Return the files that a document's links lead to, and the anchors in them."""
    found = re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", prose(path))
    found += [(source, "") for source in re.findall(r'<img src="(.+?)"', prose(path))]
    return [(Path(os.path.normpath(path.parent / name)) if name else path, there) for name, there in found]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_paths_lead_somewhere(path: Path) -> None:
    for target, anchor in links(path):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target.name}#{anchor}"
    for named in re.findall(rf"`((?:{ROOMS})/[\w./-]*)`", path.read_text(encoding="utf-8")):
        assert (ROOT / named).exists(), named


def test_every_page_is_in_the_table_of_contents_and_in_the_navigation_of_the_site() -> None:
    docs = ROOT / "docs"
    outside = {"contributing.md": ROOT / "CONTRIBUTING.md", "changelog.md": ROOT / "CHANGELOG.md"}
    pages = {*docs.glob("**/*.md"), *outside.values()}
    named = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(outside.get(name, docs / name) for name in named) == sorted(pages)
    assert {target for target, _ in links(docs / "index.md")} >= pages - {docs / "index.md"}


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") < 200
    uses = re.findall(r"^### \d\. [^\n]*\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    assert len(uses) == 6
    for use in uses:
        assert len([line for line in use.splitlines() if line]) <= 8, use
        assert "](docs/" in use, use


def test_the_commands_were_found() -> None:
    assert len(COMMANDS) >= 8
