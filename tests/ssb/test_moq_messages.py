"""Media over QUIC: frames of QMux, control messages and data streams, octet by octet and in any pieces."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssb.keys import Identity
from ssb.moq.fields import MOST, Fields, Incomplete, ProtocolViolation, integer
from ssb.moq.frames import (
    LARGEST_RECORD,
    Other,
    Parameters,
    Ping,
    Pong,
    Records,
    Reset,
    StreamData,
    stream_frames,
)
from ssb.moq.frames import encode as encode_frame
from ssb.moq.incoming import End, Incoming
from ssb.moq.messages import (
    CONTROL,
    LARGEST_OBJECT,
    VERSION,
    Failed,
    Fetch,
    FetchCancel,
    Fetched,
    FetchOk,
    Filter,
    Head,
    Location,
    MaxRequestId,
    Object,
    PublishDone,
    Setup,
    Subgroup,
    Subscribe,
    SubscribeOk,
    Track,
    Unsubscribe,
    Unsupported,
    encode,
    encode_head,
    encode_object,
    read_message,
    refusal,
)
from ssb.moq.tracks import feed_of, location_of, sequence_of, track_of

NAME = Track((b"a", b"bc"), b"d")
VECTORS: list[tuple[Any, str]] = [
    (Setup(True, (VERSION,), 100), "20 000d 01 c0000000ff00000e 01 02 4064"),
    (Setup(False, (VERSION,), 9), "21 000b c0000000ff00000e 01 02 09"),
    (MaxRequestId(64), "15 0002 4040"),
    (Subscribe(2, NAME), "03 000e 02 02 0161 026263 0164 80 01 01 02 00"),
    (
        Subscribe(2, NAME, Filter.ABSOLUTE_RANGE, Location(0, 5), 7, False),
        "03 0011 02 02 0161 026263 0164 80 01 00 04 00 05 07 00",
    ),
    (SubscribeOk(2, 2, None), "04 0006 02 02 00 01 00 00"),
    (SubscribeOk(2, 3, Location(0, 70)), "04 0009 02 03 00 01 01 00 4046 00"),
    (Failed(2, False, 4, b"no"), "05 0005 02 04 026e6f"),
    (Unsubscribe(2), "0a 0001 02"),
    (PublishDone(2, 0, 1, b""), "0b 0004 02 00 01 00"),
    (
        Fetch(4, NAME, Location(0, 1), Location(0, 9)),
        "16 0011 04 80 01 01 02 0161 026263 0164 00 01 00 09 00",
    ),
    (FetchCancel(4), "17 0001 04"),
    (FetchOk(4, Location(0, 9)), "18 0006 04 01 00 00 09 00"),
    (Failed(4, True, 5), "19 0003 04 05 00"),
]
"""Messages as the draft's figures have them, octet by octet: type, length, and the fields in their order."""

FRAMES: list[tuple[Any, str]] = [
    (StreamData(2, 0, b"ab"), "04 08 02 6162"),
    (StreamData(2, 64, b"ab", True), "06 0d 02 4040 6162"),
    (Reset(6, 1, 300), "05 04 06 01 412c"),
    (Ping(1), "09 f48c67529ef8c7bd 01"),
    (Pong(1), "09 f48c67529ef8c7be 01"),
]
"""Frames as RFC 9000 has them (19.4, 19.8), and as QMux does, each in a record."""


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (37, "25"),
        (15_293, "7bbd"),
        (494_878_333, "9d7f3e7d"),
        (151_288_809_941_952_652, "c2197c5eff14e88c"),
        (MOST, "ffffffffffffffff"),
    ],
)
def test_integers_are_those_of_rfc_9000(value: int, octets: str) -> None:
    """Its appendix A.1."""
    assert integer(value).hex() == octets
    assert Fields(bytes.fromhex(octets)).integer() == value
    assert Fields(bytes.fromhex("4025")).integer() == 37
    for out_of_range in (-1, MOST + 1):
        with pytest.raises(ValueError, match="is no integer from 0"):
            integer(out_of_range)


