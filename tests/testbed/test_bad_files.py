"""Bad scenario and topology files, from the command line: one line with the file, the place and what would be
right; nothing is written.

The tables are those of the tests that hold each message: 80 scenarios in test_scenario.py; topology files
in tests/topologies/. Here each goes through `feednet run`, and some more that only a command meets.
"""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_scenario import BAD, GOOD

from testbed.cli.main import feednet
from testbed.errors import UserError, suggestion

CONF = "[nodes]\na: _\nb: _\nc: _\n[links]\na:b delay=10ms\nb:c delay=5ms\n"

SCENARIOS = [text for text, _ in BAD]

FILES = [
    ("net.conf", CONF.replace("10ms", "10"), r"net.conf:6: \[links\] a:b delay=10: delay must be"),
    ("net.conf", CONF.replace("10ms", "-1ms"), r"net.conf:6: .*delay"),
    ("net.conf", CONF.replace("delay=10ms", "dely=10ms"), r"net.conf:6: .*dely"),
    ("net.conf", CONF.replace("a:b delay", "a-b delay"), r"net.conf:6: "),
    ("net.conf", CONF.replace("a:b", "a:x"), r"net.conf:6: .*'?x'?"),
    ("net.conf", CONF + "a:b delay=1ms\n", r"net.conf:8: .*already"),
    ("net.conf", CONF + "a:a delay=1ms\n", r"net.conf:8: .*itself"),
    ("net.conf", CONF.replace("c: _", "a: _"), r"net.conf:4: .*a"),
    ("net.conf", CONF.replace("[links]", "[lnks]"), r"net.conf:5: .*lnks"),
    ("net.conf", "", r"net.conf: no nodes"),
    ("net.conf", CONF.replace("[nodes]", "[stations]"), r"net.conf:1: .*stations"),
    ("net.graphml", "<graphml>", r"net.graphml:1: column \d+ is not XML"),
    ("net.graphml", "<html></html>", r"net.graphml: .*graphml"),
    ("net.txt", "hello", r"net.txt:1: "),
    ("none.conf", None, r"none.conf: cannot be read: No such file"),
]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*words: str) -> str:
    result = CliRunner().invoke(feednet, ["run", *words, "--net", "emulated", "--no-report"])
    assert isinstance(result.exception, UserError), (result.output, result.exception)
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_there_are_more_than_forty_ways() -> None:
    assert len({*SCENARIOS}) + len(FILES) >= 80


@pytest.mark.parametrize("text", SCENARIOS, ids=range(len(SCENARIOS)))
def test_a_bad_scenario_writes_nothing(empty: Path, text: str) -> None:
    (empty / "mine.toml").write_text(text, encoding="utf-8")
    assert refused("mine.toml").startswith("mine.toml: ")
    assert os.listdir(empty) == ["mine.toml"]


@pytest.mark.parametrize(("name", "text", "message"), FILES)
def test_a_bad_topology_file_is_named_with_its_place(
    empty: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (empty / name).write_text(text, encoding="utf-8")
    before = os.listdir(empty)
    with pytest.raises(UserError, match=message):
        raise UserError(refused("fanout", "--topology", name))
    assert os.listdir(empty) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "mine.toml: not valid TOML: byte 1 is no text in UTF-8"),
        (b"seed = " + b"9" * 5000, "mine.toml: not valid TOML: a number has too many digits"),
        (b"seed = 1\nseed = 2\n", "mine.toml: not valid TOML: Cannot overwrite a value .at line 2"),
        (
            GOOD.replace("length", "lenght").encode(),
            "mine.toml: topology line takes length; it was given lenght",
        ),
        (
            GOOD.replace('"lli"', '"pul"').encode(),
            "unknown layering 'pul'; did you mean pull.* there are pull",
        ),
        (
            b"waremup_ms = 3" + GOOD.encode(),
            "waremup_ms: unknown key; did you mean warmup_ms.* there are name",
        ),
        (b'seed = "one"' + GOOD.encode(), r"seed: must be a whole number \(got one\)"),
        (b"layerings = 3" + GOOD.replace('layerings = ["lli"]', "").encode(), "layerings: must be a list"),
        (b"title = 3" + GOOD.replace('title = "A line"', "").encode(), r"title: must be a text \(got 3\)"),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(empty: Path, content: bytes, message: str) -> None:
    (empty / "mine.toml").write_bytes(content)
    with pytest.raises(UserError, match=message):
        raise UserError(refused("mine.toml"))
    assert os.listdir(empty) == ["mine.toml"]


def test_of_many_names_the_likely_one_and_some_are_told() -> None:
    names = [f"node{number}" for number in range(500)]
    assert suggestion("nod17", names).startswith("did you mean node17? there are node0, node1, ")
    assert suggestion("nod17", names).endswith("node23 and 476 more")
    assert suggestion("other", ["a", "b"]) == "there are a, b"
