"""The rungs below EBT: they deliver all, and cost what the models of the ladder say they cost."""

import json
from collections import Counter
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rung_swarm import Link, RungPeer, meet, rounds

from ssb.generate import generate_feed
from ssb.message import Message
from ssb.replication.replication import ProtocolError
from ssb.replication.rungs.flood import Flood
from ssb.replication.rungs.gossip import Gossip
from ssb.replication.rungs.hub import Hub, HubClient
from ssb.replication.rungs.poll import Poll
from ssb.replication.rungs.rung import IGNORE, Rung
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from testbed.ladder.networks import Network, depths, growing_network
from testbed.ladder.spread import flood, gossip

FEEDS = [generate_feed(Random(seed), 12) for seed in range(5)]
KEYS = [feed[0].author for feed in FEEDS]
[NEWS] = generate_feed(Random(99), 1)


def calls_of(network: Network) -> list[tuple[int, int]]:
    return [
        (peer, int(other))
        for peer in range(network.peers)
        for other in network.neighbours[network.starts[peer] : network.starts[peer + 1]]
        if peer > other
    ]


@settings(max_examples=20)
@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 2**32))
def test_a_flood_costs_what_its_model_says(size: int, connections: int, seed: int) -> None:
    network = growing_network(size, connections, np.random.default_rng(seed))
    peers = [RungPeer(f"{n}", partial(Flood, wanted=[NEWS.author])) for n in range(size)]
    links = [Link(peers[a], peers[b]) for a, b in calls_of(network)]
    rounds(links)
    assert not any(peer.copies for peer in peers)
    came: dict[int, int] = {0: 0}

    def note(number: int) -> None:
        for place, peer in enumerate(peers):
            if peer.holds(NEWS):
                came.setdefault(place, number)

    peers[0].publish(NEWS)
    rounds(links, note)
    model = flood(network)
    assert sum(peer.copies for peer in peers) == model.messages
    assert [came[place] for place in range(size)] == depths(network).tolist()
    assert sum(peer.rung.repeated for peer in peers) == model.messages - (size - 1)  # type: ignore[attr-defined]


@settings(max_examples=20)
@given(st.integers(2, 30), st.integers(0, 2**32), st.booleans())
def test_gossip_spreads_as_its_model_says(size: int, seed: int, skips: bool) -> None:
    peers = [
        RungPeer(f"{n}", lambda feeds: Gossip(feeds, [NEWS.author], MemoryClocks() if skips else None))
        for n in range(size)
    ]
    peers[0].publish(NEWS)
    random = np.random.default_rng(seed)
    reached = []
    while len(reached) == 0 or reached[-1] < size:
        for caller, called in enumerate(random.integers(size, size=size)):
            if caller != called:
                meet(peers[caller], peers[called])
        reached.append(sum(peer.holds(NEWS) for peer in peers))
    assert reached == gossip(size, np.random.default_rng(seed))
    assert sum(peer.copies for peer in peers) == size - 1


def told(peers: list[RungPeer]) -> int:
    return sum(peer.rung.elements for peer in peers)  # type: ignore[attr-defined]


def test_request_skipping_says_nothing_of_feeds_that_have_not_changed() -> None:
    messages = [feed[0] for feed in (generate_feed(Random(seed), 2) for seed in range(300))]
    keys = [message.author for message in messages]
    for skips, first, later in ((False, 600, 600), (True, 600, 0)):
        peers = [
            RungPeer(name, partial(Gossip, wanted=keys, clocks=MemoryClocks() if skips else None), messages)
            for name in "ab"
        ]
        meet(*peers)
        assert told(peers) == first
        meet(*peers)
        assert told(peers) == first + later


def test_what_is_ignored_is_asked_for_once() -> None:
    ann = RungPeer("ann", partial(Gossip, wanted=KEYS[:2], clocks=MemoryClocks()), [*FEEDS[0], *FEEDS[1]])
    ben = RungPeer("ben", partial(Gossip, wanted=KEYS[:1], clocks=MemoryClocks()))
    meet(ann, ben)
    assert ben.feeds.tips() == {KEYS[0]: 12}
    assert ann.rung._clocks.remote_clock("ben")[KEYS[1]] == IGNORE  # type: ignore[attr-defined]
    before = told([ann, ben])
    meet(ben, ann)
    assert told([ann, ben]) - before <= 2  # ann learns that ben has it all
    before = told([ann, ben])
    meet(ann, ben)
    assert told([ann, ben]) == before
    ben.rung.want_all([KEYS[1]], 0)
    meet(ann, ben)
    assert ben.feeds.tips() == {KEYS[0]: 12, KEYS[1]: 12}


