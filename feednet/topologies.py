"""Topologies for experiments (docs/topologies.md): by number, of real networks, from files and from NetworkX.

`from feednet.topologies import star`
"""

from feednet import rooms

rooms.check()

from testbed.cli.extras import need  # noqa: E402

need("testbed", by=__name__)

from topologies.conf import read_conf  # noqa: E402
from topologies.generate import (  # noqa: E402
    fat_tree,
    grid,
    line,
    random,
    ring,
    scale_free,
    small_world,
    star,
    tree,
)
from topologies.graphs import from_networkx, read_graphml, to_networkx  # noqa: E402
from topologies.library import build, networks  # noqa: E402

__all__ = [
    "build",
    "fat_tree",
    "from_networkx",
    "grid",
    "line",
    "networks",
    "random",
    "read_conf",
    "read_graphml",
    "ring",
    "scale_free",
    "small_world",
    "star",
    "to_networkx",
    "tree",
]
