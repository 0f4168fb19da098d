"""Clocks of other peers, stored for request skipping (`ssb.replication.ebt.RemoteClocks`)."""

import base64
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from base.files import write_whole
from ssb.canonical import InvalidJson, parse_bytes, stringify
from ssb.store.feeds import StoreError

UNKNOWN: Final = -2
"""In a clock: the peer replicates a feed, at an unknown number."""


_Change = Callable[[dict[str, int], Collection[str]], None]


class MemoryClocks:
    """Clocks in memory; they outlive connections.

    Args:
        clocks: peer -> its clock; updated in place.
    """

    def __init__(self, clocks: dict[str, dict[str, int]] | None = None) -> None:
        self._clocks = {} if clocks is None else clocks

    def remote_clock(self, peer: str) -> Mapping[str, int]:
        """Return feed -> sequence number, -1 for a feed that the peer does not replicate."""
        return self._clocks.get(peer, {})

    def set_remote_clock(self, peer: str, clock: Mapping[str, int]) -> None:
        """Replace the clock of a peer."""
        self._clocks[peer] = dict(clock)

    def forget_feeds(self, feeds: Collection[str]) -> None:
        """Remove feeds from the clocks of all peers."""
        for clock in self._clocks.values():
            _forget(clock, feeds)

    def doubt_feeds(self, feeds: Collection[str]) -> None:
        """Replace the numbers of feeds by UNKNOWN for the peers that replicate them."""
        for clock in self._clocks.values():
            _doubt(clock, feeds)


class ClockDirectory:
    """Clocks in a directory: a JSON object a peer, as ssb-ebt (npm) stores them in `ebt/`.

    They only save notes, so failures of the disk are ignored. A damaged or unreadable file counts as missing.
    A file that cannot be written is removed, as no clock is better than an outdated one; the clock stays in
    memory, and is written with the next that can be. Clocks stay in memory once they have been read: a peer
    that newly wants many feeds changes all of them.

    Args:
        path: of the directory, created if missing. Raises StoreError if it cannot be.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}") from None
        self._clocks: dict[Path, dict[str, int]] = {}
        self._unwritten: dict[Path, None] = {}

    def remote_clock(self, peer: str) -> Mapping[str, int]:
        """Return feed -> sequence number, -1 for a feed that the peer does not replicate."""
        return self._clock(self._path / _file_name(peer))

    def set_remote_clock(self, peer: str, clock: Mapping[str, int]) -> None:
        """Replace the clock of a peer."""
        path = self._path / _file_name(peer)
        if clock != self._clock(path):
            self._write(path, dict(clock))

    def forget_feeds(self, feeds: Collection[str]) -> None:
        """Remove feeds from the clocks of all peers."""
        self._change(feeds, _forget)

    def doubt_feeds(self, feeds: Collection[str]) -> None:
        """Replace the numbers of feeds by UNKNOWN for the peers that replicate them."""
        self._change(feeds, _doubt)

    def _change(self, feeds: Collection[str], change: _Change) -> None:
        """Change all clocks that have some of the feeds."""
        for path in sorted({*self._path.glob("@*"), *self._unwritten}):
            before = self._clock(path)
            if any(feed in before for feed in feeds):
                clock = dict(before)
                change(clock, feeds)
                if clock != before:
                    self._write(path, clock)

    def _clock(self, path: Path) -> dict[str, int]:
        if path in self._clocks:
            return self._clocks[path]
        clock = self._read(path)
        if clock:
            self._clocks[path] = clock
        return clock

    def _read(self, path: Path) -> dict[str, int]:
        try:
            clock = parse_bytes(path.read_bytes())
        except (OSError, InvalidJson):
            return {}
        if not isinstance(clock, dict):
            return {}
        return {feed: sequence for feed, sequence in clock.items() if type(sequence) is int}

    def _write(self, path: Path, clock: dict[str, int]) -> None:
        self._clocks[path] = clock
        self._unwritten[path] = None
        for each in [path, *self._unwritten]:
            if each in self._unwritten and not self._has_written(each):
                return

    def _has_written(self, path: Path) -> bool:
        """Write a file, or else remove it; return whether it was written."""
        try:
            write_whole(path, stringify(dict(self._clocks[path])), is_sole=True)
        except OSError:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return False
        del self._unwritten[path]
        return True


def _forget(clock: dict[str, int], feeds: Collection[str]) -> None:
    """Remove feeds from one clock."""
    for feed in feeds:
        clock.pop(feed, None)


def _doubt(clock: dict[str, int], feeds: Collection[str]) -> None:
    """Replace the numbers of feeds in one clock; see doubt_feeds()."""
    for feed in feeds:
        if clock.get(feed, UNKNOWN) >= 0:
            clock[feed] = UNKNOWN
        elif clock.get(feed) != UNKNOWN:
            clock.pop(feed, None)


def _file_name(peer: str) -> str:
    """Return the name of a peer's file: its reference with letters that paths may have."""
    raw = base64.b64decode(peer[1:].removesuffix(".ed25519"))
    return f"@{base64.urlsafe_b64encode(raw).decode()}.ed25519"
