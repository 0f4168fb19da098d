"""Coloured output of commands.

Text is literal: brackets in a name are no markup, and words between colons no emoji. Styles are arguments of
print(), or of a Text.
"""

from rich.console import Console
from rich.text import Text


def plain_console(*, stderr: bool = False, soft_wrap: bool = True) -> Console:
    """Return a console that prints text literally."""
    return Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, markup=False, emoji=False)


console = plain_console()


def result(label: str, text: str) -> None:
    """Print the last line of a command: the path of its result."""
    console.print(Text.assemble((label, "bold green"), " " * (10 - len(label)), text))


def timed(text: str, seconds: float) -> Text:
    """Print a completed step, and its duration."""
    return Text.assemble(text, "  ", (f"{seconds:.1f} s", "dim"))
