"""Several runs beside each other: the study's numbers, its text and its page."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handmade import FEED_URI, TIMES, manifest
from test_report import figures

from analysis.errors import AnalysisError
from analysis.export.text import number, study_text
from analysis.metrics.study import EXTRA, Estimate, Origin, Point, Record, estimate, study
from analysis.pipelines.compare import compare_runs, read_sweep, records_of, write_sweep
from analysis.report.figures.plot import places
from analysis.report.study import render_study
from analysis.report.words.numbers import NARROW_SPACE
from analysis.report.words.sentences import plain as without_markup
from analysis.report.words.study import StudyWords, estimate_text
from analysis.run.keys import LOSS
from analysis.run.manifest import Question, Run
from analysis.run.settings import flattened, loss_of
from base.units import MS
from testbed.layerings.kinds.ndn import NDN_LAYERINGS as LAYERINGS


@pytest.fixture
def analyzed(tmp_path):
    """Make a run of some loss that has been analysed, with these frames per item under poll and lli."""

    def make(
        name: str, loss: float, frames: tuple[float | None, float | None], began: int = 0, **changes: object
    ) -> Run:
        turn = {key: value + began for key, value in TIMES.items()} | {"sample_interval_ns": MS}
        made = manifest({"poll": turn, "lli": turn}) | changes
        made["topology"]["links"][1]["loss_percent"] = loss
        directory: Path = tmp_path / name
        for layering in ("poll", "lli"):
            (directory / layering).mkdir(parents=True)
            for file in ("capture.pcapng", "events.jsonl", "counters.jsonl"):
                (directory / layering / file).touch()
        (directory / "manifest.json").write_text(json.dumps(made))
        run = Run(directory)
        run.tables.mkdir()
        rows = [
            {"metric": "frames_per_item", "layering": layering, "value": value}
            for layering, value in zip(("poll", "lli"), frames, strict=True)
            if layering in run.manifest.layerings
        ]
        pq.write_table(pa.Table.from_pylist(rows), run.comparison)
        return run

    return make


def plain(page):
    """Return a page with plain spaces."""
    return page.replace("\N{NO-BREAK SPACE}", " ").replace(NARROW_SPACE, " ")


def records(values, key="parameters.poll.window", layering="poll", metric="latency_p50"):
    """Return records from {point: values by seed}."""
    return [
        Record({key: point, "workload.items": 5}, seed, layering, {metric: value})
        for point, several in values.items()
        for seed, value in enumerate(several)
    ]


def test_an_estimate_is_a_mean_and_students_interval():
    # 1, 2, 3, 4: mean 2.5, deviation 1.2910, t(0.975, 3) = 3.1824: 2.5 +- 2.0543.
    got = estimate([1.0, 2.0, 3.0, 4.0])
    assert (got.mean, got.n) == (2.5, 4)
    assert got.half == pytest.approx(3.1824 * 1.2910 / 2, rel=1e-4)
    assert got.low == pytest.approx(2.5 - 2.0543, rel=1e-4)
    assert estimate([7.0]) == Estimate(7.0, None, None, 1)
    assert plain(estimate_text(got)) == "2.50 ± 2.1"
    assert (estimate_text(estimate([7.0])), estimate_text(None)) == ("7", "–")


def test_a_study_counts_what_repair_takes_from_the_least_loss_on(analyzed):
    runs = [
        analyzed("b", 20, (9.0, 5.0)),
        analyzed("a", 0, (4.0, 3.0)),
        analyzed("c", 20, (11.0, None), seed=2),
    ]
    assert [loss_of(run) for run in runs] == [20, 0, 20]
    got = study("handmade", "By hand", [record for run in runs for record in records_of(run)])
    assert (got.key, got.xs, got.layerings) == (LOSS, [0, 20], ["poll", "lli"])
    assert (got.runs, got.seeds) == (3, 2)
    at = Point(20)
    assert got.values["frames_per_item", "poll", at].mean == 10  # of two runs
    assert got.values["frames_per_item", "poll", at].n == 2
    assert got.values[EXTRA, "poll", at].mean == 6
    assert got.values[EXTRA, "lli", at].mean == 2
    assert got.values[EXTRA, "lli", Point(0)].mean == 0
    lossy = study("handmade", "By hand", [record for run in (runs[0], runs[2]) for record in records_of(run)])
    assert not any(metric == EXTRA for metric, _, _ in lossy.values)


def test_what_repair_takes_is_told_from_the_same_seed_and_without_noise():
    frames = records({0: (7.1, 7.3, 9.9), 5: (7.4, 7.6, 10.2)}, key=LOSS, metric="frames_per_item")
    got = study("s", "S", frames)
    assert got.values[EXTRA, "poll", Point(0)] == Estimate(0, 0, 0, 3)
    assert got.values[EXTRA, "poll", Point(5)].mean == pytest.approx(0.3)
    text = study_text(got)
    assert "  poll                                               0 ± 0  0.3 ± 0\n" in text
    assert "e-" not in text


def test_what_differs_is_found_whatever_it_is():
    by_window = study("s", "S", records({4: (1.0, 2.0), 8: (3.0,)}))
    assert (by_window.words.titled, by_window.xs, by_window.is_numeric) == (
        "window of poll, items",
        [4, 8],
        True,
    )
    assert by_window.values["latency_p50", "poll", Point(4)].n == 2
    by_seed = study("s", "S", records({4: (1.0, 2.0, 3.0)}))
    assert (by_seed.key, by_seed.points) == ("", [Point("")])
    assert by_seed.shared == {"parameters.poll.window": 4, "workload.items": 5}
    words = study("s", "S", records({"line": (1.0,), None: (2.0,)}, key="topology.generator"))
    assert (words.xs, words.is_numeric) == (["line", "none"], False)
    assert flattened({"a": {"b": {"c": 1}, "d": [2]}, "e": None}) == {"a.b.c": 1, "a.d": [2], "e": None}


def test_two_things_that_differ_are_an_axis_and_groups_with_numbers_in_their_order():
    got = study(
        "s",
        "S",
        [
            Record({"topology.depth": depth, "strategies./": name}, 1, "poll", {"latency_p50": 1.0})
            for depth, name in ((10, "asf"), (9, "asf"), (2, None), (9, None))
        ],
    )
    assert (got.words.what, got.xs) == ("depth of the tree", [2, 9, 10])
    asf, usual = "forwarding strategy asf", "forwarding strategy best-route"
    assert got.groups == [usual, asf]
    assert got.points == [Point(2, usual), Point(9, usual), Point(9, asf), Point(10, asf)]
    worded = study("s", "S", records({f"w{k}": (1.0,) for k in (10, 9, 100)}, key="name of it"))
    assert worded.xs == ["w9", "w10", "w100"]


def test_values_that_read_alike_are_kept_apart():
    long = "a" * 50
    got = study("s", "S", records({long + "b": (1.0,), long + "c": (3.0,)}, key="workload.feed"))
    assert len(got.points) == 2
    assert {value.n for value in got.values.values()} == {1}


def test_layerings_are_compared_seed_by_seed():
    # The seeds differ far more than the layerings: two intervals overlap, and yet lli is always 1 sooner.
    poll = records({4: (10.0, 20.0, 31.0)})
    lli = records({4: (9.0, 19.0, 29.9)}, layering="lli")
    got = study("s", "S", poll + lli)
    at = Point("")
    a, b = got.values["latency_p50", "lli", at], got.values["latency_p50", "poll", at]
    assert a.high > b.low
    assert got.difference("latency_p50", "lli", "poll", at).high < 0
    # 1, 1 and 1.1: mean 1.0333, deviation 0.0577, t(0.975, 2) = 4.3027: 1.0333 +- 0.1434, of 19.3.
    told = (
        "Lowest under lli: 19.3 ms. Next: poll, 20.3 (5.4 % more; "
        "confidence interval 4.6 % to 6.1 %, 3 seeds)."
    )
    assert told in plain(without_markup(render_study(got)))
    chance = study("s", "S", poll + records({4: (9.0, 21.0, 29.9)}, layering="lli"))
    assert "may be chance." in without_markup(render_study(chance))


def test_runs_of_different_scenarios_and_a_run_alone_are_refused(analyzed, tmp_path):
    first = analyzed("a", 0, (4.0, 3.0))
    other = analyzed("b", 20, (9.0, 5.0), scenario="line")
    with pytest.raises(
        AnalysisError, match=r"/b: a run of line, not of handmade: compare runs of one scenario"
    ):
        compare_runs([first.directory, other.directory], tmp_path / "study.html")
    with pytest.raises(AnalysisError, match="there is nothing to compare it with: give several runs"):
        compare_runs([first.directory], tmp_path / "study.html")


def test_a_page_and_a_text_are_made_of_runs_that_have_been_analysed(analyzed, tmp_path):
    runs = [analyzed("a", 0, (4.0, 3.0)), analyzed("b", 5, (4.5, 3.25))]
    said: list[str] = []
    got = compare_runs([run.directory for run in runs], tmp_path / "study.html", progress=said.append)
    assert said == []  # nothing was left to analyse
    page = (tmp_path / "study.html").read_text()
    assert page == render_study(got)
    plot = figures(page)[f"study-{EXTRA}"]
    assert [(trace["x"], trace["y"]) for trace in plot["data"]] == [([0, 5], [0, 0.5]), ([0, 5], [0, 0.25])]
    assert "no confidence intervals" in page
    assert "<dd>emulated: virtual time</dd>" in page
    assert "<dd>feednet 0.1.0</dd>" in page
    assert study_text(got).endswith(
        "Packets spent on repair, per delivered item, frames  0 %   5 %\n"
        "  poll                                                 0   0.5\n"
        "  lli                                                  0  0.25\n"
    )


def test_terms_are_explained_where_they_stand():
    page = render_study(study("line", "Line", records({0: (10.0,)}, metric="pit_entries_mean")))
    assert '<abbr title="Pending Interest Table' in page


@pytest.mark.parametrize(
    ("commands", "hint"),
    [
        (
            ["feednet run line --loss 5 --strategy asf"],
            "feednet run line --loss 5 --strategy asf --repeat 10",
        ),
        (
            ["feednet run line", "feednet run line --loss 5"],
            "The commands above with <code>--repeat 10</code>",
        ),
        ([""], None),
    ],
)
def test_the_hint_to_repeat_has_all_that_was_given(commands, hint):
    origins = [Origin(command, "", {}) for command in commands]
    page = render_study(study("line", "Line", records({0: (10.0,)}))._replace(origins=origins))
    assert "no confidence intervals" in page
    assert hint in page if hint else "--repeat 10" not in page


def test_repeated_runs_are_drawn_with_their_intervals():
    got = study("s", "S", records({0: (10.0, 12.0), 5: (20.0, 30.0)}, key=LOSS))
    page = plain(render_study(got))
    band, mean = figures(page)["study-latency_p50"]["data"]
    assert (mean["x"], mean["y"]) == ([0, 5], [11, 25])
    assert [row[2] for row in mean["customdata"]] == [2, 2]
    assert (band["fill"], band["x"]) == ("toself", [0, 5, 5, 0])
    assert band["y"][1] == pytest.approx(mean["customdata"][1][1])
    assert band["meta"] == mean["meta"] == places(["poll"])["poll"]
    assert "95% confidence interval" in page
    assert "11.0 ± 12.7 " not in page  # half widths have two digits
    assert "±" in study_text(got)
    alone = figures(render_study(study("s", "S", records({4: (10.0, 12.0)}))))["study-latency_p50"]["data"]
    assert [trace["error_x"]["array"] for trace in alone] == [[pytest.approx(12.706, abs=0.01)]]


def test_what_did_not_arrive_is_told():
    whole = records({0: (100.0, 100.0), 5: (100.0, 90.0)}, key=LOSS, metric="delivered_share")
    page = plain(without_markup(render_study(study("s", "S", whole))))
    assert "Lowest: poll 95 ± 64 % at 5 %." in page
    assert "Those with a star are not compared: poll at 5 % (delivered 95 %)." in page
    assert "<strong>Everything arrived.</strong>" in render_study(study("s", "S", whole[:2]))


def test_a_sweep_is_read_as_it_was_written(tmp_path):
    written = records({0: (10.0, 12.0), 5: (20.0,)}, key=LOSS)
    origin = Origin("feednet run line --repeat 2", "2026-11-22T10:00:00+00:00", {"feednet": "1.2.3"})
    write_sweep(tmp_path, "line", "Line", origin, written)
    *told, read = read_sweep(tmp_path)
    assert told == ["line", "Line", origin]
    assert [record._replace(source="") for record in read] == written
    got = compare_runs([tmp_path], tmp_path / "study.html")
    assert (got.scenario, got.xs) == ("line", [0, 5])
    page = (tmp_path / "study.html").read_text()
    for said in ("feednet run line --repeat 2</code>", "2026-11-22 10:00:00 UTC", "feednet 1.2.3"):
        assert said in page
    (tmp_path / "measures.parquet").unlink()
    with pytest.raises(AnalysisError, match="not the directory of a sweep that has ended"):
        compare_runs([tmp_path], tmp_path / "study.html")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (1234.56, "1235"),
        (0.04256, "0.04256"),
        (100.0, "100"),
        (1.599e-15, "0"),
        (-1.599e-15, "0"),
        (0.0000425, "0.0000425"),
        (999.99, "1000"),
        (123456789.0, "123456789"),
    ],
)
def test_numbers_in_text(value, text):
    assert number(value) == text


def test_the_feed_of_a_manifest_is_the_one_that_the_packets_name():
    assert manifest({})["workload"]["feeds"][0]["feed"] == FEED_URI


def test_runs_of_another_network_are_not_pooled(analyzed, tmp_path):
    mininet = analyzed("mininet", 5, (9.0, 5.0), began=7, net="mininet", impairment="relay", seed=1)
    emulated = analyzed("emulated", 5, (4.0, 3.0), seed=7)
    got = compare_runs([mininet.directory, emulated.directory], tmp_path / "study.html")
    assert (got.key, got.xs) == ("net", ["emulator", "Mininet (relay)"])
    told = {point.x: value for (_, layering, point), value in got.values.items() if layering == "poll"}
    assert told == {"emulator": estimate([4.0]), "Mininet (relay)": estimate([9.0])}
    assert "Not all settings ran with the same seeds" in (tmp_path / "study.html").read_text()


def test_mininet_runs_with_one_seed_are_repetitions(analyzed, tmp_path):
    runs = [
        analyzed(f"run{k}", 5, (float(k), k - 0.5), net="mininet", impairment="relay", began=k * MS)
        for k in (3, 1, 2)
    ]
    got = compare_runs([run.directory for run in runs], tmp_path / "study.html")
    (poll,) = [value for (_, layering, _), value in got.values.items() if layering == "poll"]
    assert (poll.mean, poll.n, got.runs, got.seeds) == (2, 3, 3, 1)
    assert got.difference("frames_per_item", "poll", "lli", Point("")).mean == 0.5
    page = (tmp_path / "study.html").read_text()
    assert "Mininet: real hosts and real UDP; links impaired by the relay" in page
    assert "what differs between them is the machine’s doing" in page


def test_a_run_that_is_given_twice_is_no_repetition(analyzed, tmp_path):
    first = analyzed("a", 5, (4.0, 3.0), net="mininet", began=MS)
    with pytest.raises(AnalysisError, match="there is nothing to compare it with"):
        compare_runs([first.directory, first.directory], tmp_path / "study.html")


def test_runs_that_only_their_code_can_tell_apart_are_set_side_by_side(analyzed, tmp_path):
    before, after = analyzed("before", 5, (4.0, 3.0)), analyzed("after", 5, (4.5, 3.0))
    got = compare_runs([before.directory, after.directory], tmp_path / "study.html")
    assert got.words.what == "directory"
    assert sorted(x.rpartition("/")[2] for x in got.xs) == ["after", "before"]
    assert {value.n for value in got.values.values()} == {1}


def test_layerings_of_different_runs_are_set_beside_each_other(analyzed):
    parameters = {"poll": {"window": 4}}, {"lli": {"credit": 64}}
    one, two = (
        analyzed(name, 5, (4.0, 3.0), layerings=[name], parameters=own)
        for name, own in zip(("poll", "lli"), parameters, strict=True)
    )
    got = study("handmade", "", [*records_of(one), *records_of(two)])
    assert (got.key, got.layerings) == ("", ["poll", "lli"])


def test_what_is_about_words_has_no_lines():
    got = study("s", "S", records(dict.fromkeys(("asf", "multicast"), (1.0, 2.0)), key="strategies./"))
    page = render_study(got)
    (marks,) = figures(page)["study-latency_p50"]["data"]
    assert (marks["mode"], marks["y"]) == ("markers", ["asf", "multicast"])
    assert "forwarding strategy: asf, multicast" in page
    assert "strategies./" not in page


@pytest.mark.parametrize(
    ("values", "x", "y"),
    [
        ({1: (10.0,), 10: (12.0,)}, "linear", None),
        ({1: (10.0,), 4: (11.0,), 64: (1200.0,)}, "log", "log"),
        ({0: (10.0,), 64: (12.0,)}, "linear", None),
    ],
)
def test_axes_are_logarithmic_where_values_are_far_apart(values, x, y):
    layout = figures(render_study(study("s", "S", records(values))))["study-latency_p50"]["layout"]
    assert (layout["xaxis"]["type"], layout["yaxis"].get("type")) == (x, y)
    assert ("(logarithmic)" in layout["xaxis"]["title"]["text"]) == (x == "log")
    if y is None:
        assert layout["yaxis"]["range"][0] == 0


def many(points=(0, 5), seeds=3, **changes):
    """Return records of nine layerings, of which the k-th takes 5 k ms more, and bytes the other way."""
    return [
        Record(
            {LOSS: point} | changes,
            seed,
            name,
            {
                "latency_p50": 100 + 5 * place + point + seed,
                "latency_p99": 300.0 - place,
                "bytes_per_item": 1000 - 10 * place + seed,
                "interests_network": 1 + place / 10,
                "pit_bytes_mean": 50 + place + (point if name == "pull" else 0),
                "pit_entries_mean": 2.0,
                "first_item_p50": 7 + place / 2,
                "recovery_max": 70 + place,
                "fairness": 0.5 + place / 100,
                "delivered_share": 100.0,
            },
        )
        for point in points
        for seed in range(seeds)
        for place, name in enumerate(LAYERINGS)
    ]


def test_of_many_layerings_each_has_its_band_in_a_plot_of_its_own():
    page = render_study(study("s", "S", many()))
    drawn = figures(page)
    assert not [trace for trace in drawn["study-latency_p50"]["data"] if trace.get("fill")]
    panels = {name: spec for name, spec in drawn.items() if name.startswith("panel-")}
    assert len(panels) == 10
    for spec in panels.values():
        assert len([trace for trace in spec["data"] if trace.get("fill")]) == 1
        assert len([trace for trace in spec["data"] if trace["line"].get("color") == "--rule"]) == 9
    ranges = {tuple(spec["layout"]["yaxis"]["range"]) for spec in panels.values()}
    assert len(ranges) == 1  # all on one scale
    assert page.count('<figure data-panel="') == 10
    few = figures(render_study(study("s", "S", many()[:2] + many()[10:12])))
    assert not [name for name in few if name.startswith("panel-")]


def findings(compared):
    return StudyWords(compared).findings()


def said(told):
    """Return findings as plain text."""
    return [plain(without_markup(f"{finding.lead} {finding.text}")) for finding in told]


def test_findings_answer_the_question_at_each_point():
    asked = Question(text="Which?", metrics=["bytes_per_item", "latency_p50"])
    records_of_few = [record for record in many() if record.layering in ("pull", "poll", "lli-selective")]
    got = study("s", "S", records_of_few, [Origin("", "", {}, asked.model_dump())])
    told = said(findings(got))
    page = render_study(got)
    assert "<h2>Which?</h2>" in page
    assert '<p class="headline">' not in page  # none is best in both
    one = asked.model_copy(update={"metrics": ["latency_p50"]}).model_dump()
    page = render_study(study("s", "S", records_of_few, [Origin("", "", {}, one)]))
    assert "Best, or equal to the best: pull at 2 of 2 settings" in without_markup(page)
    assert told[0].startswith("Everything arrived.")
    assert told[1].startswith("Bytes on the wire, per delivered item: At 0 and 5 % (figures: 5 %): ")
    assert re.search(r"\d % (more|less); confidence interval [\d.]+ % to [\d.]+ %, 3 seeds", told[1])
    assert told[2].startswith("Latency, publish or join to delivery, median: ")
    assert len(findings(study("s", "S", many()))) <= 7


def test_a_difference_of_less_than_what_matters_is_none():
    same = records({4: (100.0, 100.0)}) + records({4: (101.0, 101.0)}, layering="lli")
    [only] = said(findings(study("s", "S", same)))
    assert only == "Latency, publish or join to delivery, median: Equal under poll and lli: 100 to 101 ms."
    more = records({4: (100.0, 100.0)}) + records({4: (110.0, 110.0)}, layering="lli")
    [only] = said(findings(study("s", "S", more)))
    assert (
        "Lowest under poll: 100 ms. Next: lli, 110 (10 % more; confidence interval 10 % to 10 %, 2 seeds)."
        in only
    )
    unclear = records({4: (100.0, 140.0)}) + records({4: (150.0, 100.0)}, layering="lli")
    assert "The difference from lli (125) may be chance." in said(findings(study("s", "S", unclear)))[0]


def test_what_did_not_deliver_is_compared_with_nothing():
    poll = [
        Record({"workload.items": 5}, seed, "poll", {"latency_p50": 1.0, "delivered_share": 60.0})
        for seed in (1, 2)
    ]
    others = [
        record._replace(layering=name, values={"latency_p50": value, "delivered_share": 100.0})
        for record in poll
        for name, value in (("lli", 20.0), ("sync", 30.0))
    ]
    told = said(findings(study("s", "S", poll + others)))
    assert told[0].startswith("Only lli and sync delivered everything.")
    assert "Lowest under lli: 20 ms. Next: sync, 30 " in told[1]


def test_the_emulator_and_mininet_are_compared_over_the_seeds_that_both_ran_with():
    emulated = records({"emulator": (10.0, 30.0)}, key="net")
    mininet = records({"Mininet (relay)": (15.0,)}, key="net")
    again = [mininet[0]._replace(began_ns=5, values={"latency_p50": 25.0})]
    told = findings(study("s", "S", emulated + mininet + again))
    assert said(told) == [
        "Median latency, Mininet (relay) against emulator: poll 2 times more (20 ms, not 10 ms)."
    ]


def test_with_two_networks_each_plot_offers_both_and_findings_stay_short():
    other = many(net="Mininet (relay)")
    got = study("s", "S", many(net="emulator") + other)
    assert got.groups == ["emulator", "Mininet (relay)"]
    drawn = figures(render_study(got))
    assert set(drawn["study-latency_p50"]["variants"]) == {"emulator", "Mininet (relay)"}
    lines = [trace for trace in drawn["panel-0"]["data"] if not trace.get("fill")]
    assert [trace["name"] for trace in lines] == ["poll, emulator", "poll, Mininet (relay)"]
    assert len({trace["line"]["dash"] for trace in lines}) == 2
    assert max(len(finding.lead) for finding in findings(got)) < 100


def test_what_did_not_keep_up_is_starred_and_named():
    def run(loss, layering, **more):
        return Record({LOSS: loss}, 1, layering, {"latency_p50": 10.0, "delivered_share": 100.0} | more)

    got = study(
        "line", "Line", [run(0, "poll"), run(5, "poll", fell_behind=1.0), run(0, "lli"), run(5, "lli")]
    )
    page = render_study(got)
    assert page.count('<td class="number starred">10</td>') == 1
    assert "poll at 5 % (fell behind)." in plain(without_markup(page))
    assert re.search(r"^  poll +10  10\*$", study_text(got), re.MULTILINE)
