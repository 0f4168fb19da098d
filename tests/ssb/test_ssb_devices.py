"""Several devices of one person at running peers: joining, following, names, blocks, and removal."""

import json
from pathlib import Path
from typing import Any

import pytest
from local_peers import LocalPeers

from ssb.applications.fusion import (
    ENTRUST,
    FUSION,
    MOST_DEVICES,
    Consent,
    Fusion,
    begin_content,
    consent_content,
    invite_content,
    proof_content,
)
from ssb.daemon import device_calls
from ssb.daemon.account import Account
from ssb.daemon.commands import CommandError
from ssb.keys import Identity
from ssb.message import InvalidMessage, Message

LINKS = [
    ("far", "friend"),
    ("laptop", "phone"),
    ("laptop", "tablet"),
    ("phone", "tablet"),
    ("friend", "laptop"),
    ("friend", "phone"),
]


def devices(world: LocalPeers, at: str, of: str) -> set[str]:
    return set(world.do(at, "devices", "list", arguments=[world.id(of)])["devices"])


def ids(world: LocalPeers, *names: str) -> set[str]:
    return {world.id(name) for name in names}


def join(world: LocalPeers, device: str, by: str = "laptop") -> None:
    world.do(by, "devices", "invite", arguments=[world.id(device)])
    assert world.do(device, "devices", "join", arguments=[world.id(by), False]) == "waiting"
    world.connect(device, by)
    world.run(3)
    assert world.do(device, "devices", "join", arguments=[world.id(by), False]) == "consented"
    world.run(3)


@pytest.fixture
def world(tmp_path: Path) -> Any:
    with LocalPeers(tmp_path, LINKS) as made:
        yield made


def test_a_follow_of_one_device_replicates_all(world: LocalPeers) -> None:
    """At the far peer the laptop has the greatest hops, so its follow of the phone does not count there."""
    world.follow("friend", "laptop")
    world.connect("friend", "laptop")
    world.follow("far", "friend")
    world.connect("far", "friend")
    world.say("phone", text="from the phone")
    world.run(2)
    assert world.accounts["far"].graph.hops()[world.id("laptop")] == 2
    assert world.tip("far", "phone") == 0
    before = world.tip("laptop", "laptop"), world.tip("phone", "phone")
    join(world, "phone")
    after = world.tip("laptop", "laptop"), world.tip("phone", "phone")
    assert (after[0] - before[0], after[1] - before[1]) == (5, 3), "as docs/ssb.md says"
    assert world.accounts["far"].graph.hops()[world.id("phone")] == 2
    assert world.tip("far", "phone") == world.tip("phone", "phone") > 0
    for at in ("laptop", "phone", "friend", "far"):
        for of in ("laptop", "phone"):
            assert devices(world, at, of) == ids(world, "laptop", "phone")
    # What one device follows, the other replicates.
    world.follow("phone", "tablet")
    world.run(2)
    assert world.id("tablet") in world.accounts["laptop"].graph.hops(max_hops=1)


def test_devices_have_one_name_and_a_log(world: LocalPeers) -> None:
    world.follow("friend", "laptop")
    world.connect("friend", "laptop")
    about = {"type": "about", "about": world.id("laptop"), "name": "Ann"}
    world.do("laptop", "publish", arguments=[about])
    join(world, "phone")
    about = {"type": "about", "about": world.id("phone"), "name": "Ann's phone"}
    world.do("phone", "publish", arguments=[about])
    world.say("phone", text="one")
    world.say("laptop", text="two")
    world.run(3)
    namer = world.accounts["friend"].views.namer()
    assert {namer(feed) for feed in ids(world, "laptop", "phone")} == {"Ann"}
    account = world.accounts["friend"]
    devices_ = account.views.fusions.devices(world.id("phone"))
    for limit in (None, 100):
        posts = [stored.message.content for stored in account.log.messages(devices_, limit, "post")]
        assert sorted(str(post["text"]) for post in posts) == ["one", "two"]
    assert len(list(account.log.messages(devices_, 1, "post"))) == 1


def test_a_block_of_one_device_is_a_block_of_all(world: LocalPeers) -> None:
    """A block that comes before or after the devices are one: the friend's log is not for either."""
    world.do(
        "friend", "publish", arguments=[{"type": "contact", "contact": world.id("laptop"), "blocking": True}]
    )
    for device in ("laptop", "phone"):
        world.follow(device, "friend")
    world.connect("phone", "friend")
    world.run(2)
    assert world.tip("phone", "friend") == world.tip("friend", "friend")
    join(world, "phone")
    peer = world.peers["phone"].peer
    assert world.accounts["phone"].graph.is_blocked(world.id("phone"), by=world.id("friend"))
    assert peer.replication.hides(world.id("friend"), world.id("laptop"))
    assert peer.replication.hides(world.id("friend"), world.id("phone"))
    world.do("laptop", "devices", "end", arguments=["over"])
    world.run(2)
    assert peer.replication.hides(world.id("friend"), world.id("laptop"))
    assert not peer.replication.hides(world.id("friend"), world.id("phone"))


