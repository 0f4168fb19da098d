"""Relays of Media over QUIC: whatever happens, each reader has each object once and in order."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moq_world import IDLE, TRACK, World, text

from base.endpoint import Close, Closed, Connect, Ended, Full, Opened, Received, Send, Writable
from base.units import MS, SECOND
from ssb.moq.fields import MOST
from ssb.moq.followed import SUBSCRIPTION_BYTES
from ssb.moq.frames import Parameters, Ping, Pong, stream_frames
from ssb.moq.frames import encode as encode_frame
from ssb.moq.hops import PORT, Bounds
from ssb.moq.incoming import End, Incoming
from ssb.moq.messages import (
    CONTROL,
    VERSION,
    Declined,
    Failed,
    Fetch,
    FetchCancel,
    Fetched,
    FetchOk,
    Filter,
    Location,
    MaxRequestId,
    Object,
    PublishDone,
    Setup,
    Subgroup,
    Subscribe,
    SubscribeOk,
    Track,
    Unsubscribe,
    encode,
    encode_head,
    encode_object,
)
from ssb.moq.relay import Relay

DIAMOND = {"o": (), "a": ("o",), "b": ("o",), "c": ("a", "b"), "r": ("c",), "s": ("a",), "t": ("c", "b")}
HOPS = [("a", "o"), ("b", "o"), ("c", "a"), ("c", "b"), ("r", "c"), ("s", "a"), ("t", "c"), ("t", "b")]
READERS = ("r", "s", "t", "a")

names = st.sampled_from([*DIAMOND])
hops = st.sampled_from(HOPS)
steps = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 5)),
    st.tuples(st.just("follow"), st.sampled_from(READERS)),
    st.tuples(st.just("leave"), st.sampled_from(READERS)),
    st.tuples(st.just("restart"), names),
    st.tuples(st.just("break_off"), hops, st.booleans()),
    st.tuples(st.just("mend"), hops),
    st.tuples(st.just("reset"), hops),
    st.tuples(st.just("fill"), hops, st.booleans()),
    st.tuples(st.just("drain"), hops, st.booleans()),
    st.tuples(st.just("reroute"), st.sampled_from(["c", "t"]), st.booleans()),
    st.tuples(st.just("pass_time"), st.sampled_from([MS, SECOND, 4 * SECOND, 11 * SECOND])),
)


def contents(world: World, sender: str, receiver: str) -> list[Any]:
    """What one relay has said to another, session by session."""
    readers: dict[Any, Incoming] = {}
    found = []
    for place, there, data in world.said:
        if (place[0], there[0]) == (sender, receiver):
            reader = readers.setdefault(place, Incoming(from_client=place[1] > 0, streams=99))
            found += [unit.content for unit in reader.receive(data)]
    return found


def kinds(world: World, sender: str, receiver: str) -> list[type]:
    """The kinds of messages and objects in it."""
    frames = (Parameters, Ping, Pong, End)
    return [type(each) for each in contents(world, sender, receiver) if not isinstance(each, frames)]


def play(world: World, step: Any) -> None:
    match step:
        case ("break_off", hop, silent):
            world.break_off(*hop, silent=silent)
        case ("fill" | "drain" as what, (a, b), is_down):
            getattr(world, what)(*((b, a) if is_down else (a, b)))
        case ("mend" | "reset" as what, hop):
            getattr(world, what)(*hop)
        case ("reroute", name, is_turned):
            world.reroute(name, DIAMOND[name][:: -1 if is_turned else 1])
        case (what, argument):
            getattr(world, what)(argument)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25), st.sampled_from([0, 1, 3, 100]), st.integers(0, 1000))
def test_each_reader_has_each_object_once_and_in_order(story: list[Any], cache: int, seed: int) -> None:
    world = World(DIAMOND, cache, seed)
    for step in story:
        play(world, step)
        for got in world.got.values():
            assert got == [*range(len(got))]
    for hop in HOPS:
        world.mend(*hop)
        world.drain(*hop)
        world.drain(*hop[::-1])
    world.publish()
    world.pass_time(60 * SECOND)
    for name in world.follows:
        assert world.got[name] == [*range(world.published)], name
    assert not any(relay.counters.keys() - {"silence"} for relay in world.relays.values())
    for name in READERS:
        world.leave(name)
    world.pass_time(3 * IDLE)
    assert all(relay.state() == (0, 0) and relay.streams == 0 for relay in world.relays.values())


def test_a_relay_subscribes_once_for_all_and_unsubscribes_after_the_last() -> None:
    world = World({"o": (), "a": ("o",), **{f"r{number}": ("a",) for number in range(5)}})
    for number in range(5):
        world.follow(f"r{number}")
    world.publish(3)
    assert kinds(world, "a", "o").count(Subscribe) == 1
    assert kinds(world, "o", "a").count(Object) == 3
    assert sum(kinds(world, "a", f"r{number}").count(Object) for number in range(5)) == 15
    assert world.relays["a"].state() == (6, 6 * SUBSCRIPTION_BYTES + TRACK.size)
    for number in range(5):
        assert Unsubscribe not in kinds(world, "a", "o")
        world.leave(f"r{number}")
    assert kinds(world, "a", "o").count(Unsubscribe) == 1
    assert world.relays["a"].state() == (0, 0)


@pytest.mark.parametrize(("cache", "from_origin"), [(100, 20), (5, 35), (0, 40)])
def test_past_objects_come_from_the_cache_or_else_from_the_publisher(cache: int, from_origin: int) -> None:
    world = World({"o": (), "a": ("o",), "r": ("a",), "s": ("a",)}, cache)
    world.follow("r")
    world.publish(20)
    world.follow("s")
    assert world.got["s"] == [*range(20)]
    assert kinds(world, "o", "a").count(Object) == from_origin


def test_two_late_readers_cost_one_fetch_upstream() -> None:
    world = World({"o": (), "a": ("o",), "r": ("a",), "s": ("a",)})
    world.publish(20)
    for name in ("r", "s"):
        world.follow(name)
        assert world.got[name] == [*range(20)]
    assert kinds(world, "a", "o").count(Fetch) == 1
    assert kinds(world, "o", "a").count(Object) == 20


def test_a_silent_hop_is_given_up_and_another_relay_is_asked() -> None:
    world = World(DIAMOND)
    world.follow("r")
    world.publish(2)
    world.break_off("c", "a", silent=True)
    world.publish(2)
    assert world.got["r"] == [0, 1]
    world.pass_time(IDLE - 1)
    assert world.got["r"] == [0, 1]
    world.pass_time(1 + MS)
    assert world.got["r"] == [0, 1, 2, 3]
    assert kinds(world, "c", "b") == [Setup, Subscribe, Fetch]
    assert world.relays["c"].counters == {"silence": 1}


def test_a_hop_that_is_used_stays_open_and_one_that_is_not_is_closed() -> None:
    world = World({"o": (), "a": ("o",)})
    world.follow("a")
    world.pass_time(10 * IDLE)
    assert world.relays["o"].streams == 1
    pings = [content for content in contents(world, "a", "o") if isinstance(content, Ping)]
    assert len(pings) == 25  # every two fifths of the idle time
    world.leave("a")
    world.pass_time(2 * IDLE)
    assert world.relays["o"].streams == world.relays["a"].streams == 0


def test_a_relay_that_finds_no_source_turns_its_subscribers_away() -> None:
    world = World(DIAMOND)
    world.follow("t")
    world.publish(1)
    world.break_off("c", "a", silent=False)
    world.break_off("c", "b", silent=False)
    assert PublishDone in kinds(world, "c", "t")
    world.publish(1)
    assert world.got["t"] == [0, 1]  # by the other relay
    assert Subscribe in kinds(world, "t", "b")


def test_a_subscription_moves_to_a_better_relay_without_a_gap() -> None:
    world = World(DIAMOND)
    world.follow("r")
    world.publish(2)
    world.reroute("c", ("b", "a"))
    world.publish(2)
    assert world.got["r"] == [0, 1, 2, 3]
    assert kinds(world, "c", "a").count(Unsubscribe) == 1
    assert Fetch not in kinds(world, "c", "b")


def test_a_reader_that_takes_no_more_does_not_hold_the_others_up() -> None:
    world = World({"o": (), "a": ("o",), "r": ("a",), "s": ("a",)}, cache=3)
    world.follow("r")
    world.follow("s")
    world.fill("a", "r")
    world.publish(30)
    assert world.got["s"] == [*range(30)]
    assert world.got["r"] == []
    world.drain("a", "r")
    assert world.got["r"] == [*range(30)]
    assert Fetch in kinds(world, "a", "o")


def opened(relay: Relay, stream: int = -1) -> None:
    relay.on_stream(Opened(stream, ("192.0.2.1", 50_000), PORT), 0)
    hello = [encode_frame(Parameters(10_000)), *control(encode(Setup(True, (VERSION,), 100)))]
    relay.on_stream(Received(stream, b"".join(hello)), 0)
    relay.actions.clear()


def control(said: bytes, offset: int = 0) -> list[bytes]:
    return [*stream_frames(CONTROL, offset, said, is_last=False)]


def ask(relay: Relay, *messages: Any, stream: int = -1) -> list[Any]:
    """Send messages on an open session; return what the relay says to it."""
    offset = len(encode(Setup(True, (VERSION,), 100)))
    for message in messages:
        said = encode(message)
        relay.on_stream(Received(stream, b"".join(control(said, offset))), 0)
        offset += len(said)
    return [*relay.actions]


def test_what_breaks_the_rules_ends_the_session() -> None:
    subscribe = Subscribe(0, TRACK)
    for messages, why in (
        ([subscribe, Subscribe(2, TRACK)], "two subscriptions to a track"),
        ([Subscribe(1, TRACK)], "Request ID 1"),
        ([Subscribe(2, TRACK)], "Request ID 2"),
        ([SubscribeOk(7, 7, None)], "an answer to request 7, which is none"),
        ([Setup(True, (VERSION,), 100)], "SETUP comes once from each side"),
        ([MaxRequestId(100)], "a limit that does not rise"),
        ([Subscribe(2 * number, Track((b"x",), b"%d" % number)) for number in range(4)], "Request ID 6"),
    ):
        relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10, Bounds(requests=3))
        opened(relay)
        ask(relay, *messages)
        assert relay.counters == {why: 1}
        assert Close(-1, abort=True) in relay.actions
        assert relay.state() == (0, 0)


def test_what_cannot_be_had_is_refused() -> None:
    relay = Relay(lambda track: [], IDLE, 10)
    opened(relay)
    other = Track((b"x",), b"")
    relay.announce(TRACK)
    relay.publish(TRACK, b"x", 0)
    asked = [
        Subscribe(0, other),
        Subscribe(2, TRACK, Filter.ABSOLUTE_START, Location(0, 0)),
        Fetch(4, other, Location(0, 0), Location(0, 0)),
        Fetch(6, TRACK, Location(0, 1), Location(0, 9)),
        Subscribe(8, TRACK, is_forwarded=False),
        Fetch(10, TRACK, Location(1, 0), Location(1, 0)),
    ]
    said = b"".join(action.data for action in ask(relay, *asked) if isinstance(action, Send))
    relay.actions.clear()
    failed = [(0, False, 4), (2, False, 3), (4, True, 4), (6, True, 5), (8, False, 3), (10, True, 5)]
    for request, is_fetch, code in failed:
        assert encode(Failed(request, is_fetch, code)) in said
    assert relay.state() == (0, 0)
    with pytest.raises(ValueError, match="an object of 65537 bytes"):
        relay.publish(TRACK, bytes((1 << 16) + 1), 0)


def test_sessions_and_what_waits_for_them_are_bounded() -> None:
    relay = Relay(lambda track: [], IDLE, 10, Bounds(sessions=1, queued=1000))
    opened(relay)
    relay.on_stream(Opened(-2, ("192.0.2.2", 1), PORT), 0)
    assert relay.actions == [Close(-2, abort=True)]
    relay.on_stream(Full(-1), 0)
    asked = [Fetch(2 * number, Track((b"x",), b""), Location(0, 0), Location(0, 0)) for number in range(200)]
    ask(relay, *asked)
    assert relay.counters == {"too many sessions": 1, "it does not read": 1}
    assert relay.streams == 0


def test_a_cache_keeps_no_more_than_it_may() -> None:
    world = World({"o": (), "a": ("o",)}, cache=4)
    world.follow("a")
    world.publish(9)
    assert [number for _, number in world.relays["a"]._cache] == [5, 6, 7, 8]


def test_a_fetch_ends_with_the_subscription_that_it_belongs_to() -> None:
    world = World({"o": (), "a": ("o",), "b": ("o",), "c": ("a", "b")}, cache=0)
    world.follow("a")
    world.publish(5)
    world.break_off("a", "o", silent=True)
    world.follow("c")
    assert kinds(world, "c", "a") == [Setup, Subscribe, Fetch]
    world.pass_time(3 * IDLE)
    assert world.got["c"] == [0, 1, 2, 3, 4]  # by the other relay, though nobody mends the hop


def test_a_subscription_that_moves_back_before_it_was_granted_stays_where_it_is() -> None:
    world = World(DIAMOND)
    world.follow("r")
    world.publish(2)
    world.break_off("c", "b", silent=True)
    world.reroute("c", ("b", "a"))
    world.reroute("c", ("a", "b"))
    world.publish(1)
    assert world.got["r"] == [0, 1, 2]
    assert kinds(world, "c", "a").count(Subscribe) == 1
    assert Unsubscribe not in kinds(world, "c", "a")
    assert world.relays["c"].state() == (2, 2 * SUBSCRIPTION_BYTES + TRACK.size)
    assert not any(relay.counters for relay in world.relays.values())


def test_what_is_given_at_once_is_bounded_and_each_request_has_its_share() -> None:
    relay = Relay(lambda track: [], IDLE, 10, Bounds(queued=1000))
    relay.announce(TRACK)
    for _ in range(100):
        relay.publish(TRACK, bytes(100), 0)
    opened(relay)
    asked = b"".join(encode(Fetch(2 * at, TRACK, Location(0, 0), Location(0, 0))) for at in range(3))
    offset = len(encode(Setup(True, (VERSION,), 100)))
    relay.on_stream(Received(-1, b"".join(control(asked, offset))), 0)
    incoming, found, turns = Incoming(from_client=False, streams=9), list[Any](), 0
    list(incoming.receive(hello(10_000)))
    while relay.actions:
        (action,), relay.actions = relay.actions, []
        assert isinstance(action, Send)
        assert len(action.data) < 1300
        found += [unit.content for unit in incoming.receive(action.data)]
        turns += 1
        if turns == 4:
            assert {each.head.request for each in found if isinstance(each, Object)} == {0, 2, 4}
        if relay.next_deadline() == 0:
            relay.wake(0)
    for request in (0, 2, 4):
        numbers = [
            each.location.object
            for each in found
            if isinstance(each, Object) and each.head == Fetched(request)
        ]
        assert numbers == [*range(100)]
    assert relay.next_deadline() == IDLE


def test_a_full_connection_is_given_nothing_more() -> None:
    relay = Relay(lambda track: [], IDLE, 10, Bounds(queued=1000))
    relay.announce(TRACK)
    for _ in range(100):
        relay.publish(TRACK, bytes(100), 0)
    opened(relay)
    ask(relay, Fetch(0, TRACK, Location(0, 0), Location(0, 0)))
    relay.actions.clear()
    relay.on_stream(Full(-1), 0)
    relay.wake(0)
    assert relay.actions == []
    assert relay.next_deadline() == IDLE
    relay.on_stream(Writable(-1), 0)
    assert relay.actions


@pytest.mark.parametrize(("said_ms", "given_up_ms"), [(2000, 2000), (1, 10), (0, 10_000), (60_000, 10_000)])
def test_the_shorter_idle_time_holds_for_both(said_ms: int, given_up_ms: int) -> None:
    """RFC 9000, 10.1."""
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    relay.follow(TRACK, 0, 0)
    relay.on_stream(Opened(1, ("192.0.2.9", PORT)), 0)
    relay.on_stream(Received(1, encode_frame(Parameters(said_ms))), 0)
    relay.on_stream(Received(1, b"".join(control(encode(Setup(False, (VERSION,), 100))))), 0)
    assert relay.next_deadline() == given_up_ms * MS * 2 // 5
    relay.wake(given_up_ms * MS - 1)
    assert relay.counters == {}
    relay.wake(given_up_ms * MS)
    assert relay.counters == {"silence": 1}


def test_the_end_of_an_unused_session_is_no_fault() -> None:
    world = World({"o": (), "a": ("o",)})
    world.follow("a")
    world.leave("a")
    world.pass_time(2 * IDLE)
    assert world.relays["o"].streams == world.relays["a"].streams == 0
    assert not any(relay.counters for relay in world.relays.values())


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_fetch_waits_until_the_relay_knows_the_track(is_cut: bool) -> None:
    """8.3: a relay withholds FETCH_OK until it can answer."""
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    opened(relay)
    asked = [
        Fetch(0, TRACK, Location(0, 1), Location(0, 9)),
        Fetch(2, TRACK, Location(0, 3), Location(0, 0)),
    ]
    assert [type(action) for action in ask(relay, *asked)] == [Connect]
    relay.actions.clear()
    answers: list[Any] = [Failed(0, True, 2), Failed(2, True, 2)]
    if is_cut:
        relay.on_stream(Closed(1, "no way"), 0)
    else:
        relay.on_stream(Opened(1, ("192.0.2.9", PORT)), 0)
        relay.on_stream(Received(1, encode_frame(Parameters(10_000))), 0)
        offset = len(encode(Setup(False, (VERSION,), 100)))
        relay.on_stream(Received(1, b"".join(control(encode(Setup(False, (VERSION,), 100))))), 0)
        granted = encode(SubscribeOk(0, 7, Location(0, 2)))
        relay.on_stream(Received(1, b"".join(control(granted, offset))), 0)
        answers = [FetchOk(0, Location(0, 3)), Failed(2, True, 5)]
    said = b"".join(each.data for each in relay.actions if isinstance(each, Send) and each.stream == -1)
    for answer in answers:
        assert encode(answer) in said
    assert (relay.state() == (0, 0)) == is_cut


def fetching(relay: Relay) -> int:
    """Let a relay fetch three objects of a track; return the offset of the other side's next message."""
    relay.follow(TRACK, 1, 0)
    relay.on_stream(Opened(1, ("192.0.2.9", PORT)), 0)
    granted = encode(Setup(False, (VERSION,), 100)) + encode(SubscribeOk(0, 7, Location(0, 3)))
    relay.on_stream(Received(1, encode_frame(Parameters(10_000)) + b"".join(control(granted))), 0)
    said = b"".join(each.data for each in relay.actions if isinstance(each, Send))
    assert encode(Fetch(2, TRACK, Location(0, 1), Location(0, 4))) in said
    return len(granted)


