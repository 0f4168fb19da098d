"""Write docs/seeds.md: what the papers behind feednet say, and where it stands.

    python docs/seeds.py > docs/seeds.md

The rows are those of docs/seeds.txt: section | claim | verdict | where | command | why not.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

VERDICTS = {
    "works": "the command or test shows it",
    "in part": "so does it, but for what the line names",
    "library": "code and tests, which no command uses",
    "missing": "it is not there, for the reason in the line",
}

_HEAD = """# What the papers say, row by row

Each system and each claim of the papers that feednet is built on: the place in the code, the command that
shows it, and a verdict. `python docs/seeds.py > docs/seeds.md` writes this page from `docs/seeds.txt`.
`tests/test_seeds.py` checks that commands are understood and places exist; a row without a command has a
reason. All scenarios and tests that it names run in CI.

| sections | paper |
|---|---|
| P | "Secure Scuttlebutt" (Tarr, Lavoie, Meyer, Tschudin 2019), as published |
| D | its longer draft |
| L | the notes on replication, "Scalable Secure Scuttlebutt", which are the draft's appendix A |
| T | the report on tinyISP (2023) |
"""


class Row(NamedTuple):
    """A system or a claim; all as it stands in the table."""

    part: str
    section: str
    claim: str
    verdict: str
    where: str
    command: str
    reason: str


def rows() -> list[Row]:
    """Return the rows in order; raise ValueError for a line that has not all columns."""
    found, part = [], ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            part = line[2:]
        else:
            section, claim, verdict, where, command, reason = (cell.strip() for cell in line.split("|"))
            found.append(Row(part, section, claim, verdict, where, command, reason))
    return found


def document() -> str:
    """Return the page."""
    every = rows()
    counts = Counter(row.verdict for row in every)
    lines = [_HEAD, "| verdict | means | rows |", "|---|---|---|"]
    lines += [f"| {verdict} | {means} | {counts[verdict]} |" for verdict, means in VERDICTS.items()]
    part = ""
    for row in every:
        if row.part != part:
            part = row.part
            lines += ["", f"## {part}", "", "| section | claim | verdict | where | command, or why not |"]
            lines += ["|---|---|---|---|---|"]
        where, command = (f"`{text}`" if text else "" for text in (row.where, row.command))
        shown = "; ".join(text for text in (command, row.reason) if text)
        lines.append(f"| {row.section} | {row.claim} | {row.verdict} | {where} | {shown} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(document(), end="")
