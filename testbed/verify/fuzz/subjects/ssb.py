"""A Scuttlebutt peer under any bytes of another: it closes, and stores only signed messages and contents.

An input is a sequence of events (`events.py`). Streams are not encrypted, as no mutation would pass the
boxes; handshake and boxes are fuzzed separately. A second peer is connected and must not be affected.
"""

from hashlib import sha256
from random import Random

from base.endpoint import Close, Closed, Opened, Received, Send
from base.units import SECOND
from ssb.canonical import InvalidJson, parse
from ssb.detached import (
    SALT_BYTES,
    InvalidContent,
    Reference,
    attach,
    detach,
    reference_of,
    request,
    requested_by,
)
from ssb.generate import generate_feed
from ssb.keys import Identity, blob_ref
from ssb.message import InvalidMessage, Message
from ssb.peer.options import PeerOptions
from ssb.peer.peer import Peer
from ssb.replication.blobs import Blobs
from ssb.store.blobs import MemoryBlobs
from ssb.store.clocks import MemoryClocks
from ssb.store.contents import Contents, State
from ssb.store.memory import MemoryFeeds
from ssb.transport.box_stream import BoxError, Unboxer
from ssb.transport.calls import FORMS
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake, HandshakeError, ServerHandshake
from ssb.transport.muxrpc import BodyType, Packet, encode
from ssb.transport.secure_stream import PLAIN_MARK
from testbed.verify.fuzz.subjects.events import Event, Timed, playing
from testbed.verify.fuzz.subjects.suites import check_suites
from testbed.verify.fuzz.subjects.wire import expect

RAW, REQUEST, PART, END, HANDSHAKE, BOXES, ANSWER = range(7)
NAMES = (
    '["ebt","replicate"]',
    '["createHistoryStream"]',
    '["blobs","createWants"]',
    '["blobs","get"]',
    '["blobs","has"]',
    '["gossip","ping"]',
    '["whoami"]',
    '["invite","use"]',
    '"manifest"',
    "[]",
)
"""Of calls, as JSON, by an event's index."""

PEER, OTHER, GOOD, AUTHOR = (Identity.from_seed(bytes([number]) * 32) for number in range(1, 5))
NAMED, DATA = detach(AUTHOR.ref, {"type": "post", "text": "beside the log"}, bytes(SALT_BYTES))
"""The content of a detached message, and its blob."""
FIRST = Message.create(AUTHOR, None, NAMED, 0.0)
HELD = [FIRST, *generate_feed(Random(7), 3, AUTHOR, FIRST)]
"""What the peer holds at first, without the content."""
ASKED = Message.create(AUTHOR, HELD[-1], request([FIRST.id]), 1.0)
FEED = [*HELD, ASKED, *generate_feed(Random(8), 3, AUTHOR, ASKED)]
BLOB = "a small blob"

