"""The decoder of windows against the careful decoder: the same rows, whatever the frames are."""

import numpy as np
import pyarrow as pa
import pytest
from crafted import WRAPS, Frame, data_packets, frames, interests
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.decode.batch import DECODED, decode_records
from analysis.decode.reading import NDN_PORTS
from analysis.decode.reference import decode_frame
from captures.formats.records import SLACK, Records
from captures.layers.layers import Ports
from forwarder.wire.feed import item_name
from forwarder.wire.lp import make_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data, make_interest
from forwarder.wire.tlv import element


def at_once(some: list[Frame], gaps: bytes = b"\x05\xff" * 8, ports: Ports = NDN_PORTS) -> list[dict]:
    """Decode frames that stand in one window, with `gaps` before, between and after them."""
    window, at = bytearray(gaps), []
    for frame in some:
        at.append(len(window))
        window += frame.octets + gaps
    types = sorted({frame.link_type for frame in some})
    records = Records(
        np.array(at, np.int64),
        np.array([len(frame.octets) for frame in some], np.int64),
        np.array([frame.original for frame in some], np.int64),
        *(np.zeros(len(some), np.int64),),
        np.array([types.index(frame.link_type) for frame in some], np.int64),
        np.zeros(len(some), np.int64),
    )
    data = np.frombuffer(bytes(window) + bytes(SLACK), np.uint8)
    arrays = decode_records(data, records, types, ports).arrays()
    for name, column in zip(DECODED, arrays, strict=True):
        # Parquet has no null among the values of a dictionary.
        assert not pa.types.is_dictionary(column.type) or not column.dictionary.null_count, name
    columns = [column.to_pylist() for column in arrays]
    return [dict(zip(DECODED, row, strict=True)) for row in zip(*columns, strict=True)]


def one_by_one(some: list[Frame], ports: Ports = NDN_PORTS) -> list[dict]:
    return [dict(zip(DECODED, decode_frame(*frame, ports), strict=True)) for frame in some]


@settings(max_examples=400, deadline=None)
@given(st.lists(frames(), max_size=6))
def test_a_window_is_decoded_as_its_frames_are(some):
    assert at_once(some) == one_by_one(some)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.builds(Frame, st.binary(max_size=90), st.integers(90, 99), st.sampled_from([0, 1, 101, 113, 276]))
    )
)
def test_garbage_is_decoded_as_its_frames_are(some):
    assert at_once(some) == one_by_one(some)


@settings(max_examples=100, deadline=None)
@given(interests | data_packets, st.sampled_from(sorted(WRAPS)), st.data())
def test_a_frame_cut_anywhere(packet, how, data):
    link_type, wrap = WRAPS[how]
    whole = wrap(packet)
    size = data.draw(st.integers(0, len(whole)))
    some = [Frame(whole[:size], len(whole), link_type), Frame(whole[:size], size, link_type)]
    assert at_once(some) == one_by_one(some)


def test_the_plain_packets_do_not_need_the_careful_decoder(monkeypatch):
    feed = from_uri("/ssb/logs") + b"\x08\x20" + bytes(32)
    item = make_data(item_name(feed, 3), b"x" * 900, freshness_ms=10)
    plain = [
        make_interest(from_uri("/a/b/seg=7"), nonce=1, lifetime_ms=100, hop_limit=3),
        make_interest(item_name(feed, 3), nonce=1, lifetime_ms=100, send_credit=3),
        make_interest(from_uri("/a"), nonce=5, can_be_prefix=True, must_be_fresh=True),
        item,
        make_lp(item, tip=3, limit=9, congestion_mark=1, sequence=4),
        make_lp(item, pit_token=b"1234"),
        make_lp(item[:300], sequence=5, frag_index=1, frag_count=3),
    ]
    ways = (
        "ppp",
        "ppp4",
        "udp4",
        "udp6",
        "multicast",
        "vlan",
        "qinq",
        "ethernet",
        "sll",
        "sll2",
        "null",
        "raw4",
        "ipv6",
    )
    some = [
        Frame(frame, len(frame), link_type)
        for link_type, wrap in (WRAPS[way] for way in ways)
        for frame in map(wrap, plain)
    ]
    expected = one_by_one(some)
    monkeypatch.setattr("analysis.decode.batch.decode_frame", None)
    assert at_once(some) == expected
    assert {row["kind"] for row in expected} == {"interest", "lli", "data", "fragment"}


@pytest.mark.parametrize("kind", [0x032C, 0x0330, 0x0334, 0x0344, 0x0348, 0x034C])
@pytest.mark.parametrize("size", [0, 1, 8])
def test_header_fields_of_any_length(kind, size):
    packet = make_interest(from_uri("/a/b"), nonce=1)
    fields = element(kind, bytes(size)) + element(0x50, packet)
    link_type, wrap = WRAPS["udp4"]
    octets = wrap(element(0x64, fields))
    some = [Frame(octets, len(octets), link_type)]
    assert at_once(some) == one_by_one(some)


def test_ports_can_be_chosen():
    _, wrap = WRAPS["other port"]
    frame = wrap(make_interest(from_uri("/a"), nonce=1))
    some, ports = [Frame(frame, len(frame))], Ports(frozenset([53]), frozenset())
    assert at_once(some)[0]["kind"] == "other"
    assert at_once(some, ports=ports) == one_by_one(some, ports)
    assert at_once(some, ports=ports)[0]["kind"] == "interest"


def test_nothing_is_no_row():
    assert at_once([]) == []


@pytest.mark.parametrize(
    ("how", "kind", "problem"),
    [
        ("options", "interest", None),
        ("extensions", "interest", None),
        ("routing", "interest", None),
        ("atomic", "interest", None),
        ("fragment", "interest", "IP fragment"),
        ("fragment6", "interest", "IP fragment"),
        ("later fragment", "other", "IP fragment"),
        ("first fragment", "malformed", "IP fragment"),
        ("tso", "interest", None),
        ("tso6", "interest", None),
        ("ppp", "interest", None),
        ("ppp4", "interest", None),
        ("ppp6, framed", "interest", None),
        ("ppp, compressed", "interest", None),
        ("ppp, other", "other", None),
        ("tcp", "segment", None),
        ("other tcp", "other", None),
        ("wireless", "other", "link type 105 (IEEE802_11) is not read"),
        ("null, big-endian", "interest", None),
        ("old qinq", "interest", None),
    ],
)
def test_unusual_frames(how, kind, problem):
    link_type, wrap = WRAPS[how]
    frame = wrap(make_interest(from_uri("/a"), nonce=1))
    (row,) = at_once([Frame(frame, len(frame), link_type)])
    assert (row["kind"], row["problem"]) == (kind, problem)