@pytest.mark.parametrize("number", [0, 4, MOST])
def test_objects_that_were_not_asked_for_end_the_session(number: int) -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    fetching(relay)
    given = encode_head(Fetched(2)) + encode_object(Fetched(2), None, Location(0, number), b"x")
    relay.on_stream(Received(1, b"".join(stream_frames(3, 0, given, is_last=False))), 0)
    assert relay.counters == {"an object that was not asked for": 1}
    assert relay.received == []


def test_the_answer_to_a_fetch_may_not_end_before_it_begins() -> None:
    """9.17."""
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    offset = fetching(relay)
    least = encode(FetchOk(2, Location(0, 1)))
    relay.on_stream(Received(1, b"".join(control(least, offset))), 0)
    assert relay.counters == {}
    offset += len(least)
    relay.on_stream(Received(1, b"".join(control(encode(FetchOk(2, Location(0, 0))), offset))), 0)
    assert relay.counters == {"the answer to a fetch ends before it begins": 1}


def test_what_is_not_supported_is_refused_and_the_session_goes_on() -> None:
    relay = Relay(lambda track: [], IDLE, 10, Bounds(requests=4))
    relay.announce(TRACK)
    opened(relay)
    offset = len(encode(Setup(True, (VERSION,), 100)))
    others = ["06 0005 00 01 0161 00", "10 0001 00", "11 0005 02 01 0161 00", "1a 0001 08", "02 0001 04"]
    said = b"".join(map(bytes.fromhex, others)) + encode(Subscribe(6, TRACK))
    relay.on_stream(Received(-1, b"".join(control(said, offset))), 0)
    answers = b"".join(each.data for each in relay.actions if isinstance(each, Send))
    for answer in (bytes.fromhex("08 0003 00 03 00"), bytes.fromhex("13 0003 02 03 00")):
        assert answer in answers
    assert encode(SubscribeOk(6, 6, None)) in answers
    assert encode(MaxRequestId(12)) in answers  # requests that were refused are over
    assert relay.counters == {}
    assert [*relay.sessions[-1].asked] == [6]


