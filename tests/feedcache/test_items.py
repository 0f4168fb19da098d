"""Items of both formats: what is accepted, what is refused and why."""

from hashlib import sha256
from random import Random

import pytest
from feed_maker import CLASSIC, NATIVE, STRANGER, WRITER, classic, native_packet
from hypothesis import given
from hypothesis import strategies as st

from forwarder.feedcache.fork import Fork
from forwarder.feedcache.items import RejectedItem, open_item, parse_item, verify_item
from forwarder.feedcache.resequencer import Resequencer
from forwarder.wire.feed import BACKLINK, PAYLOAD, item_name, native_content, ssb_content
from forwarder.wire.packet import ED25519, Data, make_data, parse_data
from forwarder.wire.tlv import MalformedPacket, element
from ssb.generate import generate_feed

MESSAGES = generate_feed(Random(7), 6, WRITER)


def test_native_items_chain_by_implicit_digest() -> None:
    chain = Resequencer()
    link = b""
    for seq in range(1, 5):
        data = native_packet(seq, link)
        item = open_item(NATIVE, seq, data)
        assert (item.seq, item.message, item.previous) == (seq, b"frame", link or None)
        chain.put(item)
        link = sha256(data.wire).digest()
        assert item.id == link
    assert (chain.arrived, chain.fork) == (4, None)
    wrong = open_item(NATIVE, 5, native_packet(5, b"\1" * 32))
    chain.put(wrong)
    assert (chain.arrived, chain.fork) == (4, Fork(4, open_item(NATIVE, 4, data), wrong))
    assert [item.seq for item in chain.take()] == [1, 2, 3, 4]


def test_an_anchor_is_taken_in_mid_feed() -> None:
    chain = Resequencer(after=6)
    item = open_item(NATIVE, 7, native_packet(7, b"\1" * 32))
    chain.put(item)
    assert (chain.arrived, chain.take()) == (7, [item])


def unsigned(content: bytes, seq: int = 1) -> Data:
    return parse_data(make_data(item_name(NATIVE, seq), content))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (native_packet(1, b"", writer=STRANGER), "signature"),
        (unsigned(native_content(b"", b"x")), "signature"),
        (native_packet(1, b"\1" * 32), "backlink"),
        (native_packet(1, b"\1" * 31), "backlink"),
        (unsigned(native_content(b"", b"x") + b"\xf8\0"), "format"),
        (unsigned(element(PAYLOAD, b"x") + element(BACKLINK, bytes(32))), "format"),
        (unsigned(element(BACKLINK, bytes(32))), "format"),
        (unsigned(b"\xf2\x01"), "format"),
        (unsigned(b""), "format"),
    ],
)
def test_a_native_item_is_refused(data: Data, reason: str) -> None:
    with pytest.raises(RejectedItem) as refused:
        open_item(NATIVE, 1, data)
    assert refused.value.reason == reason


def test_every_item_but_the_first_has_a_backlink() -> None:
    with pytest.raises(RejectedItem, match="backlink"):
        open_item(NATIVE, 2, native_packet(2, b""))


def test_an_ed25519_signature_has_64_bytes() -> None:
    short = make_data(
        item_name(NATIVE, 1),
        native_content(b"", b"x"),
        signature_type=ED25519,
        sign=lambda signed: WRITER.sign(signed)[:63],
    )
    with pytest.raises(RejectedItem, match="signature"):
        open_item(NATIVE, 1, parse_data(short))


def test_a_signature_stands_for_its_number() -> None:
    """The name is signed: an item cannot be passed off as another."""
    first = native_packet(2, b"\1" * 32)
    wire = first.wire.replace(item_name(NATIVE, 2), item_name(NATIVE, 3))
    with pytest.raises(RejectedItem) as refused:
        open_item(NATIVE, 3, parse_data(wire))
    assert refused.value.reason == "signature"


def longer(wire: bytes, at: int) -> bytes:
    """The element at an offset with its one-byte length in three bytes."""
    return wire[: at + 1] + b"\xfd\0" + wire[at + 1 :]


def with_outer(inner: bytes) -> bytes:
    return element(6, inner)


def altered(data: Data) -> list[bytes]:
    """The packet with what its signature does not cover changed, each as a receiver could read it."""
    inner = data.signed + element(23, data.signature)
    return [
        with_outer(inner + element(240, b"more")),
        with_outer(inner + element(0xFFF0, b"")),
        with_outer(data.signed + b"\x17\xfd\0\x40" + data.signature),
        with_outer(data.signed + b"\xfd\0\x17\x40" + data.signature),
        b"\x06\xfd" + len(inner).to_bytes(2, "big") + inner,
        b"\x06\xfe" + len(inner).to_bytes(4, "big") + inner,
        with_outer(element(240, b"before") + inner),
        with_outer(data.signed + element(240, b"between") + element(23, data.signature)),
        with_outer(data.signed + element(23, data.signature[:32] + malleated(data.signature))),
    ]


