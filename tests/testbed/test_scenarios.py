"""The scenarios that come with feednet, emulated: what each is there to show does happen."""

from collections import Counter
from functools import cache
from pathlib import Path

import pcapng_oracle
import pytest
from simulation import Result, item_in, simulate

from base.units import MS, SECOND
from captures.formats.pcapng import Direction
from testbed.layerings.kinds.ndn import NDN_LAYERINGS as LAYERINGS
from testbed.library import scenarios
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load
from testbed.scenario.sections import Change
from testbed.scenario.timeline import Timeline, expected

pytestmark = [pytest.mark.long, pytest.mark.compiled]

PUSH = ("lli", "lli-go-back-n", "lli-selective")
RUNGS = ("scan", "append-poll", "gossip", "gossip-skip", "flood", "ebt", "hub")
WITH_SYNC_LOG = ("fanout-all", "many-feeds")
"""Scenarios that compare sync-log, too; elsewhere it does as sync does, but for what sync-log is about."""
FEW = {
    "bulk": ("ndn", "lli", "ndn-over-ssb"),
    "chat": ("ssb", "ebt", "poll", "sync", "lli"),
    "churn": ("poll", "persistent", "sync", "sync-log", "lli", "ssb"),
    "commuter": ("pull", "poll", "long-lived", "sync", "lli", "ssb"),
    "crowd": ("lli", "persistent", "poll", "pull", "sync-log", "ssb", "ebt", "hub"),
    "deletion": ("holes",),
    "devices": ("poll", "lli", "ssb"),
    "cut-tree": RUNGS,
    "deployment": ("poll", "lli"),
    "ending": ("pull", "poll", "long-lived", "persistent", "notify", "sync", "lli", "ssb", "tiny"),
    "fanout": ("poll", "lli"),
    "fetch": ("ndn", "lli", "ndn-over-ssb"),
    "flash-crowd": ("pull", "poll", "lli", "ssb"),
    "flat-ids": ("poll", "lli", "link"),
    "gateways": ("lli", "pull", "ssb"),
    "geant-news": ("poll", "sync", "lli", "ssb", "ebt", "hub", "broker", "moq", "multicast"),
    "hot-author": RUNGS,
    "intermittent": RUNGS,
    "isp-city": ("tiny-isp", "tiny-pub", "ssb"),
    "isp-storm": ("tiny-isp",),
    "ladder": RUNGS,
    "lli-storm": ("lli",),
    "lora-village": ("tiny", "tiny-pub"),
    "mobile": ("poll", "sync", "sync-log", "lli", "link", "ssb-aware", "social-routing", "ssb"),
    "ndn-over-ssb": ("ndn", "lli", "ndn-over-ssb"),
    "newcomers": ("hub", "invite", "room", "lan", "tiny-isp"),
    "offline-author": RUNGS,
    "outage": ("hub", "invite", "room", "lan", "tiny-isp"),
    "photos": ("ssb", "pull", "lli"),
    "quiet": ("lli", "sync-log", "sync", "notify", "persistent", "long-lived", "poll", "ssb"),
    "saturation": ("persistent", "lli", "ssb"),
    "sneakernet": ("tiny", "ebt"),
    "social": ("ssb", "poll", "lli", "ssb-aware-poll", "ssb-aware", "social-routing", "link"),
    "social-fetch": ("ndn", "ndn-over-ssb"),
    "testbed-pubsub": ("pull", "poll", "notify", "sync", "lli"),
    "two-isps": ("tiny-isp", "tiny", "ssb"),
    "uplink": ("lli", "persistent", "poll", "pull", "sync-log", "ssb", "ebt", "hub", "broker", "multicast"),
    "village": ("ssb", "poll", "lli", "ssb-aware-poll", "ssb-aware"),
}
"""The layerings of scenarios that do not compare all that follow feeds over NDN."""
LASTING = ("quiet", "uplink")
"""Scenarios that take minutes: of silence, or until a thin link has carried all."""

OF_DAYS = ("deletion",)
"""Scenarios of more than a day, in which little happens in a minute."""


@cache
def ran(name: str, layering: str) -> tuple[Scenario, Result]:
    wanted = load(name)
    return wanted, simulate(wanted, layering)


def delivered(result: Result) -> dict[str, int]:
    return {node: len(result.delivered(node)) for node in result.nodes if result.delivered(node)}


def items_on(result: Result, interface: str) -> int:
    return sum(s.sent and s.interface == interface and item_in(s.packet) is not None for s in result.packets)


