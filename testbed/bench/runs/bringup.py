"""Duration of bringing up and taking down networks in Mininet: wall and processor time.

    python -m testbed.bench.runs.bringup [NODES ...]

GEANT of the library (45 nodes, 71 links), then random networks of the given numbers of nodes with three links
each on average; 500 nodes by default. On a busy machine, compare processor time.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from testbed.bench.program import processor_s
from topologies import library
from topologies.generate import random
from topologies.mininet import sandbox
from topologies.mininet.network import MininetNetwork
from topologies.model import Topology

_INSIDE = "--inside"


@contextmanager
def _timed(what: str) -> Iterator[None]:
    wall, processor = time.monotonic(), processor_s()
    yield
    print(
        f"{what:5} {time.monotonic() - wall:6.2f} s, processor {processor_s() - processor:5.2f} s",
        flush=True,
    )


def _measure(name: str, topology: Topology) -> None:
    print(f"{name}: {len(topology.nodes)} nodes, {len(topology.links)} links", flush=True)
    with TemporaryDirectory() as directory:
        with _timed("up"):
            network = MininetNetwork(topology, 1, "relay", directory=Path(directory)).__enter__()
        with _timed("down"):
            network.close()


def main(arguments: list[str]) -> int:
    """Measure in a box of its own; return the exit status."""
    if _INSIDE not in arguments:
        if why_not := sandbox.why_not():
            print(f"Mininet cannot run here: {why_not}", file=sys.stderr)
            return 1
        return sandbox.box([sys.executable, "-m", "testbed.bench.runs.bringup", *arguments, _INSIDE])
    sandbox.prepare()
    _measure("geant", library.build("geant"))
    for nodes in [int(each) for each in arguments if each != _INSIDE] or [500]:
        _measure("random", random(nodes, 3.0, delay_ms=5.0))
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # no clean-up: the box ends with this process
