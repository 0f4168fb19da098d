"""The report's words and drawings, from made-up tables; no Spark."""

import json
import re

import pyarrow as pa
import pytest
from handmade import FEED_URI, TIMES, manifest

from analysis.columns.values import OUTCOMES
from analysis.export.text import headlines
from analysis.metrics.catalogue import METRICS
from analysis.report.figures.delay import latency_boxes
from analysis.report.figures.plot import COLOURS, DASHES, places
from analysis.report.figures.topology import draw, loads
from analysis.report.page import resource, unpacked
from analysis.report.run import render
from analysis.report.words.glossary import TERMS, explained
from analysis.report.words.numbers import NARROW_SPACE, compared, pretty, with_unit
from analysis.run.manifest import Manifest
from analysis.tables.collected import Tables
from analysis.tables.link_transits import TRANSITS
from base.units import MS
from testbed.layerings.registry import LAYERINGS


def made_manifest(**changes):
    run = {**TIMES, "sample_interval_ns": 5 * MS, "capture": {"frames": 10}}
    return Manifest.model_validate(manifest({"poll": run, "lli": run}) | changes)


def made_comparison(poll=2.0, lli=1.0, **values):
    rows = []
    for place, metric in enumerate(METRICS):
        usual = {"delivered": (3.0, 3.0), "delivered_share": (100.0, 100.0), "bytes_per_item": (114.0, 114.0)}
        faults = ("capture_drops", "twice", "out_of_order", "fell_behind", "cut_off", "errors")
        usual |= dict.fromkeys(faults, (0.0, 0.0))
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
                    "group": metric.group,
                    "axis": metric.axis,
                    "layering": layering,
                    "position": position,
                    "value": value,
                    "ratio": ratio,
                }
            )
    return rows


def link_frames(layering, sender, receiver, **changes):
    usual = {"frames": 200, "lost": 10, "loss_runs": 4, "arrived": 190, "overtook": 0, "twice": 19}
    usual |= {"set_lost": 8.0, "set_loss_runs": 2.0, "set_overtook": 19.0, "set_twice": 9.5}
    return {"layering": layering, "sender": sender, "receiver": receiver} | usual | changes


def made_tables(**changes):
    return Tables(usual_tables() | changes)


def usual_tables():
    quantiles = [float(k * MS) for k in range(1, 202)]
    return {
        "comparison": made_comparison(),
        "overhead": [
            {"layering": layering, "layer": layer, "bytes": size}
            for layering in ("poll", "lli")
            for layer, size in (("ethernet", 42), ("payload", 300))
        ],
        "latency_quantiles": [
            {"layering": layering, "node": node, "deliveries": 3, "quantiles_ns": quantiles}
            for layering in ("poll", "lli")
            for node in ("s", "*")
        ],
        "traffic": [{"layering": "poll", "protocol": "ndn", "kind": "interest", "frames": 3}],
        "state_kinds": [],
        "lookups": [],
        "crossings": [],
        "steps": [],
        "feed_hops": [],
        "ebt_connections": [],
        "ebt_modes": [],
        "tiny_commands": [],
        "causes": [],
        "holders": [],
        "views": [],
        "differences": [],
        "reach": [],
        "authors": [],
        "tiny_sent": [],
        "tiny_stored": [],
        "tiny_misbehaviour": [],
        "state_summary": [
            {"layering": "poll", "node": node, "mean_entries": 1.0, "mean_bytes": 10.0} for node in "prs*"
        ],
        "pit_lives": [
            {
                "layering": "poll",
                "node": node,
                "entries": 10,
                **dict.fromkeys(OUTCOMES, 0),
                "satisfied": 7,
                "expired": 2,
                "open": 1,
                "lifetimes_ns": [1.0 * MS, 2.0 * MS, 9.0 * MS],
            }
            for node in "prs*"
        ],
        "state_curves": [
            {"layering": "poll", "node": node, "time": 10 * MS, "entries": 2, "bytes": 40} for node in "prs*"
        ],
        "pit_truth_summary": [
            {
                "layering": "poll",
                "samples": 100,
                "exact": 98,
                "agreeing": 99,
                "max_entries_difference": 1,
                "max_bytes_difference": 32,
                "max_ranges_difference": 0,
                "max_credit_difference": 0,
                "max_satisfied_difference": None,
                "max_expired_difference": None,
            }
        ],
        "in_flight": [{"layering": "poll", "items": k, "entries": 2.0 * k} for k in (0, 1)],
        "recovery": [],
        "first_items": [],
        "faults": [],
        "incidents": [],
        "flows": [],
        "queue": [],
        "keeping_up": [],
        "sent_messages": [],
        "connections": [],
        "state_heat": [
            {"layering": "poll", "node": "r", "slice": k, "entries": 0.5 * k, "bytes": 8.0} for k in (0, 1)
        ],
        "link_load": [
            {
                "layering": "poll",
                "sender": "p",
                "receiver": "r",
                "slice": place,
                "kind": kind,
                "packets": 4,
                "lost": 1,
                "bytes": 1000,
            }
            for place, kind in ((0, "interest"), (1, "data"), (1, "interest"))
        ],
        "hop_delays": [
            {"layering": "poll", "sender": a, "receiver": b, "hops": 6, "quantiles_ns": quantiles}
            for a, b in (("p", "r"), ("*", "*"))
        ],
        "losses": [],
        "link_frames": [link_frames("poll", "p", "r"), link_frames("poll", "*", "*")],
        "journeys": crossed(),
        "latency": pa.Table.from_pylist([], DELIVERIES),
    }


