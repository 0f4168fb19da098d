"""Scenarios: what is accepted, and one clear line for everything that is not."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import feednet
from testbed.errors import UserError
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.library import scenarios
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load

GOOD = """
title = "A line"
layerings = ["lli"]
[topology]
generator = "line"
length = 2
[topology.link]
delay_ms = 3.5
"""


def write(directory: Path, text: str) -> str:
    path = directory / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_every_scenario_that_comes_with_feednet_is_sound() -> None:
    for name in scenarios():
        assert load(name).name == name


def test_a_scenario_of_ones_own(tmp_path: Path) -> None:
    mine = load(write(tmp_path, GOOD))
    assert mine.name == "mine"
    assert mine.roles == {"pub": "publisher", "r1": "forwarder", "s1": "subscriber"}
    assert [link.delay_ms for link in mine.network.links] == [3.5, 3.5]


def test_options_override_the_file(tmp_path: Path) -> None:
    mine = load(
        write(tmp_path, GOOD), seed=9, layerings=("poll",), items=3, parameters={"poll": {"window": 2}}
    )
    assert (mine.seed, mine.layerings, mine.workload.items) == (9, ("poll",), 3)
    assert mine.layering_parameters("poll").model_dump()["window"] == 2


def test_equal_networks_are_one_object() -> None:
    """Runs of one process find each other's routes by it."""
    networks = [load(name, seed=seed).network for name in ("line", "fanout") for seed in (1, 2)]
    assert networks[0] is networks[1] is not networks[2]
    assert networks[2] is networks[3]


def test_files_are_relative_to_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "net.conf").write_text("[nodes]\na: _\nb: _\nc: _\n[links]\na:b delay=10ms\nb:c delay=5ms\n")
    text = 'title = "t"\nlayerings = ["lli"]\n[topology]\nfile = "net.conf"\n[workload]\nfeed = "f.jsonl"\n'
    mine = load(write(tmp_path, text))
    assert mine.roles == {"a": "publisher", "b": "forwarder", "c": "subscriber"}
    assert mine.workload.feed == str(tmp_path / "f.jsonl")


