"""Plain-poll: what is newer comes, once, verified, however the stream is cut; nothing else is believed."""

import itertools
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_poll.protocol import MAX_FRAME, Client, Frames, ProtocolError, Server, frame

from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import ForkedFeed, InvalidMessage, Message


def feed_of(count: int, seed: int = 1) -> list[Message]:
    return generate_feed(Random(seed), count, Identity.from_seed(bytes([seed]) * 32))


FEEDS = {messages[0].author: messages for messages in (feed_of(12, 1), feed_of(5, 2))}
A, B = FEEDS


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(at)]


@given(st.integers(0, 12), st.integers(0, 5), st.lists(st.integers(0, 1 << 20), max_size=20))
def test_what_is_newer_comes_whatever_the_stream_is_cut_into(has_a: int, has_b: int, cuts: list[int]) -> None:
    tips = {A: FEEDS[A][has_a - 1] if has_a else None, B: FEEDS[B][has_b - 1] if has_b else None}
    client, server = Client(tips), Server(FEEDS)
    answer = b"".join(server.receive(piece) for piece in pieces(client.requests(), cuts))
    got = [message for piece in pieces(answer, cuts) for message in client.receive(piece)]
    assert got == [*FEEDS[A][has_a:], *FEEDS[B][has_b:]]
    assert client.is_done


def test_a_feed_that_nobody_has_is_empty() -> None:
    client = Client({A: None})
    assert list(client.receive(Server({}).receive(client.requests()))) == []
    assert client.is_done


def test_only_what_comes_next_is_believed() -> None:
    stranger = feed_of(3, 3)
    for wrong in (FEEDS[A][1], FEEDS[B][0], stranger[0]):
        with pytest.raises(InvalidMessage):
            list(Client({A: None}).receive(frame(wrong.encoded)))
    with pytest.raises(InvalidMessage):
        list(Client({A: None}).receive(frame(FEEDS[A][0].encoded.replace(b"sha256", b"sha257", 1))))
    with pytest.raises(ProtocolError):
        list(Client({A: None}).receive(frame(b"") + frame(FEEDS[A][0].encoded)))


def test_another_branch_is_a_fork() -> None:
    author = Identity.from_seed(bytes([1]) * 32)
    tip = FEEDS[A][3]
    other = Message.create(author, FEEDS[A][2], {"type": "post", "text": "other"}, 1.0)
    after = Message.create(author, other, {"type": "post", "text": "next"}, 2.0)
    with pytest.raises(ForkedFeed):
        list(Client({A: tip}).receive(frame(after.encoded)))


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        json.dumps({"feed": A, "after": -1}).encode(),
        json.dumps({"feed": A, "after": True}).encode(),
        json.dumps({"feed": A, "after": 1.5}).encode(),
        json.dumps({"feed": "@x", "after": 1}).encode(),
        json.dumps({"feed": A, "after": 1, "more": 1}).encode(),
    ],
)
def test_a_request_that_is_none_is_refused(request_: bytes) -> None:
    with pytest.raises(ProtocolError):
        Server(FEEDS).receive(frame(request_))


def test_no_frame_is_longer_than_a_message_can_be() -> None:
    with pytest.raises(ProtocolError):
        list(Frames().receive((MAX_FRAME + 1).to_bytes(4)))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for receive in (Server(FEEDS).receive, lambda octets: list(Client({A: None}).receive(octets))):
        try:
            receive(data)
        except (ProtocolError, InvalidMessage, ForkedFeed):
            continue
