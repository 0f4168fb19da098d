"""A run's expected duration and size: `feednet run --dry-run` prints it all, `feednet run` if it is long."""

import errno
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from analysis.errors import system_reason
from analysis.files import partial_of
from analysis.report.words.numbers import count_of
from testbed.cli.console import about
from testbed.cli.runs import synopsis
from testbed.errors import UserError, exists_already
from testbed.experiment import outlook
from testbed.experiment.outlook import Outlook
from testbed.experiment.platform import Platform
from testbed.experiment.run import duration_s
from testbed.experiment.sweeps.directory import Job
from testbed.layerings.nodes.workload import Workload
from testbed.scenario import workload
from testbed.scenario.model import Scenario

_MOST_LOOKED_AT = 12
"""Maximum number of a sweep's runs with computed costs; beyond it, evenly spaced samples."""

_LONG_S = 60.0


def print_run(
    console: Console, scenario: Scenario, load: Workload, platform: Platform, directory: Path, analysed: bool
) -> None:
    """Print a run's description. Raises UserError if its directory exists already."""
    if os.path.lexists(directory):
        raise exists_already(directory)
    _check_place(directory)
    _print_scenario(console, scenario, load)
    console.print(f"network   {platform.net} ({platform.reason})")
    _print_costs(console, *_of(scenario, load, platform), analysed, directory)


def print_long(
    console: Console, scenario: Scenario, load: Workload, platform: Platform, analysed: bool
) -> None:
    """Print a run's expected duration if that is long enough to ask whether to wait."""
    costs, run_s = _of(scenario, load, platform)
    if run_s + analysed * costs.analysis_s >= _LONG_S:
        _print_duration(console, costs, run_s, analysed)


def print_sweep(
    console: Console,
    planned: Sequence[Job],
    platform: Platform,
    workers: int,
    directory: Path,
    analysed: bool,
) -> None:
    """Print a sweep's description. Raises UserError."""
    _check_place(directory)
    steps = max(len(planned) // _MOST_LOOKED_AT, 1)
    looked_at = planned[::steps]
    found: list[tuple[Outlook, float]] = []
    for job in looked_at:
        scenario = job.checked()
        load = workload.load(scenario)
        duration_s(scenario, load)
        if not found:
            _print_scenario(console, scenario, load)
        found.append(_of(scenario, load, platform))
    workers = 1 if platform.net == "mininet" else min(workers, len(planned), os.cpu_count() or 1)
    times = len(planned) / len(looked_at)
    costs = Outlook(*(times * sum(column) for column in zip(*(each for each, _ in found), strict=True)))
    seconds = times * sum(each for _, each in found) / workers
    said = f"{workers} at a time" if workers > 1 else "one after the other"
    console.print(f"sweep     {count_of(len(planned), 'run')}, {said}, {platform.net}")
    _print_costs(console, costs, seconds, analysed, directory)


def _check_place(directory: Path) -> Path:
    """Return the existing parent of a new directory. Raises UserError."""
    partial = partial_of(directory)
    try:
        for place in (partial, *partial.absolute().parents):
            with suppress(FileNotFoundError, NotADirectoryError):
                found = os.stat(place)
                break
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
        room = shutil.disk_usage(place).total  # no space in /proc, where even root makes no files
        if not room or not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
    except (OSError, ValueError) as error:
        why = system_reason(error) if isinstance(error, OSError) else f"{directory}: {error}"
        raise UserError(f"{why}; choose another --out") from error
    return place


def _print_scenario(console: Console, scenario: Scenario, load: Workload) -> None:
    console.print(scenario.title, style="bold")
    network = scenario.network
    media = f", {len(network.media)} media" if network.media else ""
    console.print(
        f"topology  {count_of(len(network.nodes), 'node')}, {count_of(len(network.links), 'link')}{media}"
    )
    for line in synopsis.role_lines(scenario):
        console.print(f"          {line}")
    console.print(f"workload  {synopsis.workload_line(scenario, load)}")
    console.print(f"layerings {', '.join(scenario.layerings)}")
    console.print(f"time      {duration_s(scenario, load):.1f} s on the run's clock, under each")


def _of(scenario: Scenario, load: Workload, platform: Platform) -> tuple[Outlook, float]:
    """Return a run's costs, and its duration without analysis, s."""
    expected = outlook.expected(scenario, load)
    if platform.net == "emulated":
        return expected, expected.run_s
    return expected, outlook.over_mininet_s(scenario, platform.dilation * duration_s(scenario, load))


def _print_costs(console: Console, costs: Outlook, run_s: float, analysed: bool, directory: Path) -> None:
    free = shutil.disk_usage(_check_place(directory)).free
    written = costs.run_bytes + (costs.analysis_bytes if analysed else 0)
    _print_duration(console, costs, run_s, analysed)
    console.print(f"writes    about {_bytes(written)} to {directory} ({_bytes(free)} are free)")
    good = outlook.figures()["accuracy"]
    half, nine, most = (
        f"{good[f'time_{part}']:.1f} for time and {good[f'size_{part}']:.1f} for size"
        for part in ("half", "nine_of_ten", "most")
    )
    console.print(
        "          measured on the library's scenarios in the emulator, half of such estimates were"
        f" within a factor {half}, nine of ten within {nine}, all within {most}; a slower or busy machine"
        " takes longer",
        style="dim",
    )
    console.print("nothing was run, nothing was written")


def _print_duration(console: Console, costs: Outlook, run_s: float, analysed: bool) -> None:
    analysis = f", its analysis {about(costs.analysis_s)}" if analysed else ""
    console.print(f"takes     about {about(run_s)}{analysis}")


def _bytes(count: float) -> str:
    return (
        f"{count / 1e6:.2g} MB"
        if count < 99.5e6
        else f"{count / 1e6:.0f} MB"
        if count < 1e9
        else f"{count / 1e9:.1f} GB"
    )
