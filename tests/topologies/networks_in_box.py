"""Programs for the tests to run in a box: `python networks_in_box.py NAME` prints what it found as JSON."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pcapng_oracle
from made_topologies import GROUP, TO_ALL
from patience import PATIENCE_S
from stream_programs import PORT as STREAM_PORT
from stream_programs import Echo, Quiet, Source

from base.endpoint import Closed, DatagramPort, GroupPort, Opened, Program, StreamPort
from base.event_loop import steady_clock
from base.sockets import Sockets
from captures.network.netns import inside
from topologies.emulator.network import EmulatedNetwork
from topologies.generate import generate, line
from topologies.mininet import namespaces, ring, sandbox
from topologies.mininet.child import Child
from topologies.mininet.network import BringUpError, MininetNetwork
from topologies.model import Link, Medium, Topology
from topologies.routing import path_delay_ns

PORT = 6363
SEED = 7
CONTENT = bytes(range(256)) * 4000
PINGS = 20
DATAGRAMS = 200
LOSSY = Link("a", "b", loss_percent=30)
BINARY_TREE = Topology(
    tuple(f"n{index}" for index in range(10)),
    tuple(Link(f"n{(index - 1) // 2}", f"n{index}") for index in range(1, 10)),
)


CELL = Topology(
    ("a", "b", "c"), (), (Medium(name="cell", members=("a", "b", "c"), delay_ms=2, losses={"c": 40}),)
)


TWO_CELLS = Topology(
    ("a", "b", "c"), (), (Medium(name="one", members=("a", "b")), Medium(name="other", members=("b", "c")))
)


@contextmanager
def network(topology, impairment="relay"):
    with (
        tempfile.TemporaryDirectory() as directory,
        MininetNetwork(topology, SEED, impairment, directory=Path(directory)) as up,
    ):
        yield up


def opened(stack, up, topology):
    """A UDP socket at each interface, connected to its peer, by the interface's name."""
    found = {}
    for interface in topology.link_ends:
        with inside(up.netns(interface.node)):
            udp = stack.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
            udp.bind((interface.ipv4, PORT))
            udp.connect((interface.peer_ipv4, PORT))
            udp.settimeout(PATIENCE_S)
        found[interface.name] = udp
    return found


def received(udp, quiet_s):
    """Datagrams until none has come for a while."""
    found = []
    udp.settimeout(quiet_s)
    try:
        while True:
            found.append(udp.recv(2048))
    except (TimeoutError, BlockingIOError):
        return found


def processes_and_namespaces():
    processes = sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    found = set()
    for process in processes:
        try:
            found.add(os.readlink(f"/proc/{process}/ns/net"))
            entries = list(Path(f"/proc/{process}/fd").iterdir())
        except OSError:
            continue  # it has just ended
        for entry in entries:
            with suppress(OSError):  # it has just been closed
                found |= {name for name in [os.readlink(entry)] if name.startswith("net:")}
    return processes, found


def ping():
    """Round trips over a line of two links of 10 ms, and what they take without any delay."""
    undelayed, _ = ping_over(line(2))
    topology = line(2, delay_ms=10)
    trips, counters = ping_over(topology)
    delay = path_delay_ns(topology, "pub", "s1")
    return {"trips_ns": trips, "undelayed_ns": undelayed, "delay_ns": delay, **counters}


def ping_over(topology):
    """Round trips over a line of two links, each hop's datagram forwarded by this process."""
    with (
        network(topology) as up,
        ExitStack() as stack,
    ):
        udp = opened(stack, up, topology)
        there = [("pub-eth0", "r1-eth0"), ("r1-eth1", "s1-eth0")]
        hops = [*there, *((b, a) for a, b in reversed(there))]
        trips = []
        for number in range(PINGS):
            start = time.monotonic_ns()
            for sender, receiver in hops:
                udp[sender].send(b"ping %d" % number)
                assert udp[receiver].recv(2048) == b"ping %d" % number
            trips.append(time.monotonic_ns() - start)
    return trips, up.relay_counters


