"""`feednet tiny` and `feednet isp`: what is typed and shown, and processes that are killed."""

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, Queue
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from patience import PATIENCE_S

from base.units import SECOND
from ssb.bipf import decode, encode
from ssb.keys import feed_ref
from ssb.store.feeds import StoreError
from ssb.tiny.daemon.account import Account, parse_key, short
from ssb.tiny.daemon.counter import Counter
from ssb.tiny.daemon.customer import Customer
from ssb.tiny.daemon.hall import Hall
from ssb.tiny.daemon.texts import Text, read_text
from ssb.tiny.isp.messages import SubRequestIsp, SubResponseIsp
from ssb.tiny.isp.provider import provider as providers
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node
from testbed.cli.main import feednet

KEY = feed_ref(bytes(range(32)))


class Medium:
    """Programs that hear each other at once, in virtual time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = SECOND
        self.desks: dict[str, Any] = {}
        self.accounts: dict[str, Account] = {}
        self.shown: dict[str, list[str]] = {}

    def start(self, name: str, make: Any) -> Any:
        account = Account(self.directory / name)
        node = Node(account.store, Random(len(self.desks)))
        desk = make(account, node, self.now)
        self.desks[name], self.accounts[name], self.shown[name] = desk, account, desk.greeting()
        return desk

    def stop(self, name: str) -> None:
        self.desks.pop(name)
        self.accounts.pop(name).close()

    def type(self, name: str, line: str) -> list[str]:
        shown: list[str] = self.desks[name].execute(line, self.now)
        return shown

    def go_on(self, seconds: float = 12.0) -> None:
        until = self.now + round(seconds * SECOND)
        while True:
            for name, desk in self.desks.items():
                for _, packet, _ in desk.node.take_outputs():
                    for other in self.desks.values():
                        if other is not desk:
                            other.node.receive(1, packet, None, self.now)
                self.shown[name] += desk.news(self.now)
                desk.confirm(self.now)
            due = min(due for desk in self.desks.values() if (due := desk.node.next_deadline()) is not None)
            if due > until:
                self.now = until
                return
            self.now = max(self.now, due)
            for desk in self.desks.values():
                desk.node.wake(self.now)

    def key(self, name: str) -> str:
        return feed_ref(self.accounts[name].root.public_key)


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[Medium]:
    medium = Medium(tmp_path)
    yield medium
    for account in medium.accounts.values():
        account.close()


def test_everybody_reads_everything_also_who_comes_later_or_comes_back(medium: Medium) -> None:
    medium.start("ann", Hall)
    medium.start("ben", Hall)
    medium.type("ann", "/name Ann\x1b[31m")
    medium.type("ann", "hello\x07")
    medium.go_on()
    ann = f"Ann\\u001b[31m ({short(parse_key(medium.key('ann')))})"
    assert medium.shown["ben"][1:] == [f"{ann}: hello\\u0007"]
    medium.start("cleo", Hall)
    medium.type("cleo", "x" * 1000)
    medium.go_on(25)
    assert medium.shown["cleo"][1:] == [f"{ann}: hello\\u0007"]
    assert medium.shown["ben"][2:] == [f"{short(parse_key(medium.key('cleo')))}: {'x' * 1000}"]
    medium.stop("ben")
    medium.type("ann", "ben is away")
    medium.start("ben", Hall)
    medium.go_on(25)
    assert medium.shown["ben"][1:] == [f"{ann}: ben is away"]
    assert len(medium.type("ben", "/who")) == 3
    with pytest.raises(ValueError, match="/nothing: unknown; type a text"):
        medium.type("ben", "/nothing")


def test_a_file_of_packets_crosses_where_no_medium_does(medium: Medium, tmp_path: Path) -> None:
    medium.start("ann", Hall)
    medium.type("ann", "hello " + "x" * 300)
    ann, path = short(parse_key(medium.key("ann"))), tmp_path / "packets"
    assert medium.type("ann", f"/save {path}")[0].startswith("5 packets, ")
    medium.stop("ann")
    medium.start("ben", Hall)
    assert medium.type("ben", f"/load {path}") == ["5 packets, 4 of them new"]
    assert medium.type("ben", f"/load {path}") == ["5 packets, 0 of them new"]
    medium.go_on(1)
    assert medium.shown["ben"][1:] == [f"{ann}: hello {'x' * 300}"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="packets: no packet at byte "):
        medium.type("ben", f"/load {path}")
    with pytest.raises(ValueError, match="nowhere: No such file"):
        medium.type("ben", f"/load {tmp_path / 'nowhere'}")
    with pytest.raises(ValueError, match="nowhere/x: No such file"):
        medium.type("ben", f"/save {tmp_path / 'nowhere/x'}")


def provider(account: Account, node: Node, now: int) -> Counter:
    return Counter(account, node, Terms(), now)


def test_clients_agree_chat_and_part(medium: Medium) -> None:
    medium.start("isp", provider)
    isp = parse_key(medium.key("isp"))

    def customer(account: Account, node: Node, now: int) -> Customer:
        assert account.provider(isp) == isp
        return Customer(account, node, isp, now)

    for name in ("ann", "ben", "cleo"):
        medium.start(name, customer)
        assert medium.type(name, "/who") == ["no contacts"]
        medium.type("isp", f"/allow {medium.key(name)}")
    medium.go_on(40)
    assert all("you have a contract" in medium.shown[name][-1] for name in ("ann", "ben", "cleo"))
    with pytest.raises(ValueError, match="no contact yet: /ask KEY"):
        medium.type("ann", "hello?")
    medium.type("ann", "/name Ann")
    medium.type("ann", f"/ask {medium.key('ben')}")
    medium.type("cleo", f"/ask {medium.key('ben')}")
    medium.go_on()
    with pytest.raises(ValueError, match="not a key"):
        medium.type("ben", "/accept")
    medium.type("ben", f"/accept {medium.key('ann')[:6]}")
    medium.type("ben", "/refuse")
    medium.go_on()
    assert (
        medium.shown["cleo"][-1]
        == f"{short(parse_key(medium.key('ben')))} does not want you, or is not there"
    )
    medium.type("ann", "hello")
    medium.go_on()
    assert medium.shown["ben"][-1] == f"Ann ({short(parse_key(medium.key('ann')))}): hello"
    medium.stop("ann")
    medium.type("ben", "you are away")
    medium.go_on()
    medium.start("ann", customer)
    assert medium.shown["ann"][1] == "the contract with the provider stands"
    medium.go_on()
    assert medium.shown["ann"][-1] == f"{short(parse_key(medium.key('ben')))}: you are away"
    assert [line.split()[-1] for line in medium.type("isp", "/who")] == ["open"] * 3
    medium.type("ann", "/farewell")
    medium.go_on()
    assert medium.shown["ben"][-1].endswith("sends no more")
    assert [line.split()[1:] for line in medium.type("isp", "/who")].count(["no", "contract"]) == 1
    medium.stop("ann")
    medium.start("ann", customer)
    assert medium.shown["ann"][1] == "you have left the provider; /join asks for a contract again"
    medium.type("ann", "/join")
    medium.go_on(40)
    assert "you have a contract" in medium.shown["ann"][-1]
    with pytest.raises(ValueError, match="own key"):
        medium.type("isp", f"/allow {medium.key('isp')}")


@pytest.mark.parametrize("takes_unproven", [False, True])
def test_a_provider_that_drops_proofs(
    medium: Medium, monkeypatch: pytest.MonkeyPatch, takes_unproven: bool
) -> None:
    """As tinyISP's prototypes do: their commands have no place for proofs."""
    monkeypatch.setattr(
        providers, "SubRequestIsp", lambda ref, source, feed, *_: SubRequestIsp(ref, source, feed)
    )
    monkeypatch.setattr(providers, "SubResponseIsp", lambda ref, ok, feed, *_: SubResponseIsp(ref, ok, feed))
    medium.start("isp", provider)
    isp = parse_key(medium.key("isp"))
    for name in ("ann", "ben"):
        medium.start(name, lambda *of: Customer(of[0], of[1], isp, of[2], takes_unproven=takes_unproven))
        medium.type("isp", f"/allow {medium.key(name)}")
    medium.go_on(40)
    medium.type("ann", f"/ask {medium.key('ben')}")
    medium.go_on()
    if not takes_unproven:
        assert medium.shown["ben"][-1].endswith("both start with --unproven")
        assert medium.shown["ann"][-1].endswith("does not want you, or is not there")
        return
    medium.type("ben", "/accept")
    medium.go_on()
    medium.type("ann", "hello")
    medium.go_on()
    assert medium.shown["ben"][-1].endswith(": hello")


