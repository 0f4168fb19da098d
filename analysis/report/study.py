"""The page of a study: each metric against what differs between runs, with confidence intervals, and as
tables."""

from collections.abc import Iterator
from pathlib import Path

from analysis.compare import METRICS, WHOLE, Metric
from analysis.files import write_whole
from analysis.report import page as render_page
from analysis.report.numbers import NARROW_SPACE, pretty
from analysis.report.plot import Figure, Spec, colour, figure, line, places
from analysis.study import CONFIDENCE, EXTRA, STUDIED, Estimate, Point, Study


def write_study(page: Path, study: Study) -> None:
    """Write the page; an old one stays until the new one is whole. Raises OSError."""
    write_whole(page, render_study(study))


def render_study(study: Study) -> str:
    """Return the page."""
    shown = [metric for metric in STUDIED if _is_known(study, metric)]
    figures = [_figure(study, metric) for metric in shown]
    every = [metric for metric in METRICS if _is_known(study, metric)]
    return render_page(
        "study.html",
        figures,
        {},
        name=f"{study.scenario}-study",
        title=f"{study.title or study.scenario}: {_subject(study)}",
        layerings=study.layerings,
        study=study,
        sections=list(zip(shown, figures, strict=True)),
        metrics=every,
        cell=lambda metric, layering, point: told(study.values.get((metric.key, layering, point))),
        point=lambda point: (
            f"{pretty(point) if not isinstance(point, str) else point}"
            + (f" {study.unit}" if study.unit else "")
        ),
        findings=[*_findings(study), *_caveats(study)],
        has_extra=any(metric.key == EXTRA for metric in shown),
        confidence=f"{CONFIDENCE:.0%}",
    )


def told(value: Estimate | None) -> str:
    """Write an estimate: "33.9 ± 1.2", without an interval "33.9"."""
    if value is None:
        return pretty(None)
    return pretty(value.mean) if value.half is None else f"{pretty(value.mean)} ± {_two(value.half)}"


def _two(half: float) -> str:
    return f"{half:.2g}" if 0 < half < 99.5 else pretty(round(half))


def _subject(study: Study) -> str:
    if study.key:
        return f"by {study.what}"
    return f"{study.seeds} seeds"


def _is_known(study: Study, metric: Metric) -> bool:
    return any(key == metric.key for key, _, _ in study.values)


def _figure(study: Study, metric: Metric) -> Figure:
    data: list[Spec] = []
    for layering, place in places(study.layerings).items():
        known = [
            (point, value)
            for point in study.points
            if (value := study.values.get((metric.key, layering, point))) is not None
        ]
        data += _traces(study, metric, place, layering, known)
    unit = f", {study.unit}" if study.unit else ""
    xaxis: Spec = {"title": {"text": f"{study.what}{unit}"}}
    if not study.key:
        xaxis = {"type": "category"}
    elif study.is_numeric:
        xaxis["tickvals"] = study.points
    else:
        xaxis["type"] = "category"
    layout: Spec = {"xaxis": xaxis, "yaxis": {"title": {"text": metric.unit}, **_from_zero(study, metric)}}
    return figure(
        f"study-{metric.key}",
        metric.title,
        f"{metric.title}: for each layering the mean over the runs and its confidence interval",
        data,
        layout,
        (
            "layering",
            f"{study.what}{unit}" if study.key else "layering",
            f"{metric.title}, mean, {metric.unit}",
            "interval from",
            "interval to",
            "n, runs",
        ),
    )


def _from_zero(study: Study, metric: Metric) -> Spec:
    """Return the range of an axis that begins at 0: an interval may reach below what the metric can be."""
    values = [value for (key, _, _), value in study.values.items() if key == metric.key]
    top = max((value.high if value.high is not None else value.mean for value in values), default=0)
    return {"rangemode": "tozero"} if metric.key == EXTRA or top <= 0 else {"range": [0, 1.06 * top]}


