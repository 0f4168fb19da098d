"""`feednet tiny` and `feednet isp` as users run them: what is typed arrives, whoever is killed meanwhile."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from processes import ROOT, wait_for
from tiny_cell import SECOND, cell, identity

from ssb.store.feeds import StoreError
from ssb.tiny.bipf import encode
from ssb.tiny.daemon.account import Account
from ssb.tiny.daemon.chat import MOST_TEXT, DirectChat, line_content, text_of
from ssb.tiny.daemon.service import NoInterface, ports_of
from ssb.tiny.node import Node
from ssb.tiny.store import TinyStore
from testbed.cli.main import feednet
from testbed.errors import UserError

COMMAND = [sys.executable, "-c", "from testbed.cli.main import main; main()"]
NAMESPACE = ["unshare", "--map-root-user", "--net"]


class Program:
    """A program in a network namespace, whose output goes to a file that all its lives share."""

    def __init__(self, within: list[str], path: Path, *arguments: str) -> None:
        self._argv = [*within, *COMMAND, *arguments, "--path", str(path), "--interface", "lo"]
        self._output = path.with_suffix(".out")
        self._stack = ExitStack()
        self.start()

    def start(self) -> None:
        output = self._stack.enter_context(self._output.open("ab"))
        self.process = subprocess.Popen(
            self._argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=output
        )
        self._stack.callback(self.process.wait)
        self._stack.callback(self.process.kill)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    @property
    def output(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def wait(self, text: str, times: int = 1) -> None:
        wait_for(lambda: self.output.count(text) >= times, f"{text!r} in\n{self.output}")

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def within() -> Iterator[list[str]]:
    """Words that run a program in a network namespace that has loopback only."""
    holder = subprocess.Popen(
        [*NAMESPACE, "sh", "-c", "ip link set lo up && echo up && exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    if holder.stdout.readline() != "up\n":
        pytest.skip(f"no network namespace can be made: {holder.communicate()[1].strip()}")
    yield ["nsenter", "--preserve-credentials", "--user", "--net", "--target", str(holder.pid)]
    holder.communicate()


@pytest.mark.mininet
def test_a_chat_through_a_provider_survives_the_death_of_each(tmp_path: Path, within: list[str]) -> None:
    keys = {}
    for name in ("isp", "ann", "ben"):
        with Account(tmp_path / name) as account:
            keys[name] = account.identity.ref
    names = {keys[name][:9]: name for name in keys}
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Program:
            program = Program(within, tmp_path / name, *arguments)
            stack.callback(program.close)
            return program

        isp = start("isp", "isp", "--client", keys["ann"], "--client", keys["ben"])
        ann = start("ann", "tiny", "--isp", keys["isp"], "--contact", keys["ben"])
        ben = start("ben", "tiny", "--isp", keys["isp"], "--contact", keys["ann"])
        for program in (ann, ben):
            program.wait("feednet: ready, ")
        ann.type("one, before there is a contract")
        ben.wait("one, before there is a contract")
        isp.kill()
        ann.type("two, while the provider is dead")
        isp.start()
        ben.wait("two, while the provider is dead")
        ben.kill()
        ann.type("three, while the reader is dead")
        ben.start()
        ben.wait("three, while the reader is dead")
        ben.type("four, from the other side")
        ann.wait("four, from the other side")
        ann.type("five, and killed at once")
        wait_for(lambda: "five" in _stored(tmp_path / "ann" / "store.sqlite"), "five stored")
        ann.kill()
        ann.start()
        ben.wait("five, and killed at once")
        for program in (isp, ann, ben):
            program.process.send_signal(signal.SIGINT)
        assert {program.process.wait() for program in (isp, ann, ben)} == {130}
    lines = [line for line in ben.output.splitlines() if not line.startswith("feednet: ")]
    said = [line.partition("  ")[2].partition(",")[0] for line in lines if line]
    assert {names[line.partition("  ")[0]] for line in lines if line} == {"ann"}
    in_order = [word for number, word in enumerate(said) if word not in said[:number]]
    assert in_order == ["one", "two", "three", "five"], "all, in order; who is killed may see one twice"
    for name in keys:
        with TinyStore(tmp_path / name / "store.sqlite") as store:
            store.check()


def _stored(path: Path) -> str:
    """Return what the database and its log hold, as text."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return "".join(file.read_bytes().decode("latin-1") for file in files if file.exists())


