"""How far other peers have said they were, kept for request skipping (`ssb.replication.ebt.RemoteClocks`)."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path

from ssb.canonical import InvalidJson, parse, stringify
from ssb.store.feeds import StoreError


class MemoryClocks:
    """Clocks in memory; they outlive connections.

    Args:
        clocks: peer -> its clock; kept up to date.
    """

    def __init__(self, clocks: dict[str, dict[str, int]] | None = None) -> None:
        self._clocks = {} if clocks is None else clocks

    def remote_clock(self, peer: str) -> Mapping[str, int]:
        """Return feed -> sequence number, -1 for a feed that the peer does not replicate."""
        return self._clocks.get(peer, {})

    def set_remote_clock(self, peer: str, clock: Mapping[str, int]) -> None:
        """Replace what is kept of a peer."""
        self._clocks[peer] = dict(clock)

    def forget_feed(self, feed: str) -> None:
        """Remove a feed from what is kept of every peer."""
        for clock in self._clocks.values():
            clock.pop(feed, None)


class ClockDirectory:
    """Clocks in a directory: a JSON object a peer, as ssb-ebt (npm) keeps them in `ebt/`.

    They save notes and are no knowledge that must not be lost: a file that is damaged counts as none.

    Args:
        path: of the directory, which is made. Methods raise StoreError if the disk fails.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}") from None

    def remote_clock(self, peer: str) -> Mapping[str, int]:
        """Return feed -> sequence number, -1 for a feed that the peer does not replicate."""
        return self._read(self._path / _file_name(peer))

    def set_remote_clock(self, peer: str, clock: Mapping[str, int]) -> None:
        """Replace what is kept of a peer."""
        self._write(self._path / _file_name(peer), clock)

    def forget_feed(self, feed: str) -> None:
        """Remove a feed from what is kept of every peer."""
        for path in self._path.iterdir():
            clock = dict(self._read(path))
            if clock.pop(feed, None) is not None:
                self._write(path, clock)

    def _read(self, path: Path) -> Mapping[str, int]:
        try:
            clock = parse(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None
        except (InvalidJson, UnicodeDecodeError):
            return {}
        if not isinstance(clock, dict):
            return {}
        return {feed: sequence for feed, sequence in clock.items() if type(sequence) is int}

    def _write(self, path: Path, clock: Mapping[str, int]) -> None:
        partial = path.with_name(f".{path.name}")
        try:
            partial.write_text(stringify(dict(clock)), encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None


def _file_name(peer: str) -> str:
    """Return the name of a peer's file: its reference with letters that paths may have."""
    raw = base64.b64decode(peer[1:].removesuffix(".ed25519"))
    return f"@{base64.urlsafe_b64encode(raw).decode()}.ed25519"