def test_there_are_the_scenarios_of_the_papers() -> None:
    assert set(scenarios()) == {
        "archive",
        "bottleneck",
        "bulk",
        "chat",
        "churn",
        "commuter",
        "crowd",
        "cut-tree",
        "deletion",
        "deployment",
        "devices",
        "ending",
        "failover",
        "fanout",
        "fanout-all",
        "fetch",
        "flash-crowd",
        "flat-ids",
        "fork",
        "gateways",
        "geant-news",
        "hot-author",
        "intermittent",
        "isp-city",
        "isp-storm",
        "ladder",
        "late-join",
        "line",
        "lli-storm",
        "lora-village",
        "many-feeds",
        "mobile",
        "ndn-over-ssb",
        "newcomers",
        "offline-author",
        "outage",
        "photos",
        "quiet",
        "saturation",
        "slow-consumer",
        "sneakernet",
        "social",
        "social-fetch",
        "testbed-pubsub",
        "two-isps",
        "uplink",
        "village",
    }


@pytest.mark.parametrize("name", scenarios())
def test_each_compares_all_layerings_over_ndn_in_bearable_time(name: str) -> None:
    wanted = load(name)
    every = tuple(x for x in LAYERINGS if x != "sync-log" or name in WITH_SYNC_LOG)
    assert wanted.layerings == FEW.get(name, every)
    assert scenarios()[name].read_text().startswith("# ")
    assert "\n\n" not in wanted.title
    timeline = Timeline.of(wanted, workload.load(wanted), 0)
    is_radio = any(medium.radio for medium in wanted.network.media)  # 5 kbit/s for all
    is_long = is_radio or name in LASTING
    longest = 108_000e9 if name in OF_DAYS else 600e9 if is_long else 60e9
    assert 5e9 < timeline.end - timeline.start < longest


def test_line_loses_a_frame_in_twenty_and_push_repairs_them_all() -> None:
    wanted, result = ran("line", "lli")
    assert {link.loss_percent for link in wanted.network.links} == {5.0}
    assert result.delivered("s1") == list(range(1, 151))


def test_late_join_catches_up() -> None:
    _, result = ran("late-join", "lli")
    joined = {node: result.events[node][0]["time"] for node in ("s1", "s2", "s3", "s4")}
    assert list(joined.values()) == [0, 3_000_000_000, 5_000_000_000, 9_000_000_000]
    assert joined["s4"] > result.load.feeds[0].times[-1]
    for node in joined:
        assert result.delivered(node) == list(range(1, 201))


@pytest.mark.parametrize("layering", LAYERINGS)
def test_a_slow_consumer_slows_only_itself(layering: str) -> None:
    wanted, result = ran("slow-consumer", layering)
    times = {
        node: [e["time"] for e in result.events[node] if e["event"] == "delivered"] for node in result.nodes
    }
    assert len(times["s1"]) == len(times["s3"]) == 200
    assert expected(wanted, result.load, result.timeline)["s2"] - len(times["s2"]) in (0, 1, 2)
    assert min(b - a for a, b in zip(times["s2"], times["s2"][1:], strict=False)) >= 125_000_000
    assert not [time for time in times["s3"] if 3_000_000_000 <= time < 9_000_000_000]
    assert max(times["s1"]) < 9_000_000_000


@pytest.mark.parametrize("layering", PUSH)
def test_failover_finds_the_second_way(layering: str) -> None:
    _, result = ran("failover", layering)
    for node in ("s1", "s2"):
        assert result.delivered(node) == list(range(1, 151))
    assert items_on(result, "b-eth1") > 50


@pytest.mark.parametrize("layering", ["poll", "lli", "ssb"])
@pytest.mark.parametrize("cure", ["none", "lock", "feeds"])
def test_two_devices_lose_nothing_by_a_feed_each(cure: str, layering: str) -> None:
    """With one key, each subscriber has one branch, or a part of it; a lock keeps one device's items only."""
    scenario = load("devices", items=30, changes={"fork.after": 10, "fork.cure": cure})
    result = simulate(scenario, layering)
    first = result.load.feeds[0]
    assert result.load.written == 50
    for node in ("s1", "s2", "s3"):
        rows = [e for e in result.events[node] if e["event"] == "delivered"]
        told = [e for e in result.events[node] if e["event"] == "forked"]
        had = {(e["feed"], e["seq"]) for e in rows}
        if cure == "feeds":
            second = result.load.feeds[1]
            assert had == {(first.key, n) for n in range(1, 31)} | {(second.key, n) for n in range(1, 21)}
        elif cure == "lock":
            assert had == {(first.key, n) for n in range(1, 31)}
        else:
            assert {(first.key, n) for n in range(1, 11)} <= had <= {(first.key, n) for n in range(1, 31)}
            assert len(had) == 30 or told
        assert not told or cure == "none"
    published = Counter(
        e["node"] for rows in result.events.values() for e in rows if e["event"] == "published"
    )
    assert published == ({"pub": 30} if cure == "lock" else {"pub": 30, "pub2": 20})


