"""The JVM session of Spark, shared by every stage of an analysis.

Starting Spark costs more than analysing a small run, so there is one session per process. The JVM's startup
output (banners and warnings) is suppressed, and shown only if the start fails. Later it logs nothing, as
failures raise exceptions. The settings here are defaults: those of the user's spark-defaults.conf and of
--conf go before them. Only --conf goes before what is planned by the size of the work.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from analysis.errors import AnalysisError
from analysis.spark.class_data import java_options

OLDEST_JAVA = 17
DEFAULT_MASTER = "local[*]"
CONNECT = "SPARK_CONNECT_MODE_ENABLED"
"""The variable that makes PySpark create columns for Spark Connect, the other engine (analysis.spark.engine).
"""

_ROOT = Path(__file__).resolve().parents[2]
_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.authenticate.socketTimeout": "300s",  # 15 s are not enough on a very busy machine
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    # This saves a tenth of the processor time: else Spark adds up the bytes of a batch at each row, and
    # Parquet looks for the least and the greatest value of each column; readers may select by times alone. A
    # batch is bounded by its rows, of 64 kB at most.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.hadoop.parquet.column.statistics.enabled": "false",
    "spark.hadoop.parquet.column.statistics.enabled#time": "true",
    "spark.hadoop.parquet.size.statistics.enabled": "false",
    "spark.sql.maxConcurrentOutputFileWriters": "100",  # else tasks sort all rows by their directories
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Without checksum files, which other programs take for tables.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
# Compiling code that runs once costs more than it saves, in Java and in Spark; so do adaptive planning, more
# tasks than work (jobs run in parallel), and parallel garbage collection. The quick compiler alone has 48 MB
# for its code by default, and several runs in one session fill that.
_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.files.minPartitionNum": "1",
}
_QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
_JAVA_OPTIONS = {"spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"}
_LOG_LEVEL = "spark.log.level"
_PROGRESS = "Streaming TransformWithState"
"""What PySpark's workers of stateful operators print of their steps."""
_PATIENCE_S = 5.0
"""Timeout of a connection to the master."""

_MASTER = re.compile(r"local(\[([1-9]\d*|\*)(, *[1-9]\d*)?\])?|local-cluster\[[\d, ]+\]|yarn|k8s://.+")
"""Masters other than standalone ones, as SparkContext parses them."""

_SETTING = re.compile(r"\s*(spark\.[\w.#-]+)\s*[\s=:]\s*(.*?)\s*")
"""A line of spark-defaults.conf, a file of java.util.Properties, that sets something of Spark's."""

_chosen: dict[str, str] = {}
"""The settings of --conf."""

_MEND = "install it (Debian, Ubuntu: apt install default-jre-headless), or point JAVA_HOME at it"


def configure(settings: Iterable[str]) -> None:
    """Have sessions that start from now on use settings of Spark, each spark.NAME=VALUE.

    Raises AnalysisError for another form, and for the master, which is an argument of spark_session().
    """
    for said in settings:
        name, is_there, value = said.partition("=")
        if not is_there or not name.startswith("spark."):
            raise AnalysisError(f"--conf {said}: a setting of Spark is written spark.NAME=VALUE")
        if name == "spark.master":
            raise AnalysisError("--conf spark.master: write --master instead")
        _chosen[name] = value


def is_configured() -> bool:
    """Return whether configure() was given settings."""
    return bool(_chosen)


def spark_session(master: str | None = None, *, small: bool = False) -> SparkSession:
    """Return the process's session, started on `master` (all cores of this machine if None) if needed.

    `small` favours a quick start over throughput, for work of seconds. Executors on other machines need this
    package, or the directory above it under the same path. Raises AnalysisError without Java 17 or newer, if
    `master` does not answer, or if Spark does not start.
    """
    os.environ.pop(CONNECT, None)
    if running := SparkSession.getActiveSession():
        for name, value in _planning(running.sparkContext.master or "", small).items():
            if name in _chosen:
                continue
            if value is None:
                running.conf.unset(name)
            else:
                running.conf.set(name, value)
        return running
    java_version = check_java()
    check_master(master)
    conf = _configuration(master or DEFAULT_MASTER, small, java_version)
    early: list[str] = []
    started = Event()
    # Drained by a thread, as a full pipe would block the JVM.
    read_end, write_end = os.pipe()
    said = os.fdopen(read_end, encoding="utf-8", errors="replace")
    listener = Thread(target=_listen, args=(said, started, early), daemon=True)
    listener.start()
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with os.fdopen(write_end, "wb") as pipe:
            gateway = launch_gateway(conf, popen_kwargs={"stderr": pipe})  # type: ignore[no-untyped-call]
        context = SparkContext(gateway=gateway, conf=conf)
        session = SparkSession(context)
    except (PySparkException, Py4JError) as error:
        listener.join(timeout=1)  # also a running JVM has finished its output
        raise AnalysisError(
            f"Spark does not start on {conf.get('spark.master')}: {_reason(early)}"
        ) from error
    if not conf.contains(_LOG_LEVEL):
        context.setLogLevel("OFF")  # failures arrive as exceptions
    if on_interrupt not in (signal.getsignal(signal.SIGINT), signal.default_int_handler):
        signal.signal(signal.SIGINT, on_interrupt)  # the program's own, which Spark has replaced
    started.set()
    return session


