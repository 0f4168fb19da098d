"""The module feednet, ours: state beyond NFD's datasets, as JSON under /localhost/nfd/feednet/status.

It also shows how to write a module; Management.extend() adds one.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.links.link import LinkService
from forwarder.lli.entry import FeedEntry
from forwarder.management.module import Module
from forwarder.wire.name import to_uri

_OF_RELIABILITY = ("acknowledged", "repeated", "lost", "duplicates")

MOST_FEEDS = 1000
"""Feeds that one dataset lists at most; `feeds.entries` is the number of all."""


class FeednetModule(Module):
    """feednet/status.

    Args:
        forwarder: whose.
        management: counters of the management, None to leave them out.
        host: the host whose links' counters are reported, None to leave them out.
        drops: frames, connections and neighbours that the sockets have rejected, by reason.
    """

    name = "feednet"

    def __init__(
        self,
        forwarder: Forwarder,
        management: Counter[str] | None = None,
        host: Host | None = None,
        drops: Counter[str] | None = None,
    ) -> None:
        self._forwarder = forwarder
        self._management = management
        self._host = host
        self._drops = drops
        self.commands = {}
        self.datasets = {"status": self._status}

    def _status(self, _rest: Sequence[tuple[int, bytes]], now: int) -> bytes:
        return json.dumps(self.status(now), separators=(",", ":")).encode()

    def status(self, now: int) -> dict[str, Any]:
        """Return the dataset: numbers, bytes, names as URIs, times left in ms."""
        node, feeds = self._forwarder, self._forwarder.feeds
        told: dict[str, Any] = {
            "pit": {
                "entries": len(node.pit),
                "network_entries": node.pit_entries(),
                "network_bytes": node.pit_bytes(),
            },
            "dead_nonces": len(node.dead_nonces),
            "unsolicited": node.unsolicited,
            "counters": node.counters.as_dict(),
        }
        if self._management is not None:
            told["management"] = dict(self._management)
        if self._drops is not None:
            told["drops"] = dict(self._drops)
        if self._host is not None:
            links = {face: _link(self._host.link(face)) for face in self._host.links()}
            told["links"] = {face: counts for face, counts in links.items() if any(counts.values())}
        if feeds is not None:
            entries = list(feeds)
            told["feeds"] = {
                "entries": len(entries),
                "counters": dict(feeds.counters),
                "list": [_feed(entry, now) for entry in entries[:MOST_FEEDS]],
            }
        return told


def _link(link: LinkService) -> dict[str, int]:
    told = {"oversized": link.oversized, "reassembly_failures": link.reassembly_failures}
    if link.reliability is not None:
        told |= {name: getattr(link.reliability, name) for name in _OF_RELIABILITY}
    return told


def _feed(entry: FeedEntry, now: int) -> dict[str, Any]:
    upstream = None
    if entry.face is not None:
        upstream = {
            "face": entry.face,
            "state": entry.upstream.state.value,
            "next": entry.upstream.next,
            "limit": entry.upstream.limit,
            "known_tip": entry.upstream.known_tip,
        }
    return {
        "feed": to_uri(entry.feed),
        "tip": entry.tip,
        "upstream": upstream,
        "downstreams": [
            {
                "face": face,
                "next": granted.next,
                "limit": granted.limit,
                "credit": max(granted.limit - granted.next + 1, 0),
                "left_ms": max(granted.expiry - now, 0) // MS,
            }
            for face, granted in entry.ranges.items()
        ],
    }
