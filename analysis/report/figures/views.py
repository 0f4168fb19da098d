"""The report's plots of an application's views: which readers see the same, and how old a changed past is."""

from itertools import pairwise

import numpy as np

from analysis.files import Rows
from analysis.report.figures.plot import Figure, Spec, figure, line, places, shares_within, times_of
from analysis.run.manifest import Manifest

_SLICES = 300


def unequal(rows: Rows, manifest: Manifest) -> Figure | None:
    """Return the share of pairs of readers with unequal views over time; `rows` are
    analysis.metrics.views.DIFFERENCES.
    """
    data: list[Spec] = []
    for layering, place in places(manifest.layerings).items():
        own = [row for row in rows if row["layering"] == layering and row["pairs"]]
        if own:
            run = manifest.runs[layering]
            since = [row["time"] - run.start_ns for row in own] + [run.end_ns - run.start_ns]
            shares = [100 * row["unequal"] / row["pairs"] for row in own]
            areas = [
                share * (end - begin) for share, (begin, end) in zip(shares, pairwise(since), strict=True)
            ]
            edges = np.linspace(0, since[-1], _SLICES + 1)
            means = np.diff(np.interp(edges, since, np.cumsum([0.0, *areas]))) / np.diff(edges)
            x, y = edges[:-1] / 1e9, means
            data.append(line(place, layering, x.round(4).tolist(), y.round(2).tolist(), shape="hv"))
    if not data:
        return None
    layout: Spec = {
        "xaxis": {"title": {"text": "time since the start of the run, s"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "pairs of readers with unequal views, %"}, "range": [0, 101]},
    }
    return figure(
        "views",
        "Which readers see the same",
        "Lines, one for each layering: the share of pairs of readers with unequal views, over time",
        data,
        layout,
        ("layering", "time, s", "pairs, %"),
    )


def ages(rows: Rows, manifest: Manifest) -> Figure | None:
    """Return the distribution of the time for which a past was shown before it changed; `rows` are
    analysis.metrics.views.VIEWS.
    """
    late = times_of([row for row in rows if not row["own"]], "late_ns", manifest.layerings)
    found = [(layering, n, quantiles) for layering, n, quantiles in late if n]
    if not found:
        return None
    return shares_within(
        "ages",
        "Age of a changed past",
        "Curves, one for each layering: the share of changes whose past was shown for no longer",
        found,
        "time for which the past was shown",
    )
