"""Handshake, boxes, packets and calls: whatever the stream is cut into, and whatever somebody does to it."""

import hmac
import itertools
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_box_seed_keypair, crypto_scalarmult

from base.key_log import from_lines, to_lines
from ssb.keys import Identity
from ssb.transport.address import InvalidAddress, Invite, PeerAddress, parse_address, parse_invite
from ssb.transport.box_stream import HEADER_BYTES, MAX_BODY, Boxer, BoxError, Unboxer
from ssb.transport.calls import Answered, Called, Calls, Finished
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake, HandshakeError, ServerHandshake
from ssb.transport.muxrpc import BodyType, Packet, PacketReader, ProtocolError, encode
from ssb.transport.secure_stream import ChannelError, PlainStream, SecureStream, StreamSecrets

ANN, BEN = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2))
KEY, NONCE = bytes(range(32)), bytes(24)
CUTS = st.lists(st.integers(0, 1 << 20), max_size=12)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(at)]


def sides(**changes: Any) -> tuple[ClientHandshake, ServerHandshake]:
    options = {"network": MAIN_NETWORK, "remote": BEN.public_key} | changes
    client = ClientHandshake(ANN, options["remote"], options["network"], b"c" * 32)
    accepts = options.get("accepts", lambda _: True)
    return client, ServerHandshake(BEN, MAIN_NETWORK, b"s" * 32, accepts)


def shake(client: ClientHandshake, server: ServerHandshake, cuts: list[int]) -> None:
    for _ in range(2):
        for sender, receiver in ((client, server), (server, client)):
            for piece in pieces(sender.take_output(), cuts):
                receiver.receive(piece)


# The handshake


@given(CUTS)
def test_both_sides_agree(cuts: list[int]) -> None:
    client, server = sides()
    shake(client, server, cuts)
    assert client.keys is not None
    assert server.keys is not None
    assert (client.keys.remote, server.keys.remote) == (BEN.public_key, ANN.public_key)
    assert client.keys.identifier == server.keys.identifier
    assert (client.keys.send_key, client.keys.send_nonce) == (
        server.keys.receive_key,
        server.keys.receive_nonce,
    )
    assert (server.keys.send_key, server.keys.send_nonce) == (
        client.keys.receive_key,
        client.keys.receive_nonce,
    )
    assert client.keys.send_key != client.keys.receive_key


def test_what_follows_the_handshake_belongs_to_the_stream() -> None:
    client, server = sides()
    server.receive(client.take_output())
    client.receive(server.take_output())
    server.receive(client.take_output() + b"more")
    assert server.rest == b"more"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"network": bytes(32)}, "another network"),
        ({"remote": ANN.public_key}, "calls another peer"),
        ({"accepts": lambda _: False}, "may not connect"),
    ],
)
def test_who_must_not_come_in_does_not(changes: dict[str, Any], reason: str) -> None:
    client, server = sides(**changes)
    with pytest.raises(HandshakeError, match=reason):
        shake(client, server, [])
    assert server.keys is None
    assert client.keys is None


@given(st.integers(0, 3), st.integers(0, 111), st.integers(1, 255))
def test_no_byte_of_it_can_be_changed(part: int, at: int, mask: int) -> None:
    client, server = sides()
    ends = (client, server, client, server)
    refused = []
    for number in range(4):
        sent = bytearray(ends[number].take_output())
        if number == part:
            sent[at % len(sent)] ^= mask
        try:
            ends[(number + 1) % 2].receive(bytes(sent))
        except HandshakeError:
            refused.append(number)
            break
    assert refused == [part]


@pytest.mark.parametrize("key", [bytes(32), bytes([1]) + bytes(31), b"\xff" * 32])
def test_a_key_of_low_order_is_refused(key: bytes) -> None:
    hello = hmac.digest(MAIN_NETWORK, key, "sha512")[:32] + key
    client, server = sides()
    for side in (client, server):
        with pytest.raises(HandshakeError):
            side.receive(hello + bytes(112))


def test_a_client_cannot_be_made_to_talk_to_itself() -> None:
    client, _ = sides()
    with pytest.raises(HandshakeError, match="own"):
        client.receive(client.take_output())


def test_a_recorded_proof_is_worth_nothing_later() -> None:
    client, server = sides()
    hello = client.take_output()
    server.receive(hello)
    client.receive(server.take_output())
    proof = client.take_output()
    later = ServerHandshake(BEN, MAIN_NETWORK, b"t" * 32)
    later.receive(hello)
    with pytest.raises(HandshakeError):
        later.receive(proof)


# Boxes


