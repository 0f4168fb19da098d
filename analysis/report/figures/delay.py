"""The report's delay plots: end to end, hop by hop, after joining, and after a loss or a failure."""

from analysis.columns.values import ALL
from analysis.files import Rows
from analysis.report.figures import plot
from analysis.report.figures.plot import Figure, Spec
from analysis.run.manifest import Manifest

MOST_BY_NODE = 4
"""Maximum number of layerings with separate subscribers; beyond it, all subscribers together."""
MOST_BOXES = 24
"""Maximum number of subscribers with boxes of their own; beyond it, bands over all of them."""


def latency_cdf(latency: Rows, manifest: Manifest) -> Figure:
    """Return the CDF of delivery latency."""
    everyone = {row["layering"]: row for row in latency if row["node"] == ALL}
    return plot.shares_within(
        "latency-cdf",
        "Latency, from publication or joining to delivery",
        "Cumulative distribution of the latency, a line for each layering",
        [
            (layering, row["deliveries"], _ms(row["quantiles_ns"])) if row else (layering, 0, [])
            for layering in manifest.layerings
            for row in [everyone.get(layering)]
        ],
        "publish or join to delivery",
    )


def first_item_cdf(rows: Rows, manifest: Manifest) -> Figure | None:
    """Return the CDF of the wait for the first item, None without one."""
    waits = plot.times_of(rows, "wait_ns", manifest.layerings)
    if not waits:
        return None
    return plot.shares_within(
        "first-item-cdf",
        "First item after joining",
        "Cumulative distribution of the time from joining to the first item, a line for each layering",
        waits,
        "joining, or publication if later, to first item",
    )


def loss_cdf(rows: Rows, manifest: Manifest) -> Figure | None:
    """Return the CDF of the recovery time of lost items, None without losses.

    Only NDN's packets are followed over links; TCP's retransmissions are part of its bytes.
    """
    times = plot.times_of(rows, "recovery_ns", manifest.over_ndn)
    if not times:
        return None
    return plot.shares_within(
        "loss-cdf",
        "Recovery after a loss",
        "Cumulative distribution of how long an item that a link lost was missing, a line for each layering",
        times,
        "due after a lost packet to received",
    )


def latency_boxes(latency: Rows, manifest: Manifest) -> Figure:
    """Return boxes of latencies: quartiles, and whiskers from 5 to 95 %, by subscriber if there is
    room; of more than MOST_BOXES subscribers, medians and bands.
    """
    by_node = len(manifest.layerings) <= MOST_BY_NODE
    subscribers = [*manifest.nodes("subscriber"), *manifest.nodes("peer")]
    if by_node and len(subscribers) > MOST_BOXES:
        return _latency_bands(latency, manifest)
    data = []
    for layering, place in plot.places(manifest.layerings).items():
        quantiles = {row["node"]: _ms(row["quantiles_ns"]) for row in latency if row["layering"] == layering}
        nodes = [name for name in (subscribers if by_node else [ALL]) if name in quantiles]
        shown = {node if by_node else layering: quantiles[node] for node in nodes}
        data.append(plot.box(place, layering, shown, "x" if by_node else "y"))
    values = plot.titled("ms", plot.logarithmic(data, *plot.FENCES))
    if by_node:
        layout: Spec = {"boxmode": "group", "yaxis": values, "xaxis": {"type": "category"}}
    else:
        names = {"type": "category", "autorange": "reversed", "automargin": True}
        layout = {"xaxis": values, "yaxis": names, "height": 120 + 30 * len(data)}
    return plot.figure(
        "latency-boxes",
        "Latency by subscriber" if by_node else "Latency, all subscribers",
        "For each layering the quartiles of the latencies, with whiskers from 5 to 95 percent",
        data,
        layout,
        ("layering", "subscriber", "5 %, ms", "25 %, ms", "median, ms", "75 %, ms", "95 %, ms"),
    )


def _latency_bands(latency: Rows, manifest: Manifest) -> Figure:
    """Return the median and the band from 5 to 95 % of each subscriber, in the order of the medians."""
    data: list[Spec] = []
    for layering, place in plot.places(manifest.layerings).items():
        own = [row for row in latency if row["layering"] == layering and row["node"] != ALL]
        fences = {
            row["node"]: [
                plot.at_share(values, plot.FENCES[name]) for name in ("median", "lowerfence", "upperfence")
            ]
            for row in own
            if (values := _ms(row["quantiles_ns"]))
        }
        ordered = sorted(fences, key=lambda node: (fences[node], node))
        numbers = [float(number) for number in range(1, len(ordered) + 1)]
        medians, lows, highs = ([fences[node][at] for node in ordered] for at in range(3))
        named = {
            "customdata": [[node] for node in ordered],
            "hovertemplate": "%{customdata[0]}: median %{y:.4g} ms",
        }
        data += [
            plot.band(place, layering, numbers, lows, highs),
            plot.line(place, layering, numbers, medians) | named,
        ]
    layout: Spec = {
        "xaxis": {"title": {"text": "subscribers, in the order of their medians"}},
        "yaxis": plot.titled("ms", plot.logarithmic(data, "y")),
    }
    return plot.figure(
        "latency-boxes",
        "Latency by subscriber",
        "For each layering a line through the medians of all subscribers, and a band from 5 to 95 percent",
        data,
        layout,
        ("layering", "rank", "ms", "subscriber"),
    )


def recovery(rows: Rows, manifest: Manifest) -> Figure | None:
    """Return the longest delivery gap after each failure, over subscribers."""
    longest: dict[tuple[str, str], float | None] = {}
    names: dict[str, None] = {}
    for row in sorted(rows, key=lambda row: row["time"]):
        seconds = (row["time"] - manifest.runs[row["layering"]].start_ns) / 1e9
        name = f"{row['event']} {row['place']}, {seconds:.3g} s"
        names[name] = None
        key = (row["layering"], name)
        longest[key] = max(longest.get(key) or 0.0, row["gap_ns"] / 1e6)
    if not names:
        return None
    return plot.grouped_bars(
        "recovery",
        "Longest gap in delivery after a failure",
        "Bars, one for each layering and failure: the longest time in which a subscriber got nothing",
        manifest.layerings,
        longest,
        list(names),
        "ms",
    )


def _ms(quantiles_ns: list[float]) -> list[float]:
    return [round(value / 1e6, 4) for value in quantiles_ns]
