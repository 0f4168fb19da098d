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

    def published_before(self, poll: int) -> int:
        """Return the number of messages of a feed before poll 0, 1, ..."""
        return min(self.news, -(-2 * self.news * (poll + 1) // self.polls))


Function = Callable[[Load], float]


def scan_received(load: Load) -> float:
    """pollFrequency * total_messages ("polled scan")"""
    return load.polls * load.messages


def scan_received_of_growing(load: Load) -> float:
    """the sum over all polls of total_messages at that time: feeds grow in the period"""
    return load.feeds * _scanned(load)


def scan_served(load: Load) -> float:
    """subscribers * avg_poll_frequency * feed.length ("polled scan")"""
    return load.subscribers * load.polls * load.length


def scan_served_of_growing(load: Load) -> float:
    """the sum over all polls of subscribers * feed.length at that time: feeds grow in the period"""
    return load.subscribers * _scanned(load)


def _scanned(load: Load) -> int:
    return sum(load.history + load.published_before(poll) for poll in range(load.polls))


def polled(load: Load) -> float:
    """pollFrequency * feeds.length ("polled scan", "append-only poll")"""
    return load.polls * load.feeds


def polled_by_all(load: Load) -> float:
    """pollFrequency * subscribers ("polled scan", "append-only poll")"""
    return load.polls * load.subscribers


def named(load: Load) -> float:
    """pollFrequency * feeds.length: our protocol names each feed that it asks for"""
    return polled(load)


def named_by_all(load: Load) -> float:
    """pollFrequency * subscribers: our protocol names each feed that it asks for"""
    return polled_by_all(load)


def once(load: Load) -> float:
    """total_messages ("append-only poll", "append-only gossip", "spanning trees", "singleton hub")"""
    return load.messages


def once_to_each(load: Load) -> float:
    """subscribers * feed.length ("append-only poll": each message once to each subscriber)"""
    return load.subscribers * load.length


def relayed(load: Load) -> float:
    """total_messages * (peers - 1) / peers: each copy that is received was sent, whoever wrote it"""
    return load.messages * load.subscribers / load.peers


def one_each_poll(load: Load) -> float:
    """pollFrequency ("append-only gossip", "singleton hub")"""
    return load.polls


def both_clocks(load: Load) -> float:
    """2 * pollFrequency * feeds.length: a peer says its clock when it calls, and when it is called"""
    return 2 * load.polls * load.feeds


def skipping(load: Load) -> float:
    """peers_connected_to * feeds.length + pollFrequency / messages ("append-only gossip with
    request-skipping"; a sketch: the last term would fall if there were more messages)"""
    return load.connections * load.feeds + load.polls / load.messages


def skipping_by_changes(load: Load) -> float:
    """2 * edges / peers * feeds.length * min(1 + changes, meetings of two partners): both partners name a
    feed when they first meet, and when it has changed since; changes are the messages of a feed in the
    period, of which the first spreads with its history"""
    meetings = load.polls * load.peers / load.edges
    return 2 * load.edges / load.peers * load.feeds * min(1 + max(1, load.news), meetings)


def partners(load: Load) -> float:
    """K ("random connected network")"""
    return load.connections


def distinct_partners(load: Load) -> float:
    """edges / peers: two peers that draw each other have one connection"""
    return load.edges / load.peers


def flooded_to_each(load: Load) -> float:
    """total_messages * (2 * edges - (n - 1)) / (n - 1) ("random connected network": msgs, inefficiency)"""
    return load.messages * load.copies / (load.peers - 1)


def flooded_by_each(load: Load) -> float:
    """total_messages * (2 * edges - (n - 1)) / n: each copy that is received was sent"""
    return load.messages * load.copies / load.peers


def flooded(load: Load) -> float:
    """total_messages * (2 * edges - (n - 1)) ("random connected network")"""
    return load.messages * load.copies


def clocks_of_links(load: Load) -> float:
    """2 * edges * feeds.length / peers: on each connection both sides say their clock, once"""
    return 2 * load.edges * load.feeds / load.peers


def clocks_of_all_links(load: Load) -> float:
    """2 * edges * feeds.length: on each connection both sides say their clock, once"""
    return 2 * load.edges * load.feeds


def once_in_all(load: Load) -> float:
    """total_messages * (n - 1): each message once along each connection of its tree ("spanning trees")"""
    return load.messages * (load.peers - 1)


def noted(load: Load) -> float:
    """total_messages * (edges - (n - 1)): a note on each redundant connection ("spanning trees", in words)"""
    return load.messages * load.lazy


def noted_by_each(load: Load) -> float:
    """total_messages * (edges - (n - 1)) / n ("spanning trees", in words)"""
    return noted(load) / load.peers


def noted_once(load: Load) -> float:
    """feeds.length * (2 * edges + (edges - (n - 1)) * (1 + messages of a feed in the period)): clocks, then a
    note on each redundant connection, of the end that waits less; history comes at once: it takes one note"""
    return load.feeds * (2 * load.edges + load.lazy * (1 + load.news))


def noted_once_by_each(load: Load) -> float:
    """feeds.length / n * (2 * edges + (edges - (n - 1)) * (1 + messages of a feed in the period)): clocks,
    then a note on each redundant connection; history comes at once: it takes one note"""
    return noted_once(load) / load.peers


def hub_polled_by_all(load: Load) -> float:
    """peers * pollFrequency ("singleton hub")"""
    return load.peers * load.polls


def hub_served(load: Load) -> float:
    """peers * messages ("singleton hub")"""
    return load.peers * load.messages


def hub_served_to_others(load: Load) -> float:
    """messages * (peers - 1): a client is not sent what it has uploaded"""
    return load.messages * load.subscribers


def hub_headers(load: Load) -> float:
    """pollFrequency + feeds.length: a header a poll, and once which feeds are followed"""
    return load.polls + load.feeds


def hub_headers_of_all(load: Load) -> float:
    """peers * pollFrequency + feeds.length * (pollFrequency + peers - 1): a header a poll, in which an author
    also says how far it is in its feed; and once which feeds are followed"""
    return load.peers * load.polls + load.feeds * (load.polls + load.subscribers)


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
        ours: for our protocol if it differs; the function's text has the reason.
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


_POLLED, _POLLED_BY_ALL = Formula(polled), Formula(polled_by_all)
_ONE, _ONCE, _RELAYED = Formula(one_each_poll), Formula(once), Formula(None, relayed)
_PARTNERS = Formula(partners, distinct_partners)
_CLOCKS, _LINK_CLOCKS = Formula(polled, both_clocks), Formula(None, clocks_of_links)
_SKIPPING = Formula(skipping, skipping_by_changes)
_NOTED = Formula(noted_by_each, noted_once_by_each)
_S, _P, _N = Who.SUBSCRIBER, Who.PUBLISHER, Who.NETWORK

FORMULAS: Final[Mapping[Key, Formula]] = {
    **_formulas("scan", _S, _POLLED, Formula(scan_received, scan_received_of_growing), Formula(None, named)),
    **_formulas(
        "scan",
        _P,
        _POLLED_BY_ALL,
        Formula(scan_served, scan_served_of_growing),
        Formula(None, named_by_all),
    ),
    **_formulas("append-poll", _S, _POLLED, _ONCE, _POLLED),
    **_formulas("append-poll", _P, _POLLED_BY_ALL, Formula(once_to_each), _POLLED_BY_ALL),
    **_formulas("gossip", _S, _ONE, _ONCE, _CLOCKS),
    **_formulas("gossip", _P, _ONE, _RELAYED, _CLOCKS),
    **_formulas("gossip-skip", _S, _ONE, _ONCE, _SKIPPING),
    **_formulas("gossip-skip", _P, _ONE, _RELAYED, _SKIPPING),
    **_formulas("flood", _S, _PARTNERS, Formula(flooded_to_each), _LINK_CLOCKS),
    **_formulas("flood", _P, _PARTNERS, Formula(None, flooded_by_each), _LINK_CLOCKS),
    **_formulas("ebt", _S, _PARTNERS, _ONCE, _NOTED),
    **_formulas("ebt", _P, _PARTNERS, _RELAYED, _NOTED),
    ("flood", _N, What.MESSAGES): Formula(flooded),
    ("flood", _N, What.ELEMENTS): Formula(None, clocks_of_all_links),
    ("ebt", _N, What.MESSAGES): Formula(once_in_all),
    ("ebt", _N, What.ELEMENTS): Formula(noted, noted_once),
    **_formulas("hub", _S, _ONE, _ONCE, Formula(one_each_poll, hub_headers)),
    **_formulas(
        "hub",
        _P,
        Formula(hub_polled_by_all),
        Formula(hub_served, hub_served_to_others),
        Formula(hub_polled_by_all, hub_headers_of_all),
    ),
}
"""The formulas of all rungs. Of the hub, the publisher is the hub."""
