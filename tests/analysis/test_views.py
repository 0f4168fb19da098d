"""Views of an application: what a late message changes, by hand, by a model in pandas, and in a run."""

import json
from types import SimpleNamespace

import pandas_model
import pyarrow as pa
import pytest
from short_runs import emulate
from test_short_runs import differences

from analysis.metrics import views
from analysis.pipelines.run import measure_cases
from analysis.run.context import RUNS, Case
from forwarder.wire.name import to_uri
from ssb.applications.tangles import Insertion, Tangle
from ssb.export import entry_line
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.naming import log_name

ANN, BEN = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2))
MS = 1_000_000


def posts():
    """A root of Ann's at 0 ms, Ben's answer at 10 ms, Ann's to the root at 20 ms, Ben's to that at 5 ms."""
    root = Message.create(ANN, None, {"type": "post", "text": "root"}, 0)

    def answer(author, tip, to, time):
        return Message.create(author, tip, {"type": "post", "root": root.id, "branch": to.id}, time)

    first = answer(BEN, None, root, 10)
    second = answer(ANN, root, root, 20)
    return root, first, second, answer(BEN, first, second, 5)


@pytest.fixture
def case(tmp_path):
    """A run of which only the posts, the readers and the times are known."""
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b"".join(entry_line(post, 0) for post in posts()))
    turn = SimpleNamespace(start_ns=0)
    load = SimpleNamespace(application="threads", expected={"a": 2, "b": 2, "c": 4})
    manifest = SimpleNamespace(workload=load, runs={"n": turn})
    return Case(SimpleNamespace(feeds=path, manifest=manifest), "n")


def told(*events):
    """Events as (time in ms, node, event, post)."""
    rows = [
        {
            "layering": "n",
            "line": line,
            "time": time * MS,
            "node": node,
            "event": event,
            "feed": to_uri(log_name(post.author)),
            "seq": post.sequence,
        }
        for line, (time, node, event, post) in enumerate(events)
    ]
    return pa.Table.from_pylist(rows)


