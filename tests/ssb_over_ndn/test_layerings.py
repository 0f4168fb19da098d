"""Every layering over small networks: each item once, in order, whatever links and applications do."""

from collections.abc import Callable, Hashable
from itertools import pairwise

import pytest
from small_network import LINE, TREE, Link, Network, feed_of, line, publish_every

from base.units import MS, SECOND
from forwarder.wire.feed import item_name, split_item, ssb_content
from forwarder.wire.lp import open_data, open_interest
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_data
from forwarder.wire.parameters import make_interest_with_parameters
from ssb.application import Plan
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.naming import extend_prefix, log_name, message_packet
from ssb_over_ndn.sync.log_sync import encode_extension
from testbed.layerings.kinds.ndn import NDN_LAYERINGS as LAYERINGS

BAD = Link(loss=0.1, twice=0.1, jitter=6 * MS)
CLASSIC = [name for name, layering in LAYERINGS.items() if not layering.controlled_push]
LEAVES = ("s1", "s2", "s3", "s4")
ITEMS = 30
ALL = list(range(1, ITEMS + 1))


def outlived(network: Network, time: int) -> int:
    """When all state of subscriptions that end at a time is gone."""
    return time + max(network.values["lifetime_ms"], 1000) * MS + SECOND


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_clean_tree(layering: str) -> None:
    network = Network(TREE, layering)
    stop = 10 * SECOND
    feed = publish_every(network, ITEMS, 40 * MS, stop)
    for leaf in LEAVES:
        network.subscribe(leaf, [feed], Plan(0, stop))
    network.run(5 * SECOND)
    assert any(network.pending().values()) or layering in ("pull", "notify", "sync", "sync-log")
    network.run(outlived(network, stop))
    for leaf in LEAVES:
        assert network.delivered(leaf) == ALL
        events = network.events(leaf)
        assert [(e.time, e.event) for e in (events[0], events[-1])] == [(0, "joined"), (stop, "stopped")]
        assert all(log_name(e.feed) == feed and e.event != "error" for e in events)
    published = {e.seq: e.size for e in network.events("pub")}
    assert {e.seq: e.size for e in network.events("s1") if e.seq} == published
    assert network.pending() == {}
    assert all(host.forwarder.counters.malformed == 0 for host in network.hosts.values())


