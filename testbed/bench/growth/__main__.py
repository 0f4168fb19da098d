"""Growth of the cost of deadlines and lookups: `python -m testbed.bench.growth [--json] [COUNT]...`

Theory of operation. Finding the next deadline must not scan everything. Each case has a number of entries and
performs some operations per entry, so constant-time operations give total work in proportion to the entries,
an exponent of about 1; scans give 2. Measured is processor time, the minimum of some repetitions; the
exponent is between the smallest and the largest number. It has a bar, but slowness is no failure:
tests/testbed/test_growth.py counts operations.
"""

import gc
from typing import Final

import click

from forwarder.feedcache.items import forget_all
from testbed.bench.figures import MOST_GROWTH, Line, exponent
from testbed.bench.growth import cases, peers
from testbed.bench.growth.cases import Case, World
from testbed.bench.program import command, report, run, timed

CASES: Final = cases.CASES + peers.CASES
COUNTS: Final = (1_000, 4_000, 16_000)
_REPETITIONS = 3


def measure(case: Case, count: int) -> float:
    """Return the processor time, s, of a case with `count` entries."""
    times = []
    for _ in range(_REPETITIONS):
        work = case.prepare(count, World())
        forget_all()  # else earlier verifications are free, as far as that cache goes
        gc.collect()
        gc.disable()
        times.append(timed(work))
        gc.enable()
        del work
    return min(times)


@command
@click.argument("counts", nargs=-1, type=click.IntRange(min=8))
def bench(counts: tuple[int, ...], as_json: bool) -> None:
    """Measure how the cost of deadlines and lookups grows with the number of entries."""
    counts = tuple(sorted(set(counts))) or COUNTS
    rows = []
    for case in CASES:
        costs = [(count // case.divided, measure(case, count // case.divided)) for count in counts]
        figures = {f"{count:,}, ms": cost * 1e3 for count, (_, cost) in zip(counts, costs, strict=True)}
        notes = [f"1/{case.divided} as many"] if case.divided > 1 else []
        if len(costs) > 1:
            figures["exponent"] = exponent(costs)
            notes += [f"above {MOST_GROWTH}"] if figures["exponent"] > MOST_GROWTH else []
        rows.append(Line(case.name, figures, ", ".join(notes)))
    report("", rows, as_json)


if __name__ == "__main__":
    run(bench, "testbed.bench.growth")
