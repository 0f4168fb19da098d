"""The directory of a sweep: OUT/<settings>/seed=<n> for each run, and detection of completed runs."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from analysis.files import locked, partial_of
from testbed.errors import UserError, exists_already
from testbed.experiment.files import MANIFEST, SCENARIO, writing_out
from testbed.experiment.platform import Net
from testbed.scenario import reader as scenarios
from testbed.scenario.model import Scenario
from testbed.scenario.overrides import ScenarioOptions

_LONGEST_NAME = 150
"""Maximum bytes of a directory's name for settings; file systems allow 255."""


class Job(NamedTuple):
    """One run of a sweep.

    Attributes:
        place: its directory inside the sweep's.
        scenario: its name or path.
        options: of it, with a seed.
        command: repeats this run alone.
    """

    place: str
    scenario: str
    options: ScenarioOptions
    command: str

    def checked(self) -> Scenario:
        """Return the scenario. Raises UserError."""
        return scenarios.load(self.scenario, self.options)


def place_of(changes: Sequence[tuple[str, Any]], seed: int) -> str:
    """Return the directory of a run inside the sweep's: "loss_percent=5,credit=8/seed=1".

    Keys and values are escaped as in URLs, so that none is a path, and no two settings have one directory.
    """
    named = ",".join(f"{_escaped(key.rpartition('.')[2])}={_escaped(value)}" for key, value in changes)
    if len(named) > _LONGEST_NAME:
        named = f"{named[:_LONGEST_NAME]}-{hashlib.sha256(named.encode()).hexdigest()[:16]}"
    return f"{named or 'all'}/seed={seed}"


def _escaped(value: Any) -> str:
    return quote(str(value), safe="", errors="surrogatepass")


@contextmanager
def opened(jobs: Sequence[Job], directory: Path, net: Net) -> Iterator[list[Job]]:
    """Make the directory of a sweep, or resume in it; yields the remaining jobs.

    A lock excludes other processes until the block ends. Raises UserError if the directory belongs to another
    sweep, or cannot be made.
    """
    is_new = not os.path.lexists(directory)
    if not is_new and not any((directory / job.place).parent.is_dir() for job in jobs):
        raise exists_already(directory)
    try:
        with writing_out(), locked(directory):
            try:
                yield [job for job in jobs if not _is_done(job, directory / job.place, net)]
            finally:
                for job in jobs:  # of a killed worker
                    shutil.rmtree(partial_of(directory / job.place), ignore_errors=True)
                    with suppress(OSError):  # not empty
                        (directory / job.place).parent.rmdir()
    finally:
        if is_new:
            with suppress(OSError):  # not empty
                directory.rmdir()


def _is_done(job: Job, place: Path, net: Net) -> bool:
    """Return whether a job has been run; raise UserError if its directory belongs to another one."""
    try:
        was = json.loads((place / SCENARIO).read_bytes())
        was_over = json.loads((place / MANIFEST).read_bytes())["net"]
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        was = was_over = None
    is_to_be = job.checked().model_dump(mode="json", by_alias=True)
    if was != json.loads(json.dumps(is_to_be)) or was_over != net:
        raise UserError(f"{place}: of another sweep than this: choose another --out or remove it")
    return True