def test_two_devices_lose_nothing_by_a_merge() -> None:
    """Nor where both devices and a subscriber start anew: each device goes on with its branch.

    All peers have the same view, in which each device names tips of the other one's branch.
    """
    fork = {"fork.after": 10, "fork.cure": "merge"}
    scenario = load("devices", items=30, changes=fork | {"layerings": ["ssb"]})
    starts = ((1000.0, "pub"), (1250.0, "pub2"), (1400.0, "s2"))
    again = tuple(Change(at_ms=time, restart=node) for time, node in starts)
    for events in ((), again):
        result = simulate(scenario.model_copy(update={"events": events}), "ssb")
        first, second = result.load.feeds
        assert first.times[10] < 1e9 < first.times[-1]
        assert second.times[1] < 1.25e9 < second.times[-5]
        every = {(first.key, n) for n in range(1, 31)} | {(second.key, n) for n in range(11, 31)}
        for node in ("s1", "s2", "s3"):
            had = [(e["feed"], e["seq"]) for e in result.events[node] if e["event"] == "delivered"]
            assert sorted(had) == sorted(every)
        trees = [result.nodes[node]._branched.tree(first.key) for node in ("pub", "pub2", "s1", "s2", "s3")]
        views = [tree.view() for tree in trees]
        assert all(view == views[0] for view in views)
        assert len(views[0]) == 50
        assert [len(tree.tips) for tree in trees] == [2] * 5
        own = {each.content["text"] for each in first.messages}
        joining = [each.content["text"] in own for each in views[0] if "tangles" in each.content]
        assert {*joining} >= ({False} if events else {True, False})
        published = Counter(
            e["node"] for rows in result.events.values() for e in rows if e["event"] == "published"
        )
        assert published == {"pub": 30, "pub2": 20}


def test_fork_is_told_to_everyone_under_controlled_push() -> None:
    _, result = ran("fork", "lli")
    for node in ("s1", "s2", "s3"):
        forked = [e for e in result.events[node] if e["event"] == "forked"]
        assert len(forked) == 1
        assert forked[0]["seq"] > result.load.common == 60
        assert not [
            e for e in result.events[node] if e["event"] == "delivered" and e["time"] > forked[0]["time"]
        ]
    published = Counter(
        e["node"] for rows in result.events.values() for e in rows if e["event"] == "published"
    )
    assert published == {"pub": 120, "pub2": 60}


def ended(layering: str, told: bool, successor: str | None) -> Result:
    scenario = load("ending")
    assert scenario.ending is not None
    ending = scenario.ending.model_copy(update={"is_told": told, "successor": successor})
    return simulate(scenario.model_copy(update={"ending": ending}), layering)


@pytest.mark.parametrize(
    "layering",
    [
        "pull",
        "poll",
        "long-lived",
        "persistent",
        "notify",
        "sync-log",
        "sync-all",
        "psync",
        "lli",
        "ssb",
        "tiny",
    ],
)
@pytest.mark.parametrize("told", [True, False])
def test_who_follows_a_feed_that_ends_goes_on_with_its_successor(layering: str, told: bool) -> None:
    result = ended(layering, told, "new")
    old, new = result.load.feeds
    assert result.load.successors == {old.key: new.key}
    for node in ("s1", "s2", "s3"):
        assert result.delivered(node, 0) == [*range(1, 61)]
        assert result.delivered(node, 1) == ([*range(1, 61)] if told else [])


@pytest.mark.parametrize("layering", ["pull", "poll", "long-lived", "persistent", "lli"])
@pytest.mark.parametrize("told", [True, False])
def test_nobody_asks_for_more_of_a_feed_that_has_ended(layering: str, told: bool) -> None:
    result = ended(layering, told, None)
    last = result.timeline.start + result.load.feeds[0].times[-1]
    later = [seen for seen in result.packets if seen.sent and seen.time > last + SECOND]
    assert (len(later) == 0) is told