def loss():
    """Numbers of the datagrams that arrive over a lossy link, in each direction."""
    topology = Topology((LOSSY.a, LOSSY.b), (LOSSY,))
    with (
        network(topology) as up,
        ExitStack() as stack,
    ):
        udp = opened(stack, up, topology)
        arrived = []
        for sender, receiver in (("a-eth0", "b-eth0"), ("b-eth0", "a-eth0")):
            for number in range(DATAGRAMS):
                udp[sender].send(b"%d" % number)
            arrived.append([int(datagram) for datagram in received(udp[receiver], 3)])
    return {"arrived": arrived, "pipes": up.relay_counters["pipes"]}


def tree(impairment):
    """A tree of ten nodes comes up, carries a datagram over every link at once, goes down; twice."""
    if impairment == "netem":
        # Nothing impairs these links, so that the bridges alone can be tried on a kernel without netem.
        sandbox.why_no_netem = lambda: None
    before = processes_and_namespaces()
    runs = []
    for _ in range(2):
        with (
            network(BINARY_TREE, impairment) as up,
            ExitStack() as stack,
        ):
            udp = opened(stack, up, BINARY_TREE)
            for name in udp:
                udp[name].send(name.encode())
            heard = {name: [udp[name].recv(2048).decode()] for name in udp}
            addresses = {
                node: json.loads(on_node(up, node, ["ip", "-json", "address"])) for node in BINARY_TREE.nodes
            }
            for name in udp:
                heard[name] += [datagram.decode() for datagram in received(udp[name], 0)]
            during = processes_and_namespaces()
        runs.append(
            {
                "heard": heard,
                "addresses": addresses,
                "namespaces": len(during[1]),
                "clean": processes_and_namespaces() == before,
                "counters": up.relay_counters,
                "mininet": [
                    [str(link.intf1), link.intf1.IP(), str(link.intf2), link.intf2.MAC()]
                    for link in up.mininet.links
                ],
            }
        )
    return runs


def on_node(up, node, argv):
    process = up.popen(node, argv, stdout=subprocess.PIPE, text=True)
    return process.communicate()[0]


def host_commands():
    """What Mininet's own ways to run commands on a host find there."""
    topology = line(2)
    with network(topology) as up:
        before = processes_and_namespaces()[0]
        host = up.mininet.get("r1")
        found = {
            "addresses": [host.cmd(f"ip -brief address show dev r1-eth{n}").split()[2] for n in range(2)],
            "sys": host.cmd("ls /sys/class/net").split(),
            "popen": host.popen("ip -brief link show dev r1-eth0").communicate()[0].decode().split()[0],
            "shells": len(processes_and_namespaces()[0]) - len(before),
        }
    return found | {"left": len(processes_and_namespaces()[0])}


def routes_of_a_network():
    """The way that a node's packets take to each other node, by `ip route get`."""
    topology = generate("random", {"nodes": 25, "degree": 3.0}, {"delay_ms": 1.0})
    with network(topology) as up:
        found = {}
        for node in topology.nodes:
            addresses = "\n".join(f"route get {topology.address(other)}" for other in topology.nodes)
            done = subprocess.run(
                ["nsenter", f"--net={up.netns(node)}", "ip", "-batch", "-"],
                input=addresses,
                capture_output=True,
                text=True,
                check=True,
            )
            lines = [line.split() for line in done.stdout.splitlines() if " src " in line]
            found[node] = [words[words.index("dev") + 1] for words in lines]
    return found


