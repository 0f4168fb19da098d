"""The pages in a real browser: no errors, menus that work, files that are saved, dark mode, a phone's width,
paper."""

import csv
import re
from io import StringIO
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from browser import CHROMIUM, Browser
from handmade import FEED_URI
from stock_peer import node_modules
from test_report import DELIVERIES, LOSS, crossed, made_manifest, made_tables
from test_report_capture import write_tables
from test_study import many, records

from analysis.metrics.study import study
from analysis.pipelines.capture_page import write_capture_report
from analysis.report.run import render
from analysis.report.study import render_study
from analysis.run.keys import LOSS as LINK_LOSS
from base.units import MS

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here (Debian, Ubuntu: apt install chromium)"
)


@pytest.fixture
def browser(tmp_path):
    opened = Browser(tmp_path)
    yield opened
    assert opened.said == []


def packet(sender, receiver, sent, received, kind, **said):
    about = {"sender": sender, "receiver": receiver, "sent": sent * MS, "kind": kind, "feed": FEED_URI}
    return about | {"received": None if received is None else received * MS, "frame_bytes": 100} | said


@pytest.fixture(scope="module")
def folded():
    """A page in which item 2 is lost between r and s under lli, and repaired."""
    packets = crossed(
        packet("s", "r", 0, 10, "lli", seq=1, send_credit=3),
        packet("r", "s", 11, 21, "idle", feed_tip=0, feed_limit=3),
        packet("p", "r", 100, 110, "data", seq=1),
        packet("r", "s", 110, 120, "data", seq=1),
        packet("p", "r", 200, 210, "data", seq=2),
        packet("r", "s", 210, None, "data", seq=2),
        packet("s", "r", 240, 250, "lli", seq=2, send_credit=1),
        packet("r", "s", 250, 260, "data", seq=2),
        packet("s", "r", 90, 100, "interest", seq=1, layering="poll"),
        packet("r", "s", 110, 120, "nack", seq=1, layering="poll", nack_reason=150),
    )
    delivered = [(1, 100, 120), (2, 200, 260)]
    deliveries = [
        {"layering": "lli", "node": "s", "feed": FEED_URI, "seq": n, "published": a * MS, "delivered": b * MS}
        for n, a, b in delivered
    ]
    tables = made_tables(
        journeys=packets.sort_by([("layering", "ascending"), ("sent", "ascending")]),
        latency=pa.Table.from_pylist(deliveries, DELIVERIES),
        losses=[LOSS],
    )
    question = {"text": "Which is sooner?", "metrics": ["latency_p50", "delivered_share"]}
    return render(made_manifest(question=question), tables)


@pytest.fixture(scope="module")
def page(folded):
    """The same with all its parts open."""
    return folded.replace('<details class="part"', '<details class="part" open')


FOLDED = """
const drawn = () => [...document.querySelectorAll(".plot.js-plotly-plot")].map((element) => element.id);
const answer = document.getElementById("answer-latency-p50");
const first = [drawn(), document.documentElement.scrollHeight, answer.getBoundingClientRect().top];
location.hash = "#wire";
await until(() => document.getElementById("wire").open && drawn().includes("wire-bytes"));
const second = drawn();
location.hash = "#journey=lli/0/2/s";
await until(() => document.querySelectorAll("#journey .arrow").length > 0);
return { first, second, open: [...document.querySelectorAll("details.part[open]")].map((part) => part.id),
  told: document.getElementById("journey-told").textContent };
"""


def test_the_answer_is_on_the_first_screen_and_parts_are_drawn_when_they_are_opened(browser, folded):
    got = browser.probe(folded, FOLDED, width=1400)
    drawn, height, top = got["first"]
    assert drawn == ["answer-latency-p50", "answer-delivered-share"]
    assert height <= 8 * 900
    assert top < 700
    assert {"wire-bytes", "wire-frames"} <= {*got["second"]}
    assert "state" not in got["second"]
    assert got["open"] == ["item", "wire"]
    assert got["told"].startswith("Item 2 was published")


def test_every_plot_is_drawn(browser, page):
    dom = browser.run(page)
    assert 'data-ready="true"' in dom
    assert 'id="failed" hidden' in dom
    plots = page.count('<div class="plot"')
    assert plots >= 11
    assert len(re.findall(r'<div class="plot js-plotly-plot"', dom)) == plots


