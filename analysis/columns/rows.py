"""Rows of small tables, grouped or added up by their columns."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from analysis.files import Rows


def grouped(rows: Iterable[dict[str, Any]], *columns: str) -> defaultdict[Any, Rows]:
    """Return rows by their value of a column, or by their values of several."""
    found: defaultdict[Any, Rows] = defaultdict(list)
    key = itemgetter(*columns)
    for row in rows:
        found[key(row)].append(row)
    return found


def summed(rows: Iterable[dict[str, Any]], amount: str, *columns: str) -> Counter[Any]:
    """Return the sums of a column of whole numbers likewise."""
    sums: Counter[Any] = Counter()
    key = itemgetter(*columns)
    for row in rows:
        sums[key(row)] += row[amount]
    return sums