@pytest.mark.parametrize("layering", ["pull", "sync", "lli"])
def test_many_feeds_all_arrive(layering: str) -> None:
    wanted, result = ran("many-feeds", layering)
    assert delivered(result) == expected(wanted, result.load, result.timeline)
    shares = [len(feed.messages) for feed in result.load.feeds]
    assert shares[0] > 10 * shares[-1]


@pytest.mark.parametrize("layering", ["pull", "persistent", "lli"])
def test_archive_serves_what_the_camera_has_dropped(layering: str) -> None:
    _, result = ran("archive", layering)
    assert result.delivered("viewer") == list(range(1, 301))
    assert items_on(result, "repo-eth1") > 20


@pytest.mark.parametrize("layering", ["poll", "lli-go-back-n"])
def test_bottleneck_is_shared_by_two_streams_and_a_fetch(layering: str) -> None:
    wanted, result = ran("bottleneck", layering)
    counts = delivered(result)
    assert set(counts) == {"s1", "s2", "home"}
    assert counts["home"] > 100
    assert expected(wanted, result.load, result.timeline) == {"s1": 1600, "s2": 1600}


def test_an_archive_that_starts_anew_keeps_what_it_had() -> None:
    wanted = load("archive")
    restart = Change(at_ms=4000.0, restart="repo")
    result = simulate(wanted.model_copy(update={"events": (restart,)}), "lli")
    assert result.delivered("repo") == list(range(1, 301)), "each once"
    assert result.delivered("viewer") == list(range(1, 301))
    assert items_on(result, "repo-eth1") > 20


def had_at(result: Result, event: str, item: int) -> int:
    """How many nodes had an item when an event happened."""
    rows = [row for rows in result.events.values() for row in rows]
    [happened] = [row["time"] for row in rows if row["event"] == event]
    had = [row["time"] for row in rows if (row["event"], row["seq"]) == ("delivered", item)]
    return sum(time <= happened for time in had)


@pytest.mark.parametrize("layering", RUNGS)
def test_one_copy_of_what_an_author_wrote_last_is_enough_unless_it_is_polled_for(layering: str) -> None:
    wanted, result = ran("offline-author", layering)
    had = had_at(result, "link-down", 40)
    assert had >= 1
    assert had < len(wanted.subscribers) or layering == "hub", "the hub hands out all copies at once"
    if layering in ("gossip", "gossip-skip"):
        assert had <= 3
    have = [node for node in wanted.subscribers if 40 in result.delivered(node)]
    if layering in ("scan", "append-poll"):
        assert len(have) == had, "nobody gets it afterwards"
        return
    for node in wanted.subscribers:
        assert result.delivered(node) == list(range(1, 41))


def test_a_tree_that_is_cut_at_its_root_loses_a_notes_delay_and_a_round_trip() -> None:
    wanted, result = ran("cut-tree", "ebt")
    west = {link.b for link in wanted.network.links if link.a == "west"} - {"east"}
    west |= {link.a for link in wanted.network.links if link.b == "west"} - {"author"}
    times = {
        (node, row["seq"]): row["time"]
        for node in wanted.subscribers
        for row in result.events[node]
        if row["event"] == "delivered"
    }
    assert len(times) == 60 * len(wanted.subscribers), "nothing is lost"
    # Every peer in the west has a connection to one in the east, 30 ms away. That one has the message; its
    # note is delayed, and travels; then comes the request, and the message itself. Nobody has to notice that
    # the link is dead. Transmission and queues: 10 ms.
    way, slack = 30_000_000, 10_000_000
    bound = wanted.layering_parameters("ebt").model_dump()["note_delay_ms"] * 1_000_000 + 3 * way + slack
    after = range(30, 61)
    for item in after:
        eastern = max(times[node, item] for node in wanted.subscribers if node not in west)
        assert max(times[node, item] for node in west) <= eastern + bound
    # And the tree is whole again.
    published = result.load.feeds[0].times
    late = [times[node, item] - published[item - 1] for node in west for item in range(45, 61)]
    assert max(late) < 100_000_000


def test_what_is_cut_off_from_its_author_gets_nothing_by_polls() -> None:
    wanted, result = ran("cut-tree", "append-poll")
    counts = Counter(delivered(result))
    assert sorted(counts[node] == 60 for node in wanted.subscribers) == [False] * 8 + [True] * 7
    assert max(count for count in counts.values() if count < 60) < 31