@pytest.mark.parametrize(("message", "octets"), VECTORS)
def test_a_message_has_the_octets_of_the_draft(message: Any, octets: str) -> None:
    data = bytes.fromhex(octets)
    assert encode(message) == data
    assert read_message(Fields(data)) == message
    for size in range(len(data)):
        with pytest.raises(Incomplete):
            read_message(Fields(data[:size]))


@pytest.mark.parametrize(("frame", "octets"), FRAMES)
def test_a_frame_has_the_octets_of_its_standard(frame: Any, octets: str) -> None:
    data = bytes.fromhex(octets)
    assert encode_frame(frame) == data
    assert [found for _, frames in Records().receive(data) for found, _ in frames] == [frame]


def test_parameters_have_the_type_of_the_draft() -> None:
    said = encode_frame(Parameters(10_000))
    assert bytes.fromhex("ff5153300d0a0d0a") == said[2:10]
    ((head, frames),) = Records().receive(said)
    assert frames == [(Parameters(10_000), len(said) - head)]


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        ("01 0000", "a message of type 0x1"),
        ("40a0 0000", "a message of type 0xa0"),
        ("0a 0002 0202", "bytes after a message of type 0xa"),
        ("0a 0000", "a message of type 0xa that ends early"),
        ("03 000e 02 02 0161 026263 0164 80 03 01 02 00", "a group order of 3"),
        ("03 000e 02 02 0161 026263 0164 80 01 02 02 00", "a flag of 2"),
        ("03 000e 02 02 0161 026263 0164 80 01 01 05 00", "a filter of type 5"),
        ("03 0008 02 00 0164 80 01 01 02", "a namespace of 0 fields"),
        ("03 0008 02 21 0164 80 01 01 02", "a namespace of 33 fields"),
        ("04 0006 02 02 00 00 00 00", "a group order of 0"),
        ("16 0006 04 80 01 04 02 00", "a fetch of type 4"),
    ],
)
def test_what_is_no_message_is_refused(octets: str, why: str) -> None:
    with pytest.raises(ProtocolViolation, match=why):
        read_message(Fields(bytes.fromhex(octets)))


def test_unknown_parameters_are_ignored() -> None:
    data = bytes.fromhex("03 0014 02 02 0161 026263 0164 80 01 01 02 02 0405 07026162".replace(" ", ""))
    assert read_message(Fields(data)) == Subscribe(2, NAME)


def test_names_are_bounded() -> None:
    for track in (Track((b"x" * 4096,), b"y"), Track((b"x" * 2000, b"x" * 2000), b"y" * 97)):
        with pytest.raises(ProtocolViolation, match="a track name of 4097 bytes"):
            read_message(Fields(encode(Subscribe(0, track))))


@pytest.mark.parametrize(
    ("octets", "message", "answer"),
    [
        ("02 000a 04 02 00 05 00 80 01 00 00 00", Unsupported(0x02, 4), None),
        ("06 0007 04 02 0161 026263", Unsupported(0x06, 4), "08 0003 04 03 00"),
        ("0d 0001 04", Unsupported(0x0D, 4), "0f 0003 04 03 00"),
        ("11 0001 04", Unsupported(0x11, 4), "13 0003 04 03 00"),
        ("1d 0001 04", Unsupported(0x1D, 4), "1f 0003 04 03 00"),
        ("16 0007 04 80 01 02 02 00 00", Unsupported(0x16, 4), "19 0003 04 03 00"),
        ("16 0007 04 80 01 03 02 00 00", Unsupported(0x16, 4), "19 0003 04 03 00"),
        ("10 0001 00", Unsupported(0x10, None), None),
        ("1a 0001 04", Unsupported(0x1A, None), None),
        ("09 0001 00", Unsupported(0x09, None), None),
        ("0c 0001 00", Unsupported(0x0C, None), None),
        ("14 0001 00", Unsupported(0x14, None), None),
    ],
)
def test_messages_without_support_are_read_and_refused(
    octets: str, message: Unsupported, answer: str | None
) -> None:
    assert read_message(Fields(bytes.fromhex(octets))) == message
    refused = refusal(message)
    assert (refused is None) == (answer is None)
    if refused is not None and answer is not None:
        assert encode(refused) == bytes.fromhex(answer)
        if message.kind != 0x16:
            assert read_message(Fields(encode(refused))) == refused


