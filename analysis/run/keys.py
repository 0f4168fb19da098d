"""Names and values of a run's settings in people's words: key paths of scenarios."""

import json
from typing import Any, NamedTuple

from topologies.link import LINK_PARAMETERS
from topologies.radio import RADIO_PARAMETERS
from topologies.ranges import contract_ranges

NET = "net"
VERSION = "feednet"
SOURCE = "directory"
"""Keys outside of scenarios: a run's network, its version, and its path, which counts only if nothing else
differs.
"""

LOSS = "topology.link.loss_percent"
ITEMS = "workload.items"
STRATEGY = "strategies./"


class Words(NamedTuple):
    """A key's name, and the unit of its values, "" if none."""

    what: str
    unit: str = ""

    @property
    def titled(self) -> str:
        """The title of an axis, "loss of each link, %"."""
        return f"{self.what}, {self.unit}" if self.unit else self.what


WORDS = {
    NET: Words("network"),
    VERSION: Words("version of feednet"),
    SOURCE: Words("directory"),
    ITEMS: Words("items published", "items"),
    STRATEGY: Words("forwarding strategy"),
    **{f"topology.link.{name}": Words(each.title, each.unit) for name, each in LINK_PARAMETERS.items()},
    "topology.generator": Words("shape of the network"),
    "topology.file": Words("topology file"),
    "topology.library": Words("network of the library"),
    "topology.replaced": Words("parameters of links that replace the network's own"),
    "topology.links": Words("links"),
    "topology.attributes": Words("attributes of nodes"),
    "topology.media": Words("broadcast media"),
    **{f"topology.radio.{name}": Words(each.title, each.unit) for name, each in RADIO_PARAMETERS.items()},
    "topology.length": Words("length of the line", "links"),
    "topology.depth": Words("depth of the tree", "links"),
    "topology.fanout": Words("children of each node of the tree", "nodes"),
    "topology.leaves": Words("leaves of the star", "nodes"),
    "topology.rows": Words("rows of the grid", "nodes"),
    "topology.columns": Words("columns of the grid", "nodes"),
    "topology.nodes": Words("nodes of the network", "nodes"),
    "topology.degree": Words("mean links of a node", "links"),
    "topology.attached": Words("links of a node that joins", "links"),
    "topology.neighbours": Words("nearest neighbours of a node", "nodes"),
    "topology.rewired": Words("share of links that lead anywhere"),
    "topology.ports": Words("links of each forwarder of the fat tree", "links"),
    "topology.seed": Words("seed of the network"),
    "topology.users.number": Words("users of the network", "users"),
    "topology.users.at": Words("where users join the network"),
    **{
        f"topology.users.link.{name}": Words(each.title.replace("each", "each user’s"), each.unit)
        for name, each in LINK_PARAMETERS.items()
    },
    "routing.metric": Words("what makes a route good"),
    "routing.paths": Words("routes that forwarders get"),
    "routing.k": Words("paths that give next hops", "paths"),
    "routing.converge_ms": Words("time until routes follow", "ms"),
    "routing.idle_names": Words("names of idle feeds"),
    "hosts": Words("how nodes run in Mininet"),
    "publisher": Words("publisher"),
    "publishers": Words("publishers"),
    "subscribers": Words("subscribers"),
    "workload.feed": Words("feed"),
    "workload.feeds": Words("feeds", "feeds"),
    "workload.activity_exponent": Words("exponent of the feeds’ activity"),
    "workload.follows": Words("feeds that each subscriber follows", "feeds"),
    "workload.item_bytes": Words("size of an item’s message", "bytes"),
    "workload.graph.follows": Words("people whom everybody follows who joins", "people"),
    "workload.graph.closure": Words("probability to follow a friend’s friend"),
    "workload.graph.mutual": Words("probability to follow back"),
    "workload.graph.hubs": Words("preference for people with many followers"),
    "workload.idle_feeds": Words("idle feeds that have routes", "feeds"),
    "workload.graph.blocks": Words("people whom everybody blocks", "people"),
    "workload.graph.stated": Words("follows stated in feeds"),
    "workload.pictures.every": Words("messages of a feed for each that has a picture", "messages"),
    "workload.pictures.size_bytes": Words("size of a picture", "bytes"),
    "workload.application.kind": Words("application"),
    "workload.application.reading_ms": Words("time until an author has read a message", "ms"),
    "workload.application.clock_error_ms": Words("largest error of authors’ clocks", "ms"),
    "workload.schedule.speed": Words("speed-up of the feeds’ own time", "times"),
    "workload.schedule.idle_limit_ms": Words("longest silence of a feed", "ms"),
    "workload.fetch.requests": Words("objects that each subscriber asks for", "objects"),
    "workload.fetch.popularity_exponent": Words("exponent of the objects’ popularity"),
    "workload.fetch.interval_ms": Words("mean time between two requests", "ms"),
    "workload.fetch.segment_bytes": Words("size of a segment", "bytes"),
    "events": Words("what happens to the network"),
    "programs": Words("programs of the user"),
    "arrivals.from_ms": Words("first arrival of the crowd", "ms"),
    "arrivals.to_ms": Words("last arrival of the crowd", "ms"),
    "sessions.online_ms": Words("mean time online", "ms"),
    "sessions.offline_ms": Words("mean time offline", "ms"),
    "sessions.day_ms": Words("length of a day", "ms"),
    "sessions.zones": Words("time zones", "zones"),
    "sessions.night": Words("share of a day that is night"),
    "mobility.trace": Words("trace of moving nodes"),
    "mobility.range_m": Words("range of moving nodes", "m"),
    "mobility.every_ms": Words("time between looks at positions", "ms"),
    "mobility.signalled": Words("whether moving nodes notice"),
    "fork.publisher": Words("publisher of the fork"),
    "fork.after": Words("last item before the fork"),
    "fork.cure": Words("what keeps a feed from being forked"),
    "ending.after": Words("last item of the feed that ends"),
    "ending.successor": Words("publisher of the successor"),
    "ending.suite": Words("hash and signature of the successor"),
    "ending.told": Words("whether the last item says so"),
    "deletion.items": Words("items to be deleted", "items"),
    "deletion.after": Words("last item before the request to delete"),
    "deletion.ignored_percent": Words("subscribers that ignore the request", "%"),
    "archive.node": Words("archive"),
    "archive.retain": Words("items that the publisher keeps", "items"),
    "cross_traffic": Words("cross traffic"),
    "strategy_files": Words("files of strategies"),
    "forwarders.cs_packets": Words("size of content stores", "packets"),
    "forwarders.cs_policy": Words("policy of content stores"),
    "forwarders.pit_entries": Words("Interests pending at most", "Interests"),
    "forwarders.feeds": Words("feeds cached at most", "feeds"),
    "forwarders.feed_items": Words("items cached of each feed", "items"),
    "forwarders.feed_bytes": Words("bytes cached of each feed", "bytes"),
    "forwarders.feeds_bytes": Words("bytes cached of all feeds", "bytes"),
    "cost.machine": Words("times of operations"),
    "cost.forward_us": Words("time of a frame", "µs"),
    "cost.verify_us": Words("time to verify", "µs"),
    "cost.sign_us": Words("time to sign", "µs"),
    "cost.hash_us": Words("time to hash", "µs"),
    "cost.store_us": Words("time to store", "µs"),
    "cost.batch": Words("frames taken up at once", "frames"),
    "cost.queue": Words("frames that wait at most", "frames"),
    "warmup_ms": Words("time before the first item", "ms"),
    "settle_ms": Words("time after the last item", "ms"),
    "drain_ms": Words("time after the subscriptions", "ms"),
    "sample_interval_ms": Words("time between samples", "ms"),
}

