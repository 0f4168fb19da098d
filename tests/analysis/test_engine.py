"""Which engine is chosen, and that both make the same tables and the same pages."""

import gzip
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from importlib import metadata

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from handmade import poll, write_capture
from pcapng_oracle import read
from short_runs import ROUGH, emulate

from analysis.errors import AnalysisError
from analysis.pipelines.run import analyze
from analysis.report.page import unpacked
from analysis.spark import engine
from analysis.spark.engine import BYTES_A_FRAME, EngineChoice, check, choose, frame, session
from captures.formats.files import estimated_frames
from testbed.cli.main import feednet

pytestmark = pytest.mark.long

LAYERINGS = ("append-poll", "pull", "persistent", "lli", "lli-selective")


# --- choosing ---------------------------------------------------------------------------------------------


def test_captures_that_fit_in_memory_are_for_sail_and_others_for_spark(tmp_path, monkeypatch):
    """By their frames: small ones, and those of compressed files, take more memory than their bytes tell."""
    trace = tmp_path / "trace.pcapng"
    write_capture(trace, poll())
    packed = tmp_path / "trace.pcapng.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    frames = sum(1 for _ in read(trace))
    assert [estimated_frames(path) for path in (trace, packed)] == [frames, frames]
    for available, chosen in (
        (4 * frames * BYTES_A_FRAME, "sail"),
        (4 * frames * BYTES_A_FRAME - 2, "spark"),
    ):
        monkeypatch.setattr(engine, "available_bytes", lambda available=available: available)
        assert choose("auto", None, [trace, packed]) == EngineChoice(chosen)
        assert choose("auto", "local[2]", [trace]) == EngineChoice("spark", "local[2]")
        assert choose("sail", None, [trace, packed]) == EngineChoice("sail")
        assert choose("spark", None, [trace]) == EngineChoice("spark")


def test_without_sail_there_is_spark(monkeypatch):
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    assert choose("auto", None, ()) == EngineChoice("spark")
    with pytest.raises(AnalysisError) as refused:
        choose("sail", None, ())
    command = [sys.executable, "-m", "pip", "install", "pysail<0.8,>=0.7.2", "pyspark[connect]<4.3,>=4.2"]
    assert str(refused.value) == f"--engine sail: it is not installed: {shlex.join(command)}"


def test_a_pyspark_that_sail_does_not_take(monkeypatch):
    found = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "4.3.0" if name == "pyspark" else found(name))
    assert choose("auto", None, ()).name == "spark"
    with pytest.raises(AnalysisError, match=r"it does not work with PySpark 4\.3\.0: .* -m pip install"):
        check("sail", None)


SILENCE = """
import os, time
from analysis.spark.engine import EngineChoice, session

spark = session(EngineChoice("sail"))
spark.range(1).count()
time.sleep(2.5)
print(os.environ["SAIL_SPARK__SESSION_TIMEOUT_SECS"], spark.range(3).count())
"""


def test_a_session_outlives_a_long_silence():
    """Sail would end it after a quarter of an hour: a notebook that is left alone would lose it."""
    run = partial(
        subprocess.run, [sys.executable, "-c", SILENCE], capture_output=True, text=True, check=False
    )
    seconds, rows = map(int, run().stdout.split())
    assert rows == 3
    assert seconds > 30 * 86_400
    impatient = run(env=os.environ | {"SAIL_SPARK__SESSION_TIMEOUT_SECS": "1"})
    assert "is not running" in impatient.stderr


INTERRUPTED = """
import os, signal
from threading import Timer
from analysis.spark.engine import EngineChoice, session

spark = session(EngineChoice("sail"))
Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    spark.range(10**12).selectExpr("sum(id * id % 7)").collect()
except KeyboardInterrupt:
    print(spark.range(3).count())
"""


def test_ctrl_c_ends_a_query_and_not_its_session():
    """Sail would end its server by the signal, and the client would then try for minutes to reach it."""
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_sail_has_no_master():
    with pytest.raises(AnalysisError, match="leave --master out"):
        check("sail", "spark://somewhere:7077")


def test_sail_needs_no_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    check("auto", None)
    check("sail", None)
    for asked, master in (("spark", None), ("auto", "local[1]")):
        with pytest.raises(AnalysisError, match="Java"):
            check(asked, master)


# --- what differs between them ----------------------------------------------------------------------------


