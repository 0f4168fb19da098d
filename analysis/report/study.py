"""The page of a study: findings, each metric against the study's subject, and all values as tables."""

from collections.abc import Iterator

from analysis.metrics.agreement import agreement, difference_text
from analysis.metrics.catalogue import METRICS, Metric
from analysis.metrics.study import CONFIDENCE, EXTRA, Point, Study, has_star, studied
from analysis.report.figures.study import MOST_BANDS, overview, panels, stroke
from analysis.report.page import page as render_page
from analysis.report.words.numbers import count_of, pretty, with_unit
from analysis.report.words.study import StudyWords, caveats, estimate_text, point_words
from analysis.run.keys import NET, VERSION, value_words, words

_TABLED_RATIOS = ("latency_ratio_p50", "wire_ratio")
"""Metrics with a table, though layerings are not ranked on them."""

_NETWORKS = {
    "emulator": "emulated: virtual time",
    "Mininet (relay)": "Mininet: real hosts and real UDP; links impaired by the relay, in user space",
    "Mininet (netem)": "Mininet: real hosts and real UDP; links impaired by netem, in the kernel",
}


_SHOWN_AS_FACTS = (NET, VERSION, "publisher")
"""Settings shown among the page's facts; the publisher is the first of the publishers."""


def render_study(study: Study) -> str:
    """Return the page."""
    shown, every = studied(study), studied(study, METRICS)
    # The first metric, the share delivered, rarely interests by layering.
    apart = sorted(shown, key=lambda metric: metric.key != "latency_p50")
    said = StudyWords(study)
    figures, alone = [overview(study, metric) for metric in shown], panels(study, apart)
    return render_page(
        "study.html",
        [*figures, *alone.values()],
        {},
        name=f"{study.scenario}-study",
        title=f"{study.title or study.scenario}: {_subject(study)}",
        layerings=study.layerings,
        study=study,
        facts=list(_facts(study)),
        shared=list(_shared(study)),
        commands=list(dict.fromkeys(origin.command for origin in study.origins if origin.command)),
        plots=figures,
        panels=alone,
        apart=[metric.title for metric in apart],
        strokes=[(stroke(number), group) for number, group in enumerate(study.groups)],
        most_bands=MOST_BANDS,
        metrics=every,
        tabled=[
            metric for metric in every if (metric.axis and metric.better) or metric.key in _TABLED_RATIOS
        ],
        heads=[point_words(study, Point(x)) for x in study.xs],
        rows=lambda metric: list(_rows(study, metric)),
        headline=said.headline(),
        findings=said.findings(),
        caveats=list(caveats(study)),
        judged=[
            (each, pretty(each.emulated), pretty(each.real), difference_text(each))
            for each in agreement(study)
        ],
        has_extra=EXTRA in {metric.key for metric in shown},
        confidence=f"{CONFIDENCE:.0%}",
    )


def _subject(study: Study) -> str:
    if study.key:
        return f"by {study.words.what}"
    return f"{study.seeds} seeds" if study.seeds > 1 else count_of(study.runs, "run")


def _facts(study: Study) -> Iterator[tuple[str, str]]:
    """Yield the facts of the runs: names and values."""
    yield "Scenario", study.scenario
    seeds = "one seed" if study.seeds == 1 else f"{pretty(study.seeds)} seeds"
    yield "Runs", f"{pretty(study.runs)}, with {seeds}"
    if study.key:
        yield (
            "What differs",
            f"{study.words.what}: {', '.join(point_words(study, Point(x)) for x in study.xs)}",
        )
    if len(study.groups) > 1:
        yield "What else differs", "; ".join(study.groups)
    if NET in study.shared:
        yield "Network", _NETWORKS.get(study.shared[NET], study.shared[NET])
    created = sorted(origin.created for origin in study.origins if origin.created)
    if created:
        ends = " to ".join(dict.fromkeys((created[0], created[-1])))
        yield "Run at", ends.replace("T", " ").replace("+00:00", " UTC")
    versions: dict[str, dict[str, None]] = {}
    for origin in study.origins:
        for name, version in origin.software.items():
            versions.setdefault(name, {})[version] = None
    if versions:
        yield "Versions", ", ".join(f"{name} {' and '.join(those)}" for name, those in versions.items())


def _shared(study: Study) -> Iterator[tuple[str, str]]:
    """Yield the settings common to all runs: names and values."""
    for key, value in study.shared.items():
        if key not in _SHOWN_AS_FACTS and value not in (None, []):
            what, unit = words(key)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            yield what, with_unit(value, unit) if is_number else value_words(key, value)


def _rows(study: Study, metric: Metric) -> Iterator[tuple[str, str, list[tuple[str, bool]]]]:
    """Yield the rows of a metric's table: layering, group, and a cell for each value of the subject, with a
    mark if unranked.
    """
    for layering in study.layerings:
        for group in study.groups:
            points = [Point(x, group) for x in study.xs]
            values = [study.values.get((metric.key, layering, point)) for point in points]
            if any(values) or len(study.groups) == 1:
                starred = [has_star(study, metric, layering, point) for point in points]
                yield layering, group, list(zip(map(estimate_text, values), starred, strict=True))
