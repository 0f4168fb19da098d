"""Scuttlebutt's streams cut into messages: every byte in its layer, whatever is in them or missing."""

import json
from collections import Counter
from itertools import pairwise
from random import Random
from typing import NamedTuple

import pcapng_oracle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import scenario, simulate

from analysis.decode import messages
from analysis.decode.connections import Row
from analysis.decode.messages import RETRANSMITTED
from analysis.decode.protocols.protocol import ENCRYPTED, ITEM, PAYLOAD, UNREAD, Ends
from analysis.decode.protocols.ssb import DECLARATION
from captures.layers.streams import SYN
from forwarder.wire.name import to_uri
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.peer.options import PORT
from ssb.replication.ebt import Ebt
from ssb.transport import calls
from ssb.transport.box_stream import HEADER_BYTES as BOX_BYTES
from ssb.transport.box_stream import MAX_BODY, Boxer
from ssb.transport.handshake import (
    ACCEPT_BYTES,
    AUTHENTICATE_BYTES,
    HELLO_BYTES,
    MAIN_NETWORK,
    ClientHandshake,
    ServerHandshake,
)
from ssb.transport.muxrpc import GOODBYE, HEADER_BYTES, BodyType, Packet, encode
from ssb.transport.secure_stream import PlainStream, SecureStream
from ssb_over_ndn.naming import log_name

ENDS = Ends("10.0.0.1", 40000, "10.0.0.2", PORT)
ANN, BEN = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2))
FEED = generate_feed(Random(3), 5)
REQUEST = json.dumps({"name": ["ebt", "replicate"], "args": [{"version": 3}], "type": "duplex"}).encode()
HANDSHAKES = {True: (HELLO_BYTES, AUTHENTICATE_BYTES), False: (HELLO_BYTES, ACCEPT_BYTES)}
WAYS = (True, False)


# --- streams that are made up, and a model of their bytes ---


class Sent(NamedTuple):
    """What one side sends: its bytes, the layer of each, and the kinds of its messages."""

    data: bytes
    layers: list[str]
    kinds: list[str]


def opened(network=MAIN_NETWORK):
    """Return the bytes of a handshake by direction, both sides, and the secrets of the stream."""
    sides = {
        True: SecureStream(ClientHandshake(ANN, BEN.public_key, network, bytes(32))),
        False: SecureStream(ServerHandshake(BEN, network, bytes([7]) * 32)),
    }
    sent = dict.fromkeys(WAYS, b"")
    while any(side.remote is None for side in sides.values()):
        for way, side in sides.items():
            octets = side.take_output()
            sent[way] += octets
            if octets:
                sides[not way].receive(octets)
    return sent, sides, frozenset(sides[True].take_secrets())


def boxed(side, packets, groups, ends):
    """Return what a side sends: packets as (kind, layer, Packet), cut into boxes anywhere."""
    plain, layers, kinds = b"", [], []
    for kind, layer, packet in packets:
        octets = encode(packet)
        plain += octets
        layers += ["muxrpc"] * HEADER_BYTES + [layer] * len(packet.body)
        kinds.append(kind)
    if ends:
        plain, layers, kinds = plain + GOODBYE, layers + ["muxrpc"] * HEADER_BYTES, [*kinds, "end"]
    data, told = b"", []
    for begin, end in pairwise(sorted({0, *(group % (len(plain) + 1) for group in groups), len(plain)})):
        side.send(plain[begin:end])
        data += side.take_output()
        for start in range(begin, end, MAX_BODY):
            told += ["box"] * BOX_BYTES + layers[start : min(start + MAX_BODY, end)]
    if ends:
        side.end()
        data, told, kinds = data + side.take_output(), told + ["box"] * BOX_BYTES, [*kinds, "end"]
    return Sent(data, told, kinds)


def cut_up(data, cuts):
    return [data[a:b] for a, b in pairwise(sorted({0, *(cut % (len(data) + 1) for cut in cuts), len(data)}))]


def read(framer, way, chunks):
    """Return what a framer says of one direction, all bytes accounted for, as the analysis does it."""
    told, size = [], 0
    try:
        for chunk in chunks:
            size += len(chunk)
            told += framer.receive(way, chunk)
    except ValueError:
        size = sum(map(len, chunks))
    left = size - sum(message.size for message in told)
    return told + ([messages.Message(UNREAD, ((UNREAD, left),))] if left else [])