BAD = [
    ("x = [", r"mine\.toml: not valid TOML: .*"),
    ('layerings = ["lli"]\n[topology]\ngenerator="line"\nlength=1', r"title: is missing"),
    (GOOD.replace('"lli"', '"foo"'), r"layerings: unknown layering 'foo'; there are pull, poll, .*"),
    (GOOD.replace('["lli"]', "[]"), r"layerings: name at least one layering, each once"),
    (GOOD.replace('"line"', '"hub"'), r"there is no topology 'hub'; there are fat-tree, grid, line, .*"),
    (GOOD.replace("length = 2", "length = 0"), r"line: length must be at least 1, not 0"),
    (GOOD.replace("length = 2", 'length = "x"'), "line: length must be a whole number, not 'x'"),
    (GOOD.replace("delay_ms = 3.5", "delay_ms = -1"), r"link pub:r1: delay_ms must be .*, not -1"),
    (GOOD.replace("delay_ms", "delay"), r"topology\.link\.delay: unknown key"),
    (
        GOOD.replace('generator = "line"', ""),
        r"\[topology\] needs one of generator \(line, star, tree, grid, ring, random, scale-free,"
        r" small-world, fat-tree\), file, library \(abilene, geant, ndn-testbed, sprint\), or links and ",
    ),
    ("seed = -1" + GOOD, r"seed: .*at least 0 \(got -1\)"),
    ("workload = 3" + GOOD, r"workload: must be a table \(got 3\)"),
    ("speling = 3" + GOOD, r"speling: unknown key"),
    ('publisher = "nobody"' + GOOD, r"publisher 'nobody' is not a node; there are pub, r1, s1"),
    ('subscribers = ["s9"]' + GOOD, r"subscriber 's9' is not a node; there are pub, r1, s1"),
    ('subscribers = ["pub"]' + GOOD, r"subscriber 'pub' is the publisher"),
    (GOOD + "[parameters.lli]\ncredit = -1", r"\[parameters\.lli\] credit: .*at least 0 \(got -1\)"),
    (
        GOOD + "[parameters.lli]\ncredi = 1",
        r"lli\] credi: lli has no parameter credi; did you mean credit\? there are ",
    ),
    (GOOD + "[parameters.push]\ncredit = 1", r"\[parameters\.push\]: unknown layering; there are pull, .*"),
    ("sample_interval_ms = 1e-9" + GOOD, r"sample_interval_ms: .*at least 0.1 \(got 1e-09\)"),
    ("sample_interval_ms = inf" + GOOD, r"sample_interval_ms: .*finite number \(got inf\)"),
    ("sample_interval_ms = nan" + GOOD, r"sample_interval_ms: .*finite number \(got nan\)"),
    ("warmup_ms = 10000000000000000000" + GOOD, r"warmup_ms: .*at most 86400000"),
    ("seed = " + "9" * 5000 + GOOD, r"mine\.toml: not valid TOML: "),
    ("title2 = " + "[" * 5000 + GOOD, r"mine\.toml: not valid TOML: nested too deeply"),
    ('name = "../../x"' + GOOD, r"name: "),
    (GOOD.replace("length = 2", "length = 1000000000"), r"a tree of .* has more than 10000 nodes"),
    (GOOD.replace("3.5", "inf"), r"link pub:r1: delay_ms must be a finite number from 0, not inf"),
    (GOOD + "[workload.schedule]\nspeed = nan", r"workload\.schedule\.speed: .*finite"),
    ('subscribers = ["s1", "s1"]' + GOOD, r"subscriber 's1' is named twice"),
    ('publishers = ["pub", "pub"]' + GOOD, r"publisher 'pub' is named twice"),
    (
        GOOD + '[workload]\nitem_bytes = 500\nfeed = "x.jsonl"',
        r"workload\.item_bytes: it concerns made feeds",
    ),
    (GOOD + "[workload]\nitems = 3\nfeeds = 4", r"workload\.items: 3 items are too few for 4 feeds"),
    (GOOD + "[workload]\nfollows = 2", r"workload\.follows: 2, but there are only 1 feeds"),
    ('publishers = ["pub", "r1"]' + GOOD + "[workload]\nfeeds = 1", r"2 publishers share 1 feeds"),
    (GOOD + '[workload]\nfeed = "f"\nfeeds = 2', r"workload\.feed: an export is one feed"),
    (
        GOOD + '[[events]]\nlink_down = "pub r1"',
        r"\[\[events\]\] number 1: give one of at_ms, at_item and at_copy",
    ),
    (
        GOOD + '[[events]]\nat_item = 1\nat_copy = 1\nlink_down = "pub r1"',
        r"\[\[events\]\] number 1: give one of at_ms, at_item and at_copy",
    ),
    (
        GOOD + '[[events]]\nat_copy = 1\nrestart = "r1"',
        r"\[\[events\]\] number 1: at_copy belongs to link_down and link_up",
    ),
    (GOOD + "[arrivals]\nfrom_ms = 5\nto_ms = 4", r"arrivals: to_ms must not be before from_ms"),
    (GOOD + "[arrivals]\nfrom_ms = 5", r"arrivals\.to_ms: is missing"),
    (
        GOOD + "[[events]]\nat_ms = 1",
        r"\[\[events\]\] number 1: give one of link_down, link_up, .* and strategy",
    ),
    (GOOD + '[[events]]\nat_ms = inf\nrestart = "r1"', r"\[\[events\]\] number 1: at_ms: .*(finite|less)"),
    (
        GOOD + '[[events]]\nat_ms = 1\nlink_up = "pub"',
        r"\[\[events\]\] number 1: 'pub' is no link; write it as \"a b\"",
    ),
    (
        GOOD + '[[events]]\nat_ms = 1\nlink_up = "pub s1"',
        r"\[\[events\]\] number 1: no link joins pub and s1",
    ),
    (GOOD + '[[events]]\nat_ms = 1\nrestart = "r9"', r"\[\[events\]\] number 1: restart: 'r9' is not a node"),
    (
        GOOD + '[[events]]\nat_ms = 1\nrestart = "r1"\nsignalled = true',
        r"\[\[events\]\] number 1: signalled belongs to link_down, link_up, partition and heal",
    ),
    (
        GOOD + '[[events]]\nat_ms = 1\nstop = "r9"',
        r"\[\[events\]\] number 1: stop: 'r9' is not a node",
    ),
    (
        GOOD + '[[events]]\nat_ms = 1\npartition = "pub r1 s1"',
        r"number 1: partition: no link joins pub r1 s1 with the others",
    ),
    (GOOD + '[[events]]\nat_ms = 1\npartition = "x"', r"number 1: partition: 'x' is not a node"),
    (GOOD + "[[events]]\nat_ms = 1\nheal = false", r"\[\[events\]\] number 1: heal: "),
    (
        GOOD + '[[events]]\nat_ms = 1\nlink_change = "pub r1"',
        r"\[\[events\]\] number 1: set belongs to link_change",
    ),
    (GOOD + '[[events]]\nat_ms = 1\nrestart = "r1"\nset = { delay_ms = 1 }', r"set belongs to link_change"),
    (
        GOOD + '[[events]]\nat_ms = 1\nlink_change = "pub r1"\nset = { speed = 1 }',
        r"number 1: link pub:r1: it has no speed; it has bw_mbit, delay_ms, ",
    ),
    (
        GOOD + '[[events]]\nat_ms = 1\nlink_change = "pub r1"\nset = { bw_mbit = 0 }',
        r"number 1: link pub:r1: bw_mbit must be a finite number above 0, not 0",
    ),
    (
        GOOD + '[[events]]\nat_ms = 1\nlink_change = "pub r1"\nset = { delay_ms = "long" }',
        r"number 1: link pub:r1: delay_ms must be a finite number from 0, not 'long'",
    ),
    (GOOD + '[routing]\nmetric = "luck"', r"routing\.metric: .*delay"),
    (GOOD + '[routing]\npaths = "k-shortest"\nk = 0', r"routing\.k: .*at least 1 \(got 0\)"),
    (
        GOOD + '[routing]\nmetric = "hyperbolic"',
        r"\[routing\] node pub: hyperbolic routing needs its radius",
    ),
    (
        GOOD + '[mobility]\ntrace = "none.csv"\nrange_m = 10',
        r"\[mobility\] .*none\.csv: cannot be read: No such file or directory",
    ),
    (GOOD + '[mobility]\ntrace = "none.csv"\nrange_m = 0', r"mobility\.range_m: .*greater than 0"),
    ('hosts = "many"' + GOOD, r"hosts: .*auto"),
    (GOOD.replace("length = 2", "length = 2\nlibrary = 'geant'"), r"\[topology\] needs one of generator"),
    (
        GOOD.split("[topology]", maxsplit=1)[0] + '[topology]\nlibrary = "arpanet"',
        r"there is no network 'arpanet' in the library; there are abilene, geant",
    ),
    (GOOD + "[plans.r1]\nstart_ms = 1", r"\[plans\.r1\]: not a subscriber; there are s1"),
    (GOOD + "[plans.s1]\nstart_ms = 5\nstop_ms = 5", r"plans\.s1: start_ms, each pause's .* must follow"),
    (GOOD + "[plans.s1]\npauses_ms = [[5, 4]]", r"plans\.s1: start_ms, each pause's .* must follow"),
    (GOOD + "[plans.s1]\ndrain_per_s = 0", r"plans\.s1\.drain_per_s: .*0.001 \(got 0\)"),
    (GOOD + '[fork]\npublisher = "pub"\nafter = 1', r"fork 'pub' is the publisher"),
    (GOOD + '[fork]\npublisher = "r1"\nafter = 235', r"fork\.after: 235, but there are only 235 items"),
    (GOOD + "[ending]\nafter = 235", r"ending\.after: 235, but there are only 235 items; lower it"),
    (GOOD + "[ending]\nafter = 0", r"ending\.after: .*at least 1 \(got 0\)"),
    (
        'subscribers = ["s1"]' + GOOD + '[ending]\nafter = 1\nsuccessor = "s1"',
        r"ending: successor 's1' is a subscriber",
    ),
    (GOOD + '[ending]\nafter = 1\nsuite = "rsa"', r"ending\.suite: .*'ed25519' or 'ed448'"),
    (GOOD + '[ending]\nafter = 1\nsuite = "ed448"', r"ending\.suite: .* mend ending\.successor"),
    (
        GOOD + '[ending]\nafter = 1\nsuite = "ed448"\nsuccessor = "r1"\ntold = false',
        r"ending\.suite: .* mend ending\.told",
    ),
    (GOOD + '[ending]\nafter = 1\nsuccessor = "nobody"', r"ending 'nobody' is not a node"),
    (GOOD + '[ending]\nafter = 1\n[fork]\npublisher = "r1"\nafter = 1', r"ending, fork: choose one"),
    (GOOD + "[ending]\nafter = 1\n[workload]\nfeeds = 2", r"ending: there must be one feed, not 2"),
    (GOOD + '[ending]\nafter = 1\n[workload]\nfeed = "x.jsonl"', r"workload\.feed, ending: choose one"),
    (
        GOOD + "[ending]\nafter = 1\n[workload]\nitems = 9\n[workload.pictures]\nevery = 1",
        r"workload\.pictures, ending: choose one",
    ),
    *(
        (
            f"{GOOD}[workload]\nitems = 9\n[workload.application]\n{more}",
            rf"workload\.application, {clash}: choose one",
        )
        for more, clash in (
            ("[ending]\nafter = 1", "ending"),
            ('[fork]\npublisher = "r1"\nafter = 1', "fork"),
            ("[workload.fetch]", r"workload\.fetch"),
        )
    ),
    (
        GOOD.replace("lli", "sync") + '[fork]\npublisher = "r1"\nafter = 1\ncure = "merge"',
        r"cannot carry branches that are merged, which the scenario has",
    ),
    (
        GOOD + "[workload.application]\nreading_ms = -1",
        r"workload\.application\.reading_ms: .*at least 0 \(got -1\)",
    ),
    (
        GOOD + '[workload.application]\nkind = "polls"',
        r"workload\.application\.kind: .*'likes', 'gatherings' or 'chess'",
    ),
    (GOOD + "[deletion]\nitems = 3\nafter = 2", r"deletion\.items: 3, but the request follows item 2"),
    (GOOD + "[deletion]\nitems = 3\nafter = 235", r"deletion\.after: 235, but there are only 235 items"),
    (GOOD + "[deletion]\nitems = 3\nafter = 9", r"cannot carry a request to delete contents"),
    (GOOD + "[deletion]\nitems = 3\nafter = 9\n[workload]\nfeeds = 2", r"there must be one feed, not 2"),
    (
        GOOD + "[deletion]\nitems = 3\nafter = 9\n[workload.graph]\nfollows = 1",
        r"leave it or workload\.graph out",
    ),
    (GOOD + '[archive]\nnode = "nobody"\nretain = 1', r"archive 'nobody' is not a node"),
    (GOOD + '[archive]\nnode = "r1"\nretain = 0', r"archive\.retain: .*at least 1 \(got 0\)"),
    (
        GOOD + '[[cross_traffic]]\nfrom = "s1"\nto = "s1"',
        r"\[\[cross_traffic\]\] number 1: from and to are both s1",
    ),
    (GOOD + '[[cross_traffic]]\nfrom = "s1"\nto = "s2"', r"cross_traffic\]\] number 1: 's2' is not a node"),
    (GOOD + "[topology.users]\nnumber = 0", r"topology\.users\.number: .*at least 1 \(got 0\)"),
    (GOOD + '[topology.users]\nnumber = 1\nat = ["x"]', r"users\] at: 'x' is not a node; there are pub, r1"),
    (
        GOOD.replace('"line"', '"ring"').replace(
            "length = 2", "nodes = 3\nusers = { number = 2, at = ['u1'] }"
        ),
        r"\[topology\.users\] at: 'u1' is not a node",
    ),
    (
        GOOD.split("[topology]", maxsplit=1)[0] + '[topology]\nlinks = [{ a = "pub" }]',
        r"\[\[topology.links\]\] number 1: a and b must name the two nodes",
    ),
    (
        GOOD.split("[topology]", maxsplit=1)[0] + '[topology]\nlinks = [{ a = "pub", b = "s1", speed = 1 }]',
        r"\[\[topology.links\]\] number 1: it has a, b, cost, cost_back and the parameters bw_mbit",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_scenario_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        load(write(tmp_path, text))
    assert "\n" not in str(error.value)
    assert "mine.toml" in str(error.value)


def test_an_unknown_name_gets_those_that_are_like_it() -> None:
    with pytest.raises(
        UserError, match=r"fanot: no such scenario; did you mean fanout\? there are archive, "
    ):
        load("fanot")


def test_a_bad_topology_file_is_named_with_its_line(tmp_path: Path) -> None:
    conf = tmp_path / "bad.conf"
    conf.write_text("[nodes]\na: _\nb: _\n[links]\na:b delay=10xs\n")
    with pytest.raises(UserError, match=r"bad\.conf:5: .*delay") as error:
        load("fanout", topology_file=str(conf))
    assert "\n" not in str(error.value)


def test_a_name_too_long_for_an_interface_says_so(tmp_path: Path) -> None:
    conf = tmp_path / "long.conf"
    conf.write_text("[nodes]\npublisher-in-basel: _\nb: _\n[links]\npublisher-in-basel:b delay=10ms\n")
    with pytest.raises(UserError, match="publisher-in-basel-eth0 has 23 characters, Linux allows 15"):
        load("fanout", topology_file=str(conf))


def test_links_one_by_one(tmp_path: Path) -> None:
    text = """
title = "t"
layerings = ["lli"]
[topology]
links = [{ a = "pub", b = "r1" }, { a = "r1", b = "s1", delay_ms = 9 }]
[topology.link]
delay_ms = 2.0
duplicate_percent = 1.0
"""
    network = load(write(tmp_path, text)).network
    assert network.nodes == ("pub", "r1", "s1")
    assert [(link.delay_ms, link.duplicate_percent) for link in network.links] == [(2.0, 1.0), (9, 1.0)]


RANGES = """
title = "t"
layerings = ["ssb"]
publishers = ["c1..c3", "d"]
subscribers = ["c9..c11"]
[topology]
links = [{ a = "hub", b = "c1..c11" }, { a = "hub", b = "d", delay_ms = 9 }]
[[topology.media]]
name = "cell"
members = ["hub", "e-1..e-2"]
"""


def test_a_range_stands_for_all_its_nodes(tmp_path: Path) -> None:
    whole = load(write(tmp_path, RANGES))
    assert whole.publishers == ("c1", "c2", "c3", "d")
    assert whole.subscribers == ("c9", "c10", "c11")
    assert [link.b for link in whole.network.links] == [*(f"c{number}" for number in range(1, 12)), "d"]
    assert whole.network.media[0].members == ("hub", "e-1", "e-2")
    assert load(write(tmp_path, RANGES), subscribers="d,c4..c5").subscribers == ("d", "c4", "c5")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"c1..c3"',
            '"c3..c1"',
            "publishers: .*c3..c1: a range must run upwards and name at most 10,000",
        ),
        ('"c1..c11"', '"c1..c99999"', r"topology.links.* number 1: c1..c99999: a range must run upwards"),
        ('"e-1..e-2"', '"e-2..e-1"', r"topology.media.* number 1: e-2..e-1: a range must run upwards"),
        ('"c1..c3"', '"c1..d3"', "publisher 'c1..d3' is not a node"),
        ('"c1..c3"', f'"c1..c{"9" * 5000}"', "a range must run upwards and name at most"),
        ('"c1..c3"', '"c1..c99999999999999999999"', "a range must run upwards and name at most"),
        ('"c1..c3"', '"c01..c03"', "c01..c03: the numbers of a range have no leading zeros"),
        ('"c1..c3"', '"c1..c3", "c2"', "publisher 'c2' is named twice"),
    ],
)
def test_a_bad_range_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(write(tmp_path, RANGES.replace(old, new)))


