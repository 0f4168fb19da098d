"""Starting Spark: quietly, or with one line that says what is missing."""

import os
import socket

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analysis.errors import AnalysisError
from analysis.spark import session
from analysis.spark.engine import check, choose, frame
from analysis.spark.parallel import in_parallel
from analysis.spark.session import check_java, check_master, configure, spark_session


def fake_java(directory, text, status=0):
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {status}\n")
    java.chmod(0o755)


def complaint(monkeypatch, home):
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(AnalysisError) as error:
        check_java()
    assert "\n" not in str(error.value)
    assert "default-jre-headless" in str(error.value)
    return str(error.value)


def test_no_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AnalysisError, match=r"there is none: .*apt install default-jre-headless"):
        check_java()


def test_a_java_home_without_java(monkeypatch, tmp_path):
    assert f"{tmp_path}/bin/java does not run" in complaint(monkeypatch, tmp_path)


def test_a_java_that_fails(monkeypatch, tmp_path):
    fake_java(tmp_path, "broken", status=1)
    assert "does not run" in complaint(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("text", "found"),
    [('openjdk version "11.0.2"', "11"), ('java version "1.8.0_292"', "1"), ("?", "unknown")],
)
def test_a_java_that_is_too_old(monkeypatch, tmp_path, text, found):
    fake_java(tmp_path, text)
    assert f"is version {found}" in complaint(monkeypatch, tmp_path)


def test_a_new_java_will_do(monkeypatch, tmp_path):
    fake_java(tmp_path, 'openjdk version "21.0.1" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


def test_a_start_that_fails_says_why_in_one_line(monkeypatch, tmp_path):
    said = (
        "WARNING: Using incubator modules",
        "26/11/21 12:00:00 WARN Client: Exception on the way",
        "26/11/21 12:00:00 ERROR Backend: All masters are unresponsive!",
        "java.lang.IllegalStateException: stopped",
    )
    fake_java(tmp_path, 'version "17"' + "".join(f"\n{line}" for line in said), status=0)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as nobodys:
        place = f"spark://127.0.0.1:{nobodys.getsockname()[1]}"
        with pytest.raises(AnalysisError) as error:
            spark_session(place)
    assert str(error.value) == f"Spark does not start on {place}: All masters are unresponsive!"


def test_a_master_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(AnalysisError) as error:
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    assert str(error.value) == (
        f"no Spark master answers at 127.0.0.1:1: Connection refused; 127.0.0.1:{port}: Connection refused:"
        " start it, or correct --master"
    )
    for place in ("spark://here", "spark://:7077", "spark://here:70770", "spark://here:port"):
        with pytest.raises(AnalysisError, match="written spark://HOST:PORT"):
            check_master(place)
    for elsewhere in (None, "local", "local[2]", "local[*]", "local[2,3]", "yarn", "k8s://https://here:6443"):
        check_master(elsewhere)
    for nothing in ("", "nan", "local[", "local[0]", "local[x]", "http://here:7077", "here:7077"):
        with pytest.raises(AnalysisError, match="no Spark master: write local"):
            check_master(nothing)


@pytest.mark.spark
def test_the_start_is_silent_and_shared(jvm_start):
    session, said = jvm_start
    assert said == ""
    assert spark_session(small=True) is session


@pytest.mark.spark
def test_settings(jvm):
    assert jvm.conf.get("spark.sql.session.timeZone") == "UTC"
    assert jvm.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert jvm.conf.get("spark.ui.enabled") == "false"


@pytest.mark.spark
def test_a_session_is_set_for_the_work_that_it_is_asked_for(jvm):
    """As when a large run is analysed after a small one, in one process."""
    names = "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage"
    try:
        assert spark_session() is jvm
        assert [jvm.conf.get(name) for name in names] == [str(4 * os.cpu_count()), "true", "true"]
    finally:
        spark_session(small=True)
    assert [jvm.conf.get(name) for name in names] == ["1", "false", "false"]


def test_what_waits_is_not_begun_after_a_failure():
    begun = []

    def fails():
        raise AnalysisError("no")

    with pytest.raises(AnalysisError):
        in_parallel(fails, *(lambda number=number: begun.append(number) for number in range(100)), most=1)
    assert len(begun) < 2


@pytest.mark.spark
def test_rows_after_an_empty_batch_are_not_lost(jvm):
    some = pa.table({"a": [1, 2]})
    table = pa.concat_tables([some, some.slice(0, 0), some])
    assert frame(jvm, table).count() == len(table) == 4


DEFAULTS = """# of the administrator
spark.ui.enabled                  true
spark.executor.memory=3g
spark.master                      yarn
spark.sql.shuffle.partitions      2000
spark.driver.defaultJavaOptions   -XX:+UseG1GC \\
                                  -Dlog=none
spark.executorEnv.PYTHONPATH      /opt/libraries
"""


def test_settings_of_the_user_go_before_ours(monkeypatch, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(session, "_chosen", {})
    configure(["spark.executor.memory=4g", "spark.sql.files.minPartitionNum=7"])
    conf = session._configuration("local[2]", True, "17")
    wanted = {
        "ui.enabled": "true",
        "executor.memory": "4g",
        "sql.shuffle.partitions": "1",  # as the work is small
        "sql.files.minPartitionNum": "7",
        "driver.defaultJavaOptions": "-XX:+UseG1GC -Dlog=none",
        "master": "local[2]",
    }
    assert {name: conf.get(f"spark.{name}") for name in wanted} == wanted
    assert not conf.contains("spark.driver.extraJavaOptions"), "two garbage collectors end Java"
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    assert conf.get("spark.executorEnv.PYTHONPATH").endswith(":/opt/libraries")


def test_settings_are_for_spark(monkeypatch):
    monkeypatch.setattr(session, "_chosen", {})
    for said, why in (
        ("memory=4g", "is written"),
        ("spark.x", "is written"),
        ("spark.master=yarn", "--master"),
    ):
        with pytest.raises(AnalysisError, match=why):
            configure([said])
    configure(["spark.executor.memory=4g"])
    assert choose("auto", None, ()).name == "spark"
    with pytest.raises(AnalysisError, match="--conf is for Spark"):
        check("sail", None)