def test_objects_that_do_not_exist_change_nothing() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    fetching(relay)
    head = encode_head(Subgroup(7, 0))
    gone = bytes.fromhex("04 00 01")
    relay.on_stream(Received(1, b"".join(stream_frames(3, 0, head + gone, is_last=False))), 0)
    assert relay.counters == {}
    assert relay.received == []
    new = encode_object(Subgroup(7, 0), 4, Location(0, 5), b"x")
    relay.on_stream(Received(1, b"".join(stream_frames(3, len(head + gone), new, is_last=False))), 0)
    assert [*relay._cache] == [(TRACK, 5)]


def given(relay: Relay, number: int, payload: bytes, data_stream: int, group: int = 0) -> None:
    """Let the relay that is asked open a stream of the subscription, and send an object on it."""
    head = Subgroup(7, group)
    said = encode_head(head) + encode_object(head, None, Location(group, number), payload)
    relay.on_stream(Received(1, b"".join(stream_frames(data_stream, 0, said, is_last=False))), 0)


def test_an_older_object_makes_the_largest_no_smaller_and_the_first_copy_is_kept() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 2)
    fetching(relay)
    given(relay, 2, b"old", 3)
    given(relay, 5, b"new", 7)
    given(relay, 5, b"forged", 11)
    assert relay._cache == {(TRACK, 2): b"old", (TRACK, 5): b"new"}
    given(relay, 4, b"late", 15)
    assert relay._cache == {(TRACK, 5): b"new", (TRACK, 4): b"late"}
    opened(relay)
    said = b"".join(each.data for each in ask(relay, Subscribe(0, TRACK)) if isinstance(each, Send))
    assert encode(SubscribeOk(0, 0, Location(0, 5))) in said