def check_java() -> str:
    """Return the version output of Spark's Java; raise AnalysisError if it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise AnalysisError(f"Spark needs Java {OLDEST_JAVA} or newer, and there is none: {_MEND}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise AnalysisError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {java} does not run: {_MEND}"
        ) from error
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = version[1] if version else "unknown"
        raise AnalysisError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is version {found}: {_MEND}"
        )
    return said


def check_master(master: str | None) -> None:
    """Raise AnalysisError for an invalid master, or a standalone one that refuses connections; Spark would
    report it much later.
    """
    master = DEFAULT_MASTER if master is None else master
    if _MASTER.fullmatch(master):
        return
    scheme, _, places = master.partition("://")
    if scheme != "spark":
        raise AnalysisError(
            f"{master!r}: no Spark master: write local[N], spark://HOST:PORT, yarn or k8s://URL"
        )
    reasons = []
    for place in places.split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise AnalysisError(f"{master}: a Spark master is written spark://HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
        else:
            return
    raise AnalysisError(f"no Spark master answers at {'; '.join(reasons)}: start it, or correct --master")


def _defaults() -> dict[str, str]:
    """Return the settings of spark-defaults.conf, but for the master."""
    home = os.environ.get("SPARK_HOME")
    places = (os.environ.get("SPARK_CONF_DIR"), home and str(Path(home, "conf")))
    found: dict[str, str] = {}
    if place := next(filter(None, places), None):
        with suppress(FileNotFoundError):
            text = Path(place, "spark-defaults.conf").read_text("utf-8", "replace")
            lines = re.sub(r"\\\n\s*", "", text).splitlines()  # a line may go on in the next one
            found = {said[1]: said[2] for line in lines if (said := _SETTING.fullmatch(line))}
    found.pop("spark.master", None)
    return found


def _configuration(master: str, small: bool, java_version: str) -> SparkConf:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    if "utf" not in locale.lower():  # else Java would not find files with non-ASCII names
        os.environ["LC_ALL"] = "C.UTF-8"
    is_local = master.startswith("local")
    if is_local:
        # Otherwise Spark binds the address of the host's name, which need not resolve.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName("feednet")
    said = _defaults() | _chosen
    planned = {name: value for name, value in _planning(master, small).items() if value}
    conf.setAll([*(_ALWAYS | said | planned | _chosen).items()])
    path = filter(None, [str(_ROOT), os.environ.get("PYTHONPATH"), said.get("spark.executorEnv.PYTHONPATH")])
    conf.setExecutorEnv("PYTHONPATH", os.pathsep.join(path))
    # Workers start in the user's directory, whose analysis.py would shadow ours. The JVM tells some of them.
    conf.setExecutorEnv("PYTHONSAFEPATH", "1")
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    if small and is_local:
        conf.setIfMissing("spark.default.parallelism", "1")
    if is_local and not said.keys() & _JAVA_OPTIONS:  # a second choice of the garbage collector ends Java
        quick = _QUICK_JAVA if small else ()
        conf.set("spark.driver.extraJavaOptions", " ".join([*quick, *java_options(java_version)]))
    return conf


def _planning(master: str, small: bool) -> dict[str, str | None]:
    """Return the settings that a session may change; None stands for Spark's default."""
    # Some shuffles keep the default of 200 partitions, which are 200 tasks however small the table is.
    is_few = small or master.startswith("local")
    shuffle = str(1 if small else 4 * (os.cpu_count() or 1)) if is_few else None
    return {"spark.sql.shuffle.partitions": shuffle} | {
        name: value if small else None for name, value in _SMALL.items()
    }


def _listen(said: IO[str], started: Event, early: list[str]) -> None:
    for line in said:
        if started.is_set():
            if line.strip() and _PROGRESS not in line:
                sys.stderr.write(line)
        else:
            early.append(line)


def _reason(lines: list[str]) -> str:
    """Return the line that best explains why the JVM gave up, without its prefix."""
    for sign in (r" ERROR \S+: (.+)", r'Exception in thread "main" (.+)', r"(.*(?:Error|Exception).*)"):
        for line in lines:
            if found := re.search(sign, line):
                return found[1].strip()
    return next((line.strip() for line in lines if line.strip()), "it ended without a word")
