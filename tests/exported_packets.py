"""Exported PDUs of Wireshark as a file has them, read from the format's description alone."""

import struct
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import pcapng_oracle


class Exported(NamedTuple):
    """An exported PDU: the dissector's name, both ends, the original frame, and the packet."""

    dissector: str
    source: tuple[str, int]
    target: tuple[str, int]
    frame: int
    packet: bytes
    captured: pcapng_oracle.Packet


def read(path: Path) -> Iterator[Exported]:
    """Yield the PDUs of a capture."""
    for captured in pcapng_oracle.read(path):
        assert captured.interface.link_type == 252
        tags: dict[int, bytes] = {}
        at, kind = 0, -1
        while kind != 0:
            kind, size = struct.unpack_from("!HH", captured.frame, at)
            tags[kind] = captured.frame[at + 4 : at + 4 + size]
            at += 4 + size
            assert at % 4 == 0
        assert tags[24] == (2).to_bytes(4)  # TCP
        ends = [
            (str(ip_address(tags[address] if address in tags else tags[address + 2])), _number(tags[port]))
            for address, port in ((20, 25), (21, 26))
        ]
        name = tags[12].rstrip(b"\0").decode()
        yield Exported(name, ends[0], ends[1], _number(tags[30]), captured.frame[at:], captured)


def _number(value: bytes) -> int:
    return int.from_bytes(value)
