"""The cost of publishing each message under its hash, too: bytes and state of one feed, by real forwarders.

"In order to support access to a log entry via its hash, all content would also be published under"
/ssb/sha256/<hash> (Tarr et al., "Secure Scuttlebutt", ACM ICN 2019, longer draft, section 9.3). A router with
a content store joins a publisher and two readers. The second reader asks when the first one has all.

A hash has no location. So routers have a route for each message, or Interests have the author's feed as
forwarding hint.
"""

from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.links.link import UDP_IPV4_HEADERS
from forwarder.wire.feed import item_name
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest, parse_data
from ssb.generate import generate_feed
from ssb.message import Message
from ssb_over_ndn.naming import hash_name, hash_packet, log_name, message_packet
from ssb_over_ndn.serving.publisher import Publisher

MESSAGES: Final = 235
"""Messages of the real feed that generated ones resemble."""

_LIFETIME_MS: Final = 4000


class Way(Enum):
    """How the second reader asks; the first one asks by number."""

    NUMBER = "by number"
    HINT = "by hash, hints"
    ROUTES = "by hash, routes"


class Cost(NamedTuple):
    """What a feed costs.

    Attributes:
        kept: bytes of the Data packets of the publisher.
        upstream: bytes on the link of the publisher, both directions, headers of UDP and IPv4 included.
        interest: bytes of an Interest of the second reader, mean.
        stored, stored_bytes: Data packets in the router's content store.
        routes, route_bytes: the router's routes, as state: docs/architecture.md, State.
    """

    kept: int
    upstream: int
    interest: float
    stored: int
    stored_bytes: int
    routes: int
    route_bytes: int


class _Network:
    """A publisher of a whole feed, and a router: Data comes back at once."""

    def __init__(self, feed: Sequence[Message]) -> None:
        self._publisher, self.router = (
            Host(Forwarder(rng=Random(end), controlled_push=False)) for end in (0, 1)
        )
        # No frame is cut: the headers of fragments would depend on the sizes of single messages.
        self.up = self.router.add_face().number
        self._down = self._publisher.add_face().number
        application = Publisher(feed, [0] * len(feed))
        application.wake(0)
        local = self._publisher.attach(application)
        for prefix in (log_name(feed[0].author), *(hash_name(message.id) for message in feed)):
            self._publisher.forwarder.fib.add(prefix, local)
        self.upstream = self.stored_bytes = 0

    def ask(self, reader: int, interest: bytes) -> bytes:
        """Send an Interest into a face of the router; return the answer. Raises RuntimeError without one."""
        self.router.receive(reader, interest, None, 0)
        answers = []
        while outputs := self.router.take_outputs():
            for face, frame, _ in outputs:
                if face != self.up:
                    answers.append(frame)
                    continue
                self._publisher.receive(self._down, frame, None, 0)
                self.upstream += len(frame) + UDP_IPV4_HEADERS
                for _, answer, _ in self._publisher.take_outputs():
                    self.upstream += len(answer) + UDP_IPV4_HEADERS
                    self.stored_bytes += len(answer)
                    self.router.receive(self.up, answer, None, 0)
        if len(answers) != 1:
            raise RuntimeError(f"{len(answers)} answers to an Interest")
        return answers[0]


def generated(messages: int, seed: int = 1) -> list[Message]:
    """Return a feed that resembles a real one."""
    return generate_feed(Random(seed), messages)


def measure(feed: Sequence[Message], way: Way) -> Cost:
    """Return the cost of a feed that two readers read from its first message."""
    network = _Network(feed)
    log = log_name(feed[0].author)
    fib = network.router.forwarder.fib
    fib.add(log, network.up)
    if way is Way.ROUTES:
        fib.add_many([hash_name(message.id) for message in feed], network.up)
    first, second = (network.router.add_face().number for _ in range(2))
    sizes = 0
    for reader, asked in ((first, Way.NUMBER), (second, way)):
        for nonce, message in enumerate(feed):
            name = item_name(log, message.sequence) if asked is Way.NUMBER else hash_name(message.id)
            interest = make_interest(
                name,
                nonce=nonce,
                lifetime_ms=_LIFETIME_MS,
                hop_limit=SENT_HOP_LIMIT,
                forwarding_hint=(log,) if asked is Way.HINT else (),
            )
            if parse_data(network.ask(reader, interest)).name != name:
                raise RuntimeError("the answer has another name")
            sizes += len(interest) if reader == second else 0
    packets = (message_packet,) if way is Way.NUMBER else (message_packet, hash_packet)
    routes = network.router.forwarder.held()["routes"]
    return Cost(
        kept=sum(len(make(message)) for make in packets for message in feed),
        upstream=network.upstream,
        interest=sizes / len(feed),
        stored=len(network.router.forwarder.cs),
        stored_bytes=network.stored_bytes,
        routes=routes.entries,
        route_bytes=routes.bytes,
    )
