"""SSB through pubs that users enter by invite: further pubs are found in logs.

Each node has a log of its own beside the feeds of the workload. It says what its user follows, and which
pubs the user has entered. A pub follows its guests, so it replicates the feeds that these follow. All have an
invite of the first pub, and authors one of each pub; readers find the others in the logs that they replicate.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final

from pydantic import Field

from base.endpoint import Close, Closed, Connect, Ended, Opened, Received, Send, StreamAction, StreamEvent
from base.key_log import Secret
from base.timers import earliest
from base.units import MS, SECOND
from ssb.applications.pubs import PUB, Pubs, to_call
from ssb.canonical import Value
from ssb.graph import CONTACT, Graph, Relation
from ssb.keys import Identity
from ssb.message import Message
from ssb.peer.access import InvalidInvite, OpenAccess
from ssb.peer.invites import Guest, Invites, entry
from ssb.peer.options import PORT
from ssb.transport.address import Invite, PeerAddress
from ssb.transport.muxrpc import ProtocolError
from ssb.transport.secure_stream import ChannelError
from testbed.layerings.nodes.node import Context, NodeNames, SimpleLayering, middle_of
from testbed.layerings.nodes.peer_role import peer_identity
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.witness import Witness
from testbed.layerings.nodes.workload import Feature
from testbed.layerings.peers.ssb import EbtTimes, SsbNode

_AGAIN: Final = SECOND
"""When a user tries again to enter a pub that could not be reached, ns."""
_FIRST_STREAM: Final = 1 << 33
"""Of guests; the streams of peers have lower numbers."""


class InviteParameters(EbtTimes):
    """Parameters of `invite`."""

    at: str | None = None
    """The node of the first pub, which neither publishes nor follows. Default: the first with most
    links."""
    pubs: NodeNames = Field(default=[])
    """Nodes of further pubs. Authors have an invite of each; readers find them in logs."""


class _Entrance:
    """The use of a node's invites, one after the other, over streams of its own; `feed` is the node's."""

    def __init__(self, invites: Iterable[Invite], feed: str, random: Random, now: int) -> None:
        self._invites = deque(invites)
        self._feed = feed
        self._random = random
        self._tries_at: int | None = now if self._invites else None
        self._guest: Guest | None = None
        self._stream = _FIRST_STREAM
        self._actions: list[StreamAction] = []
        self._secrets: list[Secret] = []
        self._errors: list[str] = []

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._tries_at

    def wake(self, now: int) -> None:
        """Call the pub of the next invite."""
        if self._tries_at is not None and now >= self._tries_at:
            self._tries_at = None
            invite = self._invites[0]
            self._guest = Guest(invite, self._feed, self._random.randbytes(32))
            self._stream += 1
            self._actions.append(Connect(self._stream, (invite.address.host, invite.address.port)))

    def on_stream(self, event: StreamEvent, now: int) -> PeerAddress | None:
        """Handle an event; return the pub that follows the feed now."""
        guest = self._guest
        if guest is None or event.stream != self._stream:
            return None
        pub = self._invites[0].address
        try:
            if isinstance(event, Received) and guest.receive(event.data):
                self._hang_up(now, is_used=True)
                return pub
            if isinstance(event, Closed | Ended):
                self._hang_up(now, is_used=False)
            elif isinstance(event, Opened | Received) and (output := guest.take_output()):
                self._actions.append(Send(self._stream, output))
        except (InvalidInvite, ChannelError, ProtocolError) as error:
            self._errors.append(f"the invite of {pub} is of no use: {error}")
            self._hang_up(now, is_used=True)
        return None

    def take_actions(self) -> list[StreamAction]:
        """See StreamEndpoint."""
        actions, self._actions = self._actions, []
        return actions

    def take_secrets(self) -> list[Secret]:
        """Return the secrets of streams since the last call."""
        if self._guest is not None:
            self._secrets += self._guest.channel.take_secrets()
        secrets, self._secrets = self._secrets, []
        return secrets

    def take_errors(self) -> list[str]:
        """Return why invites were refused since the last call."""
        errors, self._errors = self._errors, []
        return errors

    def _hang_up(self, now: int, *, is_used: bool) -> None:
        assert self._guest is not None
        self._secrets += self._guest.channel.take_secrets()
        self._guest = None
        self._actions.append(Close(self._stream))
        if is_used:
            self._invites.popleft()
        else:
            self._invites.rotate(-1)
        self._tries_at = (now if is_used else now + _AGAIN) if self._invites else None


class _PubAccess(OpenAccess):
    """Admits every peer, and takes invites, which `use` uses."""

    def __init__(self, invites: Invites, use: Callable[[str, Sequence[Value]], Value]) -> None:
        super().__init__()
        self._invites = invites
        self._use = use

    def is_guest(self, peer: str) -> bool:
        return peer in self._invites.uses

    def use_invite(self, peer: str, arguments: Sequence[Value]) -> Value:
        return self._use(peer, arguments)


class InviteNode(SsbNode):
    """A node, a StreamEndpoint, whose peer is a pub, or enters pubs.

    Nodes that are no pub, and neither publish nor follow, have no peer.

    Args:
        context: see Context.
    """

    def __init__(self, context: Context) -> None:
        name, now = context.name, context.since or 0
        self._identity = peer_identity(context.seed, name)
        ref = self._identity.ref
        self._graph, self._book = Graph(ref), Pubs()
        self._now = now
        self._unsent: list[Message] = []
        self._witness = Witness(context)
        log = [Message.from_text(text) for text in context.state.log]
        for message in log:
            self._graph.add(message)
            self._book.add(message)
        entered = {pub.address.peer: pub.address for pub in self._book.listed({ref})}
        self._entered = set(entered)
        given = _invites(context)
        keys = (Identity.from_seed(invite.seed).ref for invite in given.get(name, {}).values())
        self._invites = Invites(dict.fromkeys(keys, 1))
        super().__init__(context)
        self._store.append(log, 0.0)
        self._role.stays_connected, self._role.calls_at = True, None
        self._role.own.add(ref)
        self._role.replicated = []  # the graph has what it follows
        self._reads = [feed.key for feed in context.workload.follows.get(name, ())]
        own = [invites[name] for invites in given.values() if name in invites]
        random = Random(f"guest {context.seed} {context.layering} {name} {context.since}")
        unused = [invite for invite in own if invite.address.peer not in entered]
        self._entrance = _Entrance(unused, ref, random, now)
        if name not in given and not own:
            self.programs = []
            return
        for host, port, peer in entered.values():
            self._peer.add(peer, (host, port), now, is_kept=True)
        for feed in self._role.feeds:
            self._follow(feed.key)

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return earliest(super().next_deadline(), self._entrance.next_deadline())

    def wake(self, now: int) -> None:
        self._now = now
        self._entrance.wake(now)
        super().wake(now)

    def on_stream(self, event: StreamEvent, now: int) -> None:
        self._now = now
        if event.stream < _FIRST_STREAM:
            super().on_stream(event, now)
            return
        pub = self._entrance.on_stream(event, now)
        for error in self._entrance.take_errors():
            self._note_all(now, "error", error)
        if pub is not None:
            self._entered.add(pub.peer)
            for content in entry(pub):
                self._write(content)
            self._peer.add(pub.peer, (pub.host, pub.port), now, is_kept=True)
            self._take_in(now)

    def take_actions(self) -> list[StreamAction]:
        return [*self._entrance.take_actions(), *super().take_actions()]

    def take_secrets(self) -> list[Secret]:
        """See Node: the keys of box streams."""
        return [*self._entrance.take_secrets(), *super().take_secrets()]

    def counters(self) -> dict[str, Any]:
        """Return SsbNode's counters, and the number of pubs that logs here name."""
        return super().counters() | {"pubs_named": len(self._book.listed(self._graph.replicated()))}

    def _observe(self, witness: Witness) -> None:
        """See SsbNode; logs say what their authors follow, too."""
        super()._observe(witness)
        for author, feed, relation, _ in self._graph.statements():
            if relation is Relation.FOLLOWS:
                witness.hears(author, [feed])

    def _meetings(self, context: Context) -> dict[str, Any]:
        return {"access": _PubAccess(self._invites, self._use_invite)}

    def _first_wanted(self, context: Context) -> list[str]:
        return sorted({*super()._first_wanted(context), *self._graph.replicated()})

    def _join(self, now: int) -> None:
        super()._join(now)
        for feed in self._reads:
            self._follow(feed)

    def _leave(self, now: int) -> None:
        super()._leave(now)
        for feed in self._reads:
            self._follow(feed, following=False)

    def _take_in(self, now: int) -> None:
        super()._take_in(now)
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            self._peer.on_appended(message.author, now)
            self._learn(message, now)

    def _learn(self, message: Message, now: int) -> None:
        """Replicate what is followed from now on, and call the pubs that logs name."""
        self._graph.add(message)
        self._book.add(message)
        changes = self._graph.take_changes()
        self._peer.want_all(sorted(changes.added), now)
        for feed in sorted(changes.removed):
            self._peer.unwant(feed, now)
        is_of_pub = isinstance(message.content, dict) and message.content.get("type") == PUB
        if not changes.added and not is_of_pub:
            return
        for host, port, pub in to_call(self._book.listed(self._graph.replicated())):
            if pub not in self._entered:
                self._peer.add(pub, (host, port), now, is_hearsay=True)

    def _use_invite(self, guest: str, arguments: Sequence[Value]) -> Value:
        invites, graph = self._invites, self._graph
        return invites.use(guest, arguments, graph, self._store, self._write, self._now / MS)

    def _follow(self, feed: str, *, following: bool = True) -> None:
        if self._graph.is_following(self._identity.ref, feed) != following:
            self._write({"type": CONTACT, "contact": feed, "following": following})

    def _write(self, content: Mapping[str, Any]) -> Message:
        """Publish a message in the node's own log; _take_in() passes it on."""
        message = self._store.publish(self._identity, content, self._now / MS)
        self.state.log.append(message.encoded)
        self._graph.add(message)  # at once: an invite may be used again before _take_in()
        self._unsent.append(message)
        return message


def _invites(context: Context) -> dict[str, dict[str, Invite]]:
    """Return the invites of each pub by the nodes of their guests."""
    workload, network = context.workload, context.network
    ends = workload.publishers | workload.follows.keys()
    first = middle_of("invite", network, ends, context.parameters["at"])
    given = {}
    for pub in (first, *context.parameters["pubs"]):
        address = PeerAddress(network.address(pub), PORT, peer_identity(context.seed, pub).ref)
        guests = ends if pub == first else workload.publishers
        seeds = {guest: f"invite {context.seed} {pub} {guest}".encode() for guest in sorted(guests)}
        given[pub] = {guest: Invite(address, hashlib.sha256(seed).digest()) for guest, seed in seeds.items()}
    return given


INVITE: Final = SimpleLayering(
    title("invite"),
    InviteParameters,
    InviteNode,
    "ssb",
    frozenset({Feature.MEDIUM, Feature.FOLLOWING}),
)
"""Layering `invite`."""
