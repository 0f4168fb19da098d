"""MQTT 3.1.1: packets, and a client and a broker that talk to each other without a network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutants.bounds import Bound, check, line

from base.endpoint import Close, Closed, Connect, Ended, Opened, Received, Send
from base.units import SECOND
from ssb.keys import Identity, feed_ref
from ssb.mqtt.broker import PORT, Bounds, Broker, matches
from ssb.mqtt.client import Client
from ssb.mqtt.packets import (
    LARGEST,
    REJECTED,
    UNAVAILABLE,
    Connected,
    Disconnect,
    InvalidPacket,
    Packet,
    Ping,
    Pong,
    Publish,
    Published,
    Reader,
    Subscribe,
    Subscribed,
    encode,
)
from ssb.mqtt.packets import Connect as ConnectPacket
from ssb.mqtt.topics import split_topic, topic_of

VECTORS: list[tuple[Packet, str]] = [
    (ConnectPacket("a", False, 60), "100d00044d5154540400003c000161"),
    (Connected(True), "20020100"),
    (Publish("a/b", b"x"), "30060003612f6278"),
    (Publish("a/b", b"", 10, True, True), "3b070003612f62000a"),
    (Published(10), "4002000a"),
    (Subscribe(10, (("a/b", 1), ("c/d", 0))), "820e000a0003612f62010003632f6400"),
    (Subscribed(10, (1, 128)), "9004000a0180"),
    (Ping(), "c000"),
    (Pong(), "d000"),
    (Disconnect(), "e000"),
]
"""Packets as the figures and tables of the standard have them, octet by octet."""
ADDRESS = ("10.0.0.1", PORT)


@pytest.mark.parametrize(("packet", "octets"), VECTORS)
def test_a_packet_has_the_octets_of_the_standard(packet: Packet, octets: str) -> None:
    assert encode(packet).hex() == octets
    assert list(Reader().receive(bytes.fromhex(octets))) == [(packet, len(octets) // 2)]


@pytest.mark.parametrize("size", [0, 127, 128, 16_383, 16_384, 500_000])
def test_packets_come_in_any_pieces(size: int) -> None:
    packet = Publish("t", bytes(size), 7)
    data = encode(packet) * 2
    reader, found = Reader(), []
    for at in range(0, len(data), 1000):
        found += reader.receive(data[at : at + 1000])
    assert found == [(packet, len(data) // 2)] * 2


@pytest.mark.parametrize(
    "octets",
    [
        *(
            "0000",
            "1100",
            "f000",
            "3400",
            "3600",
            "30ffffffffff",
            "400100",
            "40020000",
            "82020001",
            "800400010001",
        ),
        *(
            "100d00044d5154540300003c000161",
            "100d00044d51545404c0003c000161",
            "300300012b",
            "3004000261ff",
            "c00100",
        ),
        *("30ffff7f", "20030000ff"),
    ],
)
def test_what_is_no_packet_is_refused(octets: str) -> None:
    with pytest.raises(InvalidPacket):
        list(Reader().receive(bytes.fromhex(octets)))


@given(st.sampled_from([encode(packet) for packet, _ in VECTORS]), st.data())
def test_any_bytes_are_a_packet_or_refused(octets: bytes, data: st.DataObject) -> None:
    changed = bytearray(octets)
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    changed += data.draw(st.binary(max_size=20))
    try:
        found = list(Reader().receive(bytes(changed)))
    except InvalidPacket:
        return
    for packet, size in found:
        again = encode(packet)
        assert list(Reader().receive(again)) == [(packet, len(again))]
        assert size >= 2


@pytest.mark.parametrize(
    ("wanted", "topic", "covers"),
    [
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("a/+", "a", False),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("+/b", "a/b", True),
        ("a", "b", False),
        ("#", "a/b", True),
    ],
)
def test_filters_cover_topics(wanted: str, topic: str, covers: bool) -> None:
    assert matches(wanted, topic) == covers


def test_a_topic_names_a_feed_and_a_number() -> None:
    feed = Identity.from_seed(bytes(32)).ref
    assert split_topic(topic_of(feed, 12)) == (feed, 12)
    assert matches(topic_of(feed, "+"), topic_of(feed, 12))
    for other in (
        "f",
        "f/x/1",
        topic_of(feed, "+"),
        topic_of(feed, 1).replace("f/", "g/", 1),
        topic_of(feed, "²"),
    ):
        assert split_topic(other) is None


class Wire:
    """A broker and its clients: streams without delay."""

    def __init__(self, inflight: int = 20) -> None:
        self.broker = Broker(inflight)
        self.clients: dict[str, Client] = {}
        self.streams: dict[int, tuple[str, int]] = {}
        self.inflight = inflight
        self.now = 0
        self.cut: set[str] = set()

    def client(self, name: str) -> Client:
        client = self.clients[name] = Client(name, ADDRESS, self.inflight)
        client.open(self.now)
        self.run()
        return client

    def run(self) -> None:
        while self._step():
            pass

    def _step(self) -> bool:
        for name, client in self.clients.items():
            for action in client.actions.copy():
                client.actions.remove(action)
                self._of_client(name, client, action)
                return True
        for action in self.broker.actions.copy():
            self.broker.actions.remove(action)
            self._of_broker(action)
            return True
        return False

    def _of_client(self, name: str, client: Client, action: object) -> None:
        if isinstance(action, Connect):
            if name in self.cut:
                client.on_stream(Closed(action.stream, "no way"), self.now)
                return
            number = -len(self.streams) - 1
            self.streams[number] = name, action.stream
            self.broker.on_stream(Opened(number, ("10.0.0.2", 1), PORT), self.now)
            client.on_stream(Opened(action.stream, ADDRESS), self.now)
            return
        number = next(n for n, at in self.streams.items() if at == (name, action.stream))
        if isinstance(action, Send) and name not in self.cut:
            self.broker.on_stream(Received(number, action.data), self.now)
        elif isinstance(action, Close):
            self.broker.on_stream(Ended(number), self.now)

    def _of_broker(self, action: object) -> None:
        name, stream = self.streams[action.stream]
        if isinstance(action, Send) and name not in self.cut:
            self.clients[name].on_stream(Received(stream, action.data), self.now)
        elif isinstance(action, Close):
            self.clients[name].on_stream(Closed(stream, "ended"), self.now)
            self.broker.on_stream(Closed(action.stream, ""), self.now)

    def break_off(self, name: str) -> None:
        """End a client's stream without a word, and let it have no other."""
        self.cut.add(name)
        number, (_, stream) = [each for each in self.streams.items() if each[1][0] == name][-1]
        self.broker.on_stream(Closed(number, "reset"), self.now)
        self.clients[name].on_stream(Closed(stream, "reset"), self.now)

    def mend(self, name: str) -> None:
        self.cut.remove(name)
        self.now += SECOND
        self.clients[name].wake(self.now)
        self.run()


