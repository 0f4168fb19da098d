"""The player's states against the nodes' own counters and the reconstructed PITs, in a browser; its pages."""

import json
import random
from collections import Counter

import pyarrow.parquet as pq
import pytest
from browser import CHROMIUM, Browser
from click.testing import CliRunner
from player_checker import Truth, compared, flat
from short_runs import ROUGH, emulate
from stock_peer import node_modules
from test_report_browser import RULES

from analysis.decode.protocols.registry import in_datagrams
from analysis.errors import AnalysisError
from analysis.pipelines.run import analyze
from analysis.pit.contents import Contents
from analysis.pit.entry import Message
from analysis.player import page as player_page
from analysis.player.causes import JOINED, NOTHING, PUBLISHED, Crossing, causes, effects, repairs
from analysis.player.packets import reason_texts, spans
from analysis.player.page import write_player
from analysis.player.states import SAMPLED
from testbed.cli.main import feednet

in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")

INSTANTS, MANY = 100, 1000
"""Random instants of each layering at which all nodes are compared; MANY in slow tests, except of
`social`, whose many tables take too long."""

CASES = {
    "fanout": {"items": 30, "changes": {"topology.link.loss_percent": 3.0}},
    "rough": {"items": 160, "layerings": ("long-lived", "persistent", "lli-selective")},
    "cut-tree": {"items": 32, "layerings": ("ebt",)},
    "two-isps": {"items": 24, "layerings": ("tiny-isp", "ssb")},
}

MORE = {
    "failover": {"items": 70, "layerings": ("poll", "lli")},
    "fork": {"items": 100, "layerings": ("poll", "lli")},
    "late-join": {"items": 60, "layerings": ("persistent", "lli")},
    "mobile": {"items": 60, "layerings": ("poll",)},
    "many-feeds": {"items": 40, "layerings": ("notify", "lli")},
    "social": {"items": 24, "layerings": ("ssb",)},
}
"""Further runs, for states alone."""


class Runs(dict):
    """Runs that are analysed, with all tables, and their players, in many small windows; by name."""

    def __init__(self, directory):
        self._directory = directory

    def __missing__(self, name):
        rough = self._directory / "rough.toml"
        rough.write_text(ROUGH)
        scenario = str(rough) if name == "rough" else name
        self[name] = run = emulate(self._directory / name, scenario, **(CASES | MORE)[name])
        analyze(run.directory, engine="sail", all_tables=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(player_page, "WINDOW", 150)
            write_player(run.directory)
        return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def browser(tmp_path):
    opened = Browser(tmp_path)
    yield opened
    assert opened.said == []


def page_of(run):
    return (run.directory / "player.html").read_text(encoding="utf-8")


STATES = """
const found = {};
for (const layering of player.layerings) {
  found[layering.name] = [];
  for (const time of ASKED[layering.name]) {
    await layering.need(time);
    const nodes = ["", ...page.data.nodes].map((node) => [node, layering.state(node, time).rows
      .filter(({ value }) => value !== null).map(({ table, key, value }) => [table, key, value])]);
    found[layering.name].push([time, Object.fromEntries(nodes)]);
  }
}
return found;
"""


def shown(browser, run, instants):
    """Return for each layering the times, and the rows (table, key, value) of each node then."""
    return browser.probe(page_of(run), STATES.replace("ASKED", f"({json.dumps(instants)})"))


def random_instants(run, count=INSTANTS):
    draw = random.Random(run.manifest.seed)
    return {
        layering: sorted(draw.randrange(turn.end_ns - turn.start_ns) for _ in range(count))
        for layering, turn in run.manifest.runs.items()
    }


TABLES = {
    "fanout": {"total", "interest", "downstream", "upstream", "feed", "route", "counter"},
    "rough": {"total", "interest", "downstream", "upstream", "feed", "route", "counter", "link"},
    "cut-tree": {"session", "side", "connection", "feed", "counter", "link"},
    "two-isps": {"contract", "connection", "feed", "counter"},
}
"""Tables that a run shows something in."""


@in_browser
@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, INSTANTS) for name in CASES),
        *(
            pytest.param(name, INSTANTS if name == "social" else MANY, marks=pytest.mark.slow)
            for name in CASES | MORE
        ),
    ],
)
def test_states_at_random_instants_are_those_of_the_files(browser, runs, name, count):
    run, counts = runs[name], Counter()
    for layering, moments in shown(browser, run, random_instants(run, count)).items():
        counted, wrong = compared(Truth(run, layering), moments)
        assert wrong == [], layering
        counts += counted
    print(name, dict(counts))
    assert counts.keys() >= TABLES.get(name, set())


