"""The network as it is at a time: which links are up, what they are like, and the routes that follow."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from testbed.scenario.sections import Change
from topologies.model import Topology
from topologies.routing import Routing

Planned = tuple[int, Change]
"""A time, ns, and what happens then."""


@dataclass(frozen=True)
class Routes:
    """From a time on, ns: the network, and how routes over it are chosen, by NDN and by IP."""

    time: int
    network: Topology
    ndn: Routing
    ip: Routing


def link_by_link(planned: Iterable[Planned], network: Topology) -> tuple[Planned, ...]:
    """Return what happens, in order of time, with partitions and healing told link by link.

    A partition leaves alone what is down already; healing mends what partitions have broken. Of several
    changes of one link each has all that was set before, too.
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
    """Return the routes that follow from what happens, link by link, each `converge_ns` later.

    NDN goes round nodes that have stopped; their kernels still forward IP.
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
