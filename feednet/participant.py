"""A participant in NDN over SSB as a program: a user's Scuttlebutt peer, and the NDN forwarder beside it.

Applications use that forwarder as usual. Interests for which it has no better route go to the participant,
which sends them to its providers. The participant sends the forwarder Interests under the prefixes of which
this identity is a repository. A provider needs no forwarder beside it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import Any, Final, NamedTuple

from base.passive import PassiveApplication
from feednet.attachment import Attachment
from forwarder.forwarder import Forwarder
from forwarder.wire.feed import split_item
from forwarder.wire.name import to_uri
from ndn_over_ssb.contract import Contract, Terms
from ndn_over_ssb.negotiation import Policy
from ndn_over_ssb.participant import Participant
from ndn_over_ssb.side import ScuttlebuttSide
from ndn_over_ssb.trust import Trust
from ssb.canonical import Value
from ssb.daemon.account import Account
from ssb.daemon.local_peer import LocalPeer
from ssb.message import Message
from ssb_over_ndn.naming import hash_packet, message_id, message_packet, read_log_name

_logger = logging.getLogger("feednet.ssb")

_AGAIN_S: Final = 1.0
_LOG_EVERY_S: Final = 0.5
_QUEUE: Final = 10_000  # packets queued for a disconnected forwarder
_EVERYTHING: Final = frozenset((b"",))


class Anchor(NamedTuple):
    """Validation of Data by a provider: a schema in LightVerSec's language, and the anchor's certificate."""

    schema: str
    certificate: bytes


class ParticipantProgram:
    """A program around an account's peer; see ssb.daemon.service.Surroundings.

    Args:
        account: see Account.
        root: the identity that allocates the name space.
        offer: terms for customers; None if this is no provider.
        anchor: see Anchor; None for no validation of Data.

    Raises ndn_over_ssb.trust.TrustError.
    """

    def __init__(self, account: Account, root: str, offer: Terms | None, anchor: Anchor | None) -> None:
        self._account = account
        self._root = root
        self._offer = offer
        self._random = SystemRandom()
        self._trust = None
        if anchor is not None:
            epoch_ms = time.time() * 1000 - time.monotonic_ns() / 1e6
            self._trust = Trust(anchor.schema, anchor.certificate, self._random, epoch_ms)

    def around(self, peer: LocalPeer, now: int) -> Participant:
        def publish(content: Mapping[str, Any], time: int) -> Message:
            return peer.publish(content, time)

        self._participant = Participant(
            ScuttlebuttSide(
                identity=self._account.identity,
                program=peer,
                peer=peer.peer,
                feeds=self._account.feeds,
                publish=publish,
                may_publish=lambda: not self._account.why(),
                epoch_ms=peer.epoch_ms,
            ),
            Policy(
                root=self._root,
                offer=self._offer,
                admits=lambda customer: not self._account.graph.is_blocked(customer),
            ),
            Forwarder(rng=self._random, controlled_push=False),
            trust=self._trust,
            now=now,
            answer=self._answer,
        )
        self._joint = _Joint(self._participant.settle)
        self._participant.attach(self._joint.inner, serves=True, now=now)
        return self._participant

    def _answer(self, name: bytes) -> bytes | None:
        """Return the Data packet of a message in this peer's store, by its number or by its hash."""
        feeds = self._account.feeds
        author, item, wanted = read_log_name(name), split_item(name), message_id(name)
        if wanted is not None:
            message = feeds.get(wanted)
            return None if message is None else hash_packet(message)
        if author is None or item is None or not 1 <= item[1] <= feeds.tips().get(author, 0):
            return None
        (stored,) = feeds.after(author, item[1] - 1, 1)
        return message_packet(stored.message)

    def status(self) -> dict[str, Value]:
        participant = self._participant
        return {
            "ndn": {
                "root": self._root,
                "provides": self._offer is not None,
                "prefixes": len(participant.name_space.holdings()),
                "contracts": [_contract(contract) for contract in participant.in_force()],
                "pit": participant.host.forwarder.pit_entries(),
                "cached": len(participant.host.forwarder.cs),
                "answered_from_logs": participant.packets.answered,
                "troubles": dict(participant.counters),
            }
        }

    async def run(self, settle: Callable[[], None]) -> None:
        """See Surroundings: stay connected to the forwarder, as soon and as often as there is one."""
        attachment = Attachment(self._joint.outer, lambda: _EVERYTHING, settle, _logger.warning)
        self._joint.settle_outer = attachment.settle
        changes = asyncio.create_task(self._log_changes())
        said = ""
        try:
            while True:
                try:
                    await attachment.run()
                    why = "has closed the connection"
                except OSError as error:
                    why = f"cannot be reached: {error}"
                if why != said:
                    _logger.info("the NDN forwarder beside this peer %s", why)
                said = why
                await asyncio.sleep(_AGAIN_S)
        finally:
            changes.cancel()

    async def _log_changes(self) -> None:
        while True:
            for change in self._participant.take_changes():
                holder = change.holder or "nobody"
                _logger.info("%s is held by %s now", to_uri(change.prefix), holder)
            await asyncio.sleep(_LOG_EVERY_S)


def _contract(contract: Contract) -> Value:
    return {
        "id": contract.id,
        "customer": contract.customer,
        "provider": contract.provider,
        "until": contract.until,
    }


class _Joint:
    """Joins two forwarders: an application of each, connected back to back.

    Args:
        settle: called with the time, ns, when the inner application has output for its forwarder.

    Attributes:
        inner: of the participant's forwarder.
        outer: of the forwarder beside it.
        settle_outer: called when the outer application has output for its forwarder.
    """

    def __init__(self, settle: Callable[[int], None]) -> None:
        self.settle_outer: Callable[[], None] = lambda: None
        self.inner = _End(lambda now: self.settle_outer())
        self.outer = _End(settle)
        self.inner.other, self.outer.other = self.outer, self.inner


class _End(PassiveApplication):
    """An Application that passes its input to its other end."""

    other: "_End"

    def __init__(self, passed_on: Callable[[int], None]) -> None:
        super().__init__()
        self._passed_on = passed_on

    def receive(self, packet: bytes, now: int) -> None:
        if len(self.other.outputs) < _QUEUE:
            self.other.outputs.append(packet)
        self._passed_on(now)
