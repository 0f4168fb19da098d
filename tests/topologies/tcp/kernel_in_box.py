"""A program to run in a box: bulk transfers over the kernel's TCP between pairs of Mininet hosts.

    python kernel_in_box.py SPEC.json

SPEC.json: {"seconds": float, "sysctls": {name: value, ...} for the hosts' namespaces, "seed": int, "links":
[{...the fields of topologies.model.Link...}, ...]}. All pairs transfer at the same time, a to b, each over a
link of its own, which the relay impairs. Prints, as JSON, the bytes that each receiver's application has got
within that time of the connection's start, and what the relay counted.
"""

import json
import socket
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from captures.network.netns import inside
from topologies.mininet import sandbox
from topologies.mininet.network import MininetNetwork
from topologies.model import Link, Topology

PORT = 5001
CHUNK = bytes(1 << 16)


def send(up, node, interface, seconds):
    """Send as fast as the kernel takes it, with congestion control reno; then end at once."""
    with inside(up.netns(node)):
        tcp = socket.socket()
    with closing(tcp):
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        tcp.settimeout(seconds)
        end = time.monotonic() + seconds
        try:
            tcp.connect((interface.peer_ipv4, PORT))
            while time.monotonic() < end:
                tcp.send(CHUNK)
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            pass  # the receiver's time is over
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))


def count(listener, seconds, counts, place):
    """Count what arrives within so many seconds of the connection's acceptance."""
    listener.settimeout(seconds)
    tcp, _ = listener.accept()
    with closing(tcp):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            tcp.settimeout(left)
            try:
                counts[place] += len(tcp.recv(1 << 16))
            except (TimeoutError, ConnectionResetError):
                break


def main(path):
    """Run the transfers that a specification describes."""
    sandbox.prepare()
    specification = json.loads(Path(path).read_text(encoding="utf-8"))
    links = [Link(**fields) for fields in specification["links"]]
    topology = Topology(tuple(end for link in links for end in (link.a, link.b)), tuple(links))
    seconds = specification["seconds"]
    counts = [0] * len(links)
    with (
        tempfile.TemporaryDirectory() as directory,
        MininetNetwork(topology, specification["seed"], "relay", directory=Path(directory)) as up,
    ):
        threads = []
        for number, interface in enumerate(topology.link_ends[::2]):
            for node in (interface.node, interface.peer):
                with inside(up.netns(node)):
                    for name, value in specification["sysctls"].items():
                        Path("/proc/sys", name.replace(".", "/")).write_text(str(value), encoding="ascii")
            with inside(up.netns(interface.peer)):
                listener = socket.create_server((interface.peer_ipv4, PORT))
            threads.append(threading.Thread(target=count, args=(listener, seconds, counts, number)))
            threads.append(threading.Thread(target=send, args=(up, interface.node, interface, seconds + 1)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(json.dumps({"bytes": counts, "relay": up.relay_counters}))


if __name__ == "__main__":
    main(sys.argv[1])
