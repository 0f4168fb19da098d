"""Scenarios: what is accepted, and one clear line for everything that is not."""

from pathlib import Path

import pytest

from testbed.errors import UserError
from testbed.scenario import available, load

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
    for name in available():
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


def test_files_are_relative_to_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "net.conf").write_text("[nodes]\na: _\nb: _\nc: _\n[links]\na:b delay=10ms\nb:c delay=5ms\n")
    text = 'title = "t"\nlayerings = ["lli"]\n[topology]\nfile = "net.conf"\n[workload]\nfeed = "f.jsonl"\n'
    mine = load(write(tmp_path, text))
    assert mine.roles == {"a": "publisher", "b": "forwarder", "c": "subscriber"}
    assert mine.workload.feed == str(tmp_path / "f.jsonl")


BAD = [
    ("x = [", r"mine\.toml: not valid TOML: .*"),
    ('layerings = ["lli"]\n[topology]\ngenerator="line"\nlength=1', r"title: is missing"),
    (GOOD.replace('"lli"', '"foo"'), r"layerings: unknown layering 'foo'; there are poll, lli"),
    (GOOD.replace('["lli"]', "[]"), r"layerings: name at least one layering, each once"),
    (GOOD.replace("line", "ring"), r"there is no topology 'ring'; there are line, star, tree"),
    (GOOD.replace("length = 2", "length = 0"), r"line: length must be at least 1, not 0"),
    (GOOD.replace("length = 2", 'length = "x"'), r"\[topology\] length: 'x' is not a whole number"),
    (GOOD.replace("delay_ms = 3.5", "delay_ms = -1"), r"link pub:r1: delay_ms must be .*, not -1"),
    (GOOD.replace("delay_ms", "delay"), r"topology\.link\.delay: unknown key"),
    (GOOD.replace('generator = "line"', ""), r"\[topology\] names no generator .* and no file"),
    ("seed = -1" + GOOD, r"seed: .*greater than or equal to 0 \(got -1\)"),
    ("workload = 3" + GOOD, r"workload: must be a table \(got 3\)"),
    ("speling = 3" + GOOD, r"speling: unknown key"),
    ('publisher = "nobody"' + GOOD, r"publisher 'nobody' is not a node; there are pub, r1, s1"),
    ('subscribers = ["s9"]' + GOOD, r"subscriber 's9' is not a node; there are pub, r1, s1"),
    ('subscribers = ["pub"]' + GOOD, r"subscriber 'pub' is the publisher"),
    (GOOD + "[parameters.lli]\ncredit = 0", r"\[parameters\.lli\] credit: .*equal to 1 \(got 0\)"),
    (GOOD + "[parameters.lli]\ncredi = 1", r"\[parameters\.lli\] credi: unknown key"),
    (GOOD + "[parameters.push]\ncredit = 1", r"\[parameters\.push\]: unknown layering; there are poll, lli"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_scenario_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        load(write(tmp_path, text))
    assert "\n" not in str(error.value)
    assert "mine.toml" in str(error.value)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UserError, match=r"nosuch: no such scenario; there are .*fanout.*"):
        load("nosuch")


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
