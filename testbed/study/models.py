"""Models that studies run beside scenarios: real protocols on networks without time, or with little of it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from base.units import MS

Figures = dict[str, float]


class Model(NamedTuple):
    """A model.

    Attributes:
        kinds: what it distinguishes, in place of layerings.
        metrics: title and unit of each figure, by key.
        play: takes a kind, a setting and a seed; returns the figures.
    """

    kinds: tuple[str, ...]
    metrics: dict[str, tuple[str, str]]
    play: Callable[[str, Mapping[str, Any], int], Figures]


_MEASURES: Final = {
    "paper bytes": "bytes over the ideal hub’s, 660 a message and 60 an element",
    "bytes": "bytes over the ideal hub’s, as sent",
    "peer bytes": "bytes of a peer over those of a client of the hub, as sent",
    "busiest bytes": "bytes of the busiest peer over the hub’s, as sent",
}
_PHASES: Final = ("join", "live", "return")


def _hub(kind: str, setting: Mapping[str, Any], seed: int) -> Figures:
    """Return the cost of EBT over the ideal hub in all phases: `peers` of them, connections of `delay_ms`."""
    from testbed.ladder.swarms import ratio  # slow to import, and commands list studies

    played = ratio.play((int(setting["peers"]), seed), round(float(setting["delay_ms"]) * MS))
    return {
        _key(phase.name, name): value
        for phase in played
        if phase.name in _PHASES
        for name, value in phase.measures().items()
        if name in _MEASURES
    }


def _key(phase: str, measure: str) -> str:
    return f"{phase} {measure}".replace(" ", "-")


MODELS: Final[Mapping[str, Model]] = {
    "hub": Model(
        ("ebt",),
        {
            _key(phase, name): (f"{phase.capitalize()}, {title}", "times")
            for phase in _PHASES
            for name, title in _MEASURES.items()
        },
        _hub,
    ),
}
