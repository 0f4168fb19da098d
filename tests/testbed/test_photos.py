"""Pictures that messages name: every reader gets each, whole, by every layering that carries them."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import Result, scenario, simulate

from forwarder.wire.lp import open_data
from forwarder.wire.name import to_uri
from forwarder.wire.packet import make_interest
from ssb.application import Event
from ssb.generate import generate_feed
from ssb.keys import blob_ref, named_blobs
from ssb.store.blobs import MemoryBlobs
from ssb_over_ndn.naming import blob_name, segment_name, split_segment
from ssb_over_ndn.serving.publisher import Publisher
from testbed.errors import UserError
from testbed.layerings.nodes.pictures import Album, PictureReader
from testbed.layerings.nodes.workload import Feature
from testbed.layerings.registry import LAYERINGS
from testbed.scenario import workload
from testbed.scenario.model import Scenario
from testbed.scenario.reader import load

CARRYING = [name for name in LAYERINGS if Feature.PICTURES in LAYERINGS[name].carries]


def posting(**changes: Any) -> Scenario:
    """Two authors, who read each other, and two readers, behind two routers."""
    link = {"delay_ms": 5.0, "bw_mbit": 10.0} | changes.pop("link", {})
    ends = [("ann", "r1"), ("s1", "r1"), ("ben", "r2"), ("s2", "r2"), ("r1", "r2")]
    table = {
        "topology": {"links": [{"a": a, "b": b} for a, b in ends], "link": link},
        "publishers": ("ann", "ben"),
        "subscribers": ("ann", "ben", "s1", "s2"),
        "workload": {
            "items": 12,
            "activity_exponent": 0.0,
            "schedule": {"speed": 1e6, "idle_limit_ms": 100.0},
            "pictures": {"every": 2, "size_bytes": 10_001} | changes.pop("pictures", {}),
        },
        "settle_ms": 4000,
    }
    return scenario(**table | changes)


def check_all(result: Result) -> None:
    """Check that each reader has each picture, whole, after its message, and reports it once."""
    load_ = result.load
    names = {to_uri(blob_name(blob)): blob for blob in load_.pictures}
    feeds = {feed.key: feed for feed in load_.feeds}
    for node, followed in load_.follows.items():
        wanted = {
            (feed.key, message.sequence, blob)
            for feed in followed
            for message in feed.messages
            for blob in load_.pictures_in(message)
        }
        came = {
            (row["feed"], row["seq"]): row["time"]
            for row in result.events[node]
            if row["event"] == "delivered"
        }
        shown = [row for row in result.events[node] if row["event"] == "shown"]
        assert {(row["feed"], row["seq"], names[row["detail"]]) for row in shown} == wanted
        for row in shown:
            blob = names[row["detail"]]
            assert row["time"] >= came[row["feed"], row["seq"]]
            assert row["bytes"] == len(load_.pictures[blob])
            assert result.nodes[node].state.blobs.read(blob) == load_.pictures[blob]
    shared = [row for rows in result.events.values() for row in rows if row["event"] == "shared"]
    assert {names[row["detail"]] for row in shared} == {*load_.pictures}
    assert all(row["node"] == feeds[row["feed"]].publisher for row in shared)


def test_these_layerings_carry_pictures() -> None:
    assert {"ssb", "ebt", "pull", "poll", "sync-log", "lli"} < {*CARRYING}
    assert not {"ndn", "sync-all", "link", "social-routing", "gossip", "broker", "tiny"} & {*CARRYING}


@pytest.mark.parametrize("layering", CARRYING)
def test_every_reader_gets_every_picture(layering: str) -> None:
    check_all(simulate(posting(layerings=(layering,)), layering))


@pytest.mark.parametrize("layering", ["ssb", "pull", "lli"])
def test_links_may_lose(layering: str) -> None:
    link = {"loss_percent": 3.0, "reorder_percent": 2.0, "duplicate_percent": 2.0}
    check_all(simulate(posting(layerings=(layering,), link=link, settle_ms=30_000), layering))


@pytest.mark.parametrize("layering", ["ssb", "pull", "lli"])
@pytest.mark.parametrize("node", ["s1", "r1", "ann"])
def test_a_node_may_start_anew(layering: str, node: str) -> None:
    wanted = posting(
        layerings=(layering,),
        pictures={"size_bytes": 100_000},
        events=[{"at_ms": 450.0, "restart": node}],
        settle_ms=40_000,
    )
    result = simulate(wanted, layering)
    told = [
        (row["node"], row["detail"])
        for rows in result.events.values()
        for row in rows
        if row["event"] == "shown"
    ]
    every = {
        (node, to_uri(blob_name(blob)))
        for node, feeds in result.load.follows.items()
        for f in feeds
        for m in f.messages
        for blob in result.load.pictures_in(m)
    }
    assert {*told} == every


class Following:
    """A follower that reports what it is given."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def receive(self, packet: bytes, now: int) -> None: ...

    def wake(self, now: int) -> None: ...

    def take_events(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def take_outputs(self) -> list[bytes]:
        return []

    def ends(self) -> tuple[int, int]:
        return 0, 0

    def next_deadline(self) -> None: ...


def test_a_feed_that_stops_takes_only_its_own_pictures_with_it() -> None:
    made = workload.load(posting())
    ann, ben = made.feeds
    store, follower = MemoryBlobs(), Following()
    album = Album(made, store, "s1")
    reader = PictureReader(follower, album, store, Random(1))
    names = [blob for feed in (ann, ben) for blob in made.pictures_in(feed.messages[0])]
    follower.events += [Event(1, "delivered", feed.key, 1) for feed in (ann, ben)]
    reader.wake(1)
    assert [album.author_of(blob) for blob in names] == [ann.key, ben.key]
    follower.events.append(Event(2, "stopped", ann.key))
    reader.wake(2)
    assert [album.author_of(blob) for blob in names] == [None, ben.key]
    follower.events.append(Event(3, "stopped", ben.key))
    reader.wake(3)
    assert [album.author_of(blob) for blob in names] == [None, None]
    assert reader.next_deadline() is None


def test_readers_share_a_want_across_one_link() -> None:
    """A router answers the second reader: over NDN a link carries each segment once."""
    result = simulate(posting(layerings=("pull",), publishers=("ann",), subscribers=("s2", "ben")), "pull")
    check_all(result)
    crossing = [
        split_segment(opened[0].name)
        for seen in result.packets
        if seen.sent and seen.interface.startswith("r1-")
        for opened in [open_data(seen.packet)]
        if opened and split_segment(opened[0].name)
    ]
    assert len(crossing) == len({*crossing}) == 3 * len(result.load.pictures)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(64, 5000), st.integers(0, 99))
