"""Figures and tables for papers: made of what a page holds, readable at column width, complete or absent."""

import csv
import json
import re
import struct
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from analysis.errors import AnalysisError
from analysis.pipelines.run import analyze
from analysis.report.figures.logs import journey
from analysis.report.figures.plot import DASHES
from analysis.report.page import packed
from analysis.report.paper.bundle import bundle, page_of
from analysis.report.paper.drawing import WIDTHS, draw, write
from analysis.report.paper.source import Cell, Table, read
from analysis.report.paper.tables import as_csv, escaped, latex
from analysis.report.words.glossary import occurring
from testbed.cli.main import feednet

ROOT = Path(__file__).parents[2]

LINES = {
    "data": [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "meta": place,
            "x": [1, 2, 3],
            "y": [place, None, 2 * place],
            "line": {"color": f"--layering-{place}", "dash": DASHES[place], "shape": "hv"},
            "error_y": {"type": "data", "array": [1, 1, 1], "arrayminus": [0, 0, 0]},
        }
        for place, name in enumerate(("poll", "lli", "ssb"))
    ],
    "layout": {
        "xaxis": {"title": {"text": "time, s"}, "type": "log", "range": [0, 0.6], "tickvals": [1, 2, 3]},
        "yaxis": {"title": {"text": "costs 5 $ and 3 $"}, "rangemode": "tozero"},
        "shapes": [{"type": "line", "x0": 2, "x1": 2, "yref": "paper", "y0": 0, "y1": 1}],
        "annotations": [{"x": 2, "y": 1, "yref": "paper", "text": "link-down <b>a</b>"}],
    },
}
BARS = {
    "data": [
        {"type": "bar", "orientation": "h", "name": name, "y": ["a", "b"], "x": [number + 1, 3]}
        for number, name in enumerate(("one", "two"))
    ],
    "layout": {"barmode": "stack", "yaxis": {"type": "category", "autorange": "reversed"}, "height": 250},
}
BOXES = {
    "data": [
        {"type": "box", "orientation": "h", "name": name, "y": [name]}
        | {fence: [10 * at] for at, fence in enumerate(("lowerfence", "q1", "median", "q3", "upperfence"), 1)}
        for name in ("poll", "lli")
    ],
    "layout": {"yaxis": {"type": "category"}, "xaxis": {"title": {"text": "ms"}}},
}
HEAT = {
    "data": [
        {"type": "heatmap", "x": [0, 1], "y": ["a", "b"], "z": [[1, None], [3, 4]], "colorbar": {}, "zmax": 4}
    ],
    "layout": {"yaxis": {"type": "category"}},
}

STEP = {"kind": "interest", "sender": "a", "receiver": "b", "written": 0, "read": 9, "log": "up", "entry": 1}
JOURNEY = journey([STEP, STEP | {"kind": "data", "sender": "b", "receiver": "a"}]).spec


@pytest.mark.parametrize("width", WIDTHS)
def test_a_figure_is_as_wide_as_its_column_and_embeds_its_fonts(width: str) -> None:
    made = write(LINES, width)
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", made["pdf"])
    assert float(box[1]) == pytest.approx(72 * WIDTHS[width], abs=0.1)
    assert b"/FontFile2" in made["pdf"]
    assert b"/Type3" not in made["pdf"]
    pixels, *_ = struct.unpack(">II", made["png"][16:24])
    assert pixels == int(300 * WIDTHS[width])
    drawn = ElementTree.fromstring(made["svg"])
    assert float(drawn.get("width").removesuffix("pt")) == pytest.approx(72 * WIDTHS[width], abs=0.1)
    assert b"<text" not in made["svg"]
    assert width == "double" or write(LINES, width) == made


@pytest.mark.parametrize("spec", [LINES, BARS, BOXES, HEAT, JOURNEY])
def test_all_that_a_page_draws_is_drawn(spec: dict) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw(spec, 3.33)
        figure.canvas.draw()
    axes = figure.axes[0]
    drawn = [*axes.lines, *axes.patches, *axes.images, *axes.collections]
    assert len(drawn) >= len(spec["data"])


def test_lines_differ_in_colour_and_in_dash_and_the_legend_names_them() -> None:
    figure = draw(LINES, 3.33)
    lines = [line for line in figure.axes[0].lines if not line.get_label().startswith("_")]
    looks = {line.get_label(): (line.get_color(), line.get_linestyle()) for line in lines}
    assert {*looks} == {"poll", "lli", "ssb"}
    assert len({colour for colour, _ in looks.values()}) == 3
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["poll", "lli", "ssb"]
    sizes = [*legend.get_texts(), *figure.axes[0].get_xticklabels(), figure.axes[0].xaxis.label]
    assert min(text.get_fontsize() for text in sizes) >= 6
    assert draw(BOXES, 3.33).legends == []  # the axis names them


