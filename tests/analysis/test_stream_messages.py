"""Messages of a protocol over TCP, wherever they are seen: every byte is in one layer, and each message that
was there is told, whatever was lost, repeated, or out of order on the way."""

import json
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_poll.decoder import DECLARATION
from plain_poll.protocol import LENGTH, PORT, frame

from analysis.decode import messages
from analysis.decode.connections import Row
from analysis.decode.messages import RETRANSMITTED
from analysis.decode.protocols.protocol import ITEM, PAYLOAD, UNREAD
from analysis.decode.protocols.registry import PROTOCOLS
from captures.layers.streams import ACK, FIN, RST, SYN
from ssb.keys import Identity
from ssb.message import Message

pytestmark = pytest.mark.usefixtures("plain_poll")

WRITER = Identity.from_seed(bytes(32))
FEED = []
for number in range(1, 6):
    FEED.append(
        Message.create(WRITER, FEED[-1] if FEED else None, {"type": "post", "text": "x" * 300 * number}, 1.0)
    )
REQUEST = frame(json.dumps({"feed": FEED[0].author, "after": 0}).encode())
CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
HEADERS = 54
PLACES = (("c", "c-eth0", "out"), ("r", "r-eth0", "in"), ("r", "r-eth1", "out"), ("s", "s-eth0", "in"))
"""Where what the client sends is seen; the server's goes the other way round."""


class Sent(NamedTuple):
    """The bytes of one direction: what each is for, and the messages as (kind, first byte, last byte + 1)."""

    data: bytes
    layers: list[str]
    messages: list[tuple[str, int, int]]


def stream(parts):
    """Return what is sent, of (kind, (layer, bytes)...)."""
    data, layers, told = b"", [], []
    for kind, *pieces in parts:
        begin = len(data)
        for layer, octets in pieces:
            data += octets
            layers += [layer] * len(octets)
        told.append((kind, begin, len(data)))
    return Sent(data, layers, told)


def framed(kind, layer, octets):
    whole = frame(octets)
    return kind, ("length", whole[:LENGTH]), (layer, octets)


def conversation(asked, items):
    requests = stream([framed("request", "request", REQUEST[LENGTH:])] * asked)
    answers = [framed(ITEM, PAYLOAD, FEED[each].encoded) for each in items]
    return {True: requests, False: stream([*answers, ("end", ("length", frame(b"")))])}


class Wire:
    """Writes the rows of a connection as frames pass."""

    def __init__(self, first):
        self.first = first  # sequence number before the first byte, by direction
        self.rows = []

    def pass_on(self, from_client, flags, begin, octets, reach, time):
        """Let a segment be seen at the first `reach` places on its way."""
        ends = [(CLIENT, 40000), (SERVER, PORT)]
        (src, src_port), (dst, dst_port) = ends if from_client else ends[::-1]
        way = {"in": "out", "out": "in"}
        places = PLACES if from_client else [(n, i, way[d]) for n, i, d in reversed(PLACES)]
        sequence = self.first[from_client] + begin & 0xFFFFFFFF
        for delay, (node, interface, direction) in enumerate(places[:reach]):
            self.rows.append(
                Row(
                    layering="x",
                    interface=interface,
                    node=node,
                    direction=direction,
                    frame=0,
                    time=time + delay,
                    src=src,
                    dst=dst,
                    src_port=src_port,
                    dst_port=dst_port,
                    vlan=None,
                    protocol="plain-poll",
                    capture="x",
                    frame_bytes=HEADERS + len(octets),
                    carried_bytes=len(octets),
                    tcp_seq=sequence,
                    tcp_ack=self.first[not from_client] + 1 & 0xFFFFFFFF,
                    tcp_flags=flags,
                    payload=octets,
                )
            )

    def in_order(self):
        ordered = sorted(self.rows, key=lambda row: row.time)
        return [row._replace(frame=number) for number, row in enumerate(ordered, 1)]