SUBSCRIBED, FETCH = Subgroup(5, 0), Fetched(4)


@pytest.mark.parametrize(
    ("head", "octets", "objects"),
    [
        (SUBSCRIBED, "10 05 00 80 | 03 02 6162 | 00 00 00", [Location(0, 3), Location(0, 4)]),
        (FETCH, "05 04 | 00 00 03 80 00 02 6162 | 00 00 04 80 00 00 00", [Location(0, 3), Location(0, 4)]),
    ],
)
def test_a_data_stream_has_the_octets_of_the_draft(head: Head, octets: str, objects: list[Location]) -> None:
    """10.4.2 and 10.4.4."""
    expected = [bytes.fromhex(part) for part in octets.split("|")]
    assert encode_head(head) == expected[0]
    assert encode_object(head, None, objects[0], b"ab") == expected[1]
    assert encode_object(head, objects[0].object, objects[1], b"") == expected[2]


@pytest.mark.parametrize("kind", [*range(0x10, 0x16), *range(0x18, 0x1E)])
def test_subgroups_of_every_type_are_read(kind: int) -> None:
    """10.4.2: bit 0 for extension headers, bit 2 for a Subgroup ID; status 0 is normal, others mean none."""
    extension, subgroup = b"\x02\x3c\x00" * (kind & 1), b"\x07" * (kind >> 2 & 1)
    said = bytes((kind, 5, 0)) + subgroup + b"\x80"
    said += b"".join(b"\x00" + extension + rest for rest in (b"\x01x", b"\x00\x00", b"\x00\x01"))
    said += b"\x00" + extension + b"\x00\x03"
    records = [encode_frame(Parameters(1)), *stream_frames(2, 0, said, is_last=True)]
    units = [*Incoming(from_client=True, streams=2).receive(b"".join(records))]
    head = Subgroup(5, 0, bool(kind & 1))
    assert [unit.content for unit in units[1:]] == [
        Object(head, Location(0, 0), b"x"),
        Object(head, Location(0, 1), b""),
        Object(head, Location(0, 2), b"", False),
        Object(head, Location(0, 3), b"", False),
        End(head, True),
    ]


@pytest.mark.parametrize(
    "octets",
    [
        *("00", "000000", "050204", "1001", "110201", "1201", "1301", "1401", "150201", "1601", "1701"),
        *("1c0308 026162", "1d0300"),
    ],
)
def test_frames_without_effect_are_read_and_counted(octets: str) -> None:
    """RFC 9000, 19.1 to 19.19: those that QMux allows."""
    hello, frame = encode_frame(Parameters(1)), bytes.fromhex(octets)
    record = bytes((len(frame) + len(encode_frame(Ping(1))) - 1,)) + frame + encode_frame(Ping(1))[1:]
    units = [*Incoming(from_client=True, streams=2).receive(hello + bytes((len(frame),)) + frame + record)]
    assert [unit.content for unit in units] == [Parameters(1), Other(frame[0]), Other(frame[0]), Ping(1)]
    assert sum(unit.size for unit in units) == len(hello) + 1 + len(frame) + len(record)


def test_records_may_not_become_smaller() -> None:
    """QMux, 5.2."""
    for size, is_allowed in ((16_381, False), (16_382, True)):
        said = integer(0x0571C59429CD0845) + b"\x04" + (size | 2 << 30).to_bytes(4)
        body = integer(0x3F5153300D0A0D0A) + bytes((len(said),)) + said
        records = Records().receive(bytes((len(body),)) + body)
        if is_allowed:
            assert len([*records]) == 1
        else:
            with pytest.raises(ProtocolViolation, match="records smaller"):
                list(records)


