"""The verdicts and means of a study as tables of Markdown, which documents have between two marks.

A document says `<!-- study: NAME PAGE -->` for the verdicts of its page, or `<!-- table: NAME TABLE -->` for
means, and `<!-- end -->` below the table.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import floor, log10
from pathlib import Path

from analysis.metrics.study import Estimate, estimate
from analysis.report.words.numbers import pretty
from testbed.errors import UserError
from testbed.study.decide import Decided, Found, Verdict, decide
from testbed.study.results import Results, setting_words
from testbed.study.spec import ENOUGH, Expectation, Side, StudySpec, TableSpec, load

_MOST_PLACES = 6

_PART = re.compile(r"(<!-- (study|table): ([a-z0-9-]+) ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def results_path(study: Path) -> Path:
    """Return where the results of a study stand."""
    return study.with_suffix(".csv")


def refreshed(text: str) -> str:
    """Return a document with the tables that follow from the results. Raises UserError."""
    return _PART.sub(lambda found: f"{found[1]}{_tables(found[2], found[3], found[4])}{found[5]}", text)


def _tables(kind: str, name: str, what: str) -> str:
    study, path = load(name)
    write = table if kind == "study" else means
    return write(study, Results.read(results_path(path)), name, what)


def table(study: StudySpec, results: Results, name: str, page: str) -> str:
    """Return the verdicts of a page: a row for each claim, and below it one for each figure."""
    keys = [key for key, claim in study.claims.items() if claim.page == page]
    decided = [decide(study, results, key) for key in keys]
    usual = _usual_seeds(decided)
    lines = [
        "",
        _summary(study, decided, name, usual),
        "",
        "| claim, and what it expects | figures | tested | verdict |",
    ]
    lines += ["|---|---|---|---|", *(line for each in decided for line in _rows(study, each, usual))]
    return "\n".join([*lines, *_few(study, decided), ""]) + "\n"


def _usual_seeds(decided: Sequence[Decided]) -> int:
    """Return the number of seeds of most figures, 0 of none."""
    numbers = Counter(found.effect.n for each in decided for found in each.found if found.effect)
    return max(numbers, key=lambda n: (numbers[n], n), default=0)


def _summary(study: StudySpec, decided: Sequence[Decided], name: str, usual: int) -> str:
    counts = {verdict: sum(each.verdict is verdict for each in decided) for verdict in Verdict}
    said = ", ".join(f"{verdict}: {count}" for verdict, count in counts.items() if count)
    seeds = f", over {usual} seeds unless a row says otherwise" if usual else ""
    return (
        f"{len(decided)} claims, from the results of `feednet study {name}` ({said}). Intervals are of"
        f" {study.confidence * 100:g} %{seeds}. `feednet study {name} --only KEY` makes a claim again."
    )


def _rows(study: StudySpec, decided: Decided, usual: int) -> Iterator[str]:
    claim = decided.claim
    source = f" ({claim.source})" if claim.source else ""
    note = f" {claim.note}" if claim.note else ""
    yield f"| **{claim.text}**{source} | `{decided.key}`.{note} | | **{decided.verdict}** |"
    for found in decided.found:
        figures, outcome = sides(study, found), tested(found, usual)
        yield f"| {found.expected.says} | {figures} | {outcome} | {_verdict(found)} |"


def sides(study: StudySpec, found: Found) -> str:
    """Return the metric of an expectation, and the mean of each side."""
    title, unit = study.runs[found.expected.runs].metrics()[found.expected.metric]
    sides = (
        f"`{side.layering}`{_at(side)} {interval(mean)}"
        for side, mean in zip(study.sides(found.expected), found.sides, strict=False)
    )
    return f"{title}, {unit}: {'; '.join(sides)}"


def _at(side: Side) -> str:
    return f" ({setting_words(side.setting)})" if side.setting else ""


def tested(found: Found, usual: int) -> str:
    """Return the tested figure, the region, and the number of seeds unless that is usual on the page."""
    expected, effect = found.expected, found.effect
    region = _region(expected)
    wanted = [f"expected {region}"] if region else []
    if effect is None:
        return "; ".join(wanted)
    if expected.test == "sign":
        return "; ".join([f"so in {round(effect.mean * effect.n)} of {effect.n} seeds", *wanted])
    figure = [] if expected.test == "mean" else [f"{expected.test} {interval(effect)}"]
    seeds = [] if effect.n == usual else [f"n = {effect.n}"]
    return "; ".join([*figure, *wanted, *seeds])


def _region(expected: Expectation) -> str:
    above, below = expected.above, expected.below
    if above is not None and below is not None:
        return f"between {above:g} and {below:g}"
    if above is not None:
        return f"above {above:g}"
    return "" if below is None else f"below {below:g}"


def _verdict(found: Found) -> str:
    why = f": {found.why}" if found.why else ""
    despite = f" ({found.expected.despite})" if found.expected.despite else ""
    return f"{found.verdict}{why}{despite}"


def interval(value: Estimate) -> str:
    """Return a mean with its interval, to two digits of its half: "5.51 [5.40, 5.62]"."""
    if value.low is None or value.high is None or value.low == value.high:
        return pretty(value.mean)
    places = min(max(1 - floor(log10((value.high - value.low) / 2)), 0), _MOST_PLACES)
    mean, low, high = (f"{each:,.{places}f}" for each in (value.mean, value.low, value.high))
    return f"{mean} [{low}, {high}]"


def _few(study: StudySpec, decided: Sequence[Decided]) -> Iterator[str]:
    """Yield why some runs have few seeds."""
    names = dict.fromkeys(found.expected.runs for each in decided for found in each.found)
    few = [name for name in names if study.seeds_of(name) < ENOUGH]
    if few:
        yield ""
        yield from (f"- {study.seeds_of(name)} seeds of `{name}`: {study.why_of(name)}" for name in few)


def means(study: StudySpec, results: Results, study_name: str, name: str) -> str:
    """Return a table of means. Raises UserError if there is none of that name, it has no results, or two of
    its figures have one place.
    """
    wanted = study.tables.get(name)
    if wanted is None:
        raise UserError(f"{study_name}: a document names the table {name!r}, which the study lacks")
    rows: dict[str, dict[str, Estimate]] = {}
    for metric in wanted.metrics:
        for side in study.sides_of(wanted):
            values = results.by_seed(*side, metric)
            row, column = _place(study, wanted, side, metric)
            known = rows.setdefault(row, {}) if values else {}
            if column in known:
                raise UserError(
                    f"{study_name}: table {name}: two figures are {row!r}, {column!r}: use other words"
                )
            if values:
                known[column] = estimate([*values.values()], study.confidence)
    if not rows:
        raise UserError(f"{study_name}: table {name}: there are no results")
    heads = dict.fromkeys(column for known in rows.values() for column in known)
    least = min(mean.n for known in rows.values() for mean in known.values())
    lines = [
        "",
        f"Means with intervals of {study.confidence * 100:g} %, n = {least}, from the results of"
        f" `feednet study {study_name}`:",
        "",
        f"| {' | '.join(['', *heads])} |",
        f"|{'---|' * (len(heads) + 1)}",
    ]
    for row, known in rows.items():
        cells = (interval(known[head]) if head in known else "" for head in heads)
        lines.append(f"| {' | '.join([row, *cells])} |")
    return "\n".join([*lines, ""]) + "\n"


def _place(study: StudySpec, wanted: TableSpec, side: Side, metric: str) -> tuple[str, str]:
    """Return row and column of a figure. A row does not name the one metric or layering of all."""
    title, unit = study.runs[side.runs].metrics()[metric]
    layerings = {layering for runs in wanted.runs for layering in study.runs[runs].layerings}
    settings = {key: setting_words({key: value}) for key, value in side.setting.items()}
    parts = {
        "metric": wanted.words.get(metric, f"{title}, {unit}"),
        "layering": f"`{side.layering}`",
        **{key: wanted.words.get(said, said) for key, said in settings.items()},
    }
    column = parts.pop(wanted.columns)
    if len(wanted.metrics) == 1:
        parts.pop("metric", None)
    if len(layerings) == 1:
        parts.pop("layering", None)
    return ", ".join(filter(None, parts.values())), column