def test_no_fetch_asks_for_more_than_1024_objects() -> None:
    world = World({"o": (), "a": ("o",)}, cache=3000)
    for number in range(2100):
        world.relays["o"].publish(TRACK, text(number), 0)
    world.published = 2100
    world.follow("a")
    assert world.got["a"] == [*range(2100)]
    parts = [(each.start, each.end) for each in contents(world, "a", "o") if isinstance(each, Fetch)]
    assert parts == [
        (Location(0, 0), Location(0, 1024)),
        (Location(0, 1024), Location(0, 2048)),
        (Location(0, 2048), Location(0, 2100)),
    ]


def test_a_fetch_that_brings_nothing_is_tried_again_a_second_later() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    offset = fetching(relay)
    relay.actions.clear()
    relay.on_stream(Received(1, b"".join(control(encode(Failed(2, True, 6)), offset))), 0)
    given(relay, 5, b"new", 3)
    assert relay.actions == []
    assert relay.next_deadline() == SECOND
    relay.wake(SECOND - 1)
    assert relay.actions == []
    relay.wake(SECOND)
    said = b"".join(each.data for each in relay.actions if isinstance(each, Send))
    assert encode(Fetch(4, TRACK, Location(0, 1), Location(0, 5))) in said


def test_a_relay_that_is_alone_is_asked_again_at_once() -> None:
    world = World({"o": (), "a": ("o",)})
    world.follow("a")
    world.reset("a", "o")
    world.publish()
    assert world.got["a"] == [0]


