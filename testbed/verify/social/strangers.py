"""Misbehaving nodes."""

from random import Random
from typing import Final

from base.endpoint import Address
from base.passive import PassiveEndpoint
from forwarder.wire.feed import item_name, split_item, ssb_content
from forwarder.wire.lp import open_interest
from forwarder.wire.packet import SENT_HOP_LIMIT, make_data, make_interest
from ssb.keys import Identity
from ssb_over_ndn.naming import log_name
from ssb_over_ndn.social.hello import Attachment, Hello, make_hello

_EVERY: Final = 100_000_000


class Stranger(PassiveEndpoint):
    """A DatagramEndpoint at one link: says hello like a keeper, and does harm.

    Args:
        kind: "forges": answers every Interest with a forged item. "floods": requests all logs, far ahead,
            repeatedly, and announces that it now carries others. "claims": announces everybody as attached to
            it.
        people: the authors of logs.
        until: its end, ns.
        rate: Interests that "floods" sends each 100 ms.
    """

    def __init__(self, kind: str, people: list[str], random: Random, until: int, rate: int) -> None:
        super().__init__()
        self._kind = kind
        self._people = people
        self._random = random
        self._until = until
        self._rate = rate
        self._identity = Identity.from_seed(random.randbytes(32))
        self._due: int | None = _EVERY

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        interest = open_interest(payload)
        parts = None if interest is None else split_item(interest.name)
        if self._kind != "forges" or parts is None or interest is None or now >= self._until:
            return
        forged = b'{\n  "type": "contact"\n}' + self._random.randbytes(20)
        self._send(make_data(interest.name, ssb_content(forged), freshness_ms=3_600_000))

    def next_deadline(self) -> int | None:
        return self._due

    def wake(self, now: int) -> None:
        if self._due is None or now < self._due:
            return
        self._due = now + _EVERY if now + _EVERY < self._until else None
        attachments = [Attachment.sign(self._identity, now)]
        if self._kind == "claims":
            attachments += [Attachment(user, now, self._random.randbytes(64)) for user in self._people]
        generation = self._random.getrandbits(32) if self._kind == "floods" else 1
        self._send(make_hello(Hello(generation, tuple(attachments)), self._random.getrandbits(32)))
        if self._kind == "floods":
            for _ in range(self._rate):
                self._send(self._interest())

    def _interest(self) -> bytes:
        name = item_name(log_name(self._random.choice(self._people)), self._random.randint(1, 200))
        return make_interest(
            name,
            nonce=self._random.getrandbits(32),
            lifetime_ms=4000,
            hop_limit=SENT_HOP_LIMIT,
            send_credit=self._random.choice([None, None, None, 64]),
        )

    def _send(self, packet: bytes) -> None:
        self.outputs.append((1, packet, None))
