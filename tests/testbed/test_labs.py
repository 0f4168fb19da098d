"""The labs: their cells run as in a notebook, and the check tells right answers from wrong ones."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from testbed.api.experiment import Experiment
from testbed.api.results import Results
from testbed.cli.main import feednet
from testbed.errors import UserError
from testbed.labs import books
from testbed.labs.broken import PROMISES
from testbed.labs.check import Verdict, agrees, check
from testbed.labs.folder import Folder
from testbed.labs.lab import NAMES, Question, lab

KNOWN: dict[str, dict[str, Any]] = {
    "lost": {"who": "r1", "lli_ms": (75, 85), "selective_ms": (125, 135), "poll_ms": (200, 1300)},
    "credit": {
        "rate_4": (0.9 * 4 / 0.12, 4 / 0.12),
        "rate_8": (0.9 * 8 / 0.12, 8 / 0.12),
        "rate_64": (0.7 * 64 / 0.16, 64 / 0.12),
        "round_trip_ms": (120, 126),
    },
    "pit": {"entries_4": 4, "entries_8": 8, "entries_lli": 1, "late_8": (40, 42), "late_4": (42, 500)},
    "fork": {
        "s1_believes": "pub",
        "s3_believes": "pub2",
        "told_lli": {"s1", "s2", "s3"},
        "told_poll": {"s1", "s2"},
        "prover": "r2",
    },
    "ebt": {"before": "ann", "after": "ben", "lost": 0, "gap_ms": (40, 400)},
    "isp": {"contracts": 4, "after_crash": 4, "lost": 0, "pairs": 5},
    "dies": {
        "poll_best": 19,
        "poll_asf": 60,
        "lli_best": 60,
        "longest_asf_ms": (500, 1500),
        "longest_lli_ms": (2000, 5000),
    },
    "believe": {
        "by_hand_ms": (31, 32),
        "emulated_ms": (31, 32),
        "cost_lli_ms": (0.3, 0.6),
        "dearer": "lli",
        "repeats": True,
    },
    "strategy": {"best": 19, "mine": (20, 59), "share_b": (40, 60), "all": "not yet"},
    "capture": {"opened": (10, 16), "satisfied": (10, 16), "at_1500": 4, "longest_ms": (80, 500)},
    "broken": {"promise": 1, "seed": (0, 20), "lines": (3, 20)},
}
"""What theory, or a look at the packets, says of each lab: a value, or bounds."""

ALL_SECONDS = 120
"""The labs together take less of the processor's time."""


