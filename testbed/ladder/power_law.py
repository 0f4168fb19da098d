"""The exponent of a power law in the tail of whole numbers.

By maximum likelihood, with the start of the tail that gives the closest fit (Clauset, Shalizi and Newman,
"Power-law distributions in empirical data", 2009, sections 3.1 and 3.3).
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from testbed.ladder.networks import Numbers

_LEAST_TAIL: Final = 50
"""Minimum values of a tail; the paper finds estimates from fewer unreliable (section 3.5)."""
_MOST_STARTS: Final = 100
"""Maximum number of candidate starts; of more, evenly spaced ones."""
_EXPONENTS: Final = (1.01, 10.0)


class Fit(NamedTuple):
    """A power law: numbers x from `least` on have probabilities in proportion to x ** -exponent.

    Attributes:
        tail: number of values in the tail.
        distance: maximum difference of the two cumulative distributions (Kolmogorov-Smirnov).
    """

    exponent: float
    least: int
    tail: int
    distance: float


def fit(values: Numbers) -> Fit | None:
    """Return the power law that best fits the tail of the values.

    None for too few or too uniform values. Values below 1 are dropped.
    """
    numbers, counts = np.unique(values[values >= 1], return_counts=True)
    tails = np.cumsum(counts[::-1])[::-1]
    starts = np.flatnonzero(tails[:-1] >= _LEAST_TAIL)
    if len(starts) > _MOST_STARTS:
        starts = starts[np.linspace(0, len(starts) - 1, _MOST_STARTS).astype(int)]
    fits = [_from(numbers[start:], counts[start:]) for start in starts]
    return min(fits, key=lambda each: each.distance, default=None)


def _from(numbers: Numbers, counts: Numbers) -> Fit:
    """Return the fit of a tail, of numbers in ascending order with their counts."""
    from scipy.optimize import minimize_scalar
    from scipy.special import zeta

    least, tail = int(numbers[0]), int(counts.sum())
    logarithms = float(counts @ np.log(numbers))

    def unlikelihood(exponent: float) -> float:
        return tail * float(np.log(zeta(exponent, least))) + exponent * logarithms

    exponent = float(minimize_scalar(unlikelihood, bounds=_EXPONENTS, method="bounded").x)
    found: NDArray[np.floating] = np.cumsum(counts) / tail
    fitted = 1 - zeta(exponent, numbers + 1) / zeta(exponent, least)
    return Fit(exponent, least, tail, float(np.abs(found - fitted).max()))
