"""The rungs below EBT: they deliver all, and cost what the models of the ladder say they cost."""

import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssb.generate import generate_feed
from ssb.message import Message
from ssb.replication.ebt import RemoteClocks
from ssb.replication.replication import ProtocolError
from ssb.replication.rungs.flood import Flood
from ssb.replication.rungs.hub import Hub, HubClient
from ssb.replication.rungs.rung import IGNORE
from ssb.store.clocks import MemoryClocks
from ssb.store.feeds import FeedStore
from ssb.store.memory import MemoryFeeds
from testbed.ladder.networks import depths, growing_network, random_network
from testbed.ladder.spread import flood, gossip
from testbed.ladder.swarms import protocols
from testbed.ladder.swarms.rungs import RUNGS
from testbed.ladder.swarms.swarm import Peer, Swarm, name_of

FEEDS = [generate_feed(Random(seed), 12) for seed in range(5)]
KEYS = [feed[0].author for feed in FEEDS]


SEEDS = st.integers(0, 2**32)
FLOOD, GOSSIP, SKIP = (partial(RUNGS[name].protocol, {}, "") for name in ("flood", "gossip", "gossip-skip"))


@settings(max_examples=20)
@given(st.integers(2, 40), st.integers(1, 4), SEEDS)
def test_a_flood_costs_what_its_model_says(size: int, connections: int, seed: int) -> None:
    network = growing_network(size, connections, np.random.default_rng(seed))
    assert protocols.flood(network) == flood(network)


@settings(max_examples=20)
@given(st.integers(2, 40), st.floats(0, 3), SEEDS)
def test_a_flood_takes_the_shortest_ways(size: int, connections: float, seed: int) -> None:
    network = random_network(size, connections, np.random.default_rng(seed))
    assert protocols.depths(network).tolist() == depths(network).tolist()


@settings(max_examples=20)
@given(st.integers(2, 30), SEEDS, st.booleans(), st.booleans())
def test_gossip_spreads_as_its_model_says(size: int, seed: int, at_once: bool, skips: bool) -> None:
    one, other = (np.random.default_rng(seed) for _ in range(2))
    assert protocols.gossip(size, one, at_once, skips=skips) == gossip(size, other, at_once)


def test_gossip_sends_nobody_a_message_twice() -> None:
    [news] = generate_feed(Random(99), 1)
    swarm = Swarm([GOSSIP] * 30, [news.author])
    swarm.publish(0, [news])
    random = Random(1)
    for _ in range(300):
        swarm.meet(*random.sample(range(30), 2))
    assert all(peer.holds(news) for peer in swarm.peers)
    assert sum(peer.sent.messages for peer in swarm.peers) == 29


def said(swarm: Swarm) -> int:
    return sum(peer.sent.elements for peer in swarm.peers)


def told(swarm: Swarm) -> int:
    """Return the same, and hold it against what peers that never restarted have counted."""
    elements = said(swarm)
    assert elements == sum(peer.replication.elements for peer in swarm.peers)  # type: ignore[attr-defined]
    return elements


def test_request_skipping_says_nothing_of_feeds_that_have_not_changed() -> None:
    messages = [feed[0] for feed in (generate_feed(Random(seed), 2) for seed in range(300))]
    keys = [message.author for message in messages]
    for skips, first, later in ((False, 600, 600), (True, 600, 0)):
        swarm = Swarm([SKIP if skips else GOSSIP] * 2, keys)
        for place in range(2):
            swarm.publish(place, messages)
        swarm.meet(0, 1)
        assert told(swarm) == first
        swarm.meet(0, 1)
        assert told(swarm) == first + later


def test_what_is_ignored_is_asked_for_once() -> None:
    swarm = Swarm([SKIP] * 2, KEYS[:1])
    ann, ben = swarm.peers
    ann.replication.want_all([KEYS[1]], 0)
    swarm.publish(0, [*FEEDS[0], *FEEDS[1]])
    swarm.meet(0, 1)
    assert ben.feeds.tips() == {KEYS[0]: 12}
    assert ann.clocks.remote_clock(ben.name)[KEYS[1]] == IGNORE
    before = told(swarm)
    swarm.meet(1, 0)
    assert told(swarm) - before <= 2  # ann learns that ben has it all
    before = told(swarm)
    swarm.meet(0, 1)
    assert told(swarm) == before
    ben.replication.want_all([KEYS[1]], 0)
    swarm.meet(0, 1)
    assert ben.feeds.tips() == {KEYS[0]: 12, KEYS[1]: 12}


