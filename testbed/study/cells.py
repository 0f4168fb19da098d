"""The cells of a study: one layering, or kind of a model, at one setting with one seed; and their store.

A cell's key is the SHA-256 of all that decides its values: what the scenario says, the files that it names,
the code, and the seed. So a study that is changed, or stopped and begun again, runs only the cells that it
lacks.
"""

import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from base.files import write_whole
from testbed.errors import UserError, shown
from testbed.experiment import code
from testbed.experiment.inputs import fingerprint
from testbed.experiment.options import RunOptions
from testbed.experiment.provenance import code_version
from testbed.experiment.sweeps import sweep as sweeping
from testbed.experiment.sweeps.directory import Job
from testbed.library import scenarios as library
from testbed.scenario import reader as scenarios
from testbed.study import models
from testbed.study.results import Row, setting_words
from testbed.study.spec import RunsSpec, Setting, StudySpec

_NAME_DIGITS = 24


class Cell(NamedTuple):
    """A run that a study needs.

    Attributes:
        runs, layering, setting: where its values belong.
        seed: of all that is random.
        key: of its content.
        job: of a scenario; None of a model.
    """

    runs: str
    layering: str
    setting: Setting
    seed: int
    key: str
    job: Job | None

    @property
    def place(self) -> Row:
        """What its values stand under, without a metric."""
        return Row(self.runs, self.layering, setting_words(self.setting), "")


class Kept(NamedTuple):
    """What is kept of a cell.

    Attributes:
        values: by metric.
        cpu_s: processor time of the run and of its analysis, seconds.
        record: the rest of analysis.metrics.study.Record; empty of a model.
        origin: of analysis.metrics.study.Origin; empty of a model.
        title: the scenario's.
    """

    values: dict[str, float]
    cpu_s: float
    record: dict[str, Any]
    origin: dict[str, Any]
    title: str = ""


class Store:
    """Kept cells, a file each, by key.

    Args:
        directory: of the files; made with the first one.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, key: str) -> Kept | None:
        """Return a cell, None if it has not been run. Raises UserError."""
        path = self._path(key)
        try:
            return Kept(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise UserError(
                f"{path}: not what a study writes; remove it, and the cell is run again"
            ) from error

    def put(self, key: str, kept: Kept) -> None:
        """Keep a cell."""
        self._directory.mkdir(parents=True, exist_ok=True)
        write_whole(self._path(key), json.dumps(kept._asdict()) + "\n")

    def _path(self, key: str) -> Path:
        return self._directory / f"{key[:_NAME_DIGITS]}.json"


def planned(
    study: StudySpec, path: Path, first_seed: int, seeds: int | None = None, only: Iterable[Row] | None = None
) -> Iterator[Cell]:
    """Yield the cells of a study from `path`; raise UserError.

    `seeds` replaces the numbers of seeds of all runs; `only` are the rows whose cells are wanted, None for
    all.
    """
    wanted = None if only is None else {(row.runs, row.layering, row.setting) for row in only}
    for name, runs in study.runs.items():
        numbers = range(first_seed, first_seed + (seeds or study.seeds_of(name)))
        for layering, setting in product(runs.layerings, study.settings(name)):
            if wanted is None or (name, layering, setting_words(setting)) in wanted:
                yield from _cells(name, runs, layering, setting, numbers, path)


def _cells(
    name: str, runs: RunsSpec, layering: str, setting: Setting, seeds: range, path: Path
) -> Iterator[Cell]:
    if runs.model is not None:
        played = inspect.getsource(models)
        needs = models.MODELS[runs.model].scenario
        file = library()[needs].read_text(encoding="utf-8") if needs else ""
        said = json.dumps([runs.model, layering, setting, played, file], sort_keys=True)
        for seed in seeds:
            yield Cell(name, layering, setting, seed, _key(said, seed), None)
        return
    assert runs.scenario is not None
    own = path.parent / runs.scenario
    scenario = str(own) if runs.scenario.endswith(".toml") and own.exists() else runs.scenario
    code.admit(*scenarios.read(scenario))
    options = RunOptions(
        net="emulated", layerings=(layering,), sweeps=tuple(_axes({**runs.set, **setting})), seed=0
    )
    (first,) = sweeping.plan(scenario, options, ["feednet", "run", scenario, "--layering", layering])
    said = fingerprint(first.checked())
    for seed in seeds:
        key = _key(said, seed)
        command = first.command.replace("--seed 0", f"--seed {seed}")
        job = Job(key[:_NAME_DIGITS], scenario, replace(first.options, seed=seed), command)
        yield Cell(name, layering, setting, seed, key, job)


def _axes(setting: Mapping[str, Any]) -> Iterator[str]:
    """Yield a setting as --sweep takes it."""
    for key, value in setting.items():
        text = sweeping.typed(value)
        if "," in text:
            raise UserError(f"{key} = {shown(text)}: a value of a study has no comma")
        yield f"{key}={text}"


def _key(said: str, seed: int) -> str:
    return hashlib.sha256(f"{code_version()} {said} {seed}".encode()).hexdigest()
