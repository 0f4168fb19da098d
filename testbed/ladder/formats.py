"""Formats of messages: bytes and processor time for one post in a log, by its encoding.

`cbor` and `bipf` have the fields of a classic message, with keys and hashes as bytes, and a signature over
their encoding (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, longer draft, section 5.5). `detached JSON`
(`ssb.detached`) and `Gabby Grove` (draft-ssb-core-gabbygrove-00) sign the hash and the size of a content,
which need not be there for a check (section 5.2). All but `cbor`, `bipf` and `Gabby Grove` are formats that
feednet's nodes exchange. `countersigned JSON` and `cbor, Ed448` have the second suite (`ssb.suites`): the
former beside the classic one, the latter in its place.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b, sha256
from typing import Any, Final, NamedTuple

import cbor2

from forwarder.feedcache.items import open_item
from forwarder.wire.feed import feed_name, item_name, native_content
from forwarder.wire.name import from_uri
from forwarder.wire.packet import ED25519, make_data, parse_data
from ssb import bipf
from ssb.canonical import parse, stringify
from ssb.detached import SALT_BYTES, attach, detach, reference_of
from ssb.keys import Identity, verify
from ssb.message import Message
from ssb.suites.countersignature import CountersignedLog
from ssb.suites.countersignature import check as check_countersignature
from ssb.suites.suite import CLASSIC, SECOND, PrivateKey, Suite
from ssb.tiny import entry

SIZES: Final = (20, 200, 2_000)
"""Bytes of a post's text."""

_POSTS: Final = 200
_ROUNDS: Final = 3
_TIME: Final = 1_700_000_000_000


class Post(NamedTuple):
    """A post in some format.

    Attributes:
        packets: what of it stands in the log.
        check: what a receiver does with them; it raises on a fault.
        content: what stands beside the log; b"" if nothing does.
        open: what a receiver does with that.
    """

    packets: tuple[bytes, ...]
    check: Callable[[Sequence[bytes]], object]
    content: bytes = b""
    open: Callable[[bytes], object] | None = None


class Cost(NamedTuple):
    """The cost of a format.

    Attributes:
        name: the format's.
        text, size, beside: bytes of the text, of the post in its log, and of its content beside the log.
        check_us: microseconds of a receiver's processor, for both.
        hole_us: without the content; None if it stands in the log.
    """

    name: str
    text: int
    size: int
    beside: int
    check_us: float
    hole_us: float | None

    @property
    def overhead(self) -> int:
        """Bytes that are not text."""
        return self.size + self.beside - self.text


def measure(text: int, posts: int = _POSTS) -> list[Cost]:
    """Return the cost of each format, for posts with `text` bytes: the least of three rounds."""
    found = []
    for name, write in FORMATS.items():
        times, holes = [], []
        for number in range(_ROUNDS):
            made = list(write(Identity.from_seed(bytes([number]) * 32), "x" * text, posts))
            begun = time.process_time()
            for post in made:
                post.check(post.packets)
            checked = time.process_time()
            for post in made:
                if post.open is not None:
                    post.open(post.content)
            holes.append((checked - begun) / posts)
            times.append((time.process_time() - begun) / posts)
        last = made[-1]
        hole_us = None if last.open is None else min(holes) * 1e6
        size = sum(map(len, last.packets))
        found.append(Cost(name, text, size, len(last.content), min(times) * 1e6, hole_us))
    return found


def _classic(author: Identity, text: str, posts: int, *, is_detached: bool = False) -> Iterator[Post]:
    tip: Message | None = None
    for number in range(posts):
        content: dict[str, Any] = {"type": "post", "text": text}
        blob, open_ = b"", None
        if is_detached:
            content, blob = detach(author.ref, content, number.to_bytes(SALT_BYTES))
        message = Message.create(author, tip, content, _TIME + number)
        reference = reference_of(message)
        if reference is not None:
            open_ = partial(attach, author.ref, reference)

        def check(packets: Sequence[bytes], tip: Message | None = tip) -> None:
            _received(packets, tip)

        yield Post((stringify(parse(message.text), indent=0).encode(),), check, blob, open_)
        tip = message


def _countersigned(author: Identity, text: str, posts: int) -> Iterator[Post]:
    key = PrivateKey.from_seed(SECOND, (author.public_key * 2)[: SECOND.seed_bytes])
    tip: Message | None = None
    log = CountersignedLog(author)
    for number in range(posts):
        before = log.hash
        message = log.write(key, {"type": "post", "text": text}, _TIME + number)

        def check(packets: Sequence[bytes], tip: Message | None = tip, before: bytes = before) -> None:
            received = _received(packets, tip)
            if check_countersignature(key.public, received) != before:
                raise ValueError("another log before it")

        yield Post((stringify(parse(message.text), indent=0).encode(),), check)
        tip = message


