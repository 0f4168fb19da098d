"""The check of a student's answers against the student's own runs."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from testbed.errors import UserError
from testbed.labs.folder import Folder
from testbed.labs.lab import Question, lab

_YES = {"yes": True, "true": True, "no": False, "false": False}


class Verdict(NamedTuple):
    """A question, the answer given (None: none yet), the right one, and whether they agree."""

    question: Question
    given: Any
    right: Any
    is_right: bool

    @property
    def said(self) -> str:
        """The verdict in words; the right answer stays hidden."""
        if self.given in (None, ""):
            return "no answer yet"
        if _is_number(self.right) and _number(self.given) is None:
            return "not a number: write 80 or 131.5"
        if isinstance(self.right, bool) and _truth(self.given) is None:
            return "neither yes nor no"
        return "right" if self.is_right else f"not right. {self.question.hint}"


class Verdicts(tuple[Verdict, ...]):
    """The verdicts on all questions of a lab; notebooks show them as a table."""

    @property
    def are_right(self) -> bool:
        """Whether all answers are right."""
        return all(each.is_right for each in self)

    def __str__(self) -> str:
        return "\n".join(f"{each.question.name}: {each.said}" for each in self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            _row("td", ("✓" if each.is_right else "·", each.question.name, each.given, each.said))
            for each in self
        )
        return f"<table>{_row('th', ('', 'question', 'answer', ''))}{rows}</table>"


def check(name: str, answers: Mapping[str, Any], folder: str | Path = ".") -> Verdicts:
    """Check answers, by question, against the runs in a folder.

    Numbers and yes or no may be texts; several names are a list, or a text with commas. Raises UserError for
    a question that is not the lab's, or if there is no run yet.
    """
    asked = lab(name)
    for given in answers:
        if given not in asked.questions:
            known = ", ".join(asked.questions)
            raise UserError(f"lab {name} has no question {given!r}; it has {known}")
    right = asked.expected(Folder(Path(folder)))
    return Verdicts(
        Verdict(question, answer, right[each], agrees(answer, right[each], question.within))
        for each, question in asked.questions.items()
        for answer in (answers.get(each),)
    )


def agrees(given: Any, right: Any, within: float) -> bool:
    """Return whether an answer is right; a number may be off by `within` percent of the right one."""
    if given is None or given == "":
        return False
    if isinstance(right, set | frozenset):
        several = isinstance(given, list | tuple | set | frozenset)
        words = given if several else str(given).split(",")
        return {str(word).strip().casefold() for word in words} == {word.casefold() for word in right}
    if isinstance(right, str):
        return str(given).strip().casefold() == right.casefold()
    if isinstance(right, bool):
        return _truth(given) is right
    number = _number(given)
    return number is not None and bool(abs(number - right) <= abs(right) * within / 100 + 1e-9)


def _row(kind: str, texts: tuple[Any, ...]) -> str:
    """Return a row of a table; notebooks would align its words to the right."""
    cells = (
        f'<{kind} style="text-align: left">{"" if x is None else escape(str(x))}</{kind}>' for x in texts
    )
    return f"<tr>{''.join(cells)}</tr>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _truth(given: Any) -> bool | None:
    """Return an answer as yes or no; None if it is neither."""
    return _YES.get(str(given).strip().casefold())


def _number(given: Any) -> float | None:
    """Return an answer as a number; None if it is none."""
    try:
        return float(given)
    except (TypeError, ValueError):
        return None
