"""The tables of a study's file: the runs, and the claims with the tests that decide them.

A claim is the same idea as the answer to a scenario's question (testbed.scenario.question): metrics of the
comparison, with an interval over seeds. A question finds the best layering; a claim says beforehand in which
region a figure lies.
"""

from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from analysis.metrics.catalogue import BY_KEY
from forwarder.toml_file import first_problem, read_toml
from testbed.errors import UserError, shown, suggestion
from testbed.layerings.registry import LAYERINGS
from testbed.library import studies
from testbed.scenario.sections import Section
from testbed.study.models import MODELS

ENOUGH = 20
"""Seeds for a verdict; with fewer, `why` says why."""

Setting = dict[str, Any]
"""Values of keys, as --sweep names them: {"poll.window": 64}."""


def _check_seeds(seeds: int, why: str) -> None:
    if seeds < ENOUGH and not why:
        raise ValueError(f"seeds: with fewer than {ENOUGH}, `why` has to say why")


class RunsSpec(Section):
    """Runs of a scenario, or of a model of testbed.study.models."""

    scenario: str | None = None
    """A scenario of the library, or a file's path, from the study's file on."""
    model: str | None = None
    """The name of a model, in place of a scenario: it has figures of its own, and no layerings."""
    layerings: tuple[str, ...] = ()
    """The layerings, each run by itself; what a model distinguishes."""
    set: Setting = Field(default_factory=dict)
    """Values of keys in all runs, as --sweep names them."""
    sweep: dict[str, list[Any]] = Field(default_factory=dict)
    """Values of keys, each combination of which is run."""
    seeds: int | None = Field(None, ge=2, le=10_000)
    """Seeds of each setting. Left out: those of the study."""
    why: str = ""
    """Why there are fewer than 20 seeds."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if (self.scenario is None) == (self.model is None):
            raise ValueError("give a scenario or a model, and not both")
        if self.model is not None and self.model not in MODELS:
            raise ValueError(f"model: {shown(self.model)}: {suggestion(self.model, MODELS)}")
        known = LAYERINGS if self.model is None else MODELS[self.model].kinds
        for name in self.layerings:
            if name not in known:
                raise ValueError(f"layerings: {shown(name)}: {suggestion(name, known)}")
        if not self.layerings:
            raise ValueError("layerings: name at least one")
        if self.model is not None and self.set:
            raise ValueError("set: a model has no keys of a scenario; use sweep")
        _check_seeds(self.seeds or ENOUGH, self.why)
        return self

    def metrics(self) -> "dict[str, tuple[str, str]]":
        """Return title and unit of each figure of the runs, by key."""
        if self.model is not None:
            return MODELS[self.model].metrics
        return {key: (metric.title, metric.unit) for key, metric in BY_KEY.items()}


class Side(NamedTuple):
    """Runs of a layering at a setting."""

    runs: str
    layering: str
    setting: Setting


class Expectation(Section):
    """A figure, and the region in which it is expected: holds if the interval lies in it, fails if outside,
    and cannot be told else.
    """

    says: str = Field(min_length=1)
    """What is expected, as a sentence without a full stop."""
    runs: str
    """The name of the runs."""
    metric: str
    """A metric of the comparison, or a figure of a model."""
    test: Literal["ratio", "difference", "mean", "sign"]
    """The test, over seeds. ratio: of `of` over `to`, the geometric mean over seeds, Student's t of the
    logarithms. difference: of `of` less `to`, Student's t. mean: of `of` alone, Student's t. sign: the share
    of seeds whose ratio (or value, without `to`) is in the region, by the sign test, with the interval of
    Clopper and Pearson."""
    of: str
    """A layering."""
    to: str | None = None
    """The layering that it is compared with, seed by seed."""
    at: Setting = Field(default_factory=dict)
    """The setting of both, among those of the sweep."""
    to_at: Setting | None = None
    """The setting of the other one, if it is not the same."""
    to_runs: str | None = None
    """The runs of the other one, if they are not the same."""
    above: float | None = None
    """Lower end of the expected region."""
    below: float | None = None
    """Upper end of the expected region."""
    despite: str = ""
    """Why layerings that lack items are compared nevertheless."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        has_other = len(self.sides()) > 1
        if self.test in ("ratio", "difference") and not has_other:
            raise ValueError(f"test: {self.test} takes two: name the other one in `to` or `to_at`")
        if self.test == "mean" and has_other:
            raise ValueError("test: mean takes one: leave `to` out")
        if self.above is not None and self.below is not None and self.above >= self.below:
            raise ValueError(f"above: {self.above:g} is not less than {self.below:g}")
        return self

    @property
    def has_region(self) -> bool:
        """Whether something is expected."""
        return self.above is not None or self.below is not None

    def sides(self) -> "list[Side]":
        """Return each side, `of` first."""
        mine = Side(self.runs, self.of, self.at)
        if self.to is None and self.to_at is None and self.to_runs is None:
            return [mine]
        at = self.at if self.to_at is None else self.to_at
        return [mine, Side(self.to_runs or self.runs, self.to or self.of, at)]


