"""Assignment of a run's nodes to processes: one node each, or packs.

A socket stays in the network namespace in which it was opened, so one process can run the nodes of many
hosts, each with sockets of its own. A pack takes little more memory than one node, where processes take 20
MiB each, and its nodes share one processor. There is a pack per processor.
"""

import os
from collections import Counter

from testbed.hosts.context import processes
from testbed.scenario.model import Scenario

MOST_PROCESSES = 64
"""Maximum number of nodes with a process each, unless the scenario sets it."""


def packs(scenario: Scenario, layering: str) -> dict[str, tuple[str, ...] | None]:
    """Return the processes of nodes: None for a node alone; for a pack its nodes, by the first of them.

    A node with programs besides its own is always alone. Packs have about equally many interfaces, because a
    node's work grows with them. So a hub shares its process with few others.
    """
    nodes = scenario.network.nodes
    if scenario.hosts == "processes" or (scenario.hosts == "auto" and len(nodes) <= MOST_PROCESSES):
        return dict.fromkeys(nodes)
    alone = [name for name in nodes if processes(scenario, layering, name)]
    others = [name for name in nodes if name not in alone]
    count = min(os.cpu_count() or 1, len(others))
    interfaces = Counter(each.node for each in scenario.network.interfaces)
    shared: list[list[str]] = [[] for _ in range(count)]
    loads = [0] * count
    for name in sorted(others, key=lambda name: -interfaces[name]):
        least = loads.index(min(loads))
        shared[least].append(name)
        loads[least] += max(interfaces[name], 1)
    return {**dict.fromkeys(alone), **{pack[0]: tuple(pack) for pack in shared}}
