"""`feednet watch`: a page of a run, or of any captures, while they are written."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click
from rich.text import Text

from analysis.report.words.numbers import count_of
from testbed.cli import interrupts
from testbed.cli.console import console
from testbed.cli.options import Number, spark_options
from testbed.errors import UserError
from testbed.watch.loop import LOOK_S, follow, serve_to_the_end
from testbed.watch.page import LivePage, lag_text
from testbed.watch.server import served
from testbed.watch.target import Target, find_target


@click.command()
@click.argument(
    "targets", nargs=-1, required=True, metavar="RUN | CAPTURE...", type=click.Path(path_type=Path)
)
@spark_options()
@click.option("--every", type=Number(0.1, 3600), default=1.0, help="Seconds between batches.")
@click.option("--page", "page", type=click.Path(path_type=Path), help="Page to write; default RUN.live.html.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Serve the page on this port of 127.0.0.1; 0: any."
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the state, from which a later watch goes on; default none.",
)
@click.option("--idle", type=Number(0.1, 86_400), help="End after so many seconds without growth.")
def watch(
    targets: tuple[Path, ...],
    master: str | None,
    every: float,
    page: Path | None,
    port: int | None,
    checkpoint: Path | None,
    idle: float | None,
) -> None:
    """Show what is going on while captures are being written: a page that follows them.

    RUN is the --out of a `feednet run` that is going on, or is about to begin; the command ends when the run
    is complete and all of it has been read. CAPTURE is a pcap or pcapng file that any program is writing;
    end with Ctrl-C, or by --idle. With --port, the page and the run's report are served until then, too.
    """
    target = find_target(targets)
    page = page or target.path.with_name(target.path.name + ".live.html")
    try:
        _watch(target, master, every, page, port, checkpoint, idle)
    except OSError as error:
        raise UserError(f"{error.filename or page}: {error.strerror}") from error


def _watch(
    target: Target,
    master: str | None,
    every: float,
    path: Path,
    port: int | None,
    checkpoint: Path | None,
    idle: float | None,
) -> None:
    from analysis.live.query import LiveQuery, warm_up
    from analysis.spark.session import spark_session

    if checkpoint is None and not (master or "local").startswith("local"):
        raise UserError("--master: a cluster needs --checkpoint, a directory that its machines share")
    if idle is not None:  # Spark may take longer to start
        _await(target, idle)
    target.check()
    is_begun = target.begin()
    live = console.status("starting Spark") if console.is_terminal else nullcontext()
    with live as spinner:

        def status(text: str) -> None:
            if spinner is not None:
                spinner.update(Text(text))

        spark = spark_session(master, small=True)
        if not is_begun:
            console.print(f"waiting   for {target.run} to begin")
            warm_up(spark)
        while not (is_begun or target.begin()):
            status(f"waiting for {target.run} to begin")
            time.sleep(LOOK_S)
        query = LiveQuery(spark, target.captures, target.breaks, target.rule, every, checkpoint)
        page = LivePage(target, query, path, is_served=port is not None)
        try:
            page.write_page()
            with served(page, port) as url, _interrupts() as check:
                console.print(f"page      {url or path.resolve().as_uri()}")
                follow(page, query, target, idle, status, check)
                page.end("complete" if target.is_complete else "no more has come")
                if url:
                    console.print("serving   the page, and the report once it is there; end with Ctrl-C")
                    status("serving; end with Ctrl-C")
                    serve_to_the_end(page, idle, check)
        except KeyboardInterrupt:
            page.end("watching was interrupted")
            raise
        except Exception as error:
            page.end(f"failed: {error}")
            raise
        finally:
            query.stop()
    frames = sum(capture.frames for capture in query.captures.values())
    console.print(f"watched   {count_of(frames, 'frame')}{lag_text(query.lags)}")


def _await(target: Target, idle: float) -> None:
    """Wait for the first target. Raises UserError after `idle` seconds without one."""
    begun = time.monotonic()
    while not target.is_there:
        if time.monotonic() - begun >= idle:
            what = "run" if target.run else "capture"
            raise UserError(f"{target.run or target.title}: no {what} has begun within {idle:g} s")
        time.sleep(LOOK_S)


@contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt after an interrupt: raised inside a call to Spark it
    would corrupt its state. The second interrupt is immediate.
    """
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