def topics(client: Client) -> list[str]:
    return [topic for topic, _ in client.received]


def test_who_subscribes_gets_what_is_retained_and_what_comes() -> None:
    wire = Wire()
    author, reader = wire.client("author"), wire.client("reader")
    author.publish("f/1", b"one", wire.now)
    wire.run()
    reader.subscribe(["f/+"], wire.now)
    wire.run()
    author.publish("f/2", b"two", wire.now)
    author.publish("g/1", b"other", wire.now)
    wire.run()
    assert reader.received == [("f/1", b"one"), ("f/2", b"two")]
    assert author.waiting == 0
    assert wire.broker.retained == {"f/1": (b"one", 1), "f/2": (b"two", 1), "g/1": (b"other", 1)}
    assert wire.broker.retained_bytes == 11
    assert wire.broker.state() == (1, 4)


def test_a_session_outlasts_its_streams() -> None:
    wire = Wire()
    author, reader = wire.client("author"), wire.client("reader")
    reader.subscribe(["f/+"], wire.now)
    wire.run()
    wire.break_off("reader")
    for number in range(30):
        author.publish(f"f/{number}", b"x", wire.now)
    wire.run()
    assert reader.received == []
    wire.mend("reader")
    assert topics(reader) == [f"f/{number}" for number in range(30)]
    wire.break_off("author")
    author.publish("f/30", b"x", wire.now)
    wire.mend("author")
    assert topics(reader)[-1] == "f/30"
    assert author.waiting == 0


def test_no_more_is_under_way_than_allowed() -> None:
    wire = Wire(inflight=3)
    author = Client("author", ADDRESS, 3)
    author.open(0)
    author.on_stream(Opened(1, ADDRESS), 0)
    author.on_stream(Received(1, encode(Connected(False))), 0)
    author.actions.clear()
    for number in range(9):
        author.publish(f"f/{number}", b"x", 0)
    assert len(author.actions) == 3
    author.on_stream(Received(1, encode(Published(1))), 0)
    assert len(author.actions) == 4
    assert author.waiting == 8
    assert wire.inflight == 3


