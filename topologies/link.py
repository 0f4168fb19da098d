"""The parameters of a link, each declared once.

Scenarios (TOML), manifests, Mini-NDN files, the relay, the keys of sweeps and the texts of reports all use
the declaration. A new parameter that changes the bytes of frames is complete with it: `changes` is its effect
in the emulator and the relay, `netem` its form for the kernel; without the latter Mininet uses the relay. A
parameter that drops or delays frames also needs code in topologies.pipe.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from topologies.parameter import Parameter, declared, parameter


class LinkError(ValueError):
    """A parameter out of range; the message is one line with its name."""


LOWEST = {"uniform": 1.0, "normal": 4.0, "pareto": 2 / 3, "paretonormal": 1.5}
"""Largest decrease of the delay below delay_ms, in units of jitter_ms, by jitter_distribution."""


@dataclass(frozen=True, kw_only=True)
class LinkParameters:
    """The impairments of each direction of a link; the defaults impair nothing."""

    bw_mbit: float | None = parameter(
        "rate of each link",
        "Mbit/s",
        default=None,
        is_above=True,
        unset="unlimited",
        words="{:g} Mbit/s",
        idle="unlimited rate",
        means="The rate. Left out: the link takes no time to serialise a frame, and so never queues.",
    )
    delay_ms: float = parameter(
        "delay of each link",
        "ms",
        words="{:g} ms delay",
        idle=None,
        means="Propagation delay, one way.",
    )
    jitter_ms: float = parameter(
        "jitter of each link",
        "ms",
        words="{:g} ms jitter",
        means="How much the delay of a frame differs from delay_ms; never below 0 in all.",
    )
    jitter_distribution: str = parameter(
        "distribution of each link’s jitter",
        "",
        default="uniform",
        choices=("uniform", "normal", "pareto", "paretonormal"),
        words="{} distribution of jitter",
        means=(
            'How it does: "uniform" within ± jitter_ms; or "normal", with jitter_ms as standard '
            'deviation, "pareto" (a long tail) or "paretonormal" (a mixture), as netem\'s tables have '
            "them."
        ),
    )
    loss_percent: float = parameter(
        "loss of each link",
        "%",
        most=100,
        words="{:g} % loss",
        idle="no loss",
        means="Share of frames lost.",
    )
    loss_burst: float | None = parameter(
        "losses in a row on each link",
        "frames",
        default=None,
        least=1,
        unset="independent",
        words="in bursts of {:g} frames",
        means=(
            "Mean number of frames for which the link stays bad (the model of Gilbert and Elliott). Left "
            "out: losses are independent."
        ),
    )
    loss_bad_percent: float = parameter(
        "loss of each link while it is bad",
        "%",
        default=100.0,
        most=100,
        is_above=True,
        words="{:g} % loss while bad",
        means=(
            "Share of frames lost while the link is bad; how often it goes bad follows from loss_percent. "
            "With 100, and 0 while it is good, this is Gilbert's model: loss_burst is the mean number of "
            "frames lost in a row."
        ),
    )
    loss_good_percent: float = parameter(
        "loss of each link while it is good",
        "%",
        most=100,
        words="{:g} % loss while good",
        means="Share of frames lost while the link is good.",
    )
    reorder_percent: float = parameter(
        "frames that overtake others on each link",
        "%",
        most=100,
        words="{:g} % of frames overtaking",
        means="Share of frames without any propagation delay: they overtake all that are under way.",
    )
    duplicate_percent: float = parameter(
        "frames that each link doubles",
        "%",
        most=100,
        words="{:g} % of frames twice",
        netem="duplicate {:.6f}%",
        means="Share of the frames that arrive which arrive twice.",
    )
    max_queue_size: int = parameter(
        "queue of each link",
        "packets",
        default=100,
        least=1,
        words="queue of {} frames",
        idle=None,
        means="Packets that a queue takes, the one being sent included; beyond it frames are dropped.",
    )
    mtu: int = parameter(
        "MTU of each link",
        "bytes",
        default=1500,
        least=256,
        most=1500,
        words="MTU of {} bytes",
        means=(
            "The largest IP packet. NDN's link service cuts larger packets into fragments (NDNLPv2), and TCP "
            "makes smaller segments. It stays as it is in a run."
        ),
    )

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def check(self) -> None:
        """Raise LinkError if a parameter is out of range."""
        for name, each in LINK_PARAMETERS.items():
            value = getattr(self, name)
            if not each.allows(value):
                raise LinkError(f"{name} must be {each.wanted}, not {value}")
        good, bad = self.loss_good_percent, self.loss_bad_percent
        if self.loss_burst is None:
            if (good, bad) != (0, 100):
                name = "loss_good_percent" if good else "loss_bad_percent"
                raise LinkError(f"{name} says nothing without loss_burst, how long the link stays bad")
            return
        most = good + (bad - good) * self.loss_burst / (1 + self.loss_burst)
        if good >= bad:
            raise LinkError(f"loss_good_percent must be below loss_bad_percent, {bad:g}, not {good:g}")
        if self.loss_percent > most:
            said = f"loss_percent must be at most {most:.3g} if {self.loss_burst:g} losses in a row are usual"
            raise LinkError(f"{said}, not {self.loss_percent:g}")
        if self.loss_percent < good:
            raise LinkError(f"loss_percent must be at least loss_good_percent, {good:g}")

    def describe(self) -> str:
        """Describe a link: "10 Mbit/s, 10 ms delay, 1 % loss, queue of 100 frames"."""
        said = []
        for each in fields(LinkParameters):
            value, declaration = getattr(self, each.name), LINK_PARAMETERS[each.name]
            if each.name == "max_queue_size" and not self.ns_per_byte:
                continue  # no queue without a rate
            is_idle = value == each.default and declaration.idle is not None
            said.append(declaration.idle if is_idle else declaration.words.format(value))
        return ", ".join(filter(None, said))

    @property
    def ns_per_byte(self) -> float:
        """Transmission time of a byte, ns; 0 without a rate."""
        return 0.0 if self.bw_mbit is None else 8000 / self.bw_mbit

    @property
    def bad_share(self) -> float:
        """The share of frames for which the link is bad; without loss_burst, the share of lost frames."""
        loss, good, bad = (
            x / 100 for x in (self.loss_percent, self.loss_good_percent, self.loss_bad_percent)
        )
        return (loss - good) / (bad - good)

    @property
    def loss_again(self) -> float:
        """The probability that the frame after a lost one is lost, too."""
        loss, good, bad = (
            x / 100 for x in (self.loss_percent, self.loss_good_percent, self.loss_bad_percent)
        )
        if self.loss_burst is None or not loss:
            return loss
        was_bad = self.bad_share * bad / loss
        ends = 1 / self.loss_burst
        begins = ends * self.bad_share / (1 - self.bad_share)
        is_bad = was_bad * (1 - ends) + (1 - was_bad) * begins
        return is_bad * bad + (1 - is_bad) * good

    @property
    def active(self) -> dict[str, Parameter]:
        """The parameters whose values are not their defaults, by name."""
        return {
            each.name: each.metadata["parameter"]
            for each in fields(self)
            if each.metadata and getattr(self, each.name) != each.default
        }

    @property
    def delay_ns(self) -> int:
        """The one-way propagation delay in nanoseconds."""
        return round(self.delay_ms * 1e6)

    @property
    def jitter_ns(self) -> int:
        """The unit of deviations from the delay, in nanoseconds."""
        return round(self.jitter_ms * 1e6)

    @property
    def least_delay_ns(self) -> int:
        """Shortest propagation time, ns."""
        earliest = round(LOWEST[self.jitter_distribution] * self.jitter_ns)
        return 0 if self.reorder_percent else max(0, self.delay_ns - earliest)


LINK_PARAMETERS = declared(LinkParameters)
"""The parameters of a link by name."""
