"""A sequence chart in text of a played story: a column per node, time downward, ending with the violation."""

from testbed.verify.kit.outcome import Outcome, Row
from testbed.verify.kit.story import Story

_MARGIN = 12
_WIDTH = 20
"""Width between two columns: room for an arrow with "item 12 tip 14/20" on it."""
_ENDS = 50
"""Rows shown of each end of a long story."""


def draw(story: Story, outcome: Outcome) -> str:
    """Draw a story played with `record`."""
    columns = {name: _MARGIN + index * _WIDTH for index, name in enumerate(story.columns)}
    lines = [*story.preface(), "", _heads(columns)]
    last = None
    left_out = len(outcome.rows) - 2 * _ENDS
    for number, row in enumerate(outcome.rows):
        if left_out > 1 and _ENDS <= number < _ENDS + left_out:
            if number == _ENDS:
                lines.append(f"{'':{_MARGIN}}... {left_out} rows ...")
            continue
        lines.append(_line(row, columns, "" if row.time == last else f"{row.time / 1e6:10.3f}"))
        last = row.time
    if outcome.violation is not None:
        lines += ["", f"VIOLATED  {outcome.violation}"]
    return "\n".join(lines) + "\n"


def _heads(columns: dict[str, int]) -> str:
    line = [" "] * (max(columns.values(), default=0) + 8)
    for name, at in columns.items():
        _write(line, at, name)
    return "".join(line).rstrip()


def _line(row: Row, columns: dict[str, int], time: str) -> str:
    line = [" "] * (max(columns.values(), default=0) + 1)
    for at in columns.values():
        line[at] = "|"
    _write(line, 0, time)
    start = columns.get(row.a)
    if start is None:
        _write(line, _MARGIN, f"--- {row.text} ---")
    elif row.b not in columns:
        _write(line, start, f"* {row.text}")
    else:
        _arrow(line, start, columns[row.b], row)
    return "".join(line).rstrip()


def _arrow(line: list[str], start: int, end: int, row: Row) -> None:
    left, right = min(start, end) + 1, max(start, end) - 1
    line[left : right + 1] = "-" * (right - left + 1)
    head, tip = (right, ">") if end > start else (left, "<")
    line[head] = "x" if row.lost else tip
    label = f" {row.text} "
    if len(label) <= right - left - 1:
        _write(line, left + (right - left + 1 - len(label)) // 2, label)
    else:
        _write(line, len(line) + 2, row.text)


def _write(line: list[str], at: int, text: str) -> None:
    line += [" "] * (at + len(text) - len(line))
    line[at : at + len(text)] = text
