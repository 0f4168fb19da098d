"""A forwarder's process under supervision, and connections to it.

A supervisor treats `feednet forward` like systemd with our unit file: it starts the process, waits for
READY=1, reloads it by SIGHUP, ends it by SIGTERM, and restarts it after a death.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import ClassVar

from base.sockets import free_port
from forwarder.daemon.commands import Signer
from forwarder.links.framing import cut
from forwarder.wire.hello import Hello, make_hello, parse_hello
from forwarder.wire.lp import LpPacket, parse_lp
from testbed.verify.kit.outcome import Violation

SCHEMES = ("unix", "tcp4", "udp4")
PATIENCE_S = 60.0
ANSWER_S = 10.0


class Supervised:
    """A supervised forwarder, with all its files in a folder.

    Attributes:
        config: path of the configuration, which contains `base`.
        base: tables of the sockets.
        path: of the Unix socket.
        program: the command, Python.
    """

    program: ClassVar[str] = "from feednet.__main__ import main; main()"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.config = folder / "forwarder.toml"
        self.path = folder / "nfd.sock"
        self._ports = {"tcp4": free_port(), "udp4": free_port(socket.SOCK_DGRAM)}
        self.base = (
            f'[unix]\npath = "nfd.sock"\n'
            f'[tcp]\naddresses = ["127.0.0.1"]\nport = {self._ports["tcp4"]}\n'
            f'[udp]\naddresses = ["127.0.0.1"]\nport = {self._ports["udp4"]}\n'
        )
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._told.bind(str(folder / "notify"))
        self._told.settimeout(PATIENCE_S)
        self._errors = (folder / "errors").open("a", encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The running process."""
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Start the process, and wait until it is ready."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.program, "forward", "--config", str(self.config)],
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env=os.environ | {"NOTIFY_SOCKET": str(self._folder / "notify")},
        )
        self.wait_for("READY=1")

    def wait_for(self, field: str) -> None:
        """Wait for a notification of the process by sd_notify's protocol."""
        while True:
            try:
                if field in self._told.recv(4096).decode().split("\n"):
                    return
            except TimeoutError:
                raise Violation("service", field, f"is never said: {self.errors()[-500:]}") from None

    def errors(self) -> str:
        """Return what the process has written to its standard error."""
        return (self._folder / "errors").read_text(encoding="utf-8", errors="replace")

    def reload(self, text: str) -> None:
        """Reload with another configuration, and wait for the end of that."""
        self.config.write_text(text, encoding="utf-8")
        self.process.send_signal(signal.SIGHUP)
        self.wait_for("RELOADING=1")
        self.wait_for("READY=1")

    def stop(self) -> None:
        """End the process as a supervisor does; raise Violation if something is left."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE_S)
        if status != 0 or self.path.exists():
            raise Violation("service", "SIGTERM", f"status {status}, socket left: {self.path.exists()}")

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it in any case."""
        self.kill()
        self._told.close()
        self._errors.close()

    def connect(self, scheme: str) -> socket.socket:
        """Return a connected socket."""
        family = socket.AF_UNIX if scheme == "unix" else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM if scheme == "udp4" else socket.SOCK_STREAM)
        sock.settimeout(PATIENCE_S)
        sock.connect(str(self.path) if scheme == "unix" else ("127.0.0.1", self._ports[scheme]))
        return sock

    def files(self) -> int:
        """Return the number of open files."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self) -> int:
        """Return its resident memory, kB."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE") // 1024


class Connection:
    """The client's end of a face."""

    def __init__(self, daemon: Supervised, scheme: str) -> None:
        self.scheme = scheme
        self.sock = daemon.connect(scheme)
        self.signer = Signer()
        self._rest = b""
        self._waiting: list[bytes] = []

    def send(self, frame: bytes) -> None:
        """Send a frame; nothing happens if the daemon has closed the connection."""
        with suppress(OSError):
            self.sock.send(frame) if self.scheme == "udp4" else self.sock.sendall(frame)

    def receive(self, seconds: float) -> bytes | None:
        """Return the next frame, None without one in time or ever."""
        until = time.monotonic() + seconds
        while not self._waiting:
            left = until - time.monotonic()
            if left <= 0:
                return None
            self.sock.settimeout(left)
            try:
                data = self.sock.recv(1 << 16)
            except OSError:
                return None
            if not data:
                return None
            if self.scheme == "udp4":
                return data
            frames, at = cut(self._rest + data, 1 << 16)
            self._rest = (self._rest + data)[at:]
            self._waiting += frames
        return self._waiting.pop(0)

    def wait_for(self, is_it: Callable[[LpPacket], bool], seconds: float = ANSWER_S) -> bytes | None:
        """Return the next frame that satisfies a predicate."""
        until = time.monotonic() + seconds
        while (frame := self.receive(until - time.monotonic())) is not None:
            lp = parse_lp(frame)
            if lp.hello is not None and (number := parse_hello(lp.hello).number) is not None:
                self.send(make_hello(Hello(reply=number)))  # everything sent here arrives
            if is_it(lp):
                return frame
        return None

    def close(self, rng: Random) -> str:
        """Leave in a random way; return which."""
        way = rng.choice(("closed", "broken off", "reset"))
        if way == "broken off":
            self.send(b"\x06\xfd\x03\xe8\x07")
        elif way == "reset" and self.scheme == "tcp4":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()
        return way
