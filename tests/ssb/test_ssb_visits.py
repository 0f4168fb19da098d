"""A peer that calls another: before that one says whether it is a room, it learns no wants."""

from random import Random
from typing import Any

import pytest
from test_ssb_hostile_peers import FEED, KEY, VICTIM

from base.endpoint import Close, Connect, Opened, Received, Send
from base.units import SECOND
from ssb.canonical import parse, stringify
from ssb.keys import Identity
from ssb.peer.options import PeerOptions
from ssb.peer.peer import Peer
from ssb.replication.ebt import REPLICATE, REQUEST
from ssb.replication.loose import STREAM, Loose
from ssb.rooms.room import ATTENDANTS, IS_ROOM, METADATA
from ssb.rooms.visits import Visits
from ssb.store.clocks import MemoryClocks
from ssb.store.memory import MemoryFeeds
from ssb.transport.calls import Called, Calls, Finished
from ssb.transport.handshake import MAIN_NETWORK, ServerHandshake
from ssb.transport.secure_stream import SecureStream

OTHER = Identity.from_seed(b"s" * 32)


class CalledPeer:
    """A peer that the one under test calls; it says what the test says."""

    def __init__(self) -> None:
        feeds = MemoryFeeds()
        feeds.append(FEED[:5], 0.0)
        visits = Visits(VICTIM.ref, lambda _: True, lambda _: False)
        self.peer = Peer(
            VICTIM,
            feeds,
            MemoryClocks(),
            [KEY],
            PeerOptions(),
            Random(1),
            loose=Loose(feeds),
            visits=visits,
        )
        self.peer.add(OTHER.ref, ("h", 1), 0)
        [self.stream] = [each.stream for each in self.peer.take_actions() if isinstance(each, Connect)]
        self.channel = SecureStream(ServerHandshake(OTHER, MAIN_NETWORK, b"e" * 32, lambda _: True))
        self.calls = Calls()
        self.called: dict[tuple[str, ...], int] = {}
        self.heard: dict[int, list[Any]] = {}
        self.refused: set[int] = set()
        self.is_closed = False
        self.now = 0
        self.peer.on_stream(Opened(self.stream, ("h", 1)), 0)
        self.settle()

    def settle(self) -> None:
        for _ in range(8):
            for action in self.peer.take_actions():
                self.is_closed |= isinstance(action, Close)
                if isinstance(action, Send):
                    for event in self.calls.receive(self.channel.receive(action.data)):
                        if isinstance(event, Called):
                            self.called[event.name] = event.call
                        elif isinstance(event, Finished):
                            self.refused.add(event.call)
                        else:
                            self.heard.setdefault(event.call, []).append(parse(event.body.decode()))
            if self.channel.remote:
                self.channel.send(self.calls.take_output())
            data = self.channel.take_output()
            if data and not self.is_closed:
                self.peer.on_stream(Received(self.stream, data), self.now)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += SECOND
            self.peer.wake(self.now)
            self.settle()

    def replicate(self) -> int:
        call = self.calls.call(REPLICATE, [dict(REQUEST)], "duplex")
        self.calls.send(call, b"{}")
        return call

    def says_it_is_none(self) -> None:
        for name in (METADATA, IS_ROOM):
            self.calls.end(self.called[name], "no such method")
            self.settle()


def test_calls_before_the_answer_wait_and_a_room_learns_nothing() -> None:
    other = CalledPeer()
    call = other.replicate()
    other.run(2)
    assert set(other.called) == {METADATA}
    assert not other.heard
    other.calls.answer(other.called[METADATA], {"name": "r", "membership": True, "features": []})
    other.settle()
    other.run(2)
    assert set(other.called) == {METADATA, ATTENDANTS}
    assert not other.heard
    assert call in other.refused


def test_calls_before_the_answer_are_served_if_it_is_no_room_over_one_session() -> None:
    other = CalledPeer()
    call = other.replicate()
    wants = other.calls.call(STREAM, [], "duplex")
    other.calls.send(wants, stringify({FEED[1].id: -1}, indent=0).encode())
    other.settle()
    other.says_it_is_none()
    other.run(2)
    assert REPLICATE not in other.called
    assert any(KEY in notes for notes in other.heard[call])
    assert other.heard[wants] == [{FEED[1].id: parse(FEED[1].text)}]
    assert [each.replication for each in other.peer.connections.values()] == [-call]


@pytest.mark.parametrize("calls_first", [False, True])
def test_who_never_answers_is_no_room(calls_first: bool) -> None:
    other = CalledPeer()
    call = other.replicate() if calls_first else 0
    other.run(2)
    assert not other.heard
    other.run(2)
    assert (REPLICATE in other.called) != calls_first
    if calls_first:
        assert any(KEY in notes for notes in other.heard[call])


def test_what_waits_is_bounded() -> None:
    """Who sends a lot before it answers is treated as no room: nothing is lost, and little is kept."""
    other = CalledPeer()
    wants = other.calls.call(STREAM, [], "duplex")
    [connection] = other.peer.connections.values()
    for _ in range(40):
        other.calls.send(wants, stringify({FEED[1].id: -1, "x" * 50_000: 0}, indent=0).encode())
        other.settle()
        assert connection.held_bytes < 1.1 * 2**20
    assert not connection.held
    assert other.heard[wants]
