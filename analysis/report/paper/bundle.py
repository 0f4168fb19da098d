"""Export of all figures and tables of a page to a directory, for inclusion in a paper."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from analysis.errors import AnalysisError
from analysis.files import whole_directory
from analysis.report.paper.drawing import choices, write
from analysis.report.paper.source import Source, read
from analysis.report.paper.tables import as_csv, escaped, latex

PAGES = ("report.html", "study.html")

_HEAD = """% Written by `feednet figures`, from "{title}".
% \\usepackage{{graphicx,booktabs,longtable}}, then \\input this file, or take from it what you need.
% \\graphicspath{{{{<this directory>/}}}} tells LaTeX where the figures are.
"""


def page_of(place: Path) -> Path:
    """Return the page of a run, of a sweep or of captures, or the page itself. Raises AnalysisError."""
    if place.is_dir():
        found = next((place / name for name in PAGES if (place / name).is_file()), None)
        if found is None:
            raise AnalysisError(f"{place}: has no page; `feednet report {place}` makes that of a run")
        return found
    if not place.exists():
        raise AnalysisError(f"{place}: there is no such run, sweep or page")
    return place


def bundle(
    page: Path,
    directory: Path,
    width: str,
    every: bool = False,
    progress: Callable[[int, int, str], None] = lambda done, of, name: None,
) -> list[str]:
    """Write figures and tables of a page into a new directory; return the names of the figures.

    `width` is one of analysis.report.paper.drawing.WIDTHS; `every` exports each choice of a figure's menus.
    The directory appears when it is complete. Raises AnalysisError, and OSError.
    """
    source = read(page)
    wanted = [(_file(name, chosen), name, shown) for name, chosen, shown in _figures(source, every)]
    if directory.exists():
        raise AnalysisError(f"{directory}: exists already; choose another --out or remove it")
    with whole_directory(directory) as partial:
        lines = [_HEAD.format(title=source.title)]
        for done, (file, name, shown) in enumerate(wanted):
            progress(done, len(wanted), file)
            for form, made in write(shown, width).items():
                (partial / f"{file}.{form}").write_bytes(made)
            (partial / f"{file}.csv").write_text(_numbers(source.figures[name], shown), encoding="utf-8")
            lines.append(_included(file, *source.captions[name], width))
        for name, table in source.tables.items():
            (partial / f"table-{name}.tex").write_text(latex(name, table), encoding="utf-8")
            (partial / f"table-{name}.csv").write_text(as_csv(table), encoding="utf-8")
            lines.append(f"\\input{{table-{name}}}\n")
        (partial / "all.tex").write_text("\n".join(lines), encoding="utf-8")
        progress(len(wanted), len(wanted), "")
    return [file for file, _, _ in wanted]


def _figures(source: Source, every: bool) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for name, spec in source.figures.items():
        for chosen, shown in choices(spec, every):
            if shown["data"]:
                yield name, chosen, shown


def _file(name: str, chosen: str) -> str:
    """Return a figure's file name: its id, and the chosen options."""
    return re.sub(r"[^a-z0-9]+", "-", f"{name} {chosen}".lower()).strip("-")


def _included(file: str, title: str, shows: str, width: str) -> str:
    environment, wide = ("figure", r"\columnwidth") if width == "single" else ("figure*", r"\textwidth")
    return "\n".join(
        (
            rf"\begin{{{environment}}}",
            r"\centering",
            rf"\includegraphics[width={wide}]{{{file}}}",
            rf"\caption{{{escaped(title)}.}}\label{{fig:{file}}}",
            f"% {' '.join(shows.split())}",
            rf"\end{{{environment}}}",
            "",
        )
    )


def _numbers(spec: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    """Return a figure's data as CSV, under the page's column names."""
    menus = next(iter(spec["variants"])).count("|") + 1 if spec.get("variants") else 0
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(spec["columns"][menus:])
    for trace in shown["data"]:
        if trace.get("hoverinfo") != "skip":
            writer.writerows(_rows(trace))
    return written.getvalue()


def _rows(trace: Mapping[str, Any]) -> Iterator[list[Any]]:
    name = trace.get("name", "")
    more = trace.get("customdata") or []
    if trace["type"] == "heatmap":
        for y, row in zip(trace["y"], trace["z"], strict=True):
            yield from ([y, x, z] for x, z in zip(trace["x"], row, strict=True))
    elif trace["type"] == "box":
        names = trace["y"] if trace.get("orientation") == "h" else trace["x"]
        fences = ("lowerfence", "q1", "median", "q3", "upperfence")
        yield from ([name, of, *(trace[key][at] for key in fences)] for at, of in enumerate(names))
    else:
        first, second = ("y", "x") if trace.get("orientation") == "h" else ("x", "y")
        for at, (one, other) in enumerate(zip(trace[first], trace[second], strict=True)):
            extra = more[at] if at < len(more) else []
            yield [
                name,
                one,
                other,
                *(each if not isinstance(each, dict) else json.dumps(each) for each in extra),
            ]