def test_an_answer_whose_proof_is_dropped_is_not_taken(
    medium: Medium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "SubResponseIsp", lambda ref, ok, feed, *_: SubResponseIsp(ref, ok, feed))
    medium.start("isp", provider)
    isp = parse_key(medium.key("isp"))
    for name in ("ann", "ben"):
        medium.start(name, lambda *of: Customer(of[0], of[1], isp, of[2]))
        medium.type("isp", f"/allow {medium.key(name)}")
    medium.go_on(40)
    medium.type("ann", f"/ask {medium.key('ben')}")
    medium.go_on()
    medium.type("ben", "/accept")
    medium.go_on()
    assert " accepts, but the provider passes on no proof" in medium.shown["ann"][-1]


def test_texts_are_what_other_programs_write() -> None:
    assert decode(Text("hi").encode(7)) == ["TAV", "hi", None, 7]
    assert read_text(encode(["TAV", "hi", b"voice", 7, b"more"])) == Text("hi")
    assert read_text(encode(["IAM", "ann"])) == Text("ann", is_name=True)
    for other in (b"", b"\xff", encode(["TAV", None, b"voice", 7]), encode(["KAN", "x"]), encode(3)):
        assert read_text(other) is None


def test_keys_are_typed_whole_or_in_part() -> None:
    keys = [bytes([number]) + bytes(31) for number in range(4)]
    assert parse_key(KEY) == bytes(range(32))
    assert parse_key(feed_ref(keys[2])[:4], keys) == keys[2]
    for wrong in ("", "@", "x", KEY[:20], KEY + "x"):
        with pytest.raises(ValueError, match="not a key, such as @AAAA"):
            parse_key(wrong, keys)
    with pytest.raises(ValueError, match="4 keys begin so"):
        parse_key("@A", keys)


