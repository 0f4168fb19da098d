"""A directory of files as an NDN producer: segments by NDN's naming conventions, for any consumer.

A file `a/b` in the directory is `<prefix>/a/b`. Its segments are `<prefix>/a/b/v=<version>/seg=<n>`, numbered
from 0, and the version is the time of its last change, in microseconds. Consumers find the version by an
Interest for `<prefix>/a/b` with CanBePrefix (the segment fetchers of ndn-cxx and python-ndn), or by metadata,
`<prefix>/a/b/32=metadata` (NDN's Realtime Data Retrieval: ndncatchunks).
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from base.passive import PassiveApplication
from forwarder.wire.lp import NO_ROUTE, make_lp, open_interest, parse_lp
from forwarder.wire.name import GENERIC, KEYWORD, NAME, SEGMENT, VERSION, component, components
from forwarder.wire.packet import Interest
from forwarder.wire.tlv import MalformedPacket, element, nni, read_nni

SEGMENT_BYTES: Final = 4096
_METADATA: Final = (KEYWORD, b"metadata")
_FRESHNESS_MS: Final = 10_000
_METADATA_FRESHNESS_MS: Final = 10

Sign = Callable[[bytes, bytes, int, bytes], bytes]
"""(name, content, freshness in ms, the component in FinalBlockId) -> the signed Data packet."""


class Files(PassiveApplication):
    """The Application (forwarder.host.Application).

    Args:
        prefix: of all names.
        directory: its files are served, except hidden ones and targets of links outside it.
        sign: see Sign.
    """

    def __init__(self, prefix: bytes, directory: Path, sign: Sign) -> None:
        super().__init__()
        self._prefix = components(prefix)
        self._directory = directory.resolve()
        self._sign = sign

    def receive(self, packet: bytes, now: int) -> None:
        interest = open_interest(packet)
        if interest is None:
            return
        token = parse_lp(packet).pit_token
        data = self.answer(interest)
        if data is None:
            self.outputs.append(make_lp(interest.wire, nack_reason=NO_ROUTE, pit_token=token))
        else:
            self.outputs.append(data if token is None else make_lp(data, pit_token=token))

    def answer(self, interest: Interest) -> bytes | None:
        """Return the Data packet for an Interest; None if there is none."""
        parts = components(interest.name)
        if parts[: len(self._prefix)] != self._prefix:
            return None
        path = parts[len(self._prefix) :]
        try:
            if path[-1:] == [_METADATA]:
                return self._metadata(interest.name, path[:-1])
            if len(path) > 2 and path[-1][0] == SEGMENT and path[-2][0] == VERSION:
                return self._segment(path[:-2], read_nni(path[-2][1]), read_nni(path[-1][1]))
            if path and path[-1][0] == VERSION and interest.can_be_prefix:
                return self._segment(path[:-1], read_nni(path[-1][1]), 0)
            return self._segment(path, None, 0) if interest.can_be_prefix else None
        except (MalformedPacket, OSError, OverflowError, RuntimeError):  # the last: circular links
            return None

    def _metadata(self, name: bytes, path: list[tuple[int, bytes]]) -> bytes | None:
        file = self._file(path)
        if file is None:
            return None
        version = component(VERSION, nni(_version(file.stat())))
        versioned = self._name(path) + version
        first = component(SEGMENT, nni(0))
        return self._sign(name + version + first, element(NAME, versioned), _METADATA_FRESHNESS_MS, first)

    def _segment(self, path: list[tuple[int, bytes]], version: int | None, number: int) -> bytes | None:
        """Return a segment; of the current version by default."""
        file = self._file(path)
        if file is None:
            return None
        with file.open("rb") as opened:
            before = os.fstat(opened.fileno())
            last = max(before.st_size - 1, 0) // SEGMENT_BYTES
            if number > last or version not in (None, _version(before)):
                return None
            opened.seek(number * SEGMENT_BYTES)
            content = opened.read(SEGMENT_BYTES)
            if _version(os.fstat(opened.fileno())) != _version(before):
                return None
        name = self._name(path) + component(VERSION, nni(_version(before))) + component(SEGMENT, nni(number))
        return self._sign(name, content, _FRESHNESS_MS, component(SEGMENT, nni(last)))

    def _name(self, path: list[tuple[int, bytes]]) -> bytes:
        return b"".join(component(*part) for part in (*self._prefix, *path))

    def _file(self, path: list[tuple[int, bytes]]) -> Path | None:
        """Return the file of a path of components; None if there is none to serve."""
        try:
            names = [value.decode() for kind, value in path if kind == GENERIC]
        except UnicodeDecodeError:
            return None
        if not names or len(names) < len(path) or any(_is_unfit(name) for name in names):
            return None
        file = self._directory.joinpath(*names).resolve()
        if not file.is_relative_to(self._directory) or not file.is_file():
            return None
        return None if any(map(_is_unfit, file.relative_to(self._directory).parts)) else file


def _is_unfit(name: str) -> bool:
    return name.startswith(".") or not name or "/" in name or "\0" in name


def _version(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1000
