"""The minimum number of samples for a quantile."""

from collections.abc import Mapping
from typing import Any

TAILS = {"p95": 0.95, "p99": 0.99}
"""Quantiles that need many samples."""


def are_enough(samples: int, share: float) -> bool:
    """Return whether the largest sample exceeds the quantile with a probability of 95 %.

    That takes 59 samples for the 95th percentile, 299 for the 99th. S. S. Wilks, Ann. Math. Statist. 12(1),
    1941.
    """
    return 1 - share**samples >= 0.95


def without_tails(row: Mapping[str, Any], samples: int, *prefixes: str) -> dict[str, Any]:
    """Return a row with each `<prefix>_<name>` column of TAILS null where there are too few samples."""
    few = {name for name, share in TAILS.items() if not are_enough(samples, share)}
    return {**row, **{f"{prefix}_{name}": None for prefix in prefixes for name in few}}
