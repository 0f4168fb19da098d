"""A small encrypted protocol, for tests: plain-poll in sealed frames.

The end that opens a connection sends 32 bytes that name it; its key follows from these and a secret that all
nodes share. From then on each frame of plain-poll is sealed: a length of four bytes, and a box of NaCl's
secretbox with its nonce.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from nacl.secret import SecretBox
from plain_poll import decoder
from plain_poll.layering import PlainPollLayering, PlainPollNode
from plain_poll.protocol import Frames, frame

from analysis.decode.protocols.protocol import ENCRYPTED, Declaration, Ends, Layer, Message
from base.endpoint import Connect, Opened, Program, Received, Send, StreamAction, StreamPort
from base.key_log import Secret, Secrets
from testbed.layerings.nodes.node import Context, Node

PORT, LABEL, NAME = 9119, "SEALED_POLL_KEY", "sealed-poll"
_ID = 32
SEAL = SecretBox.NONCE_SIZE + SecretBox.MACBYTES


def key_of(identifier: bytes) -> bytes:
    return hashlib.blake2b(identifier, key=b"a secret of all nodes", digest_size=32).digest()


class _Stream:
    """One stream at a node: what was sent and received of it."""

    def __init__(self, identifier: bytes | None) -> None:
        self.identifier = identifier
        self.waiting = bytearray()
        self.sent = 0
        self.inner, self.outer = Frames(), Frames()

    def seal(self, content: bytes, side: int) -> bytes:
        self.sent += 1
        assert self.identifier is not None
        box = SecretBox(key_of(self.identifier))
        return frame(
            bytes(box.encrypt(content, bytes([side]) + self.sent.to_bytes(SecretBox.NONCE_SIZE - 1)))
        )


class SealedPollNode(PlainPollNode):
    """A node of plain-poll whose streams are sealed."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.programs = [Program(self, {1: StreamPort(PORT)})]
        self._streams: dict[int, _Stream] = {}
        self._opened = 0
        self._secrets: list[Secret] = []

    def on_stream(self, event: Any, now: int) -> None:
        stream = self._streams.get(event.stream)
        if isinstance(event, Opened) and event.stream < 0:
            self._streams[event.stream] = _Stream(None)
        elif isinstance(event, Received) and stream is not None:
            data = event.data
            if stream.identifier is None:
                stream.waiting += data
                if len(stream.waiting) < _ID:
                    return
                stream.identifier, data = bytes(stream.waiting[:_ID]), bytes(stream.waiting[_ID:])
            box = SecretBox(key_of(stream.identifier))
            opened = b"".join(frame(box.decrypt(each)) for each in stream.outer.receive(data))
            event = event._replace(data=opened)
        super().on_stream(event, now)

    def take_actions(self) -> list[StreamAction]:
        actions: list[StreamAction] = []
        for action in super().take_actions():
            if isinstance(action, Connect):
                self._opened += 1
                identifier = hashlib.blake2b(f"{self.name} {self._opened}".encode(), digest_size=_ID).digest()
                self._streams[action.stream] = _Stream(identifier)
                self._secrets.append(Secret(LABEL, identifier, key_of(identifier)))
                actions += [Connect(action.stream, (action.to[0], PORT)), Send(action.stream, identifier)]
            elif isinstance(action, Send):
                stream = self._streams[action.stream]
                sealed = (stream.seal(each, action.stream < 0) for each in stream.inner.receive(action.data))
                actions.append(Send(action.stream, b"".join(sealed)))
            else:
                actions.append(action)
        return actions

    def take_secrets(self) -> list[Secret]:
        secrets, self._secrets = self._secrets, []
        return secrets


class SealedPollLayering(PlainPollLayering):
    """Plain-poll, sealed."""

    def build(self, context: Context) -> Node:
        return SealedPollNode(context)


LAYERING = SealedPollLayering(title="SSB by sealed polls over TCP", protocol=NAME)


class _Framer:
    """Opens the frames of both directions, once the end that opened the connection has named it."""

    def __init__(self, ends: Ends, secrets: Secrets) -> None:
        self._secrets = {each.identifier: each.secret for each in secrets if each.label == LABEL}
        self._box: SecretBox | None = None
        self._named = bytearray()
        self._outer: dict[bool, Frames | None] = {True: Frames(), False: Frames()}
        self._inner = decoder.DECLARATION.framer(ends, secrets)

    def receive(self, from_opener: bool, data: bytes) -> Iterator[Message]:
        if from_opener and len(self._named) < _ID:
            missing = _ID - len(self._named)
            self._named += data[:missing]
            data = data[missing:]
            if len(self._named) < _ID:
                return
            yield Message("hello", (("identifier", _ID),))
            if (key := self._secrets.get(bytes(self._named))) is not None:
                self._box = SecretBox(key)
        frames = self._outer[from_opener]
        if self._box is None:
            if data:
                yield Message("sealed", ((ENCRYPTED, len(data)),))
            return
        if frames is None:
            return
        for content in frames.receive(data):
            for message in self._inner.receive(from_opener, frame(self._box.decrypt(content))):
                length, *rest = message.parts
                yield message._replace(parts=(length, ("seal", SEAL), *rest))

    def lose(self, from_opener: bool) -> None:
        self._outer[from_opener] = None


DECLARATION = Declaration(
    NAME,
    tcp_ports=frozenset((PORT,)),
    kinds={"hello": "name of a connection", "sealed": "sealed bytes", **decoder.DECLARATION.kinds},
    control=decoder.DECLARATION.control | {"hello"},
    layers=(
        Layer("identifier", "names of connections"),
        Layer("seal", "nonces and authenticators"),
        *decoder.DECLARATION.layers,
    ),
    columns=decoder.DECLARATION.columns,
    framer=_Framer,
)
