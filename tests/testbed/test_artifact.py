"""Runs as evidence: repeated from their directories, and packed into one file and out of it again."""

import hashlib
import json
import shutil
import stat
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from feednet import Experiment, UserError
from testbed.artifact import bundle as bundles
from testbed.artifact.differences import first_difference
from testbed.artifact.rerun import Comparison, compared
from testbed.cli.main import feednet
from testbed.watch.target import find_target

SHORT = {"items": 12, "schedule": {"speed": 1e6, "idle_limit_ms": 50.0}}
CONF = "[nodes]\na: _\nb: _\nc: _\n[links]\na:b delay=5ms\nb:c delay=5ms loss=20\n"


def called(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(feednet, [*map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        assert isinstance(done.exception, UserError), done.exception
        return 1, str(done.exception)
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is analysed, whose scenario names files that are gone."""
    place = tmp_path_factory.mktemp("made")
    (place / "mine.conf").write_text(CONF)
    feed = Experiment("fanout", workload={"items": 12}).run(place / "feed", net="emulated").directory
    shutil.copy(feed / "feed.jsonl", place / "mine.jsonl")
    experiment = Experiment(
        topology={"file": str(place / "mine.conf")},
        layerings=["lli", "ssb"],
        publisher="a",
        workload={"feed": str(place / "mine.jsonl"), "schedule": SHORT["schedule"]},
    )
    results = experiment.run(place / "run", net="emulated")
    assert results.report.is_file()
    (place / "mine.conf").unlink()
    (place / "mine.jsonl").unlink()
    shutil.rmtree(feed)
    return results.directory


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def test_a_run_is_the_same_again(run: Path) -> None:
    status, said = called("rerun", run)
    assert (status, said.splitlines()[-1]) == (0, "the same  10 files, byte for byte")
    assert [path.name for path in run.parent.iterdir()] == ["run"]
    status, said = called("rerun", run, "--out", run.parent / "again")
    assert first_difference(run, run.parent / "again") is None
    again = called("rerun", run.parent / "again", "--repeat", 2)
    assert again == (1, "--repeat: an emulated run is the same each time; leave it out")


def resealed(run: Path, name: str) -> None:
    manifest = json.loads((run / "manifest.json").read_bytes())
    data = (run / name).read_bytes()
    manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (run / "manifest.json").write_text(json.dumps(manifest))


def test_the_first_difference_is_named(run: Path) -> None:
    events = run / "lli" / "events.jsonl"
    lines = events.read_text().splitlines(keepends=True)
    lines[7] = lines[7].replace('"time":', '"time":1')
    events.write_text("".join(lines))
    assert "of when the run ended" in called("rerun", run)[1]
    resealed(run, "lli/events.jsonl")
    status, said = called("rerun", run, "--out", run.parent / "again")
    assert status == 1
    assert said.splitlines()[-2].startswith('differs   lli/events.jsonl: line 8: {"time":1')

    capture = run / "lli" / "capture.pcapng"
    data = bytearray(capture.read_bytes())
    at = data.index(b"logs")
    data[at] ^= 1
    capture.write_bytes(data)
    resealed(run, "lli/capture.pcapng")
    found = first_difference(run, run.parent / "again")
    assert found is not None
    assert found.startswith("lli/capture.pcapng: frame ")
    assert found.endswith("bytes: another bytes now")

    scenario = json.loads((run / "scenario.json").read_bytes())
    scenario["settle_ms"] += 1
    (run / "scenario.json").write_text(json.dumps(scenario))
    assert first_difference(run, run.parent / "again") == "scenario.json: settle_ms: 1501 was 1500 now"


def test_what_cannot_be_repeated(tmp_path: Path) -> None:
    experiment = Experiment("line", layerings=["lli"], workload=SHORT)
    experiment.run(tmp_path / "run", net="emulated", script=lambda run: None)
    assert called("rerun", tmp_path / "run")[1].endswith("a script has run this: run the script again")
    assert "not a run directory" in called("rerun", tmp_path)[1]


def test_repetitions_are_judged_by_the_interval_of_the_next(made: Path) -> None:
    class Told:
        def __init__(self, *latencies: float) -> None:
            self.manifest = type("Manifest", (), {"layerings": ["lli"]})
            self._value = latencies[0]

        def arrow(self, _: str) -> "Told":
            return self

        def to_pylist(self) -> list[dict[str, object]]:
            return [{"layering": "lli", "metric": "latency_p50", "value": self._value}]

    # Student's t for 99 % and 2 degrees of freedom is 9.925; the standard deviation of 1, 2, 3 is 1.
    (row,) = compared(Told(13.4), [Told(1.0), Told(2.0), Told(3.0)])  # type: ignore[arg-type, list-item]
    assert row.high == pytest.approx(2 + 9.9248 * (4 / 3) ** 0.5, abs=1e-3)
    assert row.agrees
    assert not row._replace(was=13.5).agrees
    (alone,) = compared(Told(13.4), [Told(1.0)])  # type: ignore[arg-type, list-item]
    assert alone.agrees is None
    assert isinstance(alone, Comparison)


def test_a_bundle_has_all_and_can_be_run_again(run: Path, tmp_path: Path) -> None:
    status, said = called("bundle", run)
    assert status == 0, said
    file = tmp_path / "run.feednet.zip"
    first = file.read_bytes()
    assert "exists already" in called("bundle", run)[1]
    file.unlink()
    called("bundle", run)
    assert file.read_bytes() == first
    status, said = called("open", file, "--out", tmp_path / "opened")
    assert status == 0, said
    assert "every file is what SHA256SUMS says" in said
    opened = tmp_path / "opened"
    assert {"README.txt", "versions.txt", "SHA256SUMS", "report.html", "tables", "inputs"} <= {
        path.name for path in opened.iterdir()
    }
    assert "pyspark==" in (opened / "versions.txt").read_text()
    for line in (opened / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((opened / name).read_bytes()).hexdigest() == digest
    for path in run.rglob("*"):
        if path.is_file():
            assert (opened / path.relative_to(run)).read_bytes() == path.read_bytes()
    assert called("open", file, "--out", opened) == (
        1,
        f"{opened}: exists already; choose another --out or remove it",
    )
    shutil.rmtree(run)
    assert called("rerun", opened)[0] == 0


def bundled(path: Path, *entries: tuple[str, bytes], kind: int = stat.S_IFREG) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (kind | 0o644) << 16
            archive.writestr(entry, data)
    return path


SUM = f"{hashlib.sha256(b'x').hexdigest()}  a\n".encode()


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([("../evil", b"x")], "../evil: no file of a run; nothing has been unpacked"),
        ([("r/../../evil", b"x")], "r/../../evil: no file of a run"),
        ([("/etc/evil", b"x")], "/etc/evil: no file of a run"),
        ([("r\\..\\evil/a", b"x")], "no file of a run"),
        ([("r/a", b"x"), ("r//a", b"x")], "r//a: is there twice"),
        ([("r/a", b"x"), ("q/SHA256SUMS", SUM)], "no bundle: it has no SHA256SUMS in one directory"),
        ([("r/a", b"x")], "no bundle: it has no SHA256SUMS"),
        ([("r/a", b"y"), ("r/SHA256SUMS", SUM)], "damaged: a: its SHA-256 is not that of SHA256SUMS"),
        ([("r/b", b"x"), ("r/SHA256SUMS", SUM)], "damaged: b: SHA256SUMS has nothing about it"),
        ([("r/SHA256SUMS", SUM)], "damaged: a: is not there"),
        ([("r/SHA256SUMS", b"\xff\xfe")], "no bundle, or damaged"),
        ([("r/a", b"x"), ("r/SHA256SUMS", SUM)], "manifest.json: missing: not a run directory"),
    ],
)
def test_what_is_no_bundle_leaves_nothing(
    tmp_path: Path, entries: list[tuple[str, bytes]], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = bundled(tmp_path / "x.zip", *entries)
    with pytest.raises(UserError) as error:
        bundles.unpack(file)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "x.zip"]
    assert not [*(tmp_path / "here").iterdir()]


def test_links_and_cut_files_are_refused(run: Path, tmp_path: Path) -> None:
    link = bundled(tmp_path / "link.zip", ("r/a", b"/etc/passwd"), kind=stat.S_IFLNK)
    with pytest.raises(UserError, match="r/a: no file of a run"):
        bundles.unpack(link, tmp_path / "out")
    bundles.write(run, tmp_path / "whole.zip")
    data = (tmp_path / "whole.zip").read_bytes()
    for number, bad in enumerate((data[: len(data) // 2], b"", data[:5000] + b"\0" * 64 + data[5064:])):
        (tmp_path / "bad.zip").write_bytes(bad)
        with pytest.raises(UserError, match="damaged"):
            bundles.unpack(tmp_path / "bad.zip", tmp_path / f"out{number}")
    with pytest.raises(UserError, match="damaged"):
        bundles.unpack(tmp_path / "bad.zip")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("out")]
    with pytest.raises(OSError, match="No such file"):
        bundles.unpack(tmp_path / "none.zip")


def test_code_of_a_run_waits_for_trust(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither looking at a run nor repeating it executes what came with it, unless it is trusted."""
    monkeypatch.chdir(tmp_path)
    (run / "inputs" / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    path = run / "scenario.json"
    table = json.loads(path.read_text()) | {"strategy_files": ["run/inputs/mine.py"]}
    path.write_text(json.dumps(table))
    assert find_target([Path("run")]).begin()
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["files"].pop("scenario.json", None)
    (run / "manifest.json").write_text(json.dumps(manifest))
    status, said = called("rerun", run)
    assert (status, "run: it has code of its own: run/inputs/mine.py; read it" in said) == (1, True)
    assert not (tmp_path / "ran").exists()