def test_a_subscription_that_is_lost_while_it_moves_is_asked_for_once() -> None:
    world = World(DIAMOND)
    world.follow("r")
    world.reroute("c", ("b", "a"))
    world.reroute("c", ("a", "b"))
    world.fill("c", "b")
    world.reroute("c", ("b", "a"))
    world.reset("c", "a")
    world.drain("c", "b")
    world.publish()
    assert world.got["r"] == [0]
    assert kinds(world, "c", "b").count(Subscribe) == 2
    assert not any(relay.counters for relay in world.relays.values())


def test_words_for_faults_are_bounded() -> None:
    relay = Relay(lambda track: [], IDLE, 10)
    for stream in range(-1, -301, -1):
        opened(relay, stream)
        ask(relay, Subscribe(4 - 2 * stream, TRACK), stream=stream)
    opened(relay, -301)
    ask(relay, Subscribe(6, TRACK), stream=-301)
    assert relay.counters["Request ID 6"] == 2
    assert relay.counters.total() == 301
    assert len(relay.counters) <= 101
    assert relay.streams == 0


def test_of_two_sessions_with_a_relay_the_newer_one_is_used() -> None:
    """A relay that lost its power opens another session before the old one is given up."""
    relay = Relay(lambda track: [("192.0.2.1", PORT)], IDLE, 10)
    opened(relay, -1)
    opened(relay, -2)
    relay.follow(TRACK, 0, 0)
    assert [type(action) for action in relay.actions] == [Send]
    assert relay.actions[0].stream == -2


