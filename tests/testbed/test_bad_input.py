"""Bad words at the command line: one line that says what is wrong, and nothing is left behind."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from analysis.files import whole_directory
from analysis.report.words.numbers import about, count_of
from feednet import Experiment
from testbed.cli.console import plain_console
from testbed.cli.main import feednet, main
from testbed.cli.options import Number

NOT_WHOLE = ("", "x", "-1" + "0" * 30, "1" + "0" * 30, "1.5", "nan", "0x5")
NO_NUMBER = ("", "x", "nan", "inf", "-inf", "1e400", "-1e300")


def options(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Option]]:
    """Yield every option of every command, with the command's words."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from options(found, (*words, name))
    for each in command.params:
        if isinstance(each, click.Option):
            yield " ".join(words), each


OPTIONS = [*options(feednet)]
RANGES = click.IntRange, click.FloatRange, click.types.IntParamType, click.types.FloatParamType
NUMBERS = [(command, option) for command, option in OPTIONS if isinstance(option.type, RANGES)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files of several kinds."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("hello\n")
    Path("junk.bin").write_bytes(bytes(range(1, 256)) * 20)
    Path("there").mkdir()
    Path("there/file").write_text("stays")
    Path("colons.conf").write_text("[nodes]\na: _\nb: _\n[links]\na:b delay=x\n")
    return tmp_path


def said(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Call the command; return its exit status and its one line. Nothing may be written."""
    before = there()
    monkeypatch.setattr(sys, "argv", ["feednet", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capfd.readouterr()
    assert re.fullmatch(r"feednet: [^\n]+\n", told.err), told
    assert told.err.rstrip("\n").isprintable()
    assert there() == before
    assert isinstance(ended.value.code, int)
    return ended.value.code, told.err.removeprefix("feednet: ").rstrip("\n")


def there() -> list[str]:
    return sorted(str(path) for path in Path.cwd().rglob("*"))


def test_every_number_is_in_a_range_with_two_ends() -> None:
    """So none is so large that the system, a table or a thread pool does not take it, and nan is none."""
    assert len(NUMBERS) > 40
    for command, option in NUMBERS:
        assert isinstance(option.type, click.IntRange | Number), (command, option.name)
        assert option.type.min is not None, (command, option.name)
        assert option.type.max is not None, (command, option.name)


@pytest.mark.parametrize(
    ("command", "option"), NUMBERS, ids=[f"{command} {option.opts[0]}" for command, option in NUMBERS]
)
def test_what_is_no_number_is_wrong_usage(
    command: str, option: click.Option, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for bad in NO_NUMBER if isinstance(option.type, Number) else NOT_WHOLE:
        status, line = said(monkeypatch, capfd, *command.split(), f"{option.opts[0]}={bad}")
        assert status == 2
        assert line.startswith(f"Invalid value for '{option.opts[0]}': ")
        assert line.endswith(f" (feednet {command} --help)")


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (["nonsense"], 2, r"No such command 'nonsense'\. \(feednet --help\)"),
        (["run", "--nonsense"], 2, r"No such option '?--nonsense'?.* \(feednet run --help\)"),
        (["ssb", "contract", "end"], 2, r"Missing argument .*\(feednet ssb contract end --help\)"),
        (["new", "scenario", ""], 1, r"NAME \.: name a file; NAME.toml is written"),
        (["new", "scenario", ".."], 1, r"NAME \.\.: name a file; NAME.toml is written"),
        (["topology", "colons.conf"], 1, r"colons.conf:5: \[links\] a:b delay=x: .*"),
        (["describe", "\x1b[31mred\n:smile: [bold]x[/]"], 2, r"'\\x1b\[31mred\\n:smile: \[bold\]x\[/\]': .*"),
        (["describe", "\udcff.toml"], 1, r"'\\udcff\.toml': no such scenario; there are .*"),
        (["topology", f"{'x' * 200}/" * 30], 1, f"{'x' * 40}\\.\\.\\..*: File name too long"),
        (["watch", "nosuch", "--idle", "0.1"], 1, "nosuch: no run has begun within 0.1 s"),
        (["watch", "nosuch.pcapng", "--idle", "0.1"], 1, "nosuch.pcapng: no capture has begun within 0.1 s"),
        (["watch", "junk.bin", "--idle", "0.1"], 1, "junk.bin: .*"),
        (["analyze", "=X"], 1, "=X: RUN has no name: write RUN=X, or ./=X for a file"),
        (["run", "line", "--dry-run", "--out", "text.txt/x"], 1, ".*text.txt: Not a directory; .*"),
        (["run", "line", "--dry-run", "--out", "/proc/x"], 1, "/proc: Permission denied; .*"),
        (["run", "line", "--dry-run", "--out", "/dev/null/x/y"], 1, "/dev/null: Not a directory; .*"),
        (["run", "line", "--dry-run", "--out", "y" * 300], 1, ".*File name too long; choose another --out"),
        (
            ["run", "line", "--dry-run", "--repeat", "2", "--out", "/proc/x"],
            1,
            "/proc: Permission denied; .*",
        ),
        (["run", "line", "--seed", f"{2**63 - 1}", "--repeat", "2", "--dry-run"], 1, "--seed .*at most .*"),
        (["model", "costs", "--master", "nan"], 1, "'nan': no Spark master: write local.*"),
        (["model", "costs", "--master", "spark://127.0.0.1:1"], 1, "no Spark master answers at .*"),
        (["model", "social", "--master", ""], 1, "'': no Spark master: write local.*"),
        (["watch", ".", "--idle", "0.1"], 1, ".*/scenario.json: missing: not the directory of a run"),
        (["watch", "/", "--idle", "0.1"], 1, "/: Is a directory"),
        (["shell", "/", "r1"], 1, "/: Is a directory"),
        (["bundle", "/"], 1, "/: Is a directory"),
        (["model", "ladder", "--out", "/"], 1, "/: Is a directory"),
        (["model", "ladder", "--out", ""], 1, r"\.: exists already"),
        (["isp", "--path", "new", "--allow", "x"], 1, "x: not a key, such as .*"),
        (["tiny", "--path", "new", "--isp", "x"], 1, "x: not a key, such as .*"),
        (["open", ""], 1, ".+"),
    ],
    ids=repr,
)
def test_bad_words(
    words: list[str],
    status: int,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    found, line = said(monkeypatch, capfd, *words)
    assert re.fullmatch(complaint, line), line
    assert found == status
    assert len(line) < 1000


def test_an_export_writes_into_a_new_directory(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    results = Experiment("line", layerings=["lli"], workload={"items": 2}).run("run", net="emulated")
    results.analyze(engine="sail")
    capfd.readouterr()
    line = said(monkeypatch, capfd, "export", "run", "--format", "ndnsim", "--out", "there")
    assert line == (1, "there: exists already; choose another --out or remove it")
    assert os.listdir("there") == ["file"]


def test_text_on_a_terminal_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a:b:smile: [bold]x[/] [link=file:///etc]y[/link]"
    plain_console().print(text)
    assert capsys.readouterr().out == text + "\n"


def test_a_scenario_s_words_are_text(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    title = "from a:b: to [bold]:smile:[/]"
    text = f'title = "{title}"\nlayerings = ["poll"]\n[topology]\ngenerator = "line"\nlength = 1\n'
    Path("mine.toml").write_text(text)
    for words in (["describe", "mine.toml"], ["run", "mine.toml", "--net", "emulated", "--dry-run"]):
        monkeypatch.setattr(sys, "argv", ["feednet", *words])
        main()
        assert title in capfd.readouterr().out


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (1, "entry", "1 entry"),
        (0, "entry", "0 entries"),
        (2000, "batch", "2000 batches"),
        (1, "run", "1 run"),
    ],
)
def test_one_thing_is_one(count: int, noun: str, words: str) -> None:
    assert count_of(count, noun) == words
    assert about(1, noun) == f"1 {noun}"


def test_a_directory_that_is_not_made_leaves_no_parents(here: Path) -> None:
    with pytest.raises(ZeroDivisionError), whole_directory(here / "there/a/b/c"):
        raise ZeroDivisionError
    assert os.listdir(here / "there") == ["file"]
    with whole_directory(here / "new/a") as made:
        (made / "x").write_text("")
    with pytest.raises(ZeroDivisionError), whole_directory(here / "new/b"):
        raise ZeroDivisionError
    assert os.listdir(here / "new") == ["a"]


def test_python_m_feednet_is_feednet(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "feednet", "--version"], capture_output=True, text=True, check=True, cwd=here
    )
    assert done.stdout.startswith("feednet, version ")
