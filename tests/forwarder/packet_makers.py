"""Hypothesis strategies for names and packets: what is well formed, and what once was."""

from hypothesis import strategies as st

from forwarder.wire.feed import LAST_ITEM, feed_name, item_name
from forwarder.wire.lp import make_lp
from forwarder.wire.name import component
from forwarder.wire.packet import DIGEST_SHA256, ED25519, make_data, make_interest
from forwarder.wire.tlv import element, nni

NNI = st.one_of(
    st.integers(0, (1 << 64) - 1),
    st.sampled_from([0, 1, 0xFF, 0x100, 0xFFFF, 0x1_0000, 0xFFFF_FFFF, 0x1_0000_0000, (1 << 64) - 1]),
)
NONCES = st.integers(0, 0xFFFF_FFFF)

GENERIC_COMPONENTS = st.binary(max_size=12).map(lambda value: component(8, value))
NUMBER_COMPONENTS = st.builds(
    lambda kind, value: component(kind, nni(value)),
    st.sampled_from([50, 52, 54, 56, 58]),
    NNI,
)
DIGEST_COMPONENTS = st.builds(component, st.sampled_from([1, 2]), st.binary(min_size=32, max_size=32))
OTHER_COMPONENTS = st.builds(
    component,
    st.one_of(st.integers(3, 65535), st.sampled_from([32, 252, 253, 254, 255, 256, 65535])),
    st.binary(max_size=6),
)
LONG_COMPONENTS = st.builds(
    lambda size, byte: component(8, bytes((byte,)) * size),
    st.sampled_from([252, 253, 255, 256, 300]),
    st.integers(0, 255),
)
COMPONENTS = st.one_of(
    GENERIC_COMPONENTS, NUMBER_COMPONENTS, DIGEST_COMPONENTS, OTHER_COMPONENTS, LONG_COMPONENTS
)
NAMES = st.lists(COMPONENTS, max_size=6).map(b"".join)
NAMES_OF_INTERESTS = st.lists(COMPONENTS, min_size=1, max_size=6).map(b"".join)

KEYS = st.binary(min_size=32, max_size=32)
FEEDS = st.builds(feed_name, st.lists(GENERIC_COMPONENTS, max_size=3).map(b"".join), KEYS)
SEQUENCE_NUMBERS = NNI.filter(bool).map(lambda number: min(number, LAST_ITEM))
ITEMS = st.builds(item_name, FEEDS, SEQUENCE_NUMBERS)


def interests(names: st.SearchStrategy[bytes] = NAMES_OF_INTERESTS) -> st.SearchStrategy[bytes]:
    """Classic Interests."""
    return st.builds(
        make_interest,
        names,
        nonce=NONCES,
        can_be_prefix=st.booleans(),
        must_be_fresh=st.booleans(),
        lifetime_ms=st.none() | NNI,
        hop_limit=st.none() | st.integers(0, 255),
    )


LLIS = st.builds(
    make_interest,
    ITEMS,
    nonce=NONCES,
    lifetime_ms=NNI,
    hop_limit=st.integers(0, 255),
    send_credit=NNI,
)


def data(names: st.SearchStrategy[bytes] = NAMES) -> st.SearchStrategy[bytes]:
    """Data packets, not all of them with a signature that verifies."""
    return st.builds(
        make_data,
        names,
        st.binary(max_size=300),
        freshness_ms=st.none() | NNI,
        content_type=st.none() | NNI,
        signature_type=st.sampled_from([DIGEST_SHA256, ED25519]),
        key_name=st.none() | NAMES,
        sign=st.sampled_from([None, lambda signed: signed[:64].ljust(64, b"\0")]),
    )


NETWORK_PACKETS = st.one_of(interests(), LLIS, data(), data(ITEMS))


@st.composite
def lp_packets(draw: st.DrawFn) -> bytes:
    """LpPackets with any of the header fields, whole or fragments."""
    count = draw(st.sampled_from([1, 1, 2, 3, 70]))
    tip = draw(st.none() | NNI)
    return make_lp(
        draw(NETWORK_PACKETS | st.binary(max_size=20)),
        sequence=draw(NNI) if count > 1 else draw(st.none() | NNI),
        frag_index=draw(st.integers(0, count - 1)),
        frag_count=count,
        nack_reason=draw(st.none() | NNI),
        pit_token=draw(st.none() | st.binary(min_size=1, max_size=32)),
        congestion_mark=draw(st.just(0) | NNI),
        tip=tip,
        limit=None if tip is None else draw(NNI),
    )


PACKETS = NETWORK_PACKETS | lp_packets()


@st.composite
def mutations(draw: st.DrawFn, packets: st.SearchStrategy[bytes] = PACKETS) -> bytes:
    """A packet that something happened to on its way: a flip, a cut, a splice, a length that lies."""
    packet = bytearray(draw(packets))
    for _ in range(draw(st.integers(1, 3))):
        size = len(packet)
        at = draw(st.integers(0, max(size - 1, 0)))
        change = draw(st.sampled_from(["flip", "cut", "drop", "splice", "insert", "lie", "grow"]))
        if change == "flip" and size:
            packet[at] ^= 1 << draw(st.integers(0, 7))
        elif change == "cut":
            del packet[at:]
        elif change == "drop":
            del packet[at : at + draw(st.integers(1, 8))]
        elif change == "splice":
            packet[at:] = draw(packets)[draw(st.integers(0, 40)) :]
        elif change == "insert":
            packet[at:at] = element(draw(st.integers(0, 1 << 33)), draw(st.binary(max_size=4)))
        elif change == "lie" and size:
            packet[at] = draw(st.sampled_from([0, 1, 2, 31, 32, 33, 34, 252, 253, 254, 255]))
        else:
            packet += draw(st.binary(min_size=1, max_size=4))
    return bytes(packet)


ANY_BYTES = st.binary(max_size=200) | mutations() | PACKETS