def test_what_was_lost_on_the_way_comes_at_the_next_meeting() -> None:
    """A record of a remote changes by nothing but what the remote said."""
    ann = RungPeer("ann", partial(Gossip, wanted=KEYS, clocks=MemoryClocks()), FEEDS[0])
    ben = RungPeer("ben", partial(Gossip, wanted=KEYS, clocks=MemoryClocks()))
    link = Link(ann, ben)
    for _ in range(3):  # the messages are sent, and do not arrive
        under_way = link.take()
        if any(b'"signature"' in body for _, bodies in under_way for body in bodies):
            break
        for side, bodies in under_way:
            link.give(side, bodies)
    link.close()
    assert not ben.feeds.tips()
    assert ann.copies == 12
    meet(ann, ben)
    assert ben.feeds.tips() == {KEYS[0]: 12}


@pytest.mark.parametrize(("whole", "sent"), [(True, [6, 12, 12]), (False, [6, 6, 0])])
def test_polls(whole: bool, sent: list[int]) -> None:
    author = RungPeer("author", partial(Poll, wanted=KEYS[:1]), FEEDS[0][:6])
    reader = RungPeer("reader", partial(Poll, wanted=KEYS[:1], authors={"author": KEYS[:1]}, whole=whole))
    for number, copies in enumerate(sent):
        before = author.copies
        meet(reader, author)
        assert author.copies - before == copies
        assert reader.feeds.tips() == author.feeds.tips()
        if number == 0:
            for message in FEEDS[0][6:]:
                author.publish(message)
    assert reader.rung.repeated == (6 + 12 if whole else 0)  # type: ignore[attr-defined]


def make(kind: str, feeds: MemoryFeeds) -> Rung:
    if kind == "flood":
        return Flood(feeds, KEYS)
    return Gossip(feeds, KEYS, MemoryClocks() if kind == "skip" else None)


@settings(max_examples=30)
@given(st.sampled_from(["flood", "gossip", "skip"]), st.integers(0, 2**32))
def test_all_get_all_once_in_order_though_connections_break(kind: str, seed: int) -> None:
    random = Random(seed)
    peers = [RungPeer(f"{n}", partial(make, kind)) for n in range(5)]
    left = [list(feed) for feed in FEEDS]
    links: list[Link] = []
    came: Counter[tuple[str, str, int]] = Counter()
    for _ in range(60):
        match random.randrange(4):
            case 0:
                a, b = random.sample(peers, 2)
                if not any(set(link.peers) == {a, b} for link in links):
                    links.append(Link(a, b))
            case 1 if links:
                links.pop(random.randrange(len(links))).close()
            case 2:
                place = random.randrange(5)
                if left[place]:
                    peers[place].publish(left[place].pop(0))
            case _:
                for link in links:
                    for side, bodies in link.take():
                        link.give(side, bodies)
        for peer in peers:
            came.update((peer.name, message.author, message.sequence) for message in peer.rung.take_stored())
    for link in links:
        link.close()
    last = []
    for a in range(5):
        for b in range(a):
            if kind == "flood":
                last.append(Link(peers[a], peers[b]))
    rounds(last)
    for _ in range(0 if kind == "flood" else 5):
        for a in range(5):
            meet(peers[a], peers[a - 1])
    for peer in peers:
        came.update((peer.name, message.author, message.sequence) for message in peer.rung.take_stored())
        assert dict(peer.feeds.tips()) == dict(peers[0].feeds.tips())
    assert set(came.values()) <= {1}


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
    peer = RungPeer("peer", partial(Flood, wanted=KEYS))
    peer.rung.open(1, "other", is_caller=False, now=0)
    with pytest.raises(ProtocolError, match=said):
        peer.rung.receive(1, [body], 0, 0.0)
    assert not peer.feeds.tips()


def test_the_valid_part_of_a_batch_is_kept() -> None:
    peer = RungPeer("peer", partial(Flood, wanted=KEYS))
    peer.rung.open(1, "other", is_caller=False, now=0)
    good = [message.encoded for message in FEEDS[0][:3]]
    with pytest.raises(ProtocolError):
        peer.rung.receive(1, [*good, forged(FEEDS[0][3])], 0, 0.0)
    assert peer.feeds.tips() == {KEYS[0]: 3}


def centre(count: int, *, stays: bool) -> tuple[RungPeer, list[RungPeer]]:
    """A hub, and clients that write a feed each and follow all others."""
    hub = RungPeer("hub", partial(Hub, clocks=MemoryClocks()))
    clients = []
    for place in range(count):
        own, clocks = KEYS[place], MemoryClocks()
        make = partial(HubClient, wanted=KEYS[:count], own=[own], clocks=clocks, stays=stays)
        clients.append(RungPeer(f"{place}", make))
    return hub, clients


