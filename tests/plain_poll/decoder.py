"""Plain-poll, read from its stream: protocol.py is the protocol."""

from collections.abc import Iterator

from analysis.decode.protocols.protocol import ITEM, PAYLOAD, Declaration, Ends, Layer, Message
from analysis.packet_schema import Column
from base.key_log import Secrets
from forwarder.wire.name import to_uri
from plain_poll.protocol import LENGTH, PORT, Frames, read_request
from ssb.message import Message as SsbMessage
from ssb_over_ndn.naming import log_name

_REQUEST, _END = "request", "end"


class _Framer:
    """Reads requests of the end that opened the connection, and answers of the other."""

    def __init__(self, ends: Ends, secrets: Secrets) -> None:
        self._frames: dict[bool, Frames | None] = {True: Frames(), False: Frames()}

    def receive(self, from_opener: bool, data: bytes) -> Iterator[Message]:
        """Yield the messages that bytes complete."""
        frames = self._frames[from_opener]
        if frames is None:
            return
        for content in frames.receive(data):
            if from_opener:
                yield _request(content)
            elif content:
                yield _item(content)
            else:
                yield Message(_END, (("length", LENGTH),))

    def lose(self, from_opener: bool) -> None:
        """Read no more of a direction: nothing in it tells where a frame begins."""
        self._frames[from_opener] = None


def _request(content: bytes) -> Message:
    feed, after = read_request(content)
    parts = (("length", LENGTH), ("request", len(content)))
    return Message(_REQUEST, parts, to_uri(log_name(feed)), None, {"after": after})


def _item(content: bytes) -> Message:
    message = SsbMessage.from_text(content)
    parts = (("length", LENGTH), (PAYLOAD, len(content)))
    return Message(ITEM, parts, to_uri(log_name(message.author)), message.sequence)


DECLARATION = Declaration(
    "plain-poll",
    tcp_ports=frozenset((PORT,)),
    kinds={_REQUEST: "request", ITEM: "message of a feed", _END: "end of an answer"},
    control=frozenset((_REQUEST, _END)),
    layers=(Layer("length", "lengths of frames"), Layer("request", "requests")),
    columns=(Column("after", "of a request: the newest item that the subscriber has", "int64"),),
    framer=_Framer,
)
