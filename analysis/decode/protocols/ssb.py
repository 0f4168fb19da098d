"""Scuttlebutt's peer protocol: handshake, boxes, calls and messages, parsed from a TCP stream.

ssb/transport/ and ssb/replication/ define the protocol. Boxes are decrypted with the run's key log; without
it, everything after the handshake counts as encrypted. After a gap no box can be decrypted, as its nonce
depends on the number of boxes before it. A direction without a handshake is not parsed: its beginning was not
captured, or the network's key is unknown.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from analysis.decode.protocols.protocol import (
    ENCRYPTED,
    ITEM,
    PAYLOAD,
    UNREAD,
    Declaration,
    Ends,
    Layer,
    Message,
)
from analysis.packet_schema import Column, integer
from base.key_log import Secrets
from forwarder.wire.name import to_uri
from ndn_over_ssb.contract import CONTRACT
from ndn_over_ssb.line import PACKETS
from ndn_over_ssb.name_space import NAME_SPACE
from ssb.branches.exchange import BRANCHES
from ssb.canonical import object_in
from ssb.keys import InvalidRef, parse_blob
from ssb.peer.options import PORT
from ssb.replication.blobs import CREATE_WANTS, GET
from ssb.replication.ebt import REPLICATE
from ssb.replication.replication import ProtocolError
from ssb.replication.rungs.rung import IGNORE, LADDER, elements_of
from ssb.replication.session import Note
from ssb.transport.box_stream import HEADER_BYTES as BOX_BYTES
from ssb.transport.box_stream import Unboxer
from ssb.transport.handshake import ACCEPT_BYTES, AUTHENTICATE_BYTES, HELLO_BYTES, MAIN_NETWORK, is_hello
from ssb.transport.muxrpc import GOODBYE, HEADER_BYTES, Packet, PacketReader, encode
from ssb.transport.secure_stream import CLIENT_SECRET, PLAIN_BYTES, PLAIN_MARK, SERVER_SECRET, StreamSecrets
from ssb_over_ndn.naming import blob_name, log_name

_HANDSHAKE, _SEALED = "handshake", "sealed"
_REQUEST, _NOTE, _WANTS, _BLOB, _ANSWER, _END = "request", "note", "wants", "blob", "answer", "end"
_PACKETS, _AGREEMENT = "packets", "agreement"
_TYPES = {PACKETS: _PACKETS, CONTRACT: _AGREEMENT, NAME_SPACE: _AGREEMENT}
_LABELS = {True: CLIENT_SECRET, False: SERVER_SECRET}
_TURNS = {True: "+", False: "-", None: "."}
_LAYERS = {
    _REQUEST: "call",
    _NOTE: "note",
    _WANTS: "want",
    _BLOB: "blob",
    _ANSWER: "call",
    _END: "call",
    ITEM: PAYLOAD,
    _AGREEMENT: "agreement",
}


class _Direction:
    """One direction: bytes of its stream, and of its packets.

    Attributes:
        handshake: sizes of the remaining parts of the handshake.
        raw: unparsed stream bytes.
        plain: header and content bytes of each box with unparsed packets.
    """

    def __init__(self, handshake: tuple[int, ...]) -> None:
        self.handshake = deque(handshake)
        self.raw = bytearray()
        self.unboxer: Unboxer | None = None
        self.is_sealed = False
        self.is_lost = False
        self.packets = PacketReader()
        self.spans: deque[list[Any]] = deque()

    def parts(self, *sizes: tuple[str, int]) -> tuple[tuple[str, int], ...]:
        """Return the parts of a packet with layers of these sizes, and the box headers inside it."""
        found: list[tuple[str, int]] = []
        for layer, size in sizes:
            left = size
            while left > 0:
                span = self.spans[0]
                is_box = span[0] == "box"
                taken = span[1] if is_box else min(left, span[1])
                found.append(("box" if is_box else layer, taken))
                left -= 0 if is_box else taken
                span[1] -= taken
                if not span[1]:
                    self.spans.popleft()
        return tuple(found)

    def rest(self) -> tuple[tuple[str, int], ...]:
        """Return the parts of a packet that will not be completed."""
        found = tuple(("box" if kind == "box" else UNREAD, size) for kind, size in self.spans)
        self.spans.clear()
        return found


class _Framer:
    """Frames both directions of a connection."""

    def __init__(self, ends: Ends, secrets: Secrets) -> None:
        self._secrets = {(each.label, each.identifier): each for each in secrets}
        self._ways = {
            True: _Direction((HELLO_BYTES, AUTHENTICATE_BYTES)),
            False: _Direction((HELLO_BYTES, ACCEPT_BYTES)),
        }
        self._identifier = b""
        self._is_other_network = False
        self._calls: dict[tuple[bool, int], tuple[str, ...]] = {}
        self._blobs: dict[tuple[bool, int], str | None] = {}
        self._modes: dict[bool, dict[str, bool]] = {True: {}, False: {}}
        self._notes = {True: 0, False: 0}

    def receive(self, from_opener: bool, data: bytes) -> Iterator[Message]:
        """Yield completed messages."""
        way = self._ways[from_opener]
        if way.is_lost:
            return
        way.raw += data
        if way.handshake:
            yield from self._read_handshake(from_opener, way)
        if way.handshake or not way.raw:
            return
        raw = bytes(way.raw)
        way.raw.clear()
        if way.is_sealed:
            yield Message(_SEALED, ((ENCRYPTED, len(raw)),))
        else:
            yield from self._read_boxes(from_opener, way, raw)

    def on_gap(self, from_opener: bool) -> None:
        """Stop parsing a direction after a gap: the position and number of the next box are unknown.
        Directions without a key are not parsed anyway.
        """
        way = self._ways[from_opener]
        way.is_lost = not way.is_sealed

    def _read_handshake(self, from_opener: bool, way: _Direction) -> Iterator[Message]:
        if way.raw.startswith(PLAIN_MARK) and len(way.handshake) == 2:
            way.handshake = deque((PLAIN_BYTES,))
        while way.handshake and len(way.raw) >= way.handshake[0]:
            size = way.handshake.popleft()
            part = bytes(way.raw[:size])
            del way.raw[:size]
            if size == HELLO_BYTES and not self._is_hello(from_opener, part):
                raise ValueError("no handshake")
            yield Message(_HANDSHAKE, ((_HANDSHAKE, size),))
            if not way.handshake and size != PLAIN_BYTES:
                secret = self._secrets.get((_LABELS[from_opener], self._identifier))
                if secret is None:
                    way.is_sealed = True
                else:
                    way.unboxer = Unboxer(*StreamSecrets.of(secret))

    def _is_hello(self, from_opener: bool, part: bytes) -> bool:
        """Return whether a direction begins with a handshake, recognised by the network's key, or by the
        opener's ephemeral key if the key log has it (other networks).
        """
        is_main = is_hello(part, MAIN_NETWORK)
        if from_opener:
            self._identifier = part[HELLO_BYTES // 2 :]
            self._is_other_network = not is_main and (CLIENT_SECRET, self._identifier) in self._secrets
        return is_main or self._is_other_network

    def _read_boxes(self, from_opener: bool, way: _Direction, raw: bytes) -> Iterator[Message]:
        if way.unboxer is None:
            way.spans.append(["plain", len(raw)])
            yield from self._read_packets(from_opener, way, raw)
            return
        for content in way.unboxer.boxes(raw):
            if content:
                way.spans += [["box", BOX_BYTES], ["plain", len(content)]]
                yield from self._read_packets(from_opener, way, content)
            else:
                if way.spans:
                    yield Message(UNREAD, way.rest())
                yield Message(_END, (("box", BOX_BYTES),))

    def _read_packets(self, from_opener: bool, way: _Direction, plain: bytes) -> Iterator[Message]:
        had_ended = way.packets.has_ended
        for packet in way.packets.receive(plain):
            yield self._message(from_opener, way, packet)
        if way.packets.has_ended and not had_ended:
            yield Message(_END, way.parts(("muxrpc", HEADER_BYTES)), plain=GOODBYE)

    def _message(self, from_opener: bool, way: _Direction, packet: Packet) -> Message:
        call = (from_opener if packet.number > 0 else not from_opener, abs(packet.number))
        parsed = self._read(from_opener, call, packet)
        size = len(packet.body)
        sizes = parsed.parts or ((_LAYERS[parsed.kind], size),)
        parts = way.parts(("muxrpc", HEADER_BYTES), *sizes)
        return parsed._replace(parts=parts, plain=encode(packet))

    def _read(self, from_opener: bool, call: tuple[bool, int], packet: Packet) -> Message:
        """Return a packet as a message without box parts, or with the parts of its body."""
        name = self._calls.get(call)
        if name is None and packet.number > 0:
            name = self._calls[call] = _name(packet.body)
            if name == GET:
                self._blobs[call] = _blob(packet.body)
            return Message(_REQUEST, (), fields={"method": ".".join(name), "blob": self._blobs.get(call)})
        fields: dict[str, Any] = {"method": ".".join(name or ()), "blob": self._blobs.get(call)}
        if packet.is_end:
            return Message(_END, (), fields=fields)
        if name == GET:
            return Message(_BLOB, (), fields=fields)
        value = object_in(packet.body)
        if value is None:
            return Message(_ANSWER, (), fields=fields)
        if isinstance(value.get("value"), dict):
            value = value["value"]
        if "signature" in value and isinstance(value.get("author"), str):
            content = value.get("content")
            about = content.get("type") if isinstance(content, dict) else None
            kind = _TYPES.get(about, ITEM) if isinstance(about, str) else ITEM
            parts = _entry_parts(value, len(packet.body)) if kind == _PACKETS else ()
            return Message(kind, parts, _feed(value["author"]), _sequence(value.get("sequence")), fields)
        if name in _DESCRIBE:
            bare = value if name == REPLICATE else {}
            clock = value["clock"] if isinstance(value.get("clock"), dict) else bare
            said = tuple(_feed_notes(clock, _DESCRIBE[name]))
            if name == REPLICATE:
                fields |= {"notes": len(clock)} | self._modes_after(from_opener, clock)
            else:
                fields["notes"] = sum(map(elements_of, value.values()))
            return Message(_NOTE, (), fields=fields, said=said)
        return Message(_WANTS if name == CREATE_WANTS else _ANSWER, (), fields=fields)

    def _modes_after(self, from_opener: bool, clock: dict[str, Any]) -> dict[str, Any]:
        """Return the number of these notes, how many feeds their sender then has eager and lazy, how many of
        them the notes switched, and the feeds whose mode they changed.
        """
        modes, switched = self._modes[from_opener], 0
        self._notes[from_opener] += 1
        turned = []
        for author, number in clock.items():
            try:
                note = Note.read(number)
            except ProtocolError:
                continue
            before = modes.pop(author, None)
            after = None if note.sequence is None else note.receives
            if after is not None:
                modes[author] = after
                switched += before == (not after)
            feed = _feed(author)
            if before != after and feed is not None:
                turned.append(_TURNS[after] + feed)
        eager = sum(modes.values())
        return {
            "note": self._notes[from_opener],
            "eager": eager,
            "lazy": len(modes) - eager,
            "switched": switched,
            "turned": " ".join(turned) or None,
        }


def _entry_parts(value: dict[str, Any], size: int) -> tuple[tuple[str, int], ...]:
    """Return the parts of a JSON message that wraps NDN packets."""
    letters = value["content"].get("packets")
    coded = len(letters) if isinstance(letters, str) and letters.isascii() else 0
    packets = coded * 3 // 4
    backlink, signature = (
        len(text) if isinstance(text := value.get(key), str) and text.isascii() else 0
        for key in ("previous", "signature")
    )
    rest = size - coded - backlink - signature
    if rest < 0:
        return (("entry", size),)
    return (
        ("packets", packets),
        ("base64", coded - packets),
        ("backlink", backlink),
        ("signature", signature),
        ("entry", rest),
    )


def _name(body: bytes) -> tuple[str, ...]:
    name = (object_in(body) or {}).get("name")
    words = name if isinstance(name, list) else [name]
    return tuple(str(word).encode(errors="replace").decode() for word in words)  # without lone surrogates


def _blob(body: bytes) -> str | None:
    """Return the name, as a URI, of the blob that a call is for; None if it names none."""
    arguments = (object_in(body) or {}).get("args")
    first = arguments[0] if isinstance(arguments, list) and arguments else None
    if isinstance(first, dict):
        first = first.get("hash", first.get("key"))
    try:
        parse_blob(first if isinstance(first, str) else "")
        return to_uri(blob_name(str(first)))
    except InvalidRef:
        return None


def _feed(author: str) -> str | None:
    try:
        return to_uri(log_name(author))
    except InvalidRef:
        return None


def _sequence(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _feed_notes(clock: dict[str, Any], tell: Callable[[Any], str | None]) -> Iterator[tuple[str, str]]:
    """Yield the description of each feed's note or clock value."""
    for author, number in clock.items():
        feed, seq = _feed(author), tell(number)
        if feed is not None and seq is not None:
            yield feed, seq