DELIVERIES = pa.schema(
    [
        ("layering", pa.string()),
        ("node", pa.string()),
        ("feed", pa.string()),
        ("seq", pa.int64()),
        ("published", pa.int64()),
        ("delivered", pa.int64()),
    ]
)


def crossed(*rows):
    """Return transits from what each says of itself."""
    usual = dict.fromkeys(TRANSITS.names) | {"layering": "lli", "frame": 1, "frames": 1}
    return pa.Table.from_pylist([usual | row for row in rows] or [usual | {"kind": "idle"}]).slice(
        0, len(rows)
    )


def held(page):
    """Return what a page's scripts draw."""
    return json.loads(unpacked(re.search(r'<script type="text/plain" id="data">(.*?)</script>', page)[1]))


def figures(page):
    """Return the plots in a page by id; each has its place in it."""
    specs = held(page)["figures"]
    assert list(specs) == [] or set(re.findall(r'<div class="plot" id="([^"]+)"', page)) == set(specs)
    return specs


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


def test_too_few_samples_are_said_to_be_too_few():
    few = made_comparison(latency_p95=(None, None), latency_p99=(None, 7.0), fairness=(None, None))
    page = render(made_manifest(), made_tables(comparison=few))
    assert page.count('title="too few samples for a 95th percentile">too few</td>') == 2
    assert page.count('title="too few samples for a 99th percentile">too few</td>') == 1
    assert "Fairness between flows, Jain" not in page


def test_a_terminal_is_told_five_figures_of_each_layering():
    rows = made_comparison(
        delivered_share=(94.0, 100.0),
        latency_p50=(11234.5, 75.25),
        interests_network=(3.5, 0.02),
        state_bytes_mean=(3.9, 0.98),
        bytes_per_item=(None, 812.0),
        fell_behind=(1.0, 0.0),
    )
    assert headlines(rows) == (
        "      delivered  median latency  Interests            state     bytes\n"
        "              %              ms   per item  bytes of a node  per item\n"
        "poll         94          11234*        3.5              3.9         -\n"
        "lli         100           75.25       0.02             0.98       812\n"
        "* poll: fell behind\n"
    )


def test_state_is_shown_by_kind():
    of_kinds = {"state_bytes_pit": (7.0, None), "state_bytes_llis": (None, 9.0)}
    others = {metric.key: (None, None) for metric in METRICS if metric.key.startswith("state_bytes_")}
    kinds = [
        {"layering": "poll", "kind": "streams"}
        | dict.fromkeys(("mean_entries", "peak_entries", "mean_bytes", "peak_bytes"), 2)
    ]
    compared = made_comparison(**(others | of_kinds | {"state_bytes_mean": (7.0, 9.0)}))
    page = render(made_manifest(), made_tables(comparison=compared, state_kinds=kinds))
    rows = [
        (*re.findall("<th.*?>(.*?)</th>", row), *re.findall("<td.*?>(.*?)</td>", row))
        for row in page.split('id="table-comparison">')[1].split("</table>")[0].split("<tr")
    ]
    plain = [[re.sub("<.*?>", "", cell).strip() for cell in row[:2] + row[2:3]] for row in rows]
    place = plain.index(["State bytes, mean of a node bytes", "7", "9"])
    assert plain[place + 1 : place + 3] == [
        ["of which Interests that wait bytes", "7", "–"],
        ["of which long-lived Interests bytes", "–", "9"],
    ]
    assert {"state", "state-heat", "pit-lifetimes"} <= held(page)["figures"].keys()
    assert "<td>streams</td>" in page


