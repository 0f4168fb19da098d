"""What lies in the user's directory is the user's: neither Spark's workers nor ours take modules from it."""

import sys

import pytest
from exchange import A, B, answer, question, write
from processes import Feednet

from topologies.mininet import sandbox

POISON = ["analysis.py", "forwarder.py", "random.py", "captures/__init__.py", "testbed/__init__.py"]

WORKERS = """
import sys
from pathlib import Path

from analysis.decode.reading import Reading
from analysis.spark.parquet import BY
from analysis.spark.session import spark_session
from analysis.spark.capture_source import follow_captures
from analysis.spark.to_parquet import extract
from captures.formats.files import cut

if __name__ == "__main__":
    trace = Path(sys.argv[1]) / "a-eth0.pcap"
    spark = spark_session("local[2]", small=True)
    [report] = extract([Reading("x", piece) for piece in cut(trace)], Path("packets"), BY, spark)
    print(report.kinds)
    stream = follow_captures(spark, {"trace": [str(trace)]}).writeStream.format("parquet")
    stream = stream.option("checkpointLocation", "checkpoint").trigger(availableNow=True)
    stream.start("stream").awaitTermination()
    print(spark.read.parquet("stream").count())
"""
"""All kinds of Python processes that Spark starts for us."""


@pytest.fixture
def poisoned(tmp_path):
    """Return a directory with modules that are called like ours, and like Python's, and tell if they run."""
    directory = tmp_path / "theirs"
    for name in POISON:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        notes = f"open({str(tmp_path / 'executed')!r}, 'a').write('{name} ')"
        (directory / name).write_text(f"{notes}\nraise RuntimeError('{name} is theirs')\n")
    return directory


@pytest.mark.spark
@pytest.mark.slow
def test_sparks_workers(tmp_path, poisoned):
    write(tmp_path / "a-eth0.pcap", *[question(A, B, "/b"), answer(B, A, "/b")] * 5)
    (tmp_path / "workers.py").write_text(WORKERS)
    with Feednet(tmp_path, cwd=poisoned, program=[sys.executable, tmp_path / "workers.py"]) as process:
        status, said, complained = process.ended()
    assert status == 0, complained
    assert said.splitlines() == ["{'interest': 5, 'data': 5}", "10"]
    assert not (tmp_path / "executed").exists()


def test_our_own(tmp_path, poisoned):
    arguments = ["run", "line", "--items", 2, "--layering", "lli", "--sweep", "seed=1,2", "--no-report"]
    with Feednet(*arguments, "--out", tmp_path / "out", cwd=poisoned) as process:
        status, _, complained = process.ended()
    assert (status, complained) == (0, "")
    assert not (tmp_path / "executed").exists()


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"Mininet cannot run here: {sandbox.why_not()}")
def test_those_in_the_box(tmp_path, poisoned):
    arguments = ["run", "line", "--items", 2, "--layering", "lli", "--net", "mininet", "--no-report"]
    with Feednet(*arguments, "--out", tmp_path / "out", cwd=poisoned) as process:
        status, _, complained = process.ended()
    assert (status, complained) == (0, "")
    assert not (tmp_path / "executed").exists()