def _received(packets: Sequence[bytes], tip: Message | None) -> Message:
    """Return the message of a packet, checked by the classic rules."""
    received = Message.from_value(parse(packets[0].decode()))
    received.verify()
    received.follow(tip)
    return received


def _encoded(
    encode: Callable[[Any], bytes], decode: Callable[[bytes], Any], suite: Suite = CLASSIC
) -> "_Write":
    """Return how a log is written in an encoding that has one form for each value."""

    def write(author: Identity, text: str, posts: int) -> Iterator[Post]:
        seed = (author.public_key * 2)[: suite.seed_bytes]
        public = suite.public(seed)
        previous = None
        for number in range(1, posts + 1):
            content = {"type": "post", "text": text}
            fields = [previous, public, number, _TIME + number, content]
            sent = encode([*fields, suite.sign(seed, encode(fields))])

            def check(packets: Sequence[bytes], place: Any = (previous, public, number)) -> None:
                *received, signature = value = decode(packets[0])
                if encode(value) != packets[0] or (received[0], bytes(received[1]), received[2]) != place:
                    raise ValueError("another place, or another form")
                if not suite.verify(bytes(received[1]), bytes(signature), encode(received)):
                    raise ValueError("the signature does not verify")

            yield Post((sent,), check)
            previous = suite.hash(sent)

    return write


def _gabby_grove(author: Identity, text: str, posts: int) -> Iterator[Post]:
    previous = None
    for number in range(1, posts + 1):
        content = cbor2.dumps({"type": "post", "text": text}, canonical=True)
        named = [_link(3, _blake2(content)), len(content), _CBOR]
        event = cbor2.dumps([previous, _link(1, author.public_key), number, _TIME + number, named])
        signature = author.sign(event)
        sent = cbor2.dumps([event, signature, None])

        def check(packets: Sequence[bytes], place: Any = (previous, number)) -> None:
            signed, signature, content = value = cbor2.loads(packets[0])
            if cbor2.dumps(value) != packets[0] or content is not None:
                raise ValueError("another form")
            before, writer, number, _, _ = cbor2.loads(signed)
            if (before, number) != place or writer != _link(1, author.public_key):
                raise ValueError("another place")
            if not verify(author.public_key, signature, signed):
                raise ValueError("the signature does not verify")

        def open_(content: bytes, named: Any = named) -> object:
            if [_link(3, _blake2(content)), len(content)] != named[:2]:
                raise ValueError("another content")
            return cbor2.loads(content)

        yield Post((sent,), check, content, open_)
        previous = _link(2, _blake2(event + signature))


_CBOR = 2  # the encoding of a content


def _link(kind: int, key: bytes) -> cbor2.CBORTag:
    """Return Gabby Grove's reference: 1 to a feed, 2 to an event, 3 to a content."""
    return cbor2.CBORTag(1050, bytes((kind,)) + key)


def _blake2(data: bytes) -> bytes:
    return blake2b(data, digest_size=32).digest()


def _native(author: Identity, text: str, posts: int) -> Iterator[Post]:
    feed = feed_name(from_uri("/feed"), author.public_key)
    previous = b""
    for number in range(1, posts + 1):
        content = native_content(previous, text.encode())
        sent = make_data(item_name(feed, number), content, signature_type=ED25519, sign=author.sign)

        def check(packets: Sequence[bytes], number: int = number) -> None:
            open_item(feed, number, parse_data(packets[0]))

        yield Post((sent,), check)
        previous = sha256(sent).digest()


def _tiny(author: Identity, text: str, posts: int) -> Iterator[Post]:
    previous = entry.first_previous(author.public_key)
    for number in range(1, posts + 1):
        made, chain = entry.sign(author, number, previous, text.encode())

        def check(packets: Sequence[bytes], number: int = number, previous: bytes = previous) -> None:
            first, *others = packets
            entry.check_chain(entry.parse(first, author.public_key, number, previous), others)

        yield Post((made.packet, *chain), check)
        previous = made.id


def _canonical(value: Any) -> bytes:
    return cbor2.dumps(value, canonical=True)


_Write = Callable[[Identity, str, int], Iterator[Post]]

FORMATS: Final[dict[str, _Write]] = {
    "classic JSON": _classic,
    "detached JSON": partial(_classic, is_detached=True),
    "countersigned JSON": _countersigned,
    "cbor": _encoded(_canonical, cbor2.loads),
    "cbor, Ed448": _encoded(_canonical, cbor2.loads, SECOND),
    "bipf": _encoded(bipf.encode, bipf.decode),
    "Gabby Grove": _gabby_grove,
    "native item": _native,
    "tinySSB": _tiny,
}
"""Formats by name."""
