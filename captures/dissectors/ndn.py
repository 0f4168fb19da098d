"""Interest and Data as Scapy layers (NDN packet format 0.3; feednet's elements: docs/controlled-push.md)."""

import hashlib
from typing import Any, ClassVar

from scapy.packet import Packet

from captures.dissectors.element import Element, Nested, shown_if_set
from captures.dissectors.feed import open_content
from captures.dissectors.fields import (
    Component,
    Fixed,
    Flag,
    Name,
    Names,
    Number,
    OptionalSource,
    Text,
    Tlv,
    Unrecognised,
)
from captures.layers.old_format import (
    CHILD,
    EXCLUDE,
    FRESH,
    MAX_SUFFIX,
    MIN_SUFFIX,
    PUBLISHER,
    SELECTORS,
    is_old,
    to_current_format,
)
from forwarder.wire.evidence import decode_evidence
from forwarder.wire.feed import is_item_name
from forwarder.wire.name import PARAMETERS_DIGEST, component, components, from_uri
from forwarder.wire.packet import DATA, INTEREST, KNOWN, SEND_CREDIT
from forwarder.wire.persistent import PERSISTENT
from forwarder.wire.tlv import MalformedPacket, element, read_header

CONTENT_TYPES = {
    0: "Blob",
    1: "Link",
    2: "Key",
    3: "Nack",
    4: "Manifest",
    5: "PrefixAnnouncement",
    9: "KiteAck",
}
SIGNATURE_TYPES = {
    0: "DigestSha256",
    1: "SignatureSha256WithRsa",
    3: "SignatureSha256WithEcdsa",
    4: "SignatureHmacWithSha256",
    5: "SignatureEd25519",
    200: "NullSignature",
}

_SIGNATURE_VALUE = 23
_INTEREST_SIGNATURE_VALUE = 46


class ValidityPeriod(Element):
    """Validity of a certificate: two times as ISO 8601 basic text (NDN Certificate Format 2.0)."""

    TYPE = 253
    name = "ValidityPeriod"
    fields_desc = shown_if_set(
        Text("not_before", 254, shown="ndn.signature.not_before"),
        Text("not_after", 255, shown="ndn.signature.not_after"),
        Unrecognised(),
    )


class KeyLocator(Element):
    """Name or digest of the signing key."""

    TYPE = 28
    name = "KeyLocator"
    fields_desc = shown_if_set(
        Name("key_name", shown="ndn.signature.key_name"),
        Tlv("key_digest", 29, shown="ndn.signature.key_digest"),
        Unrecognised(),
    )


class SignatureInfo(Element):
    """Signature parameters: SignatureInfo of Data, InterestSignatureInfo of an Interest."""

    name = "SignatureInfo"
    REQUIRED: ClassVar[tuple[str, ...]] = ("signature_type",)
    fields_desc = shown_if_set(
        Number("signature_type", 27, 0, names=SIGNATURE_TYPES, shown="ndn.signature.type"),
        Nested("key_locator", KeyLocator),
        Tlv("signature_nonce", 38, shown="ndn.signature.nonce"),
        Number("signature_time", 40, shown="ndn.signature.time"),
        Number("signature_seq_num", 42, shown="ndn.signature.seq_num"),
        Nested("validity", ValidityPeriod),
        Unrecognised(),
    )


class MetaInfo(Element):
    """MetaInfo of Data: ContentType, FreshnessPeriod in milliseconds, FinalBlockId as a component
    (`seg=5`)."""

    TYPE = 20
    name = "MetaInfo"
    fields_desc = shown_if_set(
        Number("content_type", 24, names=CONTENT_TYPES, shown="ndn.content_type"),
        Number("freshness", 25, shown="ndn.freshness"),
        Component("final_block", 26, shown="ndn.final_block"),
        Unrecognised(),
    )


