"""Reading a forwarder's datasets over its Unix socket, and commanding it: feednet's, and NFD's just as well.

NFD management protocol, ControlCommand and StatusDataset: the first Interest finds the newest version and its
first segment, the others are asked for by name.
"""

import json
import os
import random
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from forwarder.daemon.commands import Signer
from forwarder.management.parameters import ControlParameters, ControlResponse, parse_response
from forwarder.toml_file import shown
from forwarder.wire.lp import LP_PACKET, LpPacket, parse_lp
from forwarder.wire.name import NAME, SEGMENT, component, components, from_uri, to_uri
from forwarder.wire.packet import (
    DATA,
    DIGEST_SHA256,
    INTEREST,
    Data,
    make_interest,
    parse_data,
    parse_interest,
)
from forwarder.wire.tlv import MalformedPacket, elements, nni, read_header, read_nni

TIMEOUT_S = 4.0
NEIGHBOURS = "FEEDNET_NEIGHBOURS"
"""The environment variable with the names of addresses, ADDRESS=NAME ..., on nodes of a testbed."""
_PLACES = ("/run/nfd/nfd.sock", "/run/nfd.sock", "{XDG_RUNTIME_DIR}/nfd/nfd.sock", "{HOME}/.ndn/nfd/nfd.sock")
_LARGEST = 1 << 16
_HEADER = 10  # no longer is that of an element this large
_NACK_CONTENT = 3


def default_socket() -> Path:
    """Return where a forwarder listens: as NDN_CLIENT_TRANSPORT says, or the first usual place there is."""
    transport = os.environ.get("NDN_CLIENT_TRANSPORT", "")
    if transport.startswith("unix://"):
        return Path(transport.removeprefix("unix://"))
    places = [Path(place.format_map(_Environment())) for place in _PLACES]
    return next((place for place in places if place.exists()), places[0])


