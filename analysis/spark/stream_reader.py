"""Reads growing captures for Spark's streams: one row per frame, decoded exactly once.

The offset of a stream is, for each capture, the end of its last whole record
(captures.formats.growing.Position), never the file's size. A batch lies between two offsets, is cut into
pieces like a batch source's, and decoded by the same code; so a stream gives the batch source's rows at any
polling times, and resumes after its checkpoint. TCP streams yield segments.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from analysis.decode.reading import Reading
from analysis.packet_schema import PACKETS
from captures.formats.files import Piece
from captures.formats.growing import START, GrowingCapture, Position, open_any

Offset = dict[str, dict[str, int]]
"""The fields of a Position by the capture's name."""


class GrowingPiece(InputPartition):
    """A piece of a capture, and its possible current paths."""

    def __init__(self, name: str, piece: Piece, paths: Sequence[str]) -> None:
        super().__init__((name, *piece))
        self.name = name
        self.piece = piece
        self.paths = paths


class GrowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reports the growth of captures, cuts the new bytes, and decodes some columns of the pieces."""

    def __init__(
        self,
        captures: Mapping[str, Sequence[str]],
        names: Sequence[str] = tuple(PACKETS.names),
        rule: Any = "auto",
        most_bytes: int | None = None,
        every: float = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._captures = captures
        self._names = names
        self._rule = rule
        self._most = most_bytes
        self._every = every
        self._clock = clock
        self._due = clock()
        self._growing = {name: GrowingCapture(paths) for name, paths in captures.items()}
        self._ends: dict[str, int] = {}
        self._pieces: dict[str, list[Piece]] = {}

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the beginning of every capture."""
        return _offset(dict.fromkeys(self._captures, START))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the byte limit of a batch."""
        return ReadAllAvailable() if self._most is None else ReadMaxBytes(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit reading to the captures' current ends."""
        # The query ends without further input, so nothing may be held back.
        self._every, self._due = 0, self._clock()
        self._ends = {name: _size(paths) for name, paths in self._captures.items()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the readable end of each capture; raises CaptureError."""
        now = self._clock()
        if now < self._due:
            return start
        places = _places(start, self._captures)
        waiting = {
            name: self._ends.get(name, _size(self._captures[name])) - place.at
            for name, place in places.items()
        }
        room = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        is_behind, is_new = False, False
        # Smallest first: unused parts of equal shares go to the others.
        for left, name in zip(
            range(len(places), 0, -1), sorted(waiting, key=waiting.__getitem__), strict=True
        ):
            share = None if room is None else max(1, room // left)
            place = places[name]
            self._pieces[name], places[name] = self._growing[name].pieces(place, self._ends.get(name), share)
            size = places[name].at - place.at
            is_new |= size > 0
            if room is not None and share is not None:
                room -= size
                is_behind |= size >= share
        self._due = now + self._every if is_new and not is_behind else now
        return _offset(places)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the pieces between two offsets; raises CaptureError."""
        ends = _places(end, self._captures)
        found: list[InputPartition] = []
        for name, place in _places(start, self._captures).items():
            if place == ends[name]:
                continue
            pieces = self._pieces.get(name, [])
            if not pieces or pieces[0].start != place.at or pieces[-1].end != ends[name].at:
                # A batch planned before a restart.
                pieces, _ = self._growing[name].pieces(place, ends[name].at)
            found += [GrowingPiece(name, piece, self._captures[name]) for piece in pieces]
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of a piece; raises CaptureError."""
        # Not for processes that plan: see analysis.decode.reading.
        from analysis.decode.reader import ReadStatistics, plain, read_packets, strictly

        assert isinstance(partition, GrowingPiece)
        # It may be renamed before it is opened, but only from one path to a later one.
        for path in partition.paths:
            reading = Reading(partition.name, partition.piece._replace(path=path), self._rule)
            findings = ReadStatistics()
            try:
                for batch in read_packets(reading, findings, self._names):
                    yield plain(batch)
            except FileNotFoundError:
                if path == partition.paths[-1]:
                    raise
                continue
            strictly(path, findings.damages)
            return


def _size(paths: Sequence[str]) -> int:
    """Return the size of a capture at its current path; 0 if there is none yet."""
    try:
        with open_any(paths) as file:
            return file.seek(0, 2)
    except FileNotFoundError:
        return 0


def _offset(places: Mapping[str, Position]) -> Offset:
    return {name: place._asdict() for name, place in places.items()}


def _places(offset: Mapping[str, Mapping[str, int]], names: Mapping[str, Any]) -> dict[str, Position]:
    return {name: Position(**offset[name]) if name in offset else START for name in names}
