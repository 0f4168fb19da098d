"""Whether the emulator and Mininet tell the same of one scenario: items delivered, latency, bytes.

Over Mininet all nodes share the processors of one machine, and every socket, process and relay on the way
takes some time that virtual time does not have. So latencies agree if they differ by no more than a share and
a constant. Items are the same ones. Bytes differ by what is repeated at another moment, and over TCP by
acknowledgements, which Linux sends by the machine's clock.
"""

from collections.abc import Callable
from typing import NamedTuple

from analysis.metrics.registry import METRICS, Metric
from analysis.metrics.study import Point, Study
from analysis.run.keys import NET

EMULATOR = "emulator"

LATENCY_SHARE, LATENCY_MS = 0.05, 0.3
BYTES_SHARE = 0.01

_BOUNDS: dict[str, tuple[Callable[[float], float], str]] = {
    "delivered": (lambda _: 1e-9, "equal"),
    "latency_p50": (lambda value: LATENCY_SHARE * value + LATENCY_MS, "within 5 % and 0.3 ms"),
    "bytes_per_item": (lambda value: BYTES_SHARE * value, "within 1 %"),
}
"""Metric's key -> how far from what the emulator says, and in words."""


class Judged(NamedTuple):
    """A metric of a layering, as the emulator and a real network have it (means over runs).

    Attributes:
        layering, group: see analysis.metrics.study.Study; `group` is what else is set.
        network: the real one.
        metric: the metric.
        emulated, real: its values.
        bound: how far apart they may be, in words, and
        agrees: whether they are not further.
    """

    layering: str
    group: str
    network: str
    metric: Metric
    emulated: float
    real: float
    bound: str
    agrees: bool


def agreement(study: Study) -> list[Judged]:
    """Return the judgement of each layering; nothing if a study is not about networks, or has no emulated
    runs."""
    if study.key != NET or EMULATOR not in study.xs:
        return []
    metrics = {metric.key: metric for metric in METRICS}
    found = []
    for layering in study.layerings:
        for group in study.groups:
            for network in study.xs:
                for key, (bound, text) in _BOUNDS.items():
                    emulated = study.values.get((key, layering, Point(EMULATOR, group)))
                    real = study.values.get((key, layering, Point(network, group)))
                    if network == EMULATOR or emulated is None or real is None:
                        continue
                    agrees = abs(real.mean - emulated.mean) <= bound(emulated.mean)
                    found.append(
                        Judged(
                            layering,
                            group,
                            str(network),
                            metrics[key],
                            emulated.mean,
                            real.mean,
                            text,
                            agrees,
                        )
                    )
    return found


def difference_text(judged: Judged) -> str:
    """Write by how much of the emulator's value the real one differs."""
    if not judged.emulated:
        return "-"
    return f"{(judged.real - judged.emulated) / judged.emulated:+.1%}"