def test_the_broker_turns_away_what_breaks_the_rules() -> None:
    for data, why in (
        (encode(Ping()), "CONNECT is a client's first packet, and comes once"),
        (encode(ConnectPacket("a", True, 0)) * 2, "CONNECT is a client's first packet, and comes once"),
        (encode(ConnectPacket("a", True, 0)) + encode(Pong()), "a packet that brokers send"),
        (b"\x00\x00", "packet type 0"),
    ):
        broker = Broker(20)
        broker.on_stream(Opened(-1, ADDRESS, PORT), 0)
        broker.on_stream(Received(-1, data), 0)
        assert broker.counters == {why: 1}
        assert broker.actions[-1] == Close(-1, abort=True)
        assert broker.streams == 0


def test_a_silent_client_is_given_up_and_one_that_pings_is_not() -> None:
    broker = Broker(20)
    broker.on_stream(Opened(-1, ADDRESS, PORT), 0)
    broker.on_stream(Received(-1, encode(ConnectPacket("a", False, 10))), 0)
    assert broker.next_deadline() == 15 * SECOND
    broker.on_stream(Received(-1, encode(Ping())), 10 * SECOND)
    broker.wake(15 * SECOND)
    assert broker.streams == 1
    broker.wake(25 * SECOND)
    assert broker.counters == {"silence": 1}
    wire = Wire()
    client = wire.client("a")
    wire.now = client.next_deadline() or 0
    client.wake(wire.now)
    wire.run()
    assert wire.now == 60 * SECOND
    assert (client.next_deadline() or 0) == 120 * SECOND


def test_a_second_stream_of_a_client_takes_over() -> None:
    broker = Broker(20)
    for stream in (-1, -2):
        broker.on_stream(Opened(stream, ADDRESS, PORT), 0)
        broker.on_stream(Received(stream, encode(ConnectPacket("a", False, 0))), 0)
    assert broker.counters == {"taken over": 1}
    assert Close(-1, abort=True) in broker.actions
    assert broker.actions[-1] == Send(-2, encode(Connected(True)))


def test_a_client_that_has_left_does_not_come_back() -> None:
    client = Wire().client("a")
    client.close()
    client.on_stream(Closed(1, "ended"), 0)
    assert client.next_deadline() is None


def test_a_subscription_that_was_lost_is_asked_for_again() -> None:
    wire = Wire()
    author, reader = wire.client("author"), wire.client("reader")
    wire.break_off("reader")
    reader.subscribe(["f/+"], wire.now)
    author.publish("f/1", b"x", wire.now)
    wire.run()
    wire.mend("reader")
    assert topics(reader) == ["f/1"]


def test_the_lower_quality_of_service_counts() -> None:
    wire = Wire()
    author, reader = wire.client("author"), wire.client("reader")
    stream = next(number for number, (name, _) in wire.streams.items() if name == "reader")
    wire.broker.on_stream(Received(stream, encode(Subscribe(7, (("f/+", 0), ("g/+", 1))))), wire.now)
    wire.broker.actions.clear()
    for topic in ("f/1", "g/1"):
        author.publish(topic, b"x", wire.now)
    for action in author.actions:
        wire.broker.on_stream(Received(min(wire.streams, key=abs), action.data), wire.now)
    sent = [action.data for action in wire.broker.actions if action.stream == stream]
    assert sent == [encode(Publish("f/1", b"x")), encode(Publish("g/1", b"x", 1))]
    assert reader.received == []


def test_an_empty_message_takes_the_retained_one_back() -> None:
    wire = Wire()
    author = wire.client("author")
    for payload in (b"one", b""):
        author.publish("f/1", payload, wire.now)
        wire.run()
    assert wire.broker.retained == {}
    assert wire.broker.retained_bytes == 0


def test_a_clean_session_ends_with_its_stream() -> None:
    broker = Broker(20)
    for stream, known in ((-1, False), (-2, False)):
        broker.on_stream(Opened(stream, ADDRESS, PORT), 0)
        broker.on_stream(Received(stream, encode(ConnectPacket("a", stream == -1, 0))), 0)
        assert broker.actions[-1] == Send(stream, encode(Connected(known)))
        broker.on_stream(Received(stream, encode(Subscribe(1, (("f/+", 1),)))), 0)
        broker.on_stream(Closed(stream, "reset"), 0)
    assert broker.state() == (1, 4)


