"""The streaming query behind `feednet watch`: the figures of growing captures, joined in this process.

The engine has the state (analysis.live.stream). This process takes over what each batch tells anew; after a
restart from a checkpoint it takes what its state tells, and the query goes on.

Lag is measured: polling the captures' sizes gives for each byte a time when it was not there yet. The lag of
a byte is from then until its batch is shown, the lag of a batch that of its first byte. It is overestimated
by at most one polling interval.
"""

import json
import os
import shutil
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from analysis.decode.reading import NodeRule
from analysis.errors import AnalysisError, reason
from analysis.live.capture import LiveCapture
from analysis.live.following import Break
from analysis.live.stream import NEEDED, streaming, told, told_so_far
from analysis.spark.capture_source import follow_captures
from analysis.spark.stream_reader import Offset
from captures.formats.growing import START, GrowingCapture
from captures.formats.pcapng import CaptureError, Direction, Interface, Writer

BATCH_BYTES = 8 << 20
"""Capture bytes per batch: bounds memory, and keeps the page updating while a large backlog is read. Batches
then follow each other without a pause.
"""

TRIGGER_S = 0.1
"""Spark's polling interval; the source spaces the batches."""

_MOST_LOOKS = 100_000


class FileGrowth:
    """Growth of a file: its size at each poll that found a change, and the time of the previous poll. Times
    in seconds.
    """

    def __init__(self) -> None:
        self.size = 0
        self.changed: float | None = None
        self._sizes: list[int] = []
        self._before: list[float] = []
        self._last: float | None = None

    def record_size(self, now: float, size: int) -> None:
        """Record the size."""
        if size > self.size:
            self._sizes.append(size)
            self._before.append(now if self._last is None else self._last)
            self.size, self.changed = size, now
            del self._sizes[:-_MOST_LOOKS], self._before[:-_MOST_LOOKS]
        self._last = now

    def written_after(self, at: int) -> float | None:
        """Return a time when byte `at` (from 0) was absent, or the first poll's time if it was present then;
        None if still absent.
        """
        place = bisect_right(self._sizes, at)
        return self._before[place] if place < len(self._sizes) else None


