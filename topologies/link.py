"""What a link is like: its parameters, each declared once.

Scenarios (TOML), manifests, Mini-NDN files, the relay, the keys of sweeps and the words of reports all read
the declaration. A parameter that is added here needs nothing else but its place in topologies.pipe, which
does it, and says it to netem.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple


class LinkError(ValueError):
    """A parameter out of range; the message is one line that names it."""


class Parameter(NamedTuple):
    """What is declared of a parameter.

    Attributes:
        title: for people, "delay of each link".
        unit: of its values.
        least, most: its range, both included.
        is_above: `least` itself is not allowed.
        unset: the word for None, "" if it must be a number.
        words: what is said of a link, "{:g} ms delay", and
        idle: what if the parameter has its default; None to use `words` then, too.
    """

    title: str
    unit: str
    least: float = 0
    most: float = math.inf
    is_above: bool = False
    unset: str = ""
    words: str = "{:g}"
    idle: str | None = ""

    @property
    def wanted(self) -> str:
        """What a value must be, to go on "must be ..."."""
        if self.unit == "packets":
            return f"at least {self.least:g} packet"
        return self.range if self.most < math.inf else f"a finite number {self.range}"

    @property
    def range(self) -> str:
        """Where values lie."""
        upper = f" to {self.most:g}" if self.most < math.inf else ""
        return f"{'above' if self.is_above else 'from'} {self.least:g}{upper}"

    def allows(self, value: float | None) -> bool:
        """Tell whether a value is in range."""
        if value is None:
            return bool(self.unset)
        if math.isinf(value):
            return False
        return self.least < value <= self.most if self.is_above else self.least <= value <= self.most


def _parameter(title: str, unit: str, *, default: Any = 0.0, **more: Any) -> Any:
    return field(default=default, metadata={"parameter": Parameter(title, unit, **more)})


@dataclass(frozen=True, kw_only=True)
class LinkParameters:
    """What each direction of a link does to frames; the defaults do nothing.

    bw_mbit: the rate; None for a link that takes no time to serialise a frame and so never queues.
    delay_ms: propagation delay, one way.
    jitter_ms: the delay of a frame is uniform in delay_ms +- jitter_ms, cut off at 0.
    loss_percent: share of frames lost.
    loss_burst: mean number of frames lost in a row (Gilbert's model); None if losses are independent.
    reorder_percent: share of frames without any propagation delay: they overtake all that are under way.
    duplicate_percent: share of the frames that arrive which arrive twice.
    max_queue_size: packets, the one being sent included; beyond it frames are dropped.
    """

    bw_mbit: float | None = _parameter(
        "rate of each link",
        "Mbit/s",
        default=None,
        is_above=True,
        unset="unlimited",
        words="{:g} Mbit/s",
        idle="unlimited rate",
    )
    delay_ms: float = _parameter("delay of each link", "ms", words="{:g} ms delay", idle=None)
    jitter_ms: float = _parameter("jitter of each link", "ms", words="{:g} ms jitter")
    loss_percent: float = _parameter("loss of each link", "%", most=100, words="{:g} % loss", idle="no loss")
    loss_burst: float | None = _parameter(
        "losses in a row on each link",
        "frames",
        default=None,
        least=1,
        unset="independent",
        words="in bursts of {:g} frames",
    )
    reorder_percent: float = _parameter(
        "frames that overtake others on each link", "%", most=100, words="{:g} % of frames overtaking"
    )
    duplicate_percent: float = _parameter(
        "frames that each link doubles", "%", most=100, words="{:g} % of frames twice"
    )
    max_queue_size: int = _parameter(
        "queue of each link", "packets", default=100, least=1, words="queue of {} frames", idle=None
    )

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def check(self) -> None:
        """Raise LinkError if a parameter is out of range."""
        for name, parameter in PARAMETERS.items():
            value = getattr(self, name)
            if not parameter.allows(value):
                raise LinkError(f"{name} must be {parameter.wanted}, not {value}")
        if self.loss_burst is not None and self.loss_percent > (most := 100 - 100 / (1 + self.loss_burst)):
            said = f"loss_percent must be at most {most:.3g} if {self.loss_burst:g} losses in a row are usual"
            raise LinkError(f"{said}, not {self.loss_percent:g}")

    def describe(self) -> str:
        """Say what a link does to frames: "10 Mbit/s, 10 ms delay, 1 % loss, queue of 100 frames"."""
        said = []
        for each in fields(LinkParameters):
            value, parameter = getattr(self, each.name), PARAMETERS[each.name]
            if each.name == "max_queue_size" and not self.ns_per_byte:
                continue  # nothing queues
            is_idle = value == each.default and parameter.idle is not None
            said.append(parameter.idle if is_idle else parameter.words.format(value))
        return ", ".join(filter(None, said))

    @property
    def ns_per_byte(self) -> float:
        """How long the rate takes for a byte, in nanoseconds; 0 without a rate."""
        return 0.0 if self.bw_mbit is None else 8000 / self.bw_mbit

    @property
    def delay_ns(self) -> int:
        """The one-way propagation delay in nanoseconds."""
        return round(self.delay_ms * 1e6)

    @property
    def jitter_ns(self) -> int:
        """The greatest deviation from the delay, in nanoseconds."""
        return round(self.jitter_ms * 1e6)

    @property
    def least_delay_ns(self) -> int:
        """How long a frame propagates at least, in nanoseconds."""
        return 0 if self.reorder_percent else max(0, self.delay_ns - self.jitter_ns)


PARAMETERS: dict[str, Parameter] = {each.name: each.metadata["parameter"] for each in fields(LinkParameters)}
"""The parameters of a link by name."""
