"""Declarations of parameters of links and radio cells: fields of a dataclass."""

import math
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any, NamedTuple

Change = Callable[[bytes, Any, int, Callable[[], float]], bytes]
"""(frame, parameter's value, frames in the queue, generator of numbers in [0, 1)) -> the frame that arrives.

It is called once a frame, with a constant number of draws.
"""


class Parameter(NamedTuple):
    """The declaration of a parameter.

    Attributes:
        title: for users, "delay of each link".
        unit: of its values; "" if they are words.
        means: its effect, in sentences.
        least, most: its range, both included.
        is_above: `least` itself is not allowed.
        unset: the word for None, "" if it must be a number.
        choices: the allowed words or numbers; empty for all of its range.
        words: text for a value, "{:g} ms delay".
        idle: text for the default value; None: use `words`.
        netem: text for `tc ... netem`, "duplicate {:.6f}%"; "" if topologies.pipe.netem() generates it, or
            netem lacks it.
        changes: its effect on the bytes of frames, None without.
    """

    title: str
    unit: str
    means: str
    least: float = 0
    most: float = math.inf
    is_above: bool = False
    unset: str = ""
    choices: tuple[str | float, ...] = ()
    words: str = "{:g}"
    idle: str | None = ""
    netem: str = ""
    changes: Change | None = None

    @property
    def wanted(self) -> str:
        """Valid values, to complete "must be ..."."""
        if self.choices:
            return f"one of {self.listed}"
        if self.unit == "packets":
            return f"at least {self.least:g} packet"
        if self.is_whole:
            return f"a whole number {self.range}"
        return self.range if self.most < math.inf else f"a finite number {self.range}"

    @property
    def is_whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.unit in ("packets", "bytes")

    @property
    def listed(self) -> str:
        """Its choices: "uniform, normal"."""
        return ", ".join(each if isinstance(each, str) else f"{each:g}" for each in self.choices)

    @property
    def range(self) -> str:
        """Range of values."""
        upper = f" to {self.most:,.15g}" if self.most < math.inf else ""
        return f"{'above' if self.is_above else 'from'} {self.least:,g}{upper}"

    def allows(self, value: float | str | None) -> bool:
        """Return whether a value is in range."""
        if value is None:
            return bool(self.unset)
        if self.choices or isinstance(value, str):
            return value in self.choices
        if not math.isfinite(value) or (self.is_whole and value != int(value)):
            return False
        return self.least < value <= self.most if self.is_above else self.least <= value <= self.most


def parameter(title: str, unit: str, *, means: str, default: Any = 0.0, **more: Any) -> Any:
    """Return a dataclass field that declares a parameter; `more` are attributes of Parameter."""
    return field(default=default, metadata={"parameter": Parameter(title, unit, means, **more)})


def declared(table: type) -> dict[str, Parameter]:
    """Return the parameters declared by a dataclass, by name."""
    return {each.name: each.metadata["parameter"] for each in fields(table) if each.metadata}