def test_the_page_says_what_links_did_to_frames_beside_what_was_set():
    page = render(made_manifest(), made_tables())
    every, each = (page.split(f'id="table-{name}">')[1] for name in ("link-frames", "each-link"))
    figures = r'class="number">([\d.]+|–)</td><td class="number set">([\d.]+|–)</td>'
    for table in (every, each):
        found = re.findall(figures, table.partition("</table>")[0])
        assert found == [("5", "4"), ("2.50", "4"), ("0", "10"), ("10", "5")]
    assert "p to r" in each
    assert "p to r" not in every.partition("</table>")[0]
    nothing = dict.fromkeys(("frames", "lost", "loss_runs", "arrived", "set_lost", "set_loss_runs"), 0)
    page = render(made_manifest(), made_tables(link_frames=[link_frames("poll", "*", "*", **nothing)]))
    assert re.findall(figures, page) == [("–", "–")] * 4


def test_the_page_says_what_was_run():
    command = "feednet run line --loss 5 --strategy asf --net emulated"
    made = made_manifest(
        command=command,
        commit="0123456789ab",
        strategies={"/": "asf"},
        processor="2 × A fine processor",
        titles={"poll": "asking", "lli": "telling (RDR)"},
    )
    page = render(made, made_tables())
    facts = page[page.index('<dl class="facts">') : page.index("Method</h2>")]
    for said in (
        f"<code>{command}</code>",
        "asf for /",
        "2 × A fine processor",
        "feednet 0.1.0 (commit 0123456789ab)",
        "unlimited rate, 10 ms delay, no loss",
        f"500{NARROW_SPACE}ms a layering: 200{NARROW_SPACE}ms of publishing after 100{NARROW_SPACE}ms, ",
        f"150{NARROW_SPACE}ms to settle, 50{NARROW_SPACE}ms to drain",
    ):
        assert said in facts, said
    assert f"For confidence intervals, run ten seeds: <code>{command} --repeat 10</code>" in page
    assert "window 1" in page
    assert "--repeat" not in render(made_manifest(), made_tables())
    assert "best-route, as NFD has it" in render(made_manifest(), made_tables())


def test_the_page_says_that_the_state_of_another_forwarder_is_not_known():
    said = "r runs nfd, whose state is not known"
    assert said in render(made_manifest(forwarders={"r": "nfd"}), made_tables())
    assert "whose state is not known" not in render(made_manifest(), made_tables())


def test_terms_are_explained_where_they_stand():
    page = render(made_manifest(), made_tables())
    for term in ("PIT", "LLI", "CDF", "FeedState"):
        assert re.search(rf'<abbr title="{re.escape(TERMS[term])}">{term}s?</abbr>', page), term
    assert explained("<b>RDR</b> & PITs") == (
        f'&lt;b&gt;<abbr title="{TERMS["RDR"]}">RDR</abbr>&lt;/b&gt; &amp; '
        f'<abbr title="{TERMS["PIT"]}">PITs</abbr>'
    )
    assert explained("SPITE") == "SPITE"
    assert explained("under `lli` <") == "under <code>lli</code> &lt;"


def test_words_of_the_table_are_defined():
    page = render(made_manifest(), made_tables())
    method = page[page.index("Method</h2>") :]
    assert "<dt>Interests over a link, per credit window</dt>" in method
    assert "FeedState and the acknowledgements of links are not among them; frames and bytes count" in method


def wide_comparison(layerings, **values):
    """A comparison in which only the given metrics differ; values are in the order of the layerings."""
    rows = []
    for row in made_comparison(1.0, 1.0)[::2]:
        for place, layering in enumerate(layerings):
            value = values[row["metric"]][place] if row["metric"] in values else row["value"]
            rows.append(row | {"layering": layering, "position": place, "value": value})
    return rows


