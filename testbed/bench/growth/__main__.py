"""Growth of the cost of deadlines and lookups: `python -m testbed.bench.growth [--json] [COUNT]...`

Theory of operation. Finding the next deadline must not scan everything. Each case has a number of entries and
performs some operations per entry, so constant-time operations give total work in proportion to the entries,
an exponent of about 1; scans give 2. Measured is processor time, the minimum of some repetitions; the
exponent is between the smallest and the largest number. It has a bar, but slowness is no failure:
tests/testbed/test_growth.py counts operations.
"""

import gc
import json
import math
import time
from collections.abc import Sequence
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from forwarder.feedcache.items import forget_all
from testbed.bench.growth import cases, peers
from testbed.bench.growth.cases import Case, World

CASES: Final = cases.CASES + peers.CASES
COUNTS: Final = (1_000, 4_000, 16_000)
MOST: Final = 1.1
"""Target for the exponent."""
_REPETITIONS = 3


def exponent(costs: Sequence[tuple[int, float]]) -> float:
    """Return the exponent of growth between the first and the last (entries, cost)."""
    (least, cheap), (most, dear) = costs[0], costs[-1]
    return math.log(dear / cheap) / math.log(most / least)


def measure(case: Case, count: int) -> float:
    """Return the processor time, s, of a case with `count` entries."""
    times = []
    for _ in range(_REPETITIONS):
        work = case.prepare(count, World())
        forget_all()  # else earlier verifications are free, as far as that cache goes
        gc.collect()
        gc.disable()
        begun = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - begun)
        gc.enable()
        del work
    return min(times) / 1e9


@click.command()
@click.argument("counts", nargs=-1, type=click.IntRange(min=8))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(counts: tuple[int, ...], as_json: bool) -> None:
    """Measure how the cost of deadlines and lookups grows with the number of entries."""
    counts = tuple(sorted(set(counts))) or COUNTS
    table = Table("case", *(f"{count:,}" for count in counts), "exponent", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    found: dict[str, Any] = {}
    for case in CASES:
        costs = [(count, measure(case, count)) for count in (each // case.divided for each in counts)]
        found[case.name] = {"seconds": dict(costs)}
        cells = [f"{cost * 1e3:.1f} ms" for _, cost in costs]
        if len(costs) > 1:
            grown = exponent(costs)
            found[case.name]["exponent"] = grown
            cells.append(f"{grown:.2f}{'' if grown <= MOST else ' above ' + str(MOST)}")
        name = case.name + (f" (1/{case.divided} as many)" if case.divided > 1 else "")
        table.add_row(name, *cells)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        Console().print(table)


if __name__ == "__main__":
    main()
