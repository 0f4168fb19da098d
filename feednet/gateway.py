"""The gateway as a program: a user's Scuttlebutt peer, attached to the NDN forwarder of its machine."""

import asyncio
import logging
from collections.abc import Callable
from random import SystemRandom

from feednet.attachment import Attachment
from ssb.canonical import Value
from ssb.daemon.account import Account
from ssb.daemon.local_peer import LocalPeer
from ssb_over_ndn.following.subscriptions import Subscription
from ssb_over_ndn.gateway.gateway import Gateway
from ssb_over_ndn.naming import BLOBS, SHA256, log_name
from ssb_over_ndn.serving.server import Announcer

_logger = logging.getLogger("feednet.ssb")

_AGAIN_S = 1.0
_LINKS = 100  # looked at for one forwarding hint


class GatewayProgram:
    """A program around an account's peer; see ssb.daemon.service.Surroundings.

    The account's own feed has its home at the gateway, too.

    Args:
        account: see Account.
        layering: the layering's name.
        subscribe, announce: see Gateway; both get a SystemRandom as source of nonces.
    """

    def __init__(
        self,
        account: Account,
        layering: str,
        subscribe: Callable[..., Subscription],
        announce: Callable[..., Announcer | None],
    ) -> None:
        self._account = account
        self._layering = layering
        self._subscribe = subscribe
        self._announce = announce

    def around(self, peer: LocalPeer, now: int) -> Gateway:
        random = SystemRandom()
        account = self._account
        self._gateway = Gateway(
            peer,
            peer.peer,
            account.feeds,
            peer.blobs,
            account.graph,
            lambda feed, after: self._subscribe(feed, rng=random, after=after),
            lambda feed: self._announce(feed, random),
            random,
            self._settle,
            self._naming,
        )
        self._attachment: Attachment | None = None
        self._gateway.application.add_home(account.identity.ref, now)
        return self._gateway

    def status(self) -> dict[str, Value]:
        side = self._gateway.application
        return {
            "gateway": {
                "layering": self._layering,
                "homes": [*side.homes],
                "follows": [*side.follows],
                "troubles": dict(self._gateway.counters),
            }
        }

    async def run(self, settle: Callable[[], None]) -> None:
        """See Surroundings: stay connected to the forwarder; raises OSError if there is none at the start."""
        self._attachment = Attachment(self._gateway.application, self._prefixes, settle, _logger.warning)
        await self._attachment.run()
        while True:
            _logger.warning("the NDN forwarder has closed the connection")
            await asyncio.sleep(_AGAIN_S)
            try:
                await self._attachment.run()
            except OSError as error:
                _logger.warning("the NDN forwarder cannot be reached: %s", error)

    def _naming(self, id_: str, after: int) -> list[tuple[int, str]]:
        """Return where messages in the log link to a message, after a position, and their authors."""
        return self._account.backlinks.authors(id_, after, _LINKS)

    def _settle(self, now: int) -> None:
        if self._attachment is not None:
            self._attachment.settle()

    def _prefixes(self) -> frozenset[bytes]:
        homes = (log_name(feed) for feed in self._gateway.application.homes)
        return frozenset((*homes, SHA256, BLOBS))
