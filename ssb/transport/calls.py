"""Calls in both directions over one stream: muxrpc's session.

A call has a name and arguments, and one of three forms. *async* has one answer. *source* has a stream of
answers. *duplex* has a stream in each direction. A stream ends when both sides have ended it; an end may
carry an error.

`receive` takes bytes from the channel below and returns events; `take_output` returns bytes to send. Here, a
call has the number of this side's packets: positive if this side has called, negative if the other has.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ssb.canonical import InvalidJson, Value, parse_bytes, stringify
from ssb.transport.muxrpc import GOODBYE, MAX_BODY, BodyType, Packet, PacketReader, ProtocolError, encode

FORMS: Final = ("async", "source", "duplex")
_OTHER_FORMS = {"sync": "async", "sink": "duplex"}
_MAX_NAME = 8


class Called(NamedTuple):
    """A call by the other peer, to be answered."""

    call: int
    name: tuple[str, ...]
    arguments: list[Value]
    form: str


class Answered(NamedTuple):
    """A part of a stream, or the one answer to a call of this side."""

    call: int
    body: bytes
    body_type: BodyType


class Finished(NamedTuple):
    """The other side sends no more on a call; `error` is "" without an error.

    A call of form async is over then. A stream is over when this side has ended it, too.
    """

    call: int
    error: str


CallEvent = Called | Answered | Finished


def not_allowed(name: Iterable[str]) -> str:
    """Return the error of a call that is not served, as muxrpc words it."""
    return f"method:{','.join(name)} is not in list of allowed methods"


class _Call:
    """An open call: its form, and the sides that have ended."""

    __slots__ = ("form", "has_ended", "is_ended")

    def __init__(self, form: str) -> None:
        self.form = form
        self.is_ended = False
        self.has_ended = False


class Calls:
    """A session.

    Args:
        max_open: most open calls of the other peer; further ones are answered with an error.
        max_body: most bytes of a body that is accepted.
    """

    def __init__(self, max_open: int = 256, max_body: int = MAX_BODY) -> None:
        self._max_open = max_open
        self._reader = PacketReader(max_body)
        self._open: dict[int, _Call] = {}
        self._theirs = 0
        self._last_of_theirs = 0
        self._last = 0
        self._output: list[bytes] = []

    @property
    def open(self) -> int:
        """Number of open calls."""
        return len(self._open)

    @property
    def has_ended(self) -> bool:
        """Whether the other peer has sent the goodbye."""
        return self._reader.has_ended

    def is_open(self, call: int) -> bool:
        """Whether this side may still send on a call."""
        entry = self._open.get(call)
        return entry is not None and not entry.is_ended

    # This side

    def call(self, name: Sequence[str], arguments: Sequence[Value], form: str) -> int:
        """Make a call; return its number."""
        if form not in FORMS:
            raise ValueError(f"{form!r} is none of {', '.join(FORMS)}")
        self._last += 1
        self._open[self._last] = _Call(form)
        request: Value = {"name": list(name), "args": list(arguments), "type": form}
        body = stringify(request, indent=0).encode()
        self._output.append(encode(Packet(self._last, body, BodyType.JSON, is_stream=form != "async")))
        return self._last

    def send(self, call: int, body: bytes, body_type: BodyType = BodyType.JSON) -> None:
        """Send a part of a stream, or the answer to a call of form async, which is over then.

        No effect on a call that this side has ended, or that is over: the other side may end one at any time.
        """
        entry = self._open.get(call)
        if entry is None or entry.is_ended:
            return
        self._output.append(encode(Packet(call, body, body_type, is_stream=entry.form != "async")))
        if entry.form == "async":
            self._remove(call)

    def answer(self, call: int, value: Value) -> None:
        """Send a JSON value: see send()."""
        self.send(call, stringify(value, indent=0).encode())

    def end(self, call: int, error: str = "") -> None:
        """End this side's part of a call, possibly with an error; no effect if it is over already."""
        entry = self._open.get(call)
        if entry is None or entry.is_ended:
            return
        is_stream = entry.form != "async"
        reason: Value = {"name": "Error", "message": error, "stack": ""} if error else True
        body = stringify(reason, indent=0).encode()
        self._output.append(encode(Packet(call, body, BodyType.JSON, is_stream, is_end=True)))
        entry.is_ended = True
        if entry.has_ended or not is_stream:
            self._remove(call)

    def goodbye(self) -> None:
        """Send the goodbye."""
        self._output.append(GOODBYE)

    def take_output(self) -> bytes:
        """Return the bytes for the channel below."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    # The other side

    def receive(self, data: bytes) -> list[CallEvent]:
        """Process received bytes and return events; raise ProtocolError, at which the stream is closed."""
        events: list[CallEvent] = []
        for packet in self._reader.receive(data):
            call = -packet.number
            entry = self._open.get(call)
            if entry is not None:
                self._on_packet(call, entry, packet, events)
            elif packet.number > 0 and not packet.is_end:
                self._on_request(call, packet, events)
            # else of a call that is over here, which the other side did not know yet
        return events

    def _on_packet(self, call: int, entry: _Call, packet: Packet, events: list[CallEvent]) -> None:
        if not packet.is_end:
            if entry.has_ended:
                raise ProtocolError("a part of a stream after its end")
            events.append(Answered(call, packet.body, packet.body_type))
            if entry.form == "async":
                self._remove(call)
            return
        if entry.has_ended:
            return
        entry.has_ended = True
        events.append(Finished(call, _read_error(packet)))
        if entry.is_ended or entry.form == "async":
            self._remove(call)
        elif entry.form == "source":
            self.end(call)

    def _on_request(self, call: int, packet: Packet, events: list[CallEvent]) -> None:
        if packet.number <= self._last_of_theirs:
            return  # a late part of a call that is over
        self._last_of_theirs = packet.number
        name, arguments, form = _read_request(packet)
        if self._theirs >= self._max_open:
            self._refuse(packet, "too many calls at once")
            return
        self._open[call] = _Call(form)
        self._theirs += 1
        events.append(Called(call, name, arguments, form))

    def _refuse(self, packet: Packet, error: str) -> None:
        body = stringify({"name": "Error", "message": error, "stack": ""}, indent=0).encode()
        self._output.append(
            encode(Packet(-packet.number, body, BodyType.JSON, packet.is_stream, is_end=True))
        )

    def _remove(self, call: int) -> None:
        del self._open[call]
        self._theirs -= call < 0


def _read_request(packet: Packet) -> tuple[tuple[str, ...], list[Value], str]:
    if packet.body_type is not BodyType.JSON:
        raise ProtocolError("a request that is not JSON")
    request = _read_json(packet.body)
    if not isinstance(request, dict):
        raise ProtocolError("a request that is no object")
    name = request.get("name")
    if isinstance(name, str):
        name = [name]
    if not isinstance(name, list) or not 1 <= len(name) <= _MAX_NAME:
        raise ProtocolError("a request without a name")
    if not all(isinstance(part, str) for part in name):
        raise ProtocolError("a request whose name is no list of strings")
    arguments = request.get("args", [])
    if not isinstance(arguments, list):
        raise ProtocolError("a request whose arguments are no list")
    form = request.get("type", "duplex" if packet.is_stream else "async")
    form = _OTHER_FORMS.get(form, form) if isinstance(form, str) else form
    if form not in FORMS or (form == "async") == packet.is_stream:
        raise ProtocolError("a request of an unknown form")
    return tuple(map(str, name)), arguments, form


def _read_error(packet: Packet) -> str:
    if packet.body == b"true":
        return ""
    try:
        error = _read_json(packet.body)
    except ProtocolError:
        error = None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"]) or "an error without a message"
    return "an error that says nothing"


def _read_json(body: bytes) -> Value:
    try:
        return parse_bytes(body)
    except InvalidJson as error:
        raise ProtocolError(f"a body that is not JSON: {error}") from None
