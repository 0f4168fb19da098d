"""A lab: its text, which is the source of notebook and page, and its questions.

The text is Markdown. Blocks of `python` are cells. Blocks of `question` are TOML: a table for each question,
with `ask`, what is asked; `within`, by how many percent a number may be off; and `hint`, for a wrong answer.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from testbed.errors import UserError, shown
from testbed.labs.folder import Folder

NAMES = (
    *("lost", "credit", "pit", "fork", "ebt", "isp", "dies", "believe"),
    *("strategy", "capture", "broken"),
)
"""The labs, in the order of a course."""

_BLOCK = re.compile(r"^```(python|question)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


class Question(NamedTuple):
    """A question: what is asked, how far off a number may be (percent), and a hint for a wrong answer."""

    name: str
    ask: str
    within: float
    hint: str


class Part(NamedTuple):
    """A part of a lab: Markdown, a cell, or questions."""

    kind: Literal["text", "python", "question"]
    text: str


class Lab(NamedTuple):
    """A lab: name, title, and the parts of its text after the title."""

    name: str
    title: str
    parts: tuple[Part, ...]

    @property
    def questions(self) -> dict[str, Question]:
        """The questions by name, in the order of the text."""
        found: dict[str, Question] = {}
        for part in self.parts:
            if part.kind == "question":
                found |= questions_of(part)
        return found

    @property
    def cells(self) -> list[str]:
        """The code, cell by cell."""
        return [part.text for part in self.parts if part.kind == "python"]

    def expected(self, folder: Folder) -> Mapping[str, Any]:
        """Return the right answers, from the runs of a folder.

        A text, a number, a bool, or a set of texts. Raises UserError if a run is missing.
        """
        found: Mapping[str, Any] = import_module(f"testbed.labs.{self.name}").expected(folder)
        return found


def questions_of(part: Part) -> dict[str, Question]:
    """Return the questions of a part."""
    return {
        name: Question(name, said["ask"], said.get("within", 0.0), said["hint"])
        for name, said in tomllib.loads(part.text).items()
    }


@cache
def lab(name: str) -> Lab:
    """Return a lab. Raises UserError."""
    if name not in NAMES:
        raise UserError(f"lab {shown(name)}: there is none; there are {', '.join(NAMES)}")
    text = (files("testbed.labs") / name / "lab.md").read_text(encoding="utf-8")
    title, _, rest = text.partition("\n")
    parts: list[Part] = []
    at = 0
    for block in _BLOCK.finditer(rest):
        parts.append(Part("text", rest[at : block.start()].strip()))
        parts.append(Part("python" if block[1] == "python" else "question", block[2].strip()))
        at = block.end()
    parts.append(Part("text", rest[at:].strip()))
    return Lab(name, title.removeprefix("# "), tuple(part for part in parts if part.text))