def wide_manifest(layerings):
    made = made_manifest(layerings=layerings)
    made.runs.update(dict.fromkeys(layerings, made.runs["lli"]))
    return made


def test_the_losses_of_links_are_drawn_with_their_n():
    losses = [
        LOSS,
        LOSS | {"seq": 3, "recovery_ns": 60 * MS},
        LOSS | {"layering": "poll", "recovery_ns": 400 * MS},
        LOSS | {"layering": "poll", "seq": 3, "recovery_ns": None},
    ]
    page = render(made_manifest(), made_tables(losses=losses))
    assert "n: poll 1, lli 2; not there by the end: poll 1." in page
    assert figures(page)["loss-cdf"]["data"][1]["x"][::200] == [40, 60]
    assert "loss-cdf" not in figures(render(made_manifest(), made_tables()))


def test_metrics_that_nobody_has_are_left_out():
    absent = dict.fromkeys(("recovery_max", "recovery_p50"), (None, None))
    page = render(made_manifest(), made_tables(comparison=made_comparison(**absent)))
    assert "Longest gap after a failure" not in page
    assert "Longest gap after a failure" in render(made_manifest(), made_tables())


NINE = ["pull", "poll", "long-lived", "persistent", "notify", "sync", "lli", "lli-go-back-n", "lli-selective"]


def nine_tables(**changes):
    usual = made_tables()
    return made_tables(
        comparison=wide_comparison(NINE),
        state_summary=[row | {"layering": x} for row in usual["state_summary"] for x in NINE],
        state_curves=[row | {"layering": x} for row in usual["state_curves"] for x in NINE],
        latency_quantiles=[row | {"layering": x} for row in usual["latency_quantiles"][:2] for x in NINE],
        **changes,
    )


def test_nine_layerings_are_told_apart_and_drawn_one_by_one():
    plots = figures(render(wide_manifest(NINE), nine_tables()))
    looks = {(t["line"]["color"], t["line"]["dash"]) for t in plots["state"]["data"]}
    assert len(looks) == 9
    assert [trace["y"] for trace in plots["latency-boxes"]["data"]] == [[layering] for layering in NINE]
    assert "lli / pull" not in render(wide_manifest(NINE), nine_tables())


def test_what_the_scenario_does_is_drawn_into_what_is_drawn_over_time():
    page = render(made_manifest(), made_tables())
    plots = figures(page)
    for name in ("state", "packets"):
        (mark,) = plots[name]["layout"]["shapes"]
        assert (mark["x0"], mark["x1"]) == (0.15, 0.15)
        assert [told["text"] for told in plots[name]["layout"]["annotations"]] == ["link-down r--s"]
    many = [{"time_ns": k * MS, "event": "restart", "node": "r"} for k in range(13)]
    crowded = figures(render(made_manifest(timeline=many), made_tables()))["state"]["layout"]
    assert len(crowded["shapes"]) == 13
    assert "annotations" not in crowded


def test_a_run_in_which_nothing_special_happened_has_no_section_for_it():
    quiet = render(made_manifest(timeline=[]), made_tables())
    assert "Events and faults" not in quiet
    assert "Sharing the busiest link" not in quiet
    page = render(
        made_manifest(timeline=[]),
        made_tables(
            faults=[
                {"layering": "lli", "node": "s", "twice": 0, "out_of_order": 0, "forked": 1, "errors": 0},
                {"layering": "poll", "node": "s", "twice": 0, "out_of_order": 0, "forked": 0, "errors": 0},
            ],
            first_items=[
                {"layering": "lli", "node": "s", "feed": "f", "joined": 0, "wait_ns": 5 * MS},
                {"layering": "lli", "node": "late", "feed": "f", "joined": 300 * MS, "wait_ns": 7 * MS},
                {"layering": "lli", "node": "late", "feed": "g", "joined": 300 * MS, "wait_ns": 9 * MS},
            ],
        ),
    )
    section = page[page.index("<h2>Events and faults") : page.index("<h2>Network and its load</h2>")]
    assert section.count('<tr><th scope="row">') == 2
    assert "0.3 s" in section
    assert '<td class="number">–</td><td class="number">9</td>' in re.sub(r"\s*\n\s*", "", section)


