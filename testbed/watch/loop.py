"""Keeps a live page up to date, until all has been read or nothing comes any more."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from testbed.watch.page import LivePage
from testbed.watch.target import Target

if TYPE_CHECKING:
    from analysis.live.query import LiveQuery

LOOK_S = 0.1
"""Between two looks at the captures; the page gets its news when there are any, and once a second."""


def follow(
    page: LivePage,
    query: "LiveQuery",
    target: Target,
    idle: float | None,
    status: Callable[[str], None],
    check: Callable[[], None],
) -> None:
    """Keep the page up to date until all has been read.

    With `idle`, s, it also ends when the captures have not grown for so long. `status` gets the page's
    headline; `check` is called where an interrupt may come.
    """
    written, progressed = 0.0, time.monotonic()
    while True:
        now = time.monotonic()
        is_complete = target.is_complete  # before the sizes are looked at: they are final then
        query.look(now)
        if query.batches != page.batches or now - written >= 1:
            if query.batches != page.batches:
                progressed = now
            written = now
            page.write_news()
            query.shown(page.batches, time.monotonic())
            status(page.headline)
        quiet = now - max(progressed, query.changed or 0)
        if (is_complete or (idle is not None and quiet >= idle)) and query.is_read():
            return
        time.sleep(LOOK_S)
        check()


def serve_to_the_end(page: LivePage, idle: float | None, check: Callable[[], None]) -> None:
    """Keep the last page until an interrupt, and write it once more when the run's report is there.

    With `idle`, s, until so long after that.
    """
    since, was_pending = time.monotonic(), page.is_pending
    with suppress(KeyboardInterrupt):
        while idle is None or time.monotonic() - since < idle:
            if was_pending and not page.is_pending:
                since, was_pending = time.monotonic(), False
                page.write_page()
            time.sleep(LOOK_S)
            check()
