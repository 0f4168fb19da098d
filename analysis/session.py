"""The Spark session that every stage of an analysis shares.

Starting Spark costs more than analysing a small run, so there is one session a process. What the JVM says
while it starts is banners and warnings about this machine; it is kept back, and shown only if the start
fails. Later lines are errors and pass through.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from analysis.errors import AnalysisError

OLDEST_JAVA = 17
DEFAULT_MASTER = "local[*]"

_ROOT = Path(__file__).resolve().parent.parent
_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
# A run of 20,000 frames took 60 CPU seconds without these and 35 with them. Compiling what runs once, and
# a task for each of 200 partitions, cost more than they saved.
_SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "4",
}
_MEND = "install it (Debian, Ubuntu: apt install default-jre-headless), or point JAVA_HOME at it"


def spark_session(master: str | None = None, *, small: bool = False) -> SparkSession:
    """Return the process's session, started on `master` (all cores of this machine if None) if need be.

    `small` favours a quick start over throughput, for work of seconds. Executors on other machines need
    this package: install it there. Raises AnalysisError if there is no Java 17 or newer, or if Spark does
    not start.
    """
    if running := SparkSession.getActiveSession():
        return running
    check_java()
    conf = _configuration(master or DEFAULT_MASTER, small)
    early: list[str] = []
    started = Event()
    # Read by a thread, as a pipe that nobody empties would stop the JVM in the end.
    read_end, write_end = os.pipe()
    said = os.fdopen(read_end, encoding="utf-8", errors="replace")
    Thread(target=_listen, args=(said, started, early), daemon=True).start()
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": write_end})  # type: ignore[no-untyped-call]
        context = SparkContext(gateway=gateway, conf=conf)
    except Exception as error:
        if not isinstance(error, PySparkRuntimeError):
            early.append(str(error))
        raise AnalysisError(
            f"Spark does not start on {conf.get('spark.master')}: {_reason(early)}"
        ) from error
    finally:
        os.close(write_end)
    context.setLogLevel("ERROR")
    started.set()
    return SparkSession(context)


def check_java() -> None:
    """Raise AnalysisError unless the Java that Spark would use is new enough."""
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


def _configuration(master: str, small: bool) -> SparkConf:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_local = master.startswith("local")
    if is_local:
        # Otherwise Spark binds the address of the host's name, which need not resolve.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName("feednet")
    conf.setAll(list(_ALWAYS.items()))
    path = filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])
    conf.setExecutorEnv("PYTHONPATH", os.pathsep.join(path))
    if is_local and small:
        conf.setAll(list(_SMALL.items()))
    return conf


def _listen(said: IO[str], started: Event, early: list[str]) -> None:
    for line in said:
        if started.is_set():
            sys.stderr.write(line)
        else:
            early.append(line)


def _reason(lines: list[str]) -> str:
    """Return the line that best says why the JVM gave up."""
    told = [line.strip() for line in lines if line.strip()]
    errors = [line for line in told if re.search(r"error|exception", line, re.IGNORECASE)]
    return (errors or told or ["it ended without a word"])[0]