def test_nothing_counts_after_a_client_has_left() -> None:
    broker = Broker(20)
    broker.on_stream(Opened(-1, ADDRESS, PORT), 0)
    first = encode(ConnectPacket("a", False, 0))
    broker.on_stream(Received(-1, first + encode(Disconnect()) + first), 0)
    assert broker.streams == 0
    assert not broker.counters


@pytest.mark.parametrize(
    "packet",
    [
        ConnectPacket("a\0b", True, 0),
        Publish("a\0b", b"x"),
        Subscribe(1, (("a/#/b", 1),)),
        Subscribe(1, (("a#", 1),)),
        Subscribe(1, (("a/+b", 1),)),
        Subscribe(1, (("", 1),)),
        Subscribe(1, (("a", 3),)),
        Publish("", b"x"),
        Publish("f/1", bytes(LARGEST - 5)),
    ],
)
def test_what_the_standard_forbids_is_refused(packet: Packet) -> None:
    with pytest.raises(InvalidPacket):
        list(Reader().receive(encode(packet)))


@pytest.mark.parametrize("number", ["0", "007", "9" * 4000, str(1 << 63), ""])
def test_numbers_that_no_message_has_are_no_topics_of_feeds(number: str) -> None:
    topic = topic_of(feed_ref(bytes(32)), "+").replace("+", number)
    assert split_topic(topic) is None


def opened(broker: Broker, stream: int, *packets: Packet) -> list[object]:
    """Open a stream and send packets on it; return what the broker does."""
    broker.actions.clear()
    broker.on_stream(Opened(stream, ADDRESS, PORT), 0)
    broker.on_stream(Received(stream, b"".join(map(encode, packets))), 0)
    return [*broker.actions]


def test_a_client_beyond_the_sessions_is_told_that_the_server_is_unavailable() -> None:
    broker = Broker(20, Bounds(sessions=2))
    for stream, name in ((-1, "a"), (-2, "b")):
        assert opened(broker, stream, ConnectPacket(name, False, 0))[-1] == Send(
            stream, encode(Connected(False))
        )
        broker.on_stream(Closed(stream, "reset"), 0)
    refused = [Send(-3, encode(Connected(False, UNAVAILABLE))), Close(-3)]
    assert opened(broker, -3, ConnectPacket("c", False, 0)) == refused
    assert broker.counters == {"too many sessions": 1}
    assert broker.streams == 0
    assert opened(broker, -4, ConnectPacket("a", False, 0)) == [Send(-4, encode(Connected(True)))]
    opened(broker, -5, ConnectPacket("b", True, 0), Disconnect())  # a clean session makes room
    assert opened(broker, -6, ConnectPacket("c", False, 0)) == [Send(-6, encode(Connected(False)))]


def test_clients_without_an_id_have_a_session_each_that_is_not_kept() -> None:
    broker = Broker(20)
    for stream in (-1, -2):
        assert opened(broker, stream, ConnectPacket("", True, 0)) == [Send(stream, encode(Connected(False)))]
    assert not broker.counters, "the second does not take over from the first"
    refused = [Send(-3, encode(Connected(False, REJECTED))), Close(-3)]
    assert opened(broker, -3, ConnectPacket("", False, 0)) == refused


def test_a_client_that_is_refused_comes_again() -> None:
    client = Client("c", ADDRESS, 20)
    client.open(0)
    client.on_stream(Opened(1, ADDRESS), 0)
    client.publish("f/1", b"x", 0)
    client.on_stream(Received(1, encode(Connected(False, UNAVAILABLE))), 0)
    client.on_stream(Closed(1, "ended"), 0)
    client.wake(SECOND)
    assert client.actions[-1] == Connect(2, ADDRESS)
    assert client.waiting == 1


def test_streams_without_a_session_are_bounded_in_number_and_time() -> None:
    broker = Broker(20, Bounds(sessions=2))
    for stream in (-1, -2):
        opened(broker, stream)
    assert opened(broker, -3) == [Close(-3, abort=True)]
    assert broker.streams == 2
    broker.on_stream(Received(-1, encode(ConnectPacket("a", False, 0))), 0)
    assert opened(broker, -4) == []
    assert broker.next_deadline() == 10 * SECOND
    broker.wake(10 * SECOND)
    assert broker.streams == 1
    assert broker.counters == {"too many streams": 1, "silence": 2}
    assert broker.next_deadline() is None