def test_a_scenario_survives_being_written_down(tmp_path: Path) -> None:
    for name in scenarios():
        whole = load(name)
        again = Scenario.model_validate_json(json.dumps(whole.model_dump(mode="json", by_alias=True)))
        assert again == whole
        assert again.network == whole.network


def test_a_name_that_no_file_system_takes(tmp_path: Path) -> None:
    for name in ("x" * 5000, "a\0b", str(tmp_path)):
        with pytest.raises(UserError, match="no such scenario; there are archive, ") as error:
            load(name)
        assert len(str(error.value)) < 400


def test_the_loss_of_every_link_can_be_given() -> None:
    assert {link.loss_percent for link in load("line", loss_percent=2.5).network.links} == {2.5}


def test_a_topology_file_s_links_may_be_given_other_parameters(tmp_path: Path) -> None:
    (tmp_path / "net.conf").write_text(
        "[nodes]\nBern: _\nch-Gva: _\n[links]\nbern:CH-GVA delay=10ms loss=3\n[faces]\nBERN:ch-gva cost=4\n"
    )
    text = 'title = "t"\nlayerings = ["lli"]\n[topology]\nfile = "net.conf"\n'
    (link,) = load(write(tmp_path, text)).network.links
    assert (link.a, link.b, link.cost) == ("Bern", "ch-Gva", 4), "as the file spells them first"
    assert (link.delay_ms, link.loss_percent) == (10.0, 3.0)
    file = str(tmp_path / "net.conf")
    for given, loss in (
        (load(write(tmp_path, text), loss_percent=0.0), 0.0),
        (load(write(tmp_path, text), changes={"topology.link.loss_percent": 1}), 1.0),
        (load("line", topology_file=file, loss_percent=2.0), 2.0),
        (load(write(tmp_path, text + "[topology.link]\nloss_percent = 5\n")), 5.0),
    ):
        again = Scenario.model_validate_json(json.dumps(given.model_dump(mode="json", by_alias=True)))
        for each in (given, again):
            assert each.topology.replacing == {"loss_percent": loss}
            assert each.network.links == (replace(link, loss_percent=loss),)


