"""Commands are imported when they are asked for, and only then."""

import subprocess
import sys

import click
import pytest

from testbed.cli.group import LazyGroup
from testbed.cli.main import feednet


def groups(group: click.Group, name: str) -> dict[str, click.Group]:
    """Return a group and those in it, by what one types."""
    found = {name: group}
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        if isinstance(command, click.Group):
            found |= groups(command, f"{name} {each}")
    return found


@pytest.mark.parametrize(("typed", "group"), groups(feednet, "feednet").items())
def test_each_command_is_where_its_group_looks(typed: str, group: click.Group) -> None:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        assert command.name == name, f"{typed} {name}"
        assert command.get_short_help_str()
        if isinstance(group, LazyGroup):
            assert group._summary(context, name, 45) == command.get_short_help_str(45)


def test_what_is_no_command_is_refused() -> None:
    with pytest.raises(click.UsageError, match="No such command 'nothing'"):
        feednet.main(["nothing"], standalone_mode=False)
    assert isinstance(feednet, LazyGroup)
    feednet.load(["model", "nothing", "ladder"])
    feednet.load(["--help"])


@pytest.mark.parametrize(
    "words", ["--help", "list", "model --help", "forward --help", "ssb --help", "status --help"]
)
def test_a_command_does_not_wait_for_the_others(words: str) -> None:
    heavy = ["numpy", "scipy", "pyarrow", "networkx", "mininet", "scapy", "pyspark"]
    heavy += ["pydantic", "testbed.layerings.nodes.node"] if words in ("list", "--help") else []
    program = (
        "import sys; from testbed.cli.main import feednet;"
        f"feednet.main({words.split()!r}, standalone_mode=False);"
        f"sys.exit(', '.join(name for name in {heavy!r} if name in sys.modules) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
