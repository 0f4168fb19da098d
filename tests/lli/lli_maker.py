"""A feed of SSB messages with two branches, its packets, and short words for what goes over a link."""

from random import Random

from forwarder.feedcache.fork import Fork
from forwarder.feedcache.items import Item, open_item
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import item_name, split_fork, split_item, ssb_content
from forwarder.wire.lp import LpPacket, make_feed_state, make_lp, parse_lp
from forwarder.wire.packet import INTEREST, make_data, parse_data, parse_interest
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.naming import log_name, message_packet

WRITER = Identity.from_seed(b"w" * 32)
NAME = log_name(WRITER.ref)
FEED = generate_feed(Random(7), 60, WRITER)
FORKED_AT = 5
BRANCH = generate_feed(Random(8), 6, WRITER, FEED[FORKED_AT - 2])  # another message 5, and so on


def packet(seq: int) -> bytes:
    return message_packet(FEED[seq - 1])


def branch(seq: int) -> bytes:
    """An item of the feed's other branch."""
    return message_packet(BRANCH[seq - FORKED_AT])


def item(message: Message) -> Item:
    return open_item(NAME, message.sequence, parse_data(message_packet(message)))


def proof(seq: int, first: Message, second: Message) -> bytes:
    return Fork(seq, item(first), item(second)).packet(NAME)


PROOF = proof(FORKED_AT, FEED[FORKED_AT - 1], BRANCH[0])


def forged(seq: int, text: bytes = b"{}") -> bytes:
    return make_data(item_name(NAME, seq), ssb_content(text))


def pushed(seq: int, tip: int, limit: int, mark: int = 0, evidence: Evidence | None = None) -> bytes:
    """An item with FeedState."""
    return make_lp(packet(seq), tip=tip, limit=limit, congestion_mark=mark, evidence=evidence)


def idle(
    tip: int, limit: int, first: int | None = None, feed: bytes = NAME, evidence: Evidence | None = None
) -> bytes:
    return make_feed_state(feed, tip=tip, limit=limit, first=first, evidence=evidence)


def told(frame: bytes) -> str:
    """What a packet says, without its nonce and its evidence."""
    header = parse_lp(frame)
    if header.hello is not None:
        return "hello"
    mark = " marked" if header.congestion_mark else ""
    if not header.fragment:
        assert header.feed == NAME
        return "idle" + _state(header) + mark
    if header.fragment[0] == INTEREST:
        interest = parse_interest(header.fragment)
        parts = split_item(interest.name)
        assert parts is not None
        assert parts[0] == NAME
        if interest.send_credit is None:
            words = f"interest {parts[1]}"
        else:
            words = f"lli {parts[1]}+{interest.send_credit}"
        return f"nack {header.nack_reason} of {words}" if header.nack_reason is not None else words
    data = parse_data(header.fragment)
    if (fork := split_fork(data.name)) is not None:
        return f"proof {fork[1]}"
    parts = split_item(data.name)
    assert parts is not None
    assert parts[0] == NAME
    return f"item {parts[1]}" + _state(header) + mark


def _state(header: LpPacket) -> str:
    if header.tip is None:
        return ""
    first = "" if header.first is None else f" first {header.first}"
    return f" tip {header.tip} limit {header.limit}" + first