class Selectors(Element):
    """Selectors of an Interest of the old format (before 0.3); Exclude is bytes."""

    TYPE = SELECTORS
    name = "Selectors"
    fields_desc = shown_if_set(
        Number("min_suffix_components", MIN_SUFFIX),
        Number("max_suffix_components", MAX_SUFFIX),
        Tlv("publisher", PUBLISHER),
        Tlv("exclude", EXCLUDE),
        Number("child_selector", CHILD),
        Flag("must_be_fresh", FRESH),
        Unrecognised(),
    )


class Named(Element):
    """An element with a field `name`; Scapy uses the same word for a layer's title."""

    titled: ClassVar[bool] = False
    """Whether `name` is the title for now, since a layer is being shown."""

    def mysummary(self) -> str:
        """Return the summary for a list of packets; in an LpPacket it includes the link layer's."""
        return Element.describe(self.underlayer if isinstance(self.underlayer, Element) else self)

    def _show_or_dump(self, *args: Any, **options: Any) -> str | None:
        Named.titled = True
        try:
            return super()._show_or_dump(*args, **options)
        finally:
            Named.titled = False


def _get_name(packet: Named) -> Any:
    return type(packet).__name__ if Named.titled else packet.getfieldval("name")


def _set_name(packet: Named, value: Any) -> None:
    if value != type(packet).__name__:  # else Scapy, which sets the title of a new layer
        packet.setfieldval("name", value)


# Not in the class: Scapy's metaclass takes a `name` there for the title.
Named.name = property(_get_name, _set_name)  # type: ignore[assignment]


class Interest(Named):
    """An Interest; with `send_credit` a long-lived one (LLI), with `persistent` one that Data do not satisfy.

    `known` is the LLI sender's evidence of a source. Elements of these types that forwarders do not recognise
    belong to another application, and are `ignored`. `lifetime` is in milliseconds. Computed where not given:
    ParametersSha256DigestComponent at the name's end if there are `parameters`, and the signature of a
    `signature_info` of type 0 (DigestSha256).
    """

    TYPE = INTEREST
    guarded = True
    REQUIRED: ClassVar[tuple[str, ...]] = ("name",)
    fields_desc = shown_if_set(
        Name("name", "/", nonempty=True),
        Nested("selectors", Selectors),
        Flag("can_be_prefix", 33),
        Flag("must_be_fresh", 18),
        Names("forwarding_hint", 30, shown="ndn.forwarding_hint"),
        Fixed("nonce", 10, 4, shown="ndn.nonce"),
        Number("lifetime", 12, shown="ndn.lifetime"),
        Fixed("hop_limit", 34, 1, shown="ndn.hop_limit"),
        Tlv("parameters", 36, shown="ndn.parameters"),
        Nested("signature_info", SignatureInfo, 44),
        Tlv("signature_value", _INTEREST_SIGNATURE_VALUE, shown="ndn.signature.value"),
        Number("send_credit", SEND_CREDIT, anywhere=True),
        OptionalSource("known", KNOWN, anywhere=True),
        Flag("persistent", PERSISTENT, anywhere=True, shown="ndn.persistent"),
        Unrecognised(),
    )

    @classmethod
    def recognises(cls, field: Tlv, value: bytes, fields: dict[str, Any]) -> bool:
        """Return whether forwarders recognise an element: the number in an item's Interest, evidence or
        nothing after that, and an empty `persistent`."""
        if field.kind == PERSISTENT:
            return not value
        if field.kind == KNOWN:
            return "send_credit" in fields and (not value or _is_evidence(value))
        return len(value) in (1, 2, 4, 8) and is_item_name(from_uri(fields["name"]))

    @classmethod
    def decode(cls, value: bytes) -> dict[str, Any]:
        """Return the fields; raise MalformedPacket. With Selectors, the rest is as in the current format."""
        packet = element(INTEREST, value)
        fields = super().decode(value)
        if "selectors" in fields:
            if not is_old(packet):
                raise MalformedPacket(f"element of type {SELECTORS} out of order or repeated")
            today = to_current_format(packet)
            _, start, end = read_header(today, 0, len(today))
            super().decode(today[start:end])
        return fields

    def asks(self) -> tuple[bool, bool]:
        """Return whether the name may be a prefix and whether Data must be fresh, in both formats."""
        old = self.getfieldval("selectors")
        if old is None:
            return self.getfieldval("can_be_prefix"), self.getfieldval("must_be_fresh")
        return old.getfieldval("max_suffix_components") != 1, old.getfieldval("must_be_fresh")

    def complete(self, parts: dict[str, bytes]) -> None:
        """Add the digests that were not given."""
        plain = from_uri(self.getfieldval("name"))
        has_digest = any(kind == PARAMETERS_DIGEST for kind, _ in components(plain))
        info = self.getfieldval("signature_info")
        if info is not None:
            if not parts["parameters"]:
                parts["parameters"] = element(36)  # a signed Interest has them, if empty
            if not parts["signature_value"] and info.getfieldval("signature_type") == 0:
                kept = b"".join(
                    component(kind, value) for kind, value in components(plain) if kind != PARAMETERS_DIGEST
                )
                digest = hashlib.sha256(kept + parts["parameters"] + parts["signature_info"]).digest()
                parts["signature_value"] = element(_INTEREST_SIGNATURE_VALUE, digest)
        if parts["parameters"] and not has_digest:
            names = list(parts)
            tail = b"".join(parts[name] for name in names[names.index("parameters") :])
            digest = component(PARAMETERS_DIGEST, hashlib.sha256(tail).digest())
            parts["name"] = element(7, plain + digest)