def test_recovery_throughput_and_queue_are_drawn():
    gaps = [
        {"layering": x, "time": 150 * MS, "event": "restart", "place": "r", "node": node, "gap_ns": gap * MS}
        for x, node, gap in (("poll", "s", 30), ("poll", "t", 50), ("lli", "s", 20))
    ]
    flows = [
        {"layering": "poll", "node": node, "feed": feed, "bytes_per_s": rate}
        for node, feed, rate in (("s", FEED_URI, 1000.0), ("t", "/cross", 500.0), ("u", FEED_URI, None))
    ]
    queue = [
        {"layering": "poll", "interface": "p-eth0", "time": t * MS, "queue_bytes": 1.0, "peak_bytes": 9.0 * t}
        for t in (0, 10)
    ]
    made = made_manifest()
    cross = {"feed": "/cross", "from": "p", "to": "t"}
    workload = made.workload.model_dump() | {"cross_traffic": [cross]}
    plots = figures(
        render(made_manifest(workload=workload), made_tables(recovery=gaps, flows=flows, queue=queue))
    )
    assert plots["recovery"]["data"][0]["y"] == ["restart r, 0.15 s"]
    assert [trace["x"] for trace in plots["recovery"]["data"]] == [[50], [20]]
    assert plots["throughput"]["data"][0]["y"] == ["s from p", "t from p, cross traffic"]
    assert plots["throughput"]["data"][0]["x"] == [8, 4]
    assert (plots["queue"]["data"][0]["x"], plots["queue"]["data"][0]["y"]) == ([0, 0.01], [0, 90])
    assert plots["in-flight"]["data"][0]["y"] == [0, 2]


def test_the_same_tables_make_the_same_page():
    assert render(made_manifest(), made_tables()) == render(made_manifest(), made_tables())


def test_plots_draw_what_the_tables_hold():
    plots = figures(render(made_manifest(), made_tables()))
    node = plots["state"]["variants"]["r|entries"]["data"]
    assert [(trace["name"], trace["line"]["shape"]) for trace in node] == [("poll", "hv"), ("lli", "hv")]
    assert (node[0]["x"], node[0]["y"]) == ([0, 0.01, 0.5], [0, 2, 2])
    assert (node[1]["x"], node[1]["y"]) == ([0, 0.5], [0, 0])
    assert plots["state"]["variants"]["whole network|bytes"]["data"][0]["y"] == [0, 40, 40]
    heat = plots["state-heat"]["variants"]["poll|entries"]["data"][0]
    assert (heat["y"], heat["x"]) == (["p", "r", "s"], [0.125, 0.375])
    # The other nodes were followed and had no entry.
    assert heat["z"] == [[0, 0], [0, 0.5], [0, 0]]
    assert (heat["zmin"], heat["zmax"]) == (0, 0.5)
    # Four Interests a quarter of a second; then four, and four Data.
    packets = plots["packets"]["variants"]["poll"]["data"]
    assert {trace["name"]: trace["y"] for trace in packets} == {"Interests": [16, 16], "Data": [0, 16]}
    assert plots["packets"]["variants"]["lli"]["data"] == []
    cdf = plots["latency-cdf"]["data"][0]
    assert (cdf["x"][0], cdf["y"][0], cdf["x"][-1], cdf["y"][-1]) == (1, 0, 201, 100)
    box = plots["latency-boxes"]["data"][0]
    assert (box["x"], box["median"], box["lowerfence"]) == (["s"], [101], [11])
    # 342 bytes at 114 a delivered item: three were delivered.
    stack = {trace["name"]: trace["x"] for trace in plots["wire-bytes"]["data"]}
    assert stack == {"Ethernet": [14, 14], "message": [100, 100], "each item once per link": [2, 1]}
    assert plots["wire-frames"]["data"][0]["x"] == [1, 0]


def test_a_layering_has_one_colour_everywhere():
    plots = figures(render(made_manifest(), made_tables()))
    colours = {}
    for name, plot in plots.items():
        for trace in [t for shown in (plot, *plot.get("variants", {}).values()) for t in shown["data"]]:
            if "meta" in trace:
                colour = trace.get("line", trace.get("marker"))["color"]
                assert colours.setdefault(trace["meta"], colour) == colour, name
    assert colours == {0: "--layering-0", 1: "--layering-1"}


