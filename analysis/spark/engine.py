"""The engines of an analysis: Spark on the JVM, or Sail; their differences are here.

Both take the same PySpark transformations and make the same tables. Spark handles captures of any size,
streams, and clusters; its start takes ten seconds and more. Sail (https://github.com/lakehq/sail, the extra
`sail`) is a server for Spark Connect written in Rust: it runs in a thread of this process and starts in half
a second, but holds its data in memory.

An environment variable selects PySpark's column type: only the engine of the latest session() is usable.
"""

import atexit
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from analysis.errors import AnalysisError, install_command
from analysis.spark.memory import available_bytes
from analysis.spark.session import CONNECT, check_java, check_master, is_configured, spark_session
from captures.formats.files import estimated_frames

SMALL_BYTES = 256 << 20
"""Captures up to this total size are small: Spark prepares for a short job."""

BYTES_A_FRAME = 3200
"""Memory that Sail takes for a frame of a capture, bytes: measured with frames of 155 and of 480 bytes."""

_LONGEST_SILENCE_S = 365 * 86_400
_CLIENTS = "4.2."
"""PySpark versions whose Spark Connect the tested Sail supports; it refuses newer ones."""

_NEEDED = ("pysail", "grpc", "grpc_status", "google.rpc", "zstandard")


ENGINE = "engine"
"""Key of the engine in a table's metadata."""


class EngineChoice(NamedTuple):
    """An engine, and the Spark master if it is Spark."""

    name: Literal["spark", "sail"]
    master: str | None = None

    def __str__(self) -> str:
        return f"{self.name.capitalize()} {metadata.version(f'py{self.name}')}"


def made_by(table: pa.Table) -> dict[str, str]:
    """Return name and version of the engine in a table's metadata; empty if absent."""
    said = (table.schema.metadata or {}).get(ENGINE.encode(), b"").decode()
    name, _, version = said.partition(" ")
    return {name: version} if version else {}


def named(spark: SparkSession) -> str:
    """Return the name and the version of a session's engine."""
    return str(EngineChoice("sail" if is_sail(spark) else "spark"))


def choose(asked: str, master: str | None, captures: Iterable[str | os.PathLike[str]]) -> EngineChoice:
    """Return the engine for captures: by default Sail, where they fit in half of the memory available. Raises
    AnalysisError if it is unavailable, and OSError.
    """
    if asked == "auto":
        is_for_sail = master is None and not is_configured() and _lacking() is None and _fit(captures)
        asked = "sail" if is_for_sail else "spark"
    check(asked, master)
    return EngineChoice("sail" if asked == "sail" else "spark", master)


def _fit(captures: Iterable[str | os.PathLike[str]]) -> bool:
    return sum(map(estimated_frames, captures)) * BYTES_A_FRAME <= available_bytes() / 2


def check(asked: str, master: str | None) -> None:
    """Raise AnalysisError if an engine is unavailable; call it before lengthy work."""
    if asked == "sail":
        if master is not None:
            raise AnalysisError("--engine sail works in this process alone: leave --master out")
        if is_configured():
            raise AnalysisError("--conf is for Spark: leave it out, or --engine sail")
        if lacking := _lacking():
            raise AnalysisError(f"--engine sail: {lacking}")
    elif asked == "spark" or master is not None or is_configured() or _lacking():
        check_java()
        check_master(master)


def session(chosen: EngineChoice, *, small: bool = False) -> SparkSession:
    """Return this process's session of an engine, started if needed; it is current from now on.

    `small` is analysis.spark.session's. Raises AnalysisError if it does not start.
    """
    if chosen.name == "sail":
        os.environ[CONNECT] = "1"
        return _sail()
    return spark_session(chosen.master, small=small)