def _traces(
    study: Study, metric: Metric, place: int, layering: str, known: list[tuple[Point, Estimate]]
) -> Iterator[Spec]:
    """Yield the band of a layering, if it has one, and its line."""
    xs: list[Point] = [point if study.key else layering for point, _ in known]
    means = [round(value.mean, 6) for _, value in known]
    banded = [
        (point, value.low, value.high)
        for point, value in known
        if value.low is not None and value.high is not None
    ]
    bars: Spec = {}
    if study.key and study.is_numeric and len(banded) > 1:
        yield {
            "type": "scatter",
            "mode": "lines",
            "fill": "toself",
            "fillcolor": f"{colour(place)}-soft",
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
            "name": layering,
            "meta": place,
            "x": [point for point, _, _ in banded] + [point for point, _, _ in reversed(banded)],
            "y": [round(high, 6) for _, _, high in banded]
            + [round(low, 6) for _, low, _ in reversed(banded)],
        }
    elif banded:
        bars = {
            "error_y": {
                "type": "data",
                "array": [round(value.half or 0, 6) for _, value in known],
                "color": colour(place),
                "thickness": 2,
                "width": 7,
            }
        }
    yield (
        line(place, layering, xs, means)  # type: ignore[arg-type]
        | {
            "mode": "lines+markers" if study.key else "markers",
            "marker": {"size": 7, "color": colour(place), "symbol": place},
            "customdata": [[value.low, value.high, value.n] for _, value in known],
            "text": [told(value) for _, value in known],
            "hovertemplate": f"%{{text}} {metric.unit} (n = %{{customdata[2]}}) at %{{x}} {study.unit}",
        }
        | bars
    )


def _findings(study: Study) -> Iterator[str]:
    """Say which layering is best on what is ranked, and whether chance could have made it so."""
    for metric in METRICS:
        if not metric.axis or not metric.better or not _is_known(study, metric):
            continue
        for point in dict.fromkeys((study.points[0], study.points[-1])):
            values = {
                x: value for x in study.layerings if (value := study.values.get((metric.key, x, point)))
            }
            if len(values) < 2:
                continue
            order = sorted(values, key=lambda x: values[x].mean, reverse=metric.better == "higher")
            best, second = values[order[0]], values[order[1]]
            if best.mean == second.mean:
                continue
            where = ""
            if study.key:
                where = f" at {study.what} {pretty(point) if not isinstance(point, str) else point}"
                where += f" {study.unit}" if study.unit else ""
            yield (
                f"{metric.axis[0].upper()}{metric.axis[1:]}{where}: "
                f"{order[0]} is first with {_whole(best, metric)}, "
                f"then {order[1]} with {_whole(second, metric)}"
                f"{_doubt(study.difference(metric.key, order[0], order[1], point), metric)}."
            )


def _caveats(study: Study) -> Iterator[str]:
    """Say which latencies are those of a part of the items only."""
    short = [
        f"{layering} delivered {told(share)} %" + (f" at {study.what} {point}" if study.key else "")
        for (metric, layering, point), share in study.values.items()
        if metric == "delivered_share" and share.mean < WHOLE
    ]
    if short:
        yield f"Latencies are those of items that arrived, and not all did: {', '.join(short)}."


def _doubt(difference: Estimate | None, metric: Metric) -> str:
    """Say whether chance explains a difference, from its interval over the seeds that both ran with."""
    if difference is None or difference.low is None or difference.high is None:
        return "; one run each, so nothing is known of chance"
    size = difference if difference.mean >= 0 else difference.opposite
    said = f"; seed by seed they differ by {told(size)}{NARROW_SPACE}{metric.unit}"
    if difference.low <= 0 <= difference.high:
        return f"{said}, which may be chance"
    return f"{said}, which is more than chance"


def _whole(value: Estimate, metric: Metric) -> str:
    return f"{told(value)}{NARROW_SPACE}{metric.unit} (n = {value.n})"
