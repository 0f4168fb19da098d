"""The report's plots of state: over time and by node; of PITs, against items in flight, and outcomes of
entries.
"""

from collections.abc import Mapping, Sequence

from analysis.columns.rows import grouped
from analysis.columns.values import ALL, HELD, OUTCOMES
from analysis.files import Rows
from analysis.report.figures import plot
from analysis.report.figures.plot import Figure, Menu, Period, Scene, Spec
from analysis.report.figures.wire import share_bars
from analysis.report.words.numbers import pretty

MOST_NODES = 24
"""Maximum number of nodes in the menu: those with the highest means."""

WHOLE = "whole network"
ALL_NODES = "all nodes: median, 5 to 95 %"
MOST_WITHOUT_BAND = 8
"""A band is drawn for more nodes than this."""

_OUTCOME_LOOKS = {
    "satisfied": ("satisfied", "--data"),
    "nacked": ("nacked", "--nack"),
    "expired": ("expired", "--lli"),
    "cancelled": ("cancelled", "--idle"),
    "forked": ("ended by a fork", "--malformed"),
    "lost": ("lost by the node or its link", "--interest"),
    "open": ("still open at the end", "--other"),
}


def over_time(
    curves: Rows,
    heat: Rows,
    summary: Rows,
    nodes: Sequence[str],
    scene: Scene,
    what: Sequence[str] = HELD,
    word: str = "PIT",
) -> tuple[Figure, int]:
    """Return the plot of state (`word`: "State", or "PIT" for PITs alone) of the network, a node, or the
    band of all nodes, and the number of omitted nodes. `curves`, `heat` and `summary` are those of
    analysis.pit.windows.levels.scan.
    """
    means: dict[str, float] = {}
    for row in summary:
        means[row["node"]] = max(row["mean_entries"] or 0.0, means.get(row["node"], 0.0))
    means.pop(ALL, None)
    busiest = sorted(means, key=lambda name: -means[name])[:MOST_NODES]
    chosen = [name for name in nodes if name in busiest]
    cells = [row for row in _filled(heat, summary) if row["node"] != ALL]
    slices = 1 + max((row["slice"] for row in heat), default=0)
    # Means by slice are of entries and bytes; captures have ranges and credit, too.
    has_band = len(nodes) > MOST_WITHOUT_BAND and bool(cells) and {*what} <= {*HELD}
    offered = [WHOLE, *([ALL_NODES] if has_band else []), *(chosen if len(nodes) > 1 else [])]
    by_node = grouped(curves, "node", "layering")

    def draw(node: str, what: str) -> tuple[list[Spec], Spec]:
        data: list[Spec] = []
        for layering, place in plot.places(scene.layerings).items():
            run = scene.runs[layering]
            if node == ALL_NODES:
                own = [row for row in cells if row["layering"] == layering]
                data += _band(place, layering, own, slices, run, what)
                continue
            rows = by_node[ALL if node == WHOLE else node, layering]
            seconds = [0.0, *(round((row["time"] - run.start_ns) / 1e9, 4) for row in rows)]
            amounts = [0, *(row[what] for row in rows)]
            seconds.append(round((run.end_ns - run.start_ns) / 1e9, 4))
            amounts.append(amounts[-1])
            hover = {"hovertemplate": f"%{{y}} {what} at %{{x:.3f}} s"}
            data.append(plot.line(place, layering, seconds, amounts, "hv", 1.5) | hover)
        layout = {
            "xaxis": {"title": {"text": "time, s"}, "range": [0, plot.run_seconds(scene)]},
            "yaxis": {"title": {"text": f"{word} {what}"}, "rangemode": "tozero"},
            **plot.marks(scene),
        }
        return data, layout

    drawn = plot.with_menus(
        word.lower(),
        f"{word} over time",
        f"{word} entries or bytes over time, of the whole network or of a node, a line for each layering",
        [Menu("node", offered), Menu(word, list(what))],
        draw,
        ("layering", "time, s", f"{word} entries or bytes"),
    )
    return drawn, len(nodes) - len(chosen)


def _band(place: int, layering: str, cells: Rows, slices: int, run: Period, what: str) -> tuple[Spec, Spec]:
    """Return the band from 5 to 95 % of the nodes' means of each slice, and the line of the median."""
    amounts: list[list[float]] = [[] for _ in range(slices)]
    for row in cells:
        amounts[row["slice"]].append(row[what])
    width = (run.end_ns - run.start_ns) / 1e9 / slices
    seconds = [round((number + 0.5) * width, 4) for number in range(slices)]
    low, middle, high = (
        [round(plot.at_share(sorted(values), plot.FENCES[fence]), 2) if values else 0 for values in amounts]
        for fence in ("lowerfence", "median", "upperfence")
    )
    hover = {"hovertemplate": f"%{{y:.4g}} {what} at %{{x:.3f}} s"}
    return plot.band(place, layering, seconds, low, high), plot.line(place, layering, seconds, middle) | hover