def test_a_library_s_links_may_lose_what_links_lose_by_default(tmp_path: Path) -> None:
    text = 'title = "t"\nlayerings = ["lli"]\n[topology]\nlibrary = "geant"\n[topology.link]\ndelay_ms = 0\n'
    assert {link.delay_ms for link in load(write(tmp_path, text)).network.links} == {0}
    with pytest.raises(UserError, match=r"topology.link: unknown key|unknown key"):
        load(write(tmp_path, text.replace("delay_ms", "delay")))
    with pytest.raises(UserError, match="'delay' is no parameter of links; there are bw_mbit"):
        load(write(tmp_path, text.replace("[topology.link]", 'replaced = ["delay"]\n[topology.link]')))


def test_a_loss_that_some_links_would_not_have_is_refused(tmp_path: Path) -> None:
    links = (
        'title = "t"\nlayerings = ["lli"]\n[topology]\nlinks = [{ a = "pub", b = "s1", loss_percent = 9 }]\n'
    )
    with pytest.raises(
        UserError, match=r"^--loss 1\.0: some of \[\[topology\.links\]\] have a loss_percent of"
    ):
        load(write(tmp_path, links), loss_percent=1.0)
    assert load(write(tmp_path, links.replace("loss", "duplicate")), loss_percent=1.0)


