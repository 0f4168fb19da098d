"""Mutants of bounds: a constant that has another value, or a method one line of which reads otherwise.

The tests that catch them are called as they are; that they pass without a mutant is theirs to show.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from forwarder.wire.tlv import MalformedPacket

ENDLESS = 1 << 62
_FAILURES = (AssertionError, ExceptionGroup, MalformedPacket, pytest.fail.Exception)


class Bound(NamedTuple):
    """What is bounded, the mutant that is without it, and the closest test."""

    name: str
    mutant: AbstractContextManager[Any]
    test: Callable[[], None]


def value(module: Any, name: str, without: int = ENDLESS) -> AbstractContextManager[Any]:
    """Let a constant have another value."""
    return patch.object(module, name, without)


@contextmanager
def line(owner: type, name: str, before: str, after: str) -> Iterator[None]:
    """Let a method read otherwise in one place."""
    function = inspect.getattr_static(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(before) == 1, f"{owner.__name__}.{name} does not read {before!r} once"
    made: dict[str, Any] = {}
    exec(source.replace(before, after), function.__globals__, made)
    with patch.object(owner, name, made[name]):
        yield


def check(bound: Bound) -> None:
    """Let the test of a bound fail without it."""
    with bound.mutant, pytest.raises(_FAILURES):
        bound.test()
