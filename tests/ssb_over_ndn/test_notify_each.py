"""An Interest to each consumer: registration, trails of state, repetition, and whole runs."""

from random import Random

import pytest
from simulation import scenario, simulate
from small_network import feed_of

from base.units import SECOND
from forwarder.wire.packet import Interest, make_data, make_interest, parse_data, parse_interest
from ssb.message import Message
from ssb_over_ndn.layerings.notify_each import EachNotifier, EachScout, consumer_component
from ssb_over_ndn.naming import (
    CONSUMERS,
    log_name,
    message_packet,
    metadata_name,
    notify_name,
    read_metadata,
)

MESSAGES: tuple[Message, ...] = feed_of(9)
FEED = log_name(MESSAGES[0].author)
ANN, BEN = consumer_component("ann"), consumer_component("ben")


def notifier() -> EachNotifier:
    return EachNotifier(FEED, rng=Random(1), lifetime_ms=1000, renewal_ms=5000)


def question(consumer: bytes) -> Interest:
    return parse_interest(make_interest(metadata_name(FEED) + consumer, nonce=1, can_be_prefix=True))


def publish(one: EachNotifier, seq: int, now: int) -> list[Interest]:
    one.published(seq, parse_data(message_packet(MESSAGES[seq - 1])), now)
    return [parse_interest(wire) for wire in one.take_outputs()]


def test_each_registered_consumer_is_notified_by_its_routable_prefix() -> None:
    one = notifier()
    assert publish(one, 1, 0) == []
    for consumer in (ANN, BEN, ANN):
        one.on_interest(question(consumer), 0)
        (answer,) = one.take_outputs()
        assert read_metadata(FEED, parse_data(answer)) == 1
    sent = publish(one, 2, SECOND)
    assert [interest.name for interest in sent] == [notify_name(FEED, 2) + ANN, notify_name(FEED, 2) + BEN]
    assert [tuple(interest.forwarding_hint) for interest in sent] == [(CONSUMERS + ANN,), (CONSUMERS + BEN,)]


def test_a_notification_is_repeated_until_its_consumer_answers() -> None:
    one = notifier()
    for consumer in (ANN, BEN):
        one.on_interest(question(consumer), 0)
    one.take_outputs()
    publish(one, 1, 0)
    one.on_data(parse_data(make_data(notify_name(FEED, 1) + ANN, b"")), 1000)
    due = one.next_deadline()
    assert due is not None
    one.wake(due)
    (again,) = one.take_outputs()
    assert parse_interest(again).name == notify_name(FEED, 1) + BEN
    one.on_data(parse_data(make_data(notify_name(FEED, 1) + BEN, b"")), due + 1)
    assert one.next_deadline() is None


def test_a_consumer_that_does_not_register_again_is_forgotten() -> None:
    one = notifier()
    one.on_interest(question(ANN), 0)
    one.on_interest(question(BEN), 10 * SECOND)
    one.take_outputs()
    assert len(publish(one, 1, 15 * SECOND - 1)) == 2
    assert [interest.name for interest in publish(one, 2, 15 * SECOND)] == [notify_name(FEED, 2) + BEN]
    while one.next_deadline() is not None:
        one.wake(one.next_deadline() or 0)
    one.take_outputs()
    assert publish(one, 3, 26 * SECOND) == []


@pytest.mark.parametrize("rest", [b"", ANN + BEN, b"\x32\x01x", b"\x08\x09"])
def test_other_names_register_nobody(rest: bytes) -> None:
    one = notifier()
    interest = parse_interest(make_interest(metadata_name(FEED) + ANN, nonce=1))
    interest.name = metadata_name(FEED) + rest
    one.on_interest(interest, 0)
    assert one.take_outputs() == []
    assert publish(one, 1, 0) == []


def test_a_scout_answers_what_is_for_its_consumer_only() -> None:
    scout = EachScout(FEED, ANN, rng=Random(1), lifetime_ms=1000, renewal_ms=5000)
    scout.start(0)
    (asked,) = scout.take_outputs()
    assert parse_interest(asked).name == metadata_name(FEED) + ANN
    for consumer, tip in ((BEN, 0), (ANN, 7)):
        scout.on_interest(parse_interest(make_interest(notify_name(FEED, 7) + consumer, nonce=1)), 1)
        assert scout.tip == tip
    assert [parse_data(wire).name for wire in scout.take_outputs()] == [notify_name(FEED, 7) + ANN]


@pytest.mark.parametrize("loss", [0.0, 5.0])
def test_a_run_delivers_all_and_leaves_nothing(loss: float) -> None:
    made = scenario(
        layerings=("notify-each",),
        topology={
            "generator": "tree",
            "depth": 2,
            "fanout": 2,
            "link": {"delay_ms": 5.0, "loss_percent": loss},
        },
        plans={"s2": {"start_ms": 300}, "s3": {"stop_ms": 300}},
        settle_ms=6000,
    )
    result = simulate(made, "notify-each")
    for node in ("s1", "s2", "s4"):
        assert result.delivered(node) == [*range(1, 21)]
    assert (0 if loss else 1) <= len(result.delivered("s3")) < 20
    assert sum(node.held()["pit"].entries for node in result.nodes.values()) == 0
