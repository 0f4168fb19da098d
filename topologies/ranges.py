"""Ranges of node names: "c1..c3" is c1, c2 and c3."""

import re
from collections.abc import Iterable

_STEM = r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z_-])?"
_RANGE = re.compile(rf"(?P<stem>{_STEM})(?P<first>[0-9]+)\.\.(?P=stem)(?P<last>[0-9]+)")
_NUMBERED = re.compile(rf"(?P<stem>{_STEM})(?P<number>0|[1-9][0-9]{{0,8}})")
_MOST_NAMES = 10_000
_LEAST_NAMES = 3


def expand_ranges(names: Iterable[str]) -> tuple[str, ...]:
    """Return names with their ranges expanded.

    Raises ValueError for a range that runs downwards, is too long, or has leading zeros.
    """
    found: list[str] = []
    for name in names:
        ends = _RANGE.fullmatch(name)
        if ends is None:
            found.append(name)
            continue
        first, last = (ends[end][:9] for end in ("first", "last"))
        if any(end.startswith("0") and end != "0" for end in (first, last)):
            raise ValueError(f"{name}: the numbers of a range have no leading zeros")
        numbers = range(int(first), int(last) + 1)
        if not 0 < len(numbers) <= _MOST_NAMES or len(ends["last"]) > len(last):
            raise ValueError(f"{name}: a range must run upwards and name at most {_MOST_NAMES:,} nodes")
        found += [f"{ends['stem']}{number}" for number in numbers]
    return tuple(found)


def contract_ranges(names: Iterable[str]) -> list[str]:
    """Return names with a range in the place of each three or more that are numbered one after the other.

    expand_ranges() makes the names of it again.
    """
    runs: list[list[str]] = []
    stem, number = "", 0
    for name in names:
        told = _NUMBERED.fullmatch(name)
        goes_on = told is not None and runs and (told["stem"], int(told["number"])) == (stem, number + 1)
        stem, number = (told["stem"], int(told["number"])) if told else ("", 0)
        if goes_on and len(runs[-1]) < _MOST_NAMES:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [part for run in runs for part in ([f"{run[0]}..{run[-1]}"] if len(run) >= _LEAST_NAMES else run)]
