"""Hostile peers: each is refused for a counted reason and closed, and what it pushed is not stored."""

import json
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ssb.canonical import stringify
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.peer import Peer, PeerOptions
from ssb.replication.ebt import REPLICATE, REQUEST, Note
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from ssb.transport.calls import Calls
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake
from ssb.transport.muxrpc import Packet, encode
from ssb.transport.secure_stream import SecureStream
from topologies.endpoint import Close, Closed, Full, Opened, Received, Send, Writable

S = 1_000_000_000
VICTIM, GOOD, BAD, AUTHOR = (Identity.from_seed(bytes([number]) * 32) for number in range(1, 5))
FEED = generate_feed(Random(1), 20, AUTHOR)
KEY = AUTHOR.ref


def compact(message: Message) -> bytes:
    return stringify(json.loads(message.text), indent=0).encode()


class World:
    """A peer that wants a feed, and raw clients of it."""

    client_type: "type[Client]"

    def __init__(self, held: int = 5) -> None:
        self.feeds = MemoryFeeds()
        self.feeds.append(FEED[:held], 0.0)
        options = PeerOptions()
        self.peer = Peer(VICTIM, self.feeds, MemoryClocks(), [KEY], options, Random(1))
        self.now = 0
        self.clients: dict[int, Client] = {}
        self.closed: set[int] = set()

    def client(self, identity: Identity, network: bytes = MAIN_NETWORK, host: str = "10.0.0.9") -> "Client":
        client = self.client_type(self, -1 - len(self.clients), identity, network)
        self.clients[client.number] = client
        self.peer.on_stream(Opened(client.number, (host, 1), 1), self.now)
        return client

    def settle(self) -> None:
        """Hand over all that is on its way."""
        is_busy = True
        while is_busy:
            is_busy = False
            for action in self.peer.take_actions():
                if isinstance(action, Send):
                    self.clients[action.stream].receive(action.data)
                    is_busy = True
                elif isinstance(action, Close):
                    self.closed.add(action.stream)
            for client in self.clients.values():
                if client.number not in self.closed and (data := client.take_output()):
                    self.peer.on_stream(Received(client.number, data), self.now)
                    is_busy = True


class Client:
    """A client that does what the test says: handshake, boxes and calls are right unless it spoils them."""

    def __init__(self, world: World, number: int, identity: Identity, network: bytes) -> None:
        self.world = world
        self.number = number
        self.channel = SecureStream(ClientHandshake(identity, VICTIM.public_key, network, b"e" * 32))
        self.calls = Calls()
        self.replication = 0

    def receive(self, data: bytes) -> None:
        self.calls.receive(self.channel.receive(data))

    def take_output(self) -> bytes:
        if self.channel.remote is not None:
            self.channel.send(self.calls.take_output())
        return self.channel.take_output()

    def replicate(self, sequence: int = 20) -> None:
        """Begin EBT and say how far this client is."""
        self.world.settle()
        self.replication = self.calls.call(REPLICATE, [dict(REQUEST)], "duplex")
        self.say({KEY: Note(sequence, True).number})
        self.world.settle()

    def say(self, notes: dict[str, Any]) -> None:
        self.calls.send(self.replication, json.dumps(notes).encode())

    def push(self, *bodies: bytes) -> None:
        for body in bodies:
            self.calls.send(self.replication, body)
        self.world.settle()


World.client_type = Client


def forged() -> bytes:
    return compact(FEED[5]).replace(b'"timestamp":', b'"timestamp":1', 1)


def forked() -> bytes:
    return compact(Message.create(AUTHOR, FEED[3], {"type": "post", "text": "other"}, 1.0))


def too_long() -> bytes:
    value = json.loads(FEED[5].text)
    value["content"] = {"type": "post", "text": "x" * 9_000}
    return stringify(value, indent=0).encode()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (forged, "signature does not verify"),
        (forked, "forked"),
        (lambda: compact(FEED[8]), "does not come after"),
        (too_long, "the limit is"),
        (lambda: b'{"signature":1}', "a message that is none"),
        (lambda: b"\xff", "cannot be read"),
    ],
)
def test_bad_messages(body: Callable[[], bytes], reason: str) -> None:
    world = World()
    good, bad = world.client(GOOD), world.client(BAD)
    good.replicate(5)
    bad.replicate()
    bad.push(body())
    assert world.closed == {bad.number}
    [(counted, times)] = world.peer.refused.items()
    assert reason in counted
    assert times == 1
    assert world.feeds.tips() == {KEY: 5}
    if reason != "forked":  # nobody is sent anything of a forked feed any more
        good.say({KEY: Note(7, True).number})
        world.settle()
        good.push(compact(FEED[5]), compact(FEED[6]))
        assert world.feeds.tips() == {KEY: 7}, "others go on"


def test_the_valid_part_of_a_batch_is_kept() -> None:
    world = World()
    bad = world.client(BAD)
    bad.replicate()
    bad.push(*map(compact, FEED[5:9]), compact(FEED[12]))
    assert world.closed == {bad.number}
    assert world.feeds.tips() == {KEY: 9}


