"""Unmodified NDN programs over real peers: forwarders at both ends, and three providers between them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import ndn_python_repo
import nobody
import pytest
from daemon_process import DaemonProcess, running
from patience import PATIENCE_S
from stock_peer import OurPeer, until

from forwarder.daemon.datasets import Client, snapshot
from ssb.transport.address import parse_address

TOOLS = (sys.executable, "-m", "ndn.bin.tools")
SECURITY = (sys.executable, "-m", "ndn.bin.sec")
REPO_CLIENT = Path(__file__).parents[1] / "interop" / "repo_client.py"
ROUTED = "feednet", "ssb"


def command(peer: OurPeer, *words: str) -> str:
    """Run a command of `feednet ssb` for a peer; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cli", "ssb", "--path", str(peer.directory), *words],
        env=nobody.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Chain:
    """A customer, three providers in a row, and a repository; the first provider is the root."""

    def __init__(self, stack: ExitStack, directory: Path, *anchor: str) -> None:
        self._stack = stack
        self._directory = directory
        self._anchor = anchor
        self.forwarders: dict[str, DaemonProcess] = {}
        for name in ("customer", "repository"):
            (directory / f"forwarder {name}").mkdir()
            self.forwarders[name] = stack.enter_context(running(directory / f"forwarder {name}"))
        self.peers: dict[str, OurPeer] = {}
        self.root = "self"
        self.start("nfp1")
        self.root = self.peers["nfp1"].id
        for name in ("nfp2", "nfp3", "customer", "repository"):
            self.start(name)
        for one, other in (("nfp1", "nfp2"), ("nfp2", "nfp3"), ("customer", "nfp1"), ("repository", "nfp3")):
            self.connect(one, other)
        for customer, provider, *more in (
            ("nfp1", "nfp2", "--transit"),
            ("nfp2", "nfp3", "--transit"),
            ("customer", "nfp1"),
            ("repository", "nfp3"),
        ):
            provider_id = self.peers[provider].id
            command(self.peers[customer], "contract", "request", provider_id, *more)
        command(self.peers["nfp1"], "name", "give", "/files", self.peers["repository"].id)
        until(lambda: self.state("repository")["prefixes"] == 1)
        command(self.peers["repository"], "name", "repository", "/files", self.peers["repository"].id)
        for name, contracts in (("nfp1", 2), ("nfp2", 2), ("nfp3", 2), ("customer", 1), ("repository", 1)):
            self.wait(name, contracts)

    def start(self, name: str, port: int | None = None) -> None:
        options = ["--ndn-over-ssb", self.root]
        if name.startswith("nfp"):
            options += ["--provide", "10000", *self._anchor]
        forwarder = self.forwarders.get(name)
        uri = "unix:///nonexistent" if forwarder is None else f"unix://{forwarder.path}"
        peer = OurPeer(self._directory / name, *options, forwarder=uri, port=port)
        self.peers[name] = self._stack.enter_context(peer)

    def connect(self, one: str, other: str) -> None:
        self.peers[one].do("connect", arguments=[self.peers[other].address])

    def state(self, name: str) -> dict[str, Any]:
        state: dict[str, Any] = self.peers[name].do("status")["ndn"]
        return state

    def wait(self, name: str, contracts: int) -> None:
        until(lambda: len(self.state(name)["contracts"]) == contracts)

    def restart(self, name: str) -> None:
        """Kill a peer with -9 and start it again."""
        old = self.peers[name]
        old.kill()
        self.start(name, parse_address(old.address).port)

    def program(self, where: str, *words: str) -> "subprocess.Popen[str]":
        """Start a program beside a forwarder."""
        process = subprocess.Popen(
            words,
            cwd=self._directory,
            env={
                **os.environ,
                "HOME": str(self._directory),
                "NDN_CLIENT_TRANSPORT": f"unix://{self.forwarders[where].path}",
                "PYTHONUNBUFFERED": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


def start_repo(chain: Chain, directory: Path) -> None:
    """Start an ndn-python-repo beside the repository, and wait until it can be reached."""
    config = Path(ndn_python_repo.__file__).with_name("ndn-python-repo.conf.sample").read_text()
    config = config.replace("~/.ndn/ndn-python-repo/sqlite3.db", str(directory / "repo.db"))
    config = config.replace("0.0.0.0", "127.0.0.1").replace("7376", "0").replace("'INFO'", "'ERROR'")
    (directory / "repo.conf").write_text(config)
    for words in (("init-pib",), ("new-item", "/example")):
        assert chain.program("repository", *SECURITY, *words).wait(PATIENCE_S) == 0
    words = "-m", "ndn_python_repo.cmd.main", "-c", str(directory / "repo.conf")
    chain.program("repository", sys.executable, *words)

    def prefixes() -> list[str]:
        with closing(Client(chain.forwarders["repository"].path)) as client:
            return [route["prefix"] for route in snapshot(client)["fib"]]

    until(lambda: "/testrepo" in prefixes())


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    with ExitStack() as stack:
        yield Chain(stack, tmp_path)


def test_files_cross_three_providers(chain: Chain, tmp_path: Path) -> None:
    """From putchunks, a directory and ndn-python-repo to catchunks, 1 MB each; a provider is killed."""
    sent = tmp_path / "sent"
    sent.write_text("".join(f"{number:09}\n" for number in range(100_000)))
    producer = chain.program("repository", *TOOLS, "putchunks", "/files/sent", str(sent))
    assert producer.stdout is not None
    for line in producer.stdout:
        if line.startswith("Start serving"):
            break
    fetch = (*TOOLS, "catchunks", "-r", "-1", "-l", "1000", "-o")
    first = chain.program("customer", *fetch, "first", "/files/sent")
    output, _ = first.communicate(timeout=PATIENCE_S)
    assert "Content size: 1000000" in output
    assert (tmp_path / "first").read_bytes() == sent.read_bytes()

    erased = chain.state("nfp3")["cached"]
    assert erased >= 125
    other = tmp_path / "directory" / "other"
    other.parent.mkdir()
    other.write_text("".join(f"{number:09}\n" for number in range(100_000, 200_000)))
    serve = (sys.executable, "-m", "testbed.cli", "serve")
    chain.program("repository", *serve, "/files/directory", str(other.parent))
    second = chain.program("customer", *fetch, "second", "/files/directory/other/32=metadata")
    until(lambda: chain.state("nfp2")["cached"] > erased + 5)
    chain.restart("nfp2")
    assert second.poll() is None
    output, _ = second.communicate(timeout=PATIENCE_S)
    assert "Content size: 1000000" in output
    assert (tmp_path / "second").read_bytes() == other.read_bytes()

    start_repo(chain, tmp_path)
    client = (
        sys.executable,
        str(REPO_CLIENT),
        str(sent),
        "testrepo",
        "/files/stored/v=1",
        str(tmp_path / "copy"),
    )
    assert chain.program("repository", *client).wait(PATIENCE_S) == 0
    third = chain.program("customer", *fetch, "third", "/files/stored/v=1")
    output, _ = third.communicate(timeout=PATIENCE_S)
    assert "Content size: 1000000" in output
    assert (tmp_path / "third").read_bytes() == sent.read_bytes()

    missing = chain.program("customer", *TOOLS, "catchunks", "-r", "1", "/nobody/has/this")
    output, _ = missing.communicate(timeout=PATIENCE_S)
    assert "Nacked with reason=150" in output