def granted(relay: Relay, stream: int, largest: Location | None) -> None:
    """Let the relay that is asked for a track begin a session, and grant the subscription."""
    relay.on_stream(Opened(stream, ("192.0.2.9", PORT)), 0)
    said = encode(Setup(False, (VERSION,), 100)) + encode(SubscribeOk(0, 7, largest))
    relay.on_stream(Received(stream, encode_frame(Parameters(10_000)) + b"".join(control(said))), 0)


def said_on(relay: Relay, stream: int) -> bytes:
    """What a relay says on a stream; it is taken."""
    actions, relay.actions = relay.actions, []
    return b"".join(each.data for each in actions if isinstance(each, Send) and each.stream == stream)


def hello(requests: int) -> bytes:
    """What a relay says first on a session that another relay has opened."""
    return encode_frame(Parameters(10_000)) + b"".join(
        control(encode(Setup(False, (VERSION,), 2 * requests)))
    )


def heard(relay: Relay, stream: int, requests: int = 10_000) -> list[Any]:
    """What a relay says after that; it is taken."""
    reader = Incoming(from_client=False, streams=99)
    list(reader.receive(hello(requests)))
    return [unit.content for unit in reader.receive(said_on(relay, stream))]


def test_what_waits_for_another_try_goes_on_as_soon_as_there_is_a_source() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    relay.follow(TRACK, 0, 0)
    relay.on_stream(Closed(1, "no way"), 0)
    assert relay.next_deadline() == SECOND
    opened(relay)
    ask(relay, Subscribe(0, TRACK))
    granted(relay, 2, Location(0, 3))
    assert encode(Fetch(2, TRACK, Location(0, 0), Location(0, 4))) in said_on(relay, 2)


def test_what_nobody_wants_is_not_tried_again() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    relay.follow(TRACK, 0, 0)
    relay.on_stream(Closed(1, "no way"), 0)
    relay.leave(TRACK, 0)
    assert relay.next_deadline() is None
    relay.wake(SECOND)
    assert relay.state() == (0, 0)


def test_the_last_reader_takes_a_fetch_with_it() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    fetching(relay)
    relay.actions.clear()
    relay.leave(TRACK, 0)
    said = said_on(relay, 1)
    assert encode(Unsubscribe(0)) in said
    assert encode(FetchCancel(2)) in said
    assert relay.sessions[1].open_requests() == []


def test_a_publisher_takes_no_objects_of_its_track_from_others() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    fetching(relay)
    relay.announce(TRACK)
    given(relay, 4, b"x", 3)
    assert relay._cache == {}


@pytest.mark.parametrize("largest", [Location(1, 5), Location(0, MOST)])
def test_other_groups_and_the_last_number_are_of_no_feed(largest: Location) -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    relay.follow(TRACK, 0, 0)
    granted(relay, 1, largest)
    given(relay, 0, b"x", 3, group=1)
    assert relay._cache == {}
    assert relay.received == []
    relay.actions.clear()
    opened(relay)
    ask(relay, Subscribe(0, TRACK))
    assert encode(SubscribeOk(0, 0, None)) in said_on(relay, -1)


def test_a_relay_that_is_behind_makes_the_largest_object_no_smaller() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    fetching(relay)
    relay.on_stream(Closed(1, "reset"), 0)
    granted(relay, 2, Location(0, 1))
    opened(relay)
    ask(relay, Subscribe(0, TRACK))
    assert encode(SubscribeOk(0, 0, Location(0, 3))) in said_on(relay, -1)


def test_what_is_known_is_fetched_while_the_source_is_sought() -> None:
    """9.17: the end is known; a fetch up to a later group gets all of this one."""
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    fetching(relay)
    for number in (1, 2, 3):
        given(relay, number, b"x", 4 * number - 1)
    relay.on_stream(Closed(1, "reset"), 0)
    opened(relay)
    ask(
        relay,
        Fetch(0, TRACK, Location(0, 1), Location(0, 4)),
        Fetch(2, TRACK, Location(0, 1), Location(1, 2)),
    )
    said = said_on(relay, -1)
    assert encode(FetchOk(0, Location(0, 4))) in said
    assert relay.sessions[-1].asked.keys() == {2}
    granted(relay, 2, Location(0, 3))
    assert encode(FetchOk(2, Location(0, 4))) in said_on(relay, -1)


def test_a_fetch_that_the_cache_can_answer_goes_on_without_a_source() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    fetching(relay)
    for number in (1, 2):
        given(relay, number, b"x", 4 * number - 1)
    opened(relay)
    relay.on_stream(Full(-1), 0)
    for message in (
        Fetch(0, TRACK, Location(0, 1), Location(0, 3)),
        Fetch(2, TRACK, Location(0, 3), Location(0, 4)),
    ):
        offset = len(encode(Setup(True, (VERSION,), 100))) + (len(encode(message)) if message.request else 0)
        relay.on_stream(Received(-1, b"".join(control(encode(message), offset))), 0)
    relay.on_stream(Closed(1, "reset"), 0)
    relay.on_stream(Closed(2, "no way"), 0)
    assert relay.sessions[-1].asked.keys() == {0}
    relay.on_stream(Writable(-1), 0)
    assert [each for each in heard(relay, -1) if isinstance(each, Object | End)] == [
        End(Fetched(2), False),
        Object(Fetched(0), Location(0, 1), b"x"),
        Object(Fetched(0), Location(0, 2), b"x"),
        End(Fetched(0), True),
    ]