def test_what_was_lost_on_the_way_comes_at_the_next_meeting() -> None:
    """A record of a remote changes by nothing but what the remote said."""
    swarm = Swarm([SKIP] * 2, KEYS)
    ann, ben = swarm.peers
    swarm.publish(0, FEEDS[0])
    swarm.connect(0, 1, delay=1)
    for _ in swarm.rounds():
        if ann.sent.messages:  # they are sent, and do not arrive
            break
    swarm.cut(0, 1)
    assert not ben.feeds.tips()
    assert ann.sent.messages == 12
    swarm.meet(0, 1)
    assert ben.feeds.tips() == {KEYS[0]: 12}
    assert (ann.sent.messages, ben.received.messages, ben.repeated) == (24, 12, 0)


@pytest.mark.parametrize(("whole", "sent"), [(True, [6, 12, 12]), (False, [6, 6, 0])])
def test_polls(whole: bool, sent: list[int]) -> None:
    protocol = partial(RUNGS["scan" if whole else "append-poll"].protocol, {name_of(0): KEYS[:1]}, "")
    swarm = Swarm([protocol] * 2, KEYS[:1])
    author, reader = swarm.peers
    swarm.publish(0, FEEDS[0][:6])
    for number, copies in enumerate(sent):
        before = author.sent.messages
        swarm.meet(1, 0)
        assert author.sent.messages - before == copies
        assert reader.feeds.tips() == author.feeds.tips()
        if number == 0:
            swarm.publish(0, FEEDS[0][6:])
    assert reader.repeated == (6 + 12 if whole else 0)
    assert reader.replication.repeated == reader.repeated  # type: ignore[attr-defined]


@settings(max_examples=30)
@given(st.sampled_from(["flood", "gossip", "gossip-skip"]), SEEDS)
def test_all_get_all_once_in_order_though_connections_break(kind: str, seed: int) -> None:
    random = Random(seed)
    swarm = Swarm(RUNGS[kind].protocols(5), KEYS)
    left = [list(feed) for feed in FEEDS]
    came: Counter[tuple[str, str, int]] = Counter()
    for _ in range(60):
        match random.randrange(4):
            case 0:
                swarm.connect(*random.sample(range(5), 2), delay=random.randrange(3))
            case 1 if swarm.links:
                swarm.cut(*random.choice([*swarm.links]))
            case 2:
                place = random.randrange(5)
                if left[place]:
                    swarm.publish(place, [left[place].pop(0)])
            case _:
                swarm.run(swarm.now + 1)
        for peer in swarm.peers:
            came.update((peer.name, m.author, m.sequence) for m in peer.replication.take_stored())
    for link in [*swarm.links]:
        swarm.cut(*link)
    pairs = [(a, b) for a in range(5) for b in range(a)]
    if kind == "flood":
        for pair in pairs:
            swarm.connect(*pair)
        swarm.run()
    else:
        for pair in pairs * 3:
            swarm.meet(*pair)
    for peer in swarm.peers:
        came.update((peer.name, m.author, m.sequence) for m in peer.replication.take_stored())
        assert dict(peer.feeds.tips()) == dict(swarm.peers[0].feeds.tips())
    assert set(came.values()) <= {1}
    assert sum(came.values()) == 5 * sum(12 - len(rest) for rest in left)


def forged(message: Message) -> bytes:
    value = json.loads(message.encoded)
    value["content"] = {"type": "post", "text": "forged"}
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "neither a message nor a clock"),
        (b"\xff", "cannot be read"),
        (b'{"clock": {"a": "b"}}', "neither a message nor a clock"),
        (b'{"clock": 1}', "neither a message nor a clock"),
        (json.dumps({"clock": {f"@{n}": 1 for n in range(6_000)}}).encode(), "too many feeds"),
    ],
)
def test_what_breaks_the_rules_changes_nothing(body: bytes, said: str) -> None:
    peer = Peer("peer", FLOOD, KEYS)
    peer.replication.open(1, "other", is_caller=False, now=0)
    with pytest.raises(ProtocolError, match=said):
        peer.replication.receive(1, [body], 0, 0.0)
    assert not peer.feeds.tips()


