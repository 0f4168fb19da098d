"""Agreement of the emulator and Mininet on one scenario: items delivered, latency, bytes.

Over Mininet all nodes share one machine's processors, and sockets, processes and relays take time that
virtual time lacks. So latencies agree within a share plus a constant. Items must be equal. Bytes differ by
retransmissions at other moments and, over TCP, by acknowledgements that Linux times by the machine's clock.
"""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

from analysis.metrics.catalogue import BY_KEY, Metric
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
"""Tolerance by metric: from the emulator's value, and in words."""


class AgreementCheck(NamedTuple):
    """A metric of a layering in the emulator and in a real network (means over runs).

    Attributes:
        layering, group: see analysis.metrics.study.Study; `group` lists other settings.
        network: the real one.
        metric: the metric.
        emulated, real: its values.
        bound: the tolerance, in words.
        agrees: whether the values agree within it.
    """

    layering: str
    group: str
    network: str
    metric: Metric
    emulated: float
    real: float
    bound: str
    agrees: bool


def agreement(study: Study) -> list[AgreementCheck]:
    """Return the comparison for each layering; empty unless the study varies the network and includes the
    emulator.
    """
    if study.key != NET or EMULATOR not in study.xs:
        return []
    found = []
    for layering, group, network, key in product(study.layerings, study.groups, study.xs, _BOUNDS):
        emulated = study.values.get((key, layering, Point(EMULATOR, group)))
        real = study.values.get((key, layering, Point(network, group)))
        if network == EMULATOR or emulated is None or real is None:
            continue
        bound, text = _BOUNDS[key]
        means = emulated.mean, real.mean
        agrees = abs(real.mean - emulated.mean) <= bound(emulated.mean)
        found.append(AgreementCheck(layering, group, str(network), BY_KEY[key], *means, text, agrees))
    return found


def difference_text(judged: AgreementCheck) -> str:
    """Format the difference relative to the emulator's value."""
    if not judged.emulated:
        return "-"
    return f"{(judged.real - judged.emulated) / judged.emulated:+.1%}"
