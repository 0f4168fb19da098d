"""MQTT 3.1.1, read from its streams: feeds by a broker."""

from collections.abc import Iterator
from typing import Final

from analysis.decode.protocols.protocol import ITEM, PAYLOAD, Declaration, Ends, Layer, Message
from analysis.packet_schema import Column
from base.key_log import Secrets
from forwarder.wire.name import to_uri
from ssb.mqtt.broker import PORT
from ssb.mqtt.packets import (
    Connect,
    Connected,
    Disconnect,
    Packet,
    Ping,
    Pong,
    Publish,
    Published,
    Reader,
    Subscribe,
    Subscribed,
)
from ssb.mqtt.topics import split_topic
from ssb_over_ndn.naming import log_name

_HEAD: Final = "mqtt"
_KINDS: Final[dict[type[Packet], str]] = {
    Connect: "connect",
    Connected: "connack",
    Published: "puback",
    Subscribe: "subscribe",
    Subscribed: "suback",
    Ping: "ping",
    Pong: "pong",
    Disconnect: "disconnect",
}


class _Framer:
    """See Framer."""

    def __init__(self, ends: Ends, secrets: Secrets) -> None:
        self._readers: dict[bool, Reader | None] = {True: Reader(), False: Reader()}

    def receive(self, from_opener: bool, data: bytes) -> Iterator[Message]:
        """Yield the messages that bytes complete. Raises ValueError."""
        reader = self._readers[from_opener]
        if reader is None:
            return
        for packet, size in reader.receive(data):
            yield _message(packet, size)

    def on_gap(self, from_opener: bool) -> None:
        """Read no more of a direction: nothing in it tells where a packet begins."""
        self._readers[from_opener] = None


def _message(packet: Packet, size: int) -> Message:
    if not isinstance(packet, Publish):
        return Message(_KINDS[type(packet)], ((_HEAD, size),))
    item = split_topic(packet.topic)
    if item is None:
        return Message("publish", ((_HEAD, size),), None, None, {"topic": packet.topic})
    feed, sequence = item
    parts = ((_HEAD, size - len(packet.payload)), (PAYLOAD, len(packet.payload)))
    return Message(ITEM, parts, to_uri(log_name(feed)), sequence, {"topic": packet.topic})


DECLARATION: Final = Declaration(
    "mqtt",
    tcp_ports=frozenset((PORT,)),
    kinds={
        ITEM: "message of a feed",
        "publish": "other message",
        "puback": "acknowledgement",
        "connect": "request to connect",
        "connack": "its answer",
        "subscribe": "subscription",
        "suback": "its answer",
        "ping": "sign of life",
        "pong": "its answer",
        "disconnect": "farewell",
    },
    control=frozenset(("puback", "subscribe", "suback", "ping", "pong")),
    layers=(Layer(_HEAD, "heads and topics of MQTT"),),
    columns=(Column("topic", "of a message"),),
    framer=_Framer,
)
