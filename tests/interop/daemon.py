"""`feednet forward` in a process of its own, on a socket in a temporary directory and on ports of its choice."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 30.0


class Daemon:
    """A running forwarder.

    Attributes:
        socket: its Unix socket.
        pid: its process.
    """

    def __init__(self, process: "subprocess.Popen[str]", ready: str) -> None:
        self.process = process
        self.pid = process.pid
        self._uris = re.findall(r"(unix|udp4|udp6|tcp4|tcp6)://(\S+)", ready)
        self.socket = dict(self._uris)["unix"]

    def uri(self, scheme: str) -> str:
        """Where a client finds it."""
        where = dict(self._uris)[scheme]
        return f"{scheme}://{where.replace('0.0.0.0', '127.0.0.1')}"

    def port(self, scheme: str) -> int:
        return int(self.uri(scheme).rpartition(":")[2])

    def status(self) -> dict[str, Any]:
        """What `feednet status --json` prints."""
        command = [sys.executable, "-m", "testbed.cli", "status", "--json", "--socket", self.socket]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        status: dict[str, Any] = json.loads(done.stdout)
        return status


@contextmanager
def running_daemon(directory: Path, config: str = "") -> Iterator[Daemon]:
    """Run a forwarder; its log is in what a failure shows."""
    path = directory / "feednet.toml"
    path.write_text(
        f'[unix]\npath = "{directory}/feednet.sock"\n[udp]\nport = 0\nlisten = ["127.0.0.1"]\n'
        f'multicast = false\n[tcp]\nport = 0\nlisten = ["127.0.0.1"]\n{config}'
    )
    command = [sys.executable, "-m", "testbed.cli", "forward", "--config", str(path)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        log: list[str] = []
        try:
            for line in process.stderr:
                log.append(line)
                if "ready" in line:
                    break
            else:
                raise AssertionError("the forwarder has ended:\n" + "".join(log))
            reader = threading.Thread(target=log.extend, args=(process.stderr,), daemon=True)
            reader.start()
            yield Daemon(process, log[-1])
            assert process.poll() is None, "the forwarder has ended:\n" + "".join(log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise AssertionError("the forwarder does not end:\n" + "".join(log)) from None
        assert process.returncode == 0, "".join(log)
        print("".join(log))
