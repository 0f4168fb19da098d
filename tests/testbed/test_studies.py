"""Studies: how claims are decided, what is run and what is kept, and the results that come with feednet."""

import inspect
import json
import re
import runpy
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from scipy.stats import ttest_1samp
from test_architecture import imported_modules, module_name, modules

from testbed.cli.main import feednet
from testbed.errors import UserError
from testbed.experiment import provenance
from testbed.library import studies
from testbed.study import cells as keeping
from testbed.study import run as running
from testbed.study.cells import Store, planned
from testbed.study.decide import Decided, Found, Verdict, decide
from testbed.study.models import MODELS
from testbed.study.pages import means, refreshed, results_path, table
from testbed.study.results import Results, Row, all_needed, needed
from testbed.study.run import Means
from testbed.study.spec import ENOUGH, StudySpec, load

ROOT = Path(__file__).parents[2]
RUNS = {"few": {"scenario": "line", "layerings": ["poll", "lli"]}}
BASE = {"says": "so it is", "runs": "few", "metric": "latency_p50", "of": "poll"}


def study_of(*expects: dict[str, Any], runs: dict[str, Any] = RUNS, **claim: Any) -> StudySpec:
    described = {"page": "a-page", "text": "So it is", "expects": [BASE | each for each in expects]} | claim
    return StudySpec.model_validate({"title": "A study", "runs": runs, "claims": {"so": described}})


def results_of(**by_row: list[float]) -> Results:
    """Return results of the runs "few": a list of values over seeds, by "layering_metric"."""
    rows = {
        Row("few", name.partition("_")[0], "", name.partition("_")[2]): dict(enumerate(values, start=1))
        for name, values in by_row.items()
    }
    return Results(rows, {})


def decided(results: Results, *expects: dict[str, Any], **claim: Any) -> Decided:
    return decide(study_of(*expects, **claim), results, "so")


def found(results: Results, **expects: Any) -> Found:
    (one,) = decided(results, expects).found
    return one


POLL = [10.0, 11.0, 12.0, 11.0, 10.5, 11.5, 10.0, 12.5]
LLI = [5.0, 5.4, 6.5, 5.1, 5.2, 5.9, 4.7, 6.4]
BOTH = results_of(poll_latency_p50=POLL, lli_latency_p50=LLI)


def test_the_intervals_are_those_of_scipy() -> None:
    ratios = [log(a / b) for a, b in zip(POLL, LLI, strict=True)]
    expected = ttest_1samp(ratios, 0).confidence_interval(0.99)
    effect = found(BOTH, to="lli", test="ratio", above=1).effect
    assert effect is not None
    assert effect.n == 8
    assert (effect.low, effect.high) == pytest.approx((exp(expected.low), exp(expected.high)))
    differences = [a - b for a, b in zip(POLL, LLI, strict=True)]
    expected = ttest_1samp(differences, 0).confidence_interval(0.99)
    effect = found(BOTH, to="lli", test="difference", above=1).effect
    assert effect is not None
    assert (effect.low, effect.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    ("expects", "verdict"),
    [
        ({"to": "lli", "test": "ratio", "above": 1.5}, Verdict.HOLDS),
        ({"to": "lli", "test": "ratio", "above": 2}, Verdict.UNKNOWN),
        ({"to": "lli", "test": "ratio", "above": 2.5}, Verdict.FAILS),
        ({"to": "lli", "test": "ratio", "below": 1.5}, Verdict.FAILS),
        ({"to": "lli", "test": "ratio", "above": 1.5, "below": 2.5}, Verdict.HOLDS),
        ({"to": "lli", "test": "ratio", "above": 2, "below": 2.5}, Verdict.UNKNOWN),
        ({"to": "lli", "test": "difference", "above": 4}, Verdict.HOLDS),
        ({"test": "mean", "below": 20}, Verdict.HOLDS),
        ({"test": "mean", "above": 20}, Verdict.FAILS),
        ({"test": "mean", "above": 11}, Verdict.UNKNOWN),
        ({"to": "lli", "test": "sign", "above": 1}, Verdict.HOLDS),
        ({"to": "lli", "test": "sign", "below": 1}, Verdict.FAILS),
        ({"to": "lli", "test": "sign", "above": 2}, Verdict.UNKNOWN),
    ],
)
def test_a_figure_is_in_its_region_or_outside_or_cannot_be_told(
    expects: dict[str, Any], verdict: Verdict
) -> None:
    assert found(BOTH, **expects).verdict is verdict


