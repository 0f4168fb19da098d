"""NDNLPv2's LpPacket as a Scapy layer (NFD wiki, "NDNLPv2", revision 63), with feednet's FeedState
and Hello.

The Fragment is the layer's payload: `LpPacket(nack_reason=150) / Interest(name="/a")`. Without a payload
there is no Fragment. The payload of one fragment of several is Raw.
"""

from typing import Any, ClassVar

from scapy.config import conf
from scapy.packet import NoPayload, Packet

from captures.dissectors.element import Element, Nested, shown_if_set
from captures.dissectors.fields import (
    Fixed,
    Flag,
    Name,
    NestedNumber,
    Number,
    Repeated,
    Source,
    Tlv,
    Unrecognised,
)
from captures.dissectors.hello import Hello
from captures.dissectors.ndn import Data, Interest, open_network
from forwarder.wire.lp import FEED_STATE, LP_PACKET
from forwarder.wire.packet import DATA, INTEREST
from forwarder.wire.tlv import MalformedPacket, element, elements, read_header, read_number

NACK_REASONS = {0: "None", 50: "Congestion", 100: "Duplicate", 150: "NoRoute"}
CACHE_POLICIES = {1: "NoCache"}

_FRAGMENT = 0x50


class FeedState(Element):
    """Sender's state of a pushed item's feed; `feed` is its name, present only where nothing else names
    it."""

    TYPE = FEED_STATE
    name = "FeedState"
    REQUIRED: ClassVar[tuple[str, ...]] = ("tip", "limit")
    fields_desc = shown_if_set(
        Name("feed", shown="ndn.feed.name"),
        Number("tip", 0x0371, 0, shown="ndn.feed.tip"),
        Number("limit", 0x0372, 0, shown="ndn.feed.limit"),
        Number("first", 0x0373, shown="ndn.feed.first"),
        Source("evidence", 0x0374),
        Unrecognised(),
    )


class _Announcement(Tlv):
    """PrefixAnnouncement: a whole Data packet."""

    holds_packets = 1

    def decode(self, value: bytes) -> Any:
        kind, _, end = read_header(value, 0, len(value))
        if kind != DATA or end != len(value):
            raise MalformedPacket("a PrefixAnnouncement is a Data packet")
        return open_network(value)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return repr(x)


class LpPacket(Element):
    """A link packet. `nack_reason` is 0 for a Nack without one; numbers are as in the specification."""

    TYPE = LP_PACKET
    guarded = True
    name = "LpPacket"
    fields_desc = shown_if_set(
        Fixed("sequence", 0x51, 8, shown="ndn.lp.sequence"),
        Number("frag_index", 0x52, shown="ndn.lp.frag_index"),
        Number("frag_count", 0x53, shown="ndn.lp.frag_count"),
        Tlv("pit_token", 0x62, sizes=range(1, 33), shown="ndn.lp.pit_token"),
        NestedNumber("nack_reason", 0x0320, 0x0321, names=NACK_REASONS, shown="ndn.lp.nack_reason"),
        Number("incoming_face_id", 0x032C, shown="ndn.lp.incoming_face"),
        Number("next_hop_face_id", 0x0330, shown="ndn.lp.next_hop_face"),
        NestedNumber("cache_policy", 0x0334, 0x0335, names=CACHE_POLICIES, shown="ndn.lp.cache_policy"),
        Number("congestion_mark", 0x0340, shown="ndn.lp.congestion_mark"),
        Repeated(Fixed("ack", 0x0344, 8, shown="ndn.lp.ack")),
        Fixed("tx_sequence", 0x0348, 8, shown="ndn.lp.tx_sequence"),
        Flag("non_discovery", 0x034C, shown="ndn.lp.non_discovery"),
        _Announcement("prefix_announcement", 0x0350, shown="ndn.lp.prefix_announcement"),
        Nested("feed_state", FeedState),
        Nested("hello", Hello),
        Unrecognised(),
    )

    @classmethod
    def decode(cls, value: bytes) -> dict[str, Any]:
        """Return the header's fields; raise MalformedPacket. The fragment is not decoded."""
        fields: dict[str, Any] = {}
        last = 0
        for kind, start, end in elements(value, 0, len(value)):
            if kind == _FRAGMENT:
                if end != len(value):
                    raise MalformedPacket("Fragment is an LpPacket's last field")
                break
            _, field = cls.by_type.get(kind, (-1, None))
            if kind < last or (kind == last and not isinstance(field, Repeated)):
                raise MalformedPacket(f"LpPacket field of type {kind} out of order or repeated")
            last = kind
            if field is None:
                if not (800 <= kind <= 959 and kind & 3 == 0):
                    raise MalformedPacket(f"unrecognised LpPacket field of type {kind}")
                fields.setdefault("ignored", []).append((kind, value[start:end]))
            elif isinstance(field, Repeated):
                fields.setdefault(field.name, []).append(field.decode(value[start:end]))
            else:
                fields[field.name] = field.decode(value[start:end])
        if fields.get("frag_index", 0) >= fields.get("frag_count", 1):
            raise MalformedPacket("FragIndex is not below FragCount")
        return fields

    def do_dissect(self, s: bytes) -> bytes:
        """Dissect the header; return the fragment and the rest after the packet."""
        _, start, end = read_header(s, 0, len(s))
        header = end
        for kind, first, _ in elements(s, start, end):
            if kind == _FRAGMENT:
                header = first
        self._fill(s[:header], self.decode(s[start:end]))
        return s[header:]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Split the fragment from the rest after the packet."""
        size = self._missing(self.raw_packet_cache or b"")
        return s[:size], s[size:]

    @staticmethod
    def _missing(header: bytes) -> int:
        """Return the number of bytes missing after these, according to a packet's header."""
        _, at = read_number(header, 0)
        length, at = read_number(header, at)
        return at + length - len(header)

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Choose by the first byte; a fragment of a packet is Raw."""
        if self.getfieldval("frag_count") in (None, 1):
            if payload[0] == INTEREST:
                return Interest
            if payload[0] == DATA:
                return Data
        return conf.raw_layer

    def do_build(self) -> bytes:
        """Return the packet, its fragment included and its lengths computed."""
        if not self.explicit:
            drawn = next(iter(self))  # Scapy draws random values here
            return drawn.do_build()
        fragment = self.do_build_payload()
        header = self.self_build()
        if self.raw_packet_cache is not None:
            if self._missing(header) == len(fragment):
                return header + fragment
            self.raw_packet_cache = None
            header = self.self_build()
        _, start, end = read_header(header, 0, len(header))
        body = header[start:end]
        if not isinstance(self.payload, NoPayload):
            body += element(_FRAGMENT, fragment)
        return element(LP_PACKET, body)

    def mysummary(self) -> str:
        """Return the summary for a list of packets."""
        return Element.describe(self)
