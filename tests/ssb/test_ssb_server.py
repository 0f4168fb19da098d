"""ssb-server 16, as its users run it, and our peer, as its users run it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nobody
import pytest
import ssb_server_program
from patience import PATIENCE_S
from stock_peer import OurPeer, until
from test_ssb_import import ssb

from base.sockets import free_port
from ssb import key_file
from ssb.keys import blob_ref, encode_base64, message_ref
from testbed.errors import UserError


class SsbServer:
    """A running ssb-server; its commands are those of its own command line."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.identity = key_file.create(directory / "secret")
        self.port = free_port()
        self._options = ["--", "--path", directory, "--host", "127.0.0.1", "--port", self.port]
        self._options += ["--ws.port", free_port(), "--local", "false", "--allowPrivate"]
        self._process = self._run(["start"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        key = encode_base64(self.identity.public_key)
        self.address = f"net:127.0.0.1:{self.port}~shs:{key}"
        until(lambda: self._run(["whoami"]).wait() == 0)

    def _run(self, words: list[Any], **more: Any) -> "subprocess.Popen[bytes]":
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL} | more
        argv = [ssb_server_program.command(), *words, *self._options]
        return subprocess.Popen([str(word) for word in argv], **more)

    def do(self, *words: str) -> Any:
        """Give a command; return the JSON values that it prints."""
        out, _ = self._run([*words]).communicate()
        decoder, text, values = json.JSONDecoder(), out.decode().strip(), []
        while text:
            value, end = decoder.raw_decode(text)
            values.append(value)
            text = text[end:].strip()
        return values

    def ids(self, feed: str) -> list[str]:
        return [entry["key"] for entry in self.do("createUserStream", "--id", feed)]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SsbServer]:
    ssb_server_program.command()
    running = SsbServer(tmp_path / "stock")
    yield running
    running.close()


def test_messages_cross_both_ways(tmp_path: Path, server: SsbServer) -> None:
    with OurPeer(tmp_path / "ours") as ours:
        ours.follow(server.identity.ref)
        ours.publish(149)
        for number in range(3):
            server.do("publish", "--type", "post", "--text", f"{number} é")
        # It replicates whom it follows.
        server.do("publish", "--type", "contact", "--contact", ours.id, "--following")
        server.do("gossip.connect", ours.address)
        until(lambda: len(server.ids(ours.id)) == 150 and len(ours.ids(server.identity.ref)) == 4)
        assert server.ids(ours.id) == ours.ids(ours.id)
        assert server.ids(server.identity.ref) == ours.ids(server.identity.ref)


def test_ones_own_feed_comes_back_and_goes_on(tmp_path: Path, server: SsbServer) -> None:
    """Which it sends nobody by EBT."""
    here = tmp_path / "ours"
    with OurPeer(here) as ours:
        ours.publish(6)
    shutil.copytree(here, tmp_path / "copy")
    with OurPeer(here) as ours:
        ours.publish(10)
        server.do("publish", "--type", "contact", "--contact", ours.id, "--following")
        server.do("gossip.connect", ours.address)
        until(lambda: len(server.ids(ours.id)) == 16)
    shutil.rmtree(here)
    shutil.copytree(tmp_path / "copy", here)
    with OurPeer(here) as ours:
        ours.do("connect", arguments=[server.address])
        until(lambda: ours.do("status")["doubt"] == "")
        assert ours.ids(ours.id) == server.ids(ours.id)
        ours.publish(1)
        until(lambda: len(server.ids(ours.id)) == 17)
        assert ours.ids(ours.id) == server.ids(ours.id)


def test_its_directory_is_recognised_and_taken_in(tmp_path: Path, server: SsbServer) -> None:
    me = server.identity.ref
    for number in range(5):
        server.do("publish", "--type", "post", "--text", f"{number} é")
    server.do("publish", "--type", "post", "--text", "private", "--recps", me)
    ids = server.ids(me)
    lines = server.do("log")
    for words in (["status"], ["publish", "x"]):
        with pytest.raises(OSError, match="another program keeps messages of this identity here"):
            ssb(tmp_path / "stock", *words)
    with pytest.raises(UserError, match="a peer is running there; stop it first"):
        ssb(tmp_path / "ours", "import", str(tmp_path / "stock"))
    server.close()
    said = ssb(tmp_path / "ours", "import", str(tmp_path / "stock"))
    assert f"identity     {me}, 6 messages of its own\n" in said
    exported = [json.loads(line) for line in ssb(tmp_path / "ours", "export", me).splitlines()]
    assert [entry["key"] for entry in exported] == ids
    stick = tmp_path / "stick"
    stick.write_text("\n\n".join(json.dumps(entry, indent=2) for entry in lines))
    assert ssb(tmp_path / "other", "import", str(stick)).startswith("new          6 messages")