def test_all_in_a_cell_read_each_other_and_nobody_reads_twice_after_a_restart() -> None:
    shown: dict[str, list[tuple[str, str]]] = {"a": [], "b": []}
    stores = {name: TinyStore() for name in "ab"}
    nodes = {name: Node(store, Random(name)) for name, store in stores.items()}

    def chat(name: str, now: int) -> DirectChat:
        def show(ref: str, text: str) -> None:
            shown[name].append((ref, text))

        root = identity(ord(name))
        stores[name].add_own(root)
        return DirectChat(nodes[name], root, show, now)

    chats = {name: chat(name, 0) for name in "ab"}
    network = cell(nodes, delay_ms=1, loss_percent=20)
    chats["a"].write("hello", 0)
    chats["b"].write("a long line " * 20, 0)
    network.run(120 * SECOND)
    chats = {name: chat(name, network.now) for name in "ab"}
    for each in chats.values():
        each.go_on(network.now)
        each.go_on(network.now)
    assert shown == {
        "a": [(identity(ord("b")).ref, "a long line " * 20)],
        "b": [(identity(ord("a")).ref, "hello")],
    }


def test_what_is_no_line_is_not_shown_and_what_would_move_the_cursor_is_replaced() -> None:
    assert text_of(line_content("héllo", 7 * SECOND)) == "héllo"
    assert (
        text_of(encode(["TAV", "a\x1b[2Jb\n", None, 1]))
        == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}"
    )
    assert [text_of(encode(content)) for content in (["TAV"], ["TAV", b"a"], ["ISP", "x"], "TAV", 1)] == [
        None
    ] * 5
    assert text_of(b"\xff") is None
    with pytest.raises(ValueError, match="a line of 2001 bytes; 2000 are possible"):
        line_content("a" * (MOST_TEXT + 1), 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["isp"], "--client: there are no clients; name one at least"),
        (["isp", "--client", "x"], "--client: x: reference is not of the form"),
        (["tiny", "--isp", "@x.ed25519"], "--isp: @x.ed25519: "),
        (["tiny", "--interface", "nope"], "nope: no interface with an IPv4 address; there are "),
        (["isp", "--size", "3", "--client", identity(1).ref], ""),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    if not message:  # terms stay while there are contracts
        with Account(tmp_path) as account:
            account.terms(10, None)
            account.store.put("contract 00", {"client": b""})
            message = "terms stay as they are while there are contracts"
            with pytest.raises(ValueError, match=message):
                account.terms(3, None)
            assert account.terms(None, None).size == 10
        arguments = ["isp", "--size", "3", "--client", identity(1).ref]
    done = CliRunner().invoke(feednet, [*arguments, "--path", str(tmp_path)])
    assert isinstance(done.exception, UserError | NoInterface)
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)


def test_a_directory_is_used_by_one_program_at_a_time_and_keeps_its_key(tmp_path: Path) -> None:
    with Account(tmp_path / "a") as account:
        ref = account.identity.ref
        with pytest.raises(StoreError, match="another program writes to it"):
            Account(tmp_path / "a")
    done = CliRunner().invoke(feednet, ["tiny", "--key", "--path", str(tmp_path / "a")])
    assert done.output == f"{ref}\n"
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file: "):
        Account(tmp_path / "file")


def test_loopback_is_used_only_if_it_is_named_or_there_is_nothing_else() -> None:
    (port,) = ports_of(["lo"]).values()
    assert port.interface.name == "lo"
    assert port.is_shared


def tiny(path: Path, *arguments: object) -> str:
    done = CliRunner().invoke(
        feednet, ["tiny", "--path", str(path), *map(str, arguments)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_a_file_carries_all_that_was_said_and_is_believed_no_more_than_the_air(tmp_path: Path) -> None:
    with Account(tmp_path / "ann") as account:
        ann = account.identity.ref
        chat = DirectChat(Node(account.store, Random(1)), account.identity, lambda ref, text: None, 0)
        chat.write("hello", 0)
        chat.write("a long line " * 30, 0)
    stick = tmp_path / "stick"
    assert tiny(tmp_path / "ann", "--save", stick) == "feednet: 7 packets, 767 bytes\n"
    shown = f"{ann[:9]}  hello\n{ann[:9]}  {'a long line ' * 30}\n"
    assert tiny(tmp_path / "ben", "--load", stick) == f"{shown}feednet: 7 packets, 6 of them new\n"
    assert tiny(tmp_path / "ben", "--load", stick) == "feednet: 7 packets, 0 of them new\n"
    tiny(tmp_path / "ben", "--save", tmp_path / "further")
    assert shown in tiny(tmp_path / "cleo", "--load", tmp_path / "further")
    content = bytearray(stick.read_bytes())
    content[41 + 1 + 60] ^= 1  # in the first entry
    stick.write_bytes(content)
    assert tiny(tmp_path / "dan", "--load", stick) == "feednet: 7 packets, 0 of them new\n"
    stick.write_bytes(content[:-1])
    with pytest.raises(UserError, match=r"--load .*stick: not a file of packets: no packet at byte 646"):
        tiny(tmp_path / "dan", "--load", stick)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="Not a directory"):
        tiny(tmp_path / "ann", "--save", stick / "file")
    assert sorted(tmp_path.iterdir()) == before