def test_what_is_special_in_latex_is_escaped() -> None:
    assert escaped(
        "50 % of a_b & #1 ~ {x}^2 \\ 1\N{NARROW NO-BREAK SPACE}000 \N{MULTIPLICATION SIGN}3 < 4"
    ) == (
        r"50 \% of a\_b \& \#1 \textasciitilde{} \{x\}\textasciicircum{}2 \textbackslash{} 1\,000"
        r" $\times$3 \textless{} 4"
    )


def test_a_table_as_latex_and_as_csv() -> None:
    head = [Cell("Metric"), Cell("poll", is_number=True), Cell("lli", is_number=True)]
    rows = [
        [Cell("Delivery & more")],
        [Cell("Loss", "%"), Cell("1\N{NARROW NO-BREAK SPACE}234.5", "", True), Cell("3", "", True, True)],
    ]
    table = Table("Side by side", head, rows)
    assert latex("comparison", table).splitlines() == [
        r"\begin{table}",
        r"\centering\small",
        r"\caption{Side by side}\label{tab:comparison}",
        r"\begin{tabular}{@{}lrr@{}}",
        r"\toprule",
        r"Metric & poll & lli \\",
        r"\midrule",
        r"\multicolumn{3}{@{}l}{\textit{Delivery \& more}} \\",
        r"Loss (\%) & 1\,234.5 & \textbf{3} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    assert as_csv(table) == "Metric,unit,poll,lli\nDelivery & more: Loss,%,1234.5,3\n"
    long = latex("long", Table("Long", head, rows * 30))
    assert r"\begin{longtable}{@{}lrr@{}}" in long
    assert long.count(r"\toprule") == long.count(r"\endhead") == long.count(r"\end{longtable}") == 1


def test_the_bundle_of_a_run(handmade_run: Path, tmp_path: Path) -> None:
    analyze(handmade_run, engine="sail")
    page = tmp_path / "report.html"
    text = (handmade_run / "report.html").read_text(encoding="utf-8")
    data = read(handmade_run / "report.html")
    some = dict([*data.figures.items()][::6])
    few = packed(json.dumps({"figures": some, "captions": data.captions}))
    page.write_text(re.sub(r'(id="data">)[^<]*', rf"\g<1>{few}", text), encoding="utf-8")
    result = CliRunner().invoke(feednet, ["figures", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    source = read(page)
    files = {path.name for path in (tmp_path / "figures-single").iterdir()}
    for name in source.figures:
        assert {f"{name}.{form}" for form in ("pdf", "png", "svg", "csv")} <= files
        columns = source.figures[name]["columns"]
        menus = next(iter(source.figures[name].get("variants") or ["x"])).count("|") + 1
        written = list(csv.reader((tmp_path / "figures-single" / f"{name}.csv").open(encoding="utf-8")))
        assert written[0] == columns[menus if source.figures[name].get("variants") else 0 :]
        assert len(written) > 1
    whole = (tmp_path / "figures-single" / "all.tex").read_text(encoding="utf-8")
    included = {*re.findall(r"\\includegraphics\[width=\\columnwidth\]\{([^}]*)\}", whole)}
    assert included == {*source.figures}
    assert {f"table-{name}.tex" for name in source.tables} <= files
    comparison = (tmp_path / "figures-single" / "table-comparison.tex").read_text(encoding="utf-8")
    assert re.search(r"^Items published \(items\) & ", comparison, re.MULTILINE)
    unescaped = re.sub(r"\\.", "", comparison)
    assert not set("%$#_^~") & set(unescaped.replace("@{}", "")) - {"$"}
    glossary = text.partition('<section class="glossary">')[2].partition("</section>")[0]
    assert "<dt>PIT</dt>" in glossary
    assert "<dt>RDR</dt>" not in glossary


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.html", None, "none.html: there is no such run, sweep or page"),
        ("empty", "", r"empty: has no page; `feednet report .*empty` makes that of a run"),
        ("other.html", "<html></html>", "other.html: has no figures that can be read"),
        ("torn.html", '<script type="text/plain" id="data">H4sI</script>', "torn.html: has no figures"),
        (
            "old.html",
            f'<script type="text/plain" id="data">{packed("{}")}</script>',
            "old.html: has no figures that can be read; .* run `feednet report` again",
        ),
    ],
)
def test_what_is_no_page_is_one_line_and_leaves_nothing(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text == "":
        (tmp_path / name).mkdir()
    elif text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(AnalysisError, match=message) as error:
        bundle(page_of(tmp_path / name), tmp_path / "out", "single")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_the_glossary_has_what_stands_on_the_page() -> None:
    page = "<p>Two Interests, an <abbr title='Nack'>x</abbr></p><script>PIT</script>"
    assert [term for term, _ in occurring(page)] == ["Interest"]


def test_the_citation_is_valid_against_its_schema() -> None:
    cffconvert = pytest.importorskip("cffconvert")
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cffconvert.Citation(text).validate()
    with pytest.raises(Exception, match="title"):
        cffconvert.Citation(text.replace("title:", "titel:")).validate()
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert f"\nversion: {version[1]}\n" in text