def read(rows, secrets=frozenset()):
    kept = []
    found = messages.read("x", lambda: iter(rows), secrets, lambda name, row: kept.append((name, row)))
    return found, kept


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_byte_is_in_a_layer_and_every_message_that_was_there_is_told(data):
    said = conversation(
        data.draw(st.integers(1, 3)), data.draw(st.lists(st.integers(0, len(FEED) - 1), max_size=4))
    )
    wire = Wire({True: data.draw(st.integers(0, 2**32 - 1)), False: 2**32 - 1000})
    wire.pass_on(True, SYN, 0, b"", 4, 0)
    wire.pass_on(False, SYN | ACK, 0, b"", 4, 10)
    wire.pass_on(True, ACK, 1, b"", 4, 20)
    for way, (time, sent) in zip((True, False), ((100, said[True]), (200_000, said[False])), strict=True):
        size = len(sent.data)
        cuts = data.draw(st.lists(st.integers(1, size), max_size=8))
        segments = list(pairwise(sorted({0, *cuts, size})))
        # What is sent again may be cut otherwise.
        again = [
            (min(pair), max(pair))
            for pair in data.draw(st.lists(st.tuples(*[st.integers(0, size)] * 2), max_size=5))
            if pair[0] != pair[1]
        ]
        order = data.draw(st.permutations(segments + again))
        lost = data.draw(st.lists(st.integers(1, 4), min_size=len(order), max_size=len(order)))
        # Whatever was lost is sent once more, in the end, but perhaps for what a broken link swallows.
        reach = data.draw(st.integers(1, 4))
        for place, ((begin, end), far) in enumerate(
            [*zip(order, lost, strict=True), *((each, reach) for each in segments)]
        ):
            wire.pass_on(way, ACK, begin + 1, sent.data[begin:end], far, time + 100 * place)
    rows = wire.in_order()
    found, kept = read(rows)
    # The model: for each place the bytes that it has seen, one by one.
    layers, complete = Counter(), Counter()
    for way, sent in said.items():
        for node, interface, _ in PLACES:
            here = [
                row
                for row in rows
                if (row.src == CLIENT) == way and (row.node, row.interface) == (node, interface)
            ]
            direction = here[0].direction if here else None
            seen = set()
            for row in here:
                begin = row.tcp_seq - wire.first[way] - 1 & 0xFFFFFFFF
                for byte in range(begin, begin + row.carried_bytes):
                    layers[interface, direction, RETRANSMITTED if byte in seen else sent.layers[byte]] += 1
                    seen.add(byte)
            for kind, begin, end in sent.messages:
                complete[interface, direction, kind] += seen.issuperset(range(begin, end))
    got = Counter()
    for row in found.layers:
        got[row["interface"], row["direction"], row["layer"]] += row["bytes"]
    assert got == layers
    told = Counter((row["interface"], row["direction"], row["kind"]) for _, row in kept)
    assert told == +complete
    assert sum(got.values()) == sum(row.carried_bytes for row in rows)
    items = [row for _, row in kept if row["kind"] == ITEM]
    assert all(row["stream_bytes"] == LENGTH + row["payload_bytes"] for row in items)
    assert {row["seq"] for row in items} <= {each.sequence for each in FEED}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 3000), max_size=6), st.permutations(range(4)))
def test_headers_of_frames_are_shared_out_among_messages_without_remainder(cuts, order):
    sent = conversation(1, [0, 1, 2])[False]
    wire = Wire({True: 5, False: 9})
    bounds = sorted({0, *(cut % len(sent.data) for cut in cuts), len(sent.data)})
    segments = list(pairwise(bounds))
    for place, number in enumerate(sorted(range(len(segments)), key=lambda each: order[each % 4])):
        begin, end = segments[number]
        wire.pass_on(False, ACK, begin + 1, sent.data[begin:end], 1, 100 * place)
    wire.pass_on(False, SYN | ACK, 0, b"", 1, -10)
    _, kept = read(wire.in_order())
    assert sum(row["frame_bytes"] for _, row in kept) == len(sent.data) + HEADERS * len(segments)


def test_what_is_no_message_is_unread_and_what_came_before_is_told():
    sent = conversation(1, [0])[False].data
    wire = Wire({True: 5, False: 9})
    wire.pass_on(True, SYN, 0, b"", 4, 0)
    wire.pass_on(False, SYN | ACK, 0, b"", 4, 1)
    wire.pass_on(False, ACK, 1, sent + b"\xff" * 100, 4, 10)
    wire.pass_on(False, ACK, 1 + len(sent) + 100, b"\0" * 7, 4, 20)
    wire.pass_on(True, ACK, 1, frame(b"no request") + REQUEST, 4, 30)
    found, kept = read(wire.in_order())
    assert Counter(row["kind"] for _, row in kept) == {ITEM: 4, "end": 4}
    unread = Counter()
    for row in found.layers:
        if row["layer"] == UNREAD:
            unread[row["src"]] += row["bytes"]
    assert unread == {SERVER: 4 * 107, CLIENT: 4 * len(frame(b"no request") + REQUEST)}


def test_a_capture_that_begins_in_the_middle_is_read_if_a_message_begins_there():
    sent = conversation(1, [0, 1])[False]
    for begin, told in ((sent.messages[1][1], 2), (sent.messages[1][1] + 1, 0)):
        wire = Wire({True: 5, False: 9})
        wire.pass_on(False, ACK, begin + 1, sent.data[begin:], 2, 10)
        found, kept = read(wire.in_order())
        assert len(kept) == 2 * told
        assert {row["ended"] for row in found.connections} == {"open"}
        assert {(row["src"], row["opened"]) for row in found.connections} == {(CLIENT, None)}


# --- connections ---


