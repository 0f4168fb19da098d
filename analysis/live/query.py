"""The streaming query behind `feednet watch`: batches of growing captures, added up in this process.

Lag is measured, not guessed: whoever runs the query looks at the captures' sizes all the while, so it is
known when a byte was not there yet. From then until the batch with it has been shown is that byte's lag, and
the lag of a batch is that of its first byte. It is too long by the time between two looks.
"""

import json
import os
import shutil
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from analysis.decode.reader import NodeRule
from analysis.errors import AnalysisError, reason
from analysis.live.batch import counts, messages
from analysis.live.capture import NEEDED, Break, LiveCapture
from analysis.spark.stream_source import Offset, follow_captures
from captures.formats.growing import START, GrowingCapture
from captures.formats.pcapng import CaptureError, Direction, Interface, Writer

BATCH_BYTES = 8 << 20
"""Bytes of captures in a batch, so that the page goes on while a large one is caught up with, in bounded
memory. Batches then follow each other at once, whatever the time between them is otherwise."""

TRIGGER_S = 0.1
"""Between two looks of Spark's at the captures; the source keeps the time between batches."""

_CHUNK = 20_000  # messages that are Python objects at a time
_MOST_LOOKS = 100_000
_IN_ORDER = [("time", "ascending"), ("frame", "ascending")]


class Growth:
    """How a file has grown: its size at each look at which it had changed, and the time of the look before.

    Times in seconds.
    """

    def __init__(self) -> None:
        self.size = 0
        self.changed: float | None = None
        self._sizes: list[int] = []
        self._before: list[float] = []
        self._last: float | None = None

    def look(self, now: float, size: int) -> None:
        """Take note of the size."""
        if size > self.size:
            self._sizes.append(size)
            self._before.append(now if self._last is None else self._last)
            self.size, self.changed = size, now
            del self._sizes[:-_MOST_LOOKS], self._before[:-_MOST_LOOKS]
        self._last = now

    def written_after(self, at: int) -> float | None:
        """Return a time at which byte `at` (counted from 0) was not there yet; of what was there at the first
        look, the time of that. None if it is not there now."""
        place = bisect_right(self._sizes, at)
        return self._before[place] if place < len(self._sizes) else None


class LiveQuery:
    """Follows captures, by Spark.

    Args:
        captures: the paths of each by its name, as analysis.spark.stream_source has them.
        breaks: what happens to nodes and links, by capture.
        every: seconds between batches, as analysis.spark.stream_source has it.

    Attributes:
        captures: the counts and PITs of each capture, by its name. Use it inside `lock`.
        places: the byte up to which each capture has been read.
        batches: how many have been added up.
        lags: of the batches that were shown, seconds.
    """

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Sequence[str]],
        breaks: Mapping[str, Sequence[Break]],
        rule: NodeRule,
        every: float,
    ) -> None:
        self.captures = {name: LiveCapture(name, breaks.get(name, ())) for name in captures}
        self.lock = Lock()
        self.places = dict.fromkeys(captures, 0)
        self.batches = 0
        self.lags: list[float] = []
        self._growth = {name: Growth() for name in captures}
        self._captures = captures
        self._shown: dict[int, float] = {}
        self._reported = -1
        self._ends: tuple[dict[str, int], dict[str, int]] | None = None  # of captures of these sizes
        self._checkpoint = tempfile.mkdtemp(prefix="feednet-watch-")
        packets = follow_captures(spark, captures, rule, BATCH_BYTES, every)
        stream = packets.writeStream.foreachBatch(self._take).option("checkpointLocation", self._checkpoint)
        trigger = f"{round(min(every, TRIGGER_S) * 1000)} milliseconds"
        self._query: StreamingQuery = stream.trigger(processingTime=trigger).start()

    @property
    def behind(self) -> int:
        """The bytes that are written and not read yet."""
        return sum(max(0, growth.size - self.places[name]) for name, growth in self._growth.items())

    @property
    def changed(self) -> float | None:
        """When a capture was last seen to have grown."""
        return max((each.changed for each in self._growth.values() if each.changed is not None), default=None)

    def is_read(self) -> bool:
        """Tell whether all records that are whole have been read and shown; raise AnalysisError."""
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

    def look(self, now: float) -> None:
        """Look at the captures' sizes and at the query; raise AnalysisError if that has ended."""
        for name, paths in self._captures.items():
            for path in paths:
                try:
                    self._growth[name].look(now, os.stat(path).st_size)
                except OSError:
                    continue
                break
        if not self._query.isActive:
            error = self._query.exception()
            raise AnalysisError(reason(error) if error else "the query has ended")
        if self._reported + 1 < self.batches:
            self._read_progress()

    def shown(self, batches: int, now: float) -> None:
        """Take note that so many batches have been shown."""
        for number in range(max(self._shown, default=-1) + 1, batches):
            self._shown[number] = now

    def stop(self) -> None:
        """End the query."""
        try:
            self._query.stop()
        except (PySparkException, Py4JError):
            pass  # it has ended already, and look() says why, or has been interrupted
        finally:
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _take(self, batch: DataFrame, number: int) -> None:
        """Add a batch up; called by Spark, in a thread of its own."""
        kept = batch.select(*NEEDED).persist()  # decoded once, whatever it takes to look at it twice
        try:
            counted = counts(kept).toArrow().to_pylist()
            told = messages(kept).toArrow().sort_by(_IN_ORDER)
        finally:
            kept.unpersist()
        with self.lock:
            for name, capture in self.captures.items():
                capture.count([row for row in counted if row["layering"] == name])
            for begin in range(0, told.num_rows, _CHUNK):
                rows = told.slice(begin, _CHUNK).to_pylist()
                for name, capture in self.captures.items():
                    capture.follow([row for row in rows if row["layering"] == name])
            self.batches = number + 1

    def _read_progress(self) -> None:
        """Learn which bytes were in the batches that have been shown."""
        for number, start, end in reported_batches(self._query.recentProgress):
            if number <= self._reported or number not in self._shown:
                continue
            self._reported = number
            waited = []
            for name, place in end.items():
                begin = start.get(name, {}).get("at", 0)
                if place["at"] > begin:
                    since = self._growth[name].written_after(begin)
                    waited += [] if since is None else [self._shown[number] - since]
                self.places[name] = place["at"]
            if waited:
                self.lags.append(max(waited))


def warm_up(spark: SparkSession) -> None:
    """Follow a capture of one frame: what Spark loads once is then there for the first batch that counts."""
    with tempfile.TemporaryDirectory(prefix="feednet-warm-") as directory:
        path = os.path.join(directory, "capture")
        with open(path, "wb") as file:
            Writer(file, [Interface("none")], application="feednet").write(0, 0, bytes(60), Direction.IN)
        query = LiveQuery(spark, {"none": [path]}, {}, "interface", 0)
        try:
            while not query.batches:
                query.look(time.monotonic())
                time.sleep(TRIGGER_S)
        finally:
            query.stop()


def reported_batches(reports: Iterable[Any]) -> Iterator[tuple[int, Offset, Offset]]:
    """Yield the number of each batch in a query's reports of progress, and the offsets that it lies between.

    Spark also reports, every 10 s, that nothing happens: under the number of the batch that comes next.
    """
    for report in reports:
        told = report if isinstance(report, dict) else json.loads(report.json)
        if "addBatch" in told["durationMs"]:
            source = told["sources"][0]
            yield told["batchId"], _fields(source["startOffset"]), _fields(source["endOffset"])


def _fields(offset: Any) -> Offset:
    return (json.loads(offset) if isinstance(offset, str) else offset) or {}
