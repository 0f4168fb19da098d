"""One session of each engine for all tests of the analysis, and a run that was made by hand."""

import os
import tempfile
from pathlib import Path

import pytest
from handmade import write_run
from pyspark.sql import SparkSession
from short_runs import Measured, measured

from analysis.spark.engine import EngineChoice, session
from analysis.spark.session import CONNECT, spark_session

os.environ.setdefault("FEEDNET_CACHE", "")  # tests leave nothing behind

SAIL = EngineChoice("sail")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before a test and its fixtures: the engine that they are for."""
    names = getattr(item, "fixturenames", ())
    if "jvm_start" in names:
        os.environ.pop(CONNECT, None)
    elif "spark" in names:
        session(SAIL)


@pytest.fixture(scope="session")
def jvm_start() -> tuple[SparkSession, str]:
    """The session, and everything that was written to standard error and output while it started."""
    with tempfile.TemporaryFile() as said:
        saved = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in saved:
                os.dup2(said.fileno(), number)
            session = spark_session("local[2]", small=True)
            session.range(3).count()
        finally:
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)
        said.seek(0)
        return session, said.read().decode()


@pytest.fixture(scope="session")
def jvm(jvm_start: tuple[SparkSession, str]) -> SparkSession:
    """Spark itself, for what only it does, and for what it must do as Sail does."""
    return jvm_start[0]


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """What the transformations are tested with: Sail, which starts in no time."""
    return session(SAIL)


@pytest.fixture(scope="session")
def handmade_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "handmade"
    write_run(directory)
    return directory


@pytest.fixture(scope="session")
def short_runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Every shipped scenario, cut short, and some hard runs, and what they came to."""
    return measured(tmp_path_factory.mktemp("scenarios"))
