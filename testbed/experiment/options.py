"""Options of a run, and of many runs: one object for `feednet run` and for Python."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from testbed.errors import UserError, shown
from testbed.experiment.platform import Impairment, Net, Platform
from testbed.scenario.model import Scenario
from testbed.scenario.overrides import ScenarioOptions


@dataclass(frozen=True, kw_only=True)
class RunOptions(ScenarioOptions):
    """Options of a run, including those of its scenario.

    Attributes:
        net: the kind of the platform; auto is Mininet if available, and the emulator for many runs.
        impairment, dilation, hold: see Platform.
        out: a directory to make; None for one in runs/, with a generated name.
        master, engine, all_tables, no_report: of the analysis.
        sweeps, repeat: axes of many runs (sweeps.sweep.parse_axis), and seeds of each setting.
        jobs, on_spark: processes for many runs, or for layerings of one, in the emulator, None for one per
            core; or whether many runs are a Spark job.
        trust: whether to run code from outside the scenario's own directory, or from a bundle.
        dry_run: whether to describe the run only, without writing anything.

    Raises UserError for options that contradict each other, or have no effect.
    """

    net: Net | Literal["auto"] = "auto"
    impairment: Impairment = "auto"
    dilation: int = 1
    hold: bool = False
    out: Path | None = None
    master: str | None = None
    engine: str = "auto"
    all_tables: bool = False
    no_report: bool = False
    sweeps: tuple[str, ...] = ()
    repeat: int = 1
    jobs: int | None = None
    on_spark: bool = False
    trust: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        for contradiction in self._contradictions():
            raise UserError(contradiction)

    def _contradictions(self) -> Iterator[str]:
        if self.on_spark and not self.is_many:
            yield "--on-spark: only many runs are a Spark job; add --sweep or --repeat"
        if self.jobs and self.on_spark:
            yield "--jobs, --on-spark: Spark says itself how many runs go side by side; leave one out"
        if self.master is not None and self.no_report and not self.on_spark:
            yield f"--master {shown(self.master)}: only the analysis runs on Spark; leave --no-report out"
        if self.engine != "auto" and self.no_report:
            yield f"--engine {self.engine}: only the analysis has an engine; leave --no-report out"
        if self.engine == "sail" and self.on_spark:
            yield "--engine sail: --on-spark runs all of it on Spark; leave one out"
        if self.all_tables and (self.no_report or self.is_many):
            rest = "--no-report out" if self.no_report else "it out; of many runs no tables are kept"
            yield f"--all-tables: only the report of one run has tables; leave {rest}"
        if self.hold and self.is_many:
            yield "--hold: one run is held, and not many; leave --sweep and --repeat out"

    @property
    def is_many(self) -> bool:
        """Whether they are of many runs."""
        return bool(self.sweeps) or self.repeat > 1

    @property
    def workers(self) -> int:
        """Number of parallel processes in the emulator."""
        return self.jobs or os.cpu_count() or 1

    def platform(self) -> Platform:
        """Return the platform; raise UserError if it is unavailable."""
        net = "emulated" if self.is_many and self.net == "auto" else self.net
        found = Platform.chosen(net, self.impairment, self.dilation, is_held=self.hold)
        if found.net == "mininet" and (self.jobs or self.on_spark):
            raise UserError("--jobs, --on-spark: runs over Mininet go one after the other; leave them out")
        return found

    def directory(self, scenario: Scenario) -> Path:
        """Return the directory of a run or sweep: by default runs/NAME-TIME or runs/NAME-sweep-TIME."""
        kind = "-sweep" if self.is_many else ""
        return self.out or Path("runs") / f"{scenario.name}{kind}-{datetime.now():%Y%m%d-%H%M%S}"