def test_a_late_post_moves_what_was_shown_behind_it(case):
    root, first, second, last = posts()
    events = told(
        (1, "a", "published", root),
        (1, "a", "published", root),  # a starts anew
        (2, "c", "delivered", root),
        (3, "b", "published", first),
        (4, "a", "published", second),
        (6, "c", "delivered", second),
        (7, "b", "published", last),
        (8, "c", "delivered", last),
        (9, "c", "delivered", first),  # before both of these, which c has had for 3 and 1 ms
        (9, "c", "delivered", first),
        (9, "nobody", "delivered", first),
        (10, "a", "joined", first),
        (11, "a", "delivered", first),  # before the second, of 4 ms
        (12, "b", "delivered", root),  # before all of b's, the oldest of 3 ms
        (12, "b", "delivered", second),  # between those, and after the root that came at the same instant
        (13, "a", "delivered", last),
    )
    taken = views.views({"n": case}, events)
    rows = [
        tuple(row[name] for name in ("node", "own", "moved", "reordered", "late_ns"))
        for row in taken.to_pylist()
    ]
    assert rows == [
        ("a", True, 0, 0, None),
        ("c", False, 0, 0, None),
        ("b", True, 0, 0, None),
        ("a", True, 0, 0, None),
        ("c", False, 0, 0, None),
        ("b", True, 0, 0, None),
        ("c", False, 0, 0, None),
        ("c", False, 2, 0, 3 * MS),
        ("a", False, 1, 0, 7 * MS),
        ("b", False, 2, 0, 9 * MS),
        ("b", False, 1, 0, 5 * MS),
        ("a", False, 0, 0, None),
    ]
    differing = views.differences(taken, {"n": case})
    assert [(row["time"] // MS, row["unequal"]) for row in differing.to_pylist()] == [
        *((0, 0), (1, 2), (2, 2), (3, 2), (4, 3), (6, 2), (7, 2), (8, 3), (9, 3), (11, 3), (12, 2), (13, 0)),
    ]
    run = {"layering": "n", "from_ns": 1 * MS, "until_ns": 7 * MS}
    found = views.totals(taken, differing, pa.Table.from_pylist([run], RUNS))["n"]
    assert found == {
        "view_changed_share": 50.0,  # 4 of 8 that came
        "view_reordered_share": 0.0,
        "view_moved_p50": 1.5,
        "view_moved_max": 2,
        "view_late_p50": 6.0,
        "view_late_max": 9.0,
        "view_unequal_mean": pytest.approx(100 * (2 + 2 + 2 + 3 * 2 + 2) / (3 * 6)),
        "view_unequal_end": 0.0,
        "view_settled": 6.0,
        "view_orders": 0,
    }


def test_a_reduce_that_depends_on_the_order_of_arrival_is_found(case, monkeypatch):
    """Posts that stand in the order in which they came are a view of each reader's own."""

    def append(tangle, message):
        tangle.order.append(message)
        return len(tangle.order) - 1, 0

    monkeypatch.setattr(Tangle, "add", lambda tangle, message: Insertion(*append(tangle, message)))
    root, first, second, _ = posts()
    events = told(
        *((time, "a", "delivered", post) for time, post in enumerate((root, first, second))),
        *((time, "b", "delivered", post) for time, post in enumerate((root, second, first), 4)),
    )
    taken = views.views({"n": case}, events)
    runs = pa.Table.from_pylist([{"layering": "n", "from_ns": 0, "until_ns": 9 * MS}], RUNS)
    found = views.totals(taken, views.differences(taken, {"n": case}), runs)["n"]
    assert (found["view_orders"], found["view_settled"]) == (1, None)
    assert found["view_unequal_end"] == 100.0  # c has nothing


def test_a_run_without_an_application_has_no_views(case):
    case.manifest.workload.application = ""
    taken = views.views({"n": case}, told((1, "a", "published", posts()[0])))
    assert taken.schema == views.VIEWS
    assert views.totals(taken, views.differences(taken, {}), RUNS.empty_table()) == {}


@pytest.mark.spark
def test_the_views_of_a_run(tmp_path):
    """The same logs give the same view, whatever brings them; of few feeds each reader has its own."""
    runs = {
        follows: emulate(
            tmp_path / str(follows),
            "chat",
            layerings=("ssb", "lli"),
            items=40,
            changes={"workload.follows": follows, "workload.schedule.idle_limit_ms": 800.0},
        )
        for follows in (2, 7)
    }
    cases = {
        f"{layering} {number}": Case(run, layering)
        for number, run in runs.items()
        for layering in ("ssb", "lli")
    }
    rows = measure_cases(cases, tmp_path / "tables", engine="sail").to_pylist()
    found = {row["layering"]: row for row in rows}
    assert {row["delivered_share"] for row in rows} == {100.0}
    for layering in ("ssb", "lli"):
        few, all_ = found[f"{layering} 2"], found[f"{layering} 7"]
        assert all_["view_changed_share"] > 5
        assert all_["view_unequal_mean"] > all_["view_unequal_end"] == 0
        assert all_["view_settled"] is not None
        assert few["view_unequal_end"] > 50
        assert few["view_settled"] is None
        assert few["view_orders"] == all_["view_orders"] == 0
    for number, run in runs.items():
        model = pandas_model.Model(run.directory, "lli").views()
        assert differences(found[f"lli {number}"], model, list(pandas_model.VIEWS)) == {}
        manifest = json.loads((run.directory / "manifest.json").read_text())
        assert manifest["workload"]["application"] == "threads"


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["likes", "gatherings", "chess"])
def test_the_views_of_another_application(tmp_path, kind):
    """Late messages correct what was shown; in the end all see the same; and the model agrees."""
    changes = {"workload.application.kind": kind, "workload.schedule.idle_limit_ms": 1500.0}
    run = emulate(tmp_path / kind, "chat", layerings=("poll", "lli"), items=120, changes=changes)
    cases = {layering: Case(run, layering) for layering in ("poll", "lli")}
    rows = measure_cases(cases, tmp_path / "tables", engine="sail").to_pylist()
    assert {row["delivered_share"] for row in rows} == {100.0}
    for row in rows:
        if kind != "chess":  # where moves wait for those before them
            assert row["view_changed_share"] > 0
            assert row["view_late_max"] >= row["view_late_p50"] > 0
        assert row["view_unequal_mean"] > row["view_unequal_end"] == 0
        assert row["view_settled"] is not None
        assert row["view_reordered_share"] is None
        assert row["view_orders"] == 0
        model = pandas_model.Model(run.directory, row["layering"]).views()
        assert differences(row, model, list(pandas_model.VIEWS)) == {}