TURNED = """
const plots = page.plots.map(({ element }) => element);
const heights = () => plots.map((element) => element.clientHeight);
const drawing = (element) => element.querySelector(".main-svg");
const bottom = (element) => element.getBoundingClientRect().bottom;
const overlaps = () => plots.filter((element) => bottom(drawing(element)) > bottom(element) + 1);
const wide = (element) => drawing(element).clientWidth;
const before = [heights(), plots.map(wide)];
document.body.style.width = "400px";
window.dispatchEvent(new Event("resize"));
await until(() => plots.every((element) => wide(element) <= 400));
await wait(100);
return { before, after: [heights(), plots.map(wide)], overlaps: overlaps().map(({ id }) => id) };
"""


def test_plots_keep_their_heights_when_the_window_changes_its_width(browser, page):
    got = browser.probe(page, TURNED, width=1400)
    (heights, widths), (heights_now, widths_now) = got["before"], got["after"]
    assert min(heights) > 100
    assert max(widths) > 400
    assert max(widths_now) <= 400
    assert heights_now == heights
    assert got["overlaps"] == []


JOURNEY = """
const texts = (selector) => [...document.querySelectorAll(selector)].map((element) => element.textContent);
const chart = () => texts("#journey .arrow > title");
const first = [text("journey-told"), chart(), texts("#journey .head")];
document.getElementById("journey-before").click();
const stepped = [document.getElementById("journey-item").value, chart(), location.hash];
choose("journey-layering", "poll");
const other = chart();
const table = texts("#table-journey tbody tr").length;
location.hash = "#journey=lli/0/2/all";
await until(() => document.getElementById("journey-layering").value === "lli");
const start = document.getElementById("journey-layering").value;
return { first, stepped, other, table, all: chart().length, start };
"""


def test_an_item_is_followed_from_the_address_and_by_the_menus(browser, page):
    got = browser.probe(page, JOURNEY, fragment="#journey=lli/0/2/s")
    told, arrows, heads = got["first"]
    assert told.startswith("Item 2 was published 0.200 s into the run; delivered at s after 60.00 ms.")
    assert told.endswith("6 packets had to do with it on this way, 1 of them lost.")
    assert heads == ["p", "r", "s"]
    assert [arrow.split(":")[0] for arrow in arrows] == [
        "LLI (1, 3) subscribes",
        "FeedState tip 0 limit 3",
        "item 2",
        "item 2",
        "LLI (2, 1) repairs",
        "item 2, again",
    ]
    assert "r to s, sent at 10.00 ms, lost on the way" in arrows[3]
    item, arrows, address = got["stepped"]
    assert (item, len(arrows), address) == ("1", 4, "#journey=lli/0/1/s")
    assert [arrow.split(", sent")[0] for arrow in got["other"]] == [
        "Interest 1: s to r",
        "Nack: no route: r to s",
    ]
    assert (got["table"], got["all"], got["start"]) == (2, 6, "lli")


def test_the_page_begins_with_an_item_that_was_lost(browser, page):
    assert browser.probe(page, 'return document.getElementById("journey-item").value;') == "2"


SAVED = """
choose('select[data-plot="state"]', "r");
const shown = document.getElementById("state").data.map((trace) => trace.y);
document.querySelector('nav button[data-layering="1"]').click();
const hidden = document.getElementById("state").data.map((trace) => trace.visible);
document.querySelector('nav button[data-layering="1"]').click();
const files = {};
for (const of of ["state", "state-heat", "latency-boxes", "wire-bytes", "network", "journey"]) {
  files[of] = await file(`button[data-save="csv"][data-of="${of}"]`);
}
files.comparison = await file('button[data-table="comparison"]');
for (const of of ["state", "network", "journey"]) {
  files[`${of} svg`] = await file(`button[data-save="svg"][data-of="${of}"]`);
}
choose("network-layering", "poll");
choose("network-what", "lost");
const widest = document.querySelector("#network .lane title").textContent;
choose("network-time", "1");
return { shown, hidden, files, widest, when: document.getElementById("network-when").value };
"""