def test_a_layering_has_the_same_colour_on_every_page():
    its = {
        name: [row for row in rows if row["layering"] == "lli"] if isinstance(rows, list) else rows
        for name, rows in usual_tables().items()
    }
    alone = render(made_manifest(layerings=["lli"]), made_tables(**its))
    both = figures(render(made_manifest(), made_tables()))["latency-cdf"]["data"]
    [only] = figures(alone)["latency-cdf"]["data"]
    assert (only["name"], only["meta"], only["line"]) == (both[1]["name"], both[1]["meta"], both[1]["line"])
    assert places(["b.pcap", "lli", "a.pcap"]) == {"b.pcap": 0, "lli": 1, "a.pcap": 2}
    own = places(list(LAYERINGS))
    assert sorted(own.values()) == list(range(len(LAYERINGS)))
    assert own == {layering: places([layering])[layering] for layering in LAYERINGS}
    assert len(set(places([f"n{k}" for k in range(30)]).values())) == 30


def test_every_colour_is_defined():
    page = render(made_manifest(), made_tables())
    style = page[page.index("<style>") : page.index("</style>")]
    used = set(re.findall(r'"(--[a-z0-9-]+)"', "".join(map(json.dumps, figures(page).values()))))
    assert used
    missing = {name for name in used if f"{name.removesuffix('-soft')}:" not in style}
    assert missing == {"--heat"}  # a scale: --heat-0 and so on
    assert all(f"--heat-{step}:" in style for step in range(4))


def test_a_large_network_shows_the_busiest_nodes():
    nodes = [{"name": f"n{k}", "role": "forwarder"} for k in range(40)]
    workload = made_manifest().workload.model_dump() | {"feeds": [], "expected": {}}
    summary = [
        {"layering": "poll", "node": f"n{k}", "mean_entries": float(k), "mean_bytes": 1.0} for k in range(40)
    ]
    names = [f"n{k}" for k in range(40)]
    heat = [
        {"layering": "poll", "node": name, "slice": 0, "entries": k, "bytes": 1}
        for k, name in enumerate(names)
    ]
    heat.append(heat[0] | {"slice": 1})
    page = render(
        made_manifest(topology={"nodes": nodes, "links": []}, workload=workload),
        made_tables(state_summary=summary, state_curves=[], state_heat=heat),
    )
    variants = figures(page)["state"]["variants"]
    band = "all nodes: median, 5 to 95 %"
    assert {key.partition("|")[0] for key in variants} == {"whole network", band, *names[16:]}
    shade, median = variants[f"{band}|entries"]["data"][:2]
    assert (median["y"], shade["y"]) == ([20, 0], [37, 0, 0, 2])
    assert "The 16 nodes with the lowest means cannot be chosen" in page


def test_of_one_node_none_is_hidden():
    nodes = [{"name": "r", "role": "forwarder"}]
    workload = made_manifest().workload.model_dump() | {"feeds": [], "expected": {}}
    summary = [{"layering": "poll", "node": "r", "mean_entries": 1.0, "mean_bytes": 1.0}]
    page = render(
        made_manifest(topology={"nodes": nodes, "links": []}, workload=workload),
        made_tables(state_summary=summary, state_curves=[]),
    )
    assert "cannot be chosen" not in page


def test_many_subscribers_are_bands_in_the_order_of_their_medians():
    nodes = [{"name": f"s{k}", "role": "subscriber"} for k in range(30)]
    quantiles = [
        {
            "layering": x,
            "node": f"s{k}",
            "deliveries": 3,
            "quantiles_ns": [(40 - k) * MS, (50 - k) * MS, 90 * MS],
        }
        for x in ("poll", "lli")
        for k in range(30)
    ]
    latency = usual_tables()["latency_quantiles"] + quantiles
    drawn = latency_boxes(latency, made_manifest(topology={"nodes": nodes, "links": []}))
    shade, median = drawn.spec["data"][:2]
    assert median["customdata"][:2] == [["s29"], ["s28"]]
    assert median["y"][:2] == [21, 22]
    assert shade["y"][:2] == [90, 90]
    assert shade["y"][-1] == 11


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
    page = render(
        made_manifest(), made_tables(comparison=empty, latency_quantiles=[], overhead=[], traffic=[])
    )
    assert "wire-bytes" in figures(page)


