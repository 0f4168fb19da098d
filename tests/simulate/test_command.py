"""`feednet simulate` as a user meets it."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from mutants.patches import mutated
from mutants.push import MUTANTS

from testbed.cli.simulate import FAMILIES, simulate
from testbed.errors import UserError
from testbed.verify.kit.family import from_text
from testbed.verify.push.family import PUSH

MUTANT = "credit off by one"


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == status, result.output
    return result.stdout


def test_seeds_that_pass() -> None:
    output = run("--seeds", "20", "--first", "5", "--jobs", "1")
    assert output.startswith("20 seeds from 5, ")
    assert " 0 failed" in output
    assert "delivered" in output


def test_over_processes() -> None:
    assert "120 seeds from 0, " in run("--seeds", "120", "--jobs", "2")


def test_one_seed() -> None:
    assert run("--seed", "3").startswith("seed 3: everything holds (")


@pytest.mark.patches
def test_a_failure_is_shrunk_drawn_saved_and_replayed(tmp_path: Path) -> None:
    story = tmp_path / "story.json"
    with mutated(MUTANT, MUTANTS):
        output = run("--seeds", "500", "--jobs", "1", "--save", str(story), status=1)
        assert "replay: feednet simulate push --seed " in output
        assert "VIOLATED  granted" in output
        family, saved = from_text(story.read_text(), FAMILIES, "")
        assert family is PUSH
        assert len(saved.columns) <= 3
        assert "VIOLATED  granted" in run("--story", str(story), "--no-shrink", status=1)
    assert "everything holds" in run("--story", str(story))


@pytest.mark.patches
def test_keep_going_lists_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.cli.simulate._SAY_EVERY", 0)  # progress is no result
    with mutated(MUTANT, MUTANTS):
        output = run("--seeds", "60", "--jobs", "1", "--keep-going", "--no-shrink", status=1)
    assert output.startswith("60 seeds from 0, ")


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_file_that_is_no_story_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "story.json"
    file.write_text(text)
    error = CliRunner().invoke(simulate, ["--story", str(file)]).exception
    assert isinstance(error, UserError)
    assert "not a story" in str(error)
    missing = CliRunner().invoke(simulate, ["--story", str(tmp_path / "none")]).exception
    assert isinstance(missing, UserError)
