"""Judgements of links: each with the configured value, the measured value, and the tolerance.

Bounds of random quantities are exceeded by chance once in CHANCE; all others are the testbed's promises:
rates within 1 %, median delays within 0.3 ms.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from testbed.verify.links.transits import Transit
from topologies.link import LinkParameters
from topologies.pipe import JITTER

CHANCE = 1000
RATE_SHARE = 0.01
DELAY_MS = 0.3
_POINTS = 20_000


class Check(NamedTuple):
    """A configured and a measured value. `bound` is the tolerance in words."""

    what: str
    asked: str
    measured: str
    bound: str
    holds: bool


def rate(transits: Sequence[Transit], asked_mbit: float, what: str = "rate") -> Check:
    """The rate of a busy link: of frames sent before the arrival of the previous one.

    At least half of the frames must qualify, or the sender was too slow for a measurement.
    """
    came = sorted((each.received[0], each.sent, each.length) for each in transits if each.received)
    waited = [
        (arrival - earlier, length)
        for (earlier, _, _), (arrival, sent, length) in pairwise(came)
        if sent < earlier
    ]
    asked = f"{asked_mbit:g} Mbit/s"
    if len(waited) < max(1, len(transits) / 2):
        return Check(what, asked, f"{len(waited)} of {len(transits)} frames waited", "1 %", False)
    measured = sum(length for _, length in waited) * 8e3 / sum(time for time, _ in waited)
    holds = abs(measured / asked_mbit - 1) <= RATE_SHARE
    return Check(what, asked, f"{measured:.4g} Mbit/s", "1 %", holds)


def delay(transits: Sequence[Transit], asked_ms: float) -> Check:
    """The median of delays."""
    delays = _delays(transits)
    measured = statistics.median(delays) if delays else math.nan
    holds = abs(measured - asked_ms) <= DELAY_MS
    return Check("delay p50", f"{asked_ms:g} ms", f"{measured:.3f} ms", f"{DELAY_MS:g} ms", holds)


def jitter(transits: Sequence[Transit], link: LinkParameters) -> Check:
    """The distribution of delays, by the Kolmogorov-Smirnov test."""
    from scipy import stats

    quantile = JITTER[link.jitter_distribution]
    draws = (np.arange(_POINTS) + 0.5) / _POINTS
    values = [max(0.0, link.delay_ms + quantile(float(draw)) * link.jitter_ms) for draw in draws]
    delays = _delays(transits)
    if not delays:
        return Check("jitter", link.jitter_distribution, "nothing arrived", "", False)
    tested = stats.kstest(delays, lambda x: np.interp(x, values, draws, left=0.0, right=1.0))
    low, high = np.percentile(delays, [5, 95])
    wanted_low, wanted_high = np.percentile(values, [5, 95])
    return Check(
        f"jitter {link.jitter_distribution}",
        f"p5-p95 {wanted_low:.2f}-{wanted_high:.2f} ms",
        f"{low:.2f}-{high:.2f} ms, p = {tested.pvalue:.3g}",
        f"p >= {1 / CHANCE:g}",
        bool(tested.pvalue >= 1 / CHANCE),
    )


def share(what: str, count: int, of: int, asked: float, *, inflation: float = 1.0) -> Check:
    """A share of frames, by the binomial distribution.

    For correlated frames the variance is `inflation` times the binomial one, and the interval that of the
    central limit theorem.
    """
    from scipy import stats

    if not of:
        return Check(what, f"{100 * asked:g} %", "no frames", "", False)
    if inflation == 1:
        low, high = stats.binom.interval(1 - 1 / CHANCE, of, asked)
    else:
        spread = math.sqrt(of * asked * (1 - asked) * inflation)
        half = float(stats.norm.ppf(1 - 0.5 / CHANCE)) * spread
        low, high = of * asked - half, of * asked + half
    return Check(
        what,
        f"{100 * asked:.4g} %",
        f"{100 * count / of:.4g} % of {of}",
        f"{100 * max(0.0, low) / of:.3g}-{100 * high / of:.3g} %",
        bool(low <= count <= high),
    )


def number(what: str, measured: int, asked: int) -> Check:
    """A deterministic count."""
    return Check(what, f"{asked}", f"{measured}", "exact", measured == asked)


def _delays(transits: Sequence[Transit]) -> list[float]:
    return [(each.received[0] - each.sent) / 1e6 for each in transits if each.received]
