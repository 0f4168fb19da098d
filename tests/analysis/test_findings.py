"""Claims, and the sentences made of them, from made-up tables; no Spark."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from handmade import FEED_URI
from markupsafe import Markup
from test_report import (
    DELIVERIES,
    made_comparison,
    made_manifest,
    made_tables,
    wide_comparison,
    wide_manifest,
)

from analysis.metrics.catalogue import BY_KEY
from analysis.metrics.claims import Samples, Verdict
from analysis.metrics.run.incidents import errors, forks
from analysis.report.run import render
from analysis.report.words.findings import Outcome, findings
from analysis.report.words.numbers import NARROW_SPACE
from analysis.report.words.sentences import SENTENCES, capital, joined, plain, say
from analysis.run.manifest import Question
from analysis.tables.collected import Tables
from base.units import MS

ROOT = Path(__file__).parents[2]
FOUR = ["pull", "poll", "lli", "sync"]


def samples_of(comparison, layerings=("poll", "lli"), **question):
    asked = Question(**({"text": "Which?", "metrics": ["latency_p50", "bytes_per_item"]} | question))
    return Samples.of_run(comparison, layerings, asked)


def found(comparison, made=None, *, keeping_up=(), latency=None, incidents=(), deliveries=None):
    made = made or made_manifest()
    got = pa.Table.from_pylist([], DELIVERIES) if deliveries is None else deliveries
    reported = [*errors(incidents, made)]
    forked = [*forks(Tables({"incidents": list(incidents), "latency": got}), made)]
    outcome = Outcome(
        keeping_up,
        latency or made_latency(made),
        reported,
        forked,
        lambda node: [row for row in got.to_pylist() if row["node"] == node],
    )
    return findings(samples_of(comparison, made.layerings), made, outcome)


def made_latency(made, **lacks):
    return [
        {"layering": x, "node": node, "deliveries": n - lacks.get(x, 0)}
        for x in made.layerings
        for node, n in made.workload.expected.items()
    ]


def texts(told):
    """Return headline, measures and findings as plain text with plain spaces."""
    every = [told.headline, *(f"{f.lead} {f.text}" for f in (*told.measures, *told.sentences))]
    return [plain(text).replace(NARROW_SPACE, " ").replace("\N{NO-BREAK SPACE}", " ") for text in every]


def test_the_answer_names_the_best_and_the_next_whichever_way_they_fall():
    for poll, lli, best, other in ((8.0, 2.0, "lli", "poll"), (2.0, 8.0, "poll", "lli")):
        said = texts(found(made_comparison(poll, lli, bytes_per_item=(poll, lli))))
        assert said[0] == f"Best, or equal to the best, in all 2 measures: {best}."
        assert said[1] == (
            f"Latency, publish or join to delivery, median: Lowest under {best}: 2 ms. "
            f"Next: {other}, 8 (4 times as much)."
        )


def test_a_scenario_s_question_decides_on_metrics_and_directions():
    asked = {"metrics": ["forked", "twice"], "direction": {"forked": "higher"}}
    samples = samples_of(made_comparison(forked=(1.0, 3.0), twice=(0.0, 2.0)), **asked)
    forked, twice = (samples.ranking(metric) for metric in samples.measures)
    assert (forked.better, forked.leaders, forked.next.verdict) == ("higher", ["lli"], Verdict.BETTER)
    assert (twice.leaders, twice.next.worse) == (["poll"], float("inf"))


def test_a_layering_without_a_value_is_named():
    comparison = [
        row | {"value": None} if (row["metric"], row["layering"]) == ("bytes_per_item", "poll") else row
        for row in made_comparison(8.0, 2.0, bytes_per_item=(8.0, 2.0))
    ]
    assert texts(found(comparison))[2].endswith("2 bytes under lli. No value for poll.")


def test_the_price_of_an_answer_names_the_tail():
    said = texts(found(made_comparison(8.0, 2.0, latency_p95=(10.0, 40.0))))
    assert any("95th percentile of latency 40 ms (best: poll, 10)" in text for text in said)


def test_a_difference_within_what_matters_is_none():
    pair = made_comparison(1.0, 1.0, latency_p50=(10.0, 10.4))
    assert texts(found(pair))[0] == "The layerings are equal in median latency and bytes per item."
    strict = samples_of(pair, difference={"latency_p50": 0.01})
    assert strict.ranking(BY_KEY["latency_p50"]).leaders == ["poll"]
    assert samples_of(made_comparison(delivered_share=(99.0, 100.0))).ranking(
        BY_KEY["delivered_share"]
    ).leaders == ["lli"]


@pytest.mark.parametrize(
    ("lli", "verdict"),
    [
        ([8.0, 8.2, 7.9, 8.1], Verdict.BETTER),
        ([10.0, 10.1, 9.9, 10.05], Verdict.EQUAL),
        ([5.0, 14.0, 6.0, 12.0], Verdict.UNKNOWN),
    ],
)
def test_over_seeds_a_verdict_takes_an_interval(lli, verdict):
    samples = {
        ("latency_p50", name): {(seed, 0): value for seed, value in enumerate(values)}
        for name, values in (("poll", [10.0, 10.1, 9.9, 10.0]), ("lli", lli))
    }
    claim = Samples(["poll", "lli"], samples).claim(BY_KEY["latency_p50"], "lli", "poll", "lower")
    assert (claim.verdict, claim.n) == (verdict, 4)
    assert claim.low <= claim.worse <= claim.high


def test_seeds_that_agree_decide_where_a_few_large_values_make_the_interval_wide():
    lli = dict(enumerate([91.0, 66.0, 64.0, 104.0, 83.0, 91.0, 66.0, 73.0, 65.0, 65.0]))
    ssb = dict(enumerate([2118.0, 221.0, 239.0, 7362.0, 223.0, 387.0, 1356.0, 392.0, 888.0, 2377.0]))

    def claim(seeds):
        pair = {
            ("latency_p50", name): {(seed, 0): values[seed] for seed in range(seeds)}
            for name, values in (("ssb", ssb), ("lli", lli))
        }
        return Samples(["ssb", "lli"], pair).claim(BY_KEY["latency_p50"], "lli", "ssb", "lower")

    assert claim(10).low < 0
    assert (claim(10).verdict, claim(10).agree, claim(10).is_by_sign_test) == (Verdict.BETTER, 10, True)
    assert claim(6).verdict is Verdict.BETTER
    assert claim(5).verdict is Verdict.UNKNOWN
    ssb |= {1: 60.0, 2: 60.0}
    assert (claim(10).verdict, claim(10).agree) == (Verdict.UNKNOWN, 8)


def test_seeds_agree_only_on_what_matters():
    values = {"lli": [100.0] * 6, "poll": [100.1] * 5 + [200.0]}
    samples = {("latency_p50", name): {(k, 0): v for k, v in enumerate(own)} for name, own in values.items()}
    claim = Samples(["poll", "lli"], samples).claim(BY_KEY["latency_p50"], "lli", "poll", "lower")
    assert (claim.verdict, claim.agree) == (Verdict.UNKNOWN, 1)


def test_variants_that_do_the_same_have_one_name():
    names = ["pull", "lli", "lli-selective", "lli-go-back-n"]
    same = wide_comparison(names, latency_p50=(4.0, 2.0, 2.0, 2.01))
    samples = samples_of(same, names)
    assert samples.names == {"pull": ["pull"], "lli": names[1:]}
    apart = samples_of(wide_comparison(names, latency_p50=(4.0, 2.0, 2.0, 2.5)), names)
    assert apart.names == {
        "pull": ["pull"],
        "lli": ["lli", "lli-selective"],
        "lli-go-back-n": ["lli-go-back-n"],
    }
    notes = [plain(note) for note in found(same, wide_manifest(names)).notes]
    assert "lli stands for lli, lli-selective and lli-go-back-n, which do the same in this run." in notes


def test_layerings_that_lack_items_or_fell_behind_are_compared_on_deliveries_alone():
    comparison = wide_comparison(
        FOUR,
        fell_behind=(1.0, 0.0, 0.0, 0.0),
        delivered_share=(50.0, 100.0, 100.0, 90.0),
        latency_p50=(5.0, 30.0, 20.0, 20.1),
        bytes_per_item=(1.0, 9.0, 3.0, 1.0),
    )
    told = found(comparison, wide_manifest(FOUR))
    assert texts(told)[:3] == [
        "Best, or equal to the best, in all 2 measures: lli.",
        "Latency, publish or join to delivery, median: Lowest under lli: 20 ms. Next: poll, 30 (50 % more).",
        "Bytes on the wire, per delivered item: Lowest under lli: 3 bytes. Next: poll, 9 (3 times as much).",
    ]
    assert plain(told.left) == "* Compared by deliveries only: pull (fell behind); sync (delivered 90 %)."
    short = wide_comparison(FOUR, delivered_share=(50.0, 100.0, 60.0, 90.0))
    assert texts(found(short, wide_manifest(FOUR)))[0] == "Only poll delivered everything in time."
    none = wide_comparison(FOUR, delivered_share=(50.0, 60.0, 60.0, 90.0))
    assert texts(found(none, wide_manifest(FOUR)))[0].startswith("No layering delivered everything in time")


def test_what_nothing_beats_is_the_front():
    comparison = wide_comparison(
        FOUR, latency_p50=(40.0, 30.0, 20.0, 25.0), bytes_per_item=(1.0, 2.0, 3.0, 4.0)
    )
    samples = samples_of(comparison, FOUR)
    assert samples.front(("latency_p50", "bytes_per_item")) == ["lli", "poll", "pull"]
    said = texts(found(comparison, wide_manifest(FOUR)))
    assert (
        said[0] == "No layering is the best in every measure: lli in median latency; pull in bytes per item."
    )
    assert any("lli, poll and pull in median latency and bytes per item;" in text for text in said)


def test_what_the_answer_costs_is_set_against_the_baseline():
    said = texts(found(made_comparison(1.0, 1.0, latency_p50=(9.0, 3.0), state_bytes_mean=(1.0, 4.0))))
    assert "lli against the baseline poll: Better in 1 of " in said[-3]
    assert "worse in 1 (state bytes)" in said[-3]
    assert said[-2].startswith("Costs of lli: share delivered 100 %, equal to the best; ")
    assert "state bytes 4 (best: poll, 1)" in said[-2]


def test_if_nothing_went_wrong_the_page_says_so():
    said = texts(found(made_comparison()))
    assert any(
        text.startswith("Nothing went wrong. Each subscriber got all it expected, once and in order: 3 ")
        for text in said
    )


BEHIND = {
    "layering": "poll",
    "node": "s",
    "expected": 150,
    "delivered": 141,
    "waiting": 120,
    "at_last": 3,
    "quarters_ms": [2240.0, 8000.0, 14600.0, 19200.0],
    "correlation": 0.99,
    "fell_behind": True,
    "cut_off": True,
}


def test_what_went_wrong_comes_first_with_node_time_and_cause():
    made = made_manifest()
    faulty = made_comparison(
        fell_behind=(1.0, 0.0), delivered_share=(66.7, 100.0), twice=(0.0, 2.0), errors=(1.0, 0.0)
    )
    error = {"layering": "poll", "node": "s", "event": "error", "time": 250 * MS, "detail": "no-route"}
    came = [{"layering": "poll", "node": "s", "feed": FEED_URI, "seq": n} for n in (1, 3)]
    told = found(
        faulty,
        made,
        keeping_up=[BEHIND],
        latency=made_latency(made, poll=1),
        incidents=[error],
        deliveries=pa.Table.from_pylist(came, pa.schema(list(DELIVERIES)[:4])),
    )
    assert [text for text in texts(told)[3:] if "baseline" not in text][:5] == [
        "poll fell behind. At s under poll median latency grew from 2.24 s in the first quarter of the "
        "items to 19.2 s in the last; it would be higher in a longer run.",
        "Cut off by the end of the run: poll. Items still came just before subscriptions ended: 3 under "
        "poll. A longer run would deliver more.",
        "Items are missing. Missing of 3 expected deliveries: 1 under poll.",
        "Items were delivered twice. 2 items under lli.",
        "Errors were reported to applications. 1 error under poll. First under poll: no-route at s, "
        "250 ms into the run.",
    ]
    assert told.sentences[2].address == "#journey=poll/0/2/s"


def test_the_first_missing_item_is_one_that_was_due():
    late = [
        (x, n) for x, first in (("poll", 2), ("lli", 2)) for n in range(first, 4) if (x, n) != ("poll", 3)
    ]
    came = [{"layering": x, "node": "s", "feed": FEED_URI, "seq": n} for x, n in late]
    made = made_manifest()
    told = found(
        made_comparison(delivered_share=(50.0, 100.0)),
        latency=made_latency(made, poll=1),
        deliveries=pa.Table.from_pylist(came, pa.schema(list(DELIVERIES)[:4])),
    )
    [missing] = [each for each in told.sentences if each.lead == say("wrong.missing")]
    assert missing.address == "#journey=poll/0/3/s"  # nobody got item 1: the subscriber came after it


def test_subscribers_without_a_proof_of_the_fork_are_named():
    made = made_manifest(fork={"feed": FEED_URI, "publisher": "q", "after": 2})
    proof = {"layering": "lli", "node": "s", "event": "forked", "time": 250 * MS, "detail": None}
    said = texts(found(made_comparison(beyond_fork=(4.0, 0.0)), made, incidents=[proof]))
    assert "Items after the fork were accepted. Accepted after the fork: 4 items under poll." in said
    assert "Not every subscriber got a proof of the fork. Without a proof: s under poll." in said


def test_there_are_at_most_seven_findings_and_the_page_has_them():
    told = found(made_comparison())
    assert 3 <= len(told.sentences) <= 7
    page = render(made_manifest(), made_tables())
    assert re.search(r'<p class="headline">Best.*lli</bdi>', page)
    assert "Which" not in page
    asked = made_manifest(question={"text": "Which is sooner?", "metrics": ["latency_p50"]})
    assert "<h2>Which is sooner?</h2>" in render(asked, made_tables())


def test_captures_that_lost_frames_and_short_runs_are_noted():
    few = found(made_comparison(latency_p99=(None, None), capture_drops=(0.0, 7.0)))
    notes = [plain(note).replace(NARROW_SPACE, " ") for note in few.notes]
    assert notes[0].startswith("One run (seed 1):")
    assert "A percentile of the slowest hundredth needs 299 deliveries; no layering has more than 3." in notes
    assert "The capture of lli lost 7 frames: counts of packets are too low there." in notes


def test_sentences_fill_their_places_and_escape():
    for key, sentence in SENTENCES.items():
        example = dict(re.findall(r"\{(\w+): ([^}]*)\}", sentence))
        assert not re.search(r"\d", re.sub(r"\{.*?\}", "", sentence)), key
        assert "{" not in say(key, **example)
    assert "&lt;b&gt;" in say("measure.only", value="1", who="<b>")
    assert capital(Markup("<data>one</data>")) == "<data>One</data>"
    assert capital(Markup("<bdi>lli</bdi> is")) == "<bdi>lli</bdi> is"
    assert plain(joined(["a", "b", "c"])) == "a, b and c"


def test_the_document_has_every_sentence():
    written = (ROOT / "docs" / "sentences.md").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "analysis.report.words.sentences"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert made == written, "run python -m analysis.report.words.sentences > docs/sentences.md"


def test_variants_that_differ_in_deliveries_or_in_an_answer_have_names_of_their_own():
    once = {(0, 0): 100.0}
    less = {("delivered_share", "lli"): once, ("delivered_share", "lli-selective"): {(0, 0): 99.1}}
    assert Samples(["lli", "lli-selective"], less).names == {
        "lli": ["lli"],
        "lli-selective": ["lli-selective"],
    }
    use = {("link_use", "lli"): {(0, 0): 10.0}, ("link_use", "lli-selective"): {(0, 0): 90.0}}
    assert len(Samples(["lli", "lli-selective"], use).names) == 1
    asked = Question(text="?", metrics=["link_use"], direction={"link_use": "lower"})
    assert len(Samples(["lli", "lli-selective"], use, asked).names) == 2


def test_runs_without_common_seeds_show_nothing():
    latency = BY_KEY["latency_p50"]
    apart = {("latency_p50", "a"): {(1, 0): 10.0, (2, 0): 10.1}, ("latency_p50", "b"): {(3, 0): 12.0}}
    assert Samples(["a", "b"], apart).claim(latency, "a", "b", "lower").verdict is Verdict.UNKNOWN
    shared = {
        ("latency_p50", "a"): {(1, 0): 10.0, (2, 0): 100.0},
        ("latency_p50", "b"): {(1, 0): 12.0, (2, 0): 120.0, (3, 0): 1.0},
    }
    assert Samples(["a", "b"], shared).claim(latency, "a", "b", "lower").worse == pytest.approx(0.2)
