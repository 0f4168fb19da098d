"""python-ndn's own examples and tools, unchanged, over a running `feednet forward`."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ndn_python_repo
import pytest
from daemon_process import DaemonProcess, running
from patience import PATIENCE_S

from forwarder.daemon.datasets import Client, snapshot

EXAMPLES = Path(__file__).parent / "python_ndn"


class Program:
    """A program whose output is read as it comes."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in self.process.stdout)

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, pattern: str) -> "re.Match[str]":
        """Wait until the output has something; fail with all of it if it never does."""
        end = time.monotonic() + PATIENCE_S
        while True:
            ended = self.process.poll() is not None
            if ended:
                self._reader.join(PATIENCE_S)
            found = re.search(pattern, self.output)
            if found:
                return found
            if ended or time.monotonic() > end:
                pytest.fail(f"no {pattern!r} in what {self.process.args} has printed:\n{self.output}")
            time.sleep(0.02)

    def finish(self) -> str:
        """Wait for the end; return the output."""
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.process.args} does not end:\n{self.output}")
        self._reader.join(PATIENCE_S)
        return self.output

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Bench:
    """A forwarder, a home directory with an identity, and programs that know of both."""

    def __init__(self, daemon: DaemonProcess, home: Path) -> None:
        self.daemon = daemon
        self.home = home
        self.programs: list[Program] = []
        self.env = {
            **os.environ,
            "HOME": str(home),
            "NDN_CLIENT_TRANSPORT": daemon.uris["unix"],
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *command: str, transport: str | None = None) -> Program:
        env = self.env if transport is None else self.env | {"NDN_CLIENT_TRANSPORT": transport}
        program = Program([*command], env, self.home)
        self.programs.append(program)
        return program

    def example(self, name: str, *arguments: str, transport: str | None = None) -> Program:
        return self.start(sys.executable, str(EXAMPLES / name), *arguments, transport=transport)

    def tool(self, name: str, *arguments: str) -> Program:
        return self.start(sys.executable, "-m", f"ndn.bin.{name}", *arguments)

    def nfdc(self, *arguments: str) -> str:
        return self.tool("nfdc", *arguments).finish()

    def status(self) -> dict[str, Any]:
        with closing(Client(self.daemon.path)) as client:
            return snapshot(client)

    def until_routed(self, prefix: str) -> None:
        """Wait until somebody serves a prefix: the examples say nothing when they are ready."""
        end = time.monotonic() + PATIENCE_S
        while prefix not in [route["prefix"] for route in self.status()["fib"]]:
            assert time.monotonic() < end, f"nobody registers {prefix}"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    env = {**os.environ, "HOME": str(path)}
    for arguments in (["init-pib"], ["new-item", "/me"]):
        subprocess.run(
            [sys.executable, "-m", "ndn.bin.sec", *arguments], env=env, check=True, timeout=PATIENCE_S
        )
    return path


@pytest.fixture
def bench(home: Path, tmp_path: Path) -> Iterator[Bench]:
    with running(tmp_path) as daemon:
        made = Bench(daemon, home)
        try:
            yield made
        finally:
            for program in made.programs:
                program.stop()


TRANSPORTS = ["unix", "tcp4", "udp4"]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", ["", "appv2/basic_packets/"])
def test_producer_and_consumer(bench: Bench, kind: str, transport: str) -> None:
    """The producer over the Unix socket, as it must be to register; the consumer over any."""
    producer = bench.example(f"{kind}producer.py")
    bench.until_routed("/example/testApp")
    consumer = bench.example(f"{kind}consumer.py", transport=bench.daemon.uris[transport])
    output = consumer.finish()
    assert "Received Data Name: /example/testApp/randomData" in output
    assert "b'Hello, world!'" in output
    producer.wait_for("<< D: /example/testApp/randomData")


def test_a_consumer_without_a_producer_is_refused_at_once(bench: Bench) -> None:
    assert "Nacked with reason=150" in bench.example("consumer.py").finish()


def test_rpc(bench: Bench) -> None:
    bench.example("rpc_producer.py")
    bench.until_routed("/example/rpc")
    assert "b'42'" in bench.example("rpc_consumer.py", "17", "25").finish()


@pytest.mark.parametrize("size", [100, 100_000])
def test_chunks(bench: Bench, tmp_path: Path, size: int) -> None:
    text = "".join(chr(97 + number % 26) for number in range(size))
    (tmp_path / "file").write_text(text)
    served = bench.example("putchunks.py", "/example/chunks", str(tmp_path / "file"))
    name = served.wait_for(r"under name (\S+)")[1]
    bench.until_routed(name)
    output = bench.example("catchunks.py", name).finish()
    assert text in output
    assert f"{-(-size // 4400)} segments fetched." in output


def test_rdr_node(bench: Bench, tmp_path: Path) -> None:
    """The forwarder does its part; the example's own trust schema then refuses what it gets.

    It expects the key's name in the KeyLocator, and python-ndn 0.5.2 puts the certificate's there.
    """
    (tmp_path / "file").write_bytes(bytes(20_000))
    bench.example("rdrnode.py", "some", str(tmp_path / "file")).wait_for("Content size: 20000")
    fetching = bench.example("rdrnode.py", "some")
    fetching.wait_for(r"/file/some/32=metadata/v=\d+ => The key name /me/KEY/\S+/self/v=\d+ mismatch")


def test_rdr_tools(bench: Bench, tmp_path: Path) -> None:
    """Metadata by CanBePrefix and MustBeFresh, then segments."""
    (tmp_path / "file").write_bytes(bytes(range(250)) * 80)
    bench.tool("tools", "serve-rdrcontent", "/example/rdr", str(tmp_path / "file"))
    bench.until_routed("/example/rdr")
    bench.tool("tools", "fetch-rdrcontent", "-o", str(tmp_path / "got"), "/example/rdr").finish()
    assert (tmp_path / "got").read_bytes() == (tmp_path / "file").read_bytes()


