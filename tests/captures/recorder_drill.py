"""Runs inside a box, as a program: two hosts, a link, a recorder, datagrams both ways; prints what it saw.

Arguments: directory for the capture, datagrams each way, size of the last burst, "signal" or "eof" to stop.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from patience import PATIENCE_S

from captures.network.netns import inside

WINDOW = 50  # datagrams on the way at once: what the smallest socket buffer holds


class Host:
    """A network namespace, held open by a process that waits for the end of its input."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo up; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"up\n"
        self.netns = f"/proc/{self.process.pid}/ns/net"

    def run(self, *command: str) -> None:
        subprocess.run(["nsenter", f"--net={self.netns}", *command], check=True)

    def open(self, kind: socket.SocketKind) -> socket.socket:
        with inside(self.netns):
            endpoint = socket.socket(socket.AF_INET, kind)
        endpoint.settimeout(PATIENCE_S)
        return endpoint

    def datagrams(self, address: str) -> socket.socket:
        endpoint = self.open(socket.SOCK_DGRAM)
        endpoint.bind((address, 6363))
        return endpoint


def payload(host: str, number: int) -> bytes:
    return f"{host} {number} ".encode() + b"." * (number % 1200)


def two_hosts() -> tuple[Host, Host]:
    """Make a, 10.0.0.1, and b, 10.0.0.2, and a link between them."""
    a, b = Host(), Host()
    link = ["ip", "link", "add", "a-eth0", "netns", str(a.process.pid), "type", "veth"]
    subprocess.run([*link, "peer", "name", "b-eth0", "netns", str(b.process.pid)], check=True)
    for host, name, address in ((a, "a-eth0", "10.0.0.1/30"), (b, "b-eth0", "10.0.0.2/30")):
        host.run("ip", "address", "add", address, "dev", name)
        host.run("ip", "link", "set", name, "up")
    return a, b


def recorder_of(directory: Path, a: Host, b: Host) -> subprocess.Popen[str]:
    """Start a recorder of both ends of the link; return when it is ready."""
    spec = {
        "output": str(directory / "capture.pcapng"),
        "application": "drill",
        "interfaces": [
            {"name": "a-eth0", "description": "node a to b", "ipv4": "10.0.0.1/30", "netns": a.netns},
            {"name": "b-eth0", "description": "node b to a", "ipv4": "10.0.0.2/30", "netns": b.netns},
        ],
    }
    (directory / "spec.json").write_text(json.dumps(spec))
    recorder = subprocess.Popen(
        [sys.executable, "-m", "captures.network.recorder", str(directory / "spec.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert recorder.stdin is not None
    assert recorder.stdout is not None
    assert recorder.stdout.readline() == "ready\n"
    return recorder


def main() -> None:
    directory, count, last, way = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    a, b = two_hosts()
    at_a, at_b = a.datagrams("10.0.0.1"), b.datagrams("10.0.0.2")
    recorder = recorder_of(directory, a, b)
    for first in range(0, count, WINDOW):
        burst = range(first, min(first + WINDOW, count))
        for number in burst:
            at_a.sendto(payload("a", number), ("10.0.0.2", 6363))
            at_b.sendto(payload("b", number), ("10.0.0.1", 6363))
        for _ in burst:
            at_a.recv(2048)
            at_b.recv(2048)
    for number in range(count, count + last):
        at_a.sendto(payload("a", number), ("10.0.0.2", 6363))
    for _ in range(last):  # having them all, we know that all have passed the tap
        at_b.recv(2048)
    assert recorder.stdin is not None
    assert recorder.stdout is not None
    if way == "eof":
        recorder.stdin.close()
    else:
        os.kill(recorder.pid, signal.SIGTERM)
    print(recorder.stdout.readline(), end="", flush=True)
    sys.exit(recorder.wait())


if __name__ == "__main__":
    main()
