"""The real NFD in a process of its own, where it is on PATH, and its command-line client."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from patience import PATIENCE_S

from base.sockets import free_port
from forwarder.daemon.datasets import Client
from forwarder.links.framing import cut
from forwarder.management.parameters import ControlParameters
from forwarder.wire.lp import LpPacket, parse_lp
from forwarder.wire.name import from_uri
from testbed.layerings.nodes.other_forwarder import managed_client

WHY_NOT = next((f"{name} is not on PATH" for name in ("nfd", "nfdc") if shutil.which(name) is None), None)

CONFIG = """
log {{ default_level INFO }}
tables
{{
  strategy_choice
  {{
    / /localhost/nfd/strategy/best-route
    /localhost /localhost/nfd/strategy/multicast
    /localhost/nfd /localhost/nfd/strategy/best-route
  }}
}}
face_system
{{
  unix {{ path {path} }}
  udp {{ listen yes port {port} enable_v4 yes enable_v6 no unicast_mtu {mtu} mcast no }}
  ether {{ listen {ether} mcast {ether} }}
}}
authorizations
{{
  authorize
  {{
    certfile any
    privileges
    {{
      faces
      fib
      cs
      strategy-choice
    }}
  }}
}}
rib
{{
  localhost_security {{ trust-anchor {{ type any }} }}
  prefix_announcement_validation {{ trust-anchor {{ type any }} }}
  {localhop}
}}
"""


class Nfd:
    """A running NFD.

    Attributes:
        path: of its Unix socket.
        port: UDP, on loopback.
        log: its output.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", path: Path, port: int, log: Path) -> None:
        self.process = process
        self.path = path
        self.port = port
        self.log = log

    def stop(self) -> int:
        """Ask it to end; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


@contextmanager
def nfd(directory: Path, *, mtu: int = 8800, ether: bool = False, localhop: bool = False) -> Iterator[Nfd]:
    """Start NFD and wait until its routes can be managed; it is gone afterwards.

    `localhop` says whether neighbours may register routes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port, path, log = free_port(socket.SOCK_DGRAM), directory / "nfd.sock", directory / "nfd.log"
    text = CONFIG.format(
        path=path,
        port=port,
        mtu=mtu,
        ether="yes" if ether else "no",
        localhop="localhop_security { trust-anchor { type any } }" if localhop else "",
    )
    (directory / "nfd.conf").write_text(text, encoding="utf-8")
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["nfd", "--config", str(directory / "nfd.conf")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"HOME": str(directory)},
        )

    def check() -> None:
        assert process.poll() is None, log.read_text()

    try:
        managed_client(path, check).close()
        yield Nfd(process, path, port, log)
    finally:
        process.kill()
        process.wait()


def nfdc(path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of nfdc with the forwarder that listens at a path."""
    return subprocess.run(
        ["nfdc", *words],
        env=os.environ | {"NDN_CLIENT_TRANSPORT": f"unix://{path}", "HOME": str(path.parent)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


class App:
    """An application on a Unix socket that says and hears packets as they are."""

    def __init__(self, path: Path) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.connect(str(path))
        self._buffer = b""
        self.heard: list[bytes] = []

    def close(self) -> None:
        """End the connection, and with it its face and its routes."""
        self._sock.close()

    def say(self, packet: bytes) -> None:
        """Send a packet."""
        self._sock.sendall(packet)

    def hear(self, seconds: float = PATIENCE_S) -> LpPacket | None:
        """Return the next packet, None if none comes in time."""
        end = time.monotonic() + seconds
        while not self.heard:
            self._sock.settimeout(max(end - time.monotonic(), 0.001))
            try:
                data = self._sock.recv(1 << 16)
            except TimeoutError:
                return None
            assert data, "the forwarder has closed the connection"
            frames, at = cut(self._buffer + data, 1000)
            self.heard += frames
            self._buffer = (self._buffer + data)[at:]
        return parse_lp(self.heard.pop(0))

    def got(self) -> LpPacket:
        """Return the next packet, which must come."""
        packet = self.hear()
        assert packet is not None
        return packet


def command(path: Path, verb: str, **fields: object) -> ControlParameters:
    """Have a forwarder do something; return what it has done. Names and strategies are URIs."""
    given = {
        key: from_uri(value) if key in ("name", "strategy") and isinstance(value, str) else value
        for key, value in fields.items()
    }
    with closing(Client(path)) as client:
        answer = client.command(verb, ControlParameters(**given))  # type: ignore[arg-type]
    assert answer.code == 200, (verb, answer.code, answer.text)
    assert answer.body is not None
    return answer.body
