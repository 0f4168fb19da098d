"""Progress of commands on a terminal: position, and time left.

There are no bars elsewhere, where output is read later.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
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
    with _display(console, *columns) as progress:
        task = progress.add_task(what, total=total, told="")

        def show(done: int, of: int, told: str) -> None:
            progress.start()
            progress.update(task, completed=done, total=of, told=told)

        yield show


@contextmanager
def staged(console: Console) -> Iterator["Stages"]:
    """Show stages: a bar and the time left if known, then a line with the time taken."""
    columns = (
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}", markup=False),
        _Bar(),
        TimeElapsedColumn(),
        _TimeLeft(),
    )
    with _display(console, *columns) as progress:
        shown = Stages(console, progress)
        yield shown
        shown.finish()


@contextmanager
def _display(console: Console, *columns: ProgressColumn) -> Iterator[Progress]:
    """Stop a display at the end. It starts, and with it a thread, when there is something to show: until then
    workers can be copies of this process.
    """
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    try:
        yield progress
    finally:
        progress.stop()


class Stages:
    """Shows stages: one after the other, or several at a time."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._begun: dict[str, tuple[TaskID, str, float]] = {}

    def __call__(self, text: str, seconds: float | None = None) -> None:
        """Begin the only stage, with its estimated duration if known."""
        self.finish()
        self.begin("", text, seconds)

    def begin(self, key: str, text: str, seconds: float | None = None) -> None:
        """Begin a stage beside others, with its estimated duration if known; advance() reports its end."""
        self._progress.start()
        task = self._progress.add_task(text, total=None, seconds=seconds, share=None)
        self._begun[key] = task, text, time.monotonic()

    def advance(self, key: str, share: float) -> None:
        """Report the share of a stage done, from 0 to 1, with which it ends."""
        if share >= 1:
            self._end(key)
        else:
            self._progress.update(self._begun[key][0], share=share)

    def finish(self) -> None:
        """End all stages."""
        for key in [*self._begun]:
            self._end(key)

    def _end(self, key: str) -> None:
        task, text, since = self._begun.pop(key)
        self._progress.remove_task(task)
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
