"""What a notebook shows beside tables: bars while something is computed, and the player of a run.

IPython is there in a notebook only, and is not imported elsewhere.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import Any

_PAUSE_S = 0.1
"""Time between two drawings, at least."""


def is_here() -> bool:
    """Return whether this program is the kernel of a notebook: a terminal has no place for its displays."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return getattr(get_shell(), "kernel", None) is not None


class Bars:
    """Bars in the cell that is being run, one for each thing that is computed; outside notebooks nothing."""

    def __init__(self) -> None:
        self._begun = self._drawn = time.monotonic()
        self._shares: dict[str, float | None] = {}
        self._said = ""
        self._place: Any = None

    def begin(self, name: str) -> None:
        """Begin something of which it is not known how much is done."""
        self._shares[name] = None
        self._draw()

    def advance(self, name: str, share: float) -> None:
        """Show the share done of something, from 0 to 1."""
        self._shares[name] = share
        if share >= 1 or time.monotonic() - self._drawn >= _PAUSE_S:
            self._draw()

    def step(self, name: str) -> None:
        """Begin what follows all that has been shown so far."""
        self._shares = {}
        self.begin(name)

    def end(self, said: str) -> None:
        """Put a line in place of the bars: what was done, and the time that it took."""
        self._shares = {}
        self._said = f"{said} in {time.monotonic() - self._begun:.1f} s"
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if not is_here():
            return
        if self._place is None:
            self._place = import_module("IPython.display").display(self, display_id=True)
        else:
            self._place.update(self)

    def __repr__(self) -> str:
        return self._said or ", ".join(f"{name} {_percent(share)}" for name, share in self._shares.items())

    def _repr_html_(self) -> str:
        if self._said:
            return f"<div>{escape(self._said)}</div>"
        rows = (
            f'<div><progress max="1"{"" if share is None else f" value={share:.3f}"} '
            f'aria-label="{escape(name)}"></progress> {escape(name)} {_percent(share)}</div>'
            for name, share in self._shares.items()
        )
        return "".join(rows)


@contextmanager
def bars(done: str) -> Iterator[Bars]:
    """Show bars while something is computed, and `done` with the time taken afterwards; after an error they
    stay as they are.
    """
    shown = Bars()
    yield shown
    shown.end(done)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


@dataclass(frozen=True, eq=False, repr=False)
class Player:
    """A player, which a notebook shows where it is the value of a cell.

    Args:
        page: the HTML.
        title: what it plays.
        height: of its frame, pixels.
    """

    page: str
    title: str
    height: int

    def __repr__(self) -> str:
        return f"the player of {self.title}, for notebooks; elsewhere: feednet play"

    def _repr_html_(self) -> str:
        # A sandbox: the page reads nothing of the notebook's.
        return (
            f'<iframe srcdoc="{escape(self.page)}" title="Player of {escape(self.title)}" width="100%" '
            f'height="{self.height}" style="border: 0" sandbox="allow-scripts"></iframe>'
        )
