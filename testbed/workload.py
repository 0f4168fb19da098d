"""What is published and when."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

from ssb.export import read_export
from ssb.generate import generate_feed
from ssb.message import Message
from testbed.errors import UserError
from testbed.scenario import Schedule, Workload

MS = 1_000_000


def messages(workload: Workload, seed: int) -> list[Message]:
    """Return the feed to publish: the export's, or one generated from the seed. Raises UserError."""
    if workload.feed is None:
        return generate_feed(Random(f"feed {seed}"), workload.items)
    try:
        return read_export(Path(workload.feed))
    except OSError as error:
        raise UserError(f"{workload.feed}: {error.strerror}; give a feed export's path") from error
    except ValueError as error:
        raise UserError(str(error)) from error


def publication_times(feed: Sequence[Message], schedule: Schedule, first: int) -> list[int]:
    """Return when each message is published, ns: the first at `first`, the others by their timestamps.

    Timestamps are their authors' claims and may run backwards; that counts as no time in between.
    """
    times = [first]
    for before, after in pairwise(feed):
        gap_ms = (after.timestamp - before.timestamp) / schedule.speed
        times.append(times[-1] + round(min(max(gap_ms, 0), schedule.idle_limit_ms) * MS))
    return times