@given(st.lists(st.binary(min_size=1, max_size=10_000), max_size=5), CUTS)
def test_what_is_boxed_comes_out(parts: list[bytes], cuts: list[int]) -> None:
    boxer, unboxer = Boxer(KEY, NONCE), Unboxer(KEY, NONCE)
    sent = b"".join(boxer.box(part) for part in parts)
    assert len(sent) == sum(len(part) + HEADER_BYTES * -(-len(part) // MAX_BODY) for part in parts)
    assert b"".join(unboxer.receive(piece) for piece in pieces(sent + boxer.goodbye(), cuts)) == b"".join(
        parts
    )
    assert unboxer.has_ended


@given(st.integers(0, 1 << 20), st.integers(1, 255))
def test_no_byte_of_a_box_can_be_changed(at: int, mask: int) -> None:
    sent = bytearray(Boxer(KEY, NONCE).box(b"hello" * 100))
    sent[at % len(sent)] ^= mask
    with pytest.raises(BoxError):
        Unboxer(KEY, NONCE).receive(bytes(sent) + bytes(5000))


def test_boxes_are_not_repeated_swapped_or_left_out() -> None:
    boxer = Boxer(KEY, NONCE)
    first, second, third = (boxer.box(bytes([number]) * 50) for number in range(3))
    for wrong in (first + first, second + first, first + third):
        with pytest.raises(BoxError):
            Unboxer(KEY, NONCE).receive(wrong)


def test_nothing_follows_the_goodbye() -> None:
    boxer = Boxer(KEY, NONCE)
    with pytest.raises(BoxError, match="after the goodbye"):
        Unboxer(KEY, NONCE).receive(boxer.goodbye() + boxer.box(b"x"))


def test_nonces_wrap_around() -> None:
    last = b"\xff" * 24
    boxer, unboxer = Boxer(KEY, last), Unboxer(KEY, last)
    sent = b"".join(boxer.box(bytes([number])) for number in range(4))
    assert unboxer.receive(sent) == bytes(range(4))


# Both together


def test_a_stream_says_who_is_there_and_how_it_is_read() -> None:
    client, server = (SecureStream(side) for side in sides())
    server.receive(client.take_output())
    client.receive(server.take_output())
    opening = client.take_output()
    assert server.receive(opening) == b""
    answer = server.take_output()
    client.receive(answer)
    assert (client.remote, server.remote) == (BEN.ref, ANN.ref)
    client.send(b"one")
    client.send(b"two")
    boxes = client.take_output()
    assert len(boxes) == HEADER_BYTES + 6, "what is sent at once shares a box"
    assert server.receive(boxes) == b"onetwo"


def test_secrets_of_both_sides_are_the_same_and_read_the_stream() -> None:
    client, server = (SecureStream(side) for side in sides())
    server.receive(client.take_output())
    client.receive(server.take_output())
    server.receive(client.take_output())
    client.receive(server.take_output())
    ours, theirs = client.take_secrets(), server.take_secrets()
    assert set(ours) == set(theirs) == from_lines(to_lines(ours))
    client.send(b"secret")
    boxes = client.take_output()
    by_label = {each.label: StreamSecrets.of(each) for each in theirs}
    assert Unboxer(*by_label["SSB_CLIENT_BOX_STREAM"]).receive(boxes) == b"secret"
    assert client.take_secrets() == []


def test_a_plain_stream_has_the_same_interface() -> None:
    ann, ben = PlainStream(ANN.public_key), PlainStream(BEN.public_key)
    ben.receive(ann.take_output()[:10])
    assert ben.remote is None
    with pytest.raises(ChannelError):
        PlainStream(BEN.public_key).receive(b"HTTP")


# Packets


PACKETS = st.builds(
    Packet,
    st.integers(-(2**31), 2**31 - 1).filter(bool),
    st.binary(max_size=300),
    st.sampled_from(BodyType),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(PACKETS, max_size=8), CUTS)
def test_packets_are_read_as_they_were_written(packets: list[Packet], cuts: list[int]) -> None:
    reader = PacketReader()
    sent = b"".join(map(encode, packets)) + bytes(9)
    assert [packet for piece in pieces(sent, cuts) for packet in reader.receive(piece)] == packets
    assert reader.has_ended


@pytest.mark.parametrize(
    "wrong",
    [
        bytes.fromhex("0a 00500000 00000001"),  # a body of 5 MiB
        bytes.fromhex("1a 00000000 00000001"),  # an unknown flag
        bytes.fromhex("0b 00000000 00000001"),  # an unknown type of body
        bytes.fromhex("0a 00000001 00000000"),  # request 0
        bytes(10),  # more than the goodbye
    ],
)
def test_what_is_no_packet_is_refused(wrong: bytes) -> None:
    with pytest.raises(ProtocolError):
        PacketReader().receive(wrong + bytes(9))


# Calls


def pump(one: Calls, other: Calls) -> tuple[list[Any], list[Any]]:
    return other.receive(one.take_output()), one.receive(other.take_output())


def test_an_answer_ends_a_call() -> None:
    here, there = Calls(), Calls()
    call = here.call(["whoami"], [], "async")
    assert there.receive(here.take_output()) == [Called(-1, ("whoami",), [], "async")]
    there.answer(-1, {"id": "x"})
    assert here.receive(there.take_output()) == [Answered(call, b'{"id":"x"}', BodyType.JSON)]
    assert (here.open, there.open) == (0, 0)


def test_an_error_ends_a_call() -> None:
    here, there = Calls(), Calls()
    call = here.call(["what"], [], "async")
    there.receive(here.take_output())
    there.end(-1, "no such thing")
    assert here.receive(there.take_output()) == [Finished(call, "no such thing")]
    assert (here.open, there.open) == (0, 0)


def test_a_duplex_ends_when_both_sides_have_ended_it() -> None:
    here, there = Calls(), Calls()
    call = here.call(["ebt", "replicate"], [{"version": 3}], "duplex")
    there.receive(here.take_output())
    here.send(call, b"1")
    here.end(call)
    assert there.receive(here.take_output()) == [Answered(-1, b"1", BodyType.JSON), Finished(-1, "")]
    there.send(-1, b"2")
    assert (here.open, there.open) == (1, 1)
    there.end(-1)
    assert here.receive(there.take_output()) == [Answered(call, b"2", BodyType.JSON), Finished(call, "")]
    assert (here.open, there.open) == (0, 0)


def test_a_source_is_ended_by_either_side() -> None:
    for first in ("there", "here"):
        here, there = Calls(), Calls()
        call = here.call(["createHistoryStream"], [], "source")
        there.receive(here.take_output())
        if first == "there":
            there.end(-1)
            here.receive(there.take_output())
            there.receive(here.take_output())
        else:
            here.end(call)
            assert there.receive(here.take_output()) == [Finished(-1, "")]
            there.end(-1)
            here.receive(there.take_output())
        assert (here.open, there.open) == (0, 0), first


def test_too_many_calls_are_answered_with_an_error() -> None:
    here, there = Calls(), Calls(max_open=3)
    calls = [here.call(["x"], [], "source") for _ in range(5)]
    assert len(there.receive(here.take_output())) == 3
    assert here.receive(there.take_output()) == [
        Finished(call, "too many calls at once") for call in calls[3:]
    ]


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{", b'{"name": "x", "args": 3}', b'{"name": []}', b'{"name": [1]}', b'{"args": []}',
     b'{"name": ["x"], "type": "what"}', b'{"name": ["x"], "type": []}'],
)  # fmt: skip
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        Calls().receive(encode(Packet(1, body)))


@given(st.lists(PACKETS, max_size=20), st.integers(0, 1 << 30))
def test_strange_packets_do_no_more_than_raise(packets: list[Packet], seed: int) -> None:
    random = Random(seed)
    calls = Calls(max_open=4)
    for form in ("async", "source", "duplex"):
        calls.call(["x"], [], form)
    for packet in packets:
        number = random.choice([packet.number, random.randint(1, 4), -random.randint(1, 4)])
        try:
            events = calls.receive(encode(packet._replace(number=number)))
        except ProtocolError:
            return
        for event in events:
            if isinstance(event, Called):
                calls.end(event.call)
        assert calls.open <= 3 + 4


# Addresses


@given(st.integers(1, 65535), st.binary(min_size=32, max_size=32))
def test_addresses_and_invites_are_read_as_they_were_written(port: int, seed: bytes) -> None:
    address = PeerAddress("example.org", port, ANN.ref)
    assert parse_address(str(address)) == address
    assert parse_address(f"ws:example.org:1~shs:x;{address}") == address
    assert parse_invite(str(Invite(address, seed))) == Invite(address, seed)


NO_KEY = "net:x:1~shs:AA=="
NO_PORT = f"net:x:0~shs:{'A' * 43}="


@pytest.mark.parametrize("text", ["", "net:x~shs:y", "net:x:1", NO_PORT, "x:1:@y~z", "a:b", "~", NO_KEY])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidAddress):
        parse_address(text)
    with pytest.raises(InvalidAddress):
        parse_invite(text)


def test_keys_follow_from_what_the_specification_says() -> None:
    """The keys of the box stream, computed anew from the text of the Protocol Guide."""
    client, server = sides()
    shake(client, server, [])
    a_public, a_secret = crypto_box_seed_keypair(b"c" * 32)
    b_public, b_secret = crypto_box_seed_keypair(b"s" * 32)
    shared = crypto_scalarmult(a_secret, b_public)
    assert shared == crypto_scalarmult(b_secret, a_public)
    secrets = MAIN_NETWORK + shared + BEN.agree(a_public) + ANN.agree(b_public)
    inner = sha256(sha256(secrets).digest()).digest()
    assert client.keys is not None
    assert client.keys.send_key == sha256(inner + BEN.public_key).digest()
    assert client.keys.receive_key == sha256(inner + ANN.public_key).digest()
    assert client.keys.send_nonce == hmac.digest(MAIN_NETWORK, b_public, "sha512")[:24]
    assert client.keys.receive_nonce == hmac.digest(MAIN_NETWORK, a_public, "sha512")[:24]
