"""JSON exactly as V8's `JSON.parse` and `JSON.stringify` process it.

Classic SSB signs the output of JavaScript's `JSON.stringify(message, null, 2)`, so the quirks
of that function (ECMAScript 2024, section 25.5.2, and V8's order of keys) are part of the protocol.
Where Python's `json` differs, this module follows V8:

- Every number is a double, written as `Number::toString` does: `1e-7`, `1e+21`, `1` for 1.0, `0`
  for -0, and `null` for numbers too large for a double.
- Keys that are array indices (0 to 2**32 - 2 in plain decimal) come first, in ascending order; the
  others keep the order in which they were first inserted. A repeated key keeps its first place and
  its last value.
- Lone surrogates are escaped; DEL, U+2028 and everything else beyond the control characters is not.
- NaN and Infinity are invalid.

The scanning and quoting are the C code of Python's own `json`, which agrees with V8 on the rest.
"""

import re
from json import JSONDecodeError, JSONDecoder, JSONEncoder
from math import isfinite
from typing import Any, NoReturn

Value = None | bool | int | float | str | list[Any] | dict[str, Any]
"""Value of a JSON text. Integers up to 2**53 are int, all other numbers are float."""

_EXACT = 2**53
_LAST_INDEX = 2**32 - 2
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class InvalidJson(ValueError):
    """Invalid JSON, or nested too deeply; the message has reason and position."""


def parse(text: str) -> Value:
    """Result of JavaScript's `JSON.parse(text)`; raises InvalidJson where that would throw.

    Also refused is nesting beyond Python's stack, some hundred levels. That excludes no
    message: indentation alone fills 8192 characters before the hundredth level.
    """
    try:
        value: Value = _DECODER.decode(text)
    except JSONDecodeError as error:
        raise InvalidJson(f"not JSON: {error.msg} (character {error.pos})") from None
    except RecursionError:
        raise InvalidJson("nested too deeply") from None
    return value


def parse_bytes(data: bytes) -> Value:
    """The same of bytes; raises InvalidJson also for bytes that are not UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidJson(str(error)) from None
    return parse(text)


def object_in(data: bytes) -> dict[str, Any] | None:
    """The object that bytes are as JSON; None if they are none."""
    try:
        value = parse_bytes(data)
    except InvalidJson:
        return None
    return value if isinstance(value, dict) else None


def stringify(value: Value, indent: int = 2) -> str:
    """Result of JavaScript's `JSON.stringify(value, null, indent)`.

    `indent` 0 writes one line without spaces. Raises InvalidJson if `value` nests too deeply, and
    TypeError for types other than None, bool, int, float, str, list, and dict with str keys.
    """
    pieces: list[str] = []
    try:
        _write(value, "\n" if indent else "", " " * indent, pieces)
    except RecursionError:
        raise InvalidJson("nested too deeply") from None
    return "".join(pieces)


def _write(value: Value, line: str, step: str, pieces: list[str]) -> None:
    """Append the text; `line` is the line end and indentation at the level of `value`."""
    if isinstance(value, str):
        pieces.append(_quote(value))
    elif value is None:
        pieces.append("null")
    elif value is True:
        pieces.append("true")
    elif value is False:
        pieces.append("false")
    elif isinstance(value, int | float):
        pieces.append(_number(value))
    elif isinstance(value, dict):
        inner = line + step
        before, comma, colon = "{" + inner, "," + inner, ": " if step else ":"
        for key in _ordered(value):
            pieces += before, _quote(key), colon
            _write(value[key], inner, step, pieces)
            before = comma
        pieces.append(line + "}" if value else "{}")
    elif isinstance(value, list):
        inner = line + step
        before, comma = "[" + inner, "," + inner
        for item in value:
            pieces.append(before)
            _write(item, inner, step, pieces)
            before = comma
        pieces.append(line + "]" if value else "[]")
    else:
        raise TypeError(f"{type(value).__name__} is not a JSON value")


def _ordered(members: dict[str, Any]) -> list[str]:
    indices = [key for key in members if str.isdigit(key) and _is_index(key)]
    if not indices:
        return list(members)
    return list(dict.fromkeys(sorted(indices, key=int)) | members)


def _is_index(key: str) -> bool:
    return _INDEX.fullmatch(key) is not None and int(key) <= _LAST_INDEX


def _quote(text: str) -> str:
    quoted = _ENCODER.encode(text)
    if quoted.isascii() or not _SURROGATE.search(quoted):
        return quoted
    # In Python the two halves of a pair can stand side by side and remain two characters; in JavaScript,
    # where strings are UTF-16, they are one.
    joined = quoted.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", joined)


def _number(value: float) -> str:
    """ECMAScript `Number::toString` (section 6.1.6.1.20), and `null` for the infinities and NaN."""
    if isinstance(value, int):
        if -_EXACT <= value <= _EXACT:
            return str(value)
        try:
            value = float(value)
        except OverflowError:
            return "null"
    if not isfinite(value):
        return "null"
    if value == 0:
        return "0"
    # repr gives the same shortest digits as V8, laid out differently. As in the specification, `digits`
    # are the significant ones and the decimal point stands after the first `point` of them.
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    padded = whole + fraction
    digits = padded.lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(padded) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if value < 0 else ""
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def _integer(digits: str) -> int | float:
    number = float(digits)
    return int(number) if -_EXACT <= number <= _EXACT else number


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidJson(f"not JSON: {name} is not a number there")


_DECODER = JSONDecoder(parse_int=_integer, parse_constant=_refuse_constant)
_ENCODER = JSONEncoder(ensure_ascii=False)