class ClaimSpec(Section):
    """A claim of a text, and what must be so if it is true."""

    page: str = Field(pattern=r"^[a-z-]+$")
    """The page of docs/ on which it stands."""
    text: str = Field(min_length=1)
    """The claim in our words."""
    source: str = ""
    """Where the text says so, such as its section."""
    is_open: bool = Field(False, alias="open")
    """Whether the text asks and does not answer: then figures have no regions."""
    note: str = ""
    """What the figures mean, or why the verdict has a condition."""
    expects: tuple[Expectation, ...] = Field(min_length=1)
    """What must be so. Some hold and some fail: the claim holds in part."""

    @model_validator(mode="after")
    def _regions(self) -> Self:
        for each in self.expects:
            if each.has_region == self.is_open:
                what = (
                    "an open question expects nothing: leave" if self.is_open else "say what is expected by"
                )
                raise ValueError(f"{each.says}: {what} above and below")
            if each.test == "sign" and self.is_open:
                raise ValueError(f"{each.says}: the sign test needs a region")
        return self


class FigureSpec(Section):
    """A trade-off: two metrics of all settings of some runs, a curve for each layering."""

    title: str = Field(min_length=1)
    """What it shows, without a full stop."""
    runs: tuple[str, ...] = Field(min_length=1)
    """The names of the runs, of scenarios."""
    x: str
    """The metric of the horizontal axis."""
    y: str
    """The metric of the vertical axis."""
    despite: str = ""
    """Why layerings that lack items are shown nevertheless."""


class TableSpec(Section):
    """Means of figures of some runs, a row for each layering and setting, in a document."""

    runs: tuple[str, ...] = Field(min_length=1)
    """The names of the runs."""
    metrics: tuple[str, ...] = Field(min_length=1)
    """The metrics, or figures of a model."""
    columns: str = "metric"
    """What columns distinguish: "metric", "layering" or a key of the runs' sweep."""
    words: dict[str, str] = Field(default_factory=dict)
    """Words for metrics, and for settings such as "loss=5", in place of their own."""