def layers_of(told):
    return [layer for message in told for layer, size in message.parts for _ in range(size)]


def assert_fits(told):
    """Check that messages are declared, and can be rows of the table."""
    rows = [{"kind": m.kind, "feed": m.feed, "seq": m.seq, **m.fields} for m in told]
    assert pa.Table.from_pylist(rows, messages.schema(DECLARATION)).num_rows == len(told)
    known = {layer.key for layer in DECLARATION.layers} | {PAYLOAD, UNREAD, ENCRYPTED}
    assert {layer for message in told for layer, _ in message.parts} <= known
    assert {message.kind for message in told} <= DECLARATION.kinds.keys() | {UNREAD}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KEYS = [message.author for message in FEED[:1]] + [ANN.ref, BEN.ref]
CLOCKS = st.dictionaries(st.sampled_from([*KEYS, "no feed"]), st.integers(-2, 50) | VALUES, max_size=4)


@st.composite
def contents(draw, number):
    """A packet about the call of ebt.replicate, with its kind and layer."""
    what = draw(st.sampled_from(["note", "data", "large", "end", "binary", "odd"]))
    if what == "note":
        return "note", "note", Packet(number, json.dumps(draw(CLOCKS)).encode(), is_stream=True)
    if what == "data":
        return ITEM, PAYLOAD, Packet(number, draw(st.sampled_from(FEED)).encoded, is_stream=True)
    if what == "large":
        text = {
            "author": ANN.ref,
            "signature": "x",
            "sequence": 1,
            "content": "y" * draw(st.integers(0, 9000)),
        }
        return ITEM, PAYLOAD, Packet(number, json.dumps(text).encode(), is_stream=True)
    if what == "end":
        return "end", "call", Packet(number, b"true", is_stream=True, is_end=True)
    if what == "odd":  # a message whose fields are anything
        text = {"author": draw(st.text()), "signature": draw(VALUES), "sequence": draw(VALUES)}
        return ITEM, PAYLOAD, Packet(number, json.dumps(text).encode(), is_stream=True)
    body = draw(st.binary(max_size=20))
    return "answer", "call", Packet(number, b"\xff" + body, BodyType.BINARY, is_stream=True)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_byte_is_in_its_layer_however_packets_boxes_and_segments_are_cut(data):
    sent, sides, secrets = opened()
    request = ("request", "call", Packet(1, REQUEST, is_stream=True))
    framer = DECLARATION.framer(ENDS, secrets)
    numbers = st.lists(st.integers(0, 1 << 16), max_size=6)
    for way in WAYS:
        packets = [request] if way else []
        packets += data.draw(st.lists(contents(1 if way else -1), max_size=6))
        said = boxed(sides[way], packets, data.draw(numbers), data.draw(st.booleans()))
        told = read(framer, way, cut_up(sent[way] + said.data, data.draw(numbers)))
        assert layers_of(told) == ["handshake"] * sum(HANDSHAKES[way]) + said.layers
        assert [message.kind for message in told] == ["handshake"] * 2 + said.kinds
        assert_fits(told)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.builds(
            Packet,
            st.integers(-4, 4).filter(bool),
            VALUES.map(lambda value: json.dumps(value).encode())
            | st.text(st.characters()).map(lambda name: json.dumps({"name": name}).encode())
            | st.lists(VALUES).map(lambda name: json.dumps({"name": name}).encode())
            | st.binary(),
            st.sampled_from(BodyType),
            st.booleans(),
            st.booleans(),
        ),
        max_size=8,
    ),
    st.binary(max_size=40),
    st.booleans(),
)
def test_anything_may_be_in_packets(packets, rest, from_opener):
    framer = DECLARATION.framer(ENDS, frozenset())
    data = PlainStream(ANN.public_key).take_output() + b"".join(map(encode, packets)) + rest
    told = read(framer, from_opener, [data])
    assert len(layers_of(told)) == len(data)
    assert_fits(told)


