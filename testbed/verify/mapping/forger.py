"""Misbehaving nodes: a forger, and a router that alters records."""

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any

from base.passive import PassiveApplication
from base.units import SECOND
from forwarder.wire.lp import open_data, parse_lp
from forwarder.wire.name import VERSION, component
from forwarder.wire.packet import DATA, make_data, parse_data
from forwarder.wire.tlv import MalformedPacket, nni
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.mapping.messages import make_put, make_query, make_update, server_of, store_name
from ssb_over_ndn.mapping.record import LINK, make_record, map_name, split_map_name
from ssb_over_ndn.naming import message_packet

EVIL = store_name("evil")
"""The forger's destination for readers."""

_FOREVER = 1 << 40


class Forger(PassiveApplication):
    """An Application that queries the name service, stores its answers, and attacks on request.

    Args:
        authors: its victims.
        servers, stores: the services' names.
        seed: of its nonces and its key.
    """

    def __init__(
        self, authors: Iterable[Identity], servers: list[bytes], stores: list[bytes], seed: int
    ) -> None:
        super().__init__()
        self._authors = [author.ref for author in authors]
        self._servers, self._stores = servers, stores
        self._random = Random(f"forger {seed}")
        self._own = Identity.from_seed(self._random.randbytes(32))
        self._records: defaultdict[str, list[bytes]] = defaultdict(list)
        self._asks_at: int | None = SECOND

    def attack(self, how: str, messages: dict[str, tuple[Message, ...]], now: int) -> None:
        """Send forgeries about every author."""
        for author in self._authors:
            match how:
                case "signature":
                    self._update(author, forged(author, self._own, now))
                case "hijack":
                    self._update(author, forged(self._own.ref, self._own, now))
                case "replay":
                    for wire in self._records[author]:
                        self._update(author, wire)
                case "garbage":
                    self._update(author, self._random.randbytes(self._random.randrange(80)))
                case "item" | "foreign item":
                    self._put(author, messages[author], how == "item")

    def stop(self) -> None:
        """End the queries."""
        self._asks_at = None

    def receive(self, packet: bytes, now: int) -> None:
        opened = open_data(packet)
        if opened is None:
            return
        named = split_map_name(opened[0].name)
        if named is not None and opened[0].content_type == LINK:
            kept = self._records[named[0]]
            if opened[0].wire not in kept:
                kept.append(opened[0].wire)

    def next_deadline(self) -> int | None:
        return self._asks_at

    def wake(self, now: int) -> None:
        """See Application: request all records, to replay them later."""
        if self._asks_at is not None and self._asks_at <= now:
            self._asks_at = now + SECOND
            for author in self._authors:
                self.outputs.append(make_query(author, server_of(author, self._servers), self._nonce()))

    def _update(self, author: str, wire: bytes) -> None:
        self.outputs.append(make_update(author, wire, server_of(author, self._servers), self._nonce()))

    def _put(self, author: str, messages: tuple[Message, ...], is_own: bool) -> None:
        """Upload a message not signed by the author, or another author's as this one's."""
        if is_own:
            chosen = self._random.choice(messages)  # possibly not yet written by the author
            at = chosen.encoded.index(b'"signature": "') + 14
            other = b"B" if chosen.encoded[at : at + 1] == b"A" else b"A"
            text = chosen.encoded[:at] + other + chosen.encoded[at + 1 :]
            packet = message_packet(chosen).replace(chosen.encoded, text)
        else:
            packet = message_packet(Message.create(self._own, None, {"type": "post"}, 1))
        for store in self._stores:
            self.outputs.append(make_put(author, packet, store, self._nonce()))

    def _nonce(self) -> int:
        return self._random.getrandbits(32)


def forged(author: str, by: Identity, now: int) -> bytes:
    """Return a record that points to EVIL, signed by `by`."""
    hour = 3600 * SECOND
    return make_record(author, by.sign, _FOREVER, (EVIL,), now=now, lifetime=hour, ttl=hour)


class Liar:
    """An Endpoint that alters its packets under the records' prefix while it lies.

    Args:
        endpoint: the honest one.
        seed: of its key.

    Attributes:
        is_lying: whether it alters packets now.
        lies: number of altered packets.
    """

    def __init__(self, endpoint: Any, seed: int) -> None:
        self._endpoint = endpoint
        self._own = Identity.from_seed(Random(f"liar {seed}").randbytes(32))
        self._old: dict[str, bytes] = {}
        self._now = 0
        self.is_lying = False
        self.lies = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._endpoint, name)

    def receive(self, port: int, payload: bytes, sender: Any, now: int) -> None:
        self._now = now
        self._endpoint.receive(port, payload, sender, now)

    def take_outputs(self) -> list[tuple[int, bytes, Any]]:
        return [(port, self._changed(frame), to) for port, frame, to in self._endpoint.take_outputs()]

    def _changed(self, frame: bytes) -> bytes:
        try:
            fragment = parse_lp(frame).fragment
            data = parse_data(fragment) if fragment[:1] == bytes((DATA,)) else None
        except MalformedPacket:
            return frame
        named = None if data is None else split_map_name(data.name)
        if data is None or named is None:
            return frame
        author = named[0]
        is_record = data.content_type == LINK
        old = self._old.setdefault(author, data.wire) if is_record else self._old.get(author, b"")
        if not self.is_lying:
            return frame
        self.lies += 1
        if is_record:
            return old if self.lies % 3 == 0 else forged(author, self._own, self._now)
        if named[1]:
            return make_data(data.name, old if self.lies % 2 else forged(author, self._own, self._now))
        return make_data(map_name(author) + component(VERSION, nni(1)), b"", freshness_ms=1000)
