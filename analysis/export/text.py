"""Comparisons as plain text in aligned columns, for reading and for diff."""

from analysis.files import Rows
from analysis.metrics.agreement import agreement, difference_text
from analysis.metrics.catalogue import why_unranked
from analysis.metrics.study import Estimate, Point, Study, has_star, studied

_DECIMALS = 9
"""Decimals; smaller magnitudes than this resolution print as 0."""


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with at most `digits` significant digits, without an exponent; a dash for None."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    text = f"{round(float(f'{value:.{digits}g}'), _DECIMALS) + 0.0:.{_DECIMALS}f}"  # no -0
    return text.rstrip("0").rstrip(".")


HEADLINES = {
    "delivered_share": ("delivered", "%"),
    "latency_p50": ("median latency", "ms"),
    "interests_network": ("Interests", "per item"),
    "state_bytes_mean": ("state", "bytes of a node"),
    "bytes_per_item": ("bytes", "per item"),
}
"""Five headline metrics of a run in a terminal: column heads, in two lines."""


def headlines(comparison: Rows) -> str:
    """Format five metrics per layering, one line each, from the rows of analysis.metrics.comparison.compare.

    A star marks latencies that cannot be compared; the last line explains why.
    """
    values: dict[str, dict[str, float | None]] = {}
    for row in comparison:
        values.setdefault(row["layering"], {})[row["metric"]] = row["value"]
    whys = {layering: why for layering, known in values.items() if (why := why_unranked(known))}
    lines = [["", *(head for head, _ in HEADLINES.values())], ["", *(unit for _, unit in HEADLINES.values())]]
    for layering, known in values.items():
        numbers = {key: number(known[key]) for key in HEADLINES}
        if layering in whys and known["latency_p50"] is not None:
            numbers["latency_p50"] += "*"
        lines.append([layering, *numbers.values()])
    notes = "".join(f"* {layering}: {why}\n" for layering, why in whys.items())
    return aligned(lines, left=1) + notes


def study_text(study: Study) -> str:
    """Format a study: for each metric a line per layering and group, and a column for each value of the
    varied key, as mean and half the interval's width. A star marks times that cannot be compared.
    """
    heads = [x if isinstance(x, str) else f"{number(x)} {study.words.unit}".rstrip() for x in study.xs]
    blocks = []
    for metric in studied(study):
        lines = [[f"{metric.title}, {metric.unit}", *heads]]
        for layering in study.layerings:
            for group in study.groups:
                name = ", ".join(filter(None, (layering, group)))
                points = [Point(x, group) for x in study.xs]
                cells = [
                    _estimate(study.values.get((metric.key, layering, point)))
                    + "*" * has_star(study, metric, layering, point)
                    for point in points
                ]
                lines.append([f"  {name}", *cells])
        blocks.append(aligned(lines, left=1))
    said = f"{study.title or study.scenario}, by {study.words.what}\n\n" if study.key else ""
    return said + "\n".join(blocks)


def _estimate(value: Estimate | None) -> str:
    if value is None or value.half is None:
        return number(value and value.mean)
    return f"{number(value.mean)} ± {number(value.half, 2)}"


_OF_LATENESS = "hint      nodes share processors: --dilation 8 gives them eight times the processor time\n"


def agreement_text(study: Study) -> str:
    """Format the agreement of emulator and Mininet, a line per layering and metric; "" if not applicable."""
    judged = agreement(study)
    if not judged:
        return ""
    several = len({each.network for each in judged}) > 1
    lines = [["emulator against Mininet", "", "emulator", "Mininet", "differs by", "", ""]]
    for each in judged:
        name = ", ".join(filter(None, (each.layering, each.group, each.network if several else "")))
        metric = f"{each.metric.title}, {each.metric.unit}"
        verdict = "agrees" if each.agrees else "DISAGREES"
        values = number(each.emulated), number(each.real), difference_text(each)
        lines.append([name, metric, *values, each.bound, verdict])
    is_late = any(
        each.metric.key == "latency_p50"
        and not each.agrees
        and each.real > each.emulated
        and "dilation" not in each.network
        for each in judged
    )
    return aligned(lines, left=2) + (_OF_LATENESS if is_late else "")


def aligned(lines: list[list[str]], left: int) -> str:
    """Align lines in columns; the first `left` columns are left-aligned, the others right-aligned."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in lines
    )
