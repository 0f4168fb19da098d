"""`feednet watch`: a page of a run, or of any captures, while they are being written."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from testbed.cli import interrupts
from testbed.cli.watch_target import Target, find_target
from testbed.cli.watch_view import View, lag_told, served
from testbed.errors import UserError

if TYPE_CHECKING:
    from analysis.live.query import LiveQuery

console = Console(highlight=False, soft_wrap=True)

LOOK_S = 0.1
"""Between two looks at what there is; the page is told when there is news, and once a second."""


@click.command()
@click.argument(
    "targets", nargs=-1, required=True, metavar="RUN | CAPTURE...", type=click.Path(path_type=Path)
)
@click.option("--master", help="Spark master; default local.")
@click.option(
    "--every", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds between batches."
)
@click.option("--page", "page", type=click.Path(path_type=Path), help="Page to write; default RUN.live.html.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Serve the page on this port of 127.0.0.1; 0: any."
)
@click.option("--idle", type=click.FloatRange(0.1), help="End after so many seconds without growth.")
def watch(
    targets: tuple[Path, ...],
    master: str | None,
    every: float,
    page: Path | None,
    port: int | None,
    idle: float | None,
) -> None:
    """Show what is going on while captures are being written: a page that follows them.

    RUN is the --out of a `feednet run` that is going on, or is about to begin; the command ends when the run
    is complete and all of it has been read. CAPTURE is a pcap or pcapng file that any program is writing;
    end with Ctrl-C, or by --idle. With --port, the page and the run's report are served until then, too.
    """
    from analysis.errors import AnalysisError

    target = find_target(targets)
    page = page or target.path.with_name(target.path.name + ".live.html")
    try:
        _watch(target, master, every, page, port, idle)
    except AnalysisError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename or page}: {error.strerror}") from error


def _watch(
    target: Target, master: str | None, every: float, page: Path, port: int | None, idle: float | None
) -> None:
    from analysis.live.query import LiveQuery, warm_up
    from analysis.spark.session import spark_session

    is_begun = target.begin()
    live = console.status("starting Spark") if console.is_terminal else nullcontext()
    with live as status:

        def tell(text: str) -> None:
            if status is not None:
                status.update(text)

        spark = spark_session(master, small=True)
        begun = time.monotonic()
        if not is_begun:
            console.print(f"waiting   for {target.run} to begin")
            warm_up(spark)
        while not (is_begun or target.begin()):
            tell(f"waiting for {target.run} to begin")
            if idle is not None and time.monotonic() - begun >= idle:
                raise UserError(f"{target.run}: no run has begun within {idle:g} s")
            time.sleep(LOOK_S)
        query = LiveQuery(spark, target.captures, target.breaks, target.rule, every)
        view = View(target, query, page, is_served=port is not None)
        try:
            view.write_page()
            with served(view, port) as url, _interrupts() as check:
                console.print(f"page      {url or page.resolve().as_uri()}")
                _follow(view, query, target, idle, tell, check)
                view.end("complete" if target.is_complete else "no more has come")
                if url:
                    _go_on_serving(view, idle, tell, check)
        except KeyboardInterrupt:
            view.end("watching was interrupted")
            raise
        except Exception as error:
            view.end(f"failed: {error}")
            raise
        finally:
            query.stop()
    frames = sum(capture.frames for capture in query.followed.values())
    console.print(f"watched   {frames} frames{lag_told(query.lags)}")


def _go_on_serving(
    view: View, idle: float | None, tell: Callable[[str], None], check: Callable[[], None]
) -> None:
    """Serve the last page, and the report once it is written, until an interrupt; with `idle`, s, until so
    long after the last that is new."""
    console.print("serving   the page, and the report once it is there; end with Ctrl-C")
    tell("serving; end with Ctrl-C")
    since, was_pending = time.monotonic(), view.is_pending
    with suppress(KeyboardInterrupt):
        while idle is None or time.monotonic() - since < idle:
            if was_pending and not view.is_pending:
                since, was_pending = time.monotonic(), False
                view.write_page()
            time.sleep(LOOK_S)
            check()


@contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Yield what raises KeyboardInterrupt if there has been an interrupt: in the middle of a call to Spark it
    would leave that in confusion. The second one does not wait."""
    seen: list[int] = []

    def note(number: int, _: object) -> None:
        seen.append(number)
        interrupts.received.append(number)
        if len(seen) > 1:
            raise KeyboardInterrupt

    def check() -> None:
        if seen:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(
    view: View,
    query: "LiveQuery",
    target: Target,
    idle: float | None,
    tell: Callable[[str], None],
    check: Callable[[], None],
) -> None:
    """Keep the page up to date until all has been read; `check` is called where an interrupt may come."""
    told, progressed = 0.0, time.monotonic()
    while True:
        now = time.monotonic()
        is_complete = target.is_complete  # before the sizes are looked at: they are final then
        query.look(now)
        if query.batches != view.batches or now - told >= 1:
            if query.batches != view.batches:
                progressed = now
            told = now
            view.write_news()
            query.shown(view.batches, time.monotonic())
            tell(view.headline)
        quiet = now - max(progressed, query.changed or 0)
        if (is_complete or (idle is not None and quiet >= idle)) and query.is_read():
            return
        time.sleep(LOOK_S)
        check()
