"""Hostile peers: what they push is not stored, and what only they can have done closes them, for a reason."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from random import Random
from typing import Any

import pytest

from base.endpoint import Close, Full, Opened, Received, Send, Writable
from base.units import SECOND
from ssb.canonical import Value, stringify
from ssb.generate import generate_feed
from ssb.keys import Identity, blob_ref
from ssb.message import Message
from ssb.peer.access import OPEN_ACCESS, AccessPolicy
from ssb.peer.options import PeerOptions
from ssb.peer.peer import Peer
from ssb.replication.blobs import CREATE_WANTS, Blobs
from ssb.replication.ebt import REPLICATE, REQUEST
from ssb.replication.history import NAME as HISTORY
from ssb.replication.loose import STREAM, Loose
from ssb.replication.session import Note
from ssb.store.blobs import MemoryBlobs
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from ssb.transport.calls import Called, Calls, Finished
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake
from ssb.transport.muxrpc import Packet, encode
from ssb.transport.secure_stream import SecureStream

VICTIM, GOOD, BAD, AUTHOR = (Identity.from_seed(bytes([number]) * 32) for number in range(1, 5))
FEED = generate_feed(Random(1), 20, AUTHOR)
KEY = AUTHOR.ref


def compact(message: Message) -> bytes:
    return stringify(json.loads(message.text), indent=0).encode()


class Friends:
    """A policy that knows some peers, and takes others for guests."""

    def __init__(self, friends: AbstractSet[str], guests: AbstractSet[str] = frozenset()) -> None:
        self.friends = friends
        self.guests = guests

    def admits(self, peer: str) -> bool:
        return True

    def knows(self, peer: str) -> bool:
        return peer in self.friends

    def is_guest(self, peer: str) -> bool:
        return peer in self.guests

    def use_invite(self, peer: str, arguments: Sequence[Value]) -> Value:
        raise NotImplementedError


class World:
    """A peer that wants a feed, and raw clients of it."""

    client_type: "type[Client]"

    def __init__(
        self,
        held: int = 5,
        access: AccessPolicy = OPEN_ACCESS,
        connections: int = 200,
        blobs: Blobs | None = None,
    ) -> None:
        self.feeds = MemoryFeeds()
        self.feeds.append(FEED[:held], 0.0)
        options = PeerOptions(connections=connections)
        self.loose = Loose(self.feeds)
        self.peer = Peer(
            VICTIM,
            self.feeds,
            MemoryClocks(),
            [KEY],
            options,
            Random(1),
            access=access,
            blobs=blobs,
            loose=self.loose,
        )
        self.now = 0
        self.sent: Counter[int] = Counter()
        self.clients: dict[int, Client] = {}
        self.closed: set[int] = set()

    def client(self, identity: Identity, network: bytes = MAIN_NETWORK, host: str = "10.0.0.9") -> "Client":
        client = self.client_type(self, -1 - len(self.clients), identity, network)
        self.clients[client.number] = client
        self.peer.on_stream(Opened(client.number, (host, 1), 1), self.now)
        return client

    def tries(self, identity: Identity) -> int:
        """Let a client call; return its number."""
        client = self.client(identity)
        self.settle()
        return client.number

    def step(self, client: "Client") -> None:
        """Hand over what is on its way to a client, and what it says then."""
        for action in self.peer.take_actions():
            if isinstance(action, Close):
                self.closed.add(action.stream)
            elif isinstance(action, Send) and action.stream == client.number:
                client.receive(action.data)
        if client.number not in self.closed:
            self.peer.on_stream(Received(client.number, client.take_output()), self.now)

    def settle(self) -> None:
        """Hand over all that is on its way."""
        is_busy = True
        while is_busy:
            is_busy = False
            for action in self.peer.take_actions():
                if isinstance(action, Send):
                    self.sent[action.stream] += len(action.data)
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
        self.identity = identity
        self.channel = SecureStream(ClientHandshake(identity, VICTIM.public_key, network, b"e" * 32))
        self.calls = Calls()
        self.replication = 0
        self.called: list[tuple[str, ...]] = []
        self.refused: list[str] = []

    def receive(self, data: bytes) -> None:
        events = self.calls.receive(self.channel.receive(data))
        self.called += [event.name for event in events if isinstance(event, Called)]
        self.refused += [event.error for event in events if isinstance(event, Finished)]

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
        (forked, ""),
        (lambda: compact(FEED[8]), "does not come after"),
        (too_long, "the limit is"),
    ],
)
def test_bad_messages(body: Callable[[], bytes], reason: str) -> None:
    """Whoever has made them: they cost their feed on their connection."""
    world = World()
    good, bad = world.client(GOOD), world.client(BAD)
    good.replicate(5)
    bad.replicate()
    bad.push(body(), body())
    assert world.closed == set()
    assert not world.peer.connections.refused
    assert world.feeds.tips() == {KEY: 5}
    if not reason:  # nobody is sent anything of a forked feed any more
        assert list(world.feeds.forks()) == [KEY]
        return
    assert reason in world.peer.replication.set_aside[KEY].reason
    good.say({KEY: Note(7, True).number})
    world.settle()
    good.push(compact(FEED[5]), compact(FEED[6]))
    assert world.feeds.tips() == {KEY: 7}, "others go on"
    assert not world.peer.replication.set_aside


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b'{"signature":1}', "without an author"), (b"\xff", "cannot be read"), (b"1", "neither a message nor")],
)
def test_bodies_that_no_honest_peer_sends(body: bytes, reason: str) -> None:
    world = World()
    bad = world.client(BAD)
    bad.replicate()
    bad.push(*map(compact, FEED[5:9]), body)
    assert world.closed == {bad.number}
    [(counted, times)] = world.peer.connections.refused.items()
    assert reason in counted
    assert times == 1
    assert world.feeds.tips() == {KEY: 9}, "what came before is kept"


class Historian(Client):
    """A client that has no EBT, and takes note of what it is asked for."""

    def __init__(self, world: World, number: int, identity: Identity, network: bytes) -> None:
        super().__init__(world, number, identity, network)
        self.asked: dict[str, int] = {}

    def receive(self, data: bytes) -> None:
        for event in self.calls.receive(self.channel.receive(data)):
            if isinstance(event, Called) and event.name == HISTORY and isinstance(event.arguments[0], dict):
                self.asked[str(event.arguments[0]["id"])] = event.call


def test_one_without_ebt_whose_feed_was_refused_is_asked_for_others() -> None:
    world = World()
    world.client_type = Historian
    bad = world.client(BAD)
    assert isinstance(bad, Historian)
    world.settle()
    world.now = 4 * SECOND
    world.peer.wake(world.now)
    world.settle()
    assert [*bad.asked] == [KEY]
    bad.calls.answer(bad.asked[KEY], json.loads(forged()))
    world.settle()
    assert [*world.peer.replication.set_aside] == [KEY]
    world.peer.want(GOOD.ref, world.now)
    world.settle()
    assert [*bad.asked] == [KEY, GOOD.ref]


def test_another_network() -> None:
    world = World()
    bad = world.client(BAD, bytes(32))
    world.settle()
    assert world.closed == {bad.number}
    assert world.peer.connections.refused == {"a hello of another network": 1}


def test_a_handshake_that_stalls() -> None:
    world = World()
    bad = world.client(BAD)
    world.peer.on_stream(Received(bad.number, bad.take_output()[:10]), 0)
    for step in range(1, 5):
        world.peer.wake(step * SECOND)
        world.peer.on_stream(Received(bad.number, b"x"), step * SECOND)
        world.settle()
        assert world.closed == set()
    assert world.peer.next_deadline() == 5 * SECOND
    world.peer.wake(5 * SECOND)
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
    assert world.peer.connections.refused == {"a header that cannot be opened": 1}


def test_an_oversized_packet() -> None:
    world = World()
    bad = world.client(BAD)
    world.settle()
    bad.channel.send(encode(Packet(1, bytes(5 << 20)))[:9])
    world.settle()
    assert world.closed == {bad.number}
    assert world.peer.connections.refused == {"a body of … bytes": 1}


def test_ten_thousand_feeds_are_asked_for() -> None:
    """A pub does so that replicates as many: it is told that they are not here, and nothing is kept."""
    world = World()
    pub = world.client(GOOD)
    pub.replicate()
    feeds = [Identity.from_seed(number.to_bytes(32)).ref for number in range(10_000)]
    pub.say(dict.fromkeys(feeds, 0))
    world.settle()
    assert world.closed == set()
    assert world.peer.replication.exchanges() == 1
    assert world.peer.replication.sessions[pub.number].clock.keys() == {KEY}


def test_messages_that_nobody_has_asked_for() -> None:
    world = World()
    bad = world.client(BAD)
    bad.replicate()
    other = generate_feed(Random(2), 5_001, BAD)
    bad.push(*map(compact, other))
    assert world.closed == {bad.number}
    assert world.peer.connections.refused == {"more than … messages that are not wanted here": 1}
    assert BAD.ref not in world.feeds.tips()


def test_notes_without_end() -> None:
    world = World()
    bad = world.client(BAD)
    bad.replicate()
    for number in range(60_000):
        if bad.number in world.closed:
            break
        bad.push(json.dumps({KEY: Note(5 + number % 2).number}).encode())
    assert world.peer.connections.refused == {"too many notes": 1}


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
    assert (world.peer.next_deadline() or SECOND) > 0, "it does not wake for what cannot be sent"
    world.peer.on_stream(Writable(bad.number), 0)
    world.settle()
    assert world.peer.replication.output_due(bad.number) is None


def test_a_peer_that_was_closed_for_a_fault_waits_longer_each_time_and_its_neighbours_do_not() -> None:
    world = World()
    waited = []
    for _ in range(8):
        bad = world.client(BAD)
        bad.replicate()
        bad.push(b"1")
        assert bad.number in world.closed
        begun = world.now
        while world.tries(BAD) in world.closed:
            neighbour = world.client(GOOD)  # at the same address
            world.settle()
            assert neighbour.number not in world.closed
            world.now += SECOND // 2
        waited.append((world.now - begun) / SECOND)
    assert waited == [1, 2, 4, 8, 16, 32, 60, 60]
    assert world.peer.connections.refused["called again too soon after a fault"] > 100


def connected(world: World) -> set[str]:
    return {connection.remote for connection in world.peer.connections.values() if connection.remote}


@pytest.mark.parametrize("host", ["10.0.0.9", "10.0.0.10"])
def test_connections_that_say_nothing_keep_nobody_out(host: str) -> None:
    """Three hundred at once, and fifty a second, from the address of an honest newcomer or from another."""
    world = World()
    flood: list[int] = []

    def more(count: int) -> None:
        for _ in range(count):
            flood.append(world.client(BAD).number)
            world.clients[flood[-1]].take_output()  # it is not sent

    more(300)
    for second in range(20):
        newcomer = world.client(Identity.from_seed(bytes([100 + second]) * 32), host=host)
        reference = newcomer.identity.ref
        for _ in range(10):  # a fifth of a second for each step of its handshake
            more(10)
            world.now += SECOND // 5
            world.peer.wake(world.now)
            world.step(newcomer)
        assert reference in connected(world)
        assert newcomer.number not in world.closed
        world.settle()
        assert len(world.peer.connections) <= 400 + second
    assert world.peer.connections.refused["too many handshakes at once"] > 500


def test_half_of_the_places_are_for_those_whom_the_user_knows() -> None:
    friends = [Identity.from_seed(bytes([100 + number]) * 32) for number in range(12)]
    world = World(access=Friends({friend.ref for friend in friends}), connections=10)
    strangers = [Identity.from_seed(bytes([200 + number]) * 32) for number in range(8)]
    clients = [world.client(stranger, host=f"10.0.1.{number}") for number, stranger in enumerate(strangers)]
    world.settle()
    assert connected(world) == {stranger.ref for stranger in strangers[:5]}
    assert world.peer.connections.refused == {"too many connections": 3}
    clients[0].replicate()
    clients[0].push(compact(FEED[5]))
    for friend in friends[:9]:
        world.client(friend)
        world.settle()
    assert connected(world) == {friend.ref for friend in friends[:9]} | {strangers[0].ref}, (
        "the useful one stays"
    )
    for friend in friends[9:]:
        world.client(friend)
        world.settle()
    assert connected(world) == {friend.ref for friend in friends[:10]}
    world.client(friends[3])  # it has lost its connection, and does not know it yet
    world.settle()
    assert connected(world) == {friend.ref for friend in friends[:10]}


def test_a_guest_hears_no_call_whatever_is_wanted() -> None:
    blobs = Blobs(MemoryBlobs())
    world = World(access=Friends({GOOD.ref}, {BAD.ref}), blobs=blobs)
    blobs.want(blob_ref(bytes(32)))
    world.loose.want(FEED[9].id)
    good, guest = world.client(GOOD), world.client(BAD)
    world.settle()
    world.peer.query(KEY, world.now)
    blobs.want(blob_ref(bytes(31) + b"1"))
    world.now += 20 * SECOND  # beyond the wait for the other side's EBT, after which history is asked for
    world.peer.wake(world.now)
    world.settle()
    assert {STREAM, CREATE_WANTS, HISTORY} <= {*good.called}
    assert guest.called == []
    call = guest.calls.call(STREAM, [], "duplex")
    guest.calls.send(call, json.dumps({FEED[8].id: -1}).encode())
    world.settle()
    assert [*world.loose.wanted] == [FEED[9].id]


def test_a_guest_stays_one_when_its_invite_is_used_up() -> None:
    guests = {BAD.ref}
    world = World(access=Friends(set(), guests), blobs=Blobs(MemoryBlobs()))
    guest = world.client(BAD)
    world.settle()
    guests.clear()
    guest.calls.call(HISTORY, [{"id": KEY}], "source")
    guest.calls.call(CREATE_WANTS, [], "source")
    world.settle()
    world.peer.query(KEY, world.now)
    world.settle()
    assert guest.called == []
    assert guest.refused == ["an invite is for invite.use only"] * 2
    stranger = world.client(BAD)  # who calls again has no invite, and is any other peer
    world.settle()
    assert CREATE_WANTS in stranger.called


@pytest.mark.parametrize(("body", "stays"), [(b"1", False), (forged(), True)])
def test_a_hostile_peer_costs_others_little(
    body: bytes, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It calls again whenever it was closed. A call too soon costs a handshake, and a forged message that is
    pushed again and again is verified once for each batch of good ones."""
    feed = generate_feed(Random(3), 2_000, AUTHOR)
    verified: Counter[bool] = Counter()
    verify = Message.verify

    def counted(message: Message, hmac_key: bytes | None = None) -> None:
        verified[message == feed[message.sequence - 1]] += 1
        verify(message, hmac_key)

    monkeypatch.setattr(Message, "verify", counted)
    world = World(0)
    good = world.client(GOOD, host="10.0.0.10")
    good.replicate(2_000)
    calls: list[int] = []
    for start in range(0, len(feed), 50):
        world.now += SECOND // 100
        if not calls or calls[-1] in world.closed:
            bad = world.client(BAD)
            world.settle()
            calls.append(bad.number)
            if bad.number not in world.closed:
                bad.replicate(2_000)
        if bad.number not in world.closed:
            bad.push(*[body] * 50)
        good.push(*map(compact, feed[start : start + 50]))
    assert world.feeds.tips() == {KEY: 2_000}
    assert verified[True] == 2_000
    assert verified[False] <= (40 if stays else 0)
    assert len(calls) == (1 if stays else 40)
    assert all(world.sent[call] <= 200 for call in calls[1:])
