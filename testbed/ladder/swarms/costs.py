"""The paper's cost formulas as functions of a swarm's load in a period, and our corrections.

The paper is "Scalable Secure Scuttlebutt" (Tarr), cited by section. It gives some formulas as sketches, and
others in words only. All costs are counts in the period: connections, copies of messages, and elements of
clocks (a feed and a number; EBT's notes count as such). A subscriber calls, receives messages, and sends
elements; a publisher is called, sends messages, and receives elements.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Who(StrEnum):
    """The bearer of a cost; under `hub`, the hub bears that of publishers."""

    SUBSCRIBER = "subscriber"
    PUBLISHER = "publisher"
    NETWORK = "network"


class What(StrEnum):
    """The counted quantity."""

    CONNECTIONS = "connections"
    MESSAGES = "messages"
    ELEMENTS = "elements"


class Load(NamedTuple):
    """Load of a swarm in a period. All peers replicate the same feeds; as many peers write one each.

    Attributes:
        polls: polling intervals in the period: the paper's pollFrequency.
        feeds: replicated by each peer: the paper's feeds.length.
        peers: in the swarm.
        connections: partners that a peer opens connections to: the paper's peers_connected_to, and K.
        history: messages of a feed before the period, held by its author only.
        news: messages of a feed published in the period's first half, evenly spaced.
        edges: pairs of partners; about peers * connections.
    """

    polls: int
    feeds: int
    peers: int
    connections: int
    history: int
    news: int
    edges: int

    @property
    def length(self) -> int:
        """Messages of a feed at the end of the period: the paper's feed.length."""
        return self.history + self.news

    @property
    def messages(self) -> int:
        """Messages of all feeds: the paper's total_messages."""
        return self.feeds * self.length

    @property
    def subscribers(self) -> int:
        """Peers that replicate a feed and do not write it."""
        return self.peers - 1

    @property
    def lazy(self) -> int:
        """Connections not needed for a spanning tree."""
        return self.edges - (self.peers - 1)

    @property
    def copies(self) -> int:
        """Copies of a message sent by a flood ("random connected network")."""
        return 2 * self.edges - (self.peers - 1)

    @property
    def meetings(self) -> float:
        """Connections of two partners."""
        return self.polls * self.peers / self.edges

    @property
    def scanned(self) -> int:
        """Messages of a feed, summed over the polls: as many as there are at each."""
        return sum(self.history + self.published_before(poll) for poll in range(self.polls))

    def published_before(self, poll: int) -> int:
        """Return the number of messages of a feed before poll 0, 1, ..."""
        return min(self.news, -(-2 * self.news * (poll + 1) // self.polls))


class Function(NamedTuple):
    """A formula in words, with its section in the paper or our reason, and as a function of a load."""

    words: str
    of: Callable[[Load], float]


SCAN_RECEIVED: Final = Function(
    'pollFrequency * total_messages ("polled scan")', lambda load: load.polls * load.messages
)
SCAN_RECEIVED_OF_GROWING: Final = Function(
    "the sum over all polls of total_messages at that time: feeds grow in the period",
    lambda load: load.feeds * load.scanned,
)
SCAN_SERVED: Final = Function(
    'subscribers * avg_poll_frequency * feed.length ("polled scan")',
    lambda load: load.subscribers * load.polls * load.length,
)
SCAN_SERVED_OF_GROWING: Final = Function(
    "the sum over all polls of subscribers * feed.length at that time: feeds grow in the period",
    lambda load: load.subscribers * load.scanned,
)
POLLED: Final = Function(
    'pollFrequency * feeds.length ("polled scan", "append-only poll")', lambda load: load.polls * load.feeds
)
POLLED_BY_ALL: Final = Function(
    'pollFrequency * subscribers ("polled scan", "append-only poll")',
    lambda load: load.polls * load.subscribers,
)
NAMED: Final = Function(
    "pollFrequency * feeds.length: our protocol names each feed that it asks for",
    lambda load: load.polls * load.feeds,
)
NAMED_BY_ALL: Final = Function(
    "pollFrequency * subscribers: our protocol names each feed that it asks for",
    lambda load: load.polls * load.subscribers,
)
ONCE: Final = Function(
    'total_messages ("append-only poll", "append-only gossip", "spanning trees", "singleton hub")',
    lambda load: load.messages,
)
ONCE_TO_EACH: Final = Function(
    'subscribers * feed.length ("append-only poll": each message once to each subscriber)',
    lambda load: load.subscribers * load.length,
)
RELAYED: Final = Function(
    "total_messages * (peers - 1) / peers: each copy that is received was sent, whoever wrote it",
    lambda load: load.messages * load.subscribers / load.peers,
)
ONE_EACH_POLL: Final = Function(
    'pollFrequency ("append-only gossip", "singleton hub")', lambda load: load.polls
)
BOTH_CLOCKS: Final = Function(
    "2 * pollFrequency * feeds.length: a peer says its clock when it calls, and when it is called",
    lambda load: 2 * load.polls * load.feeds,
)
SKIPPING: Final = Function(
    'peers_connected_to * feeds.length + pollFrequency / messages ("append-only gossip with '
    'request-skipping"; a sketch: the last term would fall if there were more messages)',
    lambda load: load.connections * load.feeds + load.polls / load.messages,
)
SKIPPING_BY_CHANGES: Final = Function(
    "2 * edges / peers * feeds.length * min(1 + changes, meetings of two partners): both partners name "
    "a feed when they first meet, and when it has changed since; changes are the messages of a feed in "
    "the period, of which the first spreads with its history",
    lambda load: 2 * load.edges / load.peers * load.feeds * min(1 + max(1, load.news), load.meetings),
)
PARTNERS: Final = Function('K ("random connected network")', lambda load: load.connections)
DISTINCT_PARTNERS: Final = Function(
    "edges / peers: two peers that draw each other have one connection", lambda load: load.edges / load.peers
)
FLOODED_TO_EACH: Final = Function(
    'total_messages * (2 * edges - (n - 1)) / (n - 1) ("random connected network": msgs, inefficiency)',
    lambda load: load.messages * load.copies / (load.peers - 1),
)
FLOODED_BY_EACH: Final = Function(
    "total_messages * (2 * edges - (n - 1)) / n: each copy that is received was sent",
    lambda load: load.messages * load.copies / load.peers,
)
FLOODED: Final = Function(
    'total_messages * (2 * edges - (n - 1)) ("random connected network")',
    lambda load: load.messages * load.copies,
)
CLOCKS_OF_LINKS: Final = Function(
    "2 * edges * feeds.length / peers: on each connection both sides say their clock, once",
    lambda load: 2 * load.edges * load.feeds / load.peers,
)
CLOCKS_OF_ALL_LINKS: Final = Function(
    "2 * edges * feeds.length: on each connection both sides say their clock, once",
    lambda load: 2 * load.edges * load.feeds,
)
ONCE_IN_ALL: Final = Function(
    'total_messages * (n - 1): each message once along each connection of its tree ("spanning trees")',
    lambda load: load.messages * (load.peers - 1),
)
NOTED: Final = Function(
    'total_messages * (edges - (n - 1)): a note on each redundant connection ("spanning trees", in words)',
    lambda load: load.messages * load.lazy,
)
NOTED_BY_EACH: Final = Function(
    'total_messages * (edges - (n - 1)) / n ("spanning trees", in words)',
    lambda load: load.messages * load.lazy / load.peers,
)
NOTED_ONCE: Final = Function(
    "feeds.length * (2 * edges + (edges - (n - 1)) * (1 + messages of a feed in the period)): clocks, "
    "then a note on each redundant connection, of the end that waits less; history comes at once: it "
    "takes one note",
    lambda load: load.feeds * (2 * load.edges + load.lazy * (1 + load.news)),
)
NOTED_ONCE_BY_EACH: Final = Function(
    "feeds.length / n * (2 * edges + (edges - (n - 1)) * (1 + messages of a feed in the period)): "
    "clocks, then a note on each redundant connection; history comes at once: it takes one note",
    lambda load: load.feeds * (2 * load.edges + load.lazy * (1 + load.news)) / load.peers,
)
HUB_POLLED_BY_ALL: Final = Function(
    'peers * pollFrequency ("singleton hub")', lambda load: load.peers * load.polls
)
HUB_SERVED: Final = Function('peers * messages ("singleton hub")', lambda load: load.peers * load.messages)
HUB_SERVED_TO_OTHERS: Final = Function(
    "messages * (peers - 1): a client is not sent what it has uploaded",
    lambda load: load.messages * load.subscribers,
)
HUB_HEADERS: Final = Function(
    "pollFrequency + feeds.length: a header a poll, and once which feeds are followed",
    lambda load: load.polls + load.feeds,
)
HUB_HEADERS_OF_ALL: Final = Function(
    "peers * pollFrequency + feeds.length * (pollFrequency + peers - 1): a header a poll, in which an "
    "author also says how far it is in its feed; and once which feeds are followed",
    lambda load: load.peers * load.polls + load.feeds * (load.polls + load.subscribers),
)


class Hub(NamedTuple):
    """Total of all clients of a hub and the hub: copies of messages, and headers."""

    messages: int
    elements: int


def ideal_hub(peers: int, messages: int, connections: int) -> Hub:
    """messages * peers copies: one up to the hub, and one down to each client but the author; and one header
    for each client and connection ("singleton hub")"""
    return Hub(messages * peers, peers * connections)


class Formula(NamedTuple):
    """Formulas of a cost.

    Attributes:
        paper: by the paper; None without one.
        ours: for our protocol if it differs; its words have the reason.
    """

    paper: Function | None
    ours: Function | None = None

    @property
    def best(self) -> Function:
        """Ours, or else the paper's."""
        found = self.ours or self.paper
        assert found is not None
        return found


Key = tuple[str, Who, What]
"""A rung, a bearer, and a quantity."""


def _formulas(
    rung: str, who: Who, connections: Formula, messages: Formula, elements: Formula
) -> dict[Key, Formula]:
    return {
        (rung, who, What.CONNECTIONS): connections,
        (rung, who, What.MESSAGES): messages,
        (rung, who, What.ELEMENTS): elements,
    }


_POLLED, _POLLED_BY_ALL = Formula(POLLED), Formula(POLLED_BY_ALL)
_ONE, _ONCE, _RELAYED = Formula(ONE_EACH_POLL), Formula(ONCE), Formula(None, RELAYED)
_PARTNERS = Formula(PARTNERS, DISTINCT_PARTNERS)
_CLOCKS, _LINK_CLOCKS = Formula(POLLED, BOTH_CLOCKS), Formula(None, CLOCKS_OF_LINKS)
_SKIPPING = Formula(SKIPPING, SKIPPING_BY_CHANGES)
_NOTED = Formula(NOTED_BY_EACH, NOTED_ONCE_BY_EACH)
_S, _P, _N = Who.SUBSCRIBER, Who.PUBLISHER, Who.NETWORK

FORMULAS: Final[Mapping[Key, Formula]] = {
    **_formulas("scan", _S, _POLLED, Formula(SCAN_RECEIVED, SCAN_RECEIVED_OF_GROWING), Formula(None, NAMED)),
    **_formulas(
        "scan",
        _P,
        _POLLED_BY_ALL,
        Formula(SCAN_SERVED, SCAN_SERVED_OF_GROWING),
        Formula(None, NAMED_BY_ALL),
    ),
    **_formulas("append-poll", _S, _POLLED, _ONCE, _POLLED),
    **_formulas("append-poll", _P, _POLLED_BY_ALL, Formula(ONCE_TO_EACH), _POLLED_BY_ALL),
    **_formulas("gossip", _S, _ONE, _ONCE, _CLOCKS),
    **_formulas("gossip", _P, _ONE, _RELAYED, _CLOCKS),
    **_formulas("gossip-skip", _S, _ONE, _ONCE, _SKIPPING),
    **_formulas("gossip-skip", _P, _ONE, _RELAYED, _SKIPPING),
    **_formulas("flood", _S, _PARTNERS, Formula(FLOODED_TO_EACH), _LINK_CLOCKS),
    **_formulas("flood", _P, _PARTNERS, Formula(None, FLOODED_BY_EACH), _LINK_CLOCKS),
    **_formulas("ebt", _S, _PARTNERS, _ONCE, _NOTED),
    **_formulas("ebt", _P, _PARTNERS, _RELAYED, _NOTED),
    ("flood", _N, What.MESSAGES): Formula(FLOODED),
    ("flood", _N, What.ELEMENTS): Formula(None, CLOCKS_OF_ALL_LINKS),
    ("ebt", _N, What.MESSAGES): Formula(ONCE_IN_ALL),
    ("ebt", _N, What.ELEMENTS): Formula(NOTED, NOTED_ONCE),
    **_formulas("hub", _S, _ONE, _ONCE, Formula(ONE_EACH_POLL, HUB_HEADERS)),
    **_formulas(
        "hub",
        _P,
        Formula(HUB_POLLED_BY_ALL),
        Formula(HUB_SERVED, HUB_SERVED_TO_OTHERS),
        Formula(HUB_POLLED_BY_ALL, HUB_HEADERS_OF_ALL),
    ),
}
"""The formulas of all rungs. Of the hub, the publisher is the hub."""
