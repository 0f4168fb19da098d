"""Tables as LaTeX (booktabs) and as CSV."""

import csv
import re
from io import StringIO

from analysis.report.paper.source import Cell, Table

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
    "\N{NO-BREAK SPACE}": "~",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{MINUS SIGN}": r"$-$",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
    "\N{LESS-THAN OR EQUAL TO}": r"$\le$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\ge$",
    "\N{GREEK SMALL LETTER MU}": r"$\mu$",
    "\N{MICRO SIGN}": r"$\mu$",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT SINGLE QUOTATION MARK}": "`",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{RIGHTWARDS ARROW}": r"$\rightarrow$",
}
_SPACE = re.compile(r"(?<=\d)[\u202f\u2009\u00a0 ](?=\d{3})")


_MOST_ROWS = 40
"""Maximum rows of a table without page breaks."""


def escaped(text: str) -> str:
    """Return a text escaped for any LaTeX engine: special characters, and those missing in its fonts."""
    return "".join(_ESCAPED.get(character, character) for character in text)


def latex(name: str, table: Table) -> str:
    """Return a table as LaTeX: it needs the package booktabs, and longtable if it is longer than a page.

    Numbers are right-aligned, the best value of a row is bold, and units follow their numbers.
    """
    width = max([len(table.head), *map(len, table.rows)])
    numbers = [
        any(len(row) > at and row[at].is_number for row in (table.head, *table.rows)) for at in range(width)
    ]
    columns = "".join("r" if number else "l" for number in numbers)
    caption = rf"\caption{{{escaped(table.title)}}}\label{{tab:{name}}}"
    body = [r"\toprule", *([_line(table.head, width), r"\midrule"] if table.head else [])]
    is_long = len(table.rows) > _MOST_ROWS
    if is_long:
        lines = [r"{\small", rf"\begin{{longtable}}{{@{{}}{columns}@{{}}}}", rf"{caption} \\"]
        lines += [*body, r"\endhead"]
    else:
        lines = [r"\begin{table}", r"\centering\small", caption]
        lines += [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", *body]
    for number, row in enumerate(table.rows):
        if len(row) == 1 and width > 1:
            lines += [r"\addlinespace"] if number else []
            lines.append(rf"\multicolumn{{{width}}}{{@{{}}l}}{{\textit{{{escaped(row[0].text)}}}}} \\")
        else:
            lines.append(_line(row, width))
    ends = [r"\end{longtable}", "}"] if is_long else [r"\end{tabular}", r"\end{table}"]
    return "\n".join([*lines, r"\bottomrule", *ends]) + "\n"


def _line(row: list[Cell], width: int) -> str:
    cells = [_cell(cell) for cell in row] + [""] * (width - len(row))
    return " & ".join(cells) + r" \\"


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    text = rf"\textbf{{{text}}}" if cell.is_best and text else text
    return f"{text} ({escaped(cell.unit)})" if cell.unit else text


def as_csv(table: Table) -> str:
    """Return a table as CSV: units in a column of their own, numbers without spaces."""
    has_units = any(cell.unit for row in table.rows for cell in row[:1])
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    head = [cell.text for cell in table.head]
    writer.writerow([*head[:1], *(["unit"] if has_units else []), *head[1:]])
    heading = ""
    for row in table.rows:
        if len(row) == 1 and len(table.head) > 1:
            heading = row[0].text
            continue
        first = f"{heading}: {row[0].text}" if heading else row[0].text
        units = [row[0].unit] if has_units else []
        writer.writerow([first, *units, *(_SPACE.sub("", cell.text) for cell in row[1:])])
    return written.getvalue()
