"""A parsed page: its figures as data, and its tables as rows."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

from analysis.errors import AnalysisError
from analysis.report.page import unpacked

_DATA = re.compile(r'<script type="text/plain" id="data">([^<]*)</script>')
_UNTITLED = "feednet"


class Source(NamedTuple):
    """Contents of a page.

    Attributes:
        title: the page's.
        figures: each figure's spec (analysis.report.figures.plot.Figure) by its id.
        captions: each figure's title and text, by its id.
        tables: the tables by their names.
    """

    title: str
    figures: dict[str, dict[str, Any]]
    captions: dict[str, tuple[str, str]]
    tables: dict[str, "Table"]


class Cell(NamedTuple):
    """A cell of a table: its text and unit, whether it is a number, and whether it is the best of its row."""

    text: str
    unit: str = ""
    is_number: bool = False
    is_best: bool = False


class Table(NamedTuple):
    """A table: the heading above it, its head, and its rows. A row of one cell is a heading."""

    title: str
    head: list[Cell]
    rows: list[list[Cell]]


def read(path: Path) -> Source:
    """Read a page. Raises AnalysisError if it is unreadable or no page of feednet's with figures."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AnalysisError(f"{path}: cannot be read: {getattr(error, 'strerror', 'is no text')}") from None
    packed = _DATA.search(text)
    try:
        if packed is None:
            raise ValueError
        data = json.loads(unpacked(packed[1]))
        figures = data["figures"]
        captions = {name: (title, shows) for name, (title, shows) in data["captions"].items()}
    except (ValueError, KeyError, TypeError, OSError, EOFError):
        said = "has no figures that can be read; a page of feednet's has: run `feednet report` again"
        raise AnalysisError(f"{path}: {said}") from None
    parser = _Tables()
    parser.feed(text[: packed.start()])
    return Source(parser.title or _UNTITLED, figures, captions, parser.tables)


def _one_line(text: str) -> str:
    """Return a text without line breaks, with the spaces inside of numbers kept."""
    return re.sub(r"[ \t\r\n]+", " ", text).strip(" ")


class _Tables(HTMLParser):
    """Collects the tables with an id, each with the heading before it."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.tables: dict[str, Table] = {}
        self._heading = ""
        self._into: str | None = None  # "heading", "title", "cell", "unit", "skip"
        self._skipped = 0
        self._table: Table | None = None
        self._row: list[Cell] | None = None
        self._in_head = False
        self._cell: list[str] = []
        self._unit: list[str] = []
        self._class = ""
        self._tag = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handle a start tag (see HTMLParser)."""
        own = dict(attrs)
        classes = (own.get("class") or "").split()
        if tag in ("h1", "h2", "h3"):
            self._into, self._heading = "heading", ""
        elif tag in ("button", "svg", "style"):
            self._skipped += 1
        elif tag == "table" and (own.get("id") or "").startswith("table-"):
            name = (own["id"] or "").removeprefix("table-")
            self._table = self.tables[name] = Table(_one_line(self._heading), [], [])
        elif self._table is not None and tag == "thead":
            self._in_head = True
        elif self._table is not None and tag == "tr":
            self._row = []
        elif self._row is not None and tag in ("td", "th"):
            self._into, self._cell, self._unit, self._tag = "cell", [], [], tag
            self._class = " ".join(classes)
        elif self._into == "cell" and "unit" in classes:
            self._into = "unit"

    def handle_endtag(self, tag: str) -> None:
        """Handle an end tag (see HTMLParser)."""
        if tag in ("button", "svg", "style"):
            self._skipped = max(self._skipped - 1, 0)
        elif tag in ("h1", "h2", "h3"):
            if tag == "h1":
                self.title = _one_line(self._heading)
            self._into = None
        elif tag == "thead":
            self._in_head = False
        elif tag == "table":
            self._table = self._row = None
        elif tag == "span" and self._into == "unit":
            self._into = "cell"
        elif tag in ("td", "th") and self._row is not None and self._into in ("cell", "unit"):
            text, unit = (_one_line("".join(parts)) for parts in (self._cell, self._unit))
            marks = self._class.split()
            self._row.append(Cell(text, unit, "number" in marks, "best" in marks))
            self._into = None
        elif tag == "tr" and self._row is not None and self._table is not None:
            if self._in_head and not self._table.head:
                self._table.head.extend(self._row)
            elif self._row:
                self._table.rows.append(self._row)
            self._row = None

    def handle_data(self, data: str) -> None:
        """Handle text (see HTMLParser)."""
        if self._skipped:
            return
        if self._into == "heading":
            self._heading += data
        elif self._into == "cell":
            self._cell.append(data)
        elif self._into == "unit":
            self._unit.append(data)