def test_an_option_s_loss_is_that_of_all_links_and_a_key_s_that_of_its_table(tmp_path: Path) -> None:
    every = load("quiet", loss_percent=5.0).network.links
    assert {link.loss_percent for link in every} == {5.0}
    by_key = load("quiet", changes={"topology.link.loss_percent": 5.0}).network.links
    assert {link.loss_percent for link in by_key} == {1.0, 5.0}
    both = load("quiet", loss_percent=5.0, changes={"topology.users.link.loss_percent": 2.0}).network.links
    assert {link.loss_percent for link in both} == {2.0, 5.0}
    media = 'title = "t"\nlayerings = ["lli"]\n[topology]\nmedia = [{ name = "air", members = ["pub", "s1"]'
    for own in (", loss_percent = 9", ", losses = { s1 = 9 }"):
        with pytest.raises(UserError, match=r"^--loss 1\.0: some of \[\[topology\.media\]\] have losses"):
            load(write(tmp_path, f"{media}{own} }}]\n"), loss_percent=1.0)


def test_users_join_a_network_in_turn(tmp_path: Path) -> None:
    text = GOOD + '[topology.users]\nnumber = 3\nat = ["r1", "s1"]\nlink = { delay_ms = 9.0 }'
    mine = load(write(tmp_path, text))
    assert [str(link) for link in mine.network.links] == ["pub:r1", "r1:s1", "r1:u1", "s1:u2", "r1:u3"]
    assert {link.delay_ms for link in mine.network.links[2:]} == {9.0}
    assert mine.subscribers == ("u1", "u2", "u3")
    taken = GOOD.split("[topology]", maxsplit=1)[0]
    taken += '[topology]\nlinks = [{ a = "pub", b = "u1" }]\nusers = { number = 1 }'
    with pytest.raises(UserError, match=r"mine\.toml: \[topology\.users\] the network has a node u1 already"):
        load(write(tmp_path, taken))


