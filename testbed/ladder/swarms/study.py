"""The study of costs: all its parts, over processes or as tasks of a Spark job."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from testbed.ladder.run import Progress, run_trials
from testbed.ladder.swarms import ratio, slopes
from testbed.ladder.swarms.ratio import Ratio
from testbed.ladder.swarms.slopes import AXES, Point, Slope
from testbed.ladder.swarms.unchanged import FEEDS, Talk, talks

PARTS: Final = (*AXES, "unchanged", "hub")
"""The parts: axes, feeds that have not changed, and EBT over the ideal hub."""


class Costs(NamedTuple):
    """Results; parts not requested are empty.

    Attributes: see the modules of these classes.
    """

    points: list[Point]
    slopes: list[Slope]
    talks: list[Talk]
    ratios: list[Ratio]


def run_costs(
    parts: Collection[str], seeds: Sequence[int], jobs: int, master: str | None, progress: Progress
) -> Costs:
    """Return the costs of the real protocols; for the arguments see run_models(). Raises the same errors."""
    axes = [axis for axis in AXES if axis in parts]
    periods = slopes.tasks(axes, seeds)
    swarms = [(size, seed) for size in ratio.SIZES for seed in seeds] if "hub" in parts else []
    # The longest first, so that no process is left with it at the end.
    tasks: list[tuple[Callable[[Any], Any], Any]] = [(ratio.play, swarm) for swarm in reversed(swarms)]
    tasks += [(talks, FEEDS)] if "unchanged" in parts else []
    tasks += [(slopes.play, period) for period in periods]
    done = run_trials(_do, tasks, jobs, master, progress)
    points, grown = slopes.along(axes, seeds, {period: done[slopes.play, period] for period in periods})
    ratios = ratio.ratios([done[ratio.play, swarm] for swarm in swarms])
    return Costs(points, grown, done.get((talks, FEEDS), []), ratios)


def _do(task: tuple[Callable[[Any], Any], Any]) -> Any:
    work, what = task
    return work(what)
