"""The error that ends a command with one line."""

from reprlib import Repr
from typing import Any

_ROOM = 60


class UserError(Exception):
    """Something that the user can mend; the message says what, where and how, in one line."""


def shown(value: Any) -> str:
    """Return what the user gave, as far as a line has room for it."""
    if isinstance(value, str) and len(value) <= _ROOM and value.isprintable():
        return value
    short = Repr()
    short.maxstring = short.maxother = short.maxlong = _ROOM
    return short.repr(value)