@pytest.mark.parametrize("layering", LAYERINGS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_line_that_loses_reorders_and_duplicates(layering: str, seed: int) -> None:
    network = Network(line(), layering, BAD, seed)
    stop = 200 * SECOND
    feed = publish_every(network, ITEMS, 40 * MS, stop)
    network.subscribe("s1", [feed], Plan(0, stop))
    network.run(outlived(network, stop))
    assert network.delivered("s1") == ALL
    assert network.pending() == {}


def room_in(network: Network) -> int:
    """Items that a subscription of a network may have under way or untaken."""
    values = network.values
    return values.get("buffer") or values.get("window") or values["credit"] * 3 // 2


SMALL = {
    name: {next(key for key in ("buffer", "window", "credit") if key in layering.parameters.model_fields): 4}
    for name, layering in LAYERINGS.items()
}


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_slow_application_bounds_what_is_asked_for(layering: str) -> None:
    network = Network(line(), layering, parameters=SMALL[layering])
    stop = 60 * SECOND
    feed = publish_every(network, ITEMS, MS, stop)
    network.subscribe("s1", [feed], Plan(0, stop, drain_per_s=10))
    network.run(outlived(network, stop))
    assert network.delivered("s1") == ALL
    took = [e.time for e in network.events("s1") if e.event == "delivered"]
    assert {b - a for a, b in pairwise(took)} == {100 * MS}
    for sent in network.sent:
        interest = open_interest(sent.packet)
        parts = split_item(interest.name) if interest is not None and sent.node == "s1" else None
        if interest is not None and parts is not None:
            taken = sum(time <= sent.time for time in took)
            last = parts[1] + (interest.send_credit or 1) - 1 if interest.send_credit != 0 else 0
            assert last <= taken + room_in(network), (sent.time, parts[1])


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_pause(layering: str) -> None:
    network = Network(line(), layering)
    stop = 60 * SECOND
    feed = publish_every(network, ITEMS, 40 * MS, stop)
    network.subscribe("s1", [feed], Plan(0, stop, pauses=((500 * MS, 3 * SECOND),)))
    network.run(outlived(network, stop))
    assert network.delivered("s1") == ALL
    took = [e.time for e in network.events("s1") if e.event == "delivered"]
    assert not any(500 * MS <= time < 3 * SECOND for time in took)
    assert any(time < 500 * MS for time in took)
    assert 3 * SECOND in took


@pytest.mark.parametrize("layering", LAYERINGS)
def test_one_who_joins_late_gets_all_from_the_first(layering: str) -> None:
    network = Network(TREE, layering)
    stop = 60 * SECOND
    feed = publish_every(network, ITEMS, 40 * MS, stop)
    network.subscribe("s1", [feed], Plan(0, stop))
    network.subscribe("s4", [feed], Plan(5 * SECOND, stop))
    network.run(outlived(network, stop))
    assert network.delivered("s1") == ALL
    assert network.delivered("s4") == ALL
    assert max(e.time for e in network.events("s4") if e.seq) < 7 * SECOND


@pytest.mark.parametrize("layering", LAYERINGS)
def test_feeds_do_not_disturb_each_other(layering: str) -> None:
    network = Network(line(), layering, Link(loss=0.05))
    stop = 100 * SECOND
    feeds = [
        network.publish(feed_of(20, seed), [100 * MS + n * 50 * MS for n in range(20)], stop)
        for seed in (7, 8, 9)
    ]
    network.subscribe("s1", feeds, Plan(0, stop))
    network.run(outlived(network, stop))
    for feed in feeds:
        assert network.delivered("s1", feed) == list(range(1, 21))
    assert network.pending() == {}


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_subscription_that_ends_as_it_begins(layering: str) -> None:
    network = Network(line(), layering)
    feed = publish_every(network, 1, 0, 200 * MS)
    network.subscribe("s1", [feed], Plan(SECOND, SECOND))
    network.run(outlived(network, SECOND))
    assert [e.event for e in network.events("s1")] == ["joined", "stopped"]
    assert network.pending() == {}


@pytest.mark.parametrize("layering", CLASSIC)
def test_without_a_route_there_is_an_error_and_then_the_feed(layering: str) -> None:
    network = Network(line(), layering)
    stop = 100 * SECOND
    feed = publish_every(network, 10, 40 * MS, stop)
    routes = [(node, next(iter(network.hosts[node].forwarder.fib.lookup(feed))).face) for node in LINE[1:]]
    for node, face in routes:
        network.hosts[node].forwarder.fib.remove(feed, face)
    network.subscribe("s1", [feed], Plan(0, stop))
    network.run(3 * SECOND)
    errors = [e.detail for e in network.events("s1") if e.event == "error"]
    # What an announcement of sync-log carries needs no route to the feed: that of its group is enough.
    assert errors == ([] if layering == "sync-log" else ["no-route"])
    for node, face in routes:
        network.hosts[node].forwarder.fib.add(feed, face)
    network.run(outlived(network, stop))
    assert network.delivered("s1") == list(range(1, 11))


def tampering(network: Network, spoil: Callable[[bytes, int], bytes], times: int) -> None:
    """Have a link replace the first Data packets of items."""
    host = network.hosts["r1"]
    receive = host.receive
    left = times

    def spoiled(face: int, frame: bytes, sender: Hashable, now: int) -> None:
        nonlocal left
        opened = open_data(frame)
        parts = split_item(opened[0].name) if opened is not None else None
        if opened is not None and parts is not None and left:
            left -= 1
            frame = spoil(opened[0].name, parts[1])
        receive(face, frame, sender, now)

    host.receive = spoiled  # type: ignore[method-assign]


FORGERIES: dict[str, Callable[[bytes, int], bytes]] = {
    "changed": lambda name, seq: make_data(
        name, ssb_content(feed_of(ITEMS)[seq - 1].encoded.replace(b'"post"', b'"past"'))
    ),
    "other author": lambda name, seq: make_data(name, ssb_content(feed_of(ITEMS, 8)[seq - 1].encoded)),
    "other number": lambda name, seq: make_data(name, ssb_content(feed_of(ITEMS)[seq % 5].encoded)),
    "no item": lambda name, seq: make_data(name, b"\xf4\x01x"),
}


@pytest.mark.patches
@pytest.mark.parametrize("layering", LAYERINGS)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_no_forgery_is_delivered_and_the_true_item_is(layering: str, forgery: str) -> None:
    network = Network(line(), layering)
    tampering(network, FORGERIES[forgery], 8)
    stop = 100 * SECOND
    feed = publish_every(network, ITEMS, 40 * MS, stop)
    network.subscribe("s1", [feed], Plan(0, stop))
    network.run(outlived(network, stop))
    assert network.delivered("s1") == ALL
    sizes = [len(message.encoded) for message in feed_of(ITEMS)]
    assert [e.size for e in network.events("s1") if e.event == "delivered"] == sizes


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_publisher_that_starts_anew_is_followed_on(layering: str) -> None:
    network = Network(line(), layering)
    stop = 100 * SECOND
    messages = feed_of(20)
    feed = network.publish(messages[:10], [100 * MS + n * 50 * MS for n in range(10)], 2 * SECOND)
    network.subscribe("s1", [feed], Plan(0, stop))
    network.run(3 * SECOND)
    assert network.delivered("s1") == list(range(1, 11))
    times = [network.now] * 10 + [network.now + SECOND + n * 50 * MS for n in range(10)]
    old = network.hosts["pub"]
    (face,) = old._applications
    del old._applications[face]  # its state is lost; what it publishes again is the same
    old.forwarder.remove_face(face, network.now)
    network.publish(messages, times, stop)
    network.run(outlived(network, stop))
    assert network.delivered("s1") == list(range(1, 21))


def forked_feed() -> tuple[list[Message], list[Message]]:
    """Two continuations of one feed, from its third message on."""
    writer = Identity.from_seed(b"f" * 32)
    common: list[Message] = []
    for n in range(2):
        tip = common[-1] if common else None
        common.append(Message.create(writer, tip, {"type": "post", "text": f"{n}"}, n))
    branches = []
    for text in ("left", "right"):
        branch = common[:]
        for n in range(2, 5):
            branch.append(Message.create(writer, branch[-1], {"type": "post", "text": f"{text} {n}"}, n))
        branches.append(branch)
    return branches[0], branches[1]


@pytest.mark.patches
@pytest.mark.parametrize("layering", CLASSIC)
def test_a_fork_ends_a_subscription_with_a_named_error(layering: str) -> None:
    left, right = forked_feed()
    network = Network(line(), layering)
    name = log_name(left[0].author)
    stop = 20 * SECOND
    forged = message_packet(right[3])
    tampering_with = {item_name(name, 4): forged}

    host = network.hosts["s1"]
    receive = host.receive

    def forked(face: int, frame: bytes, sender: Hashable, now: int) -> None:
        opened, interest = open_data(frame), open_interest(frame)
        if opened is not None:
            frame = tampering_with.get(opened[0].name, frame)
        elif interest is not None and message_packet(left[3]) in frame:  # an announcement of sync-log
            group = extend_prefix(name) + from_uri("/v=1")
            frame = make_interest_with_parameters(
                group, encode_extension(4, forged), nonce=1, lifetime_ms=1000, hop_limit=9
            )
        receive(face, frame, sender, now)

    host.receive = forked  # type: ignore[method-assign]
    feed = network.publish(tuple(left), [100 * MS + n * 50 * MS for n in range(5)], stop)
    network.subscribe("s1", [feed], Plan(0, stop))
    network.run(outlived(network, stop))
    assert network.delivered("s1") == [1, 2, 3]
    assert [(e.event, e.seq) for e in network.events("s1") if e.event == "forked"] == [("forked", 3)]
    assert network.pending() == {}


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_publisher_that_retains_little_serves_what_it_has(layering: str) -> None:
    network = Network(line(), layering)
    stop = 10 * SECOND
    feed = publish_every(network, 20, 50 * MS, stop, retain=5)
    network.subscribe("s1", [feed], Plan(0, stop))
    network.run(outlived(network, stop))
    assert network.delivered("s1") == list(range(1, 21))
