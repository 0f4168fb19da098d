"""A user's peer: what others do changes no decision of the user's, and no trouble stops it for good."""

import errno
import os
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fresh_seeds import first_fresh_seed
from local_peers import LocalPeers

from base.endpoint import Program, StreamPort
from ssb.daemon.commands import CommandError
from ssb.keys import Identity
from ssb.peer.options import PORT, PeerOptions
from ssb.peer.peer import Peer
from ssb.store.clocks import MemoryClocks
from ssb.store.database import Database
from ssb.store.feeds import StoreError
from ssb.store.memory import MemoryFeeds
from ssb.transport.address import parse_invite

MESSAGES = 60


class Disk:
    """Lets the disk be full: what would write to an account fails as it does then."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.failures = 0
        self._directory = str(directory)
        os_write, transaction = os.write, Database._transaction

        def failing(write: Callable[..., int]) -> Callable[..., int]:
            def to_file(path: Path, *rest: Any, **more: Any) -> int:
                self._check(str(path))
                return write(path, *rest, **more)

            return to_file

        def piece(file: int, data: bytes) -> int:
            self._check(os.readlink(f"/proc/self/fd/{file}"))
            return os_write(file, data)

        def begin(database: Database, **how: bool) -> Any:
            try:
                self._check(str(database.path))
            except OSError:
                raise StoreError(f"{database.path}: the disk is full; make space and try again") from None
            return transaction(database, **how)

        monkeypatch.setattr(Path, "write_bytes", failing(Path.write_bytes))
        monkeypatch.setattr(os, "write", piece)
        monkeypatch.setattr(Database, "_transaction", begin)

    def _check(self, path: str) -> None:
        if self.is_full and path.startswith(self._directory):
            self.failures += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def is_whole(world: LocalPeers, name: str) -> bool:
    """Tell whether all parts of a peer know the same connections."""
    peer = world.peers[name].peer
    open_ones = {number for number, each in peer.connections.items() if each.remote}
    known = peer.connections.scheduler._known.values()
    connected = {world.id(other) for other in world.peers} & {
        each.remote for each in peer.connections.values()
    }
    return (
        set(peer.replication.sessions) <= open_ones
        and set(world.peers[name].blobs._sessions) <= open_ones
        and sum(each.state == "connected" for each in known) <= len(connected)
    )


@pytest.mark.parametrize("full_for", [0.5, 70.0])
@pytest.mark.parametrize("caller", ["ann", "ben"])
def test_a_full_disk_stops_a_peer_for_no_longer_than_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller: str, full_for: float
) -> None:
    """While messages and blobs come, wishes change and connections end; of the one feed or of the other."""
    disk = Disk(tmp_path / "ben", monkeypatch)
    with LocalPeers(tmp_path, [("ann", "ben"), ("ben", "cyn")]) as world:
        for name in ("ann", "cyn"):
            world.follow("ben", name)
        for number in range(MESSAGES):
            world.say("ann", text=f"{number}".ljust(3_000))
            world.say("cyn", text=f"{number}")
        data = tmp_path / "data"
        data.write_bytes(bytes(1_000_000))
        blob = world.do("ann", "blobs", "add", arguments=[str(data)])
        world.do("ben", "blobs", "want", arguments=[blob])
        other = "ben" if caller == "ann" else "ann"
        world.connect(caller, other)
        world.connect("ben", "cyn")
        while not 0 < world.tip("ben", "ann") < MESSAGES:
            world.run(0.001)
        disk.is_full = True
        for _ in range(10):
            world.run(full_for / 10)
            assert is_whole(world, "ben")
        assert disk.failures
        status = world.do("ben", "status")
        assert any("the disk is full" in reason for reason in status["troubles"])
        assert not status["refused"]
        held = world.tip("ben", "ann")
        assert held < MESSAGES
        disk.is_full = False
        # Who calls a peer with a full disk waits longer each time, but not much longer than that lasted.
        world.run(20 if caller == "ben" else 20 + 2 * full_for)
        assert (world.tip("ben", "ann"), world.tip("ben", "cyn")) == (MESSAGES, MESSAGES)
        assert world.do("ben", "blobs", "size", arguments=[blob]) == 1_000_000
        assert is_whole(world, "ben")
        assert not world.do("ben", "status")["unreached"]


@pytest.mark.parametrize("seed", [*range(3), first_fresh_seed()])
def test_whatever_writes_fail_all_comes_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    disk = Disk(tmp_path / "ben", monkeypatch)
    with LocalPeers(tmp_path, [("ann", "ben"), ("ben", "cyn"), ("cyn", "ann")]) as world:
        for name, other in [("ben", "ann"), ("ben", "cyn"), ("cyn", "ann"), ("ann", "ben")]:
            world.follow(name, other)
            world.connect(name, other)
        for _ in range(40):
            disk.is_full = random.random() < 0.6
            writer = random.choice(["ann", "cyn"])
            for _ in range(random.randint(0, 5)):
                world.say(writer, text="x" * random.randint(0, 4_000))
            world.run(random.random() * random.choice([0.01, 3]))
            assert is_whole(world, "ben")
        disk.is_full = False
        world.run(120)
        for writer in ("ann", "cyn"):
            assert world.tip("ben", writer) == world.tip(writer, writer)
        assert world.tip("cyn", "ann") == world.tip("ann", "ann")


def test_a_user_connects_at_once_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path / "ben", monkeypatch)
    with LocalPeers(tmp_path, [("ann", "ben")]) as world:
        world.follow("ben", "ann")
        world.say("ann", text="one")
        world.connect("ben", "ann")
        disk.is_full = True
        world.run(3)
        assert world.tip("ben", "ann") == 0
        disk.is_full = False
        world.connect("ben", "ann")
        world.run(0.5)
        assert world.tip("ben", "ann") == 1


def test_any_mistake_of_the_program_closes_one_connection_and_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails in whatever is done for a connection: here, each part of it in turn."""
    with LocalPeers(tmp_path, [("ann", "ben"), ("ben", "cyn")]) as world:
        for name in ("ann", "cyn"):
            world.follow("ben", name)
            world.connect("ben", name)
        world.run(1)
        peer = world.peers["ben"].peer
        [number] = [n for n, each in peer.connections.items() if each.remote == world.id("ann")]
        for part in ("handle", "send_output"):
            done = getattr(peer.services, part)

            def fails(connection: Any, *rest: Any, done: Callable[..., None] = done) -> None:
                if connection.remote == world.id("ann"):
                    raise ZeroDivisionError
                done(connection, *rest)

            monkeypatch.setattr(peer.services, part, fails)
            world.say("cyn", text=part)
            with pytest.raises(ZeroDivisionError):
                speak(world, part)
            monkeypatch.setattr(peer.services, part, done)
            assert number not in peer.connections
            assert is_whole(world, "ben")
            world.run(30)
            assert world.tip("ben", "ann") == world.tip("ben", "cyn")
            [number] = [n for n, each in peer.connections.items() if each.remote == world.id("ann")]
        assert world.tip("ben", "ann") == 2


