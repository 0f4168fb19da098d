"""The figures of the answer: a row of bars for each measure of the question, and trade-offs."""

from math import ceil, floor, log10

from analysis.metrics.catalogue import BY_KEY
from analysis.metrics.claims import FRONTS, Ranking, Samples
from analysis.report.figures.plot import Figure, Menu, Spec, colour, figure, logarithmic, places, with_menus
from analysis.report.words.numbers import pretty

_WIDE = 50
"""Values that differ by this factor are marks on a logarithmic axis: bars have to begin at 0."""

_CHARACTER = 0.05
"""The part of the axis that a character of a label beyond the longest bar takes."""


def answers(samples: Samples) -> list[Figure]:
    """Return for each measure of the question the values of all layerings, the best first; those that are not
    compared come last, in grey.
    """
    return [_answer(samples, ranking) for ranking in samples.rankings]


def _answer(samples: Samples, ranking: Ranking) -> Figure:
    metric = ranking.metric
    known = dict(ranking.values)
    known |= {x: value for x in ranking.left if (value := samples.value(metric.key, x)) is not None}
    place_of = places(samples.layerings)
    least, most = min(known.values(), default=0), max(known.values(), default=0)
    is_wide = least > 0 and most >= _WIDE * least
    data: list[Spec] = []
    for x, value in known.items():
        shade = "--rule" if x in ranking.left else colour(place_of[x])
        common = {
            "name": x,
            "meta": place_of[x],
            "y": [x],
            "x": [value],
            "text": [f"{pretty(value)}{' *' if x in ranking.left else ''}"],
            "cliponaxis": False,
            "hovertemplate": f"{x}: {pretty(value)} {metric.unit}<extra></extra>",
        }
        if is_wide:
            looks = {
                "mode": "markers+text",
                "textposition": "middle right",
                "marker": {"color": shade, "size": 9},
            }
            data.append({"type": "scatter", "orientation": "h"} | common | looks)
        else:
            looks = {"textposition": "outside", "marker": {"color": shade}}
            data.append({"type": "bar", "orientation": "h"} | common | looks)
    room = max(len(each["text"][0]) for each in data) * _CHARACTER if data else 0.0
    scale: Spec = {"range": [0, most / (1 - room) or 1]}
    if is_wide:
        scale = logarithmic(data, "x")
        decades = range(floor(log10(least)), ceil(log10(most)) + 1)
        scale["tickvals"] = [float(f"1e{decade}") for decade in decades]
        scale["ticktext"] = [pretty(tick) for tick in scale["tickvals"]]
        scale["range"] = [log10(least) - 0.1, log10(most) + 0.4 * (log10(most) - log10(least))]
    note = " (log)" if is_wide else ""
    layout = {
        "barmode": "overlay",
        "bargap": 0.3,
        "height": 62 + 21 * max(len(known), 2),
        "xaxis": {
            "title": {"text": f"{metric.unit}{note}, {ranking.better} is better", "font": {"size": 11}},
            "nticks": 4,
            "tickangle": 0,
            **scale,
        },
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True, "dtick": 1},
    }
    text = f"A bar for each layering: {metric.title}, {metric.unit}; {ranking.better} is better"
    place = f"answer-{metric.key}".replace("_", "-")
    return figure(place, metric.title, text, data, layout, ("layering", "of", metric.unit))


def trade(samples: Samples) -> Figure | None:
    """Return median latency over bytes and over state, a mark for each comparable layering, and the Pareto
    front as a line; None if fewer than two are comparable.
    """
    pairs = {BY_KEY[pair[1]].axis: pair for pair in FRONTS if samples.front(pair)}
    if not pairs or len(samples.comparable) < 2:
        return None

    def draw(against: str) -> tuple[list[Spec], Spec]:
        pair = pairs[against]
        front = samples.front(pair)
        points = {x: [samples.value(key, x) for key in pair] for x in samples.comparable}
        points = {x: values for x, values in points.items() if None not in values}
        line = {
            "type": "scatter",
            "mode": "lines",
            "name": "Pareto front",
            "hoverinfo": "skip",
            "x": [points[x][1] for x in front],
            "y": [points[x][0] for x in front],
            "line": {"color": "--rule", "width": 2},
        }
        marks = [
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": x,
                "meta": place,
                "x": [points[x][1]],
                "y": [points[x][0]],
                "text": [x],
                "textposition": "top center",
                "cliponaxis": False,
                "marker": {"color": colour(place), "size": 11 if x in front else 7, "symbol": place},
            }
            for x, place in places(samples.layerings).items()
            if x in points
        ]
        x_axis, y_axis = (BY_KEY[key] for key in reversed(pair))
        return [line, *marks], {
            "xaxis": {"title": {"text": f"{x_axis.title}, {x_axis.unit}"}, **_room(marks, "x")},
            "yaxis": {"title": {"text": f"{y_axis.title}, {y_axis.unit}"}, **_room(marks, "y")},
            "height": 380,
        }

    return with_menus(
        "trade",
        "What latency costs: the Pareto front",
        "A mark for each layering: median latency over bytes or state; a line joins what no other beats",
        [Menu("against", list(pairs))],
        draw,
        ("layering", "cost", "median latency, ms"),
    )


def _room(marks: list[Spec], key: str) -> Spec:
    """Return an axis with room for labels at its ends."""
    values = [value for mark in marks for value in mark[key]]
    low, high = min(values), max(values)
    if low > 0 and high > 5 * low:
        scale = logarithmic(marks, key)
        margin = 0.12 * (log10(high) - log10(low))
        return scale | {"range": [log10(low) - margin, log10(high) + margin]}
    margin = 0.15 * (high - low) or 0.1 * high or 1
    return {"range": [min(low, max(low - margin, 0)), high + margin]}
