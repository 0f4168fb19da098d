"""The report's chart of one Interest and its Data on their way through Scuttlebutt logs."""

from analysis.files import Rows
from analysis.report.figures.plot import Figure, Spec, figure
from analysis.report.words.numbers import pretty

_LOOKS = {"interest": ("Interest", "--interest"), "data": ("Data", "--data")}
_LABEL_PX = 13


def journey(steps: Rows) -> Figure | None:
    """Return a sequence chart: a line for each node, time downward, a slanted line for each log entry."""
    if not steps:
        return None
    nodes = list(dict.fromkeys(node for step in steps for node in (step["sender"], step["receiver"])))
    place = {node: number for number, node in enumerate(nodes)}
    start = steps[0]["written"]
    end = max((step["read"] - start) / 1e6 for step in steps)
    data: list[Spec] = []
    labels: list[Spec] = []
    for step in steps:
        title, shade = _LOOKS[step["kind"]]
        times = [(step[when] - start) / 1e6 for when in ("written", "read")]
        ends = [place[step["sender"]], place[step["receiver"]]]
        said = f"{title} in entry {step['entry']} of {step['sender']}’s log {step['log'][:7]}…"
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": said,
                "x": ends,
                "y": [round(time, 4) for time in times],
                "line": {"color": shade, "width": 2},
                "marker": {
                    "color": shade,
                    "size": [5, 11],
                    "symbol": ["circle", "arrow"],
                    "angleref": "previous",
                },
                "hovertemplate": f"{said}<br>%{{y:.4g}} ms",
                "showlegend": False,
            }
        )
        labels.append(
            {
                "x": sum(ends) / 2,
                "y": sum(times) / 2,
                "text": f"{title}, entry {step['entry']}",
                "showarrow": False,
                "yshift": _LABEL_PX,
                "font": {"size": 11, "color": shade},
            }
        )
    layout: Spec = {
        "xaxis": {
            "tickvals": list(range(len(nodes))),
            "ticktext": nodes,
            "range": [-0.4, len(nodes) - 0.6],
            "side": "top",
            "zeroline": False,
        },
        "yaxis": {"title": {"text": "ms after the Interest was written"}, "range": [1.06 * end, -0.04 * end]},
        "annotations": labels,
        "hovermode": "closest",
    }
    way = f"from {nodes[0]} to {nodes[-1]} and back"
    text = f"Sequence chart: {len(steps)} entries of logs take {pretty(end)} ms, {way}"
    return figure("logs", "One Interest’s journey through logs", text, data, layout, ("entry", "node", "ms"))
