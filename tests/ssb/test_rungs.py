"""The rungs below EBT: they deliver all, and cost what the models of the ladder say they cost."""

import json
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssb.generate import generate_feed
from ssb.message import Message
from ssb.replication.replication import ProtocolError
from ssb.replication.rungs.rung import IGNORE
from testbed.ladder import protocols
from testbed.ladder.networks import depths, growing_network, random_network
from testbed.ladder.rungs import RUNGS
from testbed.ladder.spread import flood, gossip
from testbed.ladder.swarm import Peer, Swarm, name_of

FEEDS = [generate_feed(Random(seed), 12) for seed in range(5)]
KEYS = [feed[0].author for feed in FEEDS]


SEEDS = st.integers(0, 2**32)
FLOOD, GOSSIP, SKIP = (RUNGS[name].protocol({}) for name in ("flood", "gossip", "gossip-skip"))


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


def told(swarm: Swarm) -> int:
    elements = sum(peer.sent.elements for peer in swarm.peers)
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
    protocol = RUNGS["scan" if whole else "append-poll"].protocol({name_of(0): KEYS[:1]})
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
    swarm = Swarm([RUNGS[kind].protocol({})] * 5, KEYS)
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
        (forged(FEEDS[0][0]), "refused"),
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
        peer.replication.receive(1, [*good, forged(FEEDS[0][3])], 0, 0.0)
    assert peer.feeds.tips() == {KEYS[0]: 3}