@pytest.mark.parametrize("layering", ["scan", "gossip-skip", "ebt"])
def test_a_crowd_is_served_by_itself_unless_it_polls(layering: str) -> None:
    wanted, result = ran("hot-author", layering)
    joined = [row["time"] for rows in result.events.values() for row in rows if row["event"] == "joined"]
    assert len(joined) == 24
    assert 3_000_000_000 <= min(joined) < max(joined) <= 3_500_000_000
    assert max(joined) - min(joined) > 300_000_000, "drawn, not all at once"
    counts = delivered(result)
    if layering == "scan":
        assert sum(counts.values()) < 0.8 * 24 * 100
    else:
        assert counts == dict.fromkeys(wanted.subscribers, 100)


@pytest.mark.parametrize("layering", ["gossip", "ebt"])
def test_whoever_is_seldom_online_has_all_in_the_end(layering: str) -> None:
    wanted, result = ran("intermittent", layering)
    assert delivered(result) == expected(wanted, result.load, result.timeline)


def test_a_room_needs_two_at_once_and_a_pub_keeps_all_for_newcomers() -> None:
    wanted, through_pub = ran("newcomers", "hub")
    everyone = dict.fromkeys(wanted.subscribers, wanted.workload.items)
    assert delivered(through_pub) == everyone
    _, through_room = ran("newcomers", "room")
    assert delivered(through_room) == {name: 60 for name in everyone if name not in ("n3", "n4")}
    assert through_pub.nodes["middle"].held()["messages"].entries > 0
    assert through_room.nodes["middle"].held()["messages"].entries == 0
    changed = load("newcomers", changes={"parameters.room.meets": "all"})
    assert delivered(simulate(changed, "room")) == everyone


def test_newcomers_need_a_switch_of_their_own_or_a_provider_and_an_author_who_is_there() -> None:
    wanted, in_homes = ran("newcomers", "lan")
    assert delivered(in_homes) == dict.fromkeys(("p1", "n1", "n3"), wanted.workload.items)
    _, by_contract = ran("newcomers", "tiny-isp")
    assert delivered(by_contract) == dict.fromkeys(("p1", "p2", "p3", "n1", "n2"), wanted.workload.items)
    middle = by_contract.nodes["middle"].counters()
    assert middle["contracts"] == 8, "n3 and n4 have contracts, but nobody who accepts them"
    assert middle["subscriptions_seen"] == 7, "their requests are seen, too"


def test_an_invite_of_one_pub_leads_newcomers_to_the_other() -> None:
    wanted, by_invite = ran("newcomers", "invite")
    assert delivered(by_invite) == dict.fromkeys(wanted.subscribers, wanted.workload.items)
    for name in wanted.subscribers:
        assert by_invite.nodes[name].counters()["pubs_named"] == 2
        assert by_invite.nodes[name].held()["connections"].entries == 2, "with both pubs"


@pytest.mark.parametrize(
    ("layering", "whole"),
    [
        ("hub", ()),
        ("invite", ("p1", "p2", "p3", "n1", "n2")),
        ("room", ()),
        ("lan", ("p1", "n1", "n3")),
        ("tiny-isp", ()),
    ],
)
def test_who_goes_on_when_the_middle_has_gone_for_good(layering: str, whole: tuple[str, ...]) -> None:
    wanted, result = ran("outage", layering)
    items = wanted.workload.items
    assert {name for name, count in delivered(result).items() if count == items} == {*whole}
    gone = next(change for change in wanted.events if change.stop == "middle").at_ms
    assert gone is not None
    early = sum(
        event["event"] == "published" and event["time"] < gone * MS for event in result.events["author"]
    )
    for name in {"p1", "p2", "p3", "n1", "n2"} - {*whole} if layering != "lan" else ():
        assert early - 4 <= len(result.delivered(name)) <= early, "what was written before, but for the last"
    assert bool(result.delivered("n3")) == (layering == "lan"), "who comes later finds nobody elsewhere"


def test_a_newcomer_sends_nothing_before_it_comes(tmp_path: Path) -> None:
    starts = {"n1": 2, "n2": 4, "n3": 9, "n4": 10}
    for layering in load("newcomers").layerings:
        (file := tmp_path / layering).write_bytes(ran("newcomers", layering)[1].capture)
        first: dict[str, int] = {}
        for packet in pcapng_oracle.read(file):
            if packet.direction is Direction.OUT:
                first.setdefault(packet.interface.name.partition("-")[0], packet.time)
        assert {name: first[name] // SECOND for name in starts} == starts, layering