def test_a_publisher_asks_nobody_for_its_own_track() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    relay.announce(TRACK)
    relay.reroute(0)
    assert relay.actions == []


def test_a_fetch_goes_on_if_a_move_is_given_up() -> None:
    routes = [("192.0.2.9", PORT)]
    relay = Relay(lambda track: routes, IDLE, 10)
    fetching(relay)
    relay.actions.clear()
    routes.insert(0, ("192.0.2.8", PORT))
    relay.reroute(0)
    assert relay.actions == [Connect(2, ("192.0.2.8", PORT))]
    routes.reverse()
    relay.reroute(0)
    assert said_on(relay, 1) == b""
    assert [request.part for request in relay.sessions[1].open_requests()] == [
        None,
        (Location(0, 1), Location(0, 4)),
    ]
    assert relay.sessions[2].open_requests() == []


def test_what_a_connection_has_taken_waits_no_more() -> None:
    relay = Relay(lambda track: [], IDLE, 10, Bounds(queued=1000))
    opened(relay)
    offset = len(encode(Setup(True, (VERSION,), 100)))
    for turn in range(5):
        relay.on_stream(Full(-1), 0)
        asked = [Subscribe(2 * (50 * turn + at), Track((b"x",), b"")) for at in range(50)]
        said = b"".join(map(encode, asked))
        relay.on_stream(Received(-1, b"".join(control(said, offset))), 0)
        offset += len(said)
        relay.on_stream(Writable(-1), 0)
    assert relay.counters == {}
    assert relay.streams == 1


def test_the_end_of_a_connection_is_answered() -> None:
    relay = Relay(lambda track: [], IDLE, 10)
    opened(relay)
    relay.on_stream(Ended(-1), 0)
    assert relay.actions == [Close(-1)]
    assert relay.streams == 0
    assert relay.next_deadline() is None


def test_a_silent_subscriber_is_forgotten() -> None:
    relay = Relay(lambda track: [], IDLE, 10)
    relay.announce(TRACK)
    opened(relay)
    ask(relay, Subscribe(0, TRACK))
    relay.wake(IDLE)
    assert relay.counters == {"silence": 1}
    assert relay.state() == (0, 0)


def test_fetches_that_are_over_allow_others() -> None:
    relay = Relay(lambda track: [], IDLE, 10, Bounds(requests=2))
    relay.announce(TRACK)
    relay.publish(TRACK, b"x", 0)
    opened(relay)
    ask(relay, *(Fetch(2 * at, TRACK, Location(0, 0), Location(0, 1)) for at in range(10)))
    limits = [each.requests for each in heard(relay, -1, 2) if isinstance(each, MaxRequestId)]
    assert limits == [2 * (2 + finished) for finished in range(1, 11)]
    assert relay.counters == {}
    assert relay.sessions[-1].asked == {}


def test_a_node_that_leaves_takes_no_others_with_it() -> None:
    world = World({"o": (), "a": ("o",), "r": ("a",)})
    world.follow("a")
    world.follow("r")
    world.leave("a")
    world.publish()
    assert world.got == {"o": [], "a": [], "r": [0]}


def test_sessions_that_are_over_make_room_for_others_and_leave_nothing() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10, Bounds(sessions=1, queued=500))
    relay.announce(TRACK)
    for _ in range(9):
        relay.publish(TRACK, bytes(100), 0)
    relay.follow(Track((b"x",), b""), 0, 0)
    for stream in (-1, -2, -3):
        opened(relay, stream)
        ask(relay, Fetch(0, TRACK, Location(0, 0), Location(0, 9)), stream=stream)
        assert relay.has_more
        relay.on_stream(Closed(stream, "reset"), 0)
        assert not relay.has_more
    relay.on_stream(Closed(1, "no way"), 0)
    assert relay.counters == {}
    assert not relay.queued


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([SubscribeOk(0, 7, None), SubscribeOk(2, 7, None)], "an alias that is in use"),
        ([SubscribeOk(0, 7, None), SubscribeOk(0, 8, None)], "a second answer"),
        ([FetchOk(0, Location(0, 1))], "an answer of another kind"),
        ([SubscribeOk(1, 7, None)], "an answer to request 1, which is none"),
        ([SubscribeOk(4, 7, None)], "an answer to request 4, which is none"),
        ([Setup(False, (VERSION,), 100)], "SETUP comes once"),
        ([MaxRequestId(100)], "a limit that does not rise"),
        ([Declined(0x13, 0)], "an answer to no request"),
    ],
)
def test_what_a_relay_that_is_asked_may_not_say_ends_the_session(messages: list[Any], why: str) -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    relay.follow(TRACK, 0, 0)
    relay.follow(Track((b"x",), b""), 0, 0)
    relay.on_stream(Opened(1, ("192.0.2.9", PORT)), 0)
    said = b"".join(map(encode, [Setup(False, (VERSION,), 100), *messages]))
    relay.on_stream(Received(1, encode_frame(Parameters(10_000)) + b"".join(control(said))), 0)
    ((found, count),) = relay.counters.items()
    assert why in found
    assert count == 1


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (Subscribe(0, TRACK), "SETUP is the first message"),
        (Setup(False, (VERSION,), 100), "SETUP comes once from each side"),
        (Setup(True, (1, VERSION - 1), 100), "no version that both know"),
    ],
)
def test_a_session_begins_with_the_setup_of_a_client(first: Any, why: str) -> None:
    relay = Relay(lambda track: [], IDLE, 10)
    relay.on_stream(Opened(-1, ("192.0.2.1", 50_000), PORT), 0)
    relay.on_stream(Received(-1, encode_frame(Parameters(1)) + b"".join(control(encode(first)))), 0)
    assert relay.counters == {why: 1}


