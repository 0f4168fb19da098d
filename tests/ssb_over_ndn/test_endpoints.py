"""The publisher and the subscriptions by themselves: hashes, metadata, hostile packets, wrong parameters."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_network import feed_of

from base.units import MS, SECOND
from forwarder.wire.feed import item_name, ssb_content
from forwarder.wire.lp import LpPacket, make_feed_state, make_lp, open_data, open_interest, parse_lp
from forwarder.wire.name import from_uri
from forwarder.wire.packet import Interest, make_data, make_interest, parse_data, parse_interest
from forwarder.wire.persistent import make_persistent
from ssb.application import Plan
from ssb.message import Message
from ssb_over_ndn.following.subscriber import Subscriber
from ssb_over_ndn.following.subscriptions import Subscription
from ssb_over_ndn.layerings.notify import Notifier
from ssb_over_ndn.layerings.persistent import Pusher
from ssb_over_ndn.naming import (
    hash_name,
    log_name,
    message_packet,
    metadata_name,
    metadata_packet,
    notify_name,
    read_metadata,
    read_notify_name,
)
from ssb_over_ndn.serving.publisher import Publisher
from ssb_over_ndn.sync.state_vector import FeedMember
from testbed.layerings.kinds.ndn import NDN_LAYERINGS as LAYERINGS

FEED = feed_of(5)
NAME = log_name(FEED[0].author)


def publisher(layering: str = "poll", retain: int | None = None) -> Publisher:
    kind = LAYERINGS[layering]
    values = kind.parameters.model_validate({}).model_dump()
    made = kind.publisher(FEED, range(5), stop=100 * SECOND, rng=Random(1), retain=retain, **values)
    assert isinstance(made, Publisher)
    made.wake(10)
    made.take_outputs()
    return made


def subscription(layering: str) -> Subscription:
    kind = LAYERINGS[layering]
    made = kind.subscription(NAME, rng=Random(1), **kind.parameters.model_validate({}).model_dump())
    made.start(0)
    made.take_outputs()
    return made


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


def test_only_what_is_retained_is_served() -> None:
    server = publisher(retain=2)
    for message in FEED:
        server.receive(make_interest(item_name(NAME, message.sequence), nonce=1), 20)
        server.receive(make_interest(hash_name(message.id), nonce=1), 20)
    served = [parse_data(packet).name for packet in server.take_outputs()]
    assert set(served) == {name(n) for n in (4, 5) for name in (by_number, by_hash)}
    assert len(served) == 4


@st.composite
def any_bytes(draw: st.DrawFn) -> bytes:
    """Bytes, and packets that endpoints know, changed here and there."""
    member = FeedMember(NAME, rng=Random(1), periodic_ms=1000, suppression_ms=100)
    member.published(7, 3, 0)
    kinds = [
        b"",
        message_packet(FEED[0]),
        metadata_packet(NAME, 4),
        make_interest(notify_name(NAME, 2), nonce=1),
        make_interest(item_name(NAME, 2), nonce=1, send_credit=3),
        make_lp(make_interest(item_name(NAME, 1), nonce=1), nack_reason=150),
        make_persistent(make_interest(NAME, nonce=1, can_be_prefix=True)),
        make_feed_state(NAME, tip=3, limit=9),
        *member.outputs,
    ]
    packet = bytearray(draw(st.sampled_from(kinds)))
    for _ in range(draw(st.integers(0, 3)) if packet else 0):
        at = draw(st.integers(0, len(packet) - 1))
        packet[at] = draw(st.integers(0, 255))
    return bytes(packet) + draw(st.just(b"") | st.binary(max_size=9))


def by_number(seq: int) -> bytes:
    return item_name(NAME, seq)


def by_hash(seq: int) -> bytes:
    return hash_name(FEED[seq - 1].id)


def test_an_interest_for_a_future_item_is_answered_when_it_comes_unless_it_has_expired() -> None:
    server = Publisher(FEED, [0, 10 * SECOND, 20 * SECOND, 30 * SECOND, 40 * SECOND])
    server.wake(0)
    server.receive(make_interest(item_name(NAME, 2), nonce=1, lifetime_ms=15_000), 0)
    server.receive(make_interest(item_name(NAME, 3), nonce=2, lifetime_ms=15_000), 0)
    server.wake(10 * SECOND)
    assert server.take_outputs() == [message_packet(FEED[1])]
    server.wake(20 * SECOND)
    assert server.take_outputs() == []


@pytest.mark.parametrize("published", [0, 1, 3])
def test_a_publisher_tells_what_is_newest(published: int) -> None:
    server = Publisher(FEED, [1 + n * SECOND for n in range(5)])
    for _ in range(published):
        server.wake(server.next_deadline() or 0)
    server.receive(make_interest(metadata_name(NAME), nonce=1, can_be_prefix=True, must_be_fresh=True), 2)
    (packet,) = server.take_outputs()
    data = parse_data(packet)
    assert data.name == metadata_name(NAME) + from_uri(f"/v={published}/seg=0")
    assert data.freshness_ms == 10
    assert read_metadata(NAME, data) == published


@given(st.binary(max_size=60))
def test_what_is_no_metadata_tells_nothing(content: bytes) -> None:
    data = parse_data(make_data(metadata_name(NAME), content))
    assert read_metadata(NAME, data) is None
    assert read_metadata(from_uri("/other"), parse_data(metadata_packet(NAME, 3))) is None


@given(st.integers(1, (1 << 64) - 1))
def test_a_notification_tells_a_number(seq: int) -> None:
    assert read_notify_name(NAME, notify_name(NAME, seq)) == seq


@given(st.binary(max_size=20))
def test_other_names_tell_none(tail: bytes) -> None:
    name = notify_name(NAME, 1)[:-3] + tail
    seq = read_notify_name(NAME, name)
    assert seq is None or notify_name(NAME, seq) == name
    assert read_notify_name(NAME, item_name(NAME, 1)) is None


@pytest.mark.parametrize("layering", LAYERINGS)
@given(packet=any_bytes())
def test_no_bytes_hurt_an_endpoint(layering: str, packet: bytes) -> None:
    subscribed = subscription(layering)
    subscribed.receive(LpPacket(packet), 20)
    follower = Subscriber({NAME: subscription(layering)}, Plan(0, 100))
    follower.wake(0)
    server = publisher(layering)
    for endpoint in (server, follower):
        endpoint.receive(packet, 20)
    for endpoint in (server, follower, subscribed):
        endpoint.take_outputs()
        endpoint.next_deadline()


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_forged_item_is_not_delivered_and_the_true_one_still_is(layering: str) -> None:
    subscribed = subscription(layering)
    subscribed.receive(parse_lp(metadata_packet(NAME, 1)), 10)
    text = FEED[0].encoded.replace(b'"type": "post"', b'"type": "past"')
    subscribed.receive(parse_lp(make_data(item_name(NAME, 1), ssb_content(text))), 20)
    subscribed.receive(parse_lp(make_data(item_name(NAME, 1), ssb_content(feed_of(1, 8)[0].encoded))), 20)
    subscribed.receive(parse_lp(make_data(item_name(NAME, 1), ssb_content(FEED[1].encoded))), 20)
    assert subscribed.take_items() == []
    subscribed.receive(parse_lp(message_packet(FEED[0])), 30)
    assert [item.seq for item in subscribed.take_items()] == [1]


def interests_of(notifier: Notifier) -> list[Interest]:
    return [parse_interest(packet) for packet in notifier.take_outputs()]


def test_a_notification_is_repeated_until_it_is_answered_and_then_as_a_heartbeat() -> None:
    notifier = Notifier(NAME, rng=Random(1), lifetime_ms=1000, heartbeat_ms=1000)
    item = parse_data(message_packet(FEED[0]))
    notifier.published(1, item, 0)
    answer = parse_data(make_data(notify_name(NAME, 1), b""))
    times = [0]
    for _ in range(3):
        assert [interest.name for interest in interests_of(notifier)] == [notify_name(NAME, 1)]
        times.append(notifier.next_deadline() or 0)
        notifier.wake(times[-1])
    assert [time // MS for time in times] == [0, 250, 750, 1750]
    notifier.on_data(parse_data(make_data(notify_name(NAME, 2), b"")), times[-1])
    beats = []
    now = times[-1]
    for _ in range(6):
        notifier.on_data(answer, now)
        beats.append(((notifier.next_deadline() or 0) - now) // MS)
        now = notifier.next_deadline() or 0
        notifier.wake(now)
    assert beats == [1000, 2000, 4000, 8000, 8000, 8000]
    notifier.take_outputs()
    notifier.published(2, item, now)
    (interest,) = interests_of(notifier)
    assert interest.name == notify_name(NAME, 2)
    assert interest.must_be_fresh


def test_a_subscriber_answers_notifications_of_its_feed_only() -> None:
    subscribed = subscription("notify")
    subscribed.receive(parse_lp(make_interest(notify_name(NAME, 2), nonce=1, must_be_fresh=True)), 20)
    outputs = subscribed.take_outputs()
    (answer,) = [opened[0] for packet in outputs if (opened := open_data(packet))]
    assert (answer.name, answer.content, answer.freshness_ms) == (notify_name(NAME, 2), b"", 0)
    asked = [interest.name for packet in outputs if (interest := open_interest(packet))]
    assert asked == [item_name(NAME, 1), item_name(NAME, 2)]
    subscribed.receive(parse_lp(make_interest(notify_name(from_uri("/other"), 3), nonce=1)), 20)
    assert subscribed.take_outputs() == []


def test_items_are_pushed_while_a_persistent_interest_lasts() -> None:
    pusher = Pusher(NAME)
    item = parse_data(message_packet(FEED[0]))
    plain = make_interest(NAME, nonce=1, can_be_prefix=True, lifetime_ms=100)
    pusher.on_interest(parse_interest(plain), 0)
    pusher.published(1, item, 1)
    assert pusher.take_outputs() == []
    pusher.on_interest(parse_interest(make_persistent(plain)), 0)
    pusher.published(1, item, 100 * MS - 1)
    assert pusher.take_outputs() == [item.wire]
    pusher.published(1, item, 100 * MS)
    assert pusher.take_outputs() == []


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="one each"):
        Publisher(FEED, [1])
    with pytest.raises(ValueError, match="nothing to serve"):
        Publisher(FEED, range(5), retain=0)
    with pytest.raises(ValueError, match="shortest_ms 9 is above longest_ms 8"):
        LAYERINGS["pull"].parameters.model_validate({"shortest_ms": 9, "longest_ms": 8})
    with pytest.raises(ValueError, match="credit of at least 1"):
        LAYERINGS["lli"].subscription(NAME, rng=Random(1), credit=-1, lifetime_ms=1)