def test_an_account_is_of_one_kind_and_one_program(tmp_path: Path) -> None:
    account = Account(tmp_path / "tiny")
    root = account.root
    with pytest.raises(StoreError, match="another program writes to it"):
        Account(tmp_path / "tiny")
    isp, other = bytes(32), bytes(range(32))
    assert account.provider(None) is None
    assert account.provider(isp) == account.provider(None) == isp
    with pytest.raises(ValueError, match="belongs to a client of @AAAA"):
        account.provider(other)
    account.close()
    again = Account(tmp_path / "tiny")
    assert again.root == root
    again.close()
    hall = Account(tmp_path / "hall")
    hall.store.publish(hall.root.public_key, b"hello")
    with pytest.raises(ValueError, match="without a provider"):
        hall.provider(isp)
    hall.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tiny", "--isp", "nonsense"], "nonsense: not a key, such as @AAAA"),
        (["tiny", "--interface", "none0"], "--interface: no interface none0 with an IPv4 address; there are"),
        (["isp", "--allow", "@"], "@: not a key"),
        (["isp", "--days", "0"], "0 is not in the range"),
        (["tiny", "--unproven"], "--unproven has no effect without a provider"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    done = CliRunner().invoke(feednet, [*words, "--path", str(tmp_path / "a")])
    assert done.exit_code
    assert said in (done.output if done.exit_code == 2 else str(done.exception))


class Typed:
    """A program in a network namespace of its own, at its terminal."""

    def __init__(self, directory: Path, namespace: int, *words: str) -> None:
        command = [sys.executable, "-m", "testbed.cli", *words, "--path", str(directory), "--interface", "lo"]
        self.process = subprocess.Popen(
            ["nsenter", f"--net=/proc/{namespace}/ns/net", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, pattern: str) -> re.Match[str]:
        """Wait for a line; return where it matches."""
        seen = []
        while True:
            try:
                seen.append(self._lines.get(timeout=PATIENCE_S))
            except Empty:
                raise AssertionError(f"no {pattern!r} in {seen}") from None
            found = re.search(pattern, seen[-1])
            if found:
                return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Typed":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@pytest.fixture
def namespace() -> Iterator[int]:
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("needs unshare and nsenter")
    command = "ip link set lo up && echo up && exec sleep 600"
    keeper = subprocess.Popen(["unshare", "--net", "sh", "-c", command], stdout=subprocess.PIPE, text=True)
    assert keeper.stdout is not None
    assert keeper.stdout.readline() == "up\n"
    yield keeper.pid
    keeper.kill()
    keeper.wait()


@pytest.mark.mininet
def test_programs_that_are_killed_go_on(tmp_path: Path, namespace: int) -> None:
    with ExitStack() as stack:

        def start(name: str, *words: str) -> Typed:
            return stack.enter_context(Typed(tmp_path / name, namespace, *words))

        isp = start("isp", "isp")
        key = isp.wait(r"provider is (\S+);")[1]
        ann, ben = start("ann", "tiny", "--isp", key), start("ben", "tiny", "--isp", key)
        keys = [one.wait(r"you are (\S+);")[1] for one in (ann, ben)]
        for each in keys:
            isp.type(f"/allow {each}")
        for one in (ann, ben):
            one.wait("you have a contract")
        ann.type(f"/ask {keys[1]}")
        ben.wait("wants to be your contact")
        ben.type("/accept")
        ann.wait("is a contact now")
        ann.type("one")
        ben.wait(": one$")
        isp.kill()
        ann.type("two")
        ann.type("/who")
        ann.wait("contact")  # so the line before it was stored
        ann.kill()
        isp, ann = start("isp", "isp"), start("ann", "tiny")
        ben.wait(": two$")
        ben.type("three " + "x" * 500)
        ann.wait(f": three {'x' * 500}$")
        ann.type("/farewell")
        ann.wait("nothing of it is left")
        isp.wait("over")
        ann.type("/quit")
        assert ann.process.wait(PATIENCE_S) == 0


@pytest.mark.mininet
@pytest.mark.parametrize("program", ["isp", "tiny"])
def test_a_program_ends_with_its_input(program: str, tmp_path: Path, namespace: int) -> None:
    with Typed(tmp_path / "a", namespace, program) as one:
        one.type("/who")
        one.type("/help")
        one.wait("^(type a text|/allow).*/help, /quit$")
        assert one.process.stdin is not None
        one.process.stdin.close()
        assert one.process.wait(PATIENCE_S) == 0


@pytest.mark.mininet
def test_two_terminals_chat_and_end_by_a_signal(tmp_path: Path, namespace: int) -> None:
    with Typed(tmp_path / "a", namespace, "tiny") as one, Typed(tmp_path / "b", namespace, "tiny") as other:
        for each in (one, other):
            each.wait("you are")
        one.type("hello")
        other.wait(": hello$")
        other.type("/nothing")
        other.wait("^! /nothing: unknown")
        one.process.terminate()
        assert one.process.wait(PATIENCE_S) == 143
        one.wait("feednet: interrupted")