def test_signs_of_life_are_answered_unless_the_connection_is_full() -> None:
    relay = Relay(lambda track: [], IDLE, 10)
    opened(relay)
    relay.on_stream(Received(-1, encode_frame(Ping(3))), 0)
    assert relay.actions == [Send(-1, encode_frame(Pong(3)))]
    relay.actions.clear()
    relay.on_stream(Full(-1), 0)
    relay.on_stream(Received(-1, encode_frame(Ping(4))), 0)
    assert relay.actions == []
    relay.on_stream(Received(-1, encode_frame(Pong(1))), 0)
    assert relay.counters == {"an answer to no ping": 1}


def test_what_is_taken_back_gets_the_end_of_its_stream() -> None:
    """5.1: the publisher resets the streams of a subscription that ends."""
    world = World({"o": (), "a": ("o",)})
    world.follow("a")
    world.publish()
    world.leave("a")
    assert contents(world, "o", "a")[-1] == End(Subgroup(0, 0), False)
    world.follow("a")
    world.publish()
    assert world.got["a"] == [0, 1]


def test_a_connection_that_does_not_open_is_given_up_after_the_idle_time() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    relay.follow(TRACK, 0, 5 * SECOND)
    relay.wake(5 * SECOND + IDLE - 1)
    assert relay.counters == {}
    relay.wake(5 * SECOND + IDLE)
    assert relay.counters == {"silence": 1}


@pytest.mark.parametrize(("allowed", "is_raised"), [(2, True), (4, True), (2, False)])
def test_requests_wait_until_the_other_side_allows_them(allowed: int, *, is_raised: bool) -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    tracks = [Track((b"x",), b"%d" % number) for number in range(4)]
    for track in tracks:
        relay.follow(track, 0, 0)
    relay.on_stream(Opened(1, ("192.0.2.9", PORT)), 0)
    setup = encode(Setup(False, (VERSION,), allowed))
    relay.on_stream(Received(1, encode_frame(Parameters(10_000)) + b"".join(control(setup))), 0)
    said = said_on(relay, 1)
    asked = [encode(Subscribe(2 * number, track)) in said for number, track in enumerate(tracks)]
    assert asked == [2 * number < allowed for number in range(4)]
    relay.leave(tracks[3], 0)
    if is_raised:
        more = control(encode(MaxRequestId(100)), len(setup))
        relay.on_stream(Received(1, b"".join(more)), 0)
        said += said_on(relay, 1)
        assert [encode(Subscribe(2 * at, tracks[at])) in said for at in range(4)] == [True, True, True, False]
    relay.on_stream(Closed(1, "reset"), 0)
    relay.wake(SECOND)
    assert [request.track for request in relay.sessions[2].open_requests()] == tracks[:3]


@pytest.mark.parametrize("count", [0, 2])
def test_the_end_of_a_subscription_says_how_many_streams_it_had(count: int) -> None:
    """9.12."""
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    opened(relay)
    ask(relay, Subscribe(0, TRACK))
    granted(relay, 1, None)
    for number in range(count):
        given(relay, number, b"x", 3 + 4 * number)
    relay.on_stream(Closed(1, "reset"), 0)
    relay.on_stream(Closed(2, "no way"), 0)
    assert encode(PublishDone(0, 0, min(count, 1))) in said_on(relay, -1)


def test_an_alias_may_be_used_again() -> None:
    relay = Relay(lambda track: [("192.0.2.9", PORT)], IDLE, 10)
    other = Track((b"x",), b"")
    relay.follow(TRACK, 0, 0)
    granted(relay, 1, None)
    relay.leave(TRACK, 0)
    relay.follow(other, 0, 0)
    offset = len(encode(Setup(False, (VERSION,), 100)) + encode(SubscribeOk(0, 7, None)))
    relay.on_stream(Received(1, b"".join(control(encode(SubscribeOk(2, 7, None)), offset))), 0)
    given(relay, 0, b"x", 3)
    assert relay.received == [(other, 0, b"x")]
    assert relay.counters == {}


def test_a_session_that_another_opens_has_the_idle_time_to_begin() -> None:
    relay = Relay(lambda track: [], IDLE, 10)
    relay.on_stream(Opened(-1, ("192.0.2.1", 50_000), PORT), 100 * SECOND)
    assert relay.next_deadline() == 100 * SECOND + IDLE