def speak(world: LocalPeers, text: str) -> None:
    world.say("ann", text=text)
    world.run(60)


def test_an_invite_does_not_undo_a_block(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, [("ann", "ben")]) as world:
        invite = parse_invite(world.do("ann", "invite", "create", arguments=[1]))
        world.follow("ann", "ben", following=False, blocking=True)
        door, written = world.peers["ann"]._access, world.tip("ann", "ann")
        [guest] = world.accounts["ann"].invites()
        with pytest.raises(ValueError, match="blocks the feed"):
            door.use_invite(guest, [{"feed": world.id("ben")}])
        assert world.tip("ann", "ann") == written
        assert world.accounts["ann"].graph.is_blocked(world.id("ben"))
        assert world.accounts["ann"].invites() == {guest: 1}, "somebody else may use it"
        assert parse_invite(str(invite)) == invite


def test_an_invite_is_not_used_up_if_nobody_could_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path / "ann", monkeypatch)
    with LocalPeers(tmp_path, [("ann", "ben")]) as world:
        world.do("ann", "invite", "create", arguments=[1])
        [guest] = world.accounts["ann"].invites()
        door = world.peers["ann"]._access
        disk.is_full = True
        with pytest.raises(StoreError):
            door.use_invite(guest, [{"feed": world.id("ben")}])
        disk.is_full = False
        door.use_invite(guest, [{"feed": world.id("ben")}])
        assert world.accounts["ann"].invites() == {guest: 0}


