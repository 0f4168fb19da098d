"""Merged forks in users' peers: real peers over TCP on loopback, and their accounts on disk."""

import shutil
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from stock_peer import OurPeer, until
from test_ssb_import import ssb

from ssb.branches.tree import MOST_BRANCHES, TANGLE
from ssb.daemon.account import Account
from ssb.daemon.commands import Commands
from ssb.keys import Identity
from ssb.message import Message

AUTHOR = Identity.from_seed(b"a" * 32)
NAMES = ("laptop", "restored", "friend")


def call(path: Path, *name: str, arguments: list[Any] | None = None) -> Any:
    """Make a call at an account whose peer is not running."""
    with closing(Account(path)) as account:
        return Commands(account, lambda: 2e12).answer(name, arguments or [])


def say(path: Path, text: str) -> str:
    return str(call(path, "publish", arguments=[{"type": "post", "text": text}])["key"])


def shown(path: Path, feed: str) -> list[str]:
    """The texts of a feed, in causal order."""
    lines = ssb(path, "log", feed, "--causal", "--type", "post").splitlines()
    return [line.split("  ")[-1] for line in lines]


@pytest.fixture
def forked(tmp_path: Path) -> str:
    """A laptop, the same restored from a backup, and a friend; both have written message 3. The feed."""
    for text in ("one", "two"):
        say(tmp_path / "laptop", text)
    shutil.copytree(tmp_path / "laptop", tmp_path / "restored")
    say(tmp_path / "laptop", "three on the laptop")
    call(tmp_path / "restored", "settle")
    say(tmp_path / "restored", "three on the restored one")
    feed = str(call(tmp_path / "laptop", "whoami")["id"])
    contact = {"type": "contact", "contact": feed, "following": True}
    call(tmp_path / "friend", "publish", arguments=[contact])
    return feed


def running(stack: ExitStack, path: Path, *names: str) -> list[OurPeer]:
    """Run peers, of which all call the last one."""
    peers = [stack.enter_context(OurPeer(path / name)) for name in names]
    for peer in peers[:-1]:
        peer.do("connect", arguments=[peers[-1].address])
    return peers


def branches(peer: OurPeer, feed: str) -> int:
    return int(peer.do("branches", "list")[feed]["branches"])


def test_both_branches_of_a_restored_laptop_reach_a_friend(tmp_path: Path, forked: str) -> None:
    """They reach the two laptops, too, which both write on; and all is there after a restart."""
    for name in NAMES:
        ssb(tmp_path / name, "merge", forked)
    with ExitStack() as stack:
        peers = running(stack, tmp_path, *NAMES)
        until(lambda: all(branches(peer, forked) == 2 for peer in peers))
        joined = [
            peer.do("publish", arguments=[{"type": "post", "text": f"four by {number}"}])
            for number, peer in enumerate(peers[:2])
        ]
        until(lambda: all(len(peer.ids(forked)) == 6 for peer in peers))
        assert [branches(peer, forked) for peer in peers] == [2, 2, 2]
        for each in joined:
            assert len(each["value"]["content"]["tangles"][TANGLE]["previous"]) == 2
        views = [shown(tmp_path / name, forked) for name in NAMES]
    assert views[0] == views[1] == views[2]
    assert views[0][:2] == ["one", "two"]
    assert {*views[0][2:]} == {"three on the laptop", "three on the restored one", "four by 0", "four by 1"}
    assert [shown(tmp_path / name, forked) for name in NAMES] == views
    assert "2 branches from message 3 on, 6 messages" in ssb(tmp_path / "friend", "status")
    with ExitStack() as stack:
        peers = running(stack, tmp_path, *NAMES)
        last = peers[1].do("publish", arguments=[{"type": "post", "text": "after the restart"}])["key"]
        until(lambda: all(last in peer.ids(forked) for peer in peers))
