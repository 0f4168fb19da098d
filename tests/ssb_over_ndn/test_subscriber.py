"""The subscribing application: schedule, pace and events, whatever the layering."""

from collections import deque
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_network import feed_of

from base.units import MS, SECOND
from forwarder.feedcache.items import Item, open_item
from forwarder.wire.feed import item_name
from forwarder.wire.lp import LpPacket
from forwarder.wire.packet import make_data, parse_data
from ssb.application import Plan
from ssb.ending import END, end_content
from ssb.keys import Identity
from ssb.message import Message
from ssb.suites.countersignature import EMPTY, countersign, log_hash, succession
from ssb.suites.suite import SUITES, PrivateKey
from ssb_over_ndn.following.subscriber import Subscriber
from ssb_over_ndn.naming import log_name, message_packet

FEEDS = {log_name(feed_of(9, seed)[0].author): feed_of(9, seed) for seed in (1, 2)}
ONE, TWO = FEEDS


class Given:
    """A subscription that has what it is given, and notes what it is asked."""

    def __init__(self, feed: bytes) -> None:
        self.feed = feed
        self.calls: list[tuple[str, int]] = []
        self.items: deque[Item] = deque()
        self.errors: list[str] = []
        self.due: int | None = None
        self.forked_at: int | None = None

    def start(self, now: int) -> None:
        self.calls.append(("start", now))

    def stop(self, now: int) -> None:
        self.calls.append(("stop", now))

    def receive(self, header: LpPacket, now: int) -> None:
        self.calls.append(("receive", now))
        for message in FEEDS[self.feed]:
            if message_packet(message) == header.fragment:
                self.items.append(open_item(self.feed, message.sequence, parse_data(header.fragment)))

    def take_items(self, limit: int | None = None) -> list[Item]:
        count = len(self.items) if limit is None else min(limit, len(self.items))
        return [self.items.popleft() for _ in range(count)]

    def take_errors(self) -> list[str]:
        errors, self.errors = self.errors, []
        return errors

    def take_outputs(self) -> list[bytes]:
        return [f"{name} {now}".encode() for name, now in self.calls if name in ("start", "stop")]

    def next_deadline(self) -> int | None:
        return self.due

    def wake(self, now: int) -> None:
        self.calls.append(("wake", now))
        if self.due is not None and self.due <= now:
            self.due = None


def application(plan: Plan) -> tuple[Subscriber, Given, Given]:
    one, two = Given(ONE), Given(TWO)
    return Subscriber({ONE: one, TWO: two}, plan), one, two


def give(subscriber: Subscriber, feed: bytes, count: int, now: int) -> None:
    for message in FEEDS[feed][:count]:
        subscriber.receive(message_packet(message), now)


def run(subscriber: Subscriber, until: int) -> list[tuple[int, str, bytes, int]]:
    now = -1
    while (due := subscriber.next_deadline()) is not None and due <= until:
        now = max(now, due)
        subscriber.wake(now)
    return [(e.time, e.event, log_name(e.feed), e.seq) for e in subscriber.take_events()]


def test_it_starts_and_stops_on_time() -> None:
    subscriber, one, two = application(Plan(5, 9))
    give(subscriber, ONE, 1, 4)
    assert run(subscriber, 20) == [
        (5, "joined", ONE, 0),
        (5, "joined", TWO, 0),
        (9, "stopped", ONE, 0),
        (9, "stopped", TWO, 0),
    ]
    give(subscriber, ONE, 1, 10)
    assert one.calls == two.calls == [("start", 5), ("stop", 9)]
    assert subscriber.next_deadline() is None


def test_a_packet_goes_to_its_feed() -> None:
    subscriber, one, two = application(Plan(0, SECOND))
    run(subscriber, 0)
    give(subscriber, TWO, 2, 7)
    subscriber.receive(b"\x06\x01", 8)
    subscriber.receive(make_data(item_name(log_name(feed_of(1, 3)[0].author), 1), b""), 8)
    assert one.calls == [("start", 0)]
    assert [name for name, _ in two.calls] == ["start", "receive", "wake", "receive", "wake"]
    assert run(subscriber, 8) == [(7, "delivered", TWO, 1), (7, "delivered", TWO, 2)]


