"""TOML files of users, validated by a pydantic model; errors are one line."""

import tomllib
from pathlib import Path
from reprlib import Repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # commands that read no file of a user's need not wait for it
    from pydantic import ValidationError

_ROOM = 60
_PLAIN = {
    "extra_forbidden": "unknown key",
    "unexpected_keyword_argument": "unknown key",
    "missing": "is missing: add it",
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "dataclass_type": "must be a table",
    "string_pattern_mismatch": "has a character that is not allowed there",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
}
_SPEAK_FOR_THEMSELVES = ("missing", "value_error", "extra_forbidden", "unexpected_keyword_argument")


def parse_toml(text: bytes) -> dict[str, Any]:
    """Read TOML in UTF-8; raise ValueError with a line for the user."""
    try:
        return tomllib.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not valid TOML: byte {error.start + 1} is no text in UTF-8") from error
    except RecursionError as error:
        raise ValueError("not valid TOML: nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not valid TOML: {error}") from error
    except ValueError as error:  # raised by Python's int()
        raise ValueError("not valid TOML: a number has too many digits") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file; raise ValueError with a line for the user, which does not name the file."""
    try:
        return parse_toml(path.read_bytes())
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error


def first_problem(error: "ValidationError") -> str:
    """Return a model's first error: key, problem and value."""
    path, problem = problem_of(error)
    return f"{'.'.join(path)}: {problem}"


def problem_of(error: "ValidationError") -> tuple[tuple[str, ...], str]:
    """Return a model's first error: the key, the outermost table first, and the rest."""
    first = error.errors()[0]
    problem = _PLAIN.get(first["type"], first["msg"].removeprefix("Value error, "))
    problem = problem.replace("Input should be", "must be")
    problem = problem.replace("greater than or equal to", "at least").replace(
        "less than or equal to", "at most"
    )
    got = "" if first["type"] in _SPEAK_FOR_THEMSELVES else f" (got {shown(first['input'])})"
    return tuple(map(str, first["loc"])), f"{problem}{got}"


def shown(value: Any) -> str:
    """Return the user's value, shortened to fit into a line."""
    if isinstance(value, str) and value and len(value) <= _ROOM and value.isprintable():
        return value
    short = Repr()
    short.maxstring = short.maxother = short.maxlong = _ROOM
    return short.repr(value)
