"""The report's words and drawings, from made-up tables; no Spark."""

import json
import re

import pytest
from handmade import MS, manifest

from analysis.compare import METRICS
from analysis.manifest import Manifest
from analysis.report import Tables, render
from analysis.report.findings import findings
from analysis.report.numbers import NARROW_SPACE, compared, pretty, with_unit
from analysis.report.topology import describe, draw


def made_manifest(**changes):
    run = {"start_ns": 0, "end_ns": 500 * MS, "sample_interval_ns": 5 * MS, "capture": {"frames": 10}}
    return Manifest.model_validate(manifest({"poll": run, "lli": run}) | changes)


def made_comparison(poll=2.0, lli=1.0, **values):
    rows = []
    for place, metric in enumerate(METRICS):
        usual = {"delivered": (3.0, 3.0), "delivered_share": (100.0, 100.0), "capture_drops": (0.0, 0.0)}
        pair = values.get(metric.key, usual.get(metric.key, (poll, lli)))
        for position, (layering, value) in enumerate(zip(("poll", "lli"), pair, strict=True)):
            ratio = value / pair[0] if position and pair[0] and value is not None else None
            rows.append(
                {
                    "row": place,
                    "metric": metric.key,
                    "title": metric.title,
                    "unit": metric.unit,
                    "better": metric.better,
                    "layering": layering,
                    "position": position,
                    "value": value,
                    "ratio": ratio,
                }
            )
    return rows


def made_tables(**changes):
    quantiles = [float(k * MS) for k in range(1, 202)]
    tables = Tables(
        comparison=made_comparison(),
        overhead=[
            {"layering": layering, "layer": layer, "bytes": size}
            for layering in ("poll", "lli")
            for layer, size in (("ethernet", 42), ("payload", 300))
        ],
        latency=[
            {"layering": layering, "node": node, "quantiles_ns": quantiles}
            for layering in ("poll", "lli")
            for node in ("s", "*")
        ],
        traffic=[{"layering": "poll", "kind": "interest", "frames": 3}],
        pit_summary=[
            {"layering": "poll", "node": node, "mean_entries": 1.0, "mean_bytes": 10.0} for node in "prs*"
        ],
        pit_curves=[
            {"layering": "poll", "node": node, "time": 10 * MS, "entries": 2, "bytes": 40} for node in "prs*"
        ],
        pit_truth=[
            {
                "layering": "poll",
                "samples": 100,
                "exact": 98,
                "agreeing": 99,
                "max_entries_difference": 1,
                "max_bytes_difference": 32,
            }
        ],
    )
    return tables._replace(**changes)


def figures(page):
    """Return the plots in a page by id."""
    found = re.findall(
        r'<div class="plot" id="([^"]+)"[^>]*>\s*<script type="application/json">(.*?)</script>',
        page,
        re.DOTALL,
    )
    return {name: json.loads(text) for name, text in found}


def test_numbers():
    assert [pretty(x) for x in (None, 0, 1.0, 12345.6, 33.912, 0.04256, 0.999, 99.96)] == [
        "–",
        "0",
        "1",
        f"12{NARROW_SPACE}346",
        "33.9",
        "0.0426",
        "0.999",
        "100.0",
    ]
    assert with_unit(2, "ms") == f"2{NARROW_SPACE}ms"
    assert with_unit(2, "") == "2"


@pytest.mark.parametrize(
    ("value", "base", "said"),
    [
        (1, 24.3, "24 times fewer"),
        (24.3, 1, "24 times more"),
        (95.2, 100, f"4.8{NARROW_SPACE}% fewer"),
        (110, 100, f"10{NARROW_SPACE}% more"),
        (5, 5, "the same"),
        (0, 5, "fewer"),
        (5, 0, "more"),
        (1, 1500, f"1{NARROW_SPACE}500 times fewer"),
    ],
)
def test_comparisons(value, base, said):
    assert compared(value, base, "fewer", "more") == said