PARAMETERS = {
    "window": Words("window", "items"),
    "connect": Words("whom peers call"),
    "rate": Words("Interests that a contract allows", "Interests/s"),
    "entries": Words("messages of a transient feed", "messages"),
    "unread": Words("transient feeds that wait to be read", "feeds"),
    "validate_data": Words("validation of Data by providers"),
    "interval_ms": Words("time between two calls", "ms"),
    "at": Words("node in the middle"),
    "pubs": Words("further pubs"),
    "meets": Words("whom peers meet in the room"),
    "announce_ms": Words("time between announcements", "ms"),
    "providers": Words("providers"),
    "hostile": Words("hostile nodes"),
    "attack": Words("attack of hostile nodes"),
    "attack_ms": Words("longest time between two rounds of the attack", "ms"),
    "round_ms": Words("time between vectors", "ms"),
    "claims_ms": Words("time between claims", "ms"),
    "retry_ms": Words("time until a question is repeated", "ms"),
    "pause_ms": Words("silence after an answer", "ms"),
    "spread_ms": Words("longest wait before an answer", "ms"),
    "gap_ms": Words("time between packets of a node", "ms"),
    "size": Words("entries of a data feed", "entries"),
    "pace_ms": Words("mean time between two commands of a client", "ms"),
    "burst": Words("commands of a client read at once", "commands"),
    "line_pace_ms": Words("mean time between two packets of a client", "ms"),
    "explain_ms": Words("time until an entry must be explained", "ms"),
    "backlog": Words("entries held for a slow client", "entries"),
    "connections": Words("connections that each peer opens", "connections"),
    "hops": Words("follows to a feed that is replicated", "follows"),
    "encrypt": Words("encryption"),
    "note_delay_ms": Words("delay of notes", "ms"),
    "patience_ms": Words("patience with a silent peer", "ms"),
    "buffer": Words("buffer", "items"),
    "credit": Words("credit", "items"),
    "lifetime_ms": Words("Interest lifetime", "ms"),
    "fetch_lifetime_ms": Words("Interest lifetime for repairs", "ms"),
    "shortest_ms": Words("shortest time between questions", "ms"),
    "longest_ms": Words("longest time between questions", "ms"),
    "heartbeat_ms": Words("heartbeat", "ms"),
    "periodic_ms": Words("time between sync Interests", "ms"),
    "renewal_ms": Words("time between registrations", "ms"),
    "newest": Words("newest items that a reader begins with", "items"),
    "item": Words("number of an earlier item that is read alone", ""),
    "vector_bytes": Words("largest state vector in a packet", "bytes"),
    "mapping_entries": Words("names in a question", "names"),
    "question_ms": Words("lifetime of a question", "ms"),
    "table_feeds": Words("feeds that tables may differ in", "feeds"),
    "interest_ms": Words("lifetime of sync Interests", "ms"),
    "freshness_ms": Words("freshness of answers", "ms"),
    "ahead": Words("later numbers that are tried", "numbers"),
    "first_ms": Words("time until an announcement is repeated", "ms"),
    "suppression_ms": Words("suppression period", "ms"),
    "servers": Words("servers of the name service", "servers"),
    "stores": Words("storage providers", "providers"),
    "storage": Words("storage of a device that moves"),
    "ttl_ms": Words("time to live of records", "ms"),
    "record_ms": Words("lifetime of records", "ms"),
    "hello_ms": Words("time between hellos", "ms"),
    "quota": Words("Interests from a neighbour that are flooded", "Interests/s"),
    "neighbour_hops": Words("follows to the feeds of a forwarder", "follows"),
    "aware_percent": Words("forwarders that know controlled push", "%"),
    "aware_first": Words("forwarders that know it first"),
    "checks_addresses": Words("check of strangers’ addresses"),
    "inflight": Words("messages not acknowledged", "messages"),
    "program": Words("program of the broker"),
    "ambient_ms": Words("longest time between heartbeats", "ms"),
    "kept": Words("segments that a node keeps for repairs", "segments"),
    "reorder_ms": Words("time for a segment that was overtaken", "ms"),
    "cache": Words("items that a relay caches", "items"),
    "idle_ms": Words("silence after which a session is given up", "ms"),
}
"""The parameters of layerings, by name."""