def test_a_few_seeds_that_agree_are_not_significant() -> None:
    """Seven of seven have a chance of one in 64, eight of eight of one in 128: more than 1 %, and less."""
    seven = results_of(poll_latency_p50=POLL[:7], lli_latency_p50=LLI[:7])
    assert found(seven, to="lli", test="sign", above=1).verdict is Verdict.UNKNOWN
    assert found(BOTH, to="lli", test="sign", above=1).verdict is Verdict.HOLDS


def test_only_seeds_of_both_are_compared() -> None:
    results = results_of(poll_latency_p50=[10.0, 10.0, 10.0], lli_latency_p50=[5.0, 5.0])
    effect = found(results, to="lli", test="ratio", above=1).effect
    assert effect is not None
    assert (effect.mean, effect.n) == (pytest.approx(2), 2)


@pytest.mark.parametrize(
    ("results", "why"),
    [
        (results_of(poll_latency_p50=[10.0] * 8, lli_latency_p50=[0.0] * 8), "a value is 0"),
        (results_of(poll_latency_p50=[10.0], lli_latency_p50=[5.0]), "fewer than two seeds"),
        (results_of(poll_latency_p50=POLL), "no run has this figure"),
        (
            results_of(poll_latency_p50=POLL, lli_latency_p50=LLI, lli_delivered_share=[50.0] * 8),
            "`lli` delivered 50 %",
        ),
        (
            results_of(poll_latency_p50=POLL, lli_latency_p50=LLI, poll_fell_behind=[0.0] * 7 + [1.0]),
            "`poll` fell behind",
        ),
    ],
)
def test_what_cannot_be_compared_cannot_be_told(results: Results, why: str) -> None:
    one = found(results, to="lli", test="ratio", above=1)
    assert one.verdict is Verdict.UNKNOWN
    assert why in one.why


def test_a_study_may_compare_nevertheless_and_has_to_say_why() -> None:
    results = results_of(poll_latency_p50=POLL, lli_latency_p50=LLI, lli_delivered_share=[50.0] * 8)
    one = found(results, to="lli", test="ratio", above=1, despite="both lack the same")
    assert one.verdict is Verdict.HOLDS
    study = study_of(BASE | {"to": "lli", "test": "ratio", "above": 1, "despite": "both lack the same"})
    assert "both lack the same" in table(study, results, "x", "a-page")


@pytest.mark.parametrize(
    ("regions", "verdict"),
    [
        ([{"below": 20}, {"above": 5}], Verdict.HOLDS),
        ([{"below": 5}, {"above": 20}], Verdict.FAILS),
        ([{"below": 20}, {"above": 20}], Verdict.IN_PART),
        ([{"below": 20}, {"above": 11}], Verdict.UNKNOWN),
        ([{"below": 20}, {"above": 20}, {"above": 11}], Verdict.IN_PART),
    ],
)
def test_a_claim_is_what_all_its_expectations_are(regions: list[dict[str, Any]], verdict: Verdict) -> None:
    assert decided(BOTH, *({"test": "mean"} | each for each in regions)).verdict is verdict


def test_an_open_question_has_figures_and_no_verdict() -> None:
    one = decided(BOTH, {"test": "mean"}, open=True)
    assert one.verdict is Verdict.OPEN
    assert one.found[0].effect is not None


