"""tinySSB as layerings: in radio cells, through a provider, by a courier: each item once, in order, whole."""

import json
import subprocess
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nobody
import pcapng_oracle
import pytest
from patience import PATIENCE_S

from base.units import MS
from captures.formats.pcapng import Direction
from ssb.bipf import decode
from ssb.tiny.node import GROUP, PORT
from testbed.errors import UserError
from testbed.experiment.emulated_run import Emulation
from testbed.experiment.platform import EMULATED
from testbed.experiment.run import run
from testbed.layerings.tiny.node import author_of, content_of
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load
from testbed.scenario.timeline import expected
from topologies.mininet import sandbox

VILLAGE = """
title = "A small LoRa village, with fast modems"
layerings = ["tiny", "tiny-pub"]
publishers = ["v1", "v2"]
subscribers = ["v1", "v2", "v3"]
warmup_ms = 1500
settle_ms = 9000
drain_ms = 100
sample_interval_ms = 200

[[topology.media]]
name = "village"
members = ["pub", "v1", "v2", "v3"]
max_queue_size = 1

[topology.radio]
bandwidth_khz = 500.0
backoff_ms = 100.0

[workload]
items = 4
activity_exponent = 0.0

[workload.schedule]
speed = 1000000.0
idle_limit_ms = 500.0

[[events]]
at_ms = 1000
leave = "v3 village"

[[events]]
at_ms = 2000
join = "v3 village"

[parameters.tiny]
round_ms = 2000
claims_ms = 600
retry_ms = 500
pause_ms = 100
spread_ms = 100
gap_ms = 60

[parameters.tiny-pub]
at = "pub"
round_ms = 2000
retry_ms = 500
pause_ms = 100
spread_ms = 100
gap_ms = 60
"""

CITY = """
title = "A provider and five clients"
layerings = ["tiny-isp", "tiny-pub", "ssb"]
publishers = ["c1", "c2", "c3", "c4"]
subscribers = ["c1", "c2", "c3", "c5"]
warmup_ms = 1500
settle_ms = 9000

[topology]
links = [
    { a = "isp", b = "c1" },
    { a = "isp", b = "c2" },
    { a = "isp", b = "c3" },
    { a = "isp", b = "c4" },
    { a = "isp", b = "c5" },
]

[topology.link]
delay_ms = 5.0
loss_percent = 3.0

[workload]
items = 30
feeds = 5
activity_exponent = 0.0

[workload.schedule]
speed = 1000000.0
idle_limit_ms = 200.0

[parameters.tiny-isp]
size = 8
retry_ms = 100

[plans.c5]
start_ms = 2500.0
"""

RESTARTS = "".join(
    f"\n[[events]]\nat_ms = {at_ms}\nrestart = '{node}'\n"
    for at_ms, node in ((400, "isp"), (1200, "c1"), (1800, "isp"), (2100, "c2"), (2400, "c3"), (2600, "isp"))
)


def scenario(path: Path, text: str) -> Scenario:
    path.write_text(text, encoding="utf-8")
    return load(str(path))


def played(wanted: Scenario, layering: str) -> tuple[list[dict[str, Any]], Emulation]:
    emulation = Emulation(wanted, layering, workload.load(wanted))
    emulation.run(emulation.timeline.end)
    return sorted(emulation.take_events(), key=lambda row: row["time"]), emulation


def assert_complete(wanted: Scenario, rows: list[dict[str, Any]]) -> None:
    """Each item once, in order, with the size of its content, after it was published."""
    feeds = workload.load(wanted).feeds
    sizes = {(feed.key, item.sequence): len(content_of(item)) for feed in feeds for item in feed.messages}
    published: dict[tuple[str, int], int] = {}
    got: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in rows:
        item = row["feed"], row["seq"]
        if row["event"] == "published":
            assert item not in published
            published[item] = row["time"]
        elif row["event"] == "delivered":
            assert row["time"] > published[item]
            assert row["bytes"] == sizes[item]
            got[row["node"], row["feed"]].append(row["seq"])
    assert published.keys() == sizes.keys()
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in got.values())
    timeline = Emulation(wanted, wanted.layerings[0], workload.load(wanted)).timeline
    counts: Counter[str] = Counter()
    for (node, _), numbers in got.items():
        counts[node] += len(numbers)
    assert counts == expected(wanted, workload.load(wanted), timeline)
    assert not [row for row in rows if row["event"] == "error"]