def large_network():
    """How long a network of 500 nodes and 750 links takes to come up: wall and processor time, s."""
    topology = generate("random", {"nodes": 500, "degree": 3.0}, {"delay_ms": 5.0})
    started, used = time.monotonic(), sum(os.times()[:4])
    with network(topology) as up, ExitStack() as stack:
        took = time.monotonic() - started, sum(os.times()[:4]) - used
        some = topology.link_ends[::50]
        udp = {}
        for end in (
            *some,
            *(each for each in topology.link_ends if each.name in {s.peer_name for s in some}),
        ):
            with inside(up.netns(end.node)):
                udp[end.name] = stack.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
                udp[end.name].bind((end.ipv4, PORT))
                udp[end.name].settimeout(PATIENCE_S)
        for end in some:
            udp[end.name].sendto(end.name.encode(), (end.peer_ipv4, PORT))
        heard = [udp[end.peer_name].recv(100).decode() for end in some]
    return {"took": took, "heard": heard, "sent": [end.name for end in some]}


def netem():
    """Round trips over a link that netem delays."""
    topology = line(1, delay_ms=10, bw_mbit=10, jitter_ms=0.5, loss_percent=0.001)
    with (
        network(topology, "auto") as up,
        ExitStack() as stack,
    ):
        udp = opened(stack, up, topology)
        trips = []
        for _ in range(PINGS):
            start = time.monotonic_ns()
            for sender, receiver in (("pub-eth0", "s1-eth0"), ("s1-eth0", "pub-eth0")):
                udp[sender].send(b"ping")
                udp[receiver].recv(2048)
            trips.append(time.monotonic_ns() - start)
    return {"trips_ns": trips, "impairment": up.impairment}


def failures():
    """What is said when something goes wrong."""
    topology = line(1)
    messages = []
    before = processes_and_namespaces()
    try:
        with MininetNetwork(topology, SEED, "relay", directory=Path("/nowhere")):
            pass
    except BringUpError as error:
        messages.append(str(error))
    sys.executable, python = "/bin/false", sys.executable
    try:
        with network(topology):
            pass
    except BringUpError as error:
        messages.append(str(error))
    sys.executable = python
    try:
        with network(topology):
            (relay,) = (
                pid for pid in processes_and_namespaces()[0] if "topologies.mininet.relay" in arguments(pid)
            )
            os.kill(relay, signal.SIGKILL)
    except BringUpError as error:
        messages.append(str(error))
    for commands in (["link add name x0 type veth peer name x1", "link set dev x2 up"], ["nonsense"]):
        try:
            namespaces.ip(commands)
        except OSError as error:
            messages.append(str(error))
    try:
        namespaces.refresh_carrier("x0")
    except OSError as error:
        messages.append(str(error))
    subprocess.run(["ip", "link", "delete", "x0"], check=True)
    return {"messages": messages, "clean": processes_and_namespaces() == before}


def arguments(pid):
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")


