"""Deliberate bugs that a family's stories must find; else a clean run would prove nothing.

Each is a patch of one or two methods of the real code, in force while `mutated(name)` is.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from forwarder.feedcache import items

Make = Callable[[Any], Any]


class Patch(NamedTuple):
    """Replaces `owner.name` by what `make` makes of it."""

    owner: Any
    name: str
    make: Make


Mutants = dict[str, tuple[Patch, ...]]
"""Bugs by name."""


def returns(result: Any) -> Make:
    """Do nothing, and return this."""
    return lambda original: lambda *_, **__: result


def instead(owner: Any, name: str, function: Callable[..., Any]) -> Patch:
    """Call `function` with the original and its arguments in place of the original."""
    return Patch(owner, name, lambda original: lambda *args, **named: function(original, *args, **named))


@contextmanager
def mutated(name: str, mutants: Mutants) -> Iterator[None]:
    """Put a bug into the code for as long as the context lasts."""
    with ExitStack() as stack:
        for owner, attribute, make in mutants[name]:
            stack.enter_context(patch.object(owner, attribute, make(getattr(owner, attribute))))
        stack.callback(items.forget_all)  # what was believed under a bug is not to be believed after it
        items.forget_all()
        yield