def _describe_note(number: Any) -> str | None:
    try:
        note = Note.read(number)
    except ProtocolError:
        return None
    does = "receives" if note.receives else "does not receive"
    return "not wanted" if note.sequence is None else f"at {note.sequence}, {does}"


def _describe_position(number: Any) -> str | None:
    if type(number) is not int:
        return None
    return "not wanted" if number == IGNORE else f"at {number}"


def _describe_branches(ids: Any) -> str | None:
    if ids is None:
        return "not wanted"
    return f"names {len(ids)}" if isinstance(ids, list) else None


_DESCRIBE = {REPLICATE: _describe_note, LADDER: _describe_position, BRANCHES: _describe_branches}
"""How a value reads in EBT's notes, in the clocks of the lower rungs, and in notes of branches."""


DECLARATION = Declaration(
    "ssb",
    tcp_ports=frozenset((PORT,)),
    kinds={
        _HANDSHAKE: "part of a handshake",
        _SEALED: "bytes that no key opens",
        _REQUEST: "call",
        _NOTE: "notes of EBT, or a clock",
        ITEM: "message of a feed",
        _WANTS: "wants of blobs",
        _BLOB: "piece of a blob",
        _PACKETS: "message with NDN packets",
        _AGREEMENT: "message about contracts or NDN's name space",
        _ANSWER: "other answer",
        _END: "end of a stream, an answer or all",
    },
    control=frozenset((_HANDSHAKE, _REQUEST, _NOTE, _WANTS, _AGREEMENT, _ANSWER, _END)),
    wrapping=frozenset((_PACKETS,)),
    layers=(
        Layer("handshake", "handshakes"),
        Layer("box", "headers of boxes"),
        Layer("muxrpc", "headers of muxrpc"),
        Layer("call", "calls, answers and ends"),
        Layer("note", "notes of EBT, and clocks"),
        Layer("want", "wants of blobs"),
        Layer("blob", "blobs"),
        Layer("packets", "NDN packets in messages"),
        Layer("base64", "base64 of NDN packets"),
        Layer("backlink", "backlinks of messages with NDN packets"),
        Layer("signature", "signatures of messages with NDN packets"),
        Layer("entry", "other fields of messages with NDN packets"),
        Layer("agreement", "contracts and NDN's name space"),
    ),
    columns=(
        Column("method", "the call that it belongs to"),
        Column("blob", "of a call for a blob: the blob’s name over NDN"),
        integer("notes", "of notes: the feeds that they are about"),
        integer("note", "of EBT’s notes: their number on this connection, in this direction"),
        integer("eager", "of EBT’s notes: feeds of which their sender then wants the messages here"),
        integer("lazy", "of EBT’s notes: feeds of which their sender then exchanges notes only"),
        integer("switched", "of EBT’s notes: feeds that they turn from eager to lazy, or back"),
        Column(
            "turned",
            "of EBT’s notes: the feeds whose mode they change, each name after what the feed is then: `+`"
            " (eager), `-` (lazy) or `.` (not wanted)",
        ),
    ),
    framer=_Framer,
    dissector="muxrpc",
)
