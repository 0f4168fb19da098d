"""A daemon in a process of its own, on a temporary path and ports of the system's choice."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-c", "from testbed.cli.main import main; main()", "forward"]

CONFIG = """
[unix]
path = "nfd.sock"
[tcp]
addresses = ["127.0.0.1"]
port = 0
[udp]
addresses = ["127.0.0.1"]
port = 0
"""


class DaemonProcess:
    """A running daemon.

    Attributes:
        uris: where it listens, by scheme.
        path: of its Unix socket.
        log: its standard error.
    """

    def __init__(self, process: "subprocess.Popen[str]", ready: str, directory: Path) -> None:
        self.process = process
        assert ready.startswith("feednet: ready, "), ready
        self.uris = {uri.partition("://")[0]: uri for uri in ready.removeprefix("feednet: ready, ").split()}
        self.path = directory / "nfd.sock"
        self.log = directory / "log"

    def port(self, scheme: str) -> int:
        return int(self.uris[scheme].rpartition(":")[2])

    def connect(self, scheme: str = "unix") -> socket.socket:
        """A connected socket with a time-out."""
        match scheme:
            case "unix":
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                sock.settimeout(PATIENCE_S)
                sock.connect(str(self.path))
            case "tcp4":
                sock = socket.create_connection(("127.0.0.1", self.port("tcp4")), PATIENCE_S)
            case _:
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sock.settimeout(PATIENCE_S)
                sock.connect(("127.0.0.1", self.port("udp4")))
        return sock

    def stop(self) -> int:
        """Ask it to end; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self) -> int:
        """Resident memory, bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")


@contextmanager
def running(directory: Path, config: str = CONFIG) -> Iterator[DaemonProcess]:
    """Start a daemon and wait until it is ready; it is gone afterwards."""
    (directory / "feednet.toml").write_text(config, encoding="utf-8")
    with (directory / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*COMMAND, "--config", str(directory / "feednet.toml")],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    try:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
        ready = process.stdout.readline() if readable else ""
        assert ready, (directory / "log").read_text(encoding="utf-8")
        yield DaemonProcess(process, ready.strip(), directory)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def wait_until(condition: object, what: str) -> None:
    """Wait for something that comes about by itself, and fail if it does not."""
    assert callable(condition)
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.01)
