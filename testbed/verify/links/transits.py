"""Transits from a capture: departure and arrival of each frame of a case.

A probe's datagram begins with its number within its case. It is captured at both ends, in the emulator as in
Mininet, so that one reader serves both, and measures like the reports.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from captures.formats.files import cut, read_piece
from captures.formats.pcapng import Direction
from captures.formats.records import Damage

_PAYLOAD = 14 + 20 + 8  # Ethernet, IPv4, UDP
NUMBER_BYTES = 8


class Transit(NamedTuple):
    """A frame of a case: when it was sent, when it and its copies arrived (ns), and its length."""

    sent: int
    received: tuple[int, ...]
    length: int


def read_transits(
    path: Path, senders: Mapping[str, str], receivers: Mapping[str, str]
) -> dict[str, list[Transit]]:
    """Return the transits of each case, in order of frame numbers.

    Cases are identified by the interfaces of their frames. Raises OSError and CaptureError.
    """
    sent: dict[str, dict[int, tuple[int, int]]] = {case: {} for case in senders.values()}
    came: dict[str, dict[int, list[int]]] = {case: {} for case in senders.values()}
    damages: list[Damage] = []
    for piece in cut(path):
        for window, interfaces in read_piece(piece, damages):
            data, records = window.data.data, window.records
            names = [interface.name for interface in interfaces]
            columns = (records.at, records.captured, records.time, records.source, records.direction)
            for at, size, time, source, direction in zip(*(each.tolist() for each in columns), strict=True):
                is_out = direction == Direction.OUT
                case = (senders if is_out else receivers).get(names[source])
                if case is None or size < _PAYLOAD + NUMBER_BYTES:
                    continue
                number = int.from_bytes(data[at + _PAYLOAD : at + _PAYLOAD + NUMBER_BYTES])
                if is_out:
                    sent[case][number] = time, size
                    continue
                came[case].setdefault(number, []).append(time)
    return {
        case: [
            Transit(time, tuple(sorted(came[case].get(number, ()))), size)
            for number, (time, size) in sorted(frames.items())
        ]
        for case, frames in sent.items()
    }