class _Environment(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return os.environ.get(key, "/nowhere")


def with_name(uri: str) -> str:
    """Return a FaceUri, followed by the neighbour's name if NEIGHBOURS has it."""
    names = dict(each.partition("=")[::2] for each in os.environ.get(NEIGHBOURS, "").split())
    host = uri.rpartition("//")[2].partition(":")[0]
    return f"{uri} ({names[host]})" if host in names else uri


class DatasetError(Exception):
    """There is no forwarder, or it does not answer as it should; the message is one line."""


class Unanswered(Exception):
    """The forwarder has no such dataset, or no answer."""


class Client:
    """A connection to a forwarder.

    Args:
        path: of its socket.

    Raises DatasetError if there is no forwarder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._buffer = b""
        self._signer = Signer()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            why = error.strerror or str(error)
            raise DatasetError(
                f"no forwarder listens at {shown(str(path))} ({why}); start one, or name its --socket"
            ) from error

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def fetch(self, uri: str, timeout_s: float = TIMEOUT_S) -> bytes:
        """Return a dataset's content. Raises Unanswered, or DatasetError if the connection ends or carries
        no NDN."""
        until = time.monotonic() + timeout_s
        data, last = self._ask(from_uri(uri), until, can_be_prefix=True)
        parts = components(data.name)
        if data.content_type == _NACK_CONTENT or not parts or parts[-1] != (SEGMENT, nni(0)):
            raise Unanswered(uri)
        content = data.content
        stem = data.name[: -len(component(*parts[-1]))]
        for number in range(1, last + 1):
            data, _ = self._ask(stem + component(SEGMENT, nni(number)), until, can_be_prefix=False)
            content += data.content
        return content

    def _ask(self, name: bytes, until: float, *, can_be_prefix: bool) -> tuple[Data, int]:
        """Return the Data for an Interest, and the number of the last segment."""
        interest = make_interest(
            name,
            nonce=random.getrandbits(32),
            can_be_prefix=can_be_prefix,
            must_be_fresh=can_be_prefix,
            lifetime_ms=int(TIMEOUT_S * 1000),
        )
        data = self._exchange(interest, name, until)
        return data, _last_segment(data)

    def command(
        self, verb: str, parameters: ControlParameters, timeout_s: float = TIMEOUT_S
    ) -> ControlResponse:
        """Return the answer to a command, such as "faces/create". Raises as fetch().

        A command to create what exists is answered with 409 and the existing object.
        """
        until = time.monotonic() + timeout_s
        interest = self._signer.command(
            from_uri(f"/{verb}"), parameters.encode(), lifetime_ms=int(timeout_s * 1000)
        )
        name = parse_interest(interest).name
        return parse_response(self._exchange(interest, name, until).content)

    def _exchange(self, interest: bytes, name: bytes, until: float) -> Data:
        """Return the Data for an Interest."""
        try:
            self._socket.sendall(interest)
            for packet in self._packets(until):
                if packet.nack_reason is not None:
                    raise Unanswered(to_uri(name))
                if packet.fragment[:1] == bytes((DATA,)):
                    data = parse_data(packet.fragment)
                    if data.name.startswith(name):
                        return _checked(data)
        except MalformedPacket as error:
            raise DatasetError(
                f"{self._path}: the program that listens there does not speak NDN: {error}"
            ) from error
        except TimeoutError as error:
            raise Unanswered(to_uri(name)) from error
        except OSError:
            pass
        raise DatasetError(f"{self._path}: the forwarder has closed the connection")

    def _packets(self, until: float) -> Iterator[LpPacket]:
        """Yield what comes in; end when the connection does. Raises TimeoutError."""
        while True:
            while (size := _size(self._buffer)) is None or size > len(self._buffer):
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
                received = self._socket.recv(_LARGEST)
                if not received:
                    return
                self._buffer += received
            frame, self._buffer = self._buffer[:size], self._buffer[size:]
            yield parse_lp(frame)


def _size(buffer: bytes) -> int | None:
    """Return the size of the element that a buffer begins with; None if too little of it is there."""
    if buffer and buffer[0] not in (INTEREST, DATA, LP_PACKET):
        raise MalformedPacket(f"type {buffer[0]}")
    try:
        _, _, end = read_header(buffer, 0, _LARGEST)
    except IndexError:
        return None
    except MalformedPacket:
        if len(buffer) > _HEADER:
            raise
        return None
    return end


def _checked(data: Data) -> Data:
    from forwarder.management.keys import is_digest_right  # with all of management; only answers need it

    if data.signature_type == DIGEST_SHA256 and not is_digest_right(data.signed, data.signature):
        raise MalformedPacket("a Data packet with a wrong digest")
    return data


def _last_segment(data: Data) -> int:
    """Return the number in FinalBlockId, 0 if there is none."""
    for kind, start, end in elements(data.signed, 0, len(data.signed)):
        if kind == 20:
            for field, at, stop in elements(data.signed, start, end):
                if field == 26:
                    of, first, last = read_header(data.signed, at, stop)
                    return read_nni(data.signed[first:last]) if of == SEGMENT else 0
    return 0


# Datasets as plain values with the protocol's names.

_PACKETS = {
    0x90: "in_interests",
    0x91: "in_data",
    0x97: "in_nacks",
    0x92: "out_interests",
    0x93: "out_data",
    0x98: "out_nacks",
}
_FACE = _PACKETS | {
    0x69: "face",
    0x72: "remote",
    0x81: "local",
    0x6D: "expires_ms",
    0x84: "scope",
    0x85: "persistency",
    0x86: "link_type",
    0x89: "mtu",
    0x94: "in_bytes",
    0x95: "out_bytes",
    0x6C: "flags",
}
_GENERAL = _PACKETS | {
    0x80: "version",
    0x81: "started_ms",
    0x82: "now_ms",
    0x84: "fib_entries",
    0x85: "pit_entries",
    0x87: "cs_entries",
    0x99: "satisfied",
    0x9A: "unsatisfied",
}
_ROUTE = {0x69: "face", 0x6F: "origin", 0x6A: "cost", 0x6C: "flags", 0x6D: "expires_ms"}
_STORE = {0x83: "capacity", 0x6C: "flags", 0x87: "entries", 0x81: "hits", 0x82: "misses"}
_TEXTS = {"remote", "local", "version"}
_NAMED = {
    "scope": ("non-local", "local"),
    "persistency": ("persistent", "on-demand", "permanent"),
    "link_type": ("point-to-point", "multi-access", "ad-hoc"),
}


def _fields(wire: bytes, at: int, end: int, known: Mapping[int, str]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for kind, start, stop in elements(wire, at, end):
        name = known.get(kind)
        if name is not None:
            value = wire[start:stop]
            read[name] = value.decode(errors="replace") if name in _TEXTS else read_nni(value)
    for name, words in _NAMED.items():
        if read.get(name, len(words)) < len(words):
            read[name] = words[read[name]]
    return read


def _entries(wire: bytes) -> Iterator[tuple[int, int]]:
    for kind, start, end in elements(wire, 0, len(wire)):
        if kind == 0x80:
            yield start, end


def _named(wire: bytes, at: int, end: int) -> tuple[str, Sequence[tuple[int, int, int]]]:
    """Return the name that an entry begins with, as a URI, and its other elements."""
    (kind, start, stop), *rest = elements(wire, at, end)
    if kind != NAME:
        raise MalformedPacket("an entry begins with its name")
    return to_uri(wire[start:stop]), rest


def _routes(wire: bytes) -> list[dict[str, Any]]:
    read = []
    for at, end in _entries(wire):
        prefix, rest = _named(wire, at, end)
        read.append(
            {"prefix": prefix, "hops": [_fields(wire, start, stop, _ROUTE) for _, start, stop in rest]}
        )
    return read


def _strategies(wire: bytes) -> list[dict[str, Any]]:
    read = []
    for at, end in _entries(wire):
        prefix, ((_, start, stop), *_) = _named(wire, at, end)
        read.append({"prefix": prefix, "strategy": _named(wire, start, stop)[0]})
    return read


def snapshot(client: Client, *, with_own: bool = True) -> dict[str, Any]:
    """Return a forwarder's datasets: general, faces, fib, rib, cs, strategies; and feednet, if it is ours.

    Raises DatasetError if it does not answer.
    """
    try:
        general = client.fetch("/localhost/nfd/status/general")
        faces = client.fetch("/localhost/nfd/faces/list")
        store = client.fetch("/localhost/nfd/cs/info")
        read: dict[str, Any] = {
            "general": _fields(general, 0, len(general), _GENERAL),
            "faces": [_fields(faces, at, end, _FACE) for at, end in _entries(faces)],
            "fib": _routes(client.fetch("/localhost/nfd/fib/list")),
            "rib": _routes(client.fetch("/localhost/nfd/rib/list")),
            "cs": next((_fields(store, at, end, _STORE) for at, end in _entries(store)), {}),
            "strategies": _strategies(client.fetch("/localhost/nfd/strategy-choice/list")),
        }
    except Unanswered as error:
        raise DatasetError(f"the forwarder does not answer {error}; is its management running?") from error
    except (MalformedPacket, ValueError) as error:
        raise DatasetError(f"a dataset that is not as NFD's management protocol has it: {error}") from error
    if with_own:
        with suppress(Unanswered, ValueError):  # a forwarder, but not ours
            read["feednet"] = json.loads(client.fetch("/localhost/nfd/feednet/status", 0.5))
    return read
