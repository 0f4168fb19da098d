"""Progress of commands on a terminal: position, and time left.

There are no bars elsewhere, where output is read later.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress_bar import ProgressBar
from rich.text import Text

from testbed.cli.console import timed

Counted = Callable[[int, int, str], None]
"""Called with (done, total, current item)."""


@contextmanager
def counted(console: Console, what: str, total: int | None = None) -> Iterator[Counted]:
    """Show n of m with a bar and the time left."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total, told="")

        def show(done: int, of: int, told: str) -> None:
            progress.update(task, completed=done, total=of, told=told)

        yield show


class Stages(Protocol):
    """Shows stages, one after the other."""

    def __call__(self, text: str, seconds: float | None = None) -> None:
        """Begin a stage, with its estimated duration if known."""

    def advance(self, share: float) -> None:
        """Report the share of the stage done, from 0 to 1."""


@contextmanager
def staged(console: Console) -> Iterator[Stages]:
    """Show stages: a bar and the time left if known, then a line with the time taken."""
    columns = (
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}", markup=False),
        _Bar(),
        TimeElapsedColumn(),
        _TimeLeft(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        shown = _Stages(console, progress)
        yield shown
        shown.finish()


class _Stages:
    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._task = progress.add_task("", total=None, seconds=None, share=None)
        self._begun: tuple[str, float] | None = None

    def __call__(self, text: str, seconds: float | None = None) -> None:
        self.finish()
        self._begun = text, time.monotonic()
        self._progress.reset(self._task, description=text, total=None, seconds=seconds, share=None)

    def advance(self, share: float) -> None:
        self._progress.update(self._task, share=share)

    def finish(self) -> None:
        if self._begun is not None:
            text, since = self._begun
            self._begun = None
            self._console.print(timed(text, time.monotonic() - since))


def share_done(elapsed: float, seconds: float | None, share: float | None) -> float | None:
    """Return the share of a stage done, from 0 to 1; None if unknown."""
    if share is not None:
        return share
    return None if seconds is None else min(elapsed / seconds, 1.0)


def time_left(elapsed: float, seconds: float | None, share: float | None) -> float | None:
    """Return the remaining seconds of a stage; None if unknown."""
    if share is not None:
        return elapsed * (1 - share) / share if share > 0 else None
    return None if seconds is None else max(seconds - elapsed, 0.0)


class _Bar(ProgressColumn):
    """Shows a stage's progress; pulses if unknown."""

    max_refresh = 0.1

    def render(self, task: Task) -> ProgressBar:
        """Draw the bar."""
        done = share_done(task.elapsed or 0.0, task.fields["seconds"], task.fields["share"])
        return ProgressBar(total=1.0, completed=done or 0.0, width=24, pulse=done is None)


class _TimeLeft(ProgressColumn):
    """Shows a stage's remaining time, if known."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """Format the time."""
        left = time_left(task.elapsed or 0.0, task.fields["seconds"], task.fields["share"])
        return Text(
            "" if left is None else f"left {timedelta(seconds=round(left))}", style="progress.remaining"
        )