def test_what_a_goodbye_cuts_off_is_unread():
    sent, sides, secrets = opened()
    framer = DECLARATION.framer(ENDS, secrets)
    half = encode(Packet(1, REQUEST, is_stream=True))[:-1]
    side = sides[True]
    side.send(half)
    data = sent[True] + side.take_output()
    side.end()
    data += side.take_output()
    told = read(framer, True, [data])
    assert [message.kind for message in told] == ["handshake", "handshake", UNREAD, "end"]
    assert told[2].parts == (("box", BOX_BYTES), (UNREAD, len(half)))
    assert told[3].parts == (("box", BOX_BYTES),)


def test_a_box_that_cannot_be_opened_ends_the_reading_and_not_that_of_the_other_side():
    sent, sides, secrets = opened()
    framer = DECLARATION.framer(ENDS, secrets)
    good = boxed(sides[True], [("request", "call", Packet(1, REQUEST, is_stream=True))], [], False)
    damaged = bytearray(Boxer(bytes(32), bytes(24)).box(b"not of this stream"))
    told = read(framer, True, [sent[True] + good.data, bytes(damaged)])
    assert [message.kind for message in told] == ["handshake", "handshake", "request", UNREAD]
    assert told[-1].size == len(damaged)
    answer = boxed(sides[False], [("note", "note", Packet(-1, b"{}", is_stream=True))], [], True)
    told = read(framer, False, [sent[False] + answer.data])
    assert [message.kind for message in told] == ["handshake", "handshake", *answer.kinds]


def test_notes_count_the_feeds_that_their_sender_has_eager_and_lazy():
    framer = DECLARATION.framer(ENDS, frozenset())
    one, two, three = KEYS
    clocks = [
        {one: 4 << 1, two: 7 << 1},  # both eager
        {one: 5 << 1 | 1, three: 1},  # the first turns lazy, the third is so
        {two: -1, "no feed": 6, one: None},  # the second is not wanted any more
        {one: 6 << 1},
    ]
    packets = [Packet(1, REQUEST, is_stream=True)]
    packets += [Packet(1, json.dumps(clock).encode(), is_stream=True) for clock in clocks]
    told = read(framer, True, [PlainStream(ANN.public_key).take_output() + b"".join(map(encode, packets))])
    notes = [message.fields for message in told if message.kind == "note"]
    assert [[note[name] for name in ("notes", "eager", "lazy", "switched")] for note in notes] == [
        [2, 2, 0, 0],
        [2, 1, 2, 1],
        [3, 1, 2, 0],
        [1, 2, 1, 1],
    ]
    names = {to_uri(log_name(key)): key for key in KEYS}
    turned = [[(each[0], names[each[1:]]) for each in (note["turned"] or "").split()] for note in notes]
    assert turned == [
        [("+", one), ("+", two)],
        [("-", one), ("-", three)],
        [(".", two)],
        [("+", one)],
    ]
    answer = encode(Packet(-1, json.dumps({one: 1}).encode(), is_stream=True))
    (note,) = read(framer, False, [PlainStream(BEN.public_key).take_output() + answer])[-1:]
    assert (note.fields["eager"], note.fields["lazy"]) == (0, 1)


def test_a_stream_that_does_not_begin_with_a_handshake_is_not_read():
    for secrets in (frozenset(), opened()[2]):
        framer = DECLARATION.framer(ENDS, secrets)
        for way in WAYS:
            told = read(framer, way, [Random(5).randbytes(1000)])
            assert [message.parts for message in told] == [((UNREAD, 1000),)]


def test_a_network_with_a_key_of_its_own_is_read_with_the_key_log_only():
    sent, sides, secrets = opened(bytes(32))
    said = {way: boxed(sides[way], [], [], True) for way in WAYS}
    framer = DECLARATION.framer(ENDS, secrets)
    for way in WAYS:
        told = read(framer, way, [sent[way] + said[way].data])
        assert [message.kind for message in told] == ["handshake", "handshake", "end", "end"]
    framer = DECLARATION.framer(ENDS, frozenset())
    for way in WAYS:
        told = read(framer, way, [sent[way] + said[way].data])
        assert [message.kind for message in told] == [UNREAD]


# --- streams of whole runs ---