def test_places_that_began_to_see_a_connection_at_different_times():
    sent = conversation(1, [0, 1, 2])[False]
    _, second, third, _ = (begin for _, begin, _ in sent.messages)
    rows = []
    for begin, node in ((second, "c"), (third, "r"), (third + 1, "s")):
        wire = Wire({True: 5, False: 2**32 - 700})
        wire.pass_on(False, ACK, begin + 1, sent.data[begin:], 4, 10)
        rows += [row for row in wire.rows if row.node == node]
    found, kept = read(sorted(rows, key=lambda row: row.time))
    assert Counter(row["node"] for _, row in kept) == {"c": 3, "r": 2 * 2, "s": 1}
    layers = Counter()
    for row in found.layers:
        layers[row["layer"]] += row["bytes"]
    assert sum(layers.values()) == sum(row.carried_bytes for row in rows)
    assert layers[UNREAD] == 0


def test_each_end_tells_how_a_connection_went():
    wire = Wire({True: 5, False: 9})
    wire.pass_on(True, SYN, 0, b"", 2, 0)  # lost
    wire.pass_on(True, SYN, 0, b"", 4, 1000)
    wire.pass_on(False, SYN | ACK, 0, b"", 4, 1010)
    wire.pass_on(True, ACK, 1, REQUEST, 4, 1020)
    wire.pass_on(True, ACK, 1, REQUEST, 4, 1025)
    wire.pass_on(True, FIN | ACK, 1 + len(REQUEST), b"", 4, 1030)
    wire.pass_on(False, FIN | ACK, 1, b"", 4, 1040)
    found, _ = read(wire.in_order())
    client, server = sorted(found.connections, key=lambda row: row["node"])
    assert client == {
        "layering": "x",
        "node": "c",
        "protocol": "plain-poll",
        "direction": "out",
        "src": CLIENT,
        "dst": SERVER,
        "src_port": 40000,
        "dst_port": PORT,
        "opened": 0,
        "closed": 1043,
        "ended": "fin",
        "handshake_ns": 1013,
        "sent_bytes": len(REQUEST),
        "received_bytes": 0,
        "sent_segments": 5,
        "received_segments": 2,
        "sent_again": 2,  # a SYN, and the request
        "received_again": 0,
    }
    assert (server["node"], server["direction"], server["opened"], server["handshake_ns"]) == (
        "s",
        "in",
        1003,
        1023 - 1010,
    )
    assert (server["received_segments"], server["received_again"], server["sent_segments"]) == (4, 1, 2)


def test_ports_that_are_used_again_are_another_connection_and_a_late_syn_is_none():
    rows = []
    for number, time in ((5, 0), (70000, 10_000)):
        wire = Wire({True: number, False: number + 9})
        wire.pass_on(True, SYN, 0, b"", 4, time)
        wire.pass_on(False, SYN | ACK, 0, b"", 4, time + 10)
        wire.pass_on(True, ACK, 1, REQUEST, 4, time + 20)
        if time:
            Wire.pass_on(late := Wire({True: 5, False: 14}), True, SYN, 0, b"", 4, time + 30)
            rows += late.rows
            wire.pass_on(True, RST, 1 + len(REQUEST), b"", 4, time + 40)
        else:
            wire.pass_on(False, FIN | ACK, 1, b"", 4, time + 40)
        rows += wire.rows
    found, kept = read(sorted(rows, key=lambda row: row.time))
    at_client = [row for row in found.connections if row["node"] == "c"]
    assert [(row["opened"], row["ended"], row["sent_bytes"]) for row in at_client] == [
        (0, "open", len(REQUEST)),
        (10_000, "rst", len(REQUEST)),
    ]
    assert len(kept) == 2 * 4


def test_where_two_ways_are_taken_each_place_tells_what_it_sees():
    """A router that sees answers alone tells their layers, as requests were seen elsewhere."""
    said = conversation(1, [0])
    wire = Wire({True: 5, False: 9})
    wire.pass_on(True, SYN, 0, b"", 4, 0)
    wire.pass_on(False, SYN | ACK, 0, b"", 4, 1)
    wire.pass_on(True, ACK, 1, said[True].data, 4, 10)
    wire.pass_on(False, ACK, 1, said[False].data, 4, 20)
    rows = [row for row in wire.in_order() if row.node != "r" or row.src == SERVER]
    found, kept = read(rows)
    assert {row["layer"] for row in found.layers if row["node"] == "r"} == {"length", PAYLOAD}
    assert Counter(row["node"] for _, row in kept) == {"c": 3, "s": 3, "r": 4}


def test_the_declaration_names_all_that_its_framer_yields():
    wire = Wire({True: 5, False: 9})
    said = conversation(1, [0])
    wire.pass_on(True, ACK, 1, said[True].data, 1, 10)
    wire.pass_on(False, ACK, 1, said[False].data, 4, 20)
    found, kept = read(wire.in_order())
    schema = messages.schema(DECLARATION)
    assert {row["kind"] for _, row in kept} == DECLARATION.kinds.keys()
    assert all(row.keys() <= set(schema.names) for _, row in kept)
    assert {row["layer"] for row in found.layers} == {PAYLOAD, *(layer.key for layer in DECLARATION.layers)}
    assert DECLARATION.control < DECLARATION.kinds.keys()
    assert PROTOCOLS["plain-poll"] is DECLARATION