MESH = "[nodes]\n" + "".join(f"n_{k}: _\n" for k in range(6)) + "[links]\n"
MESH += "".join(f"n_{k}:n_{(k + 1) % 5} delay=1ms\n" for k in range(5)) + "n_0:n_5 delay=1ms\n"
"""A ring of five nodes, and one that hangs on it."""


def test_who_publishes_and_who_subscribes_on_a_mesh(tmp_path: Path) -> None:
    path = tmp_path / "mesh.conf"
    path.write_text(MESH)

    def following(**options: str) -> tuple[str, ...]:
        return load("fanout", topology_file=str(path), **options).subscribers

    assert following() == ("n_5",)
    assert following(subscribers="all") == ("n_1", "n_2", "n_3", "n_4", "n_5")
    assert following(subscribers="all", publisher="n_3") == ("n_0", "n_1", "n_2", "n_4", "n_5")
    assert following(subscribers="n_2,n_4") == ("n_2", "n_4")
    more = [following(subscribers=str(count)) for count in (1, 2, 5)]
    assert [len(nodes) for nodes in more] == [1, 2, 5]
    assert {*more[0]} < {*more[1]} < {*more[2]}
    assert load("fanout", topology_file=str(path), subscribers="2", seed=9).subscribers == more[1]
    whole = load("many-feeds", publisher="r1", subscribers="all")
    assert (whole.sources, len(whole.subscribers)) == (("r1",), len(whole.network.nodes) - 1)


