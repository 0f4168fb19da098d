"""`feednet new`: what it writes installs, is found by feednet, and has a test that passes, or finds a bug."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from base.plugins import GROUPS
from testbed.cli.main import feednet
from testbed.errors import UserError

ROOT = Path(__file__).parents[2]
KINDS = ("layering", "strategy", "metric", "figure")

BUGS = {
    "layering": ("self._due = now + self._lifetime_ms * MS", "self._due = now + 10**15"),
    "strategy": ("cheapest[crc32(flow) % len(cheapest)]", "cheapest[0]"),
    "metric": ("time <= SOON_NS", "time >= 0"),
    "figure": ('row["latency_ns"] / 1e6', 'row["latency_ns"] / 1e9'),
}
"""A bug in each module, that its test must find: what is replaced, and by what."""


def new(kind: str, name: str) -> str:
    """Return what the command prints; raise what it ends with."""
    done = CliRunner().invoke(feednet, ["new", kind, name])
    if done.exception is not None:
        raise done.exception
    return done.output


def feednet_s_python(
    *arguments: str, cwd: Path, plugins: Path | None = None
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, filter(None, (ROOT, plugins))))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_is_a_command_for_each_kind() -> None:
    assert GROUPS.keys() == {*KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_installs_is_found_and_its_test_can_fail(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert new(kind, "my-own").startswith("my-own: pip install --editable my-own, then: feednet ")
    folder, site = tmp_path / "my-own", tmp_path / "site"
    files = {"README.md", "pyproject.toml", "my_own.py", "test_my_own.py"}
    assert {path.name for path in folder.iterdir()} == files
    for path in folder.iterdir():
        assert not re.search(r"\b_?[Mm]ine\b|templates", path.read_text(encoding="utf-8")), path
    about = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert [*about["project"]["entry-points"]] == [GROUPS[kind]]
    assert len((folder / "README.md").read_text(encoding="utf-8").splitlines()) <= 12
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    done = feednet_s_python(
        "-m", "pip", "install", *options, "--target", str(site), str(folder), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    tested = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_own.py")
    passed = feednet_s_python(*tested, cwd=folder, plugins=site)
    assert passed.returncode == 0, passed.stdout
    right, wrong = BUGS[kind]
    for place in (site, folder):
        text = (place / "my_own.py").read_text(encoding="utf-8")
        assert text.count(right) == 1
        (place / "my_own.py").write_text(text.replace(right, wrong), encoding="utf-8")
    failed = feednet_s_python(*tested, cwd=folder, plugins=site)
    assert failed.returncode == 1, failed.stdout
    assert "AssertionError" in failed.stdout or "assert " in failed.stdout


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("layering", "lli", "NAME lli: there is a layering of that name; choose another name"),
        ("strategy", "asf", "NAME asf: there is a strategy of that name; choose another name"),
        ("metric", "latency_p50", "NAME latency_p50: there is a metric of that name; choose another name"),
        ("figure", "class", "NAME class: Python has the word, or a module, class; choose another name"),
        ("layering", "json", "NAME json: Python has the word, or a module, json; choose another name"),
        ("layering", "../x", "NAME ../x: it has small letters, digits, and - or _ between them, at most 40"),
        ("metric", "Fast", "NAME Fast: it has small letters, digits, and - or _ between them, at most 40"),
        ("figure", "a" * 41, f"NAME {'a' * 41}: it has small letters, digits, .*"),
    ],
)
def test_a_bad_name_is_one_line_and_writes_nothing(
    kind: str, name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as raised:
        new(kind, name)
    assert re.fullmatch(message, str(raised.value))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_overwritten(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-own").mkdir()
    (tmp_path / "my-own" / "my_own.py").write_text("precious")
    with pytest.raises(UserError) as raised:
        new(kind, "my-own")
    assert str(raised.value) == "my-own: exists already; choose another name"
    assert [path.name for path in (tmp_path / "my-own").iterdir()] == ["my_own.py"]


@pytest.mark.parametrize(
    ("group", "entry", "command", "message"),
    [
        (
            "strategies",
            "asf = own:Asf",
            "list",
            "strategy asf of feednet-test: feednet has a strategy of that name",
        ),
        (
            "strategies",
            "other = own:Asf",
            "list",
            "strategy other of feednet-test: ValueError: its NAME is 'asf'",
        ),
        ("metrics", "soon = own:Asf", "describe metrics", "metric soon of feednet-test: it has no title, .*"),
        (
            "metrics",
            "delivered = own:Asf",
            "describe metrics",
            "metric delivered of .*: feednet has a metric of that name",
        ),
        (
            "figures",
            "a = own:Nothing",
            "run fanout --net emulated --items 3",
            "figure a of .*: AttributeError: .*",
        ),
    ],
)
def test_a_bad_part_of_another_distribution_is_one_line(
    group: str, entry: str, command: str, message: str, tmp_path: Path
) -> None:
    about = tmp_path / "feednet_test-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: feednet-test\nVersion: 1\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(f"[feednet.{group}]\n{entry}\n", encoding="utf-8")
    (tmp_path / "own.py").write_text("from forwarder.strategies.asf import Asf\n", encoding="utf-8")
    done = feednet_s_python("-m", "testbed.cli", *command.split(), cwd=tmp_path, plugins=tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(f"feednet: {message}", done.stderr.strip().splitlines()[-1])
    assert "Traceback" not in done.stderr


def test_a_study_knows_another_package_by_its_code(tmp_path: Path) -> None:
    """Values that a study has kept are those of the code that is installed."""
    about = tmp_path / "feednet_test-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: feednet-test\nVersion: 1\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text("[feednet.layerings]\nx = own:x\n", encoding="utf-8")
    program = "from testbed.experiment.provenance import code_version; print(code_version())"
    versions = []
    for text in ("x = 1\n", "x = 2\n"):
        (tmp_path / "own.py").write_text(text, encoding="utf-8")
        done = feednet_s_python("-c", program, cwd=tmp_path, plugins=tmp_path)
        assert done.returncode == 0, done.stderr
        versions.append(done.stdout)
    assert len({*versions}) == 2
