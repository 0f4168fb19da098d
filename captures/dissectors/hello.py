"""Hello, the state of all feeds of a link between two neighbours, as a Scapy layer."""

from typing import Any

from captures.dissectors.element import Element, Nested, shown_if_set
from captures.dissectors.fields import FixedBytes, Flag, Number, Repeated, Source, Tlv, Unrecognised
from forwarder.wire.hello import (
    EVIDENCE,
    FORGOTTEN,
    GRANTED,
    HAVE,
    HELD,
    LIMIT,
    NEXT,
    NUMBER,
    REFERENCE_BYTES,
    REPLY,
    STATE,
)
from forwarder.wire.lp import HELLO
from forwarder.wire.tlv import MalformedPacket


class Standing(Element):
    """State of a feed's grant; nothing is granted without `next` and `limit`."""

    name = "Standing"
    fields_desc = shown_if_set(
        FixedBytes("reference", REFERENCE_BYTES),
        Number("next", NEXT, shown="ndn.hello.next"),
        Number("limit", LIMIT, shown="ndn.hello.limit"),
        Source("evidence", EVIDENCE),
        Unrecognised(),
    )

    @classmethod
    def decode(cls, value: bytes) -> dict[str, Any]:
        """Return the fields; raise MalformedPacket."""
        if len(value) < REFERENCE_BYTES:
            raise MalformedPacket("a standing without a feed")
        fields = super().decode(value[REFERENCE_BYTES:])
        if ("next" in fields) != ("limit" in fields):
            raise MalformedPacket("a standing with one of Next and Limit")
        return {"reference": value[:REFERENCE_BYTES]} | fields


class _Standings(Repeated):
    holds_packets = 1

    def __init__(self, name: str, kind: int) -> None:
        super().__init__(Nested(name, Standing, kind))
        self.shown = f"ndn.hello.{name}"


def _digest(name: str, kind: int) -> Tlv:
    return Tlv(name, kind, sizes=range(REFERENCE_BYTES, REFERENCE_BYTES + 1), shown=f"ndn.hello.{name}")


class Hello(Element):
    """A Hello; `have` are grants of the sender, `state` grants of the receiver as the sender knows them."""

    TYPE = HELLO
    name = "Hello"
    fields_desc = shown_if_set(
        Number("number", NUMBER, shown="ndn.hello.number"),
        Number("reply", REPLY, shown="ndn.hello.reply"),
        _digest("granted", GRANTED),
        _digest("held", HELD),
        _Standings("have", HAVE),
        _Standings("state", STATE),
        Flag("forgotten", FORGOTTEN, shown="ndn.hello.forgotten"),
        Unrecognised(),
    )
