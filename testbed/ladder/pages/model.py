"""The page of a model: sections of plots and tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.metrics.study import Estimate
from analysis.report.figures.plot import Figure
from analysis.report.page import page as render_page
from analysis.report.words.numbers import pretty
from base.files import write_whole


class Table(NamedTuple):
    """A table with formatted cells. `name`: of its CSV. The first cell of a row is its name."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Section(NamedTuple):
    """A part of the page: paragraphs, plots, tables, and notes below them."""

    title: str
    text: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def write_model(
    path: Path,
    name: str,
    title: str,
    facts: Sequence[str],
    series: Sequence[str],
    sections: Sequence[Section],
    command: str,
) -> None:
    """Write the page; raise OSError.

    `name` is that of saved files, `facts` are paragraphs at its top. `series` are the compared items of its
    figures, coloured by index (analysis.report.figures.plot.places).
    """
    figures = [figure for section in sections for figure in section.figures]
    text = render_page(
        "model.html",
        figures,
        {},
        name=name,
        title=title,
        layerings=series,
        compared="What is",
        facts=facts,
        sections=sections,
        command=command,
        package=__package__,
    )
    write_whole(path, text)


def estimated(estimate: Estimate | None) -> str:
    """Format an estimate, "0.613 ± 0.021"; a dash for None."""
    if estimate is None:
        return pretty(None)
    half = estimate.half
    return pretty(estimate.mean) + (f" ± {pretty(half)}" if half else "")