_PAUSES = (SECOND // 100, SECOND, 4 * SECOND, 30 * SECOND, 700 * SECOND)
MOST_EVENTS = 24
"""Maximum number of events of an input."""

_MOST_BYTES = 1 << 20
_MOST_WAKES = 512  # EBT wakes every 3 s to look for another peer, of 700
_FUZZED, _BYSTANDER = -1, -2


class _World(Timed):
    """A peer connected with two others: the fuzzed one, and a bystander."""

    def __init__(self) -> None:
        self.feeds = MemoryFeeds()
        self.feeds.append(HELD, 0.0)
        blobs = MemoryBlobs(max_size=10_000)
        blobs.add(BLOB.encode())
        self.contents = Contents(blobs)
        self.blobs = Blobs(blobs, contents=self.contents)
        self.blobs.came(HELD)
        options = PeerOptions(encrypts=False)
        self.peer = Peer(PEER, self.feeds, MemoryClocks(), [AUTHOR.ref], options, Random(1), blobs=self.blobs)
        for number, identity in ((_BYSTANDER, GOOD), (_FUZZED, OTHER)):
            self.peer.on_stream(Opened(number, ("192.0.2.1", 1), 1), 0)
            self._receive(number, PLAIN_MARK + identity.public_key)
        self._requests = 0

    def play(self, event: Event) -> None:
        """Perform an event, and check the invariants."""
        kind, which, content = event
        if kind == RAW:
            self._receive(_FUZZED, content)
        elif kind == REQUEST:
            self._requests += 1
            name, form = NAMES[which % len(NAMES)], FORMS[which // len(NAMES) % len(FORMS)]
            body = b'{"name":%b,"type":"%b","args":%b}' % (name.encode(), form.encode(), content)
            self._packet(self._requests, body, is_stream=form != "async")
        elif kind in (PART, ANSWER, END):
            number = which % 8 + 1
            number = -number if kind == ANSWER or which >= 16 else number
            self._packet(number, content, is_stream=which & 8 == 0, is_end=kind == END)
        elif kind == HANDSHAKE:
            _fuzz_handshake(content, is_client=bool(which & 1))
        elif kind == BOXES:
            (_fuzz_box_stream, _fuzz_content, check_suites)[which % 3](content)
        else:
            duration = _PAUSES[which % len(_PAUSES)]
            self.pass_time(self.peer, duration, _MOST_WAKES, self._take_actions)
        self._check()

    def _packet(self, number: int, body: bytes, *, is_stream: bool, is_end: bool = False) -> None:
        self._receive(_FUZZED, encode(Packet(number, body, BodyType.JSON, is_stream, is_end)))

    def _receive(self, number: int, data: bytes) -> None:
        if number in self.peer.connections:
            self.peer.on_stream(Received(number, data), self.now)
            self._take_actions()

    def _take_actions(self) -> None:
        sent = 0
        for action in self.peer.take_actions():
            if isinstance(action, Send):
                sent += len(action.data)
            elif isinstance(action, Close):
                expect("the bystander is closed", holds=action.stream != _BYSTANDER or self.now > 0)
                self.peer.on_stream(Closed(action.stream, ""), self.now)
        expect(f"{sent} bytes are sent at once", holds=sent <= _MOST_BYTES)

    def _check(self) -> None:
        tips = self.feeds.tips()
        expect("a feed that nobody wants is stored", holds=set(tips) == {AUTHOR.ref})
        tip: Message | None = None
        for stored in self.feeds.after(AUTHOR.ref, 0, 100):
            message = stored.message
            message.verify()
            message.follow(tip)
            tip = message
        expect("what was stored is gone", holds=tips[AUTHOR.ref] >= len(HELD))
        state = self.contents.state(FIRST.id)
        expect(
            "a content outlives the request", holds=(state is State.DROPPED) == (tips[AUTHOR.ref] > len(HELD))
        )
        held = self.blobs.store.size(str(NAMED["hash"]))
        expect("a content is here that is dropped", holds=(state is State.PRESENT) == (held is not None))
        expect("state for a feed that nobody wants", holds=self.peer.replication.exchanges() <= 2)
        expect("more is wanted than one may ask for", holds=len(self.blobs.wanted) <= 1_000)


def _fuzz_handshake(data: bytes, *, is_client: bool) -> None:
    side = (
        ClientHandshake(PEER, OTHER.public_key, MAIN_NETWORK, b"c" * 32)
        if is_client
        else ServerHandshake(PEER, MAIN_NETWORK, b"s" * 32)
    )
    try:
        side.receive(data)
    except HandshakeError:
        return
    expect("a handshake is done with nobody", holds=side.keys is None)


def _fuzz_box_stream(data: bytes) -> None:
    try:
        content = Unboxer(bytes(32), bytes(24)).receive(data)
    except BoxError:
        return
    expect("a box is opened that nobody has sealed", holds=not content)


def _fuzz_content(data: bytes) -> None:
    """Read bytes as a blob, and as what a log says of one."""
    named = Reference("post", len(data), blob_ref(sha256(data).digest()))
    try:
        content = attach(AUTHOR.ref, named, data)
        expect("a content is of another type", holds=content["type"] == "post")
    except InvalidContent:
        pass
    try:
        value = parse(data.decode())
        message = Message.create(AUTHOR, None, value if isinstance(value, dict) else {}, 0.0)
    except (InvalidJson, InvalidMessage, UnicodeDecodeError):
        return
    found = reference_of(message)
    expect("a size below 0", holds=found is None or found.size >= 0)
    expect("an id that is none", holds=all(each.startswith("%") for each in requested_by(message)))


check = playing(_World, MOST_EVENTS)
"""Play the events of an input; raise Finding, or whatever should not be raised."""
