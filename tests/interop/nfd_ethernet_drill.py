"""Run in a network namespace of its own: our daemon there, NFD in another, an Ethernet between them.

Prints a line for everything that works; an assertion that fails ends it.
"""

import sys
from contextlib import closing
from pathlib import Path

from daemon_process import running
from group_drill import MAC_HERE, MAC_THERE, make_network
from nfd_pair import interest, routed, serving
from nfd_process import App, command, nfd

from captures.network.netns import inside
from forwarder.daemon.datasets import Client, snapshot
from forwarder.wire.lp import NO_ROUTE
from forwarder.wire.packet import make_data, parse_interest
from topologies.mininet.namespaces import ip

OURS = """
[unix]
path = "nfd.sock"
[tcp]
listen = false
[udp]
listen = false
[ethernet]
interfaces = ["here"]
"""
GROUP = "ether://[01:00:5e:00:17:aa]"


def face_to(path: Path, uri: str) -> int:
    """Return the face to a neighbour, which has one by now."""
    while True:
        with closing(Client(path)) as client:
            for face in snapshot(client, with_own=False)["faces"]:
                if face["remote"] == uri:
                    return int(face["face"])


def cross(near: Path, far: Path, face: int, prefix: str) -> None:
    command(near, "rib/register", name=prefix, face=face)
    routed(near, prefix)
    with serving(far, prefix) as producer, closing(App(near)) as consumer:
        for size in (0, 1400, 1500, 5000, 8600):
            consumer.say(interest(f"{prefix}/{size}"))
            data = make_data(parse_interest(producer.got().fragment).name, bytes(size))
            producer.say(data)
            assert consumer.got().fragment == data


def drill(ours: Path, theirs: Path) -> None:
    for path in (ours, theirs):
        command(path, "strategy-choice/set", name="/g", strategy="/localhost/nfd/strategy/multicast")
    cross(ours, theirs, face_to(ours, GROUP), "/g/0")
    print("our group")
    cross(theirs, ours, face_to(theirs, GROUP), "/g/1")
    print("their group")
    wanted = {"uri": f"ether://[{MAC_THERE}]", "local_uri": "dev://here"}
    made = command(ours, "faces/create", **wanted).face
    assert made is not None
    cross(ours, theirs, made, "/u/0")
    print("our neighbour")
    cross(theirs, ours, face_to(theirs, f"ether://[{MAC_HERE}]"), "/u/1")
    print("their neighbour")
    command(ours, "rib/register", name="/n/0", face=made)
    command(ours, "rib/register", name="/n/1", face=face_to(ours, GROUP))
    with closing(App(ours)) as consumer:
        consumer.say(interest("/n/0"))
        assert consumer.got().nack_reason == NO_ROUTE
        print("a Nack")
        consumer.say(interest("/n/1", lifetime_ms=500))
        assert consumer.hear(0.5) is None
        print("no Nack to the group")


def main() -> None:
    directory = Path(sys.argv[1])
    (directory / "ours").mkdir()
    other, there = make_network()
    try:
        with running(directory / "ours", OURS) as ours:
            with inside(there):
                ip(["link set lo up"])
                beginning = nfd(directory / "nfd", ether=True)
                theirs = beginning.__enter__()
            try:
                drill(ours.path, theirs.path)
            finally:
                beginning.__exit__(None, None, None)
    finally:
        other.kill()
        other.wait()


if __name__ == "__main__":
    main()
