"""Every figure in the findings of real pages is computed again from the tables; a false one is found."""

import re

import pytest
from page_checker import problems
from short_runs import emulate
from slow import but_slow

from analysis.pipelines.run import analyze

pytestmark = [pytest.mark.spark, pytest.mark.long]

RUNS = {
    "fork": {"items": 100, "layerings": ("pull", "poll", "sync", "lli", "lli-selective")},
    "line": {"items": 60, "layerings": ("poll", "persistent", "lli")},
    "archive": {"items": 100, "layerings": ("poll", "notify", "lli")},
    "offline-author": {"items": 40, "layerings": ("append-poll", "gossip")},
}
"""Forked items and errors; layerings that fall behind; one that lacks items; another protocol."""


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    found = {}

    def of(name):
        if name not in found:
            run = emulate(tmp_path_factory.mktemp("runs") / name, name, **RUNS[name])
            found[name] = run, analyze(run.directory, engine="sail").read_text(encoding="utf-8")
        return found[name]

    return of


@pytest.mark.parametrize("name", but_slow(RUNS, "archive", "offline-author"))
def test_every_figure_of_a_page_is_that_of_the_tables(analysed, name):
    assert list(problems(*analysed(name))) == []


def test_a_false_figure_is_found(analysed):
    run, page = analysed("fork")
    marks = [*re.finditer(r'<data value="([^"]+)" data-of="([^"]+)">([^<]+)</data>', page)]
    assert len(marks) > 15
    for mark in marks:
        if mark[2] in ("seed", "tail", "most-delivered"):
            continue  # in notes
        exact = f'<data value="{float(mark[1]) * 1.1 + 0.3}" data-of="{mark[2]}">{mark[3]}</data>'
        shown = mark[0].replace(f">{mark[3]}<", f">9{mark[3]}<")
        for changed in (exact, *([shown] if mark[2].startswith("value") else [])):
            assert list(problems(run, page[: mark.start()] + changed + page[mark.end() :])), mark[0]
    bare = page.replace(marks[0][0], marks[0][3], 1)
    assert any("nobody can check" in line for line in problems(run, bare))
    other = re.sub(r'(data-of="front latency_p50 bytes_per_item) [^"]+"', r'\1 pull"', page)
    assert any("beats it" in line for line in problems(run, other))