@pytest.mark.parametrize("layering", ["tiny", "tiny-pub"])
def test_a_radio_village_hears_everything(tmp_path: Path, layering: str) -> None:
    wanted = scenario(tmp_path / "village.toml", VILLAGE)
    rows, emulation = played(wanted, layering)
    assert_complete(wanted, rows)
    cell = emulation.network.air_counters()["village"]
    airtime = wanted.network.media[0].radio.airtime_ns(124)
    assert all(0 < each["airtime_ns"] <= each["sent"] * airtime for each in cell.values())
    claims = sum(node.counters()["sent_claim"] for node in emulation.nodes.values())
    assert (claims > 0) == (layering == "tiny"), (
        "the pub's clients have signed up: nothing has to be agreed on"
    )
    away = [row for row in rows if row["node"] == "v3" and 1100 * MS < row["time"] < 2000 * MS]
    assert not [row for row in away if row["event"] == "delivered"]
    answered = {name: node._node.sent["entry"] for name, node in emulation.nodes.items()}
    assert answered["v3"] == 0 or layering == "tiny", "who has no feed answers for others under tiny only"


@pytest.mark.parametrize("layering", ["tiny-isp", "tiny-pub", "ssb"])
def test_a_city_gets_everything_though_each_starts_anew(tmp_path: Path, layering: str) -> None:
    text = CITY + (RESTARTS if layering != "ssb" else "")
    rows, emulation = played(wanted := scenario(tmp_path / "city.toml", text), layering)
    if layering == "ssb":  # another content, but the same items
        assert sum(row["event"] == "delivered" for row in rows) == sum(
            expected(wanted, workload.load(wanted), emulation.timeline).values()
        )
        return
    assert_complete(wanted, rows)
    if layering == "tiny-isp":
        counted = {name: node.counters() for name, node in emulation.nodes.items()}
        assert counted["isp"]["contracts"] == 5
        assert {each["faults"] for each in counted.values()} == {0}
        # c1, c2 and c3 exchange with each other, all of them and c5 read c4, and c5 reads all.
        assert counted["isp"]["subscriptions"] == 3 + 3 + 4
        follows = workload.load(wanted).follows
        others = [
            (who, feed.key) for who, feeds in follows.items() for feed in feeds if feed.publisher != who
        ]
        assert counted["isp"]["subscriptions_seen"] == len(set(others)), "who reads whom, in which feed"
        assert "c5" not in {
            row["node"] for row in rows if row["time"] < 2500 * MS and row["event"] == "delivered"
        }


@pytest.mark.parametrize("layering", ["tiny-isp", "tiny"])
def test_clients_of_two_providers_get_everything(layering: str) -> None:
    wanted = load("two-isps", layerings=(layering,), items=24)
    rows, emulation = played(wanted, layering)
    assert_complete(wanted, rows)
    feeds = {feed.key: feed.publisher for feed in workload.load(wanted).feeds}
    far = [row for row in rows if row["event"] == "delivered" and row["node"][0] != feeds[row["feed"]][0]]
    assert len(far) > 20, "both sides write for both"
    if layering == "tiny-isp":
        counted = {name: node.counters() for name, node in emulation.nodes.items()}
        assert {name: each["contracts"] for name, each in counted.items() if each["contracts"] > 1} == {
            "north": 7,
            "south": 7,
        }
        assert {each["faults"] for each in counted.values()} == {0}


THREE_ISPS = """
title = "A row of three providers, with a client at each end and one in the middle"
layerings = ["tiny-isp"]
publishers = ["a1", "b1", "c1"]
subscribers = ["a1", "b1", "c1"]
warmup_ms = 3000
settle_ms = 6000

[topology]
links = [
    { a = "a", b = "b" },
    { a = "b", b = "c" },
    { a = "a", b = "a1" },
    { a = "b", b = "b1" },
    { a = "c", b = "c1" },
]

[topology.link]
delay_ms = 5.0
loss_percent = 3.0

[workload]
items = 12
activity_exponent = 0.0

[workload.schedule]
speed = 1000000.0
idle_limit_ms = 200.0

[parameters.tiny-isp]
providers = ["a", "b", "c"]
size = 8
retry_ms = 100
"""


