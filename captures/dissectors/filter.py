"""A display filter: the part of Wireshark's display filters about fields.

    ndn.type == LLI and not ndn.name contains "32=metadata"
    ndn.lp.nack_reason                                        (has the field)
    ndn.feed.item >= 5 && (ip.src == 10.0.0.1 || ip.dst == 10.0.0.1)

A comparison is true if it is for one of a field's values; `!=` if it is for all, as in Wireshark 4. Source:
Wireshark User's Guide, "Building Display Filter Expressions".
"""

import difflib
import operator
import re
from collections.abc import Callable
from typing import Any

from captures.dissectors.summary import FIELD_NAMES, TYPES, Fields, value_text

Filter = Callable[[Fields], bool]
INTERFACE = "frame.interface_name"

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>==|!=|<=|>=|&&|\|\||[<>!~()])"""
    r"""|(?P<word>[^\s"()!<>=&|~]+(?:=(?!=)[^\s"()!<>=&|~]+)*))"""
)
_COMPARISONS = {
    "==": "==",
    "eq": "==",
    "!=": "!=",
    "ne": "!=",
    "<": "<",
    "lt": "<",
    "<=": "<=",
    "le": "<=",
    ">": ">",
    "gt": ">",
    ">=": ">=",
    "ge": ">=",
    "contains": "contains",
    "matches": "matches",
    "~": "matches",
}
_ORDER = {"==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_MOST_NESTED = 50


class InvalidFilter(ValueError):
    """The text is no filter; the message has the position of the error."""


def interfaces_in(text: str) -> list[str]:
    """Return the interfaces named in a filter: words after INTERFACE and ==."""
    return [a or b for a, b in re.findall(rf'{INTERFACE}\s*==\s*(?:"([^"]*)"|([^\s()&|]+))', text)]


def compile_filter(text: str) -> Filter:
    """Compile a filter to a predicate on a packet's fields; raise InvalidFilter."""
    parser = _Parser(text)
    test = parser.disjunction()
    if parser.token:
        raise InvalidFilter(f"{parser.token!r} is not expected there")
    return test


class _Parser:
    """Recursive descent: or = and {"or" and}, and = not {"and" not}, not = "not" not | "(" or ")" | test."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self.token = ""
        self._is_quoted = self._is_sign = False
        self._advance()

    def _advance(self) -> str:
        """Advance; return the token before."""
        left = self.token
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            rest = self._text[self._at :].strip()
            if rest:
                raise InvalidFilter(f"cannot read {rest[:20]!r}")
            self.token = ""
            self._is_quoted = self._is_sign = False
            return left
        self._at = match.end()
        self._is_quoted, self._is_sign = match["text"] is not None, match["sign"] is not None
        self.token = re.sub(r"\\(.)", r"\1", match["text"][1:-1]) if self._is_quoted else match[0].strip()
        return left

    def _accept(self, *words: str) -> bool:
        if self._is_quoted or self.token.lower() not in words:
            return False
        self._advance()
        return True

    def disjunction(self) -> Filter:
        tests = [self._conjunction()]
        while self._accept("or", "||"):
            tests.append(self._conjunction())
        return tests[0] if len(tests) == 1 else lambda fields: any(test(fields) for test in tests)

    def _conjunction(self) -> Filter:
        tests = [self._negation()]
        while self._accept("and", "&&"):
            tests.append(self._negation())
        return tests[0] if len(tests) == 1 else lambda fields: all(test(fields) for test in tests)

    def _negation(self) -> Filter:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise InvalidFilter("too deeply nested")
        try:
            if self._accept("not", "!"):
                inner = self._negation()
                return lambda fields: not inner(fields)
            if self._accept("("):
                inner = self.disjunction()
                if not self._accept(")"):
                    raise InvalidFilter("a closing parenthesis is missing")
                return inner
            return self._test()
        finally:
            self._depth -= 1

    def _test(self) -> Filter:
        if self._is_quoted or not self.token:
            raise InvalidFilter("a field's name is missing")
        name = check_field(self._advance())
        comparison = None if self._is_quoted else _COMPARISONS.get(self.token.lower())
        if comparison is None:
            return lambda fields: any(field == name for field, _ in fields)
        self._advance()
        if self._is_sign or (not self.token and not self._is_quoted):
            raise InvalidFilter(f"a value is missing after {name} {comparison}")
        return _comparison(name, comparison, self._advance())


def check_field(name: str) -> str:
    """Return the name of a field; raise InvalidFilter if it is unknown."""
    if name not in FIELD_NAMES:
        close = difflib.get_close_matches(name, FIELD_NAMES, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InvalidFilter(f"no field {name!r}{hint}")
    return name


def _comparison(name: str, comparison: str, text: str) -> Filter:
    if comparison == "!=":
        equal = _comparison(name, "==", text)
        return lambda fields: any(field == name for field, _ in fields) and not equal(fields)
    one: Callable[[Any], bool]
    if name == "ndn.type" and comparison == "==" and text not in TYPES:
        raise InvalidFilter(f"no ndn.type is {text!r}; there are {', '.join(TYPES)}")
    if comparison == "contains":
        one = lambda value: text in value_text(name, value)  # noqa: E731
    elif comparison == "matches":
        try:
            pattern = re.compile(text, re.IGNORECASE)
        except re.error as error:
            raise InvalidFilter(f"{text!r} is no regular expression: {error}") from error
        one = lambda value: pattern.search(value_text(name, value)) is not None  # noqa: E731
    else:
        one = _ordering(name, _ORDER[comparison], text)
    return lambda fields: any(field == name and one(value) for field, value in fields)


def _ordering(name: str, compare: Callable[[Any, Any], bool], text: str) -> Callable[[Any], bool]:
    try:
        number = int({"true": "1", "false": "0"}.get(text.lower(), text), 0)
    except ValueError:
        number = None
    plain = text.replace(":", "").lower()

    def holds(value: Any) -> bool:
        if isinstance(value, int):
            return number is not None and compare(value, number)
        if isinstance(value, bytes):
            shown = value_text(name, value)
            return compare(shown, text if not shown.isalnum() else plain) or compare(shown, text)
        return compare(value, text)

    return holds