def test_what_is_not_complete_is_bounded() -> None:
    """Each of many streams begins an object, and none ends it; those that are reset make room."""
    piece = encode_head(Fetched(0)) + bytes.fromhex("00 00 00 80 00 80008000") + bytes(16_000)
    incoming = Incoming(from_client=True, streams=10_000)
    list(incoming.receive(encode_frame(Parameters(1))))
    for at in range(200):
        list(incoming.receive(encode_frame(StreamData(2 + 4 * at, 0, piece))))
        list(incoming.receive(encode_frame(Reset(2 + 4 * at, 1, len(piece)))))
    for at in range(200, 265):
        list(incoming.receive(encode_frame(StreamData(2 + 4 * at, 0, piece))))
    with pytest.raises(ProtocolViolation, match="too much that is not complete"):
        list(incoming.receive(encode_frame(StreamData(2 + 4 * 265, 0, piece))))


numbers = st.one_of(st.integers(0, 100), st.integers(0, MOST))
locations = st.builds(Location, numbers, numbers)
tracks = st.builds(
    Track, st.lists(st.binary(max_size=9), min_size=1, max_size=32).map(tuple), st.binary(max_size=40)
)
messages = st.one_of(
    st.tuples(numbers, tracks).map(lambda said: Subscribe(*said)),
    st.builds(SubscribeOk, numbers, numbers, st.none() | locations),
    st.builds(Failed, numbers, st.booleans(), numbers, st.binary(max_size=1024)),
    st.builds(PublishDone, numbers, numbers, numbers, st.binary(max_size=1024)),
    st.builds(Fetch, numbers, tracks, locations, locations),
    st.builds(FetchOk, numbers, locations),
    st.builds(Setup, st.just(True), st.lists(numbers, max_size=5).map(tuple), numbers),
)
streams = st.tuples(
    st.one_of(st.builds(Subgroup, numbers, st.just(0), st.just(False)), st.builds(Fetched, numbers)),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0, 1, 900, 20_000, LARGEST_OBJECT])), max_size=4),
    st.booleans(),
)


def of_stream(number: int, head: Head, objects: Any, *, is_whole: bool) -> tuple[list[bytes], list[Any]]:
    """The records of a stream, and what is in it."""
    said, last, found = encode_head(head), None, []
    for delta, size in objects:
        location = Location(0, delta if last is None else last + 1 + delta)
        said += encode_object(head, last, location, bytes(size))
        found.append(Object(head, location, bytes(size)))
        last = location.object
    records = [*stream_frames(number, 0, said, is_last=is_whole)]
    if not is_whole:
        records.append(encode_frame(Reset(number, 1, len(said))))
    return records, [*found, End(head, is_whole)]