async def execute(cells: list[str]) -> None:
    """Run cells as a notebook does: in one name space, inside a running event loop."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, "cell", "exec"), space)


def wrong(right: Any) -> Any:
    if isinstance(right, bool):
        return not right
    if isinstance(right, str):
        return f"{right}x"
    return {*right, "x"} if isinstance(right, set) else right * 1.5 + 1


def cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


spent: dict[str, float] = {}


@pytest.mark.parametrize("name", NAMES)
def test_a_lab_is_done(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chosen, begun = lab(name), cpu_seconds()
    with pytest.raises(UserError, match="run the cells"):
        check(name, {})
    asyncio.run(execute(chosen.cells))
    right = chosen.expected(Folder(tmp_path))
    spent[name] = cpu_seconds() - begun
    assert right.keys() == chosen.questions.keys() == KNOWN[name].keys()
    for question, known in KNOWN[name].items():
        if isinstance(known, tuple):
            assert known[0] <= right[question] <= known[1], question
        else:
            assert right[question] == known, question
    verdicts = check(name, right)
    assert verdicts.are_right, verdicts
    verdicts = check(name, {question: wrong(value) for question, value in right.items()})
    assert not any(verdict.is_right for verdict in verdicts), verdicts
    assert all(verdict.question.hint in verdict.said for verdict in verdicts)
    assert "no answer yet" in str(check(name, {}))


def test_all_labs_together_are_quick() -> None:
    if len(spent) < len(NAMES):
        pytest.skip("not all labs have run in this process")
    assert sum(spent.values()) < ALL_SECONDS, spent


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_all_that_the_lab_has(name: str) -> None:
    chosen = lab(name)
    book = json.loads(books.notebook(chosen))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert code == [*chosen.cells, *books.last_cells(chosen)]
    assert all(cell["outputs"] == [] for cell in book["cells"] if cell["cell_type"] == "code")
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    prose = "".join("".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "markdown")
    page, answers = books.page(chosen), books.answers(chosen)
    for question in chosen.questions.values():
        assert question.ask in prose
        assert f"<strong>{question.name}</strong>" in page
        assert f'\n{question.name} = ""' in answers
    assert "```" not in prose
    assert page.count("<details>") == page.count("</details>") == prose.count("<details>") >= 1
    assert not re.search(r"(src|href)=", page)
    assert page.count("<pre") == page.count('<pre tabindex="0">') > len(chosen.cells)
    assert 2 <= len(chosen.questions) <= 5


def test_a_lab_is_written_once_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = CliRunner().invoke(feednet, ["lab"])
    assert all(name in listed.output for name in NAMES)
    assert CliRunner().invoke(feednet, ["lab", "pit", "--page"]).exit_code == 0
    place = tmp_path / "labs" / "pit"
    assert sorted(path.name for path in place.iterdir()) == ["answers.toml", "lab.html", "lab.py"]
    typed = (place / "answers.toml").read_text().replace('entries_4 = ""', "entries_4 = 4")
    (place / "answers.toml").write_text(typed)
    assert CliRunner().invoke(feednet, ["lab", "pit", "--page"]).exit_code == 0
    assert (place / "answers.toml").read_text() == typed
    monkeypatch.chdir(place)
    exec(compile((place / "lab.py").read_text(), "lab.py", "exec"), {"__name__": "__main__"})
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(feednet, ["lab", "check", "pit", "--answer", "entries_8=7"])
    assert done.exit_code == 1
    assert "entries_4: right" in done.output
    assert "entries_8: not right" in done.output
    assert "late_8: no answer yet" in done.output
    right = lab("pit").expected(Folder(place))
    options = [f"--answer={name}={value}" for name, value in right.items()]
    monkeypatch.chdir(place)
    done = CliRunner().invoke(feednet, ["lab", "check", "pit", "--reveal", *options])
    assert done.exit_code == 0, done.output
    unknown = CliRunner().invoke(feednet, ["lab", "check", "pit", "--answer", "colour=red"])
    assert "no question" in str(unknown.exception)


def test_the_notebook_is_there_without_jupyterlab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("testbed.cli.runs.lab.find_spec", lambda name: None)
    done = CliRunner().invoke(feednet, ["lab", "lost"])
    assert isinstance(done.exception, UserError)
    assert "--page" in str(done.exception)
    assert (tmp_path / "labs" / "lost" / "lab.ipynb").is_file()


def test_a_result_shows_itself_and_reads_its_capture(tmp_path: Path) -> None:
    small = Experiment(
        topology={"links": [{"a": "pub", "b": "r1"}, {"a": "r1", "b": "s1"}]},
        layerings=["lli"],
        workload={"items": 8},
        settle_ms=500,
    )

    async def run() -> Results:
        return small.run(tmp_path / "run", net="emulated")

    results = asyncio.run(run())
    shown = results._repr_html_()
    assert re.search(r"items delivered</th>\s*<td>8</td>", shown)
    assert "not analysed yet" in shown
    packets = results.packets("lli")
    assert len(packets) == results.manifest.runs["lli"].capture.frames
    assert set(packets[packets.node == "r1"].peer) == {"pub", "s1"}
    came = packets[(packets.node == "s1") & (packets.kind == "data") & packets.seq.notna()]
    assert sorted(came.seq) == list(range(1, 9))
    assert results.messages("lli").empty
    with pytest.raises(UserError, match="has not run"):
        results.packets("poll")


@pytest.mark.parametrize("given", ["80 ms", "131,5", "vier"])
def test_what_is_no_number_is_said_to_be_none(given: str) -> None:
    asked = Question("late", "how late?", 5.0, "count")
    said = Verdict(asked, given, 80.0, agrees(given, 80.0, 5.0)).said
    assert said == "not a number: write 80 or 131.5"
    assert Verdict(asked, given, "r1", is_right=False).said == "not right. count"
    assert Verdict(asked, given, True, is_right=False).said == "neither yes nor no"
    assert Verdict(asked, "No", True, is_right=False).said == "not right. count"


def test_a_mistake_in_the_file_of_answers_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "answers.toml").write_text('# pit\nentries_4 = "4\n')
    done = CliRunner().invoke(feednet, ["lab", "check", "pit", "--folder", str(tmp_path)])
    assert isinstance(done.exception, UserError)
    assert re.fullmatch(r".*answers\.toml: not valid TOML: .*line 2.*", str(done.exception))


def test_a_folder_that_is_missing_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(feednet, ["lab", "check", "pit", "--folder", str(tmp_path / "none")])
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith(f"{tmp_path / 'none'}: there is no such folder")


def test_the_lab_on_broken_rules_says_which_promise_each_word_stands_for() -> None:
    text = "\n".join(part.text for part in lab("broken").parts)
    rows = re.findall(r"^\| ([^|]+) \| (\d) \|", text, re.MULTILINE)
    assert {word: int(promise) for word, promise in rows} == PROMISES


def test_a_strategy_that_a_student_has_changed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cell = lab("strategy").cells[0]
    exec(compile(cell, "cell", "exec"), {})
    assert "class Mine" in (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text("changed")
    exec(compile(cell, "cell", "exec"), {})
    assert (tmp_path / "mine.py").read_text() == "changed"


def test_the_strategy_in_the_answer_brings_every_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = lab("strategy")
    exec(compile(chosen.cells[0], "cell", "exec"), {})
    fold = "\n".join(part.text for part in chosen.parts).partition("<details>")[2]
    methods = "\n".join(line for line in fold.splitlines() if line.startswith("    ") or not line)
    given = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(given.partition("    def ")[0] + methods)
    asyncio.run(execute(chosen.cells))
    right = chosen.expected(Folder(tmp_path))
    assert (right["mine"], right["all"]) == (60, True)


def test_an_unknown_lab_is_told_the_known_ones() -> None:
    done = CliRunner().invoke(feednet, ["lab", "lots"])
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith("lab lots: ")
    assert all(name in str(done.exception) for name in NAMES)
    near = CliRunner().invoke(feednet, ["lab", "brokn"])
    assert "did you mean broken?" in str(near.exception)


def test_answers_are_compared_by_kind() -> None:
    assert agrees("R1 ", "r1", 0)
    assert agrees("s2, s1", {"s1", "s2"}, 0)
    assert not agrees("s1", {"s1", "s2"}, 0)
    assert agrees(["s2", "s1"], {"s1", "s2"}, 0)
    assert not agrees(1, {"s1", "s2"}, 0)
    assert agrees("yes", True, 0)
    assert not agrees("no", True, 0)
    assert not agrees("perhaps", False, 0)
    assert agrees("104", 100.0, 5)
    assert not agrees("106", 100.0, 5)
    assert not agrees("many", 100.0, 5)
    assert not agrees(None, "", 0)