def test_the_valid_part_of_a_batch_is_kept() -> None:
    peer = Peer("peer", FLOOD, KEYS)
    peer.replication.open(1, "other", is_caller=False, now=0)
    good = [message.encoded for message in FEEDS[0][:3]]
    with pytest.raises(ProtocolError):
        peer.replication.receive(1, [*good, b"[]"], 0, 0.0)
    assert peer.feeds.tips() == {KEYS[0]: 3}


def test_a_message_that_is_refused_costs_its_feed_alone() -> None:
    peer = Peer("peer", FLOOD, KEYS)
    for number in (1, 2):
        peer.replication.open(number, f"@{number}", is_caller=False, now=0)
    bodies = [message.encoded for message in FEEDS[0][:5]]
    bodies[2] = forged(FEEDS[0][2])
    peer.replication.receive(1, [*bodies, FEEDS[1][0].encoded], 0, 0.0)
    assert peer.feeds.tips() == {KEYS[0]: 2, KEYS[1]: 1}
    assert peer.replication.set_aside[KEYS[0]].remote == "@1"
    peer.replication.receive(2, [message.encoded for message in FEEDS[0][:5]], 0, 0.0)
    assert peer.feeds.tips() == {KEYS[0]: 5, KEYS[1]: 1}
    assert not peer.replication.set_aside


def centre(count: int, *, stays: bool) -> Swarm:
    """Clients that write a feed each and follow all others; and the hub, the last of the peers."""

    def client(own: str, feeds: FeedStore, clocks: RemoteClocks, wanted: Iterable[str]) -> HubClient:
        return HubClient(feeds, wanted, [own], clocks, stays=stays)

    hub = RUNGS["hub"].hub
    assert hub is not None
    return Swarm([*(partial(client, own) for own in KEYS[:count]), hub], KEYS[:count])


def copies(swarm: Swarm) -> tuple[int, int]:
    """Return what all clients have sent, and what the hub has."""
    *clients, hub = swarm.peers
    return sum(client.sent.messages for client in clients), hub.sent.messages


def test_a_hub_costs_a_message_for_each_reader_and_two_headers_a_poll() -> None:
    swarm = centre(5, stays=False)
    *clients, hub = swarm.peers
    for place in range(5):
        swarm.publish(place, FEEDS[place][:4])
    for place in [*range(5)] * 2:
        swarm.meet(place, 5)
    assert all(client.feeds.tips() == hub.feeds.tips() for client in clients)
    assert copies(swarm) == (5 * 4, 5 * 4 * 4)
    before = [peer.sent.elements for peer in swarm.peers]
    for place in range(5):
        swarm.meet(place, 5)
    assert [client.sent.elements for client in clients] == [elements + 2 for elements in before[:5]]
    assert hub.sent.elements == before[5]
    assert copies(swarm) == (5 * 4, 5 * 4 * 4)


def stay(swarm: Swarm) -> None:
    """Have all clients call the hub."""
    for place in range(len(swarm.peers) - 1):
        swarm.connect(place, len(swarm.peers) - 1)
    swarm.run()


def test_who_stays_at_the_hub_is_sent_what_is_new_without_headers() -> None:
    swarm = centre(5, stays=True)
    stay(swarm)
    before = told(swarm)
    for message in FEEDS[2][:7]:
        swarm.publish(2, [message])
        assert swarm.run() == 2
    assert [client.feeds.tips() for client in swarm.peers] == [{KEYS[2]: 7}] * 6
    assert (swarm.peers[2].sent.messages, *copies(swarm), told(swarm)) == (7, 7, 7 * 4, before)
    assert not any(peer.repeated for peer in swarm.peers)


