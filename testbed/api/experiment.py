"""An experiment: a scenario built step by step, checked, and run in the emulator or in Mininet."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from testbed.api.notebook import bars
from testbed.api.results import Results
from testbed.experiment import code
from testbed.experiment import run as running
from testbed.experiment.live import Script
from testbed.experiment.options import RunOptions
from testbed.experiment.platform import Impairment, Net
from testbed.layerings.nodes.workload import Workload
from testbed.scenario import reader as scenarios
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.overrides import ScenarioOptions
from testbed.scenario.sections import TopologySpec
from topologies.model import Topology


class Experiment:
    """An experiment.

    Args:
        scenario: a scenario's name or a .toml file's path to begin with; None for none.
        topology: a network in place of the scenario's: a Topology, or a table [topology].
        keys: keys of a scenario file, with their values, e.g. `layerings=["lli"]`, `subscribers="all"`,
            `workload={"items": 40}`. Tables are merged with those of the scenario, key by key.

    Paths in keys are relative to the working directory. Mistakes raise UserError, with one line, from
    `scenario` or run() on.
    """

    def __init__(
        self,
        scenario: str | Path | None = None,
        *,
        topology: Topology | Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> None:
        self._table: dict[str, Any] = {"name": "experiment", "title": "An experiment"}
        self._path = Path("experiment")
        self._options = ScenarioOptions()
        if scenario is not None:
            self._table, self._path = scenarios.read(str(scenario))
        self._read = {**self._table}
        if topology is not None:
            listed = TopologySpec.listed(topology) if isinstance(topology, Topology) else {**topology}
            self._table["topology"] = listed
        _merge(self._table, keys)

    @classmethod
    def load(cls, scenario: str, options: ScenarioOptions | None = None, **fields: Any) -> Self:
        """Return the experiment of a scenario's name or path, with options as in `feednet run`.

        `fields` override fields of `options`. Raises UserError.
        """
        made = cls(scenario)
        made._options = replace(options or made._options, **fields)
        return made

    def at(self, time_ms: float | None = None, **what: Any) -> Self:
        """Schedule an event at a time of the run, or with at_item=... or at_copy=...; return this object.

        `what` are the keys of [[events]]: at(800, link_down="r1 s1"), at(900, restart="r1").
        """
        when = {} if time_ms is None else {"at_ms": time_ms}
        return self._add("events", {**when, **what})

    def program(self, node: str, run: str | list[str], **keys: Any) -> Self:
        """Run a user program on a node, in Mininet; return this object.

        `keys` are those of [[programs]]: at_ms, prefixes.
        """
        return self._add("programs", {"node": node, "run": run, **keys})

    def node(self, name: str, **keys: Any) -> Self:
        """Set what runs on a node; return this object. `keys` are those of [nodes.<name>]."""
        _merge(self._table, {"nodes": {name: keys}})
        return self._changed()

    def _add(self, key: str, row: dict[str, Any]) -> Self:
        self._table[key] = [*self._table.get(key, ()), row]
        return self._changed()

    def _changed(self) -> Self:
        for name in ("scenario", "workload"):
            self.__dict__.pop(name, None)
        return self

    @cached_property
    def scenario(self) -> Scenario:
        """The checked scenario. Raises UserError."""
        return scenarios.check(self._table, self._path, self._options)

    @cached_property
    def workload(self) -> Workload:
        """The publications and subscriptions. Raises UserError."""
        return workload.load(self.scenario)

    @property
    def duration_s(self) -> float:
        """Duration of one layering's run, on the run's clock."""
        return running.duration_s(self.scenario, self.workload)

    def directory(self) -> Path:
        """Return the default directory of a run."""
        return RunOptions().directory(self.scenario)

    def run(
        self,
        directory: str | Path | None = None,
        *,
        net: Net | Literal["auto"] = "auto",
        impairment: Impairment = "auto",
        dilation: int = 1,
        script: Script | None = None,
        command: str | None = None,
        is_held: bool = False,
        is_trusted: bool = False,
        jobs: int = 1,
        progress: Callable[[str], None] | None = None,
        advance: Callable[[str, float], None] | None = None,
    ) -> Results:
        """Run all layerings into a new directory, by default runs/NAME-TIME; raise UserError.

        `net` is "emulated", "mininet", or "auto" for Mininet if available. `script` is called for each
        layering with a LiveRun, once its nodes run. Code from outside the scenario's own directory, or from a
        bundle, is refused unless the run `is_trusted` (testbed.experiment.code).

        In Mininet, `dilation` is the machine's seconds per second of the run, and a run that `is_held`
        continues after its end until it is interrupted. `command` is the equivalent command line. In the
        emulator, `jobs` layerings go side by side, each in a process. On Linux that is a copy of this one, if
        this one has no other threads; else it is a new one, which imports the calling script. So the script
        must do its work under `if __name__ == "__main__":`. `progress` receives each layering at its start,
        `advance` the layering and its share done, from 0 to 1; in Mininet 1 only, at its end. Without them a
        notebook shows bars.
        """
        options = RunOptions(net=net, impairment=impairment, dilation=dilation, hold=is_held)
        if not is_trusted:
            code.admit(self._read, self._path)
        platform = options.platform()
        place = self.directory() if directory is None else Path(directory)
        with bars(", ".join(self.scenario.layerings)) as shown:
            running.run(
                self.scenario,
                self.workload,
                platform,
                place,
                command=command,
                script=script,
                jobs=jobs,
                progress=progress or shown.begin,
                advance=advance or shown.advance,
            )
        return Results(place)


def _merge(table: dict[str, Any], keys: Mapping[str, Any]) -> None:
    for key, value in keys.items():
        known = table.get(key)
        if isinstance(value, Mapping):
            table[key] = known = dict(known) if isinstance(known, Mapping) else {}
            _merge(known, value)
        else:
            table[key] = value