ORDER = 2**252 + 27742317777372353535851937790883648493


def malleated(signature: bytes) -> bytes:
    """The scalar of an Ed25519 signature plus the group's order: RFC 8032 demands that it be refused."""
    scalar = int.from_bytes(signature[32:], "little") + ORDER
    return scalar.to_bytes(32, "little")


@pytest.mark.parametrize("change", range(9))
def test_nobody_else_can_make_another_item_of_an_item(change: int) -> None:
    """The id covers the whole packet, the signature does not: what it leaves open must be refused."""
    data = native_packet(2, b"\1" * 32, b"p")
    assert with_outer(data.signed + element(23, data.signature)) == data.wire
    try:
        packet = parse_data(altered(data)[change])
    except MalformedPacket:
        return
    with pytest.raises(RejectedItem):
        open_item(NATIVE, 2, packet)


def test_parsing_leaves_the_signature_to_verify_item() -> None:
    item = parse_item(NATIVE, 1, native_packet(1, b"", writer=STRANGER))
    with pytest.raises(RejectedItem) as refused:
        verify_item(NATIVE, item)
    assert refused.value.reason == "signature"


def test_classic_items_chain_by_message_id() -> None:
    chain = Resequencer()
    for message in MESSAGES:
        item = classic(message)
        assert item.message == message.encoded
        chain.put(item)
    assert (chain.arrived, chain.fork) == (6, None)


def test_what_surrounds_a_classic_message_does_not_count() -> None:
    """An SSB message is signed and named by itself: its packet is no part of the item's identity."""
    name, content = item_name(CLASSIC, 1), ssb_content(MESSAGES[0].encoded)
    one = open_item(CLASSIC, 1, parse_data(make_data(name, content)))
    two = open_item(CLASSIC, 1, parse_data(make_data(name, content, freshness_ms=1)))
    assert one.id == two.id
    assert one.data.wire != two.data.wire


@pytest.mark.parametrize(
    ("feed", "seq", "text", "reason"),
    [
        (NATIVE[:-32] + STRANGER.public_key, 1, MESSAGES[0].encoded, "author"),
        (CLASSIC, 2, MESSAGES[0].encoded, "sequence"),
        (CLASSIC, 1, MESSAGES[0].encoded.replace(b'"post"', b'"past"'), "signature"),
        (CLASSIC, 1, MESSAGES[0].encoded + b"\n", "message"),
        (CLASSIC, 1, MESSAGES[0].encoded.replace(b'  "hash"', b' "hash"'), "message"),
        (CLASSIC, 1, b"{}", "message"),
        (CLASSIC, 1, b"[" * 8000, "message"),
        (CLASSIC, 1, b"\xff", "message"),
        (CLASSIC, 1, b"", "message"),
    ],
    ids=["author", "sequence", "altered", "longer", "layout", "empty object", "nested", "not UTF-8", "empty"],
)
def test_a_classic_item_is_refused(feed: bytes, seq: int, text: bytes, reason: str) -> None:
    with pytest.raises(RejectedItem) as refused:
        open_item(feed, seq, parse_data(make_data(item_name(feed, seq), ssb_content(text))))
    assert refused.value.reason == reason


CONTENTS = st.one_of(
    st.binary(max_size=100),
    st.builds(ssb_content, st.binary(max_size=100)),
    st.builds(native_content, st.sampled_from([b"", bytes(32), bytes(31)]), st.binary(max_size=10)),
    st.builds(
        lambda message, at, byte: ssb_content(
            message.encoded[: at % 400] + bytes((byte,)) + message.encoded[at % 400 + 1 :]
        ),
        st.sampled_from(MESSAGES),
        st.integers(0, 399),
        st.integers(0, 255),
    ),
)


@given(CONTENTS, st.integers(1, 3), st.sampled_from([None, STRANGER.sign]))
def test_any_content_is_an_item_or_refused(content: bytes, seq: int, sign: None) -> None:
    kind = 0 if sign is None else ED25519
    data = parse_data(make_data(item_name(CLASSIC, seq), content, signature_type=kind, sign=sign))
    try:
        item = open_item(CLASSIC, seq, data)
    except RejectedItem:
        return
    assert item.message in [message.encoded for message in MESSAGES]
