"""The fetcher and its parts: never more than window and room, nothing that is not known, all in the end."""

from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_network import feed_of

from base.units import MS, SECOND
from forwarder.wire.feed import split_item
from forwarder.wire.lp import open_interest
from forwarder.wire.packet import parse_data
from ssb_over_ndn.following.fetch import CongestionWindow, Fetcher
from ssb_over_ndn.following.inbox import Inbox
from ssb_over_ndn.following.silence import Silence
from ssb_over_ndn.following.timeout import Timeout
from ssb_over_ndn.naming import log_name, message_packet

ITEMS = 40
FEED = log_name(feed_of(1)[0].author)
DATA = {message.sequence: parse_data(message_packet(message)) for message in feed_of(ITEMS)}


def asked_in(packet: bytes) -> int:
    interest = open_interest(packet)
    assert interest is not None
    parts = split_item(interest.name)
    assert parts is not None
    assert parts[0] == FEED
    return parts[1]


@given(
    seed=st.integers(0, 1 << 32),
    loss=st.sampled_from([0.0, 0.1, 0.4]),
    jitter=st.integers(0, 60),
    marked=st.sampled_from([0.0, 0.3]),
    room=st.integers(1, 16),
    lazy=st.booleans(),
)
def test_a_fetcher_over_any_path(
    seed: int, loss: float, jitter: int, marked: float, room: int, lazy: bool
) -> None:
    rng = Random(seed)
    inbox = Inbox(FEED, room)
    fetcher = Fetcher(inbox, rng=rng, lifetime_ms=1000)
    answers: list[tuple[int, int, int]] = []
    taken: list[int] = []
    now = 0
    while len(taken) < ITEMS:
        fetcher.tip = min(ITEMS, fetcher.tip + rng.randrange(4))  # the feed grows
        fetcher.request(now)
        requests = fetcher.take_outputs()
        if requests:
            assert len(fetcher._flying) <= int(fetcher.window.size)
        for packet in requests:
            seq = asked_in(packet)
            assert inbox.lacks(seq)
            assert seq <= fetcher.tip
            if rng.random() >= loss:
                heappush(answers, (now + 20 * MS + rng.randint(0, jitter) * MS, len(answers), seq))
        deadline = fetcher.next_deadline()
        times = [answers[0][0]] if answers else []
        now = min([*times, max(now, deadline) if deadline is not None else now + 50 * MS])
        assert now < 10_000 * SECOND
        if times == [now]:
            seq = heappop(answers)[2]
            assert fetcher.on_item(seq, DATA[seq], int(rng.random() < marked), now)
        fetcher.wake(now)
        assert fetcher.window.size >= 2
        if not lazy or rng.random() < 0.2:
            taken += [item.seq for item in inbox.take(1 if lazy else None)]
        assert inbox.arrived - inbox.taken <= room
    assert taken == list(range(1, ITEMS + 1))
    assert fetcher.next_deadline() is None


def test_a_window_grows_fast_halves_and_then_grows_slowly() -> None:
    window = CongestionWindow()
    for _ in range(6):
        window.arrived(int(window.size))
    assert window.size == 8
    window.arrived(7)  # it was not what held back more
    assert window.size == 8
    window.congested(100, 50)
    assert window.size == 4
    window.congested(149, 50)
    assert window.size == 4
    for _ in range(4):
        window.arrived(4)
    assert 4.9 < window.size < 5
    for now in range(150, 500, 50):
        window.congested(now, 50)
    assert window.size == 2


def test_a_lost_interest_goes_again_before_new_ones() -> None:
    inbox = Inbox(FEED, 64)
    fetcher = Fetcher(inbox, rng=Random(1), lifetime_ms=1000)
    fetcher.tip = 10
    fetcher.request(0)
    assert [asked_in(packet) for packet in fetcher.take_outputs()] == [1, 2]
    fetcher.on_item(2, DATA[2], 0, 30 * MS)
    fetcher.request(30 * MS)
    assert [asked_in(packet) for packet in fetcher.take_outputs()] == [3, 4]
    fetcher.wake(250 * MS)
    fetcher.request(250 * MS)
    assert next(asked_in(packet) for packet in fetcher.take_outputs()) == 1


def test_something_else_under_an_items_name_is_asked_for_fresh() -> None:
    fetcher = Fetcher(Inbox(FEED, 64), rng=Random(1), lifetime_ms=1000)
    fetcher.tip = 1
    fetcher.request(0)
    fetcher.take_outputs()
    assert not fetcher.on_item(1, DATA[2], 0, MS)
    fetcher.request(MS)
    assert fetcher.take_outputs() == []
    due = fetcher.next_deadline()
    assert due == 250 * MS
    fetcher.wake(due)
    fetcher.request(due)
    (packet,) = fetcher.take_outputs()
    interest = open_interest(packet)
    assert interest is not None
    assert interest.must_be_fresh
    assert fetcher.window.size == 2
    assert fetcher.on_item(1, DATA[1], 0, 2 * due)


@given(st.permutations(range(1, 13)), st.integers(1, 12))
def test_an_inbox_gives_each_item_once_in_order(order: list[int], room: int) -> None:
    inbox = Inbox(FEED, room)
    taken: list[int] = []
    for seq in order * 12:
        item = inbox.open(seq, DATA[seq])
        assert item is not None
        inbox.put(item)
        assert not inbox.lacks(seq) or seq <= inbox.limit
        if seq % 3 == 0:
            taken += [item.seq for item in inbox.take(2)]
        assert inbox.taken == len(taken)
    taken += [item.seq for item in inbox.take()]
    assert taken == list(range(1, len(taken) + 1))
    assert inbox.rejected == {}


def test_an_inbox_needs_room() -> None:
    with pytest.raises(ValueError, match="room for at least 1"):
        Inbox(FEED, 0)


def test_a_time_out_doubles_once_a_round_and_an_answer_ends_that() -> None:
    timeout = Timeout()
    assert timeout.length == timeout.round_trip == 250 * MS
    timeout.missed(0)
    timeout.missed(100 * MS)
    assert timeout.length == 500 * MS
    timeout.missed(500 * MS)
    assert timeout.length == 1000 * MS
    timeout.answered()
    assert timeout.length == 250 * MS
    timeout.answered(40 * MS)
    assert timeout.round_trip == 40 * MS
    assert timeout.length == 120 * MS


def test_a_window_on_a_path_without_variation_leaves_room_for_a_late_fragment() -> None:
    fetcher = Fetcher(Inbox(FEED, 9), rng=Random(1), lifetime_ms=4000)
    for _ in range(200):
        fetcher._timeout.answered(150 * MS)
    assert fetcher._timeout.length < 155 * MS
    assert fetcher._patience() == 168_750_000


def test_silence_is_suspect_after_twice_the_time_between_items_then_less_and_less() -> None:
    silence = Silence(0)
    assert silence.due == SECOND
    for now in range(100, 10_000, 100):
        silence.restart(now * MS, 30 * MS)
    assert silence.due == 9_900 * MS + 200 * MS
    for length in (400, 800, 1600, 3200, 6400, 8000, 8000):
        now = silence.due
        silence.back_off(now)
        assert silence.due == now + length * MS