def test_a_row_of_three_providers_passes_on_what_is_for_the_other_end(tmp_path: Path) -> None:
    restarts = "".join(
        f"\n[[events]]\nat_ms = {at_ms}\nrestart = '{node}'\n"
        for at_ms, node in ((300, "b"), (900, "a"), (3200, "b"), (3300, "c1"), (3600, "c"))
    )
    wanted = scenario(tmp_path / "row.toml", THREE_ISPS + restarts)
    rows, emulation = played(wanted, "tiny-isp")
    assert_complete(wanted, rows)
    counted = {name: node.counters() for name, node in emulation.nodes.items()}
    assert {name: counted[name]["contracts"] for name in "abc"} == {"a": 2, "b": 3, "c": 2}
    assert [counted[name]["subscriptions"] for name in "abc"] == [2, 3, 2]


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        ('["a", "b"]', "tiny-isp: 'c1' is next to no provider"),
        ('["a", "b", "c", "b1"]', "tiny-isp: 'b1' is a provider, and can neither publish nor follow"),
        ('["a", "b", "d"]', "tiny-isp: provider 'd' is not a node"),
        ('["a", "a"]', "tiny-isp: provider 'a' is named twice"),
        ('"a"', "providers: .* list"),
    ],
)
def test_a_client_needs_a_provider_beside_it(tmp_path: Path, providers: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        scenario(tmp_path / "row.toml", THREE_ISPS.replace('["a", "b", "c"]', providers))


def test_a_courier_carries_everything_and_only_when_there(tmp_path: Path) -> None:
    wanted = load("sneakernet", layerings=("tiny",), items=16)
    rows, _ = played(wanted, "tiny")
    assert_complete(wanted, rows)
    feeds = {feed.key: feed.publisher for feed in workload.load(wanted).feeds}
    far = [
        row
        for row in rows
        if row["event"] == "delivered"
        and row["node"] != "courier"
        and row["node"][0] != feeds[row["feed"]][0]
    ]
    assert {row["node"] for row in far if row["time"] < 10_000 * MS} == {"s1", "s2", "s3"}
    assert min(row["time"] for row in far) > 5000 * MS
    assert not [row for row in far if 9100 * MS < row["time"] < 10_000 * MS], "it is on its way"


def frames(path: Path) -> list[pcapng_oracle.Packet]:
    """Return the frames of a capture that carry tinySSB."""
    port = PORT.to_bytes(2)
    return [packet for packet in pcapng_oracle.read(path) if packet.frame[34:38] == port + port]


def assert_form(frame: bytes, sender: Mapping[str, str]) -> bytes:
    """Check all of a frame but its identification; return the packet that it carries."""
    assert frame[:6] == bytes.fromhex("01005e050508")
    assert frame[12:14] == b"\x08\x00"
    assert frame[14] == 0x45
    assert int.from_bytes(frame[16:18]) == len(frame) - 14
    assert frame[22:24] == bytes((1, 17)), "time to live, and UDP"
    assert ".".join(map(str, frame[26:30])) == sender["ipv4"]
    assert frame[6:12].hex(":") == sender["mac"]
    assert ".".join(map(str, frame[30:34])) == GROUP
    assert int.from_bytes(frame[38:40]) == len(frame) - 34
    payload = frame[42:]
    assert zlib.crc32(payload[:-4]).to_bytes(4) == payload[-4:]
    return payload[:-4]


@pytest.mark.mininet
@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"Mininet cannot run here: {sandbox.why_not()}")
def test_mininet_sends_the_same_packets_in_the_same_form(tmp_path: Path) -> None:
    text = VILLAGE.replace('["tiny", "tiny-pub"]', '["tiny-pub"]').replace("= 9000", "= 4500")
    wanted = scenario(tmp_path / "village.toml", text)
    run(wanted, workload.load(wanted), EMULATED, tmp_path / "emulated")
    argv = [sys.executable, "-m", "testbed.cli", "run", "village.toml", "--net", "mininet", "--no-report"]
    done = subprocess.run(
        [*argv, "--out", "mininet"],
        cwd=tmp_path,
        env=nobody.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    senders = {each.name: {"ipv4": each.ipv4, "mac": each.mac.hex(":")} for each in wanted.network.interfaces}
    entries: dict[str, set[bytes]] = {}
    for net in ("emulated", "mininet"):
        directory = tmp_path / net / "tiny-pub"
        rows = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
        assert sum(row["event"] == "delivered" for row in rows) == 8
        (back,) = (row["time"] for row in rows if row["event"] == "join")
        (gone,) = (row["time"] for row in rows if row["event"] == "leave")
        away = [row for row in rows if row["node"] == "v3" and gone + 300 * MS < row["time"] < back]
        assert not [row for row in away if row["event"] == "delivered"]
        sent = [
            packet for packet in frames(directory / "capture.pcapng") if packet.direction is Direction.OUT
        ]
        packets = {assert_form(each.frame, senders[each.interface.name]) for each in sent}
        assert {len(packet) == 120 for packet in packets} == {True, False}, "entries and chunks, and vectors"
        entries[net] = {packet for packet in packets if len(packet) == 120}
        cell = json.loads((tmp_path / net / "manifest.json").read_text())["runs"]["tiny-pub"]["cells"][
            "village"
        ]
        assert all(each["sent"] > 0 for each in cell.values())
    assert entries["emulated"] == entries["mininet"], "the same authors sign the same bytes"
    assert len(entries["mininet"]) >= 4


def test_an_item_is_the_content_of_its_message() -> None:
    wanted = load("sneakernet", layerings=("tiny",), items=4)
    feeds = workload.load(wanted).feeds
    for feed in feeds:
        for message in feed.messages:
            assert decode(content_of(message)) == message.content
    assert len({author_of(1, feed).public_key for feed in feeds} | {author_of(2, feeds[0]).public_key}) == 5
