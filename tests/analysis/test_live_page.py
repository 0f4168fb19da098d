"""The page of `feednet watch`: its plots hold what was counted, and a browser takes in its news."""

import json
from functools import partial
from types import SimpleNamespace

import pytest
from browser import CHROMIUM, Browser
from handmade import lli, poll, write_capture
from test_live import followed, rows_of

from analysis.live.capture import LiveCapture
from analysis.live.query import FileGrowth, reported_batches
from analysis.report.live import NODE_COLUMNS, Presentation, figures, live_page, node_rows, update_script

SHOWN = Presentation(
    ["p", "s", "r"], {"p-eth0": "p to r", "r-eth0": "r to p", "r-eth1": "r to s", "s-eth0": "s to r"}, True
)


@pytest.fixture
def captures(tmp_path):
    found = {}
    for name, story in {"poll": poll, "lli": lli}.items():
        write_capture(tmp_path / name, story())
        found[name] = followed([rows_of(tmp_path / name)])
        found[name].name = name
    return found


def state_of(captures, current, phase, updated=1):
    return {
        "phase": phase,
        "headline": f"{phase} <b> & {updated}",
        "facts": [["Frames captured", str(updated)]],
        "links": [{"text": "The report", "href": "x/report.html"}],
        "noun": "Layerings",
        "columns": ["Layering", "Frames"],
        "captures": [
            {
                "name": name,
                "version": capture.frames,
                "cells": [name, str(capture.frames)],
                "nodes": node_rows(capture, SHOWN),
                "figures": {item.id: item.spec for item in figures(capture, SHOWN)},
            }
            for name, capture in captures.items()
        ],
        "current": current,
        "notes": [],
        "updated_ms": updated,
    }


def test_plots_hold_what_was_counted(captures):
    packets, pit, load, progress = figures(captures["poll"], SHOWN)
    width = captures["poll"].slices.width / 1e9
    sent = sum(frames for (_, way, _, _), (frames, _) in captures["poll"].loads.items() if way == "out")
    assert sum(sum(trace["y"]) * width for trace in packets.spec["data"]) == pytest.approx(sent)
    for key, variant in pit.spec["variants"].items():
        of, what = key.split("|")
        place = ["entries", "bytes", "ranges", "credit"].index(what)
        (trace,) = variant["data"]
        if of == "whole network":
            assert max(trace["y"]) == captures["poll"].peaks["*"][place]
            continue
        assert trace["y"] == ["p", "s", "r"]
        assert (trace["zmin"], trace["zmax"]) == (0, max(map(max, trace["z"])) or 1)
        assert [max(row) for row in trace["z"]] == [
            captures["poll"].peaks[name][place] for name in trace["y"]
        ]
    assert load.spec["data"][0]["y"] == ["p to r", "r to p", "r to s", "s to r"]
    assert [row[-1] for row in progress.spec["data"][0]["z"]] == [3, 3, 3]
    rows = node_rows(captures["poll"], SHOWN)
    assert [row[:4] for row in rows[:3]] == [[node, "1", "3", "0"] for node in "psr"]
    assert len(rows[0]) == len(NODE_COLUMNS)


def test_every_node_of_the_run_is_shown(captures):
    """Those too that have not sent or received anything yet, and however many there are."""
    nodes = [*SHOWN.nodes, *(f"n{k}" for k in range(40))]
    shown = SHOWN._replace(nodes=nodes)
    _, pit, _, progress = figures(captures["poll"], shown)
    assert pit.spec["data"][0]["y"] == progress.spec["data"][0]["y"] == nodes
    assert max(map(max, pit.spec["data"][0]["z"][3:])) == 0
    rows = node_rows(captures["poll"], shown)
    assert [row[0] for row in rows] == [*nodes, "whole network"]
    assert rows[-2] == ["n39", "–", "–", "–", "0", "0"]


def test_a_capture_without_frames_has_plots_too():
    assert all(json.dumps(item.spec, allow_nan=False) for item in figures(LiveCapture("x"), Presentation()))


def test_when_a_byte_was_written():
    growth = FileGrowth()
    for now, size in ((1.0, 0), (2.0, 100), (3.0, 100), (4.0, 250)):
        growth.record_size(now, size)
    assert [growth.written_after(at) for at in (0, 99, 100, 249, 250)] == [1.0, 1.0, 3.0, 3.0, None]
    assert (growth.size, growth.changed) == (250, 4.0)


@pytest.mark.parametrize("form", [dict, lambda told: SimpleNamespace(json=json.dumps(told))])
@pytest.mark.parametrize("order", [1, -1])
def test_reports_that_nothing_happens_have_the_end_of_the_last_batch(form, order):
    """As Spark 4.3 tells them: under the number of the next batch."""

    def report(number, start, end, **durations):
        source = {"startOffset": start and {"a": {"at": start}}, "endOffset": {"a": {"at": end}}}
        return form({"batchId": number, "durationMs": {"latestOffset": 1, **durations}, "sources": [source]})

    reports = [report(0, None, 30, addBatch=5), report(1, 30, 30), report(1, 30, 50, addBatch=5)]
    found = list(reported_batches(reports[::order]))
    ends = [{"a": {"at": at}} for at in (30, 30, 50)]
    assert found == [(0, {}, ends[0]), (1, ends[1], ends[1]), (1, ends[1], ends[2])][::order]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian, Ubuntu: apt install chromium)")
def test_a_browser_takes_in_news_and_leaves_the_reader_where_he_is(tmp_path, captures):
    browser = Browser(tmp_path)
    nothing = {"poll": LiveCapture("poll"), "lli": LiveCapture("lli")}
    feed = tmp_path / "x.live.js"
    feed.write_text(update_script(state_of(captures | {"lli": nothing["lli"]}, 0, "running", 2)))
    make = partial(live_page, "x", "A <title>", feed.name, shown=SHOWN)
    looked = """
      await until(() => text("headline") === "running <b> & 2");
      const plot = (id) => page.plots.find((item) => item.element.id === id);
      const before = [text("headline"), plot("pit").element.data[0].y.length];
      const buttons = [...document.querySelectorAll("nav button")];
      choose('select[data-plot="pit"]', "whole network");
      feednetLive({ ...news.state, updated_ms: 9, headline: "later", phase: "over" });
      return [...before, document.title, plot("pit").element.data.map((trace) => trace.name),
        buttons.map((each) => [each.getAttribute("aria-pressed"), each.disabled]),
        text("table-nodes").includes("whole network"), document.getElementById("silent").hidden];
    """
    told = browser.probe(make(state=state_of(nothing, 0, "waiting")), looked)
    assert told == [
        "running <b> & 2",
        3,
        "later – feednet",
        ["whole network"],
        [["true", False], ["false", True]],
        True,
        True,
    ]
    chosen = (
        'document.querySelectorAll("nav button")[0].click(); return [news.chosen, text("table-captures")];'
    )
    told = browser.probe(make(state=state_of(captures, 1, "over", 3)), chosen)
    assert told[0] == 0
    assert str(captures["poll"].frames) in told[1]
    assert browser.said == []
