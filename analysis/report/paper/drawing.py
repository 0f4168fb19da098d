"""Figures for print: the plain data of analysis.report.figures.plot, drawn by matplotlib.

Plotly draws the pages, but writes PDF only through a browser. The plots use few features: lines, bars, boxes,
heat maps and markers. Here the same data become figures at column width, with legible type. Fonts are
embedded as TrueType, as publishers require. Colours are those of the light page; lines also differ in their
dashes, for readers without colour.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from io import BytesIO
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from analysis.report.page import resource

WIDTHS = {"single": 3.33, "double": 7.0}
"""Inches: one column, and two. ACM's columns are 3.33 and 7.0 wide, IEEE's 3.5 and 7.16."""

FORMATS = ("pdf", "png", "svg")

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # included in matplotlib
    "font.size": 7,
    "axes.labelsize": 7,
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "legend.fontsize": 6,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.labelspacing": 0.3,
    "legend.columnspacing": 1.0,
    "legend.handletextpad": 0.5,
    "legend.borderaxespad": 0.2,
    "grid.linewidth": 0.4,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",  # outlines: independent of installed fonts
    "svg.hashsalt": "feednet",  # deterministic output
    "savefig.dpi": 300,
    "figure.constrained_layout.h_pad": 0.04,
    "figure.constrained_layout.w_pad": 0.04,
}
_PX = 0.0072
"""Inches per pixel of page height; a page's type is twice as large."""
_TALLEST = 8.5
_MOST_TICKS = 6
_MOST_NOTES = 4
"""Maximum number of named events of a run; beyond it only marks."""
_SMALL = 6.0

_HIGH = 36
"""Letters in a line of a vertical axis's title."""

_DASHES = {
    "solid": "solid",
    "dash": (0, (5, 3)),
    "dot": (0, (1.2, 1.8)),
    "dashdot": (0, (5, 2, 1.2, 2)),
    "longdash": (0, (8, 3)),
    "longdashdot": (0, (8, 2, 1.2, 2)),
}
_Letter = Literal["x", "y"]
_STEPS: dict[str, Literal["steps-post", "steps-pre", "steps-mid"]] = {
    "hv": "steps-post",
    "vh": "steps-pre",
    "hvh": "steps-mid",
}
_MARKERS = "osD^vPXp*h<>"
_NAMED_MARKERS = {"line-ns": "|", "line-ns-open": "|", "diamond": "D", "square": "s", "x": "x", "cross": "P"}
_TAG = re.compile(r"<br\s*/?>|</?[a-z]+>")


def write(spec: Mapping[str, Any], width: str) -> dict[str, bytes]:
    """Draw a figure's data and layout; return it in each of FORMATS. `width` is one of WIDTHS."""
    with matplotlib.rc_context(_STYLE):
        figure = draw(spec, WIDTHS[width])
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # computed once, for all formats
        made = {}
        for form in FORMATS:
            buffer = BytesIO()
            dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": None}[form]
            figure.savefig(buffer, format=form, metadata=dated)
            made[form] = buffer.getvalue()
        return made