def test_a_removed_device_is_on_its_own_and_the_others_go_on(world: LocalPeers) -> None:
    world.follow("friend", "laptop")
    world.connect("friend", "laptop")
    join(world, "phone")
    join(world, "tablet")
    world.connect("phone", "tablet")
    world.run(3)
    assert devices(world, "phone", "tablet") == ids(world, "laptop", "phone", "tablet")
    world.do("laptop", "devices", "remove", arguments=[world.id("phone"), "lost"])
    world.run(3)
    for at in ("laptop", "phone", "tablet", "friend"):
        assert devices(world, at, "phone") == ids(world, "phone")
    assert world.do("tablet", "devices", "join", arguments=[world.id("laptop"), False]) == "consented"
    world.run(3)
    for at in ("laptop", "tablet", "friend"):
        assert devices(world, at, "tablet") == ids(world, "laptop", "tablet")
    with pytest.raises(CommandError, match="is no device of yours"):
        world.do("phone", "devices", "remove", arguments=[world.id("tablet"), ""])


def test_a_decline_a_second_identity_and_a_device_that_is_one_already(world: LocalPeers) -> None:
    join(world, "phone")
    with pytest.raises(CommandError, match="a device of yours already"):
        world.do("laptop", "devices", "invite", arguments=[world.id("phone")])
    with pytest.raises(CommandError, match="is this device already"):
        world.do("laptop", "devices", "invite", arguments=[world.id("laptop")])
    world.do("friend", "devices", "invite", arguments=[world.id("phone")])
    with pytest.raises(CommandError, match="belongs to an identity already"):
        world.do("phone", "devices", "join", arguments=[world.id("friend"), False])
    assert world.do("phone", "devices", "join", arguments=[world.id("laptop"), False]) == "member"
    world.do("laptop", "devices", "invite", arguments=[world.id("tablet")])
    world.connect("tablet", "laptop")
    world.follow("tablet", "laptop")
    world.run(3)
    assert world.do("tablet", "devices", "join", arguments=[world.id("laptop"), True]) == "declined"
    world.run(3)
    assert devices(world, "laptop", "tablet") == ids(world, "tablet")
    tip = world.tip("laptop", "laptop")
    world.do("laptop", "devices", "list", arguments=[""])
    assert world.tip("laptop", "laptop") == tip
    assert world.do("tablet", "devices", "join", arguments=[world.id("laptop"), False]) == "consented"
    world.run(3)
    assert devices(world, "phone", "tablet") == ids(world, "laptop", "phone", "tablet")


def test_a_block_and_a_full_identity_are_refused_and_write_nothing(tmp_path: Path) -> None:
    with LocalPeers(tmp_path, LINKS) as world:
        others = [Identity.from_seed(bytes([9, number]) * 16).ref for number in range(MOST_DEVICES)]
        for other in others[:-1]:
            world.do("laptop", "devices", "invite", arguments=[other])
        tip = world.tip("laptop", "laptop")
        with pytest.raises(CommandError, match="at most 16 devices"):
            world.do("laptop", "devices", "invite", arguments=[others[-1]])
        world.do("phone", "publish", arguments=[{"type": "contact", "contact": others[0], "blocking": True}])
        with pytest.raises(CommandError, match="you block"):
            world.do("phone", "devices", "invite", arguments=[others[0]])
        assert world.tip("laptop", "laptop") == tip
        assert world.tip("phone", "phone") == 1
        for call in (["devices", "invite"], ["devices", "sing"], ["devices", "join"]):
            with pytest.raises(CommandError):
                world.do("laptop", *call, arguments=["@x"])


def test_the_key_is_handed_to_the_invited_device_alone(world: LocalPeers) -> None:
    """Each entrusting message is opened by one device; and views read again give the same devices."""
    join(world, "phone")
    world.connect("friend", "laptop")
    world.follow("friend", "laptop")
    world.run(3)
    assert len(world.accounts["phone"].groups.direct(ENTRUST)) == 1
    assert len(world.accounts["laptop"].groups.direct(ENTRUST)) == 2
    assert world.accounts["friend"].groups.direct(ENTRUST) == []
    account = world.accounts["friend"]
    before = account.views.fusions.identities()
    account.views.save()
    hops = account.graph.hops()
    content = json.loads((account.path / "views").read_bytes()[32:])
    assert content["cursor"][0] > 0
    account.close()
    with_file = Account(account.path)
    assert with_file.views.fusions.identities() == before
    assert with_file.graph.hops() == hops
    with_file.close()
    (account.path / "views").unlink()
    without = Account(account.path)
    assert without.views.fusions.identities() == before
    assert without.graph.hops() == hops
    without.close()


HOSTILE = 160  # more than the 100 messages that a reader lets a message name, and than 8 KiB hold


def hostile(root: str, previous: str, kind: str, **said: Any) -> dict[str, Any]:
    """A content that names one message alone, and so is a head beside all others."""
    return {
        "type": FUSION,
        "subtype": f"fusion/{kind}",
        "tangles": {FUSION: {"root": root, "previous": [previous]}},
        **said,
    }