def accept(directory: Path, code: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "testbed.cli", "ssb", "--path", directory, "invite", "accept", code]
    return subprocess.run(
        command, env=nobody.environment(), capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def test_its_invite_lets_us_in(tmp_path: Path, server: SsbServer) -> None:
    (code,) = server.do("invite.create", "1")
    with OurPeer(tmp_path / "ours") as ours:
        ours.publish(3)
        said = accept(ours.directory, code)
        assert said.stdout == f"followed by {server.identity.ref}, and following it\n", said.stderr
        until(lambda: len(server.ids(ours.id)) == 5 and len(ours.ids(server.identity.ref)) == 1)
        assert server.ids(ours.id) == ours.ids(ours.id)
        again = accept(ours.directory, code)
        assert again.returncode == 1
        assert len(again.stderr.splitlines()) == 1


def test_its_invite_lets_us_in_again_while_it_has_uses(tmp_path: Path, server: SsbServer) -> None:
    """It says "already following", as to somebody whose first answer was lost."""
    (code,) = server.do("invite.create", "2")
    with OurPeer(tmp_path / "ours") as ours:
        for _ in range(2):
            said = accept(ours.directory, code)
            assert said.stdout == f"followed by {server.identity.ref}, and following it\n", said.stderr


def test_each_finds_a_message_of_the_other_by_its_id(tmp_path: Path, server: SsbServer) -> None:
    """Neither follows the other: what comes is that message alone."""
    (theirs,) = server.do("publish", "--type", "post", "--text", "theirs é")
    with OurPeer(tmp_path / "ours") as ours:
        ours.publish(3)
        wanted = ours.ids(ours.id)[1]
        ours.do("connect", arguments=[server.address])
        until(lambda: ours.do("get", arguments=[theirs["key"]]) is not None)
        assert ours.do("get", arguments=[theirs["key"]]) == theirs["value"]
        until(lambda: server.do("get", wanted) != [])
        assert server.do("get", wanted)[0]["content"]["text"] == "1 é"
        assert ours.ids(server.identity.ref) == server.ids(ours.id) == []


NOWHERE = message_ref(bytes(32))


def answers(address: str, directory: Path, questions: list[Any]) -> list[Any]:
    """Return the answers that npm's ssb-client gets at an address, by the identity in a directory."""
    modules = ssb_server_program.node_modules("ssb/ssb_server")
    ran = subprocess.run(
        ["node", Path(__file__).parent / "ssb_server" / "client.js", address, directory / "secret"],
        input=json.dumps(questions),
        env=os.environ | {"NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr
    found: list[Any] = json.loads(ran.stdout)
    return found


def test_a_stock_client_gets_the_same_links_from_both(tmp_path: Path, server: SsbServer) -> None:
    """Calls that choose links by their ends, of messages with links in all the places that it looks at."""
    me, blob = server.identity.ref, blob_ref(bytes(32))
    (root,) = server.do("publish", "--type", "post", "--text", "root")
    key = root["key"]
    for members in (
        ["--root", key, "--branch", key],
        ["--root", key, "--branch.link", key, "--text", key],
        ["--mentions.link", me, "--mentions.name", "me", "--channel", "x"],
        ["--vote.link", key, "--vote.value", "1", "--about", me, "--image", blob],
        ["--image.deeper.link", blob, "--image.link", blob],
    ):
        server.do("publish", "--type", "post", *members)
    with OurPeer(tmp_path / "ours") as ours:
        ours.follow(me)
        ours.do("connect", arguments=[server.address])
        until(lambda: len(ours.ids(me)) == 6)
        asked = [
            {"dest": key},
            {"dest": key, "rel": "root"},
            {"dest": key, "values": True, "reverse": True},
            {"dest": key, "keys": False},
            {"dest": key, "meta": False},
            {"dest": key, "meta": False, "keys": False, "values": True},
            {"dest": blob, "source": me},
            {"source": me},
            {"source": me, "dest": "%"},
            {"source": me, "dest": "blob", "meta": False, "values": True},
            {"source": "@", "dest": key},
        ]
        questions = [["links", options] for options in asked]
        questions += [["get", key], ["get", {"id": key}], ["get", {"id": NOWHERE, "ooo": False}]]
        theirs = answers(server.address, tmp_path / "stock", questions)
        assert answers(f"unix:{tmp_path / 'ours' / 'socket'}~noauth", tmp_path / "ours", questions) == theirs
        assert all(theirs)
