"""The publisher and the subscribers by themselves: hashes, hostile packets, wrong parameters."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulation import feed_of

from forwarder.host import Application
from forwarder.wire.feed import item_name, ssb_content
from forwarder.wire.lp import open_interest
from forwarder.wire.packet import make_data, make_interest, parse_data
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.lli import LliSubscriber
from ssb_over_ndn.naming import hash_name, log_name, message_packet
from ssb_over_ndn.poll import PollSubscriber
from ssb_over_ndn.publisher import Publisher

FEED = feed_of(5)
NAME = log_name(FEED[0].author)
S = 1_000_000_000


def publisher() -> Publisher:
    published = Publisher(FEED, range(5))
    published.wake(10)
    published.take_outputs()
    return published


def subscribers() -> list[Application]:
    both: list[Application] = [
        LliSubscriber(NAME, start=0, stop=100 * S, rng=Random(1), credit=8, lifetime_ms=60_000),
        PollSubscriber(NAME, start=0, stop=100 * S, rng=Random(1), window=8, lifetime_ms=1000),
    ]
    for subscriber in both:
        subscriber.wake(0)
        assert subscriber.take_outputs()
    return both


@pytest.mark.parametrize("message", FEED)
def test_a_message_is_served_by_its_hash(message: Message) -> None:
    server = publisher()
    server.receive(make_interest(hash_name(message.id), nonce=1), 20)
    (packet,) = server.take_outputs()
    data = parse_data(packet)
    assert data.name == hash_name(message.id)
    assert data.content == ssb_content(message.encoded)


def test_an_item_is_served_by_its_number_and_an_unknown_one_is_not() -> None:
    server = publisher()
    server.receive(make_interest(item_name(NAME, 3), nonce=1), 20)
    assert server.take_outputs() == [message_packet(FEED[2])]
    server.receive(make_interest(item_name(NAME, 6), nonce=2), 20)
    server.receive(make_interest(hash_name("%" + "A" * 43 + "=.sha256"), nonce=3), 20)
    assert server.take_outputs() == []


def test_an_interest_for_a_future_item_is_answered_when_it_comes_unless_it_has_expired() -> None:
    server = Publisher(FEED, [0, 10 * S, 20 * S, 30 * S, 40 * S])
    server.wake(0)
    server.receive(make_interest(item_name(NAME, 2), nonce=1, lifetime_ms=15_000), 0)
    server.receive(make_interest(item_name(NAME, 3), nonce=2, lifetime_ms=15_000), 0)
    server.wake(10 * S)
    assert server.take_outputs() == [message_packet(FEED[1])]
    server.wake(20 * S)
    assert server.take_outputs() == []


@given(st.binary(max_size=200))
def test_no_bytes_hurt_an_endpoint(junk: bytes) -> None:
    for endpoint in (publisher(), *subscribers()):
        endpoint.receive(junk, 20)
        assert endpoint.take_outputs() == []


@pytest.mark.parametrize("index", [0, 1])
def test_a_forged_item_is_not_delivered_and_the_true_one_still_is(index: int) -> None:
    subscriber = subscribers()[index]
    assert isinstance(subscriber, LliSubscriber | PollSubscriber)
    text = FEED[0].encoded.replace(b'"type": "post"', b'"type": "past"')
    subscriber.receive(make_data(item_name(NAME, 1), ssb_content(text)), 20)
    other = generate_feed(Random(8), 1)[0]
    subscriber.receive(make_data(item_name(NAME, 1), ssb_content(other.encoded)), 20)
    subscriber.receive(make_data(item_name(NAME, 1), ssb_content(FEED[1].encoded)), 20)
    assert subscriber.take_events() == []
    subscriber.receive(message_packet(FEED[0]), 30)
    assert [(e.time, e.seq) for e in subscriber.take_events()] == [(30, 1)]


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="credit of at least 1"):
        LliSubscriber(NAME, start=0, stop=1, rng=Random(1), credit=0, lifetime_ms=1)
    with pytest.raises(ValueError, match="window of at least 1"):
        PollSubscriber(NAME, start=0, stop=1, rng=Random(1), window=0, lifetime_ms=1)
    with pytest.raises(ValueError, match="one each"):
        Publisher(FEED, [1])


def test_a_forked_feed_does_not_hang_a_poller() -> None:
    writer = Identity.from_seed(b"f" * 32)
    first = Message.create(writer, None, {"type": "post", "text": "1"}, 1)
    other = Message.create(writer, None, {"type": "post", "text": "one"}, 1)
    name = log_name(first.author)
    second = Message.create(writer, other, {"type": "post", "text": "2"}, 2)
    subscriber = PollSubscriber(name, start=0, stop=100 * S, rng=Random(1), window=8, lifetime_ms=1000)
    subscriber.wake(0)
    subscriber.take_outputs()
    subscriber.receive(message_packet(first), 10)
    subscriber.receive(message_packet(second), 20)
    asked = [interest.name for packet in subscriber.take_outputs() if (interest := open_interest(packet))]
    assert item_name(name, 2) not in asked
    assert [event.seq for event in subscriber.take_events()] == [1]
