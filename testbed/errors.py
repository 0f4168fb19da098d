"""The error that ends a command with one line."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from forwarder.toml_file import shown

__all__ = ["UserError", "as_user_error", "exists_already", "shown", "suggestion"]

_MOST_KNOWN = 24


def suggestion(name: str, names: Collection[str]) -> str:
    """Return the error text for an unknown name: the likely one, and all known ones."""
    near = get_close_matches(name, names, n=1, cutoff=0.8)
    meant = f"did you mean {near[0]}? " if near else ""
    there = [*names][:_MOST_KNOWN]
    more = f" and {len(names) - len(there)} more" if len(names) > len(there) else ""
    return f"{meant}there are {', '.join(there)}{more}"


class UserError(Exception):
    """A user-fixable error; the message gives what, where and the remedy, in one line."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that a notebook shows for the error; IPython asks exceptions for them.

        A traceback does not help users to correct a mistake.
        """
        return [f"feednet: {self}"]


def exists_already(place: Path) -> UserError:
    """Return the error for what a command is to write and is there."""
    return UserError(f"{place}: exists already; choose another --out or remove it")


@contextmanager
def as_user_error(*kinds: type[Exception]) -> Iterator[None]:
    """Raise exceptions of some kinds as UserError, with the same message."""
    try:
        yield
    except kinds as error:
        raise UserError(str(error)) from error
