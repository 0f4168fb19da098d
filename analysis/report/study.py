"""The page of a study: each metric against loss, as a plot and as a table."""

import os
from pathlib import Path

from analysis.report import STROKES, environment, figures, resource
from analysis.report.figures import Figure
from analysis.study import STUDIED, Study


def write_study(page: Path, study: Study) -> None:
    """Write the page; an old one stays until the new one is whole."""
    partial = page.with_name(page.name + ".partial")
    partial.write_text(render_study(study), encoding="utf-8")
    os.replace(partial, page)


def render_study(study: Study) -> str:
    """Return the page."""
    from plotly.offline import get_plotlyjs

    sections = [(metric, _figure(study, metric.key, metric.title, metric.unit)) for metric in STUDIED]
    return (
        environment()
        .get_template("study.html")
        .render(
            study=study,
            sections=sections,
            colours=figures.COLOURS,
            dashes=[STROKES[dash] for dash in figures.DASHES],
            css=resource("page.css"),
            js=resource("page.js"),
            plotly=get_plotlyjs(),
        )
    )


def _figure(study: Study, key: str, title: str, unit: str) -> Figure:
    data = []
    for place, layering in enumerate(study.layerings):
        points = [
            (loss, round(study.values[key, layering, loss], 4))
            for loss in study.losses
            if (key, layering, loss) in study.values
        ]
        losses, values = zip(*points, strict=True) if points else ((), ())
        data.append(
            figures.line(place, layering, losses, values)
            | {
                "mode": "lines+markers",
                "marker": {"size": 7, "color": f"--layering-{place % figures.COLOURS}", "symbol": place},
                "hovertemplate": f"%{{y:.4g}} {unit} at %{{x}} % loss",
            }
        )
    layout: figures.Spec = {
        "xaxis": {"title": {"text": "loss of each link, %"}, "tickvals": study.losses},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
    }
    return Figure(
        f"study-{key}",
        title,
        f"{title}: a line for each layering, against loss",
        {"data": data, "layout": layout},
    )
