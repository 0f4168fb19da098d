"""The titles of feednet's own layerings, a few words for people.

A list of all layerings needs no more than these; the modules with the layerings take a second to import.
"""

TITLES = {
    "ndn": {
        "pull": "SSB over plain NDN, asking what is newest (RDR)",
        "poll": "SSB over plain NDN, per-item polling",
        "long-lived": "SSB over plain NDN, Interests that wait for items",
        "persistent": "SSB over NDN with persistent Interests",
        "notify": "SSB over plain NDN, Interests triggering Interests",
        "sync": "SSB over plain NDN, State Vector Sync",
        "sync-log": "SSB over plain NDN, sync that knows that logs are extended",
        "lli": "SSB over NDN with controlled push",
        "lli-go-back-n": "Controlled push, repaired end to end by go-back-N",
        "lli-selective": "Controlled push, repaired end to end item by item",
        "notify-each": "SSB over plain NDN, an Interest to each consumer",
        "sync-all": "SSB over plain NDN, State Vector Sync with one group for all feeds",
        "psync": "SSB over plain NDN, PSync with one group for all feeds",
        "sync-ps": "SSB over plain NDN, SVS-PS with one group of nodes",
        "sparse": "SSB over plain NDN, the newest part of a log, with skip links",
        "link": "SSB over NDN, storage providers found by a name service",
        "ndn": "Plain NDN, whole objects by their segments",
        "ssb-aware-poll": "SSB-aware NDN, flooded Interests that poll",
        "ssb-aware": "SSB-aware NDN with controlled push",
        "social-routing": "SSB over NDN, Interests along their receiver's graph",
    },
    "ssb": {
        "scan": "SSB: polls of whole feeds",
        "append-poll": "SSB: polls of what is new",
        "gossip": "SSB: gossip, with the clocks of all feeds",
        "gossip-skip": "SSB: gossip that skips requests",
        "flood": "SSB: floods over random connections",
        "ebt": "SSB: epidemic broadcast trees over random connections",
        "hub": "SSB: a hub that remembers its clients",
        "holes": "SSB: EBT of logs whose contents stand beside them, and may be deleted",
        "ssb": "SSB: peers with EBT over TCP",
        "invite": "SSB: a pub by invite, and the pubs that logs name",
        "room": "SSB: tunnels through a room, where friends meet",
        "lan": "SSB: peers that announce themselves to their neighbours",
        "ndn-over-ssb": "NDN over SSB: Interests and Data in logs",
    },
    "mqtt": {
        "broker": "SSB by a broker: MQTT 3.1.1",
    },
    "multicast": {
        "multicast": "SSB by source-specific multicast, repaired on request",
    },
    "moq": {
        "moq": "SSB by relays of Media over QUIC",
    },
    "tiny": {
        "tiny": "tinySSB: everybody replicates everything",
        "tiny-pub": "tinySSB: everything through a pub",
        "tiny-isp": "tinyISP: through providers, by contracts",
    },
}
"""Titles by protocol (testbed.layerings.nodes.node.Layering.protocol) and name."""


def title(name: str) -> str:
    """Return the title of one of feednet's own layerings."""
    return next(titles[name] for titles in TITLES.values() if name in titles)
