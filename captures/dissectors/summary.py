"""One-line summary of a packet, and its fields under Wireshark's names.

The plugin for Wireshark (feednet.lua) produces the same lines and fields; a test compares the two.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from scapy.packet import Packet, Raw

from captures.dissectors.element import SHOWN, Element
from captures.dissectors.feed import ForkProof, NativeItem, SsbItem
from captures.dissectors.fields import Fixed, Text, source_text
from captures.dissectors.hello import Hello, Standing
from captures.dissectors.lp import NACK_REASONS, FeedState, LpPacket
from captures.dissectors.ndn import Data, Interest
from captures.dissectors.tiny import TINY_FIELDS
from captures.layers.old_format import OLD_FORMAT
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import is_item_name, split_fork, split_item
from forwarder.wire.lp import LP_PACKET
from forwarder.wire.name import from_uri
from forwarder.wire.packet import DATA, INTEREST
from forwarder.wire.tlv import MalformedPacket, read_header

Fields = list[tuple[str, Any]]
"""(name, value) in the order of the packet; a value is text, a number, bytes or True."""

_LONGEST_COMPONENT = 24
_SHOWN_BYTES = 3
_LAST = (1 << 64) - 1
_NUMBER, _HOPS, _SIGNED, _PROOF = (
    f"ndn.evidence.{name}" for name in ("number", "hops", "signed", "signature")
)


def short_name(uri: str) -> str:
    """Shorten a name for a narrow column: of a long component ".." and its last three bytes, as in a URI."""
    return "/".join(map(_short_component, uri.split("/")))


def _short_component(text: str) -> str:
    if len(text) <= _LONGEST_COMPONENT:
        return text
    marker, equals, value = text.rpartition("=")
    if marker in ("sha256digest", "params-sha256"):
        return f"{marker}=..{value[-2 * _SHOWN_BYTES :]}"
    at = len(value)
    for _ in range(_SHOWN_BYTES):
        at -= 3 if value[at - 3 : at - 2] == "%" else 1
    return f"{marker}{equals}..{value[at:]}"


class Reassembled(NamedTuple):
    """A reassembled packet: its layer (Raw if damaged) and the number of fragments."""

    packet: Packet
    fragments: int


TYPES = ("Interest", "LLI", "Data", "Malformed", "Nack", "Fragment", "FeedState", "Hello", "Ack", "Idle")
"""Every value of `ndn.type`."""


def packet_type(packet: Packet, whole: Reassembled | None = None) -> str:
    """Return a packet's type, the value of `ndn.type`; empty for a layer not of NDN.

    `whole` is the packet completed by this fragment.
    """
    if isinstance(packet, Interest):
        return "Interest" if _credit(packet) is None else "LLI"
    if isinstance(packet, Data):
        return "Data"
    if isinstance(packet, Raw):
        return "Malformed"
    if not isinstance(packet, LpPacket):
        return ""
    if packet.nack_reason is not None:
        return "Nack"
    if whole is not None:
        return packet_type(whole.packet)
    if is_fragment(packet):
        return "Fragment"
    if packet.payload:
        return packet_type(packet.payload)
    if packet.hello is not None:
        return "Hello"
    return "FeedState" if packet.feed_state is not None else "Ack" if packet.ack else "Idle"


def is_fragment(packet: LpPacket) -> bool:
    """Return whether a link packet contains a fragment of a packet."""
    return (packet.frag_count or 1) > 1


def describe(packet: Packet, whole: Reassembled | None = None) -> str:
    """Return an NDN packet's summary; `whole` as for packet_type()."""
    if not isinstance(packet, LpPacket):
        return _network_line(packet)
    words = []
    if packet.nack_reason is not None:
        reason = packet.nack_reason
        words.append("Nack" + (f" {NACK_REASONS.get(reason, reason)}" if reason else ""))
    if whole is not None:
        words.append(f"{_network_line(whole.packet)} [reassembled from {whole.fragments} fragments]")
    elif is_fragment(packet):
        words.append(f"Fragment {(packet.frag_index or 0) + 1}/{packet.frag_count}")
    elif packet.payload:
        words.append(_network_line(packet.payload))
    elif packet.feed_state is None and packet.hello is None and not words:
        words.append(packet_type(packet))
    if packet.feed_state is not None:
        words.append(_state_line(packet.feed_state, packet_type(packet, whole) == "FeedState"))
    if packet.hello is not None:
        line = hello_line(packet.hello)
        words.append(line if packet_type(packet, whole) == "Hello" else f"[{line}]")
    if packet.congestion_mark:
        words.append(f"[congestion mark {packet.congestion_mark}]")
    return " ".join(words)