def test_one_message_in_so_many_names_a_picture(every: int, size: int, seed: int) -> None:
    made = workload.load(posting(seed=seed, pictures={"every": every, "size_bytes": size}))
    named = [made.pictures_in(message) for feed in made.feeds for message in feed.messages]
    numbers = [message.sequence for feed in made.feeds for message in feed.messages]
    assert [len(each) for each in named] == [int((number - 1) % every == 0) for number in numbers]
    assert sorted(blob for each in named for blob in each) == sorted(made.pictures)
    store = MemoryBlobs()
    assert [store.add(content) for content in made.pictures.values()] == [*made.pictures]
    assert {len(content) for content in made.pictures.values()} == {size}


def test_text_and_times_do_not_depend_on_pictures() -> None:
    plain = posting()
    bare = plain.model_copy(update={"workload": plain.workload.model_copy(update={"pictures": None})})
    with_, without = workload.load(plain), workload.load(bare)
    assert without.pictures == {}
    for one, other in zip(with_.feeds, without.feeds, strict=True):
        assert one.times == other.times
        assert [m.content["text"] for m in one.messages] == [m.content["text"] for m in other.messages]  # type: ignore[index, call-overload]


@given(st.text(alphabet="&=.sha256AZaz+/", max_size=200), st.binary(min_size=32, max_size=32))
def test_a_blob_is_found_in_any_text(text: str, digest: bytes) -> None:
    blob = blob_ref(digest)
    assert blob in named_blobs(f"{text} {blob}{text}{blob}")
    assert len({*named_blobs(text)}) == len(named_blobs(text))


@given(st.binary(max_size=60))
def test_a_publisher_answers_for_pictures_that_it_has(junk: bytes) -> None:
    feed = generate_feed(Random(1), 1)
    store = MemoryBlobs()
    blob = store.add(b"picture")
    publisher = Publisher(feed, [0], blobs=store)
    for name, answers in (
        (segment_name(blob, 0), 1),
        (segment_name(blob, 1), 0),
        (segment_name(blob_ref(bytes(32)), 0), 0),
        (blob_name(blob), 0),
        (blob_name(blob) + junk, int(blob_name(blob) + junk == segment_name(blob, 0))),
    ):
        try:
            asked = make_interest(name, nonce=1)
        except ValueError:
            continue
        publisher.receive(asked, 0)
        assert len(publisher.take_outputs()) == answers


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("pictures.size_bytes=63", "must be at least 64"),
        ("pictures.every=0", "must be at least 1"),
        ("pictures.size_bytes=99999999", "must be at most 5242880"),
        ("pictures.shape=1", "shape"),
    ],
)
def test_bad_pictures_are_one_line(change: str, said: str) -> None:
    key, _, value = change.partition("=")
    with pytest.raises(UserError) as raised:
        load("photos", changes={f"workload.{key}": int(value)})
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("fork", {}, "workload.pictures, fork: choose one"),
        ("archive", {}, "workload.pictures, archive: choose one"),
        ("gateways", {}, "lli with gateways cannot carry pictures"),
        ("village", {}, "cannot carry pictures"),
        ("fetch", {"layerings": ("ndn",)}, "ndn cannot carry pictures"),
    ],
)
def test_what_cannot_be_together_is_refused(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as raised:
        load(name, changes={"workload.pictures.every": 2}, **options)
    assert "\n" not in str(raised.value)
