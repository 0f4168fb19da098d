"""The question that a scenario asks, and how its report answers it: the table [question]."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from analysis.metrics.catalogue import BY_KEY, matters
from testbed.errors import suggestion
from testbed.scenario.sections import Section

MOST_METRICS = 4
"""Maximum number of metrics of an answer: they stand on the first screen of the report."""


class QuestionSpec(Section):
    """What the scenario asks. The report begins with the answer, from these metrics."""

    text: str = Field(min_length=1)
    """The question, as a sentence."""
    metrics: tuple[str, ...] = Field(min_length=1, max_length=MOST_METRICS)
    """One to four metrics of the comparison that answer it, the most important first: `feednet describe
    metrics` lists them."""
    direction: dict[str, Literal["lower", "higher"]] = Field(default_factory=dict)
    """The better direction, lower or higher, of each metric without one of its own."""
    difference: float | dict[str, float] = Field(default_factory=dict)
    """The relative difference that matters: layerings within it count as equal. A number for all metrics, or
    one for each, by metric. Left out: 0.05, but 0.005 of the share delivered and 0 of faults."""

    @field_validator("metrics")
    @classmethod
    def _exist(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        for key in keys:
            _check_metric(key)
            if keys.count(key) > 1:
                raise ValueError(f"{key!r} is named twice; leave one out")
        return keys

    @field_validator("difference")
    @classmethod
    def _is_share(cls, value: float | dict[str, float]) -> float | dict[str, float]:
        for share in value.values() if isinstance(value, dict) else (value,):
            if not 0 <= share < 1:
                raise ValueError(f"{share:g} must be at least 0 and less than 1, such as 0.05")
        return value

    @model_validator(mode="after")
    def _directions_are_known(self) -> "QuestionSpec":
        for name in ("direction", "difference"):
            value = getattr(self, name)
            for key in value if isinstance(value, dict) else ():
                if key not in self.metrics:
                    raise ValueError(f"{name}: {key!r} is not among metrics")
        for key in self.metrics:
            own = BY_KEY[key].better
            if own and key in self.direction:
                raise ValueError(f"direction: of {key!r} {own} values are better anyway; leave it out")
            if not own and key not in self.direction:
                raise ValueError(f'direction: {key!r} has none of its own: give "lower" or "higher"')
        return self

    def written(self) -> dict[str, Any]:
        """Return the question as analysis.run.manifest.Question reads it."""
        each = self.difference
        usual = {key: matters(BY_KEY[key]) for key in self.metrics}
        shares = usual | each if isinstance(each, dict) else dict.fromkeys(self.metrics, each)
        return self.model_dump(mode="json") | {"difference": shares}


def _check_metric(key: str) -> None:
    if key not in BY_KEY:
        raise ValueError(f"{key!r} is no metric of the comparison; {suggestion(key, BY_KEY)}")