def test_a_forwarding_hint(bench: Bench) -> None:
    producer = bench.example("appv2/forwarding_hint/producer.py")
    bench.until_routed("/")
    output = bench.example("appv2/forwarding_hint/consumer.py").finish()
    assert "Received Data Name: /example/testApp/randomData" in output
    producer.wait_for("Received forwarding hinted Interest: /repo/files")


def test_certificates_of_a_keychain(bench: Bench) -> None:
    bench.example("appv2/keychain_cert/keychain_register.py")
    bench.until_routed("/me/KEY")
    listed = bench.tool("sec", "ls", "-k").finish()
    key = re.search(r"/me/KEY/\S+", listed)
    assert key is not None, listed
    output = bench.example("appv2/keychain_cert/fetch_certificate.py", key[0]).finish()
    assert f"Received Data Name: {key[0]}/self/v=" in output


def test_light_verification_schema(bench: Bench, tmp_path: Path) -> None:
    bench.example("lvs/producer.py")
    bench.until_routed("/lvs-test/article/xinyu/hello")
    output = bench.example("lvs/consumer.py").finish()
    assert "Received Data Name: /lvs-test/article/xinyu/hello" in output
    assert "Hello," in output


def test_state_vector_sync(bench: Bench) -> None:
    """Two nodes, which both register the group's prefix; the forwarder must multicast there."""
    bench.nfdc("ss", "/example/testSvs", "/localhost/nfd/strategy/multicast/v=5")
    nodes = [bench.example("appv2/svs/sync_example.py") for _ in range(2)]
    for node in nodes:
        node.wait_for("Fetched /node-")


def test_forwarder_status(bench: Bench) -> None:
    asking = bench.example("nfd_status.py")
    status = asking.wait_for(r"\{'nfd_version': '([^']*)'.*\}")
    assert "feednet" in status[1]


# The command line tools.


def test_peek_and_poke(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("some text")
    bench.tool("tools", "poke", "/example/poked", str(tmp_path / "file"))
    bench.until_routed("/example/poked")
    assert "Content: (size 9)" in bench.tool("tools", "peek", "/example/poked").finish()


def test_faces_by_pynfdc(bench: Bench) -> None:
    assert bench.nfdc("nf", "udp4://127.0.0.1:7000").startswith("200")
    assert bench.nfdc("nf", "udp4://127.0.0.1:7000").startswith("409")
    listed = bench.nfdc("gf")
    assert "udp4://127.0.0.1:7000" in listed
    face = next(f for f in bench.status()["faces"] if f["remote"] == "udp4://127.0.0.1:7000")
    assert "udp4://127.0.0.1:7000" in bench.nfdc("gf", str(face["face"]))
    assert bench.nfdc("rf", str(face["face"])).endswith("200 OK")
    assert "udp4://127.0.0.1:7000" not in bench.nfdc("gf")


def test_routes_by_pynfdc(bench: Bench) -> None:
    bench.nfdc("nf", "udp4://127.0.0.1:7000")
    face = next(f for f in bench.status()["faces"] if f["remote"] == "udp4://127.0.0.1:7000")
    assert bench.nfdc("nr", "/some/prefix", str(face["face"])).startswith("200")
    listed = bench.nfdc("gr")
    assert "/some/prefix" in listed
    assert bench.nfdc("rr", "/some/prefix", str(face["face"])).startswith("200")
    assert "/some/prefix" not in bench.nfdc("gr")


def test_strategies_by_pynfdc(bench: Bench) -> None:
    name = "/localhost/nfd/strategy/multicast/v=5"
    assert bench.nfdc("ss", "/some/prefix", name).startswith("200")
    listed = bench.nfdc("gs")
    assert re.search(r"/some/prefix.*multicast", listed, re.DOTALL)
    assert bench.nfdc("rs", "/some/prefix").startswith("200")
    assert "/some/prefix" not in bench.nfdc("gs")
    assert bench.nfdc("ss", "/some/prefix", "none").startswith("404")


def test_status_by_pynfdc(bench: Bench) -> None:
    output = bench.nfdc("status")
    assert "feednet" in output


# A program of its own.


def test_repo(bench: Bench, tmp_path: Path) -> None:
    """ndn-python-repo stores what its client offers, by RPC, publish-subscribe and segmented fetching."""
    content = bytes(range(251)) * 160
    (tmp_path / "file").write_bytes(content)
    sample = Path(ndn_python_repo.__file__).with_name("ndn-python-repo.conf.sample").read_text()
    config = sample.replace("~/.ndn/ndn-python-repo/sqlite3.db", str(tmp_path / "repo.db"))
    config = config.replace("0.0.0.0", "127.0.0.1").replace("7376", "0").replace("'INFO'", "'DEBUG'")
    (tmp_path / "repo.conf").write_text(config)
    repo = bench.start(sys.executable, "-m", "ndn_python_repo.cmd.main", "-c", str(tmp_path / "repo.conf"))
    bench.until_routed("/testrepo")
    bench.until_routed("/")
    copy = tmp_path / "copy"
    client = bench.start(
        sys.executable,
        str(EXAMPLES.parent / "repo_client.py"),
        str(tmp_path / "file"),
        "testrepo",
        "/example/stored",
        str(copy),
    )
    output = client.finish()
    assert f"inserted {-(-len(content) // 4000)}" in output, f"{output}\n{repo.output}"
    assert copy.read_bytes() == content
