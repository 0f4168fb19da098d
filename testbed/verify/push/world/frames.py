"""Frames parsed with the codec alone, for observers and charts."""

import hashlib
from typing import NamedTuple

from forwarder.links.link import LinkService
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import split_fork, split_item
from forwarder.wire.hello import Hello, parse_hello
from forwarder.wire.lp import LpPacket, parse_lp
from forwarder.wire.name import IMPLICIT_DIGEST, component, ends_with_digest, to_uri
from forwarder.wire.packet import DATA, INTEREST, Data, parse_data, parse_interest
from forwarder.wire.persistent import is_persistent
from forwarder.wire.tlv import MalformedPacket

Key = tuple[bytes, bool, bool]
"""An Interest's name, CanBePrefix, MustBeFresh."""


class Frame(NamedTuple):
    """A parsed frame.

    Attributes:
        kind: lli, cancel, interest, item, proof, data, nack, idle, hello, fragment, or malformed.
        feed: the feed's name, empty if none.
        seq: the item's number; for an LLI the first one; 0 if none.
        credit: of an LLI, else 1.
        is_lli: of a Nack: it refuses an LLI.
        nonce, lifetime_ms: of an Interest.
        tip, limit, first: of a FeedState, None without.
        mark: CongestionMark.
        reason: of a Nack.
        wire: the Data packet.
        name: of an Interest, also a Nack's, and of Data; with the Interest's selectors and hop limit.
        is_persistent: of an Interest, also a Nack's.
        evidence: of a FeedState, or to be beaten, of an LLI.
        hello: a Hello.
    """

    kind: str
    feed: bytes = b""
    seq: int = 0
    credit: int = 1
    nonce: int | None = None
    lifetime_ms: int = 0
    tip: int | None = None
    limit: int | None = None
    first: int | None = None
    mark: int = 0
    reason: int = 0
    is_lli: bool = False
    wire: bytes = b""
    name: bytes = b""
    can_be_prefix: bool = False
    must_be_fresh: bool = False
    hop_limit: int | None = None
    is_persistent: bool = False
    freshness_ms: int = 0
    evidence: Evidence | None = None
    hello: Hello | None = None

    @property
    def key(self) -> Key:
        """The identity of an Interest, also a Nack's."""
        return self.name, self.can_be_prefix, self.must_be_fresh

    def satisfies(self, key: Key) -> bool:
        """Return whether it is Data that satisfy an Interest, freshness aside."""
        name, can_be_prefix, _ = key
        if self.name == name or (can_be_prefix and self.name.startswith(name)):
            return True
        if not ends_with_digest(name) or not name.startswith(self.name):
            return False
        return name == self.name + component(IMPLICIT_DIGEST, hashlib.sha256(self.wire).digest())


class Reader:
    """Parses the frames from one end of a link, in order; reassembles fragments."""

    __slots__ = ("_service",)

    def __init__(self) -> None:
        self._service = LinkService()

    def read(self, payload: bytes, now: int) -> Frame:
        """Parse a frame; the last fragment of a packet counts as the packet."""
        try:
            packet = self._service.receive(payload, now)
            return Frame("fragment") if packet is None else read_packet(packet)
        except MalformedPacket:
            return Frame("malformed")


def read_packet(packet: bytes) -> Frame:
    """Parse a whole packet, bare or in an LpPacket; raise MalformedPacket."""
    lp = parse_lp(packet)
    kind = lp.fragment[:1]
    if not kind and lp.hello is not None:
        return Frame("hello", hello=parse_hello(lp.hello))
    if not kind:
        return _with_state("idle", lp, lp.feed or b"", 0, None)
    if kind[0] == INTEREST:
        interest = parse_interest(lp.fragment)
        feed, seq = split_item(interest.name) or (b"", 0)
        credit = interest.send_credit
        if lp.nack_reason is not None:
            word = "nack"
        elif credit is None:
            word = "interest"
        else:
            word = "lli" if credit else "cancel"
        return Frame(
            word,
            feed,
            seq,
            1 if credit is None else credit,
            interest.nonce,
            interest.lifetime_ms,
            reason=lp.nack_reason or 0,
            is_lli=credit is not None,
            name=interest.name,
            can_be_prefix=interest.can_be_prefix,
            must_be_fresh=interest.must_be_fresh,
            hop_limit=interest.hop_limit,
            is_persistent=interest.can_be_prefix and is_persistent(interest),
            evidence=interest.known,
        )
    if kind[0] == DATA:
        data = parse_data(lp.fragment)
        for word, parts in (("item", split_item(data.name)), ("proof", split_fork(data.name))):
            if parts is not None:
                return _with_state(word, lp, *parts, data)
        return _with_state("data", lp, b"", 0, data)
    raise MalformedPacket("neither Interest nor Data")


def _with_state(kind: str, lp: LpPacket, feed: bytes, seq: int, data: Data | None) -> Frame:
    frame = Frame(
        kind,
        feed,
        seq,
        tip=lp.tip,
        limit=lp.limit,
        first=lp.first,
        mark=lp.congestion_mark,
        evidence=lp.evidence,
    )
    if data is None:
        return frame
    return frame._replace(wire=data.wire, name=data.name, freshness_ms=data.freshness_ms)


def describe(frame: Frame) -> str:
    """Format a frame for a chart."""
    state = "" if frame.tip is None else f" tip {frame.tip}/{frame.limit}"
    state += "" if frame.first is None else f" first {frame.first}"
    mark = " marked" if frame.mark else ""
    if frame.evidence is not None:
        state += f" ({frame.evidence.number}, {frame.evidence.hops})"
    match frame.kind:
        case "lli":
            return f"LLI {frame.seq}+{frame.credit}{state}"
        case "hello" if frame.hello is not None:
            return _describe_hello(frame.hello)
        case "cancel":
            return f"cancel {frame.seq}"
        case "interest" | "nack" | "proof":
            if frame.seq:
                return f"{frame.kind} {frame.seq}"
            selectors = " prefix" * frame.can_be_prefix + " fresh" * frame.must_be_fresh
            return f"{frame.kind} {_short(frame.name)}{selectors}"
        case "data":
            return f"data {_short(frame.name)}{mark}"
        case "item":
            return f"item {frame.seq}{state}{mark}"
    return f"{frame.kind}{state}{mark}"


def _describe_hello(hello: Hello) -> str:
    words = ["hello"]
    words += [f"no. {hello.number}"] * (hello.number is not None)
    words += [f"to no. {hello.reply}"] * (hello.reply is not None)
    words += ["granted"] * (hello.granted is not None) + ["held"] * (hello.held is not None)
    for word, standings in (("have", hello.haves), ("state", hello.states)):
        for each in standings:
            evidence = "" if each.evidence is None else f" ({each.evidence.number}, {each.evidence.hops})"
            words.append(f"{word} {each.next}..{each.limit}{evidence}" if each.next else f"{word} none")
    return " ".join(words)


def _short(name: bytes) -> str:
    """Shorten a name for a chart: a digest or key to its prefix."""
    try:
        parts = to_uri(name).split("/")[1:]
    except MalformedPacket:
        return "?"
    return "".join(f"/{part if len(part) <= 16 else part[:12] + '..'}" for part in parts)