def _is_evidence(value: bytes) -> bool:
    try:
        decode_evidence(value)
    except MalformedPacket:
        return False
    return True


class _Content(Tlv):
    """Data's content: bytes, or a layer decoded from them by the packet's name."""

    holds_packets = 1

    def encode(self, value: Any) -> bytes:
        return bytes(value)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return repr(x)


class Data(Named):
    """A Data packet. Its `content` is bytes, or the layer of an item or of a fork's proof.

    A signature that is not given is computed if it is of type 0 (DigestSha256), and empty otherwise.
    """

    TYPE = DATA
    guarded = True
    REQUIRED: ClassVar[tuple[str, ...]] = ("name", "signature_info", "signature_value")
    fields_desc = shown_if_set(
        Name("name", "/"),
        Nested("meta_info", MetaInfo),
        _Content("content", 21, shown="ndn.content"),
        Nested("signature_info", SignatureInfo, 22),
        Tlv("signature_value", _SIGNATURE_VALUE, shown="ndn.signature.value"),
        Unrecognised(),
    )

    @classmethod
    def decode(cls, value: bytes, proofs: bool = True) -> dict[str, Any]:
        """Return the fields; `proofs` allows a fork's proof as content; its halves may not contain
        another."""
        fields = super().decode(value)
        if "content" in fields:
            fields["content"] = open_content(from_uri(fields["name"]), fields["content"], proofs)
        return fields

    def complete(self, parts: dict[str, bytes]) -> None:
        """Sign with a digest if no signature was given."""
        info = self.getfieldval("signature_info")
        if info is None:
            info = SignatureInfo()
            parts["signature_info"] = element(22, bytes(info))
        if not parts["signature_value"]:
            signed = b"".join(parts[name] for name in ("name", "meta_info", "content", "signature_info"))
            digest = hashlib.sha256(signed).digest() if info.getfieldval("signature_type") == 0 else b""
            parts["signature_value"] = element(_SIGNATURE_VALUE, digest)


def open_network(wire: bytes) -> Interest | Data:
    """Return the layer of one whole Interest or Data; raise MalformedPacket."""
    kind, start, end = read_header(wire, 0, len(wire))
    if end != len(wire) or kind not in (INTEREST, DATA):
        raise MalformedPacket("neither one Interest nor one Data")
    return (Interest if kind == INTEREST else Data).of(wire[start:end])