def is_sail(spark: SparkSession) -> bool:
    """Return whether a session is Sail's."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def parallelism(spark: SparkSession) -> int | None:
    """Return the number of cores that a session works on; None on a cluster, whose executors come later."""
    if is_sail(spark):
        return os.cpu_count() or 1
    context = spark.sparkContext
    return context.defaultParallelism if (context.master or "").startswith("local") else None


def frame(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return a table in memory as a DataFrame.

    Spark takes an empty record batch for the end of a table and loses the rest, so there is one batch. Sail
    takes a null list for an empty one, and reads tables of megabytes only from files.
    """
    whole = table.combine_chunks()
    if is_sail(spark):
        if schema is not None:
            whole = whole.rename_columns(schema.names).cast(to_arrow_schema(schema))
        return spark.read.parquet(str(_kept(whole)))
    return spark.createDataFrame(whole) if schema is None else spark.createDataFrame(whole, schema)


def _kept(table: pa.Table) -> Path:
    path = _scratch() / f"{next(_numbers)}.parquet"
    # Sail rejects column metadata written by pandas or Spark.
    pq.write_table(table.replace_schema_metadata(None), path, store_schema=False)
    return path


_numbers = count()


@cache
def _scratch() -> Path:
    directory = tempfile.TemporaryDirectory(prefix="feednet-")
    _held.append(directory)  # removed when this process ends
    return Path(directory.name)


_held: list[Any] = []


def _lacking() -> str | None:
    """Return what Sail lacks; None if complete."""
    if not all(map(_is_found, _NEEDED)):
        return f"it is not installed: {install_command('sail')}"
    found = metadata.version("pyspark")
    if not found.startswith(_CLIENTS):
        return f"it does not work with PySpark {found}: {install_command('sail')}"
    return None


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a missing parent package
        return False


@contextmanager
def _no_exit_hook() -> Iterator[None]:
    """Let Sail register nothing for the end of the process.

    It would end a telemetry that nobody asked for, and hold Python's lock (GIL) while it waits for threads of
    its own, which may wait for that lock.
    """
    register = atexit.register

    def others(function: Any, *given: Any, **named: Any) -> Any:
        is_of_sail = getattr(function, "__name__", "") == "_shutdown_telemetry"
        return function if is_of_sail else register(function, *given, **named)

    atexit.register = others  # type: ignore[assignment]
    try:
        yield
    finally:
        atexit.register = register


@cache
def _sail() -> SparkSession:
    os.environ.setdefault("RUST_LOG", "off")  # errors arrive as exceptions
    # gRPC would complain about closed sockets in a process forked from this one (such as a JVM).
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    # Otherwise it ends a notebook's session after a quarter of an hour of inactivity.
    os.environ.setdefault("SAIL_SPARK__SESSION_TIMEOUT_SECS", str(_LONGEST_SILENCE_S))
    from pysail.spark import SparkConnectServer
    from pyspark.sql.connect.session import SparkSession as Client

    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with _no_exit_hook():
            server = SparkConnectServer("127.0.0.1", 0)
        server.start(background=True)
        _, port = server.listening_address
        _held.append(server)
        made = Client.builder.remote(f"sc://127.0.0.1:{port}").create()
        # A server of this process that does not answer has ended; the client would wait for it ten minutes.
        made.client.set_retry_policies([])
        made.conf.set("spark.sql.session.timeZone", "UTC")
    finally:
        if current_thread() is main_thread() and on_interrupt is not None:
            # Sail has put its own handler before the program's, and lets waiting threads wait on.
            signal.signal(signal.SIGINT, on_interrupt)
    return made  # type: ignore[return-value]


def disconnect() -> None:
    """Let each call of Sail's session, running or later, raise an exception, in whatever thread it is.

    For signal handlers: the main thread may hold a lock of the connection, so another one closes it.
    """
    if _sail.cache_info().currsize:
        client: Any = _sail().client
        client._closed = True  # else PySpark would ask the server something more as the process ends
        Thread(target=client._channel.close, daemon=True).start()
