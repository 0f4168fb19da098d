"""Stock Scuttlebutt peers from npm, and ours as a program, for tests that let them meet on loopback."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import nobody
import pytest
from patience import PATIENCE_S

from base.sockets import free_port
from ssb.daemon.running import RunningPeer
from ssb.transport.address import parse_address

HERE = Path(__file__).parent
ROOT = Path(__file__).parents[1]


@cache
def node_modules(packages: str = "ssb/node") -> Path:
    """Return where the packages of <packages>/package-lock.json are, or skip the test and say why."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no Node.js here, which runs stock peers")
    here = HERE / packages
    lock = (here / "package-lock.json").read_bytes()
    name = here.name
    place = ROOT / ".make" / f"{name}-{sha256(lock).hexdigest()[:8]}"
    place.parent.mkdir(exist_ok=True)
    with (place.parent / f"{name}.lock").open("w") as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        if not place.exists():
            new = place.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            for file in ("package.json", "package-lock.json"):
                shutil.copy(here / file, new)
            retries = ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
            install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", *retries]
            ran = subprocess.run(install, cwd=new, capture_output=True, text=True, check=False)
            if ran.returncode != 0:
                pytest.skip(f"npm cannot install {packages}: {ran.stderr.strip().splitlines()[:3]}")
            new.rename(place)
    return place / "node_modules"


def until(what: Callable[[], bool]) -> None:
    """Wait for something to come true."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


class StockPeer:
    """A peer that runs npm's packages.

    Args:
        directory: of its identity and messages.
        way: "ebt" or "history", by which it replicates; "rooms" is "ebt" with ssb-conn and ssb-room-client.
        script: what Node.js runs.
        packages: folder of its program and their list: "ssb/tribes" for one with private groups.
    """

    def __init__(
        self, directory: Path, way: str = "ebt", script: str = "peer.js", packages: str = "ssb/node"
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.port = free_port()
        self._process = subprocess.Popen(
            ["node", HERE / packages / script, directory, str(self.port), way],
            env=os.environ | {"NODE_PATH": str(node_modules(packages))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._asked = 0
        first = self._read()
        self.address, self.id = first["address"], first["id"]

    def do(self, action: str, **arguments: object) -> Any:
        """Have it do something: see peer.js."""
        assert self._process.stdin is not None
        self._asked += 1
        print(
            json.dumps({"id": self._asked, "do": action, **arguments}), file=self._process.stdin, flush=True
        )
        answer = self._read()
        assert answer.get("id") == self._asked, answer
        assert "error" not in answer, answer
        return answer["value"]

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


class StockRoom(StockPeer):
    """A room server that runs npm's ssb-room; it takes no actions."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, script="room.js")


class OurPeer:
    """`feednet ssb peer` in a process of its own.

    Args:
        directory: of its account.
        options: of the command.
        forwarder: FaceUri of an NDN forwarder, for a gateway.
        port: where it listens; any if None.
    """

    def __init__(self, directory: Path, *options: str, forwarder: str = "", port: int | None = None) -> None:
        self.directory = directory
        self.port = port or free_port()
        command = [sys.executable, "-m", "testbed.cli", "ssb", "--path", directory, "peer"]
        self._process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(self.port), *options],
            env=nobody.environment() | {"NDN_CLIENT_TRANSPORT": forwarder},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline().split()
        assert ready[:2] == ["feednet:", "ready,"], ready
        self.address = ready[2]
        self.id = parse_address(self.address).peer

    def do(self, *name: str, arguments: list[Any] | None = None) -> Any:
        """Make a call at its socket."""
        running = RunningPeer(self.directory)
        try:
            return running.answer(name, arguments or [])
        finally:
            running.close()

    def publish(self, count: int) -> None:
        """Write posts."""
        for number in range(count):
            self.do("publish", arguments=[{"type": "post", "text": f"{number} é"}])

    def follow(self, feed: str) -> None:
        """Follow a feed."""
        self.do("publish", arguments=[{"type": "contact", "contact": feed, "following": True}])

    def stream(self, *name: str, **options: Any) -> list[dict[str, Any]]:
        """Make a call of form source at its socket; return all answers."""
        running = RunningPeer(self.directory)
        try:
            return list(running.stream(name, [options]))
        finally:
            running.close()

    def log(self, feed: str, **options: Any) -> list[dict[str, Any]]:
        """Return the messages of a feed that it holds, with their ids."""
        return self.stream("createLogStream", id=feed, **options)

    def ids(self, feed: str) -> list[str]:
        """Return the ids of the messages of a feed that it holds."""
        return [entry["key"] for entry in self.log(feed)]

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.communicate(timeout=PATIENCE_S)