def test_another_network() -> None:
    world = World()
    bad = world.client(BAD, bytes(32))
    world.settle()
    assert world.closed == {bad.number}
    assert world.peer.refused == {"a hello of another network": 1}


def test_a_handshake_that_stalls() -> None:
    world = World()
    bad = world.client(BAD)
    world.peer.on_stream(Received(bad.number, bad.take_output()[:10]), 0)
    for step in range(1, 5):
        world.peer.wake(step * S)
        world.peer.on_stream(Received(bad.number, b"x"), step * S)
        world.settle()
        assert world.closed == set()
    assert world.peer.next_deadline() == 5 * S
    world.peer.wake(5 * S)
    world.settle()
    assert world.closed == {bad.number}


def test_a_box_that_comes_twice() -> None:
    world = World()
    bad = world.client(BAD)
    bad.replicate()
    bad.calls.send(bad.replication, b"{}")
    data = bad.take_output()
    world.peer.on_stream(Received(bad.number, data), 0)
    world.settle()
    assert world.closed == set()
    world.peer.on_stream(Received(bad.number, data), 0)
    world.settle()
    assert world.closed == {bad.number}
    assert world.peer.refused == {"a header that cannot be opened": 1}


def test_an_oversized_packet() -> None:
    world = World()
    bad = world.client(BAD)
    world.settle()
    bad.channel.send(encode(Packet(1, bytes(5 << 20)))[:9])
    world.settle()
    assert world.closed == {bad.number}
    assert world.peer.refused == {"a body of … bytes": 1}


def test_ten_thousand_feeds_are_asked_for() -> None:
    world = World()
    bad = world.client(BAD)
    bad.replicate()
    feeds = [Identity.from_seed(number.to_bytes(32)).ref for number in range(10_000)]
    bad.say(dict.fromkeys(feeds, 0))
    world.settle()
    assert world.closed == {bad.number}
    assert world.peer.refused == {"more than … feeds or messages that are not wanted here": 1}
    assert world.peer.replication.exchanges() == 0


def test_notes_without_end() -> None:
    world = World()
    bad = world.client(BAD)
    bad.replicate()
    for number in range(60_000):
        if bad.number in world.closed:
            break
        bad.push(json.dumps({KEY: Note(5 + number % 2).number}).encode())
    assert world.peer.refused == {"too many notes": 1}


def test_calls_without_end() -> None:
    world = World()
    bad = world.client(BAD)
    world.settle()
    for _ in range(2_000):
        bad.calls.call(["createHistoryStream"], [{"id": KEY, "live": True}], "source")
    world.settle()
    [connection] = world.peer.connections.values()
    assert len(connection.sources) <= 256
    assert world.closed == set()


def test_a_peer_that_does_not_read_is_not_written_to() -> None:
    world = World(20)
    bad = world.client(BAD)
    world.settle()
    world.peer.on_stream(Full(bad.number), 0)
    bad.replicate(0)
    [connection] = world.peer.connections.values()
    assert connection.is_full
    assert world.peer.replication.output_due(bad.number) == 0
    assert (world.peer.next_deadline() or S) > 0, "it does not wake for what cannot be sent"
    world.peer.on_stream(Writable(bad.number), 0)
    world.settle()
    assert world.peer.replication.output_due(bad.number) is None


def test_a_host_that_was_closed_for_a_fault_waits_longer_each_time() -> None:
    world = World()
    waited = []
    for _ in range(8):
        bad = world.client(BAD, bytes(32))
        world.settle()
        assert bad.number in world.closed
        begun = world.now
        while world.client(BAD).number in refused_at_once(world):
            world.now += S // 2
        waited.append((world.now - begun) / S)
        world.peer.on_stream(Closed(min(world.clients), ""), world.now)
    assert waited == [1, 2, 4, 8, 16, 32, 60, 60]
    assert world.peer.refused["called again too soon after a fault"] > 100
    other = world.client(GOOD, host="10.0.0.10")
    world.settle()
    assert other.number not in world.closed


def refused_at_once(world: World) -> set[int]:
    return {action.stream for action in world.peer.take_actions() if isinstance(action, Close)}


def test_others_keep_nine_tenths_of_their_throughput() -> None:
    """Beside a client that calls again as soon as it may and pushes forged messages; processor time."""
    feed = generate_feed(Random(3), 2_000, AUTHOR)

    def seconds(is_disturbed: bool) -> float:
        world = World(0)
        good = world.client(GOOD, host="10.0.0.10")
        good.replicate(2_000)
        begun = time.process_time()
        for start in range(0, len(feed), 50):
            world.now += S // 100  # 5,000 messages a second
            if is_disturbed:
                bad = world.client(BAD)
                world.settle()
                if bad.number in world.peer.connections:
                    bad.replicate()
                    bad.push(forged())
            good.push(*map(compact, feed[start : start + 50]))
        spent = time.process_time() - begun
        assert world.feeds.tips() == {KEY: 2_000}
        assert (world.peer.refused.total() > 0) == is_disturbed
        return spent

    shares = [seconds(False) / seconds(True) for _ in range(3)]
    assert max(shares) > 0.9, shares
