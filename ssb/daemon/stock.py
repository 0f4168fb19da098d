"""Directories of stock peers: the files of ssb-server and ssb-db2, read without these programs.

    secret              the identity (ssb.key_file)
    flume/log.offset    messages of ssb-server and of others with ssb-db (npm's flumelog-offset)
    db2/log.bipf        messages of peers with ssb-db2 (npm's async-append-only-log)
    blobs/              blobs, as ours
    conn.json, gossip.json    addresses of other peers (ssb-conn, ssb-gossip)

Such a directory is only read. It stays the stock peer's: two programs that write messages with one identity
fork its feed.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from ssb import bipf
from ssb.canonical import InvalidJson, Value, parse_bytes
from ssb.transport.address import InvalidAddress, PeerAddress, parse_address

FLUME: Final = Path("flume", "log.offset")
DB2: Final = Path("db2", "log.bipf")

_BLOCK: Final = 64 << 10  # of log.bipf: records do not cross blocks
_LARGEST: Final = 1 << 20  # bytes of an entry; messages have far fewer
_LENGTH: Final = struct.Struct("<H")
_BEFORE: Final = struct.Struct(">I")
_AFTER: Final = struct.Struct(">II")  # the length again, and the end of the file then


class StockEntry(NamedTuple):
    """An entry of a log.

    Attributes:
        place: file and byte where it begins.
        value: `{"key": id, "value": message, ...}`; or, as text, the fault in it.
    """

    place: str
    value: Value


def stock_logs(directory: Path) -> list[Path]:
    """Return the logs of stock peers in a directory; ssb-db2 creates its own beside an older one."""
    return [directory / name for name in (FLUME, DB2) if (directory / name).exists()]


def read_log(path: Path) -> Iterator[StockEntry]:
    """Yield the entries of a log, in order, except for deleted ones. Raises OSError."""
    with path.open("rb") as file:
        yield from (_read_db2 if path.name == DB2.name else _read_flume)(file, path)


def addresses(directory: Path) -> list[PeerAddress]:
    """Return a stock peer's addresses of other peers; unreadable ones are skipped."""
    found: dict[str, PeerAddress] = {}
    for text in (*_keys_of(directory / "conn.json"), *_items_of(directory / "gossip.json")):
        try:
            address = parse_address(text)
        except InvalidAddress:
            continue
        found[address.peer] = address
    return [*found.values()]


def _read_flume(file: BinaryIO, path: Path) -> Iterator[StockEntry]:
    """An entry: its length, JSON, its length, the size of the file behind it; 32 bits each, big-endian."""
    at = 0
    while before := file.read(_BEFORE.size):
        place = f"{path}, byte {at}"
        length = _BEFORE.unpack(before)[0] if len(before) == _BEFORE.size else _LARGEST
        body = file.read(length) if length < _LARGEST else b""
        after = file.read(_AFTER.size)
        at += _BEFORE.size + length + _AFTER.size
        if after != _AFTER.pack(length, at & 0xFFFFFFFF):
            yield StockEntry(place, "the log is cut off or damaged here, and was not read any further")
            return
        if body.strip(b"\0"):
            yield StockEntry(place, _json(body))


def _read_db2(file: BinaryIO, path: Path) -> Iterator[StockEntry]:
    """Blocks of records: a length of 16 bits, little-endian, and BIPF; the length 0 ends a block early."""
    if path.with_name(f"{path.name}.compaction").exists():
        yield StockEntry(
            str(path), "its compaction was interrupted; start its own program once, which ends it"
        )
    start = 0
    while block := file.read(_BLOCK):
        at = 0
        while at + _LENGTH.size <= len(block) and (length := _LENGTH.unpack_from(block, at)[0]):
            place = f"{path}, byte {start + at}"
            body = block[at + _LENGTH.size : at + _LENGTH.size + length]
            at += _LENGTH.size + length
            if len(body) < length:
                yield StockEntry(place, "an entry that is cut off")
            elif body.strip(b"\0"):
                yield StockEntry(place, _bipf(body))
        if len(block) < _BLOCK or block[at:].strip(b"\0"):
            yield StockEntry(f"{path}, byte {start + at}", "a block that is cut off or damaged")
        start += _BLOCK


def _json(body: bytes) -> Value:
    try:
        return parse_bytes(body)
    except InvalidJson as error:
        return f"an entry that is damaged: {error}"


def _bipf(body: bytes) -> Any:
    try:
        return bipf.decode(body, undefined=True)
    except bipf.MalformedBipf as error:
        return f"an entry that is damaged: {error}"


def _keys_of(path: Path) -> list[str]:
    value = _value_of(path)
    return [*value] if isinstance(value, dict) else []


def _items_of(path: Path) -> list[str]:
    value = _value_of(path)
    items = value if isinstance(value, list) else []
    return [str(item.get("address")) for item in items if isinstance(item, dict)]


def _value_of(path: Path) -> Value:
    try:
        return parse_bytes(path.read_bytes())
    except (OSError, InvalidJson):
        return None