def test_findings_name_both_figures_whichever_way_they_fall():
    for poll, lli, word in ((8.0, 2.0, "4 times fewer"), (2.0, 8.0, "4 times more")):
        told = findings(made_comparison(poll, lli), made_manifest())
        interests = next(t for t in told if "Interests" in t.lead)
        assert interests.lead == f"lli: {word} Interests."
        assert pretty(poll) in interests.text
        assert pretty(lli) in interests.text
    slower = findings(made_comparison(latency_p50=(10.0, 30.0)), made_manifest())
    assert "lli: 3 times higher median latency." in [t.lead for t in slower]


def test_findings_say_what_did_not_arrive_and_what_was_not_seen():
    whole = [t.text for t in findings(made_comparison(), made_manifest())]
    assert whole[0] == "Both layerings delivered all 3 items to all 1 subscribers."
    comparison = made_comparison(
        delivered=(3.0, 2.0), delivered_share=(100.0, 66.7), capture_drops=(0.0, 7.0)
    )
    told = [t.text for t in findings(comparison, made_manifest())]
    assert told[0] == "Of 3 deliveries expected, 3 under poll and 2 under lli took place."
    assert any(text.startswith("Latencies are those of items that arrived") for text in told)
    assert any(text.startswith(f"The capture of lli lost 7{NARROW_SPACE}frames") for text in told)


def test_findings_leave_out_what_is_unknown():
    told = findings(made_comparison(latency_p50=(None, 30.0)), made_manifest())
    assert not any("median" in t.lead for t in told)


def test_the_same_tables_make_the_same_page():
    assert render(made_manifest(), made_tables()) == render(made_manifest(), made_tables())


def test_plots_draw_what_the_tables_hold():
    plots = figures(render(made_manifest(), made_tables()))
    node = plots["pit-entries-r"]["data"]
    assert [(trace["name"], trace["line"]["shape"]) for trace in node] == [("poll", "hv"), ("lli", "hv")]
    assert (node[0]["x"], node[0]["y"]) == ([0, 0.01, 0.5], [0, 2, 2])
    assert (node[1]["x"], node[1]["y"]) == ([0, 0.5], [0, 0])
    assert plots["pit-bytes"]["data"][0]["y"] == [0, 40, 40]
    cdf = plots["latency-cdf"]["data"][0]
    assert (cdf["x"][0], cdf["y"][0], cdf["x"][-1], cdf["y"][-1]) == (1, 0, 201, 100)
    box = plots["latency-boxes"]["data"][0]
    assert (box["x"], box["median"], box["lowerfence"]) == (["s"], [101], [11])
    stack = {trace["name"]: trace["x"] for trace in plots["wire-bytes"]["data"]}
    assert stack == {"Ethernet": [14, 14], "message": [100, 100]}
    assert plots["wire-frames"]["data"][0]["x"] == [1, 0]


def test_a_layering_has_one_colour_everywhere():
    plots = figures(render(made_manifest(), made_tables()))
    colours = {}
    for name, plot in plots.items():
        for trace in plot["data"]:
            if "meta" in trace:
                colour = trace.get("line", trace.get("marker"))["color"]
                assert colours.setdefault(trace["meta"], colour) == colour, name
    assert colours == {0: "--layering-0", 1: "--layering-1"}


def test_every_colour_is_defined():
    page = render(made_manifest(), made_tables())
    style = page[page.index("<style>") : page.index("</style>")]
    used = set(re.findall(r'"(--[a-z0-9-]+)"', "".join(map(json.dumps, figures(page).values()))))
    assert used
    assert {name for name in used if f"{name}:" not in style} == set()


