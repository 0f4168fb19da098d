"""Formats of messages: bytes and processor time for one post in a log, by its encoding.

`cbor` and `bipf` have the fields of a classic message, with keys and hashes as bytes, and a signature over
their encoding; the others are formats that feednet's nodes exchange (Tarr et al., "Secure Scuttlebutt", ACM
ICN 2019, longer draft, section 5.5).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import cbor2

from forwarder.feedcache.items import open_item
from forwarder.wire.feed import feed_name, item_name, native_content
from forwarder.wire.name import from_uri
from forwarder.wire.packet import ED25519, make_data, parse_data
from ssb import bipf
from ssb.canonical import parse, stringify
from ssb.keys import Identity, verify
from ssb.message import Message
from ssb.tiny import entry

SIZES: Final = (20, 200, 2_000)
"""Bytes of a post's text."""

_POSTS: Final = 200
_ROUNDS: Final = 3
_TIME: Final = 1_700_000_000_000


class Post(NamedTuple):
    """A post in some format: its packets, and what a receiver does with them; it raises on a fault."""

    packets: tuple[bytes, ...]
    check: Callable[[Sequence[bytes]], object]


class Cost(NamedTuple):
    """The cost of a format: bytes of text and of the post; microseconds of a receiver's processor."""

    name: str
    text: int
    size: int
    check_us: float

    @property
    def overhead(self) -> int:
        """Bytes that are not text."""
        return self.size - self.text


def measure(text: int, posts: int = _POSTS) -> list[Cost]:
    """Return the cost of each format, for posts with `text` bytes: the least of three rounds."""
    found = []
    for name, write in FORMATS.items():
        times = []
        for number in range(_ROUNDS):
            made = list(write(Identity.from_seed(bytes([number]) * 32), "x" * text, posts))
            begun = time.process_time()
            for post in made:
                post.check(post.packets)
            times.append((time.process_time() - begun) / posts)
        size = sum(map(len, made[-1].packets))
        found.append(Cost(name, text, size, min(times) * 1e6))
    return found


def _classic(author: Identity, text: str, posts: int) -> Iterator[Post]:
    tip: Message | None = None
    for number in range(posts):
        message = Message.create(author, tip, {"type": "post", "text": text}, _TIME + number)

        def check(packets: Sequence[bytes], tip: Message | None = tip) -> None:
            received = Message.from_value(parse(packets[0].decode()))
            received.verify()
            received.follow(tip)

        yield Post((stringify(parse(message.text), indent=0).encode(),), check)
        tip = message


def _encoded(encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> "_Write":
    """Return how a log is written in an encoding that has one form for each value."""

    def write(author: Identity, text: str, posts: int) -> Iterator[Post]:
        previous = None
        for number in range(1, posts + 1):
            content = {"type": "post", "text": text}
            fields = [previous, author.public_key, number, _TIME + number, content]
            sent = encode([*fields, author.sign(encode(fields))])

            def check(packets: Sequence[bytes], place: Any = (previous, author.public_key, number)) -> None:
                *received, signature = value = decode(packets[0])
                if encode(value) != packets[0] or (received[0], bytes(received[1]), received[2]) != place:
                    raise ValueError("another place, or another form")
                if not verify(bytes(received[1]), bytes(signature), encode(received)):
                    raise ValueError("the signature does not verify")

            yield Post((sent,), check)
            previous = sha256(sent).digest()

    return write


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


_Write = Callable[[Identity, str, int], Iterator[Post]]

FORMATS: Final[dict[str, _Write]] = {
    "classic JSON": _classic,
    "cbor": _encoded(lambda value: cbor2.dumps(value, canonical=True), cbor2.loads),
    "bipf": _encoded(bipf.encode, bipf.decode),
    "native item": _native,
    "tinySSB": _tiny,
}
"""Formats by name."""