class Swarm(NamedTuple):
    """A run: its segments, its secrets, the node of each address, and what its peers have counted."""

    rows: list[Row]
    secrets: frozenset
    nodes: dict[str, str]
    counted: Counter
    sizes: Counter


def rows_of(path):
    """Return the TCP segments of a capture."""
    rows = []
    for frame, packet in enumerate(pcapng_oracle.read(path), 1):
        octets = packet.frame
        header = 14 + (octets[14] & 15) * 4
        offset, total = header + (octets[header + 12] >> 4) * 4, 14 + int.from_bytes(octets[16:18])
        ports = [int.from_bytes(octets[at : at + 2]) for at in (header, header + 2)]
        numbers = [int.from_bytes(octets[at : at + 4]) for at in (header + 4, header + 8)]
        rows.append(
            Row(
                layering="ssb",
                interface=packet.interface.name,
                node=packet.interface.name.partition("-")[0],
                direction=packet.direction.name.lower(),
                frame=frame,
                time=packet.time,
                src=".".join(map(str, octets[26:30])),
                dst=".".join(map(str, octets[30:34])),
                src_port=ports[0],
                dst_port=ports[1],
                vlan=None,
                protocol="ssb",
                capture="ssb",
                frame_bytes=len(octets),
                carried_bytes=total - offset,
                tcp_seq=numbers[0],
                tcp_ack=numbers[1],
                tcp_flags=octets[header + 13],
                payload=octets[offset:total],
            )
        )
    return rows