def test_a_large_network_shows_the_busiest_nodes():
    nodes = [{"name": f"n{k}", "role": "forwarder"} for k in range(40)]
    summary = [
        {"layering": "poll", "node": f"n{k}", "mean_entries": float(k), "mean_bytes": 1.0} for k in range(40)
    ]
    page = render(
        made_manifest(topology={"nodes": nodes, "links": []}),
        made_tables(pit_summary=summary, pit_curves=[]),
    )
    drawn = {name for name in figures(page) if name.startswith("pit-entries-")}
    assert drawn == {f"pit-entries-n{k}" for k in range(16, 40)}
    assert "The 16 nodes with the lowest means are not drawn" in page


def test_words_from_the_manifest_are_escaped():
    page = render(made_manifest(title="<b>&</script>"), made_tables())
    assert "<b>&</script>" not in page
    assert "&lt;b&gt;&amp;&lt;/script&gt;" in page


def test_the_page_says_where_it_ran_and_why():
    page = render(
        made_manifest(net="mininet", net_reason="Mininet can run here", impairment="relay"), made_tables()
    )
    assert "Mininet: real hosts and real UDP (Mininet can run here)" in page
    assert "the relay, in user space" in page
    assert "equal within 1 ms" in page
    assert "equal within 1 ms" not in render(made_manifest(), made_tables())


def test_nothing_delivered_still_makes_a_page():
    empty = made_comparison(delivered=(0.0, 0.0), bytes_per_item=(None, None), latency_p50=(None, None))
    page = render(made_manifest(), made_tables(comparison=empty, latency=[], overhead=[], traffic=[]))
    assert "wire-bytes" in figures(page)


def test_three_layerings_stand_side_by_side():
    third = [row | {"layering": "third", "position": 2} for row in made_comparison()[1::2]]
    three = made_manifest(layerings=["poll", "lli", "third"])
    three.runs["third"] = three.runs["lli"]
    page = render(three, made_tables(comparison=made_comparison() + third))
    assert "third / poll" in page
    assert "third: 2 times fewer Interests." in page
    assert "Every layering delivered all 3 items" in page
    assert [trace["name"] for trace in figures(page)["interests"]["data"]] == ["poll", "lli", "third"]


def test_the_drawing_puts_parents_beside_their_children():
    nodes = [("s2", "subscriber"), ("p", "publisher"), ("r", "forwarder"), ("s1", "subscriber")]
    topology = {
        "nodes": [{"name": name, "role": role} for name, role in nodes],
        "links": [{"a": "p", "b": "r"}, {"a": "r", "b": "s1"}, {"a": "r", "b": "s2"}],
    }
    drawing = draw(made_manifest(topology=topology))
    at = {node.name: (node.x, node.y) for node in drawing.nodes}
    assert at["p"][0] < at["r"][0] < at["s1"][0] == at["s2"][0]
    assert at["p"][1] == at["r"][1] == (at["s1"][1] + at["s2"][1]) / 2
    assert len(drawing.links) == 3
    assert all(0 < x < drawing.width and 0 < y < drawing.height for x, y in at.values())


def test_the_drawing_takes_loops_and_islands():
    topology = {
        "nodes": [{"name": name, "role": "forwarder"} for name in "abcd"],
        "links": [{"a": "a", "b": "b"}, {"a": "b", "b": "c"}, {"a": "c", "b": "a", "loss_percent": 5}],
    }
    drawing = draw(made_manifest(topology=topology))
    assert len({(node.x, node.y) for node in drawing.nodes}) == 4
    assert drawing.links_text == ""


def test_a_link_says_what_it_does():
    links = made_manifest(
        topology={
            "nodes": [{"name": "a", "role": "publisher"}],
            "links": [
                {
                    "a": "a",
                    "b": "b",
                    "bw_mbit": 10,
                    "delay_ms": 5,
                    "loss_percent": 1.5,
                    "jitter_ms": 2,
                    "max_queue_size": 100,
                },
                {"a": "a", "b": "b"},
            ],
        }
    ).topology.links
    assert [describe(link) for link in links] == [
        "10 Mbit/s, 5 ms delay, 2 ms jitter, 1.5 % loss, queue of 100 frames",
        "unlimited rate, 0 ms delay, no loss",
    ]
