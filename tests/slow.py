"""Cases that say again, in another form, what the rest of a test says: `make test-slow` runs them."""

from collections.abc import Iterable
from typing import Any

import pytest


def but_slow(cases: Iterable[Any], *slow: Any) -> list[Any]:
    """Return the cases of a parametrised test, with the named ones marked `slow`.

    Raises:
        ValueError: no such case.
    """
    every = [*cases]
    if unknown := [case for case in slow if case not in every]:
        raise ValueError(f"no case {unknown[0]!r}")
    return [pytest.param(*_values(case), marks=pytest.mark.slow) if case in slow else case for case in every]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