@given(st.lists(messages, max_size=5), st.lists(streams, max_size=3), st.data())
def test_what_is_said_is_read_in_any_pieces_and_every_byte_is_counted(
    said: list[Any], data_streams: list[Any], data: st.DataObject
) -> None:
    records, wanted = [encode_frame(Parameters(1))], [Parameters(1)]
    spoken = b"".join(map(encode, said))
    records += stream_frames(CONTROL, 0, spoken, is_last=False) if spoken else []
    wanted += said
    for at, (head, objects, is_whole) in enumerate(data_streams):
        more, found = of_stream(2 + 4 * at, head, objects, is_whole=is_whole)
        records += more
        wanted += found
    assert all(len(record) <= LARGEST_RECORD + 4 for record in records)
    whole, incoming, units, at = b"".join(records), Incoming(from_client=True, streams=9), [], 0
    while at < len(whole):
        size = data.draw(st.sampled_from([1, 3, 50, 5000, 10**6]))
        if size == 1 and len(whole) > 2000:
            size = 997
        units += incoming.receive(whole[at : at + size])
        at += size
    assert [unit.content for unit in units] == wanted
    assert sum(unit.size for unit in units) == len(whole)


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([Ping(1)], "parameters are the first frame"),
        ([Parameters(1), Parameters(1)], "parameters are the first frame"),
        ([Parameters(1), StreamData(0, 5, b"x")], "a stream out of order"),
        ([Parameters(1), StreamData(6, 0, b"x")], "stream 6, which is not open"),
        ([Parameters(1), StreamData(3, 0, b"x")], "stream 3, which is not open"),
        (
            [Parameters(1), StreamData(2, 0, b"\x05\x00", True), StreamData(2, 2, b"x")],
            "stream 2, which is not",
        ),
        ([Parameters(1), StreamData(2, 0, b"\x05", True)], "a stream that ends early"),
        ([Parameters(1), StreamData(0, 0, b"", True)], "a stream that ends early"),
        ([Parameters(1), StreamData(2, 0, b"", True)], "a stream that ends early"),
        ([Parameters(1), StreamData(2, 0, b"\x05\x00\x00", True)], "a stream that ends early"),
        ([Parameters(1), Reset(0, 1, 0)], "the control stream ends"),
        ([Parameters(1), StreamData(2, 0, b"\x06")], "a stream of type 0x6"),
        ([Parameters(1), *(StreamData(2 + 4 * at, 0, b"\x05") for at in range(3))], "too many streams"),
        ([Parameters(1), StreamData(2, 0, b"\x05\x00\0\0\0\x80\0\x80\x01\0\x01")], "a field of 65537 bytes"),
        ([Parameters(1), StreamData(2, 0, b"\x05\x00\0\0\0\x80\0\0\x02")], "an object with a status of 2"),
        (
            [Parameters(1), StreamData(2, 0, b"\x05\x00" + b"\x00\x00\x01\x80\x00\x01x" * 2)],
            "an object beyond the last number, or out of order",
        ),
        ([Parameters(1), StreamData(2, 0, b"\x05\x00"), Reset(2, 1, 1)], "fewer bytes than came"),
    ],
)
def test_what_breaks_the_rules_of_streams_is_refused(records: list[Any], why: str) -> None:
    with pytest.raises(ProtocolViolation, match=why):
        list(Incoming(from_client=True, streams=2).receive(b"".join(map(encode_frame, records))))


def test_bytes_of_an_object_that_is_broken_off_are_counted() -> None:
    records = [Parameters(1), StreamData(2, 0, b"\x05\x00\x00\x00"), Reset(2, 1, 4)]
    said = b"".join(map(encode_frame, records))
    units = [*Incoming(from_client=True, streams=2).receive(said)]
    assert [unit.content for unit in units] == [Parameters(1), End(Fetched(0), False)]
    assert sum(unit.size for unit in units) == len(said)


def test_as_many_streams_may_be_open_as_is_said() -> None:
    records = [Parameters(1), StreamData(2, 0, b"\x05"), StreamData(6, 0, b"\x05"), Reset(2, 1, 1)]
    records += [StreamData(10, 0, b"\x05\x00")]
    units = Incoming(from_client=True, streams=2).receive(b"".join(map(encode_frame, records)))
    assert [unit.content for unit in units] == [Parameters(1)]


@pytest.mark.parametrize("octets", ["7fff", "00", "0107", "020800", "0108"])
def test_what_is_no_record_is_refused(octets: str) -> None:
    with pytest.raises(ProtocolViolation):
        list(Incoming(from_client=True, streams=2).receive(bytes.fromhex(octets)))


def test_a_track_names_a_feed_and_a_location_a_message() -> None:
    feed = Identity.from_seed(bytes(32)).ref
    assert feed_of(track_of(feed)) == feed
    assert sequence_of(location_of(12)) == 12
    assert location_of(1) == Location(0, 0)
    assert sequence_of(Location(1, 0)) is None
    for other in (NAME, Track((b"ssb", b"x"), b"log"), track_of(feed)._replace(name=b"x")):
        assert feed_of(other) is None