def test_three_layerings_stand_side_by_side():
    third = [row | {"layering": "third", "position": 2} for row in made_comparison()[1::2]]
    three = made_manifest(layerings=["poll", "lli", "third"])
    three.runs["third"] = three.runs["lli"]
    page = render(three, made_tables(comparison=made_comparison() + third))
    assert "third / poll" in page
    assert [trace["name"] for trace in figures(page)["wire-frames"]["data"]] == ["Interests"]


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
    assert len(drawing.links) == 6  # a line for each direction
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
    assert [link.describe() for link in links] == [
        "10 Mbit/s, 5 ms delay, 2 ms jitter, 1.5 % loss, queue of 100 frames",
        "unlimited rate, 0 ms delay, no loss",
    ]


def test_the_two_directions_of_a_link_keep_to_the_right():
    drawing = draw(made_manifest())
    there = next(lane for lane in drawing.links if (lane.sender, lane.receiver) == ("p", "r"))
    back = next(lane for lane in drawing.links if (lane.sender, lane.receiver) == ("r", "p"))
    assert there.x1 < there.x2
    assert back.x1 > back.x2
    assert there.y1 > back.y1  # downward on a screen is to the right of who looks to the right


def test_the_map_adds_up_what_crossed_each_link():
    made = made_manifest()
    tables = made_tables()
    drawing = draw(made)
    told = loads(drawing, tables["link_load"], tables["hop_delays"], made)
    place = next(k for k, link in enumerate(told["links"]) if (link["from"], link["to"]) == ("p", "r"))
    poll = told["layerings"]["poll"]
    assert (told["slices"], poll["seconds"]) == (2, 0.25)
    assert (poll["bytes"][place], poll["packets"][place], poll["lost"][place]) == (
        [1000, 2000],
        [4, 8],
        [1, 2],
    )
    assert poll["kinds"][place] == {"interest": 8, "data": 4}
    assert poll["hop_ms"][place] == 101
    assert [sum(slices) for slices in told["layerings"]["lli"]["bytes"]] == [0] * len(drawing.links)


def test_every_figure_can_be_saved_and_says_its_units():
    page = render(made_manifest(), made_tables(losses=[LOSS]))
    plots = figures(page)
    for name, plot in plots.items():
        for kind in ("csv", "svg"):
            assert f'data-save="{kind}" data-of="{name}"' in page
        assert len(plot["columns"]) >= 3, name
    for name in ("network", "journey"):
        assert f'data-save="csv" data-of="{name}"' in page
    assert plots["loss-cdf"]["columns"][1].endswith(", ms")
    assert plots["state"]["columns"][:2] == ["node", "State"]


LOSS = {
    "layering": "lli",
    "sender": "r",
    "receiver": "s",
    "feed": FEED_URI,
    "seq": 2,
    "lost": 210 * MS,
    "recovery_ns": 40 * MS,
}


def test_a_page_is_not_large():
    assert len(render(made_manifest(), made_tables())) < 2_200_000  # nearly all of it Plotly


LUMINANCE = (0.2126, 0.7152, 0.0722)