def _state_line(state: FeedState, bare: bool) -> str:
    text = f"tip {state.tip} limit {state.limit}"
    if state.first is not None:
        text += f" first {state.first}"
    if state.evidence is not None:
        text += f" evidence {source_text(state.evidence)}"
    if not bare:
        return f"[{text}]"
    return f"FeedState {short_name(state.feed)} {text}" if state.feed is not None else f"FeedState {text}"


def hello_line(hello: Hello) -> str:
    """Return a Hello's summary."""
    words = ["Hello"]
    words += [f"no. {hello.number}"] * (hello.number is not None)
    words += [f"to no. {hello.reply}"] * (hello.reply is not None)
    for word, digest in (("granted", hello.granted), ("held", hello.held)):
        words += [f"{word} {digest.hex()[-2 * _SHOWN_BYTES :]}"] if digest is not None else []
    for word, standings in (("have", hello.have or []), ("state", hello.state or [])):
        if len(standings) > 1:
            words.append(f"{len(standings)} {word}s")
        words += [f"{word} {_standing_text(standing)}" for standing in standings[: len(standings) == 1]]
    words += ["forgotten"] * bool(hello.forgotten)
    return " ".join(words)


def _standing_text(standing: Standing) -> str:
    text: str = standing.reference.hex()[-2 * _SHOWN_BYTES :]
    text += " none" if standing.next is None else f" {_items(standing.next, standing.limit)}"
    return text if standing.evidence is None else f"{text} {source_text(standing.evidence)}"


def _network_line(packet: Packet) -> str:
    if isinstance(packet, Interest):
        return _interest_line(packet)
    if isinstance(packet, Data):
        return f"Data {short_name(uri_of(packet))} {_content_line(packet)}"
    return f"Malformed packet, {len(packet)} bytes: {problem_of(bytes(packet))}"


def problem_of(wire: bytes) -> str:
    """Return why bytes are no packet."""
    try:
        kind, start, end = read_header(wire, 0, len(wire))
        if end != len(wire):
            return "bytes after the packet"
        layer: type[Element] | None = {LP_PACKET: LpPacket, INTEREST: Interest, DATA: Data}.get(kind)
        if layer is not None:
            layer.decode(wire[start:end])
    except MalformedPacket as problem:
        return str(problem)
    return "neither Interest, Data nor LpPacket"  # the last of which is not nested in another


def uri_of(packet: Interest | Data) -> str:
    """Return a packet's name."""
    uri: str = packet.getfieldval("name")
    return uri


def _item(packet: Interest | Data) -> int | None:
    """Return the item number of a packet's name; None for other names."""
    name = from_uri(uri_of(packet))
    parts = split_item(name) if is_item_name(name) else None
    return None if parts is None else parts[1]


def _credit(packet: Interest) -> int | None:
    """Return the credit of an LLI; None for a classic Interest, where other applications may use that
    type."""
    return None if _item(packet) is None else packet.send_credit


def _interest_line(packet: Interest) -> str:
    words = []
    if packet.persistent:
        words.append("persistent")
    item, credit = _item(packet), _credit(packet)
    if item is None or credit is None:
        words.append(f"Interest {short_name(uri_of(packet))}")
    elif credit == 0:
        words.append(f"LLI {_feed_of(uri_of(packet))} cancel")
    else:
        words.append(f"LLI {_feed_of(uri_of(packet))} {_items(item, _last(item, credit))}")
    if packet.known is not None:
        words.append(f"known {source_text(packet.known)}")
    flags = zip(packet.asks(), ("CanBePrefix", "MustBeFresh"), strict=True)
    words += [word for is_set, word in flags if is_set]
    if packet.selectors is not None:
        words.append(f"[{OLD_FORMAT}]")
    if packet.parameters is not None:
        words.append(f"parameters {len(packet.parameters)} bytes")
    return " ".join(words)


def _last(first: int, credit: int) -> int:
    return min(first + credit - 1, _LAST)


