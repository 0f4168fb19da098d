"""The size of a node: its reachable objects, and its tables by name."""

import gc
import sys
from collections import Counter
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.lli.table import FeedTable

_SKIPPED = (Random, Counter, type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)


def objects_of(*roots: object) -> tuple[int, int]:
    """Return the number of objects reachable from some, and their bytes (sys.getsizeof).

    Counters and random generators do not count, nor objects held by methods and closures.
    """
    seen: set[int] = set()
    bytes_held = 0
    waiting: list[Any] = list(roots)
    while waiting:
        value = waiting.pop()
        if value is None or isinstance(value, _SKIPPED) or id(value) in seen:
            continue
        seen.add(id(value))
        bytes_held += sys.getsizeof(value)
        if isinstance(value, (str, bytes, int, float)):
            continue
        if isinstance(value, dict):
            waiting += value.keys()
            waiting += value.values()
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += value
        else:
            # The references of a C container, or of an instance with or without __slots__.
            waiting += [part for part in gc.get_referents(value) if not isinstance(part, _SKIPPED)]
    return len(seen), bytes_held


def tables_of(host: Host) -> dict[str, int]:
    """Return the sizes of a host's tables by name."""
    forwarder = host.forwarder
    feeds = forwarder.feeds
    links = [host.link(face) for face in forwarder.faces if face in host._links]
    return {
        "faces": len(forwarder.faces),
        "routes": len(forwarder.fib),
        "PIT": len(forwarder.pit),
        "PIT timers": len(forwarder.pit.timers._heap),
        "content store": len(forwarder.cs),
        "dead nonces": len(forwarder.dead_nonces),
        "feeds": 0 if feeds is None else len(feeds),
        "ranges": 0 if feeds is None else sum(len(list(entry.ranges.items())) for entry in feeds),
        "feed timers": 0 if feeds is None else len(feeds._timers),
        "estimates": 0 if feeds is None else sum(map(len, _tables_by_face(feeds).values())),
        "partial packets": sum(len(link.reassembler) for link in links),
        "unacknowledged": sum(
            len(link.reliability._unacked) for link in links if link.reliability is not None
        ),
    }


def _tables_by_face(feeds: FeedTable) -> dict[str, dict[int, Any]]:
    """Return the tables keyed by face."""
    return {"neighbours": feeds._neighbours._neighbours}


def strangers(forwarder: Forwarder) -> list[str]:
    """Return the entries of such tables for closed faces."""
    feeds = forwarder.feeds
    if feeds is None:
        return []
    return [
        f"{what}: face {face}"
        for what, table in _tables_by_face(feeds).items()
        for face in table
        if face not in forwarder.faces
    ]
