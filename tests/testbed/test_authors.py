"""What helps authors of scenarios: completion, progress with the time left, and dry runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from testbed.cli.main import feednet
from testbed.cli.progress import counted, share_done, staged, time_left
from testbed.errors import UserError
from testbed.experiment import outlook
from testbed.experiment import run as running
from testbed.experiment.platform import EMULATED
from testbed.layerings.registry import LAYERINGS
from testbed.library import scenarios, takes
from testbed.scenario import workload
from testbed.scenario.reader import load


def completed(*words: str, shell: str = "bash") -> list[str]:
    """Return what a shell is told for the last of some words."""
    before = " ".join(words[:-1]) if shell == "fish" else " ".join(words)
    environment = {
        "_FEEDNET_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": before,
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
    }
    result = CliRunner().invoke(feednet, [], env=environment, prog_name="feednet", catch_exceptions=False)
    return result.output.splitlines()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("run", "fanou"), ["fanout-all", "fanout"]),
        (("run", "fanout", "--layering", "lli-"), ["lli-go-back-n", "lli-selective"]),
        (("run", "fanout", "--set", "poll."), ["poll.lifetime_ms=", "poll.window="]),
        (("run", "fanout", "--sweep", "workload.fetch.r"), ["workload.fetch.requests="]),
        (("run", "fanout", "--sweep", "lo"), ["loss=", "long-lived.lifetime_ms=", "long-lived.window="]),
        (("run", "fanout", "--strategy", "a"), ["access", "asf"]),
        (("run", "fanout", "--topology", "ab"), ["abilene"]),
        (("run", "fanout", "--dry"), ["--dry-run"]),
        (("topology", "ge"), ["geant"]),
        (("describe", "routing.c"), ["routing.converge_ms"]),
        (("describe", "flash"), ["flash-crowd"]),
        (("comp"), ["compare", "completion"]),
    ],
)
def test_words_are_completed(words: tuple[str, ...] | str, wanted: list[str]) -> None:
    given = ("feednet", words) if isinstance(words, str) else ("feednet", *words)
    assert completed(*given) == [f"plain,{word}" for word in wanted]


def test_where_nothing_fits_the_shell_completes_files() -> None:
    assert completed("feednet", "run", "./mine") == ["file,./mine"]
    assert completed("feednet", "describe", "mine.t") == ["file,mine.t"]


def test_zsh_and_fish_are_told_the_same() -> None:
    assert "fanout" in completed("feednet", "run", "fanou", shell="zsh")
    assert "plain,fanout" in [line.strip() for line in completed("feednet", "run", "fanou", shell="fish")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str) -> None:
    result = CliRunner().invoke(feednet, ["completion", shell], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"_FEEDNET_COMPLETE={shell}_complete" in result.output


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_runs_its_script_and_completes(tmp_path: Path) -> None:
    script = CliRunner().invoke(feednet, ["completion", "bash"]).output
    asked = "COMP_WORDS=(feednet run flash); COMP_CWORD=2; _feednet_completion feednet; echo ${COMPREPLY[@]}"
    (tmp_path / "feednet").write_text(f'#!/bin/sh\nexec {sys.executable} -m testbed.cli "$@"\n')
    (tmp_path / "feednet").chmod(0o755)
    found = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["flash-crowd"]


def terminal() -> Console:
    return Console(file=StringIO(), force_terminal=True, width=120)


def test_a_stage_tells_how_long_it_still_takes() -> None:
    assert time_left(3.0, None, None) is None
    assert time_left(3.0, 10.0, None) == 7.0
    assert time_left(11.0, 10.0, None) == 0.0
    assert time_left(3.0, None, 0.25) == 9.0
    assert time_left(3.0, None, 0.0) is None
    assert share_done(3.0, 12.0, None) == 0.25
    assert share_done(3.0, 12.0, 0.5) == 0.5
    assert share_done(3.0, None, None) is None


def test_stages_and_counts_are_shown_on_a_terminal_only() -> None:
    for console, is_shown in ((terminal(), True), (Console(file=StringIO()), False)):
        with staged(console) as stage:
            stage("first", 60.0)
            stage.begin("lli", "second")
            stage.begin("poll", "third")
            stage.advance("lli", 0.5)
            stage.advance("poll", 1)
        with counted(console, "runs", 8) as show:
            show(3, 8, "loss=5")
        text = console.file.getvalue()
        assert ("3/8" in text) is is_shown
        assert ("left" in text) is is_shown
        assert "first  " in text
        ended = re.findall(r"(second|third)  [^\n]{,6}?\d\.\d s", text)
        assert ended == ["third", "second"]  # each has its line when it ends


def test_a_run_tells_how_far_it_is(tmp_path: Path) -> None:
    scenario = load("line", items=5, layerings=("lli",))
    shares: list[tuple[str, float]] = []
    told: list[str] = []
    running.run(
        scenario,
        workload.load(scenario),
        EMULATED,
        tmp_path / "run",
        progress=told.append,
        advance=lambda *share: shares.append(share),
    )
    assert told == ["lli"]
    assert shares == sorted(shares)
    assert (shares[0], len(shares) > 90, shares[-1]) == (("lli", 0.0), True, ("lli", 1.0))


def dry(*arguments: str) -> str:
    result = CliRunner().invoke(feednet, ["run", *arguments, "--dry-run"])
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_a_dry_run_says_what_would_be_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = dry("geant-news", "--net", "emulated", "--out", "here/run")
    assert "145 nodes, 171 links" in text
    assert "100 subscribers: u1..u100" in text
    assert "60 items of one feed" in text
    assert "layerings poll, sync, lli, ssb" in text
    assert "to here/run" in text
    assert "nothing was written" in text
    swept = dry("line", "--sweep", "loss=0,1", "--repeat", "3", "--jobs", "1", "--layering", "lli")
    assert "6 runs, one after the other, emulated" in swept
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="there: exists already; choose another --out"):
        dry("line", "--net", "emulated", "--out", "there")


def test_mistakes_are_told_in_a_dry_run_too() -> None:
    with pytest.raises(UserError, match=r"--set poll\.windows=3: poll has no parameter windows"):
        dry("line", "--set", "poll.windows=3")


def test_what_is_expected_is_near_what_comes(tmp_path: Path) -> None:
    """On runs that the figures are not from: other items, other networks."""
    for number, (name, options) in enumerate(
        (
            ("fanout", {"items": 60}),
            ("line", {"items": 50, "layerings": ("poll", "lli")}),
            ("fanout", {"items": 40, "topology_file": "abilene", "subscribers": "all"}),
        )
    ):
        scenario = load(name, **options)
        published = workload.load(scenario)
        directory = tmp_path / str(number)
        running.run(scenario, published, EMULATED, directory)
        runs = json.loads((directory / "manifest.json").read_text())["runs"]
        frames = sum(run["capture"]["frames"] for run in runs.values())
        size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
        expected = outlook.expected(scenario, published)
        assert 1 / 3 < expected.frames / frames < 3
        assert 1 / 3 < expected.run_bytes / size < 3


def test_the_list_says_of_each_scenario_how_long_it_takes() -> None:
    each = {name: load(name) for name in scenarios()}
    expected = {name: outlook.takes(scenario, workload.load(scenario)) for name, scenario in each.items()}
    assert takes() == expected, "run python -m testbed.bench.runs.outlook --takes"


def test_every_layering_of_the_library_has_figures_and_another_one_those_of_its_like() -> None:
    known = outlook.figures()["layerings"]
    assert {*known} == {layering for name in scenarios() for layering in load(name).layerings}
    assert {*known} <= {*LAYERINGS}
    size = outlook.Size(1000, 10, 100)
    costs = {"costs": outlook.figures()["costs"], "layerings": {"lli": known["lli"], "poll": known["poll"]}}
    dearest = max(("lli", "poll"), key=lambda name: known[name]["per_crossing"])
    assert outlook.of_layering("sync", size, costs) == outlook.of_layering(dearest, size)