def _items(first: int, last: int) -> str:
    return f"item {first}" if first == last else f"items {first}..{last}"


def _feed_of(uri: str) -> str:
    return short_name(uri.rpartition("/")[0])


def _content_line(packet: Data) -> str:
    content = packet.content
    if isinstance(content, SsbItem):
        return f"SSB message {len(content.message)} bytes"
    if isinstance(content, NativeItem):
        return f"native item {len(content.body)} bytes"
    if isinstance(content, ForkProof):
        return "fork proof"
    return f"{len(bytes(content or b''))} bytes"


def fields_of(packet: Packet, whole: Reassembled | None = None) -> Fields:
    """Return an NDN packet's fields under the names of the Wireshark plugin, `ndn.type` first.

    Empty if it is no NDN packet; `whole` as for packet_type(). Derived fields follow their source:
    `ndn.lli.first` and `ndn.lli.last` an LLI's name and credit, `ndn.feed.item` an item's name.
    """
    kind = packet_type(packet, whole)
    fields: Fields = [("ndn.type", kind)] if kind else []
    is_piece = whole is None and isinstance(packet, LpPacket) and is_fragment(packet)
    if isinstance(packet, LpPacket):
        fields += _walk(packet)
        packet = packet.payload if whole is None else whole.packet
    if isinstance(packet, Interest | Data):
        fields += _network(packet)
    elif isinstance(packet, Raw) and not is_piece:
        fields.append(("ndn.problem", problem_of(bytes(packet))))
    return fields


def _walk(packet: Element) -> Iterator[tuple[str, Any]]:
    """Yield the fields that are declared with a name in Wireshark, nested ones included."""
    for _, field in packet.by_type.values():
        value = packet.getfieldval(field.name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Evidence):
                yield from ((_NUMBER, each.number), (_HOPS, each.hops), (_SIGNED, each.is_signed))
                if each.proof:
                    yield _PROOF, each.proof
            elif isinstance(each, Data):
                yield from [(field.shown, uri_of(each))] if field.shown else _network(each)
            elif isinstance(each, Element):
                if isinstance(each, Standing):
                    yield field.shown, each.reference
                yield from _walk(each)
            elif field.shown and each is not None and each is not False:
                yield field.shown, each


def _network(packet: Interest | Data) -> Fields:
    fields: Fields = [("ndn.name", uri_of(packet))]
    name = from_uri(uri_of(packet))
    item, fork = _item(packet), split_fork(name)
    if item is not None:
        feed = uri_of(packet).rpartition("/")[0]
        fields += [("ndn.feed.name", feed), ("ndn.feed.item", item)]
    if fork is not None:
        fields.append(("ndn.feed.fork", fork[1]))
    if isinstance(packet, Interest):
        names = ("ndn.can_be_prefix", "ndn.must_be_fresh")
        fields += [(name, True) for is_set, name in zip(packet.asks(), names, strict=True) if is_set]
        if packet.selectors is not None:
            fields.append(("ndn.problem", OLD_FORMAT))
        credit = _credit(packet)
        if credit is not None:
            fields.append(("ndn.lli.credit", credit))
        if item is not None and credit:
            fields += [("ndn.lli.first", item), ("ndn.lli.last", _last(item, credit))]
    return [*fields, *_walk(packet)]


def value_text(name: str, value: Any) -> str:
    """Return a field's value as tshark prints it."""
    field = SHOWN.get(name)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace") if isinstance(field, Text) else value.hex()
    if isinstance(field, Fixed) and isinstance(value, int) and field.size > 1:
        return f"0x{value:0{2 * field.size}x}"
    return str(int(value) if isinstance(value, bool) else value)


FIELD_NAMES = sorted(
    {"frame.number", "frame.interface_name", "ip.src", "ip.dst", "ip.addr"}
    | TINY_FIELDS
    | SHOWN.keys() - {""}
    | {
        "ndn.type",
        "ndn.problem",
        "ndn.name",
        "ndn.feed.item",
        "ndn.feed.fork",
        _NUMBER,
        _HOPS,
        _SIGNED,
        _PROOF,
    }
    | {"ndn.can_be_prefix", "ndn.must_be_fresh", "ndn.lli.credit", "ndn.lli.first", "ndn.lli.last"}
)
"""Names of all fields."""


Element.describe = staticmethod(describe)