@pytest.mark.spark
def test_tables_are_handed_over_whole(spark):
    table = pa.table(
        {
            "number": pa.array([1, None], pa.int64()),
            "text": pa.array([None, "ü"]),
            "list": pa.array([None, [1.5, None]], pa.list_(pa.float64())),
        }
    )
    assert frame(spark, table).toArrow().to_pylist() == table.to_pylist()
    empty = frame(spark, table.slice(0, 0)).toArrow()
    assert [(field.name, field.type) for field in empty.schema] == [(f.name, f.type) for f in table.schema]


@pytest.mark.spark
def test_engines_take_turns_in_a_process(jvm):
    from pyspark.sql import functions as F  # noqa: N812

    for _ in range(2):
        for chosen in (EngineChoice("sail"), EngineChoice("spark")):
            there = session(chosen, small=True)
            assert engine.is_sail(there) == (chosen.name == "sail")
            assert there.range(3).agg(F.sum("id").alias("n")).toArrow()["n"].to_pylist() == [3]


# --- the same tables --------------------------------------------------------------------------------------


def rows_of(path):
    """Return the names and types of a table's columns, and its rows, sorted."""
    table = pq.read_table(path)
    names = sorted(table.column_names)
    kinds = [str(table.schema.field(name).type).replace(" not null", "") for name in names]
    rows = [tuple(row[name] for name in names) for row in table.to_pylist()]
    return list(zip(names, kinds, strict=True)), sorted(rows, key=lambda row: repr(tuple(map(rounded, row))))


def rounded(value):
    if isinstance(value, list):
        return [*map(rounded, value)]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def is_near(one, other):
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return one == other


def check_alike(one, other):
    """Compare the tables of two directories, all of them; return how many there are."""
    names = {path.name for path in one.iterdir() if path.is_dir() or path.suffix == ".parquet"}
    assert names == {path.name for path in other.iterdir() if path.is_dir() or path.suffix == ".parquet"}
    for name in sorted(names):
        (columns, rows), (others, found) = rows_of(one / name), rows_of(other / name)
        assert columns == others, name
        assert len(rows) == len(found), name
        for row, same in zip(rows, found, strict=True):
            assert is_near(row, same), (name, columns)
    return len(names)


def shown(page):
    """Return a page's text with its data unpacked, and the engine that it names."""
    text = page.read_text(encoding="utf-8")
    named = re.search(r"\b(?:Sail|Spark) \d+(?:\.\d+)*", text)
    assert named
    packed = re.search(r'id="data">(.*?)</script>', text)
    return text.replace(packed[1], unpacked(packed[1])).replace(named[0], "ENGINE"), named[0]


@pytest.fixture(scope="module")
def rough(tmp_path_factory):
    """A run in which all goes wrong that can."""
    home = tmp_path_factory.mktemp("rough")
    (home / "rough.toml").write_text(ROUGH)
    emulate(home / "sail", str(home / "rough.toml"), layerings=LAYERINGS)
    shutil.copytree(home / "sail", home / "spark")
    return home


@pytest.mark.spark
def test_a_run_on_both_engines(rough, jvm):
    pages = {name: shown(analyze(rough / name, engine=name, all_tables=True)) for name in ("sail", "spark")}
    assert check_alike(rough / "sail" / "tables", rough / "spark" / "tables") == 64
    assert pages["sail"][0] == pages["spark"][0]
    assert pages["sail"][1] == f"Sail {metadata.version('pysail')}"
    assert pages["spark"][1] == f"Spark {metadata.version('pyspark')}"


@pytest.mark.spark
@pytest.mark.slow
def test_captures_on_both_engines(rough, jvm):
    for name in ("sail", "spark"):
        captures = [f"{x}={rough / 'sail' / x / 'capture.pcapng'}" for x in LAYERINGS]
        arguments = ["analyze", *captures, "--out", str(rough / f"of-{name}"), "--engine", name]
        said = CliRunner().invoke(feednet, arguments, catch_exceptions=False)
        assert said.exit_code == 0
    assert check_alike(rough / "of-sail", rough / "of-spark") == 10
    pages = {name: shown(rough / f"of-{name}" / "report.html") for name in ("sail", "spark")}
    assert pages["sail"][0] == pages["spark"][0]
    assert pages["sail"][1] == f"Sail {metadata.version('pysail')}"