def test_only_what_is_due_is_woken() -> None:
    subscriber, one, two = application(Plan(0, SECOND))
    one.due, two.due = 300, 200
    run(subscriber, 250)
    assert ("wake", 200) in two.calls
    assert ("wake", 200) not in one.calls
    assert subscriber.next_deadline() == 300


def test_a_slow_application_takes_turns() -> None:
    subscriber, *_ = application(Plan(0, 10 * SECOND, drain_per_s=10))
    run(subscriber, 0)
    give(subscriber, ONE, 3, 50 * MS)
    give(subscriber, TWO, 2, 50 * MS)
    assert [(time // MS, feed, seq) for time, _, feed, seq in run(subscriber, SECOND)] == [
        (50, ONE, 1),
        (150, ONE, 2),
        (250, TWO, 1),
        (350, ONE, 3),
        (450, TWO, 2),
    ]
    give(subscriber, ONE, 1, 2 * SECOND)
    assert [time for time, *_ in run(subscriber, 3 * SECOND)] == [2 * SECOND]


def test_a_pause() -> None:
    subscriber, *_ = application(Plan(0, SECOND, pauses=((10, 20), (30, 40))))
    run(subscriber, 0)
    seen = []
    for now in (9, 10, 20, 35):
        give(subscriber, ONE, 1, now)
        seen += [time for time, *_ in run(subscriber, now)]
    seen += [time for time, *_ in run(subscriber, 50)]
    assert seen == [9, 20, 20, 40]


def test_errors_and_forks_are_events() -> None:
    subscriber, one, _ = application(Plan(0, SECOND))
    one.errors = ["no-route", "fork"]
    one.forked_at = 4
    subscriber.wake(0)
    events = [(e.event, e.seq, e.detail) for e in subscriber.take_events() if log_name(e.feed) == ONE]
    assert events == [("joined", 0, ""), ("error", 0, "no-route"), ("forked", 4, "")]


@pytest.mark.parametrize("rate", [0, -1])
def test_a_drain_rate_is_above_0(rate: float) -> None:
    with pytest.raises(ValueError, match="never ends"):
        Subscriber({}, Plan(0, 1, drain_per_s=rate))


def test_any_bytes_are_harmless() -> None:
    subscriber, *_ = application(Plan(0, SECOND))
    subscriber.wake(0)
    rng = Random(1)
    for _ in range(500):
        subscriber.receive(rng.randbytes(rng.randrange(60)), 1)


AUTHORS = [Identity.from_seed(bytes([number]) * 32) for number in range(4)]


def chain(author: Identity, *contents: dict[str, str]) -> list[Message]:
    messages: list[Message] = []
    for content in contents:
        messages.append(Message.create(author, messages[-1] if messages else None, content, 1))
    return messages


@pytest.mark.parametrize("drain", [None, 100.0])
def test_a_subscription_moves_from_feed_to_feed(monkeypatch: pytest.MonkeyPatch, drain: float | None) -> None:
    """To each successor once; what is signed behind an end is dropped."""
    first, second, third, _ = AUTHORS
    post = {"type": "post"}
    logs = [
        chain(first, post, end_content(first.ref, second), post, post),
        chain(second, end_content(second.ref, third)),
        chain(third, post, {"type": END}, post),
    ]
    names = [log_name(log[0].author) for log in logs]
    for name, log in zip(names, logs, strict=True):
        monkeypatch.setitem(FEEDS, name, log)
    made: list[Given] = []

    def subscribe(name: bytes) -> Given:
        made.append(Given(name))
        return made[-1]

    subscriber = Subscriber({names[0]: Given(names[0])}, Plan(0, SECOND, drain_per_s=drain), subscribe)
    events = run(subscriber, 0)
    for step in range(6):
        for name in names:
            give(subscriber, name, 9, step * 20 * MS)
        events += run(subscriber, (step + 1) * 20 * MS - 1)
    events += run(subscriber, 2 * SECOND)
    seen = [(event, names.index(name), seq) for _, event, name, seq in events]
    assert list(dict.fromkeys(seen)) == [
        ("joined", 0, 0),
        ("delivered", 0, 1),
        ("delivered", 0, 2),
        ("stopped", 0, 0),
        ("joined", 1, 0),
        ("delivered", 1, 1),
        ("stopped", 1, 0),
        ("joined", 2, 0),
        ("delivered", 2, 1),
        ("delivered", 2, 2),
        ("stopped", 2, 0),
    ]
    assert [each.feed for each in made] == names[1:]
    assert subscriber.ends() == (0, 0)


def test_of_two_ends_the_one_that_is_read_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third, _ = AUTHORS
    log = chain(first, {"type": "post"}, end_content(first.ref, second))
    other = Message.create(first, log[0], end_content(first.ref, third), 1)
    name = log_name(first.ref)
    monkeypatch.setitem(FEEDS, name, [*log, other])
    made: list[bytes] = []

    def subscribe(feed: bytes) -> Given:
        made.append(feed)
        return Given(feed)

    subscriber = Subscriber({name: Given(name)}, Plan(0, SECOND), subscribe)
    run(subscriber, 0)
    give(subscriber, name, 3, 1)
    assert made == [log_name(second.ref)]


@given(
    given_items=st.lists(st.sampled_from(["signed", "plain", "forged"]), max_size=6), is_planned=st.booleans()
)
def test_items_of_a_feed_with_another_suite_count_when_they_are_proved(
    given_items: list[str], is_planned: bool
) -> None:
    """The model: an item counts once one in its place or behind it is countersigned, by no other key.

    Also if the feed is followed already when the end names its key, and if another end names another key.
    """
    first, second, third, _ = AUTHORS
    keys = [PrivateKey.from_seed(SUITES["ed448"], bytes([number]) * 57) for number in range(2)]
    log: list[Message] = []
    before = EMPTY
    for number, kind in enumerate(given_items, 1):
        content: dict[str, Any] = {"type": "post", "text": kind}
        if kind != "plain":
            key = keys[kind == "forged"]
            content = countersign(key, second.ref, number, 1, content, before)
        log.append(Message.create(second, log[-1] if log else None, content, 1))
        before = log_hash(SUITES["ed448"], before, log[-1].encoded)
    ends = [
        chain(author, end_content(author.ref, second) | succession(author.ref, second.ref, key))
        for author, key in zip((first, third), keys, strict=True)
    ]
    logs = [*ends, log]
    names = [log_name(author.ref) for author in (first, third, second)]
    with pytest.MonkeyPatch.context() as patch:
        for name, each in zip(names, logs, strict=True):
            patch.setitem(FEEDS, name, each)
        planned = names if is_planned else names[:2]
        subscriber = Subscriber({name: Given(name) for name in planned}, Plan(0, SECOND), Given)
        run(subscriber, 0)
        for name in names:
            give(subscriber, name, 9, 1)
        seen = [seq for _, event, name, seq in run(subscriber, 3) if (event, name) == ("delivered", names[2])]
    last = max((number for number, kind in enumerate(given_items, 1) if kind == "signed"), default=0)
    assert seen == list(range(1, last + 1))


def test_a_successor_that_is_followed_already_is_not_followed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that has ended in favour of the feed that names it."""
    first, second, *_ = AUTHORS
    logs = [chain(first, end_content(first.ref, second)), chain(second, end_content(second.ref, first))]
    names = [log_name(log[0].author) for log in logs]
    for name, log in zip(names, logs, strict=True):
        monkeypatch.setitem(FEEDS, name, log)
    subscriber = Subscriber({name: Given(name) for name in names}, Plan(0, SECOND), Given)
    run(subscriber, 0)
    for name in (*names, *names):
        give(subscriber, name, 1, 5)
    assert [event for _, event, _, _ in run(subscriber, 2 * SECOND)] == ["delivered", "stopped"] * 2