class StudySpec(Section):
    """A study."""

    title: str = Field(min_length=1)
    """What is studied, in a line."""
    seeds: int = Field(ENOUGH, ge=2, le=10_000)
    """Seeds of each setting."""
    why: str = ""
    """Why there are fewer than 20 seeds."""
    first_seed: int = Field(1, ge=0)
    """The first of them; the others follow."""
    confidence: float = Field(0.99, gt=0.5, lt=1)
    """Of the intervals. With 0.99, one of a hundred misses the mean; and the mean over as many fresh seeds
    lies in an interval in 19 of 20 cases."""
    runs: dict[str, RunsSpec] = Field(min_length=1)
    """The runs, by name."""
    claims: dict[str, ClaimSpec] = Field(min_length=1)
    """The claims, by key, in the order of the pages."""
    figures: dict[str, FigureSpec] = Field(default_factory=dict)
    """The figures, by name."""
    tables: dict[str, TableSpec] = Field(default_factory=dict)
    """The tables of means, by name."""

    @field_validator("runs", "claims", "figures", "tables")
    @classmethod
    def _named(cls, tables: dict[str, Any]) -> dict[str, Any]:
        for name in tables:
            if not name or not all(each.isalnum() or each == "-" for each in name):
                raise ValueError(f"{shown(name)}: a name has letters, digits and hyphens only")
        return tables

    @model_validator(mode="after")
    def _claims_fit(self) -> Self:
        _check_seeds(self.seeds, self.why)
        for key, claim in self.claims.items():
            for each in claim.expects:
                self._check(key, each)
        for name, figure in self.figures.items():
            known = [key for key, runs in self.runs.items() if runs.model is None]
            for runs in figure.runs:
                if runs not in known:
                    raise ValueError(f"figures.{name}: {shown(runs)}: {suggestion(runs, known)}")
            for metric in (figure.x, figure.y):
                if metric not in BY_KEY:
                    raise ValueError(f"figures.{name}: {shown(metric)}: {suggestion(metric, BY_KEY)}")
        for name, wanted in self.tables.items():
            self._check_table(f"tables.{name}", wanted)
        return self

    def _check_table(self, where: str, table: TableSpec) -> None:
        for name in table.runs:
            if name not in self.runs:
                raise ValueError(f"{where}: {shown(name)}: {suggestion(name, self.runs)}")
            runs = self.runs[name]
            for metric in table.metrics:
                if metric not in runs.metrics():
                    raise ValueError(f"{where}: {shown(metric)}: {suggestion(metric, runs.metrics())}")
            known = ("metric", "layering", *runs.sweep)
            if table.columns not in known:
                raise ValueError(
                    f"{where}: columns {shown(table.columns)}: {suggestion(table.columns, known)}"
                )

    def _check(self, claim: str, each: Expectation) -> None:
        where = f"claims.{claim}: {each.says}"
        for side in each.sides():
            if side.runs not in self.runs:
                raise ValueError(f"{where}: runs {shown(side.runs)}: {suggestion(side.runs, self.runs)}")
        runs = self.runs[each.runs]
        if each.metric not in runs.metrics():
            raise ValueError(
                f"{where}: metric {shown(each.metric)}: {suggestion(each.metric, runs.metrics())}"
            )
        for name, layering, setting in each.sides():
            runs = self.runs[name]
            if layering not in runs.layerings:
                raise ValueError(f"{where}: {shown(layering)}: {suggestion(layering, runs.layerings)}")
            if setting.keys() != runs.sweep.keys():
                raise ValueError(f"{where}: at has to name {', '.join(runs.sweep) or 'nothing'}")
            for key, value in setting.items():
                if value not in runs.sweep[key]:
                    raise ValueError(f"{where}: {key} is not run with {shown(value)}")

    def settings(self, runs: str) -> list[Setting]:
        """Return all settings of some runs: the combinations of what is swept."""
        sweep = self.runs[runs].sweep
        return [dict(zip(sweep, values, strict=True)) for values in product(*sweep.values())]

    def sides_of(self, figure: FigureSpec | TableSpec) -> list[Side]:
        """Return what a figure or a table shows."""
        return [
            Side(runs, layering, setting)
            for runs in figure.runs
            for layering in self.runs[runs].layerings
            for setting in self.settings(runs)
        ]

    def seeds_of(self, runs: str) -> int:
        """Return the number of seeds of some runs."""
        return self.runs[runs].seeds or self.seeds

    def why_of(self, runs: str) -> str:
        """Return why some runs have few seeds, "" if they have enough, or nobody says so."""
        return self.runs[runs].why if self.runs[runs].seeds else self.why

    def sides(self, expected: Expectation) -> list[Side]:
        """Return each side of an expectation, `of` first: settings have the order of their runs' sweep."""
        return [
            side._replace(setting={key: side.setting[key] for key in self.runs[side.runs].sweep})
            for side in expected.sides()
        ]


def load(name_or_path: str) -> tuple[StudySpec, Path]:
    """Read a study by name or path; return it and its location. Raises UserError."""
    path = studies().get(name_or_path, Path(name_or_path))
    try:
        return StudySpec.model_validate(read_toml(path)), path
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error)}") from error
    except ValueError as error:
        if not path.exists():
            there = suggestion(shown(name_or_path), studies())
            raise UserError(
                f"{shown(name_or_path)}: no such study; {there}; or give a .toml file's path"
            ) from error
        raise UserError(f"{path}: {error}") from error