def consented(world: LocalPeers) -> str:
    """Let the phone consent, and the laptop not know that yet; return the fusion's root."""
    root = str(world.do("laptop", "devices", "invite", arguments=[world.id("phone")]))
    world.follow("phone", "laptop")
    world.connect("phone", "laptop")
    world.run(3)
    assert world.do("phone", "devices", "join", arguments=[world.id("laptop"), False]) == "consented"
    return root


def test_a_device_joins_beside_any_number_of_hostile_invitations(world: LocalPeers) -> None:
    root = consented(world)
    for number in range(HOSTILE):
        feed = Identity.from_seed(number.to_bytes(2) * 16).ref
        world.do("laptop", "publish", arguments=[hostile(root, root, "invite", invited={feed: 1})])
    world.run(5)
    for at in ("laptop", "phone"):
        assert devices(world, at, "phone") == ids(world, "laptop", "phone")
    assert world.tip("phone", "phone") == 3  # a follow, the consent, and the proof


def test_a_device_ends_its_identity_beside_any_number_of_hostile_answers(world: LocalPeers) -> None:
    join(world, "phone")
    world.do("laptop", "devices", "invite", arguments=[world.id("tablet")])
    world.follow("tablet", "laptop")
    world.connect("tablet", "laptop")
    world.run(3)
    (fusion,) = world.accounts["tablet"].views.fusions.concerning(world.id("tablet"))
    (invite,) = fusion.previous(world.id("tablet"))
    no = {world.id("tablet"): 0}
    for _ in range(HOSTILE):
        world.do("tablet", "publish", arguments=[hostile(fusion.root, invite, "consent", consented=no)])
    world.run(5)
    assert world.tip("laptop", "tablet") > HOSTILE
    world.do("laptop", "devices", "end", arguments=["over"])
    world.run(3)
    for at in ("laptop", "phone"):
        assert devices(world, at, "phone") == ids(world, "phone")


def test_a_step_without_effect_is_taken_once_and_a_command_says_so(
    world: LocalPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages of these devices name the first message alone, which gives them no right."""
    consented(world)
    monkeypatch.setattr(Fusion, "previous", lambda self, *_, **__: [self.root])
    world.run(5)
    tip = world.tip("phone", "phone")
    assert tip == 3  # a follow, the consent, and a proof
    world.say("laptop", text="more news")
    world.do("laptop", "devices", "invite", arguments=[world.id("tablet")])
    world.run(5)
    assert world.tip("phone", "phone") == tip
    world.follow("tablet", "laptop")
    world.connect("tablet", "laptop")
    world.run(3)
    with pytest.raises(CommandError, match="has no effect"):
        world.do("tablet", "devices", "join", arguments=[world.id("laptop"), False])


def test_a_step_that_fails_is_reported_once_and_stops_nothing(
    world: LocalPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise InvalidMessage("the content is too long")

    consented(world)
    monkeypatch.setattr(device_calls, "proof_content", refuse)
    world.run(5)
    world.say("laptop", text="after the failure")
    world.run(3)
    assert world.tip("phone", "laptop") == world.tip("laptop", "laptop")
    failed = [event.detail for event in world.peers["phone"].take_events() if event.event == "failed"]
    assert failed == ["a step to become one identity failed: the content is too long"]


def test_a_thief_with_many_feeds_leaves_the_devices_that_this_one_has_invited(world: LocalPeers) -> None:
    """The thief begins an identity of the lost phone and 15 feeds, so that all are too many for one."""
    join(world, "phone")
    join(world, "tablet")
    world.connect("phone", "tablet")
    world.run(3)
    account, key, phone = world.accounts["laptop"], Identity.from_seed(b"t" * 32), world.id("phone")
    thieves = [Identity.from_seed(bytes([number, 3]) * 16) for number in range(MOST_DEVICES - 1)]
    root = world.do("phone", "publish", arguments=[begin_content(phone, key)])["key"]
    world.run(2)
    fusion = account.views.fusions.get(root)
    assert fusion is not None
    world.do("phone", "publish", arguments=[invite_content(fusion, phone, [each.ref for each in thieves])])
    world.run(2)
    for thief in thieves:
        said: Message | None = None
        for _ in range(2):
            content = (
                consent_content(fusion, thief.ref)
                if said is None
                else proof_content(fusion, key, Consent(thief.ref, said.id))
            )
            said = Message.create(thief, said, content, 1)
            account.feeds.append([said], 1.0)
            account.update_views(said)
    assert len(fusion.members) == MOST_DEVICES
    assert devices(world, "laptop", "laptop") == ids(world, "laptop")
    answer = world.do("laptop", "devices", "remove", arguments=[phone, "lost"])
    assert answer["invited"] == [world.id("tablet")]
    assert answer["left_out"] == []
    world.run(3)
    assert world.do("tablet", "devices", "join", arguments=[world.id("laptop"), False]) == "consented"
    world.run(3)
    assert devices(world, "laptop", "laptop") == ids(world, "laptop", "tablet")