@pytest.fixture(scope="module", params=["publishers", "neighbours"])
def swarm(request, tmp_path_factory):
    """A lossy line of three links, on which peers write down what they give to each other."""
    counted, sizes = Counter(), Counter()
    take_output, box, goodbye, call = Ebt.take_output, Boxer.box, Boxer.goodbye, calls.Calls.call

    def counting_output(self, number, room, now):
        bodies = take_output(self, number, room, now)
        for body in bodies:
            is_message = b'"signature"' in body
            counted[ITEM if is_message else "note"] += 1
            sizes[PAYLOAD if is_message else "note"] += len(body)
        return bodies

    def counting_box(self, data):
        sizes["box"] += -(-len(data) // MAX_BODY) * BOX_BYTES
        return box(self, data)

    def counting_goodbye(self):
        sizes["box"] += BOX_BYTES
        counted["end"] += 1
        return goodbye(self)

    def counting_call(self, *arguments):
        counted["request"] += 1
        return call(self, *arguments)

    def counting_packet(packet):
        sizes["muxrpc"] += HEADER_BYTES
        counted["end"] += packet.is_end
        return encode(packet)

    def counting_end(self):
        sizes["muxrpc"] += HEADER_BYTES
        counted["end"] += 1
        return said_goodbye(self)

    said_goodbye = calls.Calls.goodbye
    wanted = scenario(
        layerings=("ssb",),
        topology={"generator": "line", "length": 3, "link": {"delay_ms": 5.0, "loss_percent": 2.0}},
        subscribers=("s1",),
        parameters={"ssb": {"connect": request.param}},
        settle_ms=20_000,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ebt, "take_output", counting_output)
        patch.setattr(Boxer, "box", counting_box)
        patch.setattr(Boxer, "goodbye", counting_goodbye)
        patch.setattr(calls.Calls, "call", counting_call)
        patch.setattr(calls.Calls, "goodbye", counting_end)
        patch.setattr(calls, "encode", counting_packet)
        result = simulate(wanted, "ssb")
    assert result.delivered("s1") == list(range(1, 21))
    path = tmp_path_factory.mktemp("swarm") / "capture.pcapng"
    path.write_bytes(result.capture)
    secrets = frozenset(secret for node in result.nodes.values() for secret in node.take_secrets())
    nodes = {wanted.network.address(node): node for node in wanted.network.nodes}
    return Swarm(rows_of(path), secrets, nodes, counted, sizes)


def analysed(rows, secrets):
    kept = []
    found = messages.read("ssb", lambda: iter(rows), secrets, lambda _, row: kept.append(row))
    return found, kept


def layer_bytes(found, where=lambda row: True):
    layers = Counter()
    for row in found.layers:
        if where(row):
            layers[row["layer"]] += row["bytes"]
    return layers


def test_packets_tell_what_peers_have_counted(swarm):
    found, kept = analysed(swarm.rows, swarm.secrets)

    def is_sender(row):
        return (row["node"], row["direction"]) == (swarm.nodes[row["src"]], "out")

    kinds = Counter(row["kind"] for row in kept if is_sender(row))
    handshakes = 4 * found.count
    assert kinds == swarm.counted + Counter(handshake=handshakes)
    assert kinds == Counter({kind: count for (_, kind), count in found.kinds.items()})
    layers = layer_bytes(found, is_sender)
    assert layers[RETRANSMITTED] > 0
    assert layers["handshake"] == found.count * (2 * HELLO_BYTES + AUTHENTICATE_BYTES + ACCEPT_BYTES)
    assert {name: layers[name] for name in swarm.sizes} == dict(swarm.sizes)
    assert not layers[ENCRYPTED] + layers[UNREAD]
    carried = sum(row.carried_bytes for row in swarm.rows if row.direction == "out")
    assert sum(layer_bytes(found, lambda row: row["direction"] == "out").values()) == carried


def test_without_keys_all_behind_the_handshakes_is_encrypted(swarm):
    readable, bare = (
        layer_bytes(analysed(swarm.rows, secrets)[0]) for secrets in (swarm.secrets, frozenset())
    )
    assert bare.keys() == {"handshake", ENCRYPTED, RETRANSMITTED}
    assert sum(bare.values()) == sum(readable.values())
    assert (bare["handshake"], bare[RETRANSMITTED]) == (readable["handshake"], readable[RETRANSMITTED])


def test_behind_a_gap_nothing_is_read_but_the_other_side_is(swarm):
    _, whole = analysed(swarm.rows, swarm.secrets)
    items = [row for row in whole if row["kind"] == ITEM]
    missing = next(row for row in items if row["seq"] == 10)
    sender = missing["src"], missing["dst_port"]
    number = next(row.tcp_seq for row in swarm.rows if row.frame == missing["frame"])

    def is_missing(row):
        return (row.src, row.dst_port, row.tcp_seq) == (*sender, number) and row.carried_bytes > 0

    rows = [row for row in swarm.rows if not is_missing(row)]
    assert len(rows) < len(swarm.rows)
    found, kept = analysed(rows, swarm.secrets)

    def told(rows, of_sender):
        names = ("kind", "seq", "src", "dst_port", "node", "interface", "direction")
        said = [row for row in rows if ((row["src"], row["dst_port"]) == sender) == of_sender]
        return Counter(tuple(row[name] for name in names) for row in said)

    assert told(kept, of_sender=False) == told(whole, of_sender=False)
    before, after = told(whole, of_sender=True), told(kept, of_sender=True)
    assert after < before
    newest = max(seq for kind, seq, *_ in after if kind == ITEM)
    assert newest < missing["seq"]
    assert {key for key in before if key[0] == ITEM and key[1] <= newest} <= after.keys()
    layers = layer_bytes(found)
    assert layers[UNREAD] > 0
    assert not layers[ENCRYPTED]
    assert sum(layers.values()) == sum(row.carried_bytes for row in rows)


def test_a_capture_that_begins_late_tells_no_messages(swarm):
    times = sorted(row.time for row in swarm.rows)
    rows = [row for row in swarm.rows if row.time > times[len(times) // 2]]
    assert not any(row.tcp_flags & SYN for row in rows)
    found, kept = analysed(rows, swarm.secrets)
    assert not kept
    assert layer_bytes(found).keys() <= {UNREAD, RETRANSMITTED}


def test_one_side_alone_is_read_if_it_is_the_one_that_called(swarm):
    found, kept = analysed([row for row in swarm.rows if row.dst_port == PORT], swarm.secrets)
    assert {row["kind"] for row in kept} >= {"handshake", "request", "note"}
    assert not layer_bytes(found)[ENCRYPTED]
    found, kept = analysed([row for row in swarm.rows if row.src_port == PORT], swarm.secrets)
    assert {row["kind"] for row in kept} == {"handshake", "sealed"}
    assert not layer_bytes(found)[PAYLOAD]
