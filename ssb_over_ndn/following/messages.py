"""Fetches of single messages over NDN, by their hashes: /ssb/sha256/<hash>."""

from collections import Counter
from collections.abc import Callable
from random import Random

from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import Data, parse_data
from forwarder.wire.tlv import MalformedPacket
from ssb.message import Message
from ssb_over_ndn.following.fetch import Fetcher
from ssb_over_ndn.following.fetches import PATIENCE, Fetch, Fetches
from ssb_over_ndn.naming import hash_name, read_hashed

_LIFETIME_MS = 2000


class _One:
    """The Box of a message: item 1 of the Fetcher."""

    limit = 1

    def __init__(self, id_: str) -> None:
        self._id = id_
        self.message: Message | None = None

    @property
    def arrived(self) -> int:
        return int(self.message is not None)

    def name(self, seq: int) -> bytes:
        return hash_name(self._id)

    def lacks(self, seq: int) -> bool:
        return self.message is None

    def open(self, seq: int, data: Data) -> Message | None:
        message = read_hashed(data)
        return message if message is not None and message.id == self._id else None

    def put(self, item: Message) -> None:
        self.message = item


class MessageFetch(Fetch):
    """Fetches one message. Data with another one are refused, and the Interest is repeated past the caches
    that may have them.

    Args:
        id_: its reference.
        rng: source of nonces.
        hint: the Interests' forwarding hint; empty if there is none.
        give_up: time-out, ns.
    """

    def __init__(self, id_: str, *, rng: Random, hint: tuple[bytes, ...], give_up: int) -> None:
        super().__init__(give_up)
        self._one = _One(id_)
        self._fetcher = Fetcher(self._one, rng=rng, lifetime_ms=_LIFETIME_MS, hint=hint)
        self._fetcher.tip = 1

    @property
    def message(self) -> Message | None:
        """The message, whose signature is not verified, once it has arrived."""
        return self._one.message

    def start(self, now: int) -> None:
        self._goes_on(now)
        self._fetcher.request(now)

    def receive(self, number: int, header: LpPacket, now: int) -> None:
        if self.is_over:
            return
        if header.nack_reason is not None:
            self._fetcher.on_nack(number)
            return
        try:
            data = parse_data(header.fragment)
        except MalformedPacket:
            return
        if not self._fetcher.on_item(number, data, header.congestion_mark, now):
            self.silence = "other Data come in its place"
        self.is_complete = self.message is not None


class MessageFetches(Fetches[MessageFetch]):
    """Fetches of messages.

    Args:
        rng: source of nonces.
        where: message -> the Interests' forwarding hint; None to postpone it.
        counters: errors, by reason.
    """

    def __init__(
        self, rng: Random, where: Callable[[str], tuple[bytes, ...] | None], counters: Counter[str]
    ) -> None:
        def fetch(id_: str, hint: tuple[bytes, ...]) -> MessageFetch:
            return MessageFetch(id_, rng=rng, hint=hint, give_up=PATIENCE)

        super().__init__(fetch, where, counters, "message")