def test_a_scenario_may_ask_for_all_nodes_or_a_number(tmp_path: Path) -> None:
    assert load(write(tmp_path, 'subscribers = "all"' + GOOD)).subscribers == ("r1", "s1")
    assert len(load(write(tmp_path, "subscribers = 1" + GOOD)).subscribers) == 1
    with pytest.raises(UserError, match=r"mine\.toml: there can be 1 to 2 subscribers"):
        load(write(tmp_path, "subscribers = 3" + GOOD))


def test_nodes_that_a_topology_file_lacks_are_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mesh.conf").write_text(MESH)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"^--topology mesh\.conf: publisher 'cam' is not a node; there are n_0"
    ):
        load("archive", topology_file="mesh.conf")


def test_the_scenario_of_the_document_runs(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    text, *_ = re.findall(r"^```toml\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)
    scenario = load(write(tmp_path, text))
    assert scenario.network.nodes == ("pub", "gw", "s1", "s2")
    output = tmp_path / "run"
    running.run(scenario, workload.load(scenario), EMULATED, output)
    manifest = json.loads((output / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["topology"]["media"][0]["losses"] == {"s2": 10.0}
    events = (output / "append-poll" / "events.jsonl").read_text(encoding="utf-8")
    assert events.count('"delivered"') == 120


CELL = """
title = "A cell"
layerings = ["append-poll"]
publisher = "a"
subscribers = ["b"]
[[topology.media]]
name = "cell"
members = ["a", "b"]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "cell"', "", r"\[\[topology.media\]\] number 1: name must be a text, and members name"),
        ('["a", "b"]\n', '"a"\n', r"\[\[topology.media\]\] number 1: name must be a text, and members name"),
        ('name = "cell"', 'name = "cell"\nlosses = 3', "number 1: losses must be a table of members"),
        (
            'name = "cell"',
            'name = "cell"\nloss = 3',
            "number 1: it has name, members, losses, radio and the",
        ),
        ('name = "cell"', 'name = "cell"\nlosses = { c = 3 }', "medium cell: losses: 'c' is no member"),
        ('"cell"', '"cell"\nradio = 3', "number 1: radio must be a table, or false"),
        (
            '"cell"',
            '"cell"\nradio = { power = 3 }',
            "number 1: radio: power: unknown key; there are spreading",
        ),
        (
            '"cell"',
            '"cell"\nradio = { spreading_factor = 6 }',
            "number 1: radio: spreading_factor must be a whole number from 7 to 12, not 6",
        ),
        (
            '"cell"',
            '"cell"\nradio = {}',
            "append-poll cannot carry a radio cell, which the scenario has",
        ),
        (
            '"cell"',
            '"cell"\nradio = {}\nbw_mbit = 1.0',
            "medium cell: bw_mbit is not for a radio cell; leave it out",
        ),
        (
            '["a", "b"]\n',
            '["a", "b"]\n[topology.radio]\ncoding_rate = 4\n',
            "topology.radio: coding_rate must be a whole number from 5 to 8, not 4",
        ),
        (
            '["a", "b"]\n',
            '["a", "b"]\n[[events]]\nat_ms = 1\nleave = "c cell"\n',
            r"\[\[events\]\] number 1: leave: c is no member of a medium cell",
        ),
        (
            '["a", "b"]\n',
            '["a", "b"]\n[[events]]\nat_ms = 1\njoin = "a"\n',
            "'a' is no member of a medium; write it as \"node medium\"",
        ),
        (
            '"append-poll"',
            '"tiny-isp"',
            "tiny-isp: 'a' is a provider, and can neither publish nor follow",
        ),
        ('"append-poll"', '"poll"', "poll cannot carry a broadcast medium, which the scenario has"),
    ],
)
def test_a_bad_medium_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert load(write(tmp_path, CELL)).network.media[0].members == ("a", "b")
    with pytest.raises(UserError, match=message):
        load(write(tmp_path, CELL.replace(old, new)))


def test_a_new_scenario_runs_as_it_is_and_replaces_nothing(tmp_path: Path) -> None:
    made = CliRunner().invoke(feednet, ["new", "scenario", str(tmp_path / "mine")])
    path = tmp_path / "mine.toml"
    assert made.output == f"{path}: edit it, then: feednet run {path}\n"
    chosen = load(str(path))
    running.run(chosen, workload.load(chosen), EMULATED, tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "lli" / "events.jsonl").open()]
    assert sum(event["event"] == "delivered" for event in events) == 2 * 60
    path.write_text("mine")
    for name in ("mine", "mine.toml"):
        again = CliRunner().invoke(feednet, ["new", "scenario", str(tmp_path / name)])
        assert str(again.exception) == f"{path}: exists already; choose another name"
    assert path.read_text() == "mine"
    nowhere = CliRunner().invoke(feednet, ["new", "scenario", str(tmp_path / "no" / "where")])
    assert str(nowhere.exception).endswith("/no/where.toml': No such file or directory")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
