"""Coloured output of commands.

Text is literal: brackets in a name are no markup, and words between colons no emoji. Styles are arguments of
print(), or of a Text.
"""

from collections.abc import Mapping

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ssb.tiny.daemon.texts import printable


def plain_console(*, stderr: bool = False, soft_wrap: bool = True) -> Console:
    """Return a console that prints text literally."""
    return Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, markup=False, emoji=False)


console = plain_console()


def say(text: str, *, err: bool = False) -> None:
    """Print text that strangers may have written parts of: they must not reach the terminal's controls."""
    click.echo("\n".join(map(printable, text.split("\n"))), err=err)


def result(label: str, text: str) -> None:
    """Print the last line of a command: the path of its result."""
    console.print(Text.assemble((label, "bold green"), " " * (10 - len(label)), text))


def table(title: str, *columns: str, names: int = 1) -> Table:
    """Return a table without rules, of whose columns the first `names` hold text, and the others numbers."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None)
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place < names else "right", no_wrap=True)
    return made


def timed(text: str, seconds: float) -> Text:
    """Print a completed step, and its duration."""
    return Text.assemble(text, "  ", (f"{seconds:.1f} s", "dim"))


def about(seconds: float) -> str:
    """Return an estimated duration: "2.5 s", "42 min"."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def durations(takes: Mapping[str, float]) -> str:
    """Return testbed.experiment.outlook.takes() in words."""
    return f"{about(takes['emulated'])} in the emulator, {about(takes['mininet'])} over Mininet"