def luminance(colour):
    """Return the relative luminance of "#rrggbb" (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip(LUMINANCE, linear, strict=True))


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def themes():
    """Return the colours of the light and the dark theme by name."""
    css = resource("page.css")
    light, dark = (
        dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6});", part))
        for part in (css[: css.index("@media")], css[css.index("@media") : css.index("* {")])
    )
    return {"light": light, "dark": light | dark}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_paper(theme):
    colours = themes()[theme]
    for name in ("--ink", "--faint"):
        assert contrast(colours[name], colours["--paper"]) >= 4.5, name  # text, WCAG 1.4.3
        assert contrast(colours[name], colours["--raised"]) >= 4.5, name
    drawn = [name for name in colours if re.fullmatch(r"--(layering-\d+|line-[a-z]+)", name)]
    assert len(drawn) == COLOURS + 5
    for name in drawn:
        assert contrast(colours[name], colours["--paper"]) >= 3, name  # lines, WCAG 1.4.11


# Linear RGB as a person without red, green or blue cones sees it: Machado, Oliveira, Fernandes, IEEE TVCG
# 15(6), 2009.
SEEN = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.01182, 0.04294, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.3039),
    ),
}


def seen(colour, matrix):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    mixed = [sum(w * p for w, p in zip(row, linear, strict=True)) for row in matrix]
    return [max(0.0, min(1.0, part)) ** (1 / 2.2) for part in mixed]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("sight", SEEN)
def test_layerings_look_different_to_everybody(theme, sight):
    """Two layerings differ by colour, or else by their dashes."""
    colours = themes()[theme]
    looks = [(seen(colours[f"--layering-{k}"], SEEN[sight]), DASHES[k]) for k in range(COLOURS)]
    for k, (colour, dash) in enumerate(looks):
        for other, pattern in looks[:k]:
            apart = sum((a - b) ** 2 for a, b in zip(colour, other, strict=True)) ** 0.5
            assert apart > 0.12 or dash != pattern, (k, sight)


def test_control_messages_are_told_by_kind_whatever_the_protocol(plain_poll):
    ndn, over_tcp = {"layering": "lli", "protocol": "ndn"}, {"layering": "poll", "protocol": "plain-poll"}
    traffic = [ndn | {"kind": kind, "frames": n} for kind, n in (("lli", 6), ("idle", 3), ("data", 40))]
    traffic.append(over_tcp | {"kind": "segment", "frames": 90})
    counts = {"request": 9, "end": 6, "data": 40}
    messages = [over_tcp | {"kind": kind, "messages": count} for kind, count in counts.items()]
    page = render(made_manifest(), made_tables(traffic=traffic, sent_messages=messages))
    drawn = figures(page)["control"]["data"]
    bars = {bar["name"]: dict(zip(bar["y"], bar["x"], strict=True)) for bar in drawn}
    assert {name: {x: y for x, y in each.items() if y} for name, each in bars.items()} == {
        "LLIs": {"lli": 2},
        "FeedState, acknowledgements": {"lli": 1},
        "plain-poll: request": {"poll": 3},
        "plain-poll: end of an answer": {"poll": 2},
    }
    nothing = made_tables(traffic=[row for row in traffic if row["kind"] == "data"])
    assert "control" not in figures(render(made_manifest(), nothing))


def test_many_alike_nodes_are_drawn_as_one_with_the_mean_of_their_links():
    clients = [f"c{k}" for k in range(1, 21)]
    topology = {
        "nodes": [{"name": name, "role": "peer"} for name in (*clients, "odd")]
        + [{"name": "isp", "role": "forwarder"}],
        "links": [{"a": "isp", "b": name} for name in clients] + [{"a": "isp", "b": "odd", "delay_ms": 9}],
    }
    made = made_manifest(topology=topology)
    drawing = draw(made)
    assert {node.name for node in drawing.nodes} == {"isp", "odd", "c1..c20 (20)"}
    assert drawing.height < 150
    one = {"layering": "poll", "sender": "isp", "slice": 0, "kind": "data", "lost": 0}
    load = [one | {"receiver": name, "packets": 3, "bytes": 100} for name in (*clients[:10], "odd")]
    told = loads(drawing, load, [], made)
    at = {link["to"]: place for place, link in enumerate(told["links"]) if link["from"] == "isp"}
    poll = told["layerings"]["poll"]
    assert [poll["bytes"][at[name]] for name in ("odd", "c1..c20 (20)")] == [[100], [50]]
    assert poll["packets"][at["c1..c20 (20)"]] == [1.5]
    assert [told["links"][at[name]]["of"] for name in ("odd", "c1..c20 (20)")] == [1, 20]


def test_the_fork_is_shown_by_subscriber_with_the_time_of_its_proof():
    made = made_manifest(fork={"feed": FEED_URI, "publisher": "r", "after": 1})
    came = {"layering": "poll", "node": "s", "feed": FEED_URI, "published": 0}
    rows = [came | {"seq": n, "delivered": 200 * MS * n} for n in (1, 2)]
    proof = {"layering": "lli", "node": "s", "event": "forked", "time": 250 * MS, "detail": None}
    error = {"layering": "poll", "node": "s", "event": "error", "time": 300 * MS, "detail": "no-route"}
    tables = made_tables(latency=pa.Table.from_pylist(rows, DELIVERIES), incidents=[proof, error])
    page = render(made, tables)
    table = page.split('id="table-forks">')[1].partition("</table>")[0]
    assert re.findall(r'class="number">([^<]+)</td>', table) == ["1", "0.400", "–", "0", "–", "0.250"]
    table = page.split('id="table-errors">')[1].partition("</table>")[0]
    assert "<td>no-route</td>" in table
    assert re.findall(r'class="number">([^<]+)</td>', table) == ["1", "0.300"]
