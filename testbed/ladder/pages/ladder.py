"""The page of the ladder's models: a paper's tables, and their reproductions."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.report.page import page as render_page
from base.files import write_whole
from testbed.ladder.pages.ladder_figures import NAMES, figures

_IMPROBABLE = 0.001


def write_ladder(path: Path, tables: Sequence[Mapping[str, Any]], command: str) -> None:
    """Write the page. Raises OSError.

    A table has name, title, rule, row, columns (name -> title), peers, confidence, real (whether the real
    protocols gave the same figures), and cells: row, column, mean, error, low, high, runs, paper and holds.
    """
    drawn = {table["name"]: figures(table) for table in tables}
    text = render_page(
        "ladder.html",
        [item for items in drawn.values() for item in items],
        {},
        name="ladder",
        title="The replication ladder: models",
        layerings=NAMES,
        compared="Figures",
        command=command,
        package=__package__,
        tables=[
            {**table, "plots": drawn[table["name"]], "rows": list(_rows(table)), "verdict": _verdict(table)}
            for table in tables
        ],
        confidence=f"{tables[0]['confidence']:.0%}",
    )
    write_whole(path, text)


def _rows(table: Mapping[str, Any]) -> Iterator[tuple[str, list[Mapping[str, Any] | None]]]:
    """Yield each row's name and cells; None for missing ones."""
    known = {(cell["row"], cell["column"]): cell for cell in table["cells"]}
    for row in dict.fromkeys(row for row, _ in known):
        yield row, [known.get((row, column)) for column in table["columns"]]


def _verdict(table: Mapping[str, Any]) -> str:
    """Return in words whether protocols and model agree, and how many of the paper's figures are in our
    intervals.
    """
    text = ""
    if table["real"]:
        runs = max(cell["runs"] for cell in table["cells"])
        text = f"In each of {runs} runs, peers that speak the real protocols gave every figure of the model. "
    return text + _comparison(table)


def _comparison(table: Mapping[str, Any]) -> str:
    judged = [cell for cell in table["cells"] if cell["holds"] is not None]
    if not judged:
        return "No figure of the paper is compared: its networks had another size, or seeds are too few."
    from scipy.stats import binomtest

    held = sum(cell["holds"] for cell in judged)
    text = f"{held} of the paper’s {len(judged)} figures are in their intervals."
    if held < len(judged):
        expected = (1 - table["confidence"]) * len(judged)
        text += f" By chance alone, {expected:.1f} would be outside."
    for column, title in table["columns"].items():
        apart = [cell for cell in judged if cell["column"] == column and cell["paper"] != cell["mean"]]
        signs = [cell["paper"] > cell["mean"] for cell in apart]
        rare = min(sum(signs), len(signs) - sum(signs))
        if signs and binomtest(rare, len(signs)).pvalue < _IMPROBABLE:
            where = "above" if sum(signs) > rare else "below"
            text += f" In “{title}”, {len(signs) - rare} of {len(signs)} figures are {where} our means:"
            text += " chance does not explain this."
    return text