def test_a_blocked_peer_is_not_called(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, [("ann", "ben")]) as world:
        world.connect("ann", "ben")
        world.run(1)
        world.follow("ann", "ben", following=False, blocking=True)
        with pytest.raises(CommandError, match="you block"):
            world.connect("ann", "ben")
        world.run(60)
        assert not world.peers["ann"].peer.connections
    with LocalPeers(tmp_path, [("ann", "ben")]) as world:  # its address is remembered
        world.run(60)
        assert not world.peers["ann"].peer.connections


def test_why_a_peer_is_not_reached_is_told(tmp_path: Path) -> None:
    """An address with another peer's key, nobody there, and a peer that does not let this one in."""
    with LocalPeers(tmp_path, [("ann", "ben"), ("ben", "cyn"), ("ben", "dan")]) as world:
        world.follow("dan", "ann", following=False, blocking=True)
        stranger = str(world.address("ben", of="cyn"))
        nobody = str(world.address("cyn")._replace(port=9))
        world.do("ann", "connect", arguments=[stranger])
        world.connect("ann", "dan")
        world.do("ben", "connect", arguments=[nobody])
        world.run(1)
        reasons = {each["peer"]: each["reason"] for each in world.do("ann", "status")["unreached"]}
        assert reasons.keys() == {world.id("cyn"), world.id("dan")}
        assert all("another key than the address says" in reason for reason in reasons.values())
        [one] = world.do("ben", "status")["unreached"]
        assert (one["peer"], one["times"]) == (world.id("cyn"), 1)
        assert one["reason"]
        told = [event for event in world.peers["ann"].take_events() if event.event == "not reached"]
        assert {event.remote for event in told} == reasons.keys()
        world.do("ann", "connect", arguments=[str(world.address("cyn"))])  # the right one, at once
        world.run(1)
        assert [each["peer"] for each in world.do("ann", "status")["unreached"]] == [world.id("dan")]


def test_a_peer_of_another_network_is_told_as_such(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, [("ann", "ben")]) as world:
        other = Peer(
            world.accounts["ben"].identity,
            MemoryFeeds(),
            MemoryClocks(),
            [],
            PeerOptions(network=bytes(32)),
            Random(1),
        )
        world.network.replace("ben", [Program(other, {1: StreamPort(PORT)})])
        world.connect("ann", "ben")
        world.run(1)
        [one] = world.do("ann", "status")["unreached"]
        assert "no peer of this network" in one["reason"]


@pytest.mark.parametrize("mask", [0o022, 0o000])
def test_nobody_else_can_read_what_is_in_an_account(tmp_path: Path, mask: int) -> None:
    """Though its directory was there before and is open to all, and so were files of an older version."""
    before = os.umask(mask)
    try:
        with LocalPeers(tmp_path, [("ann", "ben")]) as world:
            world.follow("ann", "ben")
            world.do("ann", "invite", "create", arguments=[1])
            (tmp_path / "data").write_bytes(b"data")
            world.do("ann", "blobs", "add", arguments=[str(tmp_path / "data")])
            world.connect("ann", "ben")
            world.run(1)
            world.accounts["ann"].views.save()
            assert readable(tmp_path / "ann") == []
            for path in (tmp_path / "ann").iterdir():
                path.chmod(0o755 if path.is_dir() else 0o644)
        with LocalPeers(tmp_path, [("ann", "ben")]):
            assert readable(tmp_path / "ann") == []
    finally:
        os.umask(before)