def _filled(rows: Rows, summary: Rows) -> Rows:
    """Return the rows, and zeros for the slices that nodes of `summary` lack."""
    there = {(row["layering"], row["node"], row["slice"]) for row in rows}
    slices = 1 + max((row["slice"] for row in rows), default=0)
    return rows + [
        {"layering": row["layering"], "node": row["node"], "slice": place, **dict.fromkeys(HELD, 0)}
        for row in summary
        for place in range(slices)
        if (row["layering"], row["node"], place) not in there
    ]


def heat(rows: Rows, summary: Rows, nodes: Sequence[str], scene: Scene, word: str = "PIT") -> Figure:
    """Return the heat map of state by node and time, one layering at a time on one scale.

    `rows` is the heat of analysis.pit.windows.levels.scan; `word` as in over_time(). A node of `summary`
    without a row had no entry.
    """
    return node_heat(
        f"{word.lower()}-heat",
        f"{word} by node and time",
        f"A map: a row for each node, time to the right, darker where the node held more ({word})",
        _filled(rows, summary),
        nodes,
        scene,
        Menu(word, list(HELD)),
        f"{word} entries or bytes, mean",
    )


def node_heat(
    name: str,
    title: str,
    text: str,
    rows: Rows,
    nodes: Sequence[str],
    scene: Scene,
    measures: Menu,
    column: str,
) -> Figure:
    """Return a heat map of measures by node and time slice, one layering at a time on one scale."""
    slices = 1 + max((row["slice"] for row in rows), default=0)
    values = {(row["layering"], row["node"], row["slice"]): row for row in rows}

    def draw(layering: str, what: str) -> tuple[list[Spec], Spec]:
        ordered = sorted(row[what] for row in rows) or [1]
        top, usual = ordered[-1] or 1, ordered[int(0.98 * (len(ordered) - 1))]
        if 0 < 5 * usual < top:  # few cells would leave all others alike
            top, darkest = usual, f"{what}, {pretty(usual)} or more darkest"
        else:
            darkest = what
        table: dict[str, list[float | None]] = {}
        for node in nodes:
            cells = (values.get((layering, node, place)) for place in range(slices))
            table[node] = [None if cell is None else round(cell[what], 2) for cell in cells]
        run = scene.runs[layering]
        width = (run.end_ns - run.start_ns) / 1e9 / slices
        trace, layout = plot.heat_map(table, slices, width, plot.run_seconds(scene), what, top, darkest)
        return [{"type": "heatmap", "name": layering} | trace], layout

    return plot.with_menus(
        name, title, text, [Menu("layering", scene.layerings), measures], draw, ("node", "time, s", column)
    )


def in_flight(rows: Rows, scene: Scene) -> Figure:
    """Return the network's PIT entries against the items in flight."""
    data = []
    for layering, place in plot.places(scene.layerings).items():
        points = [(row["items"], round(row["entries"], 2)) for row in rows if row["layering"] == layering]
        items, entries = zip(*points, strict=True) if points else ((), ())
        data.append(
            plot.line(place, layering, items, entries)
            | {
                "mode": "lines+markers",
                "marker": {"size": 6, "color": plot.colour(place), "symbol": place},
                "hovertemplate": "%{y:.4g} entries while %{x} items are in flight",
            }
        )
    layout: Spec = {
        "xaxis": {"title": {"text": "items published and not yet delivered to all"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "PIT entries, whole network, mean"}, "rangemode": "tozero"},
    }
    return plot.figure(
        "in-flight",
        "PIT entries against items in flight",
        "A line for each layering: mean PIT entries of the network while so many items are in flight",
        data,
        layout,
        ("layering", "items in flight", "PIT entries of the network, mean"),
    )


def lifetime_cdf(lives: Rows, scene: Scene) -> Figure:
    """Return the CDF of PIT entry lifetimes."""
    together = {row["layering"]: row for row in lives if row["node"] == ALL}
    curves: list[tuple[str, int, list[float]]] = []
    for layering in scene.layerings:
        row = together.get(layering)
        times = [round(value / 1e6, 4) for value in (row and row["lifetimes_ns"]) or ()]
        curves.append((layering, row["entries"] - row["open"] if row else 0, times))
    return plot.shares_within(
        "pit-lifetimes",
        "Lifetime of PIT entries",
        "Cumulative distribution of how long PIT entries were there, a line for each layering",
        curves,
        "lifetime of an entry",
    )


def outcomes(amounts: Mapping[tuple[str, str], int], scene: Scene) -> Figure | None:
    """Return the shares of outcomes of PIT entries, by layering and outcome."""
    if not amounts:
        return None
    return share_bars(
        "outcomes",
        "What ended PIT entries",
        "Stacked bars, one for each layering: the share of PIT entries by what ended them",
        amounts,
        [(outcome, *_OUTCOME_LOOKS[outcome]) for outcome in OUTCOMES],
        "outcome",
        scene,
        "% of the entries",
        "share of PIT entries, %",
    )