def test_figures_are_saved_with_their_units_and_menus_change_them(browser, page):
    got = browser.probe(page, SAVED)
    assert got["shown"] == [[0, 2, 2], [0, 0]]
    assert got["hidden"] == [True, False]
    files = got["files"]
    rows = {name: list(csv.reader(StringIO(text))) for name, (_, text) in files.items() if "svg" not in name}
    assert not [name for name, (_, text) in files.items() if "svg" not in name and "<" in text]
    assert files["state"][0] == "handmade-state.csv"
    assert rows["state"][0] == ["node", "State", "layering", "time, s", "State entries or bytes"]
    assert ["r", "bytes", "poll", "0.01", "40"] in rows["state"]
    assert ["r", "entries", "poll", "0.01", "2"] in rows["state"]
    assert rows["state-heat"][0][2:] == ["node", "time, s", "State entries or bytes, mean"]
    assert rows["latency-boxes"][1] == ["poll", "s", "11", "51", "101", "151", "191"]
    assert ["Ethernet", "lli", "14"] in rows["wire-bytes"]
    assert ["poll", "p", "r", "0.25", "0.5", "2000", "8", "2"] in rows["network"]
    assert rows["journey"][0][0] == "sent, ms after publication"
    assert rows["comparison"][0][0] == "Metric"
    assert ["Latency, publish or join to delivery, median, ms", "2", "1"] in [
        row[:3] for row in rows["comparison"]
    ]
    for name in ("state", "network", "journey"):
        saved, text = files[f"{name} svg"]
        assert saved.endswith(".svg")
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(--" not in text.replace("var(--rule)", "")
    assert files["state svg"][0] == "handmade-state-r-entries.svg"
    assert ">poll<" in files["state svg"][1]  # a legend, as it is on its own
    assert got["widest"].startswith("p to r (")
    assert "3 packets lost" in got["widest"]
    assert got["when"] == "0.25 to 0.50 s"


HIDDEN = """
const button = document.querySelector('nav button[data-layering="1"]');
const menus = [...document.querySelectorAll("select")];
const isOfLli = ({ name, x, y }) => [name, ...(x ?? []), ...(y ?? [])].includes("lli");
button.click();
const told = page.plots.flatMap((plot) => plot.element.data
  .filter((trace) => trace.visible !== false && isOfLli(trace)).map(() => plot.element.id));
const chosen = menus.filter((menu) => menu.value === "lli").map((menu) => menu.id);
const network = document.querySelector("#network .lane title").textContent;
button.click();
const again = document.getElementById("wire-bytes").data[0].y;
const isOffered = (menu) => [...menu.options].some((one) => one.value === "lli" && !one.disabled);
return { told, chosen, network, again, offered: menus.filter(isOffered).length };
"""


def test_a_layering_that_is_hidden_is_hidden_in_every_figure(browser, page):
    got = browser.probe(page, HIDDEN)
    assert (got["told"], got["chosen"]) == ([], [])
    assert ". poll, whole run:" in got["network"]
    assert (got["again"], got["offered"]) == (["poll", "lli"], 4)


COLOURS = """
return [
  getComputedStyle(document.body).backgroundColor,
  document.getElementById("state").layout.font.color,
  document.getElementById("state").data[0].line.color,
];
"""


def test_dark_mode(browser, page):
    light = browser.probe(page, COLOURS)
    dark = browser.probe(page, COLOURS, is_dark=True)
    assert light == ["rgb(255, 255, 255)", "#1d2227", "#d55e00"]
    assert dark == ["rgb(20, 24, 28)", "#e4e7e9", "#f0884a"]


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_page(browser, page, width):
    wide = "return [innerWidth, document.documentElement.scrollWidth];"
    inner, needed = browser.probe(page, wide, width=width)
    assert inner == width
    assert needed <= inner


RULES = """
const found = await axe.run(document, { resultTypes: ["violations"] });
return found.violations.map(({ id, impact, nodes }) => [impact, id, nodes.map((node) => node.html)]);
"""


@pytest.fixture(scope="module")
def with_rules():
    """Return a page with axe-core, which checks it for readers with a screen reader or no mouse."""
    rules = (node_modules("analysis/axe") / "axe-core" / "axe.min.js").read_text()
    rules = rules.replace("</script", "<\\/script")
    return lambda page: page.replace("</body>", f"<script>{rules}</script></body>")


@pytest.mark.parametrize(("width", "is_dark"), [(400, True), (1400, False)])
def test_pages_can_be_read_without_eyes_or_mouse(browser, page, with_rules, width, is_dark):
    assert browser.probe(with_rules(page), RULES, width=width, is_dark=is_dark) == []


def test_it_can_be_printed(browser, page):
    pdf = browser.print(page)
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") >= 4


def test_a_study_is_drawn_and_saved(browser):
    compared = study("line", "Line", records({0: (10.0, 12.0), 5: (20.0, 30.0)}, key=LINK_LOSS))
    script = """return [document.querySelectorAll(".plot.js-plotly-plot").length,
      await file('button[data-save="csv"][data-of="study-latency_p50"]'),
      await file('button[data-table="latency_p50"]')];"""
    plots, (name, text), (_, table) = browser.probe(render_study(compared), script)
    assert (plots, name) == (1, "line-study-study-latency_p50.csv")
    head, first, second = csv.reader(StringIO(text))
    assert head[1:3] == ["loss of each link, %", "Latency, publish or join to delivery, median, mean, ms"]
    assert first[:3] == ["poll", "0", "11"]
    assert (second[2], second[5]) == ("25", "2")
    assert next(csv.reader(StringIO(table))) == ["Layering", "0 %", "5 %"]


def test_a_study_can_be_read_without_eyes_or_mouse(browser, with_rules):
    compared = study("line", "Line", records({0: (10.0, 12.0), 5: (20.0, 30.0)}, key=LINK_LOSS))
    assert browser.probe(with_rules(render_study(compared)), RULES, width=400) == []


STUDY = """
const drawn = () => page.plots.map((plot) => plot.element).filter((element) => element.checkVisibility())
  .flatMap(({ id, data }) => data.filter((one) => one.visible !== false && one.name === "lli").map(() => id));
const before = drawn().length;
document.querySelector('nav button[data-name="lli"]').click();
const after = drawn();
const left = document.querySelectorAll(".panels figure:not([hidden])").length;
const rows = document.querySelectorAll("#table-latency_p50 tbody tr:not([hidden])").length;
const unit = document.getElementById("panel-0").layout.yaxis.title.text;
choose("panel-metric", "Bytes on the wire, per delivered item");
const other = document.getElementById("panel-0").layout.yaxis.title.text;
const panel = await file('button[data-save="csv"][data-of="panel-0"]');
return { before, after, left, rows, unit, other, panel, wide: document.documentElement.scrollWidth };
"""


@pytest.mark.parametrize("width", [500, 1400])
def test_a_layering_that_is_hidden_is_hidden_in_every_figure_of_a_study(browser, width):
    got = browser.probe(render_study(study("line", "Line", many())), STUDY, width=width)
    plots, panels = 8, 10
    assert (got["before"], got["after"]) == (plots + panels + 1, [])  # its own panel has its band, too
    assert (got["left"], got["rows"]) == (9, 9)
    assert (got["unit"], got["other"]) == ("ms", "bytes")
    rows = list(csv.reader(StringIO(got["panel"][1])))
    assert rows[0][:4] == ["metric", "layering", "loss of each link, %", "mean, in the unit of the metric"]
    assert {row[1] for row in rows[1:]} == {"poll"}
    assert not [cell for row in rows for cell in row if "<" in cell]
    assert got["wide"] <= width


def test_a_study_of_words_is_saved_with_its_intervals(browser):
    compared = study("s", "S", records({"asf": (10.0, 12.0), "best-route": (3.0,)}, key="strategies./"))
    script = """return await file('button[data-save="csv"][data-of="study-latency_p50"]');"""
    _, text = browser.probe(render_study(compared), script)
    head, first, second = csv.reader(StringIO(text))
    assert head[1] == "forwarding strategy"
    assert (first[:3], first[5], second[:3]) == (["poll", "asf", "11"], "2", ["poll", "best-route", "3"])


@pytest.fixture(scope="module")
def captures(tmp_path_factory, spark):
    """The page of a capture of two nodes, one of which has the clock wrong."""
    directory = write_tables(tmp_path_factory.mktemp("tables"))
    write_capture_report(directory, directory / "report.html", spark)
    return (directory / "report.html").read_text(encoding="utf-8")


CAPTURES = """
const texts = (selector) => [...document.querySelectorAll(selector)].map((element) => element.textContent);
const drawn = document.querySelectorAll(".plot.js-plotly-plot").length;
const first = [text("names-told"), texts("#names .arrow > title"), texts("#names .head")];
const names = [...document.getElementById("names-name").options];
choose("names-name", names.find((one) => one.text === "! /b/x").value);
const second = [texts("#names .arrow > title"), location.hash];
const files = {};
for (const of of ["traffic", "rtt", "pit", "outcomes", "network", "names"]) {
  files[of] = await file(`button[data-save="csv"][data-of="${of}"]`);
}
for (const of of ["prefixes", "clocks"]) files[of] = await file(`button[data-table="${of}"]`);
const svg = [];
for (const of of ["network", "names", "lifetimes"]) {
  svg.push((await file(`button[data-save="svg"][data-of="${of}"]`))[1]);
}
const lane = document.querySelector("#network .lane title").textContent;
return { drawn, first, second, files, svg, lane };
"""


@pytest.mark.spark
def test_captures_are_drawn_and_saved(browser, captures):
    got = browser.probe(captures, CAPTURES)
    assert got["drawn"] == captures.count('<div class="plot"') == 14
    told, arrows, heads = got["first"]
    assert told.startswith("/a/1/seg=0: 4 packets, the first 0.001 s into lab")
    assert heads == ["r", "10.0.0.9", "c"]
    assert arrows[0].startswith("Interest: r to 10.0.0.9, sent at 0.000 ms, seen at one end only. frame 2")
    assert arrows[3].startswith("Data: r to c, sent at 21.000 ms, arrived at 46.000 ms.")
    arrows, address = got["second"]
    assert "Interest, again: c to r, sent at 20.000 ms, not captured where it went" in arrows[1]
    assert re.fullmatch(r"#name=lab/\d", address)
    rows = {name: list(csv.reader(StringIO(text))) for name, (_, text) in got["files"].items()}
    assert rows["traffic"][0] == ["capture", "node", "count", "kind", "from, s", "packets or bytes a second"]
    assert rows["rtt"][0] == ["who", "capture", "Interest to answer, ms", "share within, %"]
    assert rows["network"][0] == ["capture", "from", "to", "begin, s", "end, s", "bytes", "packets"]
    assert sum(int(row[6]) for row in rows["network"][1:]) == 7
    assert ["satisfied", "lab", "50"] in rows["outcomes"]
    assert rows["names"][0][0] == "sent, ms after the first"
    assert rows["prefixes"][1][0] == "/a/1"
    assert rows["clocks"][1] == ["c", "r", "3", "-5", "25", "-15", "2"]
    for text in got["svg"]:
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert got["lane"].startswith("10.0.0.9 to r. lab, whole run: 0.8 kB/s, 8 packets/s.")


@pytest.mark.spark
@pytest.mark.parametrize("is_dark", [False, True])
def test_captures_can_be_read_without_eyes_or_mouse(browser, captures, with_rules, is_dark):
    assert browser.probe(with_rules(captures), RULES, width=400, is_dark=is_dark) == []


@pytest.mark.spark
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_of_captures_is_no_wider_than_the_window(browser, captures, width):
    wide = "return [innerWidth, document.documentElement.scrollWidth];"
    inner, needed = browser.probe(captures, wide, width=width)
    assert needed <= inner == width


def test_without_a_way_to_decompress_the_page_says_so(tmp_path, page):
    opened = Browser(tmp_path)
    dom = opened.run(page.replace("<head>", "<head><script>delete window.DecompressionStream</script>"))
    assert re.search(r'id="failed">This browser cannot draw', dom)
    assert '<p class="headline">' in dom
    assert len(opened.said) == 1


BUTTONS = """
const chosen = () => ["item", "subscriber"].map((name) => document.getElementById(`journey-${name}`).value);
document.getElementById("journey-worst").click();
const slowest = chosen();
document.getElementById("journey-item").value = "1";
document.getElementById("journey-lost").click();
return { slowest, lost: chosen(), hash: location.hash };
"""


def test_buttons_lead_to_the_next_lost_item_and_to_the_slowest_delivery(browser, page):
    got = browser.probe(page, BUTTONS)
    assert got["slowest"] == ["2", "s"]
    assert (got["lost"], got["hash"]) == (["2", "all"], "#journey=lli/0/2/all")
