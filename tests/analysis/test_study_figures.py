"""Every figure in the findings of studies is computed again from the values of their runs."""

import re
from random import Random

import pytest
from study_checker import problems

from analysis.metrics.study import Origin, Record, study
from analysis.report.study import render_study
from analysis.run.keys import LOSS, NET
from analysis.run.manifest import Question

LAYERINGS = ("pull", "poll", "persistent", "lli")
ASKED = Question(text="Which?", metrics=["latency_p50", "bytes_per_item", "delivered_share"]).model_dump()


def drawn(draw, key, points):
    """Return a study of random values: alike, apart by chance, clearly apart, incomplete."""
    records = []
    seeds = draw.choice((1, 2, 5, 10))
    spread = draw.choice((0.0, 0.01, 0.3))
    base = {x: 50 * draw.choice((1.0, 1.0, 1.02, 1.2, 3.0)) for x in LAYERINGS}
    lossy = {x: draw.random() < 0.2 for x in LAYERINGS}
    for place, point in enumerate(points):
        for seed in range(1, seeds + 1):
            shared = 1 + spread * draw.random()
            for x in LAYERINGS:
                own = base[x] * shared * (1 + place / 2) * (1 + spread * draw.random() / 5)
                values = {
                    "latency_p50": own,
                    "bytes_per_item": 20 * base[x] + seed,
                    "delivered_share": 80.0 + seed if lossy[x] and place else 100.0,
                    "state_bytes_mean": 100.0,
                }
                records.append(Record({key: point, "workload.items": 5}, seed, x, values))
    asked = draw.choice((ASKED, None, ASKED | {"metrics": ["latency_p50"]}))
    return study("s", "S", records, [Origin("", "", {}, asked)])


SUBJECTS = {
    "a number": (LOSS, (0, 1, 5)),
    "a parameter": ("parameters.lli.credit", (4, 64)),
    "words": ("strategies./", ("asf", "multicast", "random", "access", "best-route")),
    "networks": (NET, ("emulator", "Mininet (relay)")),
    "seeds only": (LOSS, (0,)),
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_figure_of_a_study_is_that_of_its_runs(subject):
    for seed in range(40):
        got = drawn(Random(seed), *SUBJECTS[subject])
        assert list(problems(got, render_study(got))) == [], seed


def test_a_false_figure_is_found():
    found = 0
    for subject in SUBJECTS.values():
        got = drawn(Random(3), *subject)
        page = render_study(got)
        for mark in re.finditer(r'<data value="([^"]+)" data-of="([^"]+)">([^<]+)</data>', page):
            wrong = mark[0].replace(mark[1], f"{float(mark[1]) * 1.1 + 0.3}", 1)
            assert list(problems(got, page[: mark.start()] + wrong + page[mark.end() :])), mark[0]
            found += 1
    assert found > 20
