"""What there is to run, and what it means: `feednet list`, `feednet describe`, docs/reference.md."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import feednet
from testbed.layerings.kinds.ndn import NDN_LAYERINGS
from testbed.layerings.kinds.social import SOCIAL_LAYERINGS
from testbed.layerings.peers.ladder import RUNGS
from testbed.layerings.registry import LAYERINGS, titles
from testbed.layerings.tiny.common_set import TINY_LAYERINGS
from testbed.library import scenarios, takes
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load
from testbed.scenario.reference import entries, looked_up, meanings, tables, used_by, users

ROOT = Path(__file__).parents[2]


def said(*arguments: str) -> str:
    result = CliRunner().invoke(feednet, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_reference_is_what_the_models_say() -> None:
    """Written in a process of its own, as a user does it, without what other tests have loaded."""
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "testbed.scenario.reference"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert made == written, "run python -m testbed.scenario.reference > docs/reference.md"


def test_every_key_has_words() -> None:
    assert [key for key, entry in entries().items() if not entry.says] == []
    assert [table.heading for table in tables() if not table.says] == []


def test_every_key_that_a_scenario_has_is_in_the_reference() -> None:
    of_tables = {key for key in users() if not key.startswith(("topology.links.", "topology.media."))}
    inside = {key for key in of_tables if re.fullmatch(r"parameters\.[a-z-]+|(plans|nodes)\.NODE", key)}
    by_name = {key for key in of_tables if key.startswith(("events.set.", "question.direction."))}
    assert of_tables - inside - by_name <= {*entries()}
    assert used_by("title") == "all"
    assert "fanout" in users()["topology.fanout"]


def test_the_bounds_that_are_told_are_those_of_the_model() -> None:
    items = entries()["workload.items"]
    assert items.facts == "whole number, items; from 1 to 1,000,000; default 235"
    assert entries()["topology.link.loss_percent"].bounds == "from 0 to 100"
    assert entries()["routing.metric"].bounds == "delay, cost, hops, hyperbolic"
    assert entries()["fork.after"].default is None
    assert entries()["parameters.poll.window"].facts == "whole number, items; from 1 to 4,096; default 4"
    for name, means in meanings(Scenario).items():
        assert entries()[name].says == " ".join(means.split()) != ""


def test_a_key_is_found_by_its_path_its_table_or_its_end() -> None:
    assert [entry.key for entry in looked_up("workload.items")] == ["workload.items"]
    assert [entry.key for entry in looked_up("speed")] == ["workload.schedule.speed"]
    assert {"events", "events.at_ms", "events.link_down"} < {entry.key for entry in looked_up("events")}
    assert looked_up("nothing") == []


def test_the_list_groups_every_scenario() -> None:
    text = said("list")
    for name in scenarios():
        title = re.escape(load(name).title)
        [cost] = re.findall(rf"^  {name} +{title}( \(.* over Mininet\))?$", text, re.MULTILINE)
        assert bool(cost) == (max(takes()[name].values()) >= 300), name
    assert "silence (9 min in the emulator, 47 min over Mininet)\n" in text
    listed = json.loads(said("list", "--json"))
    assert listed["takes"] == takes()
    groups = listed["groups"]
    assert {*groups} == {*scenarios()}
    for group in {*groups.values()}:
        assert f"scenarios: {group}\n" in text


def test_the_titles_are_those_of_the_layerings() -> None:
    """The list takes them without the layerings."""
    listed = [(name, protocol, title) for protocol, of in titles().items() for name, title in of.items()]
    assert sorted(listed) == sorted((name, each.protocol, each.title) for name, each in LAYERINGS.items())


@pytest.mark.parametrize("name", scenarios())
def test_a_scenario_is_explained(name: str) -> None:
    scenario = load(name)
    assert scenario.about, "a scenario begins with a comment that says what to look at"
    text = said("describe", name)
    first, *_ = scenario.about.split(". ")
    assert " ".join(first.split()[:6]) in " ".join(text.split())
    for layering in scenario.layerings:
        assert re.search(rf"^  {layering} ", text, re.MULTILINE)
    times = [float(time) for time in re.findall(r"^ +(\d+\.\d\d) s  ", text, re.MULTILINE)]
    assert times == sorted(times)
    assert "the run ends" in text


def test_a_network_is_drawn_with_the_links_that_close_rings() -> None:
    text = said("describe", "cut-tree")
    assert "author  publisher\n" in re.sub(" +\n", "\n", text)
    assert "p1, p3, p5, p7, p9 ... p15  8 subscribers" in text
    assert "  and       east -- west\n" in text
    assert "1.37 s  author--west breaks, and no node notices" in text


def test_a_key_is_explained_and_a_misspelt_one_guessed() -> None:
    assert said("describe", "workload.fetch.requests").splitlines() == [
        "workload.fetch.requests  whole number, objects; from 1 to 10,000; default 10",
        "  Objects that each subscriber asks for, none of them twice; all, if there are fewer.",
        f"  in scenarios: {', '.join(users()['workload.fetch.requests'])}",
    ]
    assert "the scenario" not in said("describe", "sessions")
    result = CliRunner().invoke(feednet, ["describe", "workload.itmes"])
    assert result.exit_code == 2
    assert "did you mean workload.items?" in result.output


def test_a_name_of_several_things_explains_all() -> None:
    text = said("describe", "ndn-over-ssb")
    assert "the run ends" in text
    assert all(f"ndn-over-ssb.{name} " in text for name in LAYERINGS["ndn-over-ssb"].parameters.model_fields)


def test_the_comment_of_a_file_says_what_it_is_about(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '# One line,\n# and another.\n\n# Not this.\ntitle = "t"\nlayerings = ["poll"]\n'
        '[topology]\ngenerator = "line"\nlength = 1\n'
    )
    assert load(str(path)).about == "One line, and another."
    assert load(str(path)).group == "others"
    assert "feednet run" in said("describe", str(path))


def test_the_page_of_the_library_is_what_the_scenarios_say() -> None:
    spec = importlib.util.spec_from_file_location("library_page", ROOT / "docs" / "library.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    assert module.document() == written, "run python docs/library.py"
    assert sum(path.stat().st_size for path in (ROOT / "docs" / "scenarios").glob("*.png")) < 1_500_000


def test_each_table_of_layerings_is_registered():
    for table in (NDN_LAYERINGS, SOCIAL_LAYERINGS, RUNGS, TINY_LAYERINGS):
        assert table.keys() == {name for name in LAYERINGS if LAYERINGS[name] in table.values()}