def test_a_table_says_what_was_tested() -> None:
    study = study_of(BASE | {"to": "lli", "test": "ratio", "above": 2})
    text = table(study, BOTH, "x", "a-page")
    assert "(cannot be told: 1)" in text
    assert "over 8 seeds unless" in text
    claim, figure = text.splitlines()[-3:-1]
    assert claim == "| **So it is** | `so`. | | **cannot be told** |"
    assert figure == (
        "| so it is | Latency, publish or join to delivery, median, ms: `poll` 11.1 [9.9, 12.2];"
        " `lli` 5.53 [4.70, 6.35] | ratio 2.01 [1.89, 2.14]; expected above 2"
        " | cannot be told |"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"runs": "none"}, "there are few"),
        ({"metric": "latency_p5"}, "did you mean latency_p95"),
        ({"of": "sync"}, "there are poll, lli"),
        ({"at": {"poll.window": 3}}, "at has to name nothing"),
        ({"to": "lli"}, "mean takes one"),
        ({"test": "ratio"}, "ratio takes two"),
        ({"above": 3, "below": 2}, "is not less than"),
        ({"above": None}, "say what is expected"),
    ],
)
def test_a_study_is_checked_whole(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        study_of({"test": "mean", "above": 1} | change)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ({"layerings": ["poll"]}, "a scenario or a model"),
        ({"scenario": "line", "model": "hub", "layerings": ["poll"]}, "a scenario or a model"),
        ({"model": "nothing", "layerings": ["ebt"]}, "there are hub"),
        ({"scenario": "line", "layerings": ["nothing"]}, "there are"),
        ({"scenario": "line", "layerings": []}, "name at least one"),
        ({"scenario": "line", "layerings": ["poll"], "seeds": 3}, "`why` has to say why"),
    ],
)
def test_runs_are_checked(runs: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        study_of({"test": "mean", "above": 1}, runs={"few": runs})


def test_a_study_of_few_seeds_says_why_itself_or_for_runs_of_its_own() -> None:
    few = {**study_of({"test": "mean", "above": 1}).model_dump(exclude_unset=True, by_alias=True), "seeds": 3}
    with pytest.raises(ValueError, match="`why` has to say why"):
        StudySpec.model_validate(few)
    study = StudySpec.model_validate(few | {"why": "no time"})
    assert study.why_of("few") == "no time"
    assert "- 3 seeds of `few`: no time" in table(study, BOTH, "x", "a-page")
    own = {"few": {"scenario": "line", "layerings": ["poll"], "seeds": 2, "why": "slow"}}
    assert StudySpec.model_validate(few | {"why": "no time", "runs": own}).why_of("few") == "slow"


def test_the_order_of_keys_in_a_setting_makes_no_difference() -> None:
    runs = {
        "few": {"scenario": "line", "layerings": ["poll"], "sweep": {"loss": [0, 5], "items": [4]}},
        "other": {"scenario": "line", "layerings": ["poll"], "sweep": {"items": [4], "loss": [0, 5]}},
    }
    row = Row("few", "poll", "loss=5, items=4", "latency_p50")
    results = Results(
        {
            row: dict(enumerate(POLL)),
            row._replace(runs="other", setting="items=4, loss=5"): dict(enumerate(LLI)),
        },
        {},
    )

    def made(at: dict[str, int]) -> tuple[str, list[Row], set[str]]:
        against = {"test": "ratio", "above": 1, "at": at, "to_runs": "other"}
        study = study_of(against, {"test": "mean", "above": 9, "at": at}, runs=runs)
        rows = needed(study, study.claims)
        keys = {cell.key for cell in planned(study, Path("study.toml"), 1, 2, rows)}
        return table(study, results, "x", "a-page"), rows, keys

    text, rows, keys = made({"loss": 5, "items": 4})
    assert (text, rows, keys) == made({"items": 4, "loss": 5})
    assert "| **holds** |" in text
    assert {row.setting for row in rows} == {"loss=5, items=4", "items=4, loss=5"}
    assert len(keys) == 2, "of two seeds: both runs are the same ones"


def test_results_are_read_as_written(tmp_path: Path) -> None:
    made = Results(
        {Row("few", "poll", "loss=5, poll.window=4", "twice"): {3: 1 / 3, 5: 2e9}}, {"code": "a: b"}
    )
    made.write(tmp_path / "results.csv")
    read = Results.read(tmp_path / "results.csv")
    assert (read.values, read.facts) == (made.values, {"code": "a: b"})
    assert read.by_seed("few", "poll", {"loss": 5, "poll.window": 4}, "twice") == {3: 0.33333333, 5: 2e9}
    (tmp_path / "results.csv").write_text("nothing\n")
    with pytest.raises(UserError, match="no results of a study"):
        Results.read(tmp_path / "results.csv")


SMALL = """
title = "A small study"

[runs.lines]
scenario = "short.toml"
layerings = ["poll", "lli"]
sweep = { "loss" = [0, 10] }
seeds = 3
why = "a test"

[runs.hub]
model = "hub"
layerings = ["ebt"]
sweep = { "peers" = [10], "delay_ms" = [0] }
seeds = 2
why = "a test"

[figures.trade]
title = "Latency over bytes"
runs = ["lines"]
x = "bytes_per_item"
y = "latency_p50"

[claims.all-comes]
page = "a-page"
text = "All comes"

[[claims.all-comes.expects]]
says = "by lli"
runs = "lines"
metric = "delivered_share"
of = "lli"
at = { loss = 0 }
test = "mean"
above = 99

[claims.dearer]
page = "a-page"
text = "EBT is dearer than the hub"

[[claims.dearer.expects]]
says = "live"
runs = "hub"
metric = "live-bytes"
of = "ebt"
at = { peers = 10, delay_ms = 0 }
test = "mean"
above = 0.1
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    short = (ROOT / "testbed/scenario/files/line.toml").read_text().replace("items = ", "items = 4 # ")
    (tmp_path / "short.toml").write_text(short)
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def typed(*words: object) -> Result:
    return CliRunner().invoke(feednet, ["study", *map(str, words)], catch_exceptions=False)


def kept(out: Path) -> dict[str, dict[str, Any]]:
    return {path.name: json.loads(path.read_bytes()) for path in (out / "cells").iterdir()}


def test_a_study_is_run_once_and_gives_what_the_runs_give(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = typed(small, "--out", out, "--jobs", 2)
    assert said.exit_code == 0, said.output
    assert "14 runs of 2 claims" in said.output
    assert "holds             all-comes: All comes" in said.output
    assert "holds             dearer" in said.output
    assert sorted(path.name for path in out.iterdir()) == ["cells", "figures", "lines", "small.csv"]
    drawn = {path.name for path in (out / "figures").iterdir()}
    assert drawn == {f"trade.{form}" for form in ("csv", "pdf", "png", "svg")}
    assert (out / "figures" / "trade.csv").read_text().count("\n") == 5
    assert {path.name for path in (out / "lines").iterdir()} >= {"study.html", "measures.parquet"}
    before = {path.name: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    results = (out / "small.csv").read_text()
    assert typed(small, "--out", out, "--jobs", 2).exit_code == 0
    assert {path.name: path.stat().st_mtime_ns for path in (out / "cells").iterdir()} == before
    assert (out / "small.csv").read_text() == results

    # The same by `feednet run`, of one of the runs.
    single = tmp_path / "single"
    words = ["run", str(small.with_name("short.toml")), "--net", "emulated", "--layering", "lli"]
    words += ["--seed", "2", "--loss", "10", "--out", str(single)]
    assert CliRunner().invoke(feednet, words, catch_exceptions=False).exit_code == 0
    from analysis.pipelines.run import read_comparison

    values = {row["metric"]: row["value"] for row in read_comparison(single) if row["value"] is not None}
    study, path = load(str(small))
    (same,) = (
        cell
        for cell in planned(study, path, 2, 2)
        if (cell.layering, cell.setting, cell.seed) == ("lli", {"loss": 10}, 2)
    )
    found = Store(out / "cells").get(same.key)
    assert found is not None
    assert found.values == pytest.approx(values)
    assert len(values) > 40


def test_a_study_that_is_stopped_goes_on(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_AT_ONCE", 4)
    study, path = load(str(small))
    every = [*planned(study, path, 1)]

    class Stopped(Exception):
        pass

    def stop(done: int, of: int, _: str) -> None:
        assert of == 14
        if done == 7:
            raise Stopped

    with pytest.raises(Stopped):
        running.run(study, every, tmp_path / "out", Means(), stop)
    assert len(kept(tmp_path / "out")) == 7
    done = []
    running.run(study, every, tmp_path / "out", Means(), lambda *told: done.append(told[0]))
    assert done == [*range(8, 15)]
    assert len(kept(tmp_path / "out")) == 14
    assert not (tmp_path / "out" / running.CAPTURES).exists()


@pytest.mark.spark
def test_runs_as_spark_tasks_give_the_same(small: Path, tmp_path: Path) -> None:
    study, path = load(str(small))
    rows = needed(study, ["all-comes"])
    cells = [*planned(study, path, 1, only=rows)]
    assert len(cells) == 3
    told: list[int] = []
    means = Means(engine="spark", master="local[2]", on_spark=True)
    spark = running.run(study, cells, tmp_path / "spark", means, lambda done, *_: told.append(done))
    here = running.run(study, cells, tmp_path / "here", Means(), lambda *_: None)
    assert told == [1, 2, 3]
    for key, kept_here in here.items():
        assert spark[key].values == pytest.approx(kept_here.values)


def test_a_cell_is_known_by_all_that_decides_it(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, path = load(str(small))

    def keys() -> set[str]:
        return {cell.key for cell in planned(study, path, 1)}

    first = keys()
    assert len(first) == 14
    assert first == keys()
    monkeypatch.setattr(keeping, "code_version", lambda: "another")
    assert not first & keys()
    monkeypatch.undo()
    scenario = small.with_name("short.toml")
    scenario.write_text(scenario.read_text().replace("items = 4", "items = 5"))
    assert len(first & keys()) == 2  # those of the model
    assert (
        len({cell.key for cell in planned(study, path, 2)} & keys()) == 9
    )  # seeds 2 and 3, and 2 of the model


@pytest.mark.parametrize(
    ("place", "decides"),
    [
        ("forwarder/tables/pit.py", True),
        ("topologies/networks/geant.conf", True),
        ("analysis/packet_schema.py", True),
        ("analysis/files.py", True),
        ("analysis/a_new_room/module.py", True),
        ("testbed/errors.py", True),
        ("testbed/a_new_module.py", True),
        ("analysis/report/run.py", False),
        ("testbed/study/decide.py", False),
        ("testbed/scenario/files/line.toml", False),  # counted where it is used
        ("forwarder/__pycache__/pit.pyc", False),
    ],
)
def test_the_version_of_code_is_that_of_what_is_measured(
    place: str, decides: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(text: str) -> str:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
        return provenance.code_version.__wrapped__()

    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    first = version("a")
    assert (version("b") != first) == decides
    assert version("a") == first


PAGES_ARE_WRITTEN_BY = {
    *(f"analysis/pipelines/{name}.py" for name in ("capture_page", "capture_summary", "captures", "compare")),
    "analysis/pipelines/run.py",
    "testbed/experiment/sweeps/sweep.py",
}


def test_what_counts_imports_nothing_that_does_not_but_to_write_pages() -> None:
    """All modules, also those that functions import."""
    known = {module_name(path): path for path in modules()}
    counted = {
        name
        for name, path in known.items()
        if name.partition(".")[0] in provenance._ROOMS and provenance.counts(str(path.relative_to(ROOT)))
    }
    assert len(counted) > 400
    found = {
        str(known[name].relative_to(ROOT))
        for name in counted
        if {*imported_modules(known[name], {*known})} - counted
    }
    assert found == PAGES_ARE_WRITTEN_BY


def test_a_model_is_known_by_its_whole_module(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, path = load(str(small))
    first = {cell.key for cell in planned(study, path, 1)}
    monkeypatch.setattr(inspect, "getsource", lambda module: f"another {module.__name__}")
    assert len(first - {cell.key for cell in planned(study, path, 1)}) == 2


def test_one_claim_is_made_again_with_other_seeds(small: Path, tmp_path: Path) -> None:
    assert typed(small, "--out", tmp_path / "out", "--keep").exit_code == 0
    assert (tmp_path / "small.csv").exists()
    said = typed(small, "--out", tmp_path / "out", "--only", "dearer", "--first-seed", 700)
    assert "2 runs of 1 claim" in said.output
    assert "side the kept interval: 1.1" in said.output
    assert len(kept(tmp_path / "out")) == 16


def test_a_claim_that_is_made_again_takes_its_place_among_the_kept_results(
    small: Path, tmp_path: Path
) -> None:
    """With all that its runs are needed for, so that a run's values are of one code."""
    results, out = tmp_path / "small.csv", tmp_path / "out"
    with pytest.raises(UserError, match="no results are kept yet"):
        typed(small, "--out", out, "--only", "dearer", "--keep")
    assert typed(small, "--out", out, "--keep").exit_code == 0
    whole = Results.read(results)
    runs = {row.runs for row in needed(load(str(small))[0], ["dearer"])}
    assert runs < {row.runs for row in whole.values}
    Results({row: dict.fromkeys(known, -1.0) for row, known in whole.values.items()}, {}).write(results)
    assert typed(small, "--out", out, "--only", "dearer", "--keep").exit_code == 0
    after = Results.read(results)
    assert [*after.values] == [*whole.values]
    for row, known in after.values.items():
        assert known == (whole.values[row] if row.runs in runs else dict.fromkeys(known, -1.0))
    assert after.facts.keys() == runs
    assert all(fact.startswith(f"code: {whole.facts['code']}; written: ") for fact in after.facts.values())


def test_the_study_of_the_document_is_one(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(# studies.toml\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "studies.toml").write_text(block)
    study, path = load(str(tmp_path / "studies.toml"))
    assert len([*planned(study, path, 1)]) == 80
    assert len(needed(study, study.claims)) == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "no such study; there are claims"),
        (["claims", "--only", "nothing"], "no claim of the study"),
        (["claims", "--keep", "--seeds", "2"], "the study's own seeds are kept"),
        (["claims", "--on-spark", "--jobs", "2"], "leave --jobs and --engine out"),
    ],
)
def test_mistakes_are_a_line(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        typed(*words)


def test_a_kept_cell_that_is_damaged_is_named(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert typed(small, "--out", out, "--only", "dearer").exit_code == 0
    path = next((out / "cells").iterdir())
    path.write_text("{")
    with pytest.raises(UserError, match=f"{path}: not what a study writes"):
        typed(small, "--out", out, "--only", "dearer")


def test_a_model_has_the_figures_that_it_names() -> None:
    settings: dict[str, dict[str, Any]] = {
        "hub": {"peers": 10, "delay_ms": 0},
        "deletion": {"deletion.ignored_percent": 10, "workload.items": 18},
    }
    for name, model in MODELS.items():
        for kind in model.kinds:
            assert model.play(kind, settings.get(name, {}), 1).keys() == model.metrics.keys()


def test_holders_are_counted_from_the_request_on() -> None:
    """The run ends an hour after the request, so later hours have the nodes that have a content then."""
    setting = {"deletion.ignored_percent": 30, "workload.items": 20}
    known = MODELS["deletion"].play("holes", setting, 1)
    assert known["holders-0h"] == 21, "the author, and every reader"
    assert 21 > known["holders-1h"] >= known["holders-2h"] == known["holders-24h"] >= 6


def test_a_model_is_run_again_when_its_scenario_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {"few": {"model": "deletion", "layerings": ["holes"]}}
    study = study_of({"of": "holes", "metric": "holders-1h", "test": "mean", "above": 1}, runs=runs)

    def keys() -> set[str]:
        return {cell.key for cell in planned(study, tmp_path, 1)}

    first = keys()
    assert first == keys()
    changed = tmp_path / "deletion.toml"
    changed.write_text("items = 5")
    monkeypatch.setattr("testbed.study.cells.library", lambda: {"deletion": changed})
    assert not first & keys()


@pytest.mark.parametrize("name", studies())
def test_the_results_of_the_library_are_whole(name: str) -> None:
    """Each claim has its figures, from as many seeds as the study says."""
    study, path = load(name)
    results = Results.read(results_path(path))
    rows = all_needed(study)
    assert [*results.values] == rows
    for row in rows:
        seeds = range(study.first_seed, study.first_seed + study.seeds_of(row.runs))
        assert results.values[row].keys() <= {*seeds}, row
    for key, claim in study.claims.items():
        for each in decide(study, results, key).found:
            assert each.effect is not None, f"{key}: {each.expected.says}: {each.why}"
            enough = study.seeds_of(each.expected.runs)
            assert each.effect.n == enough >= ENOUGH or study.why_of(each.expected.runs), key
        assert (ROOT / "docs" / f"{claim.page}.md").exists()


TABLED = {
    "title": "A study",
    "runs": {"few": {"scenario": "line", "layerings": ["poll", "lli"], "sweep": {"loss": [0, 5]}}},
    "claims": {
        "so": {"page": "p", "text": "So", "expects": [BASE | {"test": "mean", "above": 1, "at": {"loss": 0}}]}
    },
}


def tabled(**table: Any) -> StudySpec:
    return StudySpec.model_validate(TABLED | {"tables": {"t": {"runs": ["few"], **table}}})


def lines_of(study: StudySpec) -> list[str]:
    values = {"poll": (1.0, 2.0), "lli": (4.0, 4.0)}
    rows = {
        Row("few", layering, f"loss={loss}", metric): {1: low + loss, 2: high + loss}
        for layering, (low, high) in values.items()
        for loss in (0, 5)
        for metric in ("latency_p50", "bytes_per_item")
    }
    return [line for line in means(study, Results(rows, {}), "x", "t").splitlines() if line.startswith("|")]


def test_a_table_has_means_and_intervals() -> None:
    study = tabled(metrics=["latency_p50"], columns="layering", words={"loss=5": "bad links", "loss=0": ""})
    assert lines_of(study) == [
        "|  | `poll` | `lli` |",
        "|---|---|---|",
        "|  | 2 [-30, 33] | 4 |",
        "| bad links | 6 [-25, 38] | 9 |",
    ]


def test_a_table_has_a_row_for_all_that_columns_do_not_distinguish() -> None:
    words = {"latency_p50": "median", "bytes_per_item": "bytes"}
    _, _, *rows = lines_of(tabled(metrics=[*words], columns="loss", words=words))
    named = [row.removeprefix("| ").partition(" | ")[0] for row in rows]
    assert named == ["median, `poll`", "median, `lli`", "bytes, `poll`", "bytes, `lli`"]
    assert lines_of(tabled(metrics=[*words], words=words))[0] == "|  | median | bytes |"


def test_no_figure_of_a_table_takes_the_place_of_another() -> None:
    study = tabled(metrics=["latency_p50"], words={"loss=5": "links", "loss=0": "links"})
    with pytest.raises(UserError, match=r"^x: table t: two figures are '`poll`, links'"):
        lines_of(study)


def test_a_table_that_a_study_lacks_is_named() -> None:
    with pytest.raises(
        UserError, match=r"^claims: a document names the table 'nope', which the study lacks$"
    ):
        refreshed("<!-- table: claims nope -->\n\n<!-- end -->")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"metrics": ["nothing"]}, "tables.t: nothing"),
        ({"metrics": ["latency_p50"], "columns": "items"}, "tables.t: columns items"),
        ({"metrics": ["latency_p50"], "runs": ["many"]}, "tables.t: many"),
    ],
)
def test_mistakes_of_a_table_are_named(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tabled(**table)


def test_results_have_the_figures_of_tables() -> None:
    assert {row.metric for row in all_needed(tabled(metrics=["bytes_per_item"]))} >= {"bytes_per_item"}


PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_the_verdicts_of_the_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert refreshed(text) == text, "mend: python docs/generate.py"


def test_every_claim_is_on_its_page() -> None:
    for name in studies():
        study, _ = load(name)
        for page in {claim.page for claim in study.claims.values()}:
            text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
            assert f"<!-- study: {name} {page} -->" in text, page


def test_every_table_is_on_a_page() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    for name in studies():
        for each in load(name)[0].tables:
            assert f"<!-- table: {name} {each} -->" in texts, each


def test_the_program_that_renews_documents_renews_all() -> None:
    """docs/generate.py writes nothing where all is current."""
    before = {path: path.read_bytes() for path in PAGES}
    runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="__main__")
    assert {path: path.read_bytes() for path in PAGES} == before
