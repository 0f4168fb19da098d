"""Media over QUIC, read from its streams over QMux: feeds by relays."""

from collections.abc import Iterator
from typing import Final

from analysis.decode.protocols.protocol import ITEM, PAYLOAD, Declaration, Ends, Layer, Message
from analysis.packet_schema import integer
from base.key_log import Secrets
from forwarder.wire.name import to_uri
from ssb.moq import messages
from ssb.moq.fields import MOST
from ssb.moq.frames import Other, Parameters, Ping, Pong
from ssb.moq.hops import PORT
from ssb.moq.incoming import End, Incoming, Unit
from ssb.moq.messages import Head, Object, Track
from ssb.moq.tracks import feed_of, sequence_of
from ssb_over_ndn.naming import log_name

_HEAD: Final = "moq"
_KINDS: Final[dict[type, str]] = {
    Parameters: "setup",
    messages.Setup: "setup",
    Ping: "ping",
    Pong: "pong",
    messages.MaxRequestId: "max-request-id",
    messages.Subscribe: "subscribe",
    messages.SubscribeOk: "subscribe-ok",
    messages.Unsubscribe: "unsubscribe",
    messages.PublishDone: "publish-done",
    messages.Fetch: "fetch",
    messages.FetchOk: "fetch-ok",
    messages.FetchCancel: "fetch-cancel",
    End: "end",
    **dict.fromkeys((Other, messages.Unsupported, messages.Declined), "other"),
}


class _Framer:
    """See Framer."""

    def __init__(self, ends: Ends, secrets: Secrets) -> None:
        self._sides: dict[bool, Incoming | None] = {
            side: Incoming(from_client=side, streams=MOST) for side in (True, False)
        }
        self._asked: dict[tuple[bool, int], Track] = {}  # by the side that asks, and its Request ID
        self._aliases: dict[tuple[bool, int], Track] = {}  # by the side that answers

    def receive(self, from_opener: bool, data: bytes) -> Iterator[Message]:
        """Yield the messages that bytes complete. Raises ValueError."""
        side = self._sides[from_opener]
        if side is None:
            return
        for unit in side.receive(data):
            if unit.size:  # the end of a stream may come with its last object
                yield self._message(from_opener, unit)

    def on_gap(self, from_opener: bool) -> None:
        """Read no more of a direction: nothing in it tells where a record begins."""
        self._sides[from_opener] = None

    def _message(self, from_opener: bool, unit: Unit) -> Message:
        content, size = unit
        if isinstance(content, Object):
            return self._object(from_opener, content, size)
        track: Track | None = None
        match content:
            case messages.Subscribe() | messages.Fetch():
                track = self._asked[from_opener, content.request] = content.track
            case messages.SubscribeOk():
                track = self._asked.get((not from_opener, content.request))
                if track is not None:
                    self._aliases[from_opener, content.alias] = track
            case messages.FetchOk() | messages.PublishDone() | messages.Failed():
                track = self._asked.get((not from_opener, content.request))
            case messages.Unsubscribe() | messages.FetchCancel():
                track = self._asked.get((from_opener, content.request))
            case End():
                track = self._track(from_opener, content.head)
        if isinstance(content, messages.Failed):
            kind = "fetch-error" if content.is_fetch else "subscribe-error"
        else:
            kind = _KINDS[type(content)]
        fields = {"request": getattr(content, "request", None)}
        return Message(kind, ((_HEAD, size),), _feed(track), None, fields)

    def _track(self, from_opener: bool, head: Head) -> Track | None:
        if isinstance(head, messages.Subgroup):
            return self._aliases.get((from_opener, head.alias))
        return self._asked.get((not from_opener, head.request))

    def _object(self, from_opener: bool, content: Object, size: int) -> Message:
        head, location, payload, exists = content
        feed, sequence = _feed(self._track(from_opener, head)), sequence_of(location)
        parts = ((_HEAD, size - len(payload)), (PAYLOAD, len(payload)))
        fields = {"request": None if isinstance(head, messages.Subgroup) else head.request}
        if feed is None or sequence is None or not exists:
            return Message("object", ((_HEAD, size),), None, None, fields)
        return Message(ITEM, parts, feed, sequence, fields)


def _feed(track: Track | None) -> str | None:
    feed = None if track is None else feed_of(track)
    return None if feed is None else to_uri(log_name(feed))


DECLARATION: Final = Declaration(
    "moq",
    tcp_ports=frozenset((PORT,)),
    kinds={
        ITEM: "message of a feed",
        "object": "other object",
        "setup": "set-up",
        "max-request-id": "limit of requests",
        "subscribe": "subscription",
        "subscribe-ok": "its grant",
        "subscribe-error": "its refusal",
        "unsubscribe": "end of a subscription",
        "publish-done": "end of a subscription, by the publisher",
        "fetch": "request for past items",
        "fetch-ok": "its grant",
        "fetch-error": "its refusal",
        "fetch-cancel": "end of a request",
        "end": "end of a stream",
        "ping": "sign of life",
        "pong": "its answer",
        "other": "message or frame that relays here do not send",
    },
    control=frozenset(
        (
            *("subscribe", "subscribe-ok", "subscribe-error", "unsubscribe", "publish-done"),
            *("fetch", "fetch-ok", "fetch-error", "fetch-cancel", "end", "ping", "pong", "max-request-id"),
            "other",
        )
    ),
    layers=(Layer(_HEAD, "heads and messages of MOQT, and frames of QMux"),),
    columns=(integer("request", "ID of the subscription or fetch; null with its items"),),
    framer=_Framer,
)