def readable(directory: Path) -> list[Path]:
    """Return the files with content that others than their owner can get at."""
    found = []
    for path in directory.iterdir():
        if path.stat().st_mode & 0o077:
            found += readable(path) if path.is_dir() else [path] * bool(path.stat().st_size)
    return found


def test_a_group_brings_no_feeds_of_strangers_by_the_hundred(tmp_path: Path) -> None:
    """Ann follows Mal, who names feeds beyond the slots. Bob does not, and wrote nothing there."""
    with LocalPeers(tmp_path, [("ann", "mal"), ("ann", "bob")]) as world:
        world.follow("ann", "mal")
        world.follow("bob", "ann")
        for one, other in (("ann", "mal"), ("bob", "ann")):
            world.connect(one, other)
        group = world.do("mal", "groups", "create")
        [epoch] = world.accounts["mal"].groups.get(group).epochs
        world.do("mal", "groups", "add", arguments=[group, [world.id("ann"), world.id("bob")], ""])
        for first in range(3):
            named = [Identity.from_seed(bytes([first, each]) * 16).ref for each in range(90)]
            content = {
                "type": "group/add-member",
                "root": epoch.root,
                "groupKey": b64encode(epoch.key.secret).decode(),
                "recps": [epoch.id, *named],
            }
            mal, now = world.peers["mal"], world.network.now
            sealed = world.accounts["mal"].sealed(content, mal.epoch_ms, [epoch.key])
            mal.publish(sealed, now)
            world.network.settle("mal")
        world.run(20)
        assert len(world.accounts["ann"].groups.get(group).members) == 3 + 3 * 15
        assert world.do("ann", "status")["replicated"] == 3 + 3 * 15
        assert len(world.accounts["bob"].groups.get(group).members) == 3 + 3 * 15
        assert world.do("bob", "status")["replicated"] == 3
        replicates = world.peers["ann"].visits._replicates
        assert replicates(named[0])
        assert not replicates(named[20])


def test_members_of_a_group_replicate_each_other_as_long_as_they_are_members(tmp_path: Path) -> None:
    """Ben follows nobody, and has the feeds of Ann and Cyn for their group; unless he blocks one."""
    with LocalPeers(tmp_path, [("ann", "ben"), ("ben", "cyn"), ("ben", "dan")]) as world:
        for name in ("ann", "cyn", "dan"):
            world.follow(name, "ben")
            world.connect(name, "ben")
        group = world.do("ben", "groups", "create")
        world.say("dan", text="no member")
        feeds = [world.id(name) for name in ("ann", "cyn")]
        world.do("ben", "groups", "add", arguments=[group, feeds, ""])
        world.run(20)
        for name in ("ann", "cyn"):
            world.do(name, "groups", "post", arguments=[group, {"type": "post", "text": f"from {name}"}])
        world.run(20)
        logs = {
            name: {str(each.content.get("text")) for each in groups.messages(groups.get(group))}
            for name, account in world.accounts.items()
            if (groups := account.groups).every()
        }
        assert logs == {name: {"None", "from ann", "from cyn"} for name in ("ann", "ben", "cyn")}
        assert world.tip("ben", "dan") == 0
        world.do("ben", "groups", "remove", arguments=[group, [world.id("cyn")]])
        assert world.do("ben", "status")["replicated"] == 2
        known = world.tip("ben", "cyn")
        world.say("cyn", text="no member any more")
        world.run(20)
        assert world.tip("ben", "cyn") == known
        assert world.tip("ben", "ann") == world.tip("ann", "ann")
        world.do("ben", "groups", "add", arguments=[group, [world.id("cyn")], "welcome back"])
        world.run(20)
        assert world.tip("ben", "cyn") == known + 1
        world.follow("ben", "cyn", blocking=True, following=False)
        world.say("cyn", text="blocked")
        world.run(20)
        assert world.tip("ben", "cyn") == known + 1