def test_a_hub_costs_a_message_for_each_reader_and_two_headers_a_poll() -> None:
    hub, clients = centre(5, stays=False)
    for place, client in enumerate(clients):
        for message in FEEDS[place][:4]:
            client.publish(message)
    for _ in range(2):
        for client in clients:
            meet(client, hub)
    assert all(client.feeds.tips() == hub.feeds.tips() for client in clients)
    assert sum(client.copies for client in clients) == 5 * 4
    assert hub.copies == 5 * 4 * 4
    before = [client.rung.elements for client in clients], hub.rung.elements  # type: ignore[attr-defined]
    for client in clients:
        meet(client, hub)
    assert [client.rung.elements for client in clients] == [said + 2 for said in before[0]]  # type: ignore[attr-defined]
    assert hub.rung.elements == before[1]  # type: ignore[attr-defined]
    assert (sum(client.copies for client in clients), hub.copies) == (5 * 4, 5 * 4 * 4)


def test_who_stays_at_the_hub_is_sent_what_is_new_without_headers() -> None:
    hub, clients = centre(5, stays=True)
    links = [Link(client, hub) for client in clients]
    rounds(links)
    before = told([hub, *clients])
    for message in FEEDS[2][:7]:
        clients[2].publish(message)
        assert rounds(links) == 2
    assert [client.feeds.tips() for client in clients] == [{KEYS[2]: 7}] * 5
    assert (clients[2].copies, hub.copies, told([hub, *clients])) == (7, 7 * 4, before)
    assert not any(client.rung.repeated for client in clients)  # type: ignore[attr-defined]


def test_a_hub_is_told_who_is_followed_no_more() -> None:
    hub, clients = centre(3, stays=True)
    links = [Link(client, hub) for client in clients]
    rounds(links)
    clients[0].rung.unwant(KEYS[1], 0)
    rounds(links)
    clients[1].publish(FEEDS[1][0])
    rounds(links)
    assert [client.feeds.tips() for client in clients] == [{}, {KEYS[1]: 1}, {KEYS[1]: 1}]
    clients[0].rung.want_all([KEYS[1]], 0)
    clients[0].rung.want_all([KEYS[3]], 0)  # while the hub has not answered
    rounds(links)
    assert clients[0].feeds.tips() == {KEYS[1]: 1}
    assert set(hub.rung._sessions[1].clock) == {KEYS[1], KEYS[2], KEYS[3]}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "lost", ["messages on the way", "the hub's records", "the hub's store", "the client's store"]
)
def test_where_records_do_not_add_up_the_hub_asks_for_the_whole_clock(lost: str) -> None:
    hub, clients = centre(2, stays=False)
    author, reader = clients
    author.publish(FEEDS[0][0])
    for client in (author, reader):
        meet(client, hub)
    if lost == "messages on the way":
        author.publish(FEEDS[0][1])
        meet(author, hub)
        link = Link(reader, hub)
        for _ in range(3):  # the messages are sent, and do not arrive
            under_way = link.take()
            if any(b'"signature"' in body for _, bodies in under_way for body in bodies):
                break
            for side, bodies in under_way:
                link.give(side, bodies)
        link.close()
    elif lost == "the hub's records":
        hub.rung._clocks = MemoryClocks()  # type: ignore[attr-defined]
    elif lost == "the hub's store":
        hub = RungPeer("hub", partial(Hub, clocks=hub.rung._clocks))  # type: ignore[attr-defined]
        meet(author, hub)
    else:
        clocks = reader.rung._clocks  # type: ignore[attr-defined]
        reader = RungPeer("1", partial(HubClient, wanted=KEYS[:2], own=[KEYS[1]], clocks=clocks, stays=False))
    before = told([hub, reader])
    meet(reader, hub)
    assert reader.feeds.tips() == author.feeds.tips() == hub.feeds.tips()
    # Two headers, and the client's two feeds: one of its own, one that it follows. "All" is no element.
    assert told([hub, reader]) - before == (2 if lost == "the hub's store" else 4)
    before = told([hub, reader])
    meet(reader, hub)
    assert told([hub, reader]) - before == 2


def test_a_hub_that_never_knows_enough_is_left() -> None:
    client = RungPeer("client", partial(HubClient, wanted=KEYS, own=[], clocks=MemoryClocks(), stays=True))
    client.rung.open(1, "hub", is_caller=True, now=0)
    again = b'{"clock":{},"end":true,"all":true}'
    client.rung.receive(1, [again], 0, 0.0)
    with pytest.raises(ProtocolError, match="again for the whole clock"):
        client.rung.receive(1, [again], 0, 0.0)
