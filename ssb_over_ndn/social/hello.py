"""Hellos: messages of a keeper to its neighbours' keepers, by an Interest of one hop.

The name is /localhop/ssb/hello with the digest of the ApplicationParameters, which are TLV elements:

| type | what | how often |
|---|---|---|
| 129 | generation: a number that changes with the sender's set of carried feeds | once |
| 131 | attachment: a user's key (32 bytes), time (8 bytes), signature (64 bytes) | once for each user |

A user signs the attachment and its time: so nobody can attach another user, and of two attachments of one
user the later counts. The types are of the range that NDN leaves to applications.
"""

from typing import Final, NamedTuple

from forwarder.wire.name import from_uri
from forwarder.wire.packet import SENT_HOP_LIMIT, Interest
from forwarder.wire.parameters import make_interest_with_parameters, parameters_of
from forwarder.wire.tlv import MalformedPacket, element, elements, nni, read_nni
from ssb.keys import KEY_BYTES, SIGNATURE_BYTES, Identity, InvalidRef, feed_ref, parse_feed, verify

HELLO: Final = from_uri("/localhop/ssb/hello")

MOST_ATTACHMENTS: Final = 48
"""Most attachments in a hello, within a packet of 8,800 bytes."""

_GENERATION: Final = 129
_ATTACHMENT: Final = 131
_TIME_BYTES: Final = 8
_SIGNED: Final = b"feednet attachment 1\0"
_LIFETIME_MS: Final = 10  # there is no answer


class Attachment(NamedTuple):
    """A user's signed statement of attachment to the sender.

    Attributes:
        user: the user's feed (`@...=.ed25519`).
        time: ns; the latest counts.
        signature: 64 bytes.
    """

    user: str
    time: int
    signature: bytes

    @classmethod
    def sign(cls, identity: Identity, time: int) -> "Attachment":
        """Return the attachment of a user at a time."""
        return cls(identity.ref, time, identity.sign(_SIGNED + time.to_bytes(_TIME_BYTES)))

    def is_signed(self) -> bool:
        """Whether the user has signed it."""
        try:
            return verify(parse_feed(self.user), self.signature, _SIGNED + self.time.to_bytes(_TIME_BYTES))
        except InvalidRef:
            return False


class Hello(NamedTuple):
    """The content of a hello."""

    generation: int
    attachments: tuple[Attachment, ...]


def make_hello(hello: Hello, nonce: int) -> bytes:
    """Return the Interest."""
    parts = [element(_GENERATION, nni(hello.generation))]
    for each in hello.attachments:
        body = parse_feed(each.user) + each.time.to_bytes(_TIME_BYTES) + each.signature
        parts.append(element(_ATTACHMENT, body))
    return make_interest_with_parameters(
        HELLO, b"".join(parts), nonce=nonce, lifetime_ms=_LIFETIME_MS, hop_limit=SENT_HOP_LIMIT
    )


def read_hello(interest: Interest) -> Hello:
    """Parse a hello; signatures are not verified. Raises MalformedPacket."""
    parameters = parameters_of(interest)
    if parameters is None:
        raise MalformedPacket("a hello without parameters")
    generation: int | None = None
    attachments = []
    for kind, start, end in elements(parameters, 0, len(parameters)):
        value = parameters[start:end]
        if kind == _GENERATION and generation is None:
            generation = read_nni(value)
        elif kind == _ATTACHMENT:
            if len(value) != KEY_BYTES + _TIME_BYTES + SIGNATURE_BYTES:
                raise MalformedPacket(f"an attachment of {len(value)} bytes")
            key, rest = value[:KEY_BYTES], value[KEY_BYTES:]
            time = int.from_bytes(rest[:_TIME_BYTES])
            attachments.append(Attachment(feed_ref(key), time, rest[_TIME_BYTES:]))
        else:
            raise MalformedPacket(f"element {kind} in a hello")
    if generation is None or len(attachments) > MOST_ATTACHMENTS:
        raise MalformedPacket(f"a hello with {len(attachments)} attachments, generation {generation}")
    return Hello(generation, tuple(attachments))
