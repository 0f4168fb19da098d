"""Run in a network namespace of its own: a daemon there, and neighbours of it in another namespace.

Prints a line for everything that works; an assertion that fails ends it.
"""

import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from random import getrandbits

from daemon_process import DaemonProcess, running
from patience import PATIENCE_S

from captures.network.netns import inside
from forwarder.faces.ethernet import ETHERTYPE, GROUP, without_padding
from forwarder.faces.multicast import GROUP_IPV4, GROUP_IPV6, GROUP_PORT
from forwarder.links.link import LinkService
from forwarder.wire.lp import NO_ROUTE, parse_lp
from forwarder.wire.name import from_uri, to_uri
from forwarder.wire.packet import make_data, make_interest, parse_data, parse_interest
from topologies.mininet.namespaces import ip

CONFIG = """
[unix]
path = "nfd.sock"
[tcp]
listen = false
[udp]
listen = false
[multicast]
interfaces = ["here"]
routes = ["/m"]
[ethernet]
interfaces = ["he*"]
routes = ["/e"]
[[strategies]]
prefix = "/"
strategy = "multicast"
"""
MAC_HERE, MAC_THERE = "02:00:00:00:00:01", "02:00:00:00:00:02"


def bytes_of(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def make_network() -> "tuple[subprocess.Popen[bytes], str]":
    other = subprocess.Popen(["unshare", "--net", "--", "sleep", "600"])
    mine = Path("/proc/self/ns/net").readlink()
    there = f"/proc/{other.pid}/ns/net"
    end = time.monotonic() + PATIENCE_S
    while Path(there).readlink() == mine or "sleep" not in Path(f"/proc/{other.pid}/cmdline").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    ip(
        [
            "link set lo up",
            f"link add here address {MAC_HERE} type veth"
            f" peer name there address {MAC_THERE} netns {other.pid}",
            "addr add 10.0.0.1/24 dev here",
            "addr add fe80::1/64 dev here nodad",
            "link set here up",
        ]
    )
    with inside(there):
        ip(["addr add 10.0.0.2/24 dev there", "addr add fe80::2/64 dev there nodad", "link set there up"])
    return other, there


class Group:
    """A neighbour in a UDP multicast group."""

    def __init__(self, family: socket.AddressFamily) -> None:
        index = socket.if_nametoindex("there")
        self.sock = socket.socket(family, socket.SOCK_DGRAM)
        self.sock.settimeout(PATIENCE_S)
        if family == socket.AF_INET:
            membership = struct.pack("@4s4xi", socket.inet_aton(GROUP_IPV4), index)
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@8xi", index))
            self.sock.bind(("", GROUP_PORT))
            self.group: tuple[object, ...] = (GROUP_IPV4, GROUP_PORT)
        else:
            membership = struct.pack("@16sI", socket.inet_pton(family, GROUP_IPV6), index)
            self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)
            self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self.sock.bind(("::", GROUP_PORT))
            self.group = (GROUP_IPV6, GROUP_PORT, 0, index)

    def hear(self, prefix: str) -> bytes:
        """The next Interest under a prefix."""
        while True:
            frame, _ = self.sock.recvfrom(9000)
            if frame[0] == 5:
                name = parse_interest(frame).name
                if to_uri(name).startswith(prefix):
                    return name

    def say(self, frame: bytes) -> None:
        self.sock.sendto(frame, self.group)


class Wire:
    """A neighbour on the Ethernet."""

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        self.sock.bind(("there", ETHERTYPE))
        self.sock.settimeout(PATIENCE_S)
        membership = struct.pack("@iHH8s", socket.if_nametoindex("there"), 0, 6, bytes_of(GROUP))
        self.sock.setsockopt(263, 1, membership)

    def hear(self, destination: str) -> bytes:
        """The next packet to an address."""
        while True:
            frame, about = self.sock.recvfrom(9000)
            if frame[:6] == bytes_of(destination) and about[2] != 4:
                assert frame[6:12] == bytes_of(MAC_HERE)
                assert len(frame) >= 60
                return without_padding(frame[14:])

    def say(self, destination: str, packet: bytes) -> None:
        header = bytes_of(destination) + bytes_of(MAC_THERE) + ETHERTYPE.to_bytes(2, "big")
        self.sock.send((header + packet).ljust(60, b"\0"))


def ask(consumer: socket.socket, name: str) -> None:
    consumer.sendall(make_interest(from_uri(name), nonce=getrandbits(32), lifetime_ms=8000))


def got(consumer: socket.socket) -> tuple[str, int]:
    """Name and size of the next Data."""
    packet = b""
    while True:
        packet += consumer.recv(65536)
        if len(packet) > 4 and without_padding(packet) == packet and len(packet) >= 4:
            try:
                data = parse_data(parse_lp(packet).fragment)
            except ValueError:
                continue
            return to_uri(data.name), len(data.content)


def asked(group: Group, consumer: socket.socket, name: str) -> bytes:
    """Ask until the group hears it: an IPv6 link that has just come up may lose what is sent at once."""
    group.sock.settimeout(0.5)
    for _ in range(int(PATIENCE_S / 0.5)):
        ask(consumer, name)
        try:
            return group.hear(name.rstrip("!"))
        except TimeoutError:
            continue
    raise TimeoutError(f"{name} is not heard")


def drill(daemon: DaemonProcess, there: str) -> None:
    with inside(there):
        ipv4, ipv6, wire = Group(socket.AF_INET), Group(socket.AF_INET6), Wire()
    with daemon.connect() as consumer:
        ask(consumer, "/m/four")
        ipv4.say(make_data(ipv4.hear("/m/four"), b"x" * 7))
        assert got(consumer) == ("/m/four", 7)
        print("udp4 group")
        ipv6.say(make_data(asked(ipv6, consumer, "/m/six!"), b"x" * 8))
        assert got(consumer)[1] == 8
        print("udp6 group")
        ask(consumer, "/e/group")
        interest = parse_interest(wire.hear(GROUP))
        for fragment in LinkService(1500, overhead=0).send(make_data(interest.name, b"x" * 4000)):
            wire.say(GROUP, fragment)
        assert got(consumer) == ("/e/group", 4000)
        print("ethernet group, in fragments")
        wire.say(MAC_HERE, make_interest(from_uri("/nowhere"), nonce=1))
        nack = parse_lp(wire.hear(MAC_THERE))
        assert nack.nack_reason == NO_ROUTE
        print("ethernet neighbour")
        wire.say(GROUP, make_interest(from_uri("/nowhere/at/all"), nonce=2))
        wire.say(MAC_HERE, make_interest(from_uri("/nowhere/again"), nonce=3))
        lp = parse_lp(wire.hear(MAC_THERE))
        assert to_uri(parse_interest(lp.fragment).name) == "/nowhere/again"
        print("no Nack to a group")
    for line in ("udp4://224.0.23.170:56363", "ether://[01:00:5e:00:17:aa]", f"ether://[{MAC_THERE}]"):
        assert line in daemon.log.read_text(), line


def main() -> None:
    other, there = make_network()
    try:
        with running(Path(sys.argv[1]), CONFIG) as daemon:
            try:
                drill(daemon, there)
            finally:
                print(daemon.log.read_text(), file=sys.stderr)
    finally:
        other.kill()
        other.wait()


if __name__ == "__main__":
    main()
