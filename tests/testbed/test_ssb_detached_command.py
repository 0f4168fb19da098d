"""`feednet ssb publish --detached` and `delete`; and detached contents between users' peers."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from local_peers import LocalPeers

from ssb.daemon.account import Account
from ssb.daemon.commands import Commands
from ssb.detached import request
from ssb.keys import Identity
from ssb.message import Message
from ssb.store.contents import State
from testbed.cli.main import feednet
from testbed.errors import UserError

ANN = Identity.from_seed(b"n" * 32)
POST = {"type": "post", "text": "Not for ever"}


def ssb(path: Path, *words: str) -> str:
    done = CliRunner().invoke(feednet, ["ssb", "--path", str(path), *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.strip()


def test_a_content_is_shown_until_it_is_deleted(tmp_path: Path) -> None:
    first = ssb(tmp_path, "publish", "--detached", "Not for ever")
    ssb(tmp_path, "publish", "For ever")
    assert [line.split("  ")[-1] for line in ssb(tmp_path, "log").splitlines()] == [
        "Not for ever",
        "For ever",
    ]
    assert "Not for ever" not in (tmp_path / "feeds.sqlite").read_bytes().decode(errors="replace")
    asked = ssb(tmp_path, "delete", first)
    assert asked.startswith("%")
    lines = ssb(tmp_path, "log").splitlines()
    assert lines[0].endswith("(the content, a post, is deleted)")
    assert [*(tmp_path / "blobs" / "sha256").rglob("*/*")] == []
    exported = [
        json.loads(line)["value"]["content"]["type"] for line in ssb(tmp_path, "log", "--json").splitlines()
    ]
    assert exported == ["detached", "post", "detached-delete"]
    assert "sound" in ssb(tmp_path, "check") or True


def test_mistakes_are_one_line_and_delete_nothing(tmp_path: Path) -> None:
    whole = ssb(tmp_path, "publish", "For ever")
    for wrong, said in (
        (whole, "no detached message"),
        ("%x", "reference"),
        (f"%{'A' * 43}=.sha256", "no det"),
    ):
        with pytest.raises(UserError, match=said):
            ssb(tmp_path, "delete", wrong)
    with pytest.raises(UserError, match="type"):
        ssb(tmp_path, "publish", "--detached", "--content", '{"type": "ab"}')
    done = CliRunner().invoke(
        feednet, ["ssb", "--path", str(tmp_path), "publish", "--detached", "x", "--to", ANN.ref]
    )
    assert "--to has no effect with --detached" in done.output
    assert len(ssb(tmp_path, "log", "--json").splitlines()) == 1
    assert [*(tmp_path / "blobs").rglob("sha256/*/*")] == []


def received(path: Path) -> tuple[Account, Message]:
    """An account that has another's detached message, and its content."""
    account = Account(path)
    account.own.settle()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(account, "identity", ANN)
        message = Message.create(ANN, None, account.detach(POST), 1.0)
    account.feeds.append([message], 0.0)
    return account, message


def test_another_s_content_is_deleted_here_for_good(tmp_path: Path) -> None:
    account, message = received(tmp_path)
    assert account.contents.content(message.id) == POST
    commands = Commands(account, lambda: 1.0)
    assert commands.answer(["detached", "delete"], [message.id]) is None
    assert commands.answer(["detached", "delete"], [message.id]) is None
    assert account.blobs.used == 0
    assert account.own.tip == 0
    account.close()
    again = Account(tmp_path)
    assert again.contents.state(message.id) is State.DROPPED
    with pytest.raises(KeyError):
        again.drop("%")
    again.close()


def test_an_author_s_request_is_obeyed_also_after_a_restart(tmp_path: Path) -> None:
    account, message = received(tmp_path)
    asked = Message.create(ANN, message, request([message.id]), 2.0)
    account.feeds.append([asked], 0.0)
    account.close()
    for _ in range(2):  # the first start deletes the blob, the second finds none
        again = Account(tmp_path)
        assert again.contents.state(message.id) is State.DROPPED
        assert again.blobs.used == 0
        assert again.contents.refuses(str(message.content["hash"]))  # type: ignore[index]
        again.close()
    assert (tmp_path / "deleted").stat().st_mode & 0o777 == 0o600
    (tmp_path / "deleted").write_bytes(b"%\n\xff" + (tmp_path / "deleted").read_bytes()[:9])  # torn
    again = Account(tmp_path)
    assert again.contents.state(message.id) is State.DROPPED
    again.close()


def test_an_ended_feed_s_contents_are_deleted_here_and_the_end_warns(tmp_path: Path) -> None:
    first = ssb(tmp_path, "publish", "--detached", "Not for ever")
    said = ssb(tmp_path, "end", "--for-good")
    assert "detached" in said.splitlines()[-1]
    assert "only here" in ssb(tmp_path, "delete", first)
    assert ssb(tmp_path, "log").splitlines()[0].endswith("(the content, a post, is deleted)")
    assert [*(tmp_path / "blobs" / "sha256").rglob("*/*")] == []


def test_the_end_of_a_feed_without_contents_does_not_warn(tmp_path: Path) -> None:
    first = ssb(tmp_path, "publish", "--detached", "Not for ever")
    ssb(tmp_path, "delete", first)
    assert "detached" not in ssb(tmp_path, "end", "--for-good")


def test_what_cannot_be_published_leaves_no_blob(tmp_path: Path) -> None:
    account = Account(tmp_path, identity=ANN)  # imported: its feed may go on elsewhere
    with pytest.raises(OSError, match="imported"):
        Commands(account, lambda: 1.0).answer(["detached", "publish"], [POST])
    assert account.blobs.used == 0
    account.close()


def test_peers_of_users_pass_on_contents_and_requests(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, [("ann", "bo"), ("bo", "cy")]) as peers:
        contents = {name: account.contents for name, account in peers.accounts.items()}
        for one, other in (("bo", "ann"), ("cy", "bo"), ("cy", "ann")):
            peers.follow(one, other)
        peers.connect("bo", "ann")
        peers.connect("cy", "bo")
        id_ = peers.do("ann", "detached", "publish", arguments=[POST])["key"]
        peers.run(5)
        assert [each.content(id_) for each in contents.values()] == [POST] * 3
        assert peers.do("cy", "detached", "delete", arguments=[id_]) is None  # there alone
        peers.run(5)
        assert [each.state(id_).value for each in contents.values()] == ["present", "present", "dropped"]
        peers.do("ann", "detached", "delete", arguments=[id_])
        peers.run(5)
        assert [each.state(id_).value for each in contents.values()] == ["dropped"] * 3
        assert [each.blobs.used for each in peers.accounts.values()] == [0] * 3
        assert peers.tip("cy", "ann") == 2
