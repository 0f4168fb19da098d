"""Invites, on both sides: those that a peer has given, and the call of a guest who uses one.

npm's ssb-invite: a guest connects with the key pair of the invite, and asks by `invite.use` that the peer
follow its feed. Afterwards it follows the peer, publishes the peer's address, and connects as itself.

The call is idempotent. A guest whose answer is lost may ask again, even if the invite is used up by then: the
peer answers with the message that follows the feed already. ssb-invite answers such a guest "already
following" while the invite has uses left, and later refuses the connection.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ssb.applications.pubs import PUB
from ssb.canonical import Value, parse
from ssb.graph import CONTACT, Graph
from ssb.keys import Identity, InvalidRef, parse_feed
from ssb.message import Message
from ssb.peer.access import USE_INVITE, InvalidInvite
from ssb.store.feeds import FeedStore
from ssb.transport.address import Invite, PeerAddress
from ssb.transport.calls import Answered, Calls, Finished
from ssb.transport.handshake import MAIN_NETWORK, ClientHandshake
from ssb.transport.secure_stream import SecureStream

_ALREADY: Final = "already following"
"""The error of ssb-invite for a guest whose first answer was lost, for example."""


class Invites:
    """The invites that a peer has given.

    Args:
        uses: key of each invite (a reference) -> how often it still works; 0 if it is used up.

    Attributes:
        uses: see above; kept up to date.
    """

    def __init__(self, uses: Mapping[str, int]) -> None:
        self.uses = dict(uses)

    def use(
        self,
        guest: str,
        arguments: Sequence[Value],
        graph: Graph,
        feeds: FeedStore,
        publish: Callable[[dict[str, Any]], Message],
        now_ms: float,
    ) -> Value:
        """Use an invite; return the answer to the guest, which has the message that follows its feed.

        A feed that the peer follows already costs no use.

        Args:
            guest: the key of the invite.
            arguments: of the guest's call.
            graph: of the peer that gave the invite.
            feeds: of that peer.
            publish: writes a message of that peer. If it raises, the invite stays as it was.
            now_ms: the time, ms since 1970.

        Raises InvalidInvite.
        """
        options = arguments[0] if arguments else None
        feed = options.get("feed") if isinstance(options, dict) else None
        if not isinstance(feed, str):
            raise InvalidInvite("invite.use needs the feed of the guest")
        try:
            parse_feed(feed)
        except InvalidRef as error:
            raise InvalidInvite(str(error)) from None
        if guest not in self.uses:
            raise InvalidInvite("the invite is unknown")
        if graph.is_blocked(feed):
            raise InvalidInvite("this peer's user blocks the feed")
        message = _following(feed, graph, feeds)
        if message is None:
            if self.uses[guest] < 1:
                raise InvalidInvite("the invite is used up")
            message = publish({"type": CONTACT, "contact": feed, "following": True, "pub": True})
            self.uses[guest] -= 1
        return {"key": message.id, "value": parse(message.text), "timestamp": now_ms}


def _following(feed: str, graph: Graph, feeds: FeedStore) -> Message | None:
    """Return the message of the graph's origin that follows a feed; None if there is none."""
    if not graph.is_following(graph.origin, feed):
        return None
    number = graph.number(graph.origin, feed)
    held = feeds.after(graph.origin, number - 1, 1) if number else []
    return held[0].message if held else None


class Guest:
    """The use of an invite, from the first byte of a stream to the peer's answer.

    Args:
        invite: the invite.
        feed: the guest's, which the peer shall follow.
        seed: 32 random bytes, for the ephemeral key of the handshake.
        network: key of the network, 32 bytes.
    """

    def __init__(self, invite: Invite, feed: str, seed: bytes, network: bytes = MAIN_NETWORK) -> None:
        identity, peer = Identity.from_seed(invite.seed), parse_feed(invite.address.peer)
        self.channel = SecureStream(ClientHandshake(identity, peer, network, seed))
        self._calls = Calls()
        self._calls.call(USE_INVITE, [{"feed": feed}], "async")

    def take_output(self) -> bytes:
        """Return the bytes to send."""
        if self.channel.remote is not None:
            self.channel.send(self._calls.take_output())
        return self.channel.take_output()

    def receive(self, data: bytes) -> bool:
        """Take bytes of the peer; return whether it follows the feed, since now or before.

        Raises InvalidInvite with the peer's reason, ChannelError or ProtocolError.
        """
        for event in self._calls.receive(self.channel.receive(data)):
            if isinstance(event, Finished) and event.error == _ALREADY:
                return True
            if isinstance(event, Finished):
                raise InvalidInvite(event.error)
            if isinstance(event, Answered):
                return True
        return False


def entry(pub: PeerAddress) -> list[dict[str, Any]]:
    """Return what a guest publishes once a pub follows it: that it follows the pub, and the pub's address."""
    host, port, key = pub
    return [
        {"type": CONTACT, "contact": key, "following": True},
        {"type": PUB, "address": {"host": host, "port": port, "key": key}},
    ]
