"""What commands print in colour.

Text is text: brackets in a name are no markup, and what is between colons is no emoji. Styles are arguments
of print(), or those of a Text.
"""

from rich.console import Console
from rich.text import Text


def plain_console(*, stderr: bool = False, soft_wrap: bool = True) -> Console:
    """Return a console that takes text as it is."""
    return Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, markup=False, emoji=False)


console = plain_console()


def result(label: str, text: str) -> None:
    """Print the last line of a command: where what it has made is."""
    console.print(Text.assemble((label, "bold green"), " " * (10 - len(label)), text))


def timed(text: str, seconds: float) -> Text:
    """Say what has been done, and how long it took."""
    return Text.assemble(text, "  ", (f"{seconds:.1f} s", "dim"))
