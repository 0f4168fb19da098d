"""Media over QUIC read from captured streams: every byte belongs to a message and to a layer."""

import pytest
from moq_world import World, text

from analysis.decode.protocols.moq import DECLARATION
from analysis.decode.protocols.protocol import ITEM, PAYLOAD, Ends, Framer, Message
from forwarder.wire.name import to_uri
from ssb.keys import feed_ref
from ssb.moq.frames import Parameters
from ssb.moq.frames import encode as encode_frame
from ssb_over_ndn.naming import log_name


@pytest.fixture
def framer() -> Framer:
    assert DECLARATION.framer is not None
    return DECLARATION.framer(Ends("10.0.0.1", 40000, "10.0.0.2", 4443), ())


@pytest.mark.parametrize("piece", [1, 1000, 100_000])
def test_every_byte_has_a_layer_and_items_are_named(framer: Framer, piece: int) -> None:
    """What two relays say to each other: past items by a fetch, and later ones by a subscription."""
    world = World({"o": (), "a": ("o",)})
    world.publish(3)
    world.follow("a")
    world.publish(2)
    world.leave("a")
    found: dict[bool, list[Message]] = {True: [], False: []}
    size = {True: 0, False: 0}
    for (sender, _), _, data in world.said:
        side = sender == "a"
        size[side] += len(data)
        for at in range(0, len(data), piece):
            found[side] += framer.receive(side, data[at : at + piece])
    asked, given = found[True], found[False]
    assert [message.kind for message in asked] == ["setup", "setup", "subscribe", "fetch", "unsubscribe"]
    kinds = ["setup", "setup", "subscribe-ok", "fetch-ok", *[ITEM] * 5, "end"]
    assert [message.kind for message in given] == kinds
    assert {side: sum(message.size for message in of) for side, of in found.items()} == size
    assert {message.kind for message in (*asked, *given)} <= DECLARATION.kinds.keys()
    items = [message for message in given if message.kind == ITEM]
    assert [message.seq for message in items] == [1, 2, 3, 4, 5]
    assert {message.feed for message in (*items, *asked[2:], given[2], given[3], given[-1])} == {
        to_uri(log_name(feed_ref(bytes(32))))
    }
    assert [dict(message.parts)[PAYLOAD] for message in items] == [len(text(number)) for number in range(5)]
    assert [message.fields["request"] for message in items] == [2, 2, 2, None, None]


def test_after_a_gap_nothing_tells_where_a_record_begins(framer: Framer) -> None:
    framer.on_gap(True)
    assert [*framer.receive(True, encode_frame(Parameters(1)))] == []
    assert [message.kind for message in framer.receive(False, encode_frame(Parameters(1)))] == ["setup"]


def test_another_protocol_at_the_port_is_none(framer: Framer) -> None:
    with pytest.raises(ValueError, match="a frame of type"):
        list(framer.receive(True, b"\x02\x07\x00"))