class LiveQuery:
    """Follows captures by Spark.

    Args:
        captures: the paths of each by its name, as in analysis.spark.capture_source.
        breaks: events of nodes and links, by capture.
        every: seconds between batches, as in analysis.spark.capture_source.
        checkpoint: the query's, from which it goes on if it exists; it must be where all executors reach it.
            By default a temporary directory of this machine.

    Attributes:
        captures: what is told of each capture, by name. Guarded by `lock`.
        places: end of the bytes read, by capture.
        batches: number of batches taken over, those before a restart included.
        lags: of the batches shown, seconds.
    """

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Sequence[str]],
        breaks: Mapping[str, Sequence[Break]],
        rule: NodeRule,
        every: float,
        checkpoint: Path | None = None,
    ) -> None:
        self.captures = {name: LiveCapture(name) for name in captures}
        self.lock = Lock()
        self.places = dict.fromkeys(captures, 0)
        self.batches = 0
        self.lags: list[float] = []
        self._growth = {name: FileGrowth() for name in captures}
        self._captures = captures
        self._shown: dict[int, float] = {}
        self._reported = -1
        self._ends: tuple[dict[str, int], dict[str, int]] | None = None  # of captures of these sizes
        self._scratch = None if checkpoint else tempfile.mkdtemp(prefix="feednet-watch-")
        place = str(checkpoint.resolve() if checkpoint else self._scratch)
        with ExitStack() as undo, streaming(spark):
            if self._scratch:
                undo.callback(shutil.rmtree, self._scratch, ignore_errors=True)
            if checkpoint and any(checkpoint.glob("commits/[0-9]*")):
                self._take_over(told_so_far(spark, place))
            packets = follow_captures(spark, captures, rule, BATCH_BYTES, every, NEEDED)
            stream = told(packets, breaks).writeStream.outputMode("update").foreachBatch(self._take)
            trigger = f"{round(min(every, TRIGGER_S) * 1000)} milliseconds"
            stream = stream.option("checkpointLocation", place).trigger(processingTime=trigger)
            self._query: StreamingQuery = stream.start()
            undo.pop_all()

    @property
    def behind(self) -> int:
        """Bytes written and not read yet."""
        return sum(max(0, growth.size - self.places[name]) for name, growth in self._growth.items())

    @property
    def changed(self) -> float | None:
        """Time of the last growth of a capture."""
        return max((each.changed for each in self._growth.values() if each.changed is not None), default=None)

    def is_read(self) -> bool:
        """Return whether all whole records have been read and shown; raise AnalysisError."""
        sizes = {name: growth.size for name, growth in self._growth.items()}
        if self._ends is None or self._ends[0] != sizes:
            try:
                ends = {
                    name: GrowingCapture(paths).pieces(START)[1].at for name, paths in self._captures.items()
                }
            except CaptureError as error:
                raise AnalysisError(str(error)) from error
            self._ends = sizes, ends
        return all(self.places[name] >= end for name, end in self._ends[1].items())

    def poll(self, now: float) -> None:
        """Poll the captures' sizes and the query; raise AnalysisError if the query has ended."""
        for name, paths in self._captures.items():
            for path in paths:
                try:
                    self._growth[name].record_size(now, os.stat(path).st_size)
                except OSError:
                    continue
                break
        if not self._query.isActive:
            error = self._query.exception()
            raise AnalysisError(reason(error) if error else "the query has ended")
        if self._reported + 1 < self.batches or not self.batches:
            self._read_progress()

    def on_shown(self, batches: int, now: float) -> None:
        """Record the number of batches shown."""
        for number in range(max(self._shown, default=-1) + 1, batches):
            self._shown[number] = now

    def stop(self) -> None:
        """End the query."""
        try:
            self._query.stop()
        except (PySparkException, Py4JError):
            pass  # already ended, as poll() reports, or interrupted
        finally:
            if self._scratch:
                shutil.rmtree(self._scratch, ignore_errors=True)

    def _take(self, batch: DataFrame, number: int) -> None:
        """Take over what a batch tells; called in a thread of Spark's."""
        self._take_over(batch)
        self.batches = number + 1

    def _take_over(self, rows: DataFrame) -> None:
        """Take over rows of told(), which are few: at most one for each slice of a capture."""
        found: dict[str, list[tuple[int, str]]] = {}
        for name, place, text in zip(*(column.to_pylist() for column in rows.toArrow().columns), strict=True):
            found.setdefault(name, []).append((place, text))
        with self.lock:
            for name in self.captures.keys() & found.keys():
                self.captures[name].take(found[name])

    def _read_progress(self) -> None:
        """Read offsets from progress reports: of the shown batches, and after a restart, until there is one,
        of all before it.
        """
        for number, start, end in reported_batches(self._query.recentProgress):
            is_new = number > self._reported and number in self._shown
            if (start != end and not is_new) or (start == end and self.batches):
                continue
            waited = []
            for name, place in end.items():
                begin = start.get(name, {}).get("at", 0)
                if place["at"] > begin:
                    since = self._growth[name].written_after(begin)
                    waited += [] if since is None else [self._shown[number] - since]
                self.places[name] = place["at"]
            if is_new:
                self._reported = number
            if waited:
                self.lags.append(max(waited))


def warm_up(spark: SparkSession) -> None:
    """Follow a capture of one frame, so that Spark's one-time loading does not delay the first real batch."""
    with tempfile.TemporaryDirectory(prefix="feednet-warm-") as directory:
        path = os.path.join(directory, "capture")
        with open(path, "wb") as file:
            Writer(file, [Interface("none")], application="feednet").write(0, 0, bytes(60), Direction.IN)
        query = LiveQuery(spark, {"none": [path]}, {}, "interface", 0)
        try:
            while not query.batches:
                query.poll(time.monotonic())
                time.sleep(TRIGGER_S)
        finally:
            query.stop()


def reported_batches(reports: Iterable[Any]) -> Iterator[tuple[int, Offset, Offset]]:
    """Yield number and offsets of each batch in a query's progress reports.

    Spark also reports idleness, at once and every 10 s: under the number of the next batch, with the end of
    the last as both offsets.
    """
    for report in reports:
        progress = report if isinstance(report, dict) else json.loads(report.json)
        source = progress["sources"][0]
        start, end = _fields(source["startOffset"]), _fields(source["endOffset"])
        yield progress["batchId"], start if "addBatch" in progress["durationMs"] else end, end


def _fields(offset: Any) -> Offset:
    return (json.loads(offset) if isinstance(offset, str) else offset) or {}