def relay_terminated():
    """A relay by hand, with frames on their way, that SIGTERM ends."""
    namespaces.disable_ipv6()
    namespaces.ip(
        [
            command
            for end in ("a", "b")
            for command in (
                f"link add name node-{end} type veth peer name {end}-eth0",
                f"link set dev node-{end} up",
                f"link set dev {end}-eth0 up",
            )
        ]
    )
    for interface in ("node-a", "node-b", "a-eth0", "b-eth0"):
        namespaces.refresh_carrier(interface)
    # 60 bytes take 48 ms, 1514 bytes 1.2 s: when the first frame arrives, the others are on their way.
    topology = Topology(("a", "b"), (Link("a", "b", bw_mbit=0.01),))
    receiver = ring.Ring(1)
    at_b = socket.if_nametoindex("node-b")
    with (
        tempfile.NamedTemporaryFile("w", suffix=".json") as specification,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender,
    ):
        json.dump({"seed": SEED, "dilation": 1, **asdict(topology)}, specification)
        specification.flush()
        relay = subprocess.Popen(
            [sys.executable, "-m", "topologies.mininet.relay", specification.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ready = relay.stdout.readline()
        sender.bind(("node-a", 0))
        for length in (60, 1514, 1514, 1514):
            sender.send(bytes(length))
        lengths = []
        while not lengths and select.select([receiver.socket], [], [], 5)[0]:
            lengths += [len(frame) for _, index, frame in receiver.take(10) if index == at_b]
        relay.send_signal(signal.SIGTERM)
        counters = json.loads(relay.communicate()[0])
    return {"ready": ready, "status": relay.returncode, "lengths": lengths, "counters": counters}


def ring_overflow():
    """A ring of one block, 32 slots, that is not read in time."""
    namespaces.disable_ipv6()
    namespaces.ip(["link add name x0 type veth peer name x1", "link set dev x0 up", "link set dev x1 up"])
    for interface in ("x0", "x1"):
        namespaces.refresh_carrier(interface)
    receiver = ring.Ring(1)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind(("x0", 0))
        start = time.time_ns()
        for number in range(40):
            sender.send(number.to_bytes(14) + bytes(1500))
        end = time.time_ns()
        first = list(receiver.take(10))
        first += receiver.take(100)
        dropped = receiver.overflow()
        for number in range(100, 110):
            sender.send(number.to_bytes(14) + bytes(46))
        receiver.socket.sendto(bytes(60), ("x1", 0))
        second = list(receiver.take(100))
    receiver.close()
    times = [start, *(stamp for stamp, _, _ in first), end]
    return {
        "numbers": [int.from_bytes(frame[:14]) for _, _, frame in first],
        "lengths": sorted({len(frame) for _, _, frame in first}),
        "interfaces": sorted({socket.if_indextoname(index) for _, index, _ in first}),
        "stamps_fit": times == sorted(times),
        "dropped": dropped,
        "later": [(socket.if_indextoname(index), int.from_bytes(frame[:14])) for _, index, frame in second],
    }


class _Greeting(Source):
    """A Source that sends a datagram, too, when the other program is there for certain."""

    def on_stream(self, event, now):
        super().on_stream(event, now)
        if isinstance(event, Opened):
            self.outputs.append((1, b"hello", (event.peer[0], 7000)))


def programs_over_tcp():
    """A stream and datagrams over a router, between programs in processes of their own."""
    topology = Topology(
        ("a", "r", "b"), tuple(Link(*ends, delay_ms=5, bw_mbit=50) for ends in (("a", "r"), ("r", "b")))
    )
    to = topology.address("b")
    with network(topology) as up, tempfile.TemporaryDirectory() as directory:
        capture = Path(directory) / "capture.pcapng"
        taps = [
            {"name": i.name, "description": "", "ipv4": i.ipv4, "netns": up.netns(i.node)}
            for i in topology.link_ends
        ]
        specification = Path(directory) / "recorder.json"
        specification.write_text(
            json.dumps({"output": str(capture), "application": "test", "interfaces": taps}), encoding="utf-8"
        )
        recorder = Child(
            "the recorder", [sys.executable, "-m", "captures.network.recorder", str(specification)]
        ).wait()
        echo, source = Echo(), _Greeting((to, STREAM_PORT), CONTENT)
        ports = {1: StreamPort(STREAM_PORT), 2: DatagramPort(7000)}
        is_listening, listens = os.pipe()
        pid = os.fork()
        if not pid:
            with inside(up.netns("b")):
                started = partial(os.write, listens, b"!")
                asyncio.run(drive(Program(echo, ports), topology.address("b"), None, started))
            os._exit(0)
        os.read(is_listening, 1)
        with inside(up.netns("a")):
            program = Program(source, {1: DatagramPort(8000)})
            failures = asyncio.run(drive(program, topology.address("a"), lambda: Closed in source.kinds(1)))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        recorder.finish()
        frames = [packet.frame for packet in pcapng_oracle.read(capture)]
    return {
        "failures": failures,
        "is_whole": source.received(1) == CONTENT,
        "kinds": [kind.__name__ for kind in source.kinds(1)],
        "last": source.events[-1][1].reason,
        "datagrams": [[payload.decode(), sender] for _, payload, sender in source.datagrams],
        "largest": max(map(len, frames)),
        "ttls": sorted({frame[22] for frame in frames}),
    }


def datagrams_in_a_cell():
    """Datagrams to a group, to all and to one member of a medium: heard in Mininet and in the emulator."""
    emulated = cell_programs()
    emulator = EmulatedNetwork(
        CELL, {name: [program] for name, program in emulated.items()}, seed=SEED, capture=None
    )
    emulator.run(1_000_000_000)
    programs = cell_programs()
    listening = [threading.Event(), threading.Event()]

    def work(name):
        if name == "a":
            for each in listening:
                each.wait(PATIENCE_S / 4)

        def is_over():
            if name != "a":
                listening["bc".index(name)].set()
                return len(heard(programs[name])) >= len(heard(emulated[name]))
            return all(len(heard(programs[each])) >= len(heard(emulated[each])) for each in "bc")

        with inside(up.netns(name)):
            return asyncio.run(drive(programs[name], CELL.address(name), is_over))

    with network(CELL) as up, ThreadPoolExecutor() as threads:
        failures = [failure for failures in threads.map(work, "bca") for failure in failures]
    return {
        "failures": failures,
        "mininet": {name: heard(program) for name, program in programs.items()},
        "emulated": {name: heard(program) for name, program in emulated.items()},
    }


def one_group_on_two_media():
    """A node listens to a group, and to all, on both of its media, beside one that listens everywhere."""
    ports = {number: (address, 7000 + number) for number, address in enumerate((GROUP, TO_ALL), 1)}
    nodes = {name: Quiet() for name in TWO_CELLS.nodes}
    groups = {name: {} for name in nodes}
    for at in TWO_CELLS.attachments:
        first = len(groups[at.node])
        groups[at.node] |= {first + number: GroupPort(at, *port) for number, port in ports.items()}
    for name in "ac":
        nodes[name].outputs += [(number, name.encode(), None) for number in ports]
    is_listening = threading.Event()

    def work(name):
        with inside(up.netns(name)), ExitStack() as stack:
            for _, number in ports.values() if name == "b" else ():
                sock = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(("", number))
            if name != "b":
                assert is_listening.wait(PATIENCE_S / 4)
            return asyncio.run(
                drive(
                    Program(nodes[name], groups[name]),
                    TWO_CELLS.address(name),
                    lambda: len(nodes["b"].datagrams) >= 4,
                    is_listening.set if name == "b" else lambda: None,
                )
            )

    with network(TWO_CELLS) as up, ThreadPoolExecutor() as threads:
        failures = [failure for failures in threads.map(work, "bac") for failure in failures]
    return {"failures": failures, "heard": sorted(payload.decode() for _, payload, _ in nodes["b"].datagrams)}


def cell_programs():
    """A program for each member; one of them sends."""
    nodes = {name: Quiet() for name in CELL.nodes}
    nodes["a"].outputs += [(1, bytes([number]), None) for number in range(100)]
    nodes["a"].outputs += [(2, b"all", None), (3, b"b only", (CELL.address("b"), 7000))]
    return {
        at.node: Program(
            nodes[at.node],
            {1: GroupPort(at, GROUP, 7001), 2: GroupPort(at, TO_ALL, 7002), 3: DatagramPort(7000)},
        )
        for at in CELL.attachments
    }


def heard(program):
    return [[payload.hex(), list(sender)] for _, payload, sender in program.endpoint.datagrams]


async def drive(program, address, is_over, started=lambda: None):
    """Run a program until it is over, if that can be told, or for so long; call `started` once it listens."""
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(repr(context)))
    sockets = Sockets([program], address, steady_clock())
    await sockets.start()
    started()
    deadline = time.monotonic() + PATIENCE_S / 2
    while time.monotonic() < deadline and not failures and not (is_over and is_over()):
        await asyncio.sleep(0.01)
    sockets.close()
    return failures


def stay():
    """Bring a network up, say so, and stay until killed."""
    with network(BINARY_TREE):
        print(json.dumps(os.readlink("/proc/self/ns/pid")), flush=True)
        signal.pause()


if __name__ == "__main__":
    sandbox.prepare()
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
