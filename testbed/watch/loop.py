"""Keeps a live page up to date, until all has been read or the captures stop growing."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from testbed.watch.page import LivePage
from testbed.watch.target import Target

if TYPE_CHECKING:
    from analysis.live.query import LiveQuery

LOOK_S = 0.1
"""Polling interval of the captures; the page is updated on news, and once a second."""


def follow(
    page: LivePage,
    query: "LiveQuery",
    target: Target,
    idle: float | None,
    status: Callable[[str], None],
    check: Callable[[], None],
) -> None:
    """Update the page until all has been read.

    With `idle`, s, it also ends when the captures have not grown for that time. `status` receives the page's
    headline; `check` is called at points of interruption.
    """
    written, progressed = 0.0, time.monotonic()
    while True:
        now = time.monotonic()
        is_complete = target.is_complete  # before reading the sizes: they are final then
        query.poll(now)
        if query.batches != page.batches or now - written >= 1:
            if query.batches != page.batches:
                progressed = now
            written = now
            page.write_news()
            query.on_shown(page.batches, time.monotonic())
            status(page.headline)
        quiet = now - max(progressed, query.changed or 0)
        if (is_complete or (idle is not None and quiet >= idle)) and query.is_read():
            return
        time.sleep(LOOK_S)
        check()


def serve_to_the_end(page: LivePage, idle: float | None, check: Callable[[], None]) -> None:
    """Serve the last page until an interrupt, and rewrite it once the run's report exists.

    With `idle`, s, until that time after it.
    """
    since, was_pending = time.monotonic(), page.is_pending
    with suppress(KeyboardInterrupt):
        while idle is None or time.monotonic() - since < idle:
            if was_pending and not page.is_pending:
                since, was_pending = time.monotonic(), False
                page.write_page()
            time.sleep(LOOK_S)
            check()
