"""What is next, and who is meant, cost an operation the same however many there are: counted, not timed."""

import pytest
from operations import Moment, counted, octets

from testbed.bench.figures import MOST_GROWTH, exponent
from testbed.bench.growth.__main__ import CASES
from testbed.bench.growth.cases import Case, World

COUNTS = (60, 240)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_work_grows_as_the_number_of_entries(case: Case) -> None:
    case.prepare(2, World())()  # what is done once in a process
    counts = [(count, float(counted(case.prepare(count, World(Moment(), octets))))) for count in COUNTS]
    assert exponent(counts) <= MOST_GROWTH


@pytest.mark.parametrize(
    ("grows", "least"),
    [
        (min, 1.8),
        (lambda times: [each for each in times if each == -1], 1.8),
        (lambda times: times[0], 0.9),
    ],
    ids=["a look at all in C", "a look at all", "a look at one"],
)
def test_a_look_at_all_is_counted(grows, least) -> None:
    def work(count: int) -> float:
        times = [Moment(number) for number in range(count)]
        return float(counted(lambda: [grows(times) for _ in range(count)]))

    assert least <= exponent([(count, work(count)) for count in COUNTS]) <= least + 0.2
