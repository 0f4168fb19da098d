"""One Spark session for all tests of the analysis, and a run that was made by hand."""

import os
import tempfile
from pathlib import Path

import pytest
from handmade import write_run
from pyspark.sql import SparkSession
from short_runs import Measured, measured

from analysis.session import spark_session

os.environ.setdefault("FEEDNET_CACHE", "")  # tests leave nothing behind


@pytest.fixture(scope="session")
def spark_start() -> tuple[SparkSession, str]:
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
def spark(spark_start: tuple[SparkSession, str]) -> SparkSession:
    return spark_start[0]


@pytest.fixture(scope="session")
def handmade_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "handmade"
    write_run(directory)
    return directory


@pytest.fixture(scope="session")
def short_runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Every shipped scenario, cut short, and some hard runs, and what they came to."""
    return measured(tmp_path_factory.mktemp("scenarios"))