def draw(spec: Mapping[str, Any], width: float) -> Figure:
    """Return a figure so many inches wide."""
    data, layout = spec["data"], spec["layout"]
    figure = Figure(figsize=(width, _height(layout, width)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    drawing = _Drawing(axes, data, layout)
    drawing.draw()
    handles, names = axes.get_legend_handles_labels()
    known = dict(zip(names, handles, strict=True))
    if len(known) > 1 and not drawing.labels_traces:
        # A letter is some 0.043 inches wide, a line sample with its spaces 0.45.
        columns = max(1, min(len(known), int(width / (0.45 + 0.043 * max(map(len, known))))))
        figure.legend(known.values(), known.keys(), loc="outside upper left", ncols=columns)
        rows = -(-len(known) // columns)
        figure.set_size_inches(width, figure.get_figheight() + 0.12 * rows)
    return figure


def _height(layout: Mapping[str, Any], width: float) -> float:
    wanted = layout.get("height")
    usual = min(0.58 * width, 3.2)
    return usual if wanted is None else min(max(float(wanted) * _PX, 1.0), _TALLEST)


class _Drawing:
    """Draws traces on axes."""

    def __init__(self, axes: Axes, data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> None:
        self._axes = axes
        self._data = [trace for trace in data if trace.get("visible", True)]
        self._layout = layout
        self._categories: dict[str, list[Any]] = {"x": [], "y": []}
        for letter in ("x", "y"):
            self._collect(letter)
        self._below: dict[Any, float] = {}

    @property
    def labels_traces(self) -> bool:
        """Whether an axis already labels the traces."""
        places = [trace.get("y" if trace.get("orientation") == "h" else "x") for trace in self._data]
        return all(place == [trace.get("name")] for place, trace in zip(places, self._data, strict=True))

    def _collect(self, letter: str) -> None:
        """Detect an axis with categories, and collect them."""
        values = [value for trace in self._data for value in (trace.get(letter) or [])]
        is_named = self._axis(letter).get("type") == "category" or any(isinstance(x, str) for x in values)
        if is_named:
            self._categories[letter] = list(dict.fromkeys(values))

    def _axis(self, letter: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._layout.get(f"{letter}axis") or {}
        return found

    def _at(self, letter: str, values: Sequence[Any]) -> list[float]:
        """Return the positions of values on an axis."""
        named = self._categories[letter]
        if named:
            return [float(named.index(value)) for value in values]
        return [float("nan") if value is None else float(value) for value in values]

    def draw(self) -> None:
        """Draw all."""
        kinds = {
            "scatter": self._scatter,
            "bar": self._bar,
            "box": self._box,
            "heatmap": self._heatmap,
        }
        for number, trace in enumerate(self._data):
            kinds[trace["type"]](trace, number)
        for shape in self._layout.get("shapes") or []:
            self._shape(shape)
        self._scale("x")
        self._scale("y")
        notes = self._layout.get("annotations") or []
        for note in notes if len(notes) <= _MOST_NOTES else []:
            self._note(note)

    def _scatter(self, trace: Mapping[str, Any], number: int) -> None:
        x, y = self._at("x", trace["x"]), self._at("y", trace["y"])
        line, marker = trace.get("line") or {}, trace.get("marker") or {}
        shade = _colour(line.get("color") or marker.get("color") or "--ink")
        name = _plain(trace.get("name") or "_")
        if trace.get("fill") == "toself":
            self._axes.fill(x, y, color=_colour(trace.get("fillcolor") or shade), linewidth=0)
            return
        if trace.get("stackgroup"):
            below = [self._below.get(place, 0.0) for place in x]
            above = [base + value for base, value in zip(below, y, strict=True)]
            self._below |= dict(zip(x, above, strict=True))
            step: Literal["post"] | None = "post" if line.get("shape") == "hv" else None
            fill = _colour(trace.get("fillcolor") or shade)
            self._axes.fill_between(x, below, above, color=fill, label=name, linewidth=0, step=step)
            return
        if trace.get("orientation") == "h" and self._categories["y"]:
            y = [at + self._group_offset(trace, "offsetgroup") for at in y]
        for errors, key in ((trace.get("error_x"), "xerr"), (trace.get("error_y"), "yerr")):
            if errors and errors.get("visible", True) and errors.get("array"):
                halves = [errors.get("arrayminus") or errors["array"], errors["array"]]
                spans: dict[str, Any] = {key: halves}
                self._axes.errorbar(
                    x, y, fmt="none", ecolor=shade, elinewidth=0.8, capsize=1.5, capthick=0.8, **spans
                )
        mode = trace.get("mode") or "lines"
        self._axes.plot(
            x,
            y,
            color=shade,
            label=name,
            linestyle=_dash(line.get("dash")) if "lines" in mode else "none",
            linewidth=0.6 * float(line.get("width", 1.8)),
            drawstyle=_STEPS.get(line.get("shape") or "", "default"),
            marker=_marker(marker.get("symbol")) if "markers" in mode else "",
            markersize=10 if marker.get("symbol") == "line-ns" else 3.2,
            markeredgewidth=1.2 if marker.get("symbol") == "line-ns" else 0.6,
        )

    def _group_offset(self, trace: Mapping[str, Any], key: str) -> float:
        """Return the offset of a trace among those that share its position."""
        names = list(dict.fromkeys(each.get(key) for each in self._data if each.get(key) is not None))
        if trace.get(key) not in names:
            return 0.0
        return (names.index(trace[key]) - (len(names) - 1) / 2) * 0.8 / max(len(names), 1)

    def _bar(self, trace: Mapping[str, Any], number: int) -> None:
        is_lying = trace.get("orientation") == "h"
        places, values = ("y", "x") if is_lying else ("x", "y")
        at = self._at(places, trace[places])
        long = [0.0 if value is None else float(value) for value in trace[values]]
        bars = [each for each in self._data if each["type"] == "bar"]
        thick, base = 0.72, [0.0] * len(at)
        if self._layout.get("barmode") in ("stack", "relative"):
            base = [self._below.get(place, 0.0) for place in at]
            self._below |= {p: b + v for p, b, v in zip(at, base, long, strict=True)}
        elif len(bars) > 1:
            thick = 0.8 / len(bars)
            own = next(number for number, each in enumerate(bars) if each is trace)
            at = [each + (own - (len(bars) - 1) / 2) * thick for each in at]
        shade = _colour((trace.get("marker") or {}).get("color") or "--ink")
        name = _plain(trace.get("name") or "_")
        if is_lying:
            self._axes.barh(
                at, long, thick, left=base, color=shade, label=name, edgecolor="white", linewidth=0.3
            )
        else:
            self._axes.bar(
                at, long, thick, bottom=base, color=shade, label=name, edgecolor="white", linewidth=0.3
            )
        if trace.get("textposition") == "outside" and is_lying:
            for place, value, text in zip(at, long, trace.get("text") or [], strict=False):
                # The legend identifies the layering.
                said = _plain(text).removeprefix(str(trace.get("name") or "")).strip()
                self._axes.annotate(
                    said, (value, place), (2, 0), textcoords="offset points", va="center", fontsize=_SMALL
                )

    def _box(self, trace: Mapping[str, Any], number: int) -> None:
        is_lying = trace.get("orientation") == "h"
        places = "y" if is_lying else "x"
        boxes = [each for each in self._data if each["type"] == "box"]
        grouped = len(self._categories[places]) > 1 or trace[places][:1] != [trace.get("name")]
        thick = 0.8 / len(boxes) if grouped and len(boxes) > 1 else 0.6
        at = self._at(places, trace[places])
        if grouped and len(boxes) > 1:
            own = {each.get("name"): float(place) for place, each in enumerate(boxes)}
            if all(each[places] != [each.get("name")] for each in boxes):
                at = [each + (own[trace.get("name")] - (len(boxes) - 1) / 2) * thick for each in at]
            else:
                thick = 0.6
        names = {"whislo": "lowerfence", "q1": "q1", "med": "median", "q3": "q3", "whishi": "upperfence"}
        stats = [{key: trace[of][place] for key, of in names.items()} for place in range(len(at))]
        shade = _colour((trace.get("line") or {}).get("color") or "--ink")
        drawn = self._axes.bxp(
            stats,
            positions=at,
            widths=thick * 0.85,
            orientation="horizontal" if is_lying else "vertical",
            showfliers=False,
            patch_artist=True,
            boxprops={
                "facecolor": _colour(trace.get("fillcolor") or "--grid"),
                "edgecolor": shade,
                "linewidth": 0.7,
            },
            medianprops={"color": shade, "linewidth": 1.2},
            whiskerprops={"color": shade, "linewidth": 0.7},
            capprops={"color": shade, "linewidth": 0.7},
            manage_ticks=False,
        )
        drawn["boxes"][0].set_label(_plain(trace.get("name") or "_"))

    def _heatmap(self, trace: Mapping[str, Any], number: int) -> None:
        x, y = self._at("x", trace["x"]), self._at("y", trace["y"])
        step = x[1] - x[0] if len(x) > 1 else 1.0
        rows = [[float("nan") if cell is None else float(cell) for cell in row] for row in trace["z"]]
        drawn = self._axes.imshow(
            rows,
            cmap=_heat(),
            vmin=trace.get("zmin"),
            vmax=trace.get("zmax"),
            aspect="auto",
            origin="lower",
            interpolation="nearest",
            extent=(x[0] - step / 2, x[-1] + step / 2, min(y) - 0.5, max(y) + 0.5),
        )
        bar = self._axes.figure.colorbar(drawn, ax=self._axes, pad=0.02, fraction=0.04)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=_SMALL, width=0.5, size=2)
        title = ((trace.get("colorbar") or {}).get("title") or {}).get("text")
        if title:
            bar.set_label(_plain(title))

    def _shape(self, shape: Mapping[str, Any]) -> None:
        if shape.get("type") != "line":
            return
        line = shape.get("line") or {}
        look: dict[str, Any] = {
            "color": _colour(line.get("color") or "--faint"),
            "linestyle": _dash(line.get("dash")),
            "linewidth": 0.6,
        }
        if shape.get("yref") == "paper":
            self._axes.axvline(shape["x0"], **look)
        elif shape.get("xref") == "paper":
            self._axes.axhline(shape["y0"], **look)
        else:
            self._axes.plot((shape["x0"], shape["x1"]), (shape["y0"], shape["y1"]), **look)

    def _note(self, note: Mapping[str, Any]) -> None:
        """Label an event's line."""
        self._axes.annotate(
            shortened(_plain(note.get("text") or ""), 30),
            (float(note["x"]), float(note["y"])),
            (1.5, 0),
            xycoords=("data", "axes fraction" if note.get("yref") == "paper" else "data"),
            textcoords="offset points",
            va="top",
            fontsize=5.5,
            color=_colour("--faint"),
        ).set_in_layout(False)

    def _scale(self, letter: _Letter) -> None:
        own, axes = self._axis(letter), self._axes
        axis = axes.xaxis if letter == "x" else axes.yaxis
        limit = axes.set_xlim if letter == "x" else axes.set_ylim
        named = self._categories[letter]
        is_log = own.get("type") == "log"
        values = [trace for trace in self._data if trace["type"] != "heatmap"]
        if own.get("title"):
            title = own["title"]
            text = _plain(title["text"] if isinstance(title, Mapping) else str(title))
            lines = [text] if letter == "x" else [textwrap.fill(line, _HIGH) for line in text.split("\n")]
            axis.set_label_text("\n".join(lines))
        if named:
            axis.set_major_locator(FixedLocator(range(len(named))))
            axis.set_major_formatter(FuncFormatter(lambda at, _: _category(named, at)))
            limit(-0.6, len(named) - 0.4)
            axes.tick_params(axis=letter, length=0)
            if len(named) > 40:
                step = -(-len(named) // 40)
                axis.set_major_locator(FixedLocator(range(0, len(named), step)))
        elif values:
            axes.grid(True, axis=letter, color=_colour("--grid"))
        if is_log:
            (axes.set_xscale if letter == "x" else axes.set_yscale)("log")
            axis.set_minor_locator(NullLocator())
        bounds = own.get("range")
        if bounds and not named:
            low, high = (10**each if is_log else each for each in bounds)
            limit(low, high)
        elif own.get("rangemode") == "tozero" and not is_log:
            limit(**{"left" if letter == "x" else "bottom": 0})  # type: ignore[arg-type]
        if own.get("tickvals") and not named:
            self._ticks(axis, own, bounds, is_log)
        elif not named and not is_log:
            axis.set_major_locator(MaxNLocator(5 if letter == "x" else 6))
            axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
        if own.get("autorange") == "reversed":
            (axes.invert_xaxis if letter == "x" else axes.invert_yaxis)()

    def _ticks(self, axis: Any, own: Mapping[str, Any], bounds: Any, is_log: bool) -> None:
        """Set the figure's ticks; if too many on a logarithmic axis, those that begin with 1."""
        texts = own.get("ticktext") or [f"{value:g}" for value in own["tickvals"]]
        ticks = list(zip(own["tickvals"], texts, strict=True))
        if bounds and is_log:
            low, high = (10**each for each in bounds)
            ticks = [tick for tick in ticks if low <= tick[0] <= high]
        for begins in (("1", "2", "5"), ("1",)):
            if is_log and len(ticks) > _MOST_TICKS:
                ticks = [tick for tick in ticks if f"{float(tick[0]):e}"[0] in begins] or ticks
        axis.set_major_locator(FixedLocator([value for value, _ in ticks]))
        known = {float(value): _plain(str(text)) for value, text in ticks}
        axis.set_major_formatter(FuncFormatter(lambda value, _: known.get(float(value), f"{value:g}")))
        axis.set_minor_formatter(NullFormatter())


def _category(names: Sequence[Any], at: float) -> str:
    text = " ".join(_plain(str(names[round(at)])).split()) if 0 <= round(at) < len(names) else ""
    return "\n".join(textwrap.wrap(shortened(text, 44), 22))


def shortened(text: str, most: int) -> str:
    """Return a text, truncated to a maximum length."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _number(value: float) -> str:
    return f"{value:,.10g}".replace(",", "\N{NARROW NO-BREAK SPACE}" if abs(value) >= 10_000 else "")


def _plain(text: str) -> str:
    """Return a text without markup, with dollar signs escaped."""
    return _TAG.sub(lambda found: "\n" if found[0].startswith("<br") else "", str(text)).replace("$", r"\$")


def _dash(name: str | None) -> Any:
    if name and "px" in name:
        return 0, tuple(float(length) / 1.6 for length in name.replace("px", "").split(","))
    return _DASHES.get(name or "solid", "solid")


def _marker(symbol: Any) -> str:
    if isinstance(symbol, list):  # one for each point
        symbol = symbol[0]
    if isinstance(symbol, int):
        return _MARKERS[symbol % len(_MARKERS)]
    return _NAMED_MARKERS.get(symbol or "", "o")


@cache
def _light() -> Mapping[str, str]:
    """Return the colours of the light theme, by CSS variable."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"(--[a-z0-9-]+):\s*(#[0-9a-f]{3,8})\b", resource("page.css")):
        found.setdefault(name, value)
    return found


def _colour(name: Any) -> Any:
    if isinstance(name, (list, tuple)) and len(name) != 4:
        name = name[0] if name else "--ink"
    if isinstance(name, str) and name.startswith("--"):
        return to_rgba(_light().get(name, "#333333"))
    return name


@cache
def _heat() -> LinearSegmentedColormap:
    return LinearSegmentedColormap.from_list("heat", [_light()[f"--heat-{step}"] for step in range(4)])


def choices(spec: Mapping[str, Any], every: bool = False) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a figure's views by their options: "" and the default view, or every choice of its menus."""
    variants = spec.get("variants")
    if not variants:
        yield "", spec
        return
    named = iter(variants.items())
    yield "", next(named)[1]
    yield from named if every else ()