_UNSET = {
    **{f"topology.link.{name}": each.unset for name, each in LINK_PARAMETERS.items() if each.unset},
    "workload.feed": "generated",
    "workload.follows": "all",
    "workload.item_bytes": "as in a real feed",
    "routing.converge_ms": "never",
    STRATEGY: "best-route",
}
"""Meanings of unset keys."""

_LONGEST = 40


def words(key: str) -> Words:
    """Return a key's name; of an unknown key, the name derived from it."""
    if (known := WORDS.get(key)) is not None:
        return known
    first, _, rest = key.partition(".")
    if first == "parameters":
        layering, _, name = rest.partition(".")
        known = PARAMETERS.get(name) or _read(name)
        return Words(f"{known.what} of {layering}", known.unit)
    if first == "strategies":
        return Words(f"forwarding strategy of {rest}")
    if first in ("plans", "nodes"):
        node, _, name = rest.partition(".")
        known = _read(name)
        return Words(f"{known.what} of {node}", known.unit)
    return _read(key.rpartition(".")[2])


def _read(name: str) -> Words:
    for ending, unit in (("_ms", "ms"), ("_percent", "%"), ("_mbit", "Mbit/s"), ("_per_s", "a second")):
        if name.endswith(ending):
            return Words(name.removesuffix(ending).replace("_", " "), unit)
    return Words(name.replace("_", " "))


def value_words(key: str, value: Any) -> str:
    """Format a value of a key, without its unit; long ones lose their middle."""
    if value is None:
        return _UNSET.get(key, "none")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return str(value).removesuffix(".0")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = ", ".join(contract_ranges(value)) or "none"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:12]}\N{HORIZONTAL ELLIPSIS}{text[13 - _LONGEST :]}"