@pytest.mark.parametrize("is_away", [False, True])
def test_a_session_that_would_hold_too_much_ends_and_begins_anew(is_away: bool) -> None:
    wire = Wire(inflight=1)
    wire.broker = Broker(1, Bounds(session_bytes=1000))
    author, reader = wire.client("author"), wire.client("reader")
    reader.subscribe(["f/1"], wire.now)
    wire.run()
    if is_away:
        wire.break_off("reader")
    else:
        wire.cut.add("reader")  # it acknowledges nothing
    for number in range(9):
        author.publish("f/1", bytes(40) + bytes((number,)), wire.now)
        wire.run()
        assert wire.broker.state()[0] <= 1 + 8  # of 67 bytes and 108
    for number in range(9):
        author.publish("f/1", bytes(40) + bytes((number,)), wire.now)
    wire.run()
    assert wire.broker.counters == {"more state than a session may have": 1}
    assert wire.broker.state() == (0, 0)
    assert author.waiting == 0
    wire.mend("reader")
    assert reader.received[-1] == ("f/1", bytes(40) + bytes((8,)))


def test_a_subscription_that_is_too_large_ends_its_session() -> None:
    broker = Broker(20, Bounds(session_bytes=1000))
    first = ConnectPacket("a", False, 0)
    some = tuple((f"f/{number}", 1) for number in range(14))
    opened(broker, -1, first, Subscribe(1, some), Subscribe(2, some))
    assert broker.state()[0] == 14
    broker.on_stream(Received(-1, encode(Subscribe(3, (("f/+", 1),)))), 0)
    assert broker.actions[-1] == Close(-1, abort=True)
    assert broker.state() == (0, 0)


def test_what_is_acknowledged_is_taken_from_a_sessions_bytes() -> None:
    wire = Wire()
    wire.broker = Broker(20, Bounds(session_bytes=300))
    author, reader = wire.client("author"), wire.client("reader")
    reader.subscribe(["f/+"], wire.now)
    for number in range(50):
        author.publish(f"f/{number}", bytes(100), wire.now)
        wire.run()
    assert len(reader.received) == 50
    assert not wire.broker.counters


def test_who_would_have_too_much_retained_is_closed() -> None:
    broker = Broker(20, Bounds(retained_bytes=500))
    first = ConnectPacket("a", False, 0)
    kept = [Publish(f"f/{number}", bytes(100), 1 + number, is_retained=True) for number in range(3)]
    assert opened(broker, -1, first, *kept[:2])[-1] == Send(-1, encode(Published(2)))
    broker.on_stream(Received(-1, encode(kept[2])), 0)
    assert broker.actions[-1] == Close(-1, abort=True)  # and no PUBACK
    assert broker.counters == {"more than may be retained": 1}
    assert [*broker.retained] == ["f/0", "f/1"]
    anew = [kept[1]._replace(payload=b"y"), kept[0]._replace(payload=b""), kept[2]]
    opened(broker, -2, first, *anew)
    assert [*broker.retained] == ["f/1", "f/2"]
    assert broker.retained_bytes == 101


BOUNDS = [
    Bound(
        "sessions",
        line(Broker, "_connect", "len(self._sessions) >= self._bounds.sessions", "False"),
        test_a_client_beyond_the_sessions_is_told_that_the_server_is_unavailable,
    ),
    Bound(
        "streams without a session",
        line(
            Broker, "on_stream", "len(self._readers) - len(self._clients) >= self._bounds.sessions", "False"
        ),
        test_streams_without_a_session_are_bounded_in_number_and_time,
    ),
    Bound(
        "time of a stream without a session",
        line(Broker, "on_stream", "self._ends.set(stream, now + _FIRST_WITHIN)", "pass"),
        test_streams_without_a_session_are_bounded_in_number_and_time,
    ),
    Bound(
        "messages of a session",
        line(Broker, "_deliver", "self._grow(name, _size(message.topic, message.payload))", "True"),
        lambda: test_a_session_that_would_hold_too_much_ends_and_begins_anew(is_away=True),
    ),
    Bound(
        "filters of a session",
        line(Broker, "_grow", "session.size <= self._bounds.session_bytes", "True"),
        test_a_subscription_that_is_too_large_ends_its_session,
    ),
    Bound(
        "retained messages",
        line(Broker, "_retain", "self._retained_size + added - freed > self._bounds.retained_bytes", "False"),
        test_who_would_have_too_much_retained_is_closed,
    ),
]


@pytest.mark.patches
@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
def test_without_its_bound_a_test_fails(bound: Bound) -> None:
    check(bound)
