"""What a frame says, read with the codec alone: all that observers and charts know of it."""

from typing import NamedTuple

from forwarder.link import LinkService
from forwarder.wire.feed import split_fork, split_item
from forwarder.wire.lp import LpPacket, parse_lp
from forwarder.wire.packet import DATA, INTEREST, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket


class Frame(NamedTuple):
    """A frame, read.

    Attributes:
        kind: lli, cancel, interest, item, proof, data, nack, idle, fragment, or malformed.
        feed: the feed's name, empty if it is of none.
        seq: the item's number; for an LLI the first one; 0 if it names none.
        credit: of an LLI, else 1.
        is_lli: of a Nack: what it refuses is an LLI.
        nonce, lifetime_ms: of an Interest.
        tip, limit: of a FeedState, None without.
        mark: CongestionMark.
        reason: of a Nack.
        wire: the Data packet.
    """

    kind: str
    feed: bytes = b""
    seq: int = 0
    credit: int = 1
    nonce: int | None = None
    lifetime_ms: int = 0
    tip: int | None = None
    limit: int | None = None
    mark: int = 0
    reason: int = 0
    is_lli: bool = False
    wire: bytes = b""


class Reader:
    """Reads the frames that one end of a link sends, in order; puts fragments together."""

    __slots__ = ("_service",)

    def __init__(self) -> None:
        self._service = LinkService()

    def read(self, payload: bytes, now: int) -> Frame:
        """Read a frame; the last fragment of a packet counts as the packet."""
        try:
            packet = self._service.receive(payload, now)
            return Frame("fragment") if packet is None else _read(packet)
        except MalformedPacket:
            return Frame("malformed")


def _read(packet: bytes) -> Frame:
    lp = parse_lp(packet)
    kind = lp.fragment[:1]
    if not kind:
        return _with_state("idle", lp, b"", 0, b"")
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
        )
    if kind[0] == DATA:
        data = parse_data(lp.fragment)
        for word, parts in (("item", split_item(data.name)), ("proof", split_fork(data.name))):
            if parts is not None:
                return _with_state(word, lp, *parts, lp.fragment)
        return _with_state("data", lp, b"", 0, lp.fragment)
    raise MalformedPacket("neither Interest nor Data")


def _with_state(kind: str, lp: LpPacket, feed: bytes, seq: int, wire: bytes) -> Frame:
    return Frame(kind, feed, seq, tip=lp.tip, limit=lp.limit, mark=lp.congestion_mark, wire=wire)


def describe(frame: Frame) -> str:
    """Write a frame as a chart shows it."""
    state = "" if frame.tip is None else f" tip {frame.tip}/{frame.limit}"
    mark = " marked" if frame.mark else ""
    match frame.kind:
        case "lli":
            return f"LLI {frame.seq}+{frame.credit}"
        case "cancel":
            return f"cancel {frame.seq}"
        case "interest" | "nack" | "proof":
            return f"{frame.kind} {frame.seq}" if frame.seq else frame.kind
        case "item":
            return f"item {frame.seq}{state}{mark}"
    return f"{frame.kind}{state}{mark}"
