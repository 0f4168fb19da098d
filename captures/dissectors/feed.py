"""Content of a feed's Data: items, native or classic SSB, and proofs of a fork (docs/controlled-push.md)."""

from typing import Any, ClassVar

from scapy.packet import Packet

from captures.dissectors.element import LAYERS, Element, shown_if_set
from captures.dissectors.fields import Repeated, Text, Tlv
from forwarder.wire.feed import BACKLINK, FORK_PROOF, PAYLOAD, SSB_MESSAGE, is_item_name, split_fork
from forwarder.wire.packet import DATA
from forwarder.wire.tlv import MalformedPacket, read_header


class NativeItem(Element):
    """A native item's content: the id of the item before (32 bytes; none in item 1), and the payload.

    The payload is called `body`: Scapy reserves the word for the next layer.
    """

    name = "NativeItem"
    EXACT = True
    REQUIRED: ClassVar[tuple[str, ...]] = ("body",)
    fields_desc = shown_if_set(
        Tlv("backlink", BACKLINK, sizes=range(32, 33), shown="ndn.feed.backlink"),
        Tlv("body", PAYLOAD, b"", shown="ndn.feed.payload"),
    )


class SsbItem(Element):
    """The content of an item that is a classic SSB message: its canonical JSON."""

    name = "SsbItem"
    EXACT = True
    REQUIRED: ClassVar[tuple[str, ...]] = ("message",)
    fields_desc = shown_if_set(Text("message", SSB_MESSAGE, b"{}", shown="ndn.feed.ssb"))


class _Halves(Repeated):
    """The two Data packets of a proof."""

    holds_packets = 1

    def __init__(self) -> None:
        super().__init__(Tlv("halves", DATA))

    def decode(self, value: bytes) -> Any:
        return LAYERS[DATA].of(value, proofs=False)

    def addfield(self, pkt: Packet | None, s: bytes, val: Any) -> bytes:
        return s + b"".join(map(bytes, val))


class ForkProof(Element):
    """Two conflicting items of one feed: whole Data packets, in the order of their bytes."""

    TYPE = FORK_PROOF
    EXACT = True
    name = "ForkProof"
    fields_desc = shown_if_set(_Halves())

    @classmethod
    def decode(cls, value: bytes) -> dict[str, Any]:
        """Return the halves; raise MalformedPacket unless there are two."""
        fields = super().decode(value)
        if len(fields.get("halves", ())) != 2:
            raise MalformedPacket("a proof holds two Data packets")
        return fields


def open_content(name: bytes, content: bytes, proofs: bool = True) -> Element | bytes:
    """Return the content of Data with this name: a layer if name and bytes allow one, else the bytes."""
    try:
        if is_item_name(name):
            layer: Element = (SsbItem if content[:1] == bytes((SSB_MESSAGE,)) else NativeItem).of(content)
        elif proofs and split_fork(name) is not None and content[:1] == bytes((FORK_PROOF,)):
            _, start, end = read_header(content, 0, len(content))
            if end != len(content):
                return content
            layer = ForkProof.of(content[start:end])
        else:
            return content
    except MalformedPacket:
        return content
    return layer