def test_a_hub_is_told_who_is_followed_no_more() -> None:
    swarm = centre(3, stays=True)
    stay(swarm)
    client = swarm.peers[0]
    client.replication.unwant(KEYS[1], 0)
    swarm.touch(0)
    swarm.run()
    swarm.publish(1, FEEDS[1][:1])
    swarm.run()
    assert [peer.feeds.tips() for peer in swarm.peers[:3]] == [{}, {KEYS[1]: 1}, {KEYS[1]: 1}]
    client.replication.want_all([KEYS[1]], 0)
    client.replication.want_all([KEYS[3]], 0)  # while the hub has not answered
    swarm.touch(0)
    swarm.run()
    assert client.feeds.tips() == {KEYS[1]: 1}
    [number] = [link.numbers[1] for link in client.links.values()]
    assert set(swarm.peers[3].replication.sessions[number].clock) == {KEYS[1], KEYS[2], KEYS[3]}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "lost", ["messages on the way", "the hub's records", "the hub's store", "the client's store"]
)
def test_where_records_do_not_add_up_the_hub_asks_for_the_whole_clock(lost: str) -> None:
    swarm = centre(2, stays=False)
    author, reader, hub = swarm.peers
    swarm.publish(0, FEEDS[0][:1])
    for place in range(2):
        swarm.meet(place, 2)
    if lost == "messages on the way":
        swarm.publish(0, FEEDS[0][1:2])
        swarm.meet(0, 2)
        before = hub.sent.messages
        swarm.connect(1, 2, delay=1)
        for _ in swarm.rounds():
            if hub.sent.messages > before:  # they are sent, and do not arrive
                break
        swarm.cut(1, 2)
    elif lost == "the hub's records":
        hub.clocks.set_remote_clock(reader.name, {})
    else:
        place = 2 if lost == "the hub's store" else 1
        for feed in KEYS[:2]:
            swarm.peers[place].feeds.drop(feed)
        swarm.restart(place)
        if place == 2:
            swarm.meet(0, 2)
    before = said(swarm)
    swarm.meet(1, 2)
    assert reader.feeds.tips() == author.feeds.tips() == hub.feeds.tips()
    # Two headers, and the client's two feeds: one of its own, one that it follows. "All" is no element.
    assert said(swarm) - before == (2 if lost == "the hub's store" else 4)
    before = said(swarm)
    swarm.meet(1, 2)
    assert said(swarm) - before == 2


def test_a_hub_that_never_knows_enough_is_left() -> None:
    client = Peer("client", partial(RUNGS["hub"].protocol, {}, "client"), KEYS).replication
    client.open(1, "hub", is_caller=True, now=0)
    again = b'{"clock":{},"end":true,"all":true}'
    client.receive(1, [again], 0, 0.0)
    with pytest.raises(ProtocolError, match="again for the whole clock"):
        client.receive(1, [again], 0, 0.0)


def test_a_client_of_the_hub_may_follow_more_feeds_than_others_name() -> None:
    hub = Hub(MemoryFeeds(), MemoryClocks())
    hub.open(1, "client", is_caller=False, now=0)
    clock = {f"@{number}": 0 for number in range(5_001)}
    hub.receive(1, [json.dumps({"clock": clock, "end": True, "whole": True, "own": {}}).encode()], 0, 0.0)
    assert hub.exchanges() == 5_001


def test_a_hub_passes_nothing_on_from_a_record_that_does_not_add_up() -> None:
    clocks = MemoryClocks()
    clocks.set_remote_clock("client", {FEEDS[0][0].author: 3})
    hub = Hub(MemoryFeeds(), clocks, [FEEDS[0][0].author])
    hub.append(FEEDS[0][:5], 0, 0.0)
    hub.open(1, "client", is_caller=False, now=0)
    first = {"clock": {}, "end": True, "have": [1, 0], "own": {}, "stays": True}
    hub.receive(1, [json.dumps(first).encode()], 0, 0.0)
    hub.append(FEEDS[0][5:6], 0, 0.0)
    assert hub.take_output(1, 1 << 20, 0) == [b'{"clock":{},"end":true,"all":true}']


def test_messages_of_a_feed_that_was_left_are_no_fault() -> None:
    here, there = Flood(MemoryFeeds(), [FEEDS[0][0].author]), Flood(MemoryFeeds(), [FEEDS[0][0].author])
    here.open(1, "there", is_caller=True, now=0)
    there.open(1, "here", is_caller=False, now=0)
    here.receive(1, there.take_output(1, 1 << 20, 0), 0, 0.0)
    there.receive(1, here.take_output(1, 1 << 20, 0), 0, 0.0)
    there.append(FEEDS[0][:2], 0, 0.0)
    here.unwant(FEEDS[0][0].author, 0)
    here.receive(1, there.take_output(1, 1 << 20, 0), 0, 0.0)
    there.receive(1, here.take_output(1, 1 << 20, 0), 0, 0.0)
    there.append(FEEDS[0][2:3], 0, 0.0)
    assert there.output_due(1) is None