@in_browser
@pytest.mark.spark
def test_a_state_that_is_wrong_is_found(browser, runs):
    """In each table one value is changed, one row is taken away."""
    met = set()
    for name, layering in (("rough", "lli-selective"), ("rough", "persistent"), ("cut-tree", "ebt")):
        truth, moments = (
            Truth(runs[name], layering),
            shown(browser, runs[name], random_instants(runs[name], 20)),
        )
        rows = [
            (k, node, at)
            for k, (_, own) in enumerate(moments[layering])
            for node in own
            for at in range(len(own[node]))
        ]
        for k, node, at in rows:
            table, key, value = moments[layering][k][1][node][at]
            if table in met or table == "link" or not any(value):
                continue
            met.add(table)
            for changed in ([[table, key, [*value[:-1], "another"]]], []):
                time, own = moments[layering][k]
                other = own | {node: [*own[node][:at], *changed, *own[node][at + 1 :]]}
                wrong = compared(truth, [(time, other)])[1]
                assert len(wrong) == (table != "route" or bool(changed)), (table, wrong)
    assert met >= {
        "total",
        "interest",
        "downstream",
        "upstream",
        "feed",
        "route",
        "counter",
        "session",
        "side",
        "connection",
    }


@in_browser
@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
def test_states_at_samples_are_what_the_nodes_counted(browser, runs, name):
    run = runs[name]
    counted, instants = {}, {}
    draw = random.Random(run.manifest.seed)
    for layering, turn in run.manifest.runs.items():
        lines = [json.loads(line) for line in run.counters(layering).read_text().splitlines()]
        times = sorted({line["time"] for line in lines})
        chosen = set(draw.sample(times, min(INSTANTS, len(times))))
        counted[layering] = {
            (line["time"] - turn.start_ns, line["node"]): line for line in lines if line["time"] in chosen
        }
        instants[layering] = sorted(time - turn.start_ns for time in chosen)
    for layering, moments in shown(browser, run, instants).items():
        for time, nodes in moments:
            for node, rows in nodes.items():
                line = counted[layering].get((time, node))
                if line is None:
                    continue
                own = {key: value[0] for table, key, value in rows if table == "counter"}
                assert own.pop(SAMPLED) == pytest.approx(time / 1e9)
                assert own == dict(flat(line))
                if "pit" in line["state"]:
                    both = [line["state"][kind] for kind in ("pit", "llis") if kind in line["state"]]
                    held = {what: sum(size[what] for size in both) for what in ("entries", "bytes")}
                    [total] = [value for table, _, value in rows if table == "total"] or [[0, 0, 0, 0]]
                    ours = [held["entries"], held["bytes"], line["pit_ranges"], line["pit_credit"]]
                    assert total == ours, (layering, node, time)


STORY = """
document.querySelector('nav button[data-name="poll"]').dispatchEvent(new Event("click"));
choose("event", "loss");
choose("kind", String(page.data.kindKeys.indexOf("data")));
choose("item", ITEM);
await step(1);
const first = text("told");
const panel = text("panel");
const repair = document.querySelector("#panel h3 + p button");
HTMLElement.prototype.click.call(repair);
await until(() => !text("panel").includes("Who repaired it"));
const mended = text("panel");
choose("event", "delivery");
choose("kind", "");
await step(1);
const delivered = text("told");
return { first, panel, mended, delivered };
"""


def lost_item(run):
    """Return an item that a link lost under lli, and that came all the same."""
    rows = pq.read_table(run.tables / "losses.parquet").to_pylist()
    return next(row for row in rows if row["layering"] == "lli" and row["recovery_ns"] is not None)


@in_browser
@pytest.mark.spark
def test_where_an_item_was_lost_and_who_repaired_it(browser, runs):
    lost = lost_item(runs["fanout"])
    script = (
        'document.querySelector(\'nav button[data-name="poll"]\').dispatchEvent(new Event("click"));\n'
        + STORY
    )
    got = browser.probe(page_of(runs["fanout"]), script.replace("ITEM", f'"{lost["seq"]}"'), width=1400)
    assert f"item {lost['seq']}" in got["first"]
    assert "lost, " in got["first"]
    assert "Who repaired it" in got["panel"]
    assert f"item {lost['seq']}" in got["mended"]
    assert "arrived" in got["mended"]
    assert "delivered at " in got["delivered"]


MOVES = """
const press = (key, target = document.body) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
await show(PLACE);
const marks = [...document.querySelectorAll(".packet")];
marks[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
await until(() => text("panel").includes("Dissected"));
const packet = text("panel");
press("Enter", document.querySelector('.node[data-name="r1"]'));
await until(() => text("panel").includes("r1, "));
const node = text("panel");
const before = player.time;
press(" ");
await until(() => player.time > before);
press(" ");
const after = player.time;
const speed = player.speed;
press("+");
choose("event", "packet");
choose("kind", document.getElementById("kind").options[1].value);
press("n");
await until(() => text("told").includes(" sent, "));
document.querySelector("nav button").dispatchEvent(new Event("click"));
const panes = [...document.querySelectorAll(".pane")].map(({ hidden }) => hidden);
const faster = player.speed > speed;
return { marks: marks.length, packet, node, before, after, faster, told: text("told"), panes };
"""


