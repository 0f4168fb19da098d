"""MQTT read from captured streams: every byte belongs to a message and to a layer."""

import pytest

from analysis.decode.protocols.mqtt import DECLARATION
from analysis.decode.protocols.protocol import ITEM, PAYLOAD, Ends, Framer
from forwarder.wire.name import to_uri
from ssb.keys import Identity
from ssb.mqtt.packets import Connect, Connected, Ping, Publish, Published, Subscribe, Subscribed, encode
from ssb.mqtt.topics import topic_of
from ssb_over_ndn.naming import log_name

FEED = Identity.from_seed(bytes(32)).ref


@pytest.fixture
def framer() -> Framer:
    assert DECLARATION.framer is not None
    return DECLARATION.framer(Ends("10.0.0.1", 40000, "10.0.0.2", 1883), ())


@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_every_byte_has_a_layer_and_items_are_named(framer: Framer, piece: int) -> None:
    asked = [Connect("a", False, 60), Subscribe(1, ((topic_of(FEED, "+"), 1),)), Published(1), Ping()]
    given = [Connected(False), Subscribed(1, (1,)), Publish(topic_of(FEED, 3), b"text", 1), Publish("x", b"")]
    for from_opener, packets, kinds in (
        (True, asked, ["connect", "subscribe", "puback", "ping"]),
        (False, given, ["connack", "suback", ITEM, "publish"]),
    ):
        data = b"".join(map(encode, packets))
        found = [
            message
            for at in range(0, len(data), piece)
            for message in framer.receive(from_opener, data[at : at + piece])
        ]
        assert [message.kind for message in found] == kinds
        assert sum(message.size for message in found) == len(data)
        assert {message.kind for message in found} <= DECLARATION.kinds.keys()
    assert (found[2].feed, found[2].seq) == (to_uri(log_name(FEED)), 3)
    assert dict(found[2].parts)[PAYLOAD] == 4


def test_after_a_gap_nothing_tells_where_a_packet_begins(framer: Framer) -> None:
    framer.on_gap(True)
    assert [*framer.receive(True, encode(Ping()))] == []
    assert [message.kind for message in framer.receive(False, encode(Connected(False)))] == ["connack"]


def test_another_protocol_at_the_port_is_none(framer: Framer) -> None:
    with pytest.raises(ValueError, match="packet type"):
        list(framer.receive(True, b"\x00" * 9))
