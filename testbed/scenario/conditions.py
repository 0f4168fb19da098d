"""The state of the network over time: links, their parameters, and routes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from testbed.scenario.sections import Change
from topologies.model import Topology
from topologies.routing import Routing

Planned = tuple[int, Change]
"""A time, ns, and the change then."""


@dataclass(frozen=True)
class Routes:
    """The network and its routing, by NDN and by IP, from a time on, ns."""

    time: int
    network: Topology
    ndn: Routing
    ip: Routing


def link_by_link(planned: Iterable[Planned], network: Topology) -> tuple[Planned, ...]:
    """Return the changes in order of time, with partitions and healing resolved to links.

    A partition skips links that are down already; healing repairs links broken by partitions. Changes of one
    link accumulate.
    """
    found: list[Planned] = []
    settings: dict[int, dict[str, float | str]] = {}
    down: set[int] = set()
    cut: list[int] = []
    for time, change in planned:
        if change.partition is not None:
            some = set(change.partition.split())
            broken = [
                at
                for at, link in enumerate(network.links)
                if (link.a in some) != (link.b in some) and at not in down
            ]
            found += [(time, _of_link(network, at, change, "link_down")) for at in broken]
            cut += broken
            down.update(broken)
        elif change.heal:
            found += [(time, _of_link(network, at, change, "link_up")) for at in cut]
            down.difference_update(cut)
            cut.clear()
        elif change.link_change is not None:
            at = network.link_between(*change.ends)
            settings[at] = settings.get(at, {}) | (change.set or {})
            found.append((time, change.model_copy(update={"set": settings[at]})))
        else:
            found.append((time, change))
            if change.link_down is not None:
                down.add(network.link_between(*change.ends))
            elif change.link_up is not None:
                mended = network.link_between(*change.ends)
                down.discard(mended)
                cut[:] = [at for at in cut if at != mended]
    return tuple(found)


def _of_link(network: Topology, at: int, change: Change, what: str) -> Change:
    link = network.links[at]
    when = {"at_ms": change.at_ms, "at_item": change.at_item, "signalled": change.signalled}
    return Change.model_validate({**when, what: f"{link.a} {link.b}"})


def reroutes(
    changes: Sequence[Planned], network: Topology, routing: Routing, converge_ns: int
) -> tuple[Routes, ...]:
    """Return the routes after the changes, link by link, each `converge_ns` later.

    NDN avoids stopped nodes; their kernels still forward IP.
    """
    found: list[Routes] = []
    now = network
    down: set[int] = set()
    stopped: set[str] = set()
    changes = [each for each in changes if each[1].membership is None and each[1].strategy is None]
    for number, (time, change) in enumerate(changes):
        if change.node is not None:
            (stopped.add if change.stop else stopped.discard)(change.node)
        elif change.link_change is not None:
            at = network.link_between(*change.ends)
            links = (*now.links[:at], change.changed(now.links[at]), *now.links[at + 1 :])
            now = replace(now, links=links)
        else:
            (down.add if change.link_down else down.discard)(network.link_between(*change.ends))
        if number + 1 < len(changes) and changes[number + 1][0] == time:
            continue
        dead = {at for at, link in enumerate(network.links) if link.a in stopped or link.b in stopped}
        found.append(
            Routes(
                time + converge_ns,
                now,
                routing._replace(down=frozenset(down | dead)),
                routing._replace(down=frozenset(down)),
            )
        )
    return tuple(found)