@in_browser
@pytest.mark.spark
def test_clicks_and_keys(browser, runs):
    run = runs["fanout"]
    middle = (run.manifest.runs["poll"].first_ns + 20_000_000) - run.manifest.runs["poll"].start_ns
    got = browser.probe(page_of(run), MOVES.replace("PLACE", str(middle)), width=1400)
    assert got["marks"] > 0
    assert "Caused by" in got["packet"]
    assert "Ethernet 14 · IP 20 · UDP 8" in got["packet"]
    assert "PIT in total" in got["node"]
    assert got["after"] > got["before"]
    assert got["faster"]
    assert "Interest" in got["told"]
    assert got["panes"] == [True, False]


@in_browser
@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("width", "is_dark"), [(400, True), (1400, False)])
def test_it_can_be_read_without_eyes_or_mouse_and_fits_its_window(browser, runs, name, width, is_dark):
    rules = (node_modules("analysis/axe") / "axe-core" / "axe.min.js").read_text()
    rules = rules.replace("</script", "<\\/script")
    page = page_of(runs[name]).replace("</body>", f"<script>{rules}</script></body>")
    script = f"""
    await step(1); await step(1);
    const found = [];
    for (const choice of [player.selected, {{ layering: player.layerings[0], node: page.data.nodes[1] }}]) {{
      if (choice) await select(choice);
      document.querySelectorAll("details").forEach((part) => {{ part.open = true; }});
      await show(player.time);
      found.push(await (async () => {{ {RULES} }})());
    }}
    return [found, innerWidth, document.documentElement.scrollWidth];
    """
    found, inner, needed = browser.probe(page, script, width=width, is_dark=is_dark)
    assert found == [[], []]
    assert needed <= inner == width


@pytest.mark.spark
def test_the_command(runs, tmp_path):
    made = CliRunner().invoke(feednet, ["play", str(runs["fanout"].directory), "--layering", "lli"])
    assert made.exit_code == 0
    assert made.output.splitlines()[-1].startswith("player    ")
    assert 'data-name="poll"' not in page_of(runs["fanout"])
    write_player(runs["fanout"].directory)
    with pytest.raises(AnalysisError, match=r"no layering 'x': it has poll, lli$"):
        write_player(runs["fanout"].directory, ["x"])
    with pytest.raises(AnalysisError, match=r"manifest\.json: missing: not a run directory"):
        write_player(tmp_path)


def crossing(sender, receiver, sent, received, kind, seq=None, credit=0, feed="f"):
    subject = (feed, seq) if seq is not None else None
    return Crossing(sender, receiver, sent, received, kind, subject, feed, seq, credit, None)


def test_causes():
    """A subscription, an item that is lost and repaired, and one that an application publishes."""
    packets = [
        crossing("s", "r", 0, 10, "lli", 1, 5),
        crossing("r", "p", 10, 20, "lli", 1, 5),
        crossing("p", "r", 100, 110, "data", 1),
        crossing("r", "s", 110, None, "data", 1),
        crossing("s", "r", 150, 160, "lli", 1, 1),
        crossing("r", "s", 160, 170, "data", 1),
        crossing("s", "r", 170, 180, "idle"),
        crossing("s", "r", 200, 210, "idle"),
    ]
    events = [
        {"time": 0, "node": "s", "event": "joined", "feed": "f", "seq": 0},
        {"time": 100, "node": "p", "event": "published", "feed": "f", "seq": 1},
    ]
    found = causes(packets, events, is_exact=True)
    assert found == [JOINED, 0, PUBLISHED, 2, NOTHING, 4, 5, NOTHING]
    assert effects(found) == [[1], [], [3], [], [5], [6], [], []]
    assert repairs(packets) == {3: 5}


def test_each_reason_and_each_kind_of_datagram_has_a_key_of_its_own():
    """The column `kind` is one for all protocols, and the player takes the reason for a packet by its key."""
    of_datagrams = [kind for protocol in in_datagrams() for kind in protocol.kinds]
    for keys in [row["key"] for row in reason_texts()], [*of_datagrams, "segment", "other"]:
        assert [key for key, times in Counter(keys).items() if times > 1] == []


def test_windows_begin_at_times_of_their_own():
    assert spans([0, 0, 1, 2, 2, 2, 3, 9], 2) == [0, 1, 2, 3]
    assert spans([], 2) == [0]


def test_rows_that_end_together_end_in_one_order():
    """Equal runs have equal pages: a set's order would be another in each process."""
    asked = {"lifetime_ns": 1000, "send_credit": 5, "feed": "/f", "seq": 1}
    places = [f"i{number}" for number in range(9)]
    packets = [Message(0, place, "in", "lli", "/f/seq=1", 9, nonce=None, **asked) for place in places]
    found = Contents().receive([*packets, Message(1, "i0", "", "restart", "", 0)], 2)
    assert [change.key[2] for change in found if change.row is None] == places
