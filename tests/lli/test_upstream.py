"""The upstream half of a subscription: what it asks for, when it asks again, and how long it waits."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count, pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.units import MS, NEVER
from forwarder.lli import upstream
from forwarder.lli.credit import FixedCredit
from forwarder.lli.estimates import INITIAL_TIMEOUT, MAX_TIMEOUT, Rtt
from forwarder.lli.ranges import Ranges
from forwarder.lli.upstream import (
    IDLE_PROBE,
    MAX_IDLE_PROBES,
    MAX_TRIES,
    PULL_LIFETIME_MS,
    PULL_WINDOW,
    TRANSITIONS,
    Event,
    Lli,
    Recovery,
    State,
    Upstream,
)
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.lp import make_feed_state, parse_lp
from forwarder.wire.packet import Data, make_data, parse_data, parse_interest

MINUTE = 60_000


def asking(limit: int = 8, recovery: Recovery = Recovery.IN_NETWORK) -> Upstream:
    """A consumer's: it wants items for good, by LLIs of a minute each, and has asked for the first."""
    up = Upstream(1, Rtt(), MINUTE, recovery)
    assert up.want(limit, NEVER, 0) == [Lli(1, limit, MINUTE)]
    return up


def opened(limit: int = 8, recovery: Recovery = Recovery.IN_NETWORK, rtt: int = 10 * MS) -> Upstream:
    """Its upstream has answered after a round trip that it has nothing yet."""
    up = asking(limit, recovery)
    up.answered(0, up.limit, rtt)
    assert up.state is State.OPEN
    return up


def pulling(limit: int = 8) -> Upstream:
    """Its upstream has answered with a bare item."""
    up = asking(limit)
    up.arrived(1, 10 * MS, bare=True)
    assert up.state is State.PULLING
    return up


def silent() -> Upstream:
    up = asking()
    while up.state is not State.SILENT:
        up.wake(up.deadline)
    return up


# Asking.


def test_first_want_asks_from_the_first_item() -> None:
    up = Upstream(7, Rtt())
    assert up.want(10, MINUTE * MS, 0) == [Lli(7, 4, MINUTE)]
    assert (up.next, up.head, up.limit, up.expiry, up.outstanding) == (7, 7, 10, MINUTE * MS, 4)
    assert [seq for seq in range(1, 20) if up.is_missing(seq)] == [7, 8, 9, 10]


def test_the_packet_of_an_lli() -> None:
    feed = feed_name(b"", bytes(32))
    interest = parse_interest(Lli(7, 4, 9000).packet(feed, 5, 12))
    assert interest.name == item_name(feed, 7)
    assert (interest.send_credit, interest.nonce, interest.lifetime_ms, interest.hop_limit) == (
        4,
        5,
        9000,
        12,
    )
    assert parse_interest(Lli(7, None, 9000).packet(feed, 5)).send_credit is None
    assert interest.known is None
    assert parse_interest(Lli(7, 4, 9000).packet(feed, 5, known=Evidence(3, 2))).known == Evidence(3, 2)


def test_an_extension_waits_until_it_is_as_large_as_what_is_left() -> None:
    up = opened(8)
    for item in range(1, 4):
        up.arrived(item, item * MS)
        assert up.want(up.head + 7, NEVER, item * MS) == []
    up.arrived(4, 4 * MS)
    assert up.want(12, NEVER, 4 * MS) == [Lli(9, 4, MINUTE)]


def test_nothing_is_asked_for_no_time_or_no_more() -> None:
    up = asking(8)
    assert up.want(8, NEVER, 1) == []
    assert up.want(100, MS // 2, 0) == []
    assert up.want(100, NEVER, 1) == [Lli(9, 92, MINUTE)]
    assert Upstream(1, Rtt()).want(0, NEVER, 0) == []


def test_an_lli_that_nobody_answers_is_repeated_with_patience() -> None:
    up = asking(8)
    waits, before = [], 0
    for _ in range(8):
        now = up.deadline
        assert up.wake(now - 1) == []
        assert up.wake(now) == [Lli(1, 8, MINUTE)]
        waits.append(now - before)
        before = now
        assert (up.state is State.SILENT) == (len(waits) >= MAX_TRIES)
    assert waits[:MAX_TRIES] == [INITIAL_TIMEOUT << n for n in range(MAX_TRIES)]
    assert waits[MAX_TRIES:] == [MAX_TIMEOUT] * 4


def test_what_is_repeated_is_the_lli_that_was_not_answered() -> None:
    up = opened(8)
    for item in range(1, 5):
        up.arrived(item, 20 * MS)
    assert up.want(12, NEVER, 20 * MS) == [Lli(9, 4, MINUTE)]
    assert up.wake(up.deadline) == [Lli(9, 4, MINUTE)]


def test_an_item_with_the_state_of_an_older_grant_is_no_answer() -> None:
    """An item that was under way when the LLI went out says nothing about the LLI."""
    up = opened(8)
    for item in range(1, 5):
        up.arrived(item, 20 * MS)
    up.want(12, NEVER, 20 * MS)
    states = []
    for limit in (8, 12):
        up.answered(5, limit, 21 * MS)
        states.append(up.state)
    assert states == [State.ASKING, State.OPEN]


def test_only_what_was_asked_once_tells_the_round_trip() -> None:
    rtt = Rtt()
    up = Upstream(1, rtt)
    up.want(8, NEVER, 0)
    up.wake(up.deadline)
    up.answered(0, up.limit, up.deadline - 1)
    assert rtt.smoothed is None
    up.wake(up.deadline)
    up.answered(0, up.limit, 5_000 * MS)
    assert rtt.smoothed is not None


def test_a_first_answer_may_be_that_to_an_lli_that_was_given_up() -> None:
    rtt = Rtt()
    before = Upstream(1, rtt)
    before.want(8, NEVER, 0)
    before.cancel(100 * MS)
    for asked, measured in ((100 * MS, None), (100 * MS + MAX_TIMEOUT, MS)):
        up = Upstream(1, rtt)
        up.want(8, NEVER, asked)
        up.answered(0, 8, asked + MS)
        assert rtt.smoothed == measured
        assert up.state is State.OPEN


def test_an_idle_feed_is_probed_ever_more_rarely_but_outlives_its_lifetime() -> None:
    up = opened(8)
    gaps, before = [], 0
    for _ in range(14):
        now = up.deadline
        assert up.wake(now) == [Lli(1, 8, MINUTE)]
        assert now < before + MINUTE * MS
        gaps.append(now - before)
        before = now
        up.answered(0, up.limit, now + 10 * MS)
    assert gaps == [IDLE_PROBE << min(n, MAX_IDLE_PROBES) for n in range(14)]


def test_a_busy_feed_is_probed_after_twice_its_longest_silence() -> None:
    up = opened(1000)
    now = 0
    for item in range(1, 500):
        now += 30 * MS
        up.arrived(item, now)
    assert now + 60 * MS <= up.deadline <= now + 70 * MS
    up.wake(up.deadline)
    up.answered(99, up.limit, now + 80 * MS)
    up.arrived(100, now := now + 200 * MS)
    assert up.deadline == now + 400 * MS


@pytest.mark.parametrize(("granted", "is_rest"), [(60_000, False), (55_000, False), (50_000, True)])
def test_hellos_renew_no_rest_of_a_lifetime(granted: int, is_rest: bool) -> None:
    up = Upstream(1, Rtt())
    up.want(8, granted * MS, 0)
    up.answered(0, 8, 10 * MS)
    up.is_watched = up.is_fed = True
    up.want(8, 60_010 * MS, 10 * MS)
    llis = []
    while up.deadline <= granted // 2 * MS:
        now = up.deadline
        llis += up.wake(now)
        assert not llis or now == granted // 2 * MS
    assert [lli.first for lli in llis] == [1] * is_rest
    assert all(lli.lifetime_ms == 60_010 - granted // 2 for lli in llis)


def test_a_short_lifetime_is_renewed_at_its_half() -> None:
    up = Upstream(1, Rtt(), 1000)
    assert up.want(8, NEVER, 0) == [Lli(1, 8, 1000)]
    up.answered(0, up.limit, 10 * MS)
    for now in (500 * MS, 1000 * MS, 1500 * MS):
        assert up.deadline == now
        assert up.wake(now) == [Lli(1, 8, 1000)]
        up.answered(0, up.limit, now + 10 * MS)


def test_a_holder_that_goes_with_its_lli_does_not_renew_it() -> None:
    up = Upstream(1, Rtt())
    assert up.want(8, 1500 * MS, 0) == [Lli(1, 8, 1500)]
    up.answered(0, up.limit, 10 * MS)
    assert up.deadline == IDLE_PROBE
    assert up.wake(IDLE_PROBE) == [Lli(1, 8, 500)]
    up.answered(0, up.limit, 1100 * MS)
    assert up.deadline > up.expiry == 1500 * MS
    assert up.want(8, 5000 * MS, 1200 * MS) == []
    assert up.deadline == 1250 * MS
    assert up.wake(1250 * MS) == [Lli(1, 8, 3750)]


def test_nothing_to_wait_for_needs_no_alarm() -> None:
    up = opened(2)
    up.arrived(1, 20 * MS)
    up.arrived(2, 20 * MS)
    assert (up.state, up.deadline, up.outstanding) == (State.IDLE, NEVER, 0)
    assert up.want(4, NEVER, 20 * MS) == [Lli(3, 2, MINUTE)]


def test_cancelling_is_said_unless_the_upstream_knows() -> None:
    up = opened(8)
    up.arrived(1, 20 * MS)
    assert up.cancel(30 * MS) == [Lli(2, 0, 1)]
    assert (up.state, up.deadline, up.outstanding) == (State.IDLE, NEVER, 0)
    assert up.cancel(30 * MS) == []
    spent = opened(1)
    spent.arrived(1, 20 * MS)
    assert spent.cancel(30 * MS) == []
    assert opened(8).cancel(MINUTE * MS) == []
    with_gap = opened(2)
    with_gap.arrived(2, 20 * MS)
    assert with_gap.cancel(30 * MS) == [Lli(3, 0, 1)]
    assert with_gap.outstanding == 0


def test_what_was_forgotten_is_asked_for_again_but_not_while_an_answer_may_come() -> None:
    up = opened()
    up.forgotten(20 * MS)
    assert up.want(8, NEVER, 20 * MS) == [Lli(1, 8, MINUTE)]
    up.forgotten(25 * MS)
    assert up.want(8, NEVER, 25 * MS) == []
    up.forgotten(20 * MS + INITIAL_TIMEOUT)
    assert up.want(8, NEVER, 20 * MS + INITIAL_TIMEOUT) == [Lli(1, 8, MINUTE)]


def test_a_demand_asks_for_all_that_is_wanted() -> None:
    """Its upstream may have started anew, and grants no more than this."""
    up = opened(8)
    up.arrived(1, 20 * MS)
    assert up.demand(1000 * MS) == [Lli(2, 7, MINUTE)]
    assert Upstream(1, Rtt()).demand(0) == []


def test_a_demand_prolongs_what_is_granted_so_that_its_end_is_told() -> None:
    up = opened(8)
    up.demand(30_000 * MS)
    assert (up.expiry, up.granted_ms) == (30_000 * MS + MINUTE * MS, MINUTE)
    assert up.cancel(70_000 * MS) == [Lli(1, 0, 1)], "the upstream would go on"


def test_what_is_here_is_skipped() -> None:
    up = opened(8)
    up.arrived(1, 20 * MS)
    up.arrived(4, 20 * MS)
    up.skip(3)
    assert (up.next, up.head, up.limit) == (3, 5, 8)
    up.skip(7)
    assert (up.next, up.head, up.limit, up.state) == (7, 7, 8, State.OPEN)
    up.skip(20)
    assert (up.next, up.limit, up.state, up.deadline) == (20, 19, State.IDLE, NEVER)


def test_a_repair_that_comes_bare_tells_nothing_of_the_upstream() -> None:
    """What is sent again comes bare from an upstream that pushes, too."""
    up = Upstream(1, Rtt())
    up.want(8, NEVER, 0)
    up.arrived(2, 10 * MS, bare=True)
    now = up.deadline
    assert [lli.first for lli in up.wake(now)] == [1]
    up.arrived(1, now + 10 * MS, bare=True)
    assert (up.state, up.limit, up.outstanding) == (State.ASKING, 8, 6)


def test_a_sign_of_life_ends_the_time_outs() -> None:
    up = opened(8)
    up.arrived(1, 20 * MS)
    while up.is_credible:
        up.wake(up.deadline)
    up.shows_life()
    assert up.is_credible


def test_nothing_is_wanted_beyond_a_fork() -> None:
    up = opened(8)
    up.arrived(1, 20 * MS)
    up.arrived(6, 20 * MS)
    up.stop_after(4, is_known=False)
    assert [seq for seq in range(1, 10) if up.is_missing(seq)] == [2, 3, 4]
    up.stop_after(1, is_known=True)
    assert (up.outstanding, up.deadline) == (0, NEVER)
    assert up.cancel(30 * MS) == [Lli(7, 0, 1)], "the upstream has been asked for more"
    assert up.cancel(30 * MS) == []


# Repairing.


def test_a_gap_is_asked_for_once_it_is_no_reordering() -> None:
    up = opened(8)
    up.arrived(1, 20 * MS)
    up.arrived(4, 21 * MS)
    assert up.state is State.REPAIRING
    delay = up.deadline - 21 * MS
    assert 0 < delay < 10 * MS
    assert up.wake(up.deadline - 1) == []
    assert up.wake(up.deadline) == [Lli(2, 2, MINUTE)]
    up.arrived(2, 40 * MS)
    up.arrived(3, 40 * MS)
    assert (up.state, up.next) == (State.OPEN, 5)


def test_reordering_makes_no_repair() -> None:
    up = opened(8)
    for seq in (2, 1, 4, 3, 6, 5):
        up.arrived(seq, 20 * MS)
        assert up.wake(20 * MS) == []
    assert (up.state, up.next) == (State.OPEN, 7)
    assert up.deadline > 40 * MS


def test_every_run_of_missing_items_is_asked_for_by_an_lli_of_its_own() -> None:
    up = opened(20)
    for seq in (1, 3, 6, 10):
        up.arrived(seq, 20 * MS)
    assert up.wake(up.deadline) == [Lli(2, 1, MINUTE), Lli(4, 2, MINUTE), Lli(7, 3, MINUTE)]


def test_a_repair_in_vain_is_made_by_name() -> None:
    """An upstream that has let go of an item finds it further up if it is asked for by name."""
    up = opened(8)
    up.arrived(3, 20 * MS)
    assert up.wake(up.deadline) == [Lli(1, 2, MINUTE)]
    up.arrived(1, 40 * MS)
    assert up.wake(up.deadline) == [Lli(2, None, PULL_LIFETIME_MS)]


def test_repairs_without_a_sign_of_life_end_in_silence() -> None:
    up = opened(8)
    up.arrived(3, 20 * MS)
    rounds = 0
    while up.state is State.REPAIRING:
        assert up.wake(up.deadline)
        rounds += 1
    assert up.state is State.SILENT
    assert rounds == MAX_TRIES + 1


def test_going_back_asks_from_the_first_missing_item_to_the_end() -> None:
    up = opened(8, Recovery.GO_BACK_N)
    for seq in (1, 3, 5):
        up.arrived(seq, 20 * MS)
    assert up.wake(up.deadline) == [Lli(2, 7, MINUTE)]
    assert up.wake(up.deadline) == [Lli(2, 7, MINUTE)]


def test_selecting_asks_for_each_missing_item_by_name() -> None:
    up = opened(8, Recovery.SELECTIVE)
    for seq in (1, 3, 5):
        up.arrived(seq, 20 * MS)
    assert up.wake(up.deadline) == [Lli(seq, None, PULL_LIFETIME_MS) for seq in (2, 4)]


def test_a_relay_that_repairs_nothing_does_not_ask() -> None:
    up = opened(8, Recovery.NONE)
    up.arrived(4, 20 * MS)
    assert (up.state, up.next, up.outstanding) == (State.OPEN, 5, 4)
    assert not up.is_missing(2)


@pytest.mark.parametrize("recovery", Recovery)
def test_a_lost_tail_that_is_known_is_asked_for_soon(recovery: Recovery) -> None:
    up = opened(8, recovery)
    up.answered(4, 8, 20 * MS)
    up.arrived(1, 20 * MS)
    assert up.deadline <= 60 * MS < 20 * MS + IDLE_PROBE
    assert up.wake(up.deadline) == [Lli(2, 7, MINUTE)]


def test_a_tail_that_turns_out_not_to_exist_is_waited_for() -> None:
    up = opened(8, Recovery.IN_NETWORK)
    up.answered(4, 8, 20 * MS)
    now = up.deadline
    assert up.wake(now) == [Lli(1, 8, MINUTE)]
    up.answered(0, 8, now + 10 * MS)
    assert up.deadline >= now + IDLE_PROBE


def test_a_known_tail_is_asked_for_with_patience_and_without_end_in_silence() -> None:
    up = opened(8, Recovery.GO_BACK_N)
    up.answered(4, 8, 20 * MS)
    waits, before = [], 0
    for _ in range(MAX_TRIES):
        now = up.deadline
        assert up.wake(now) == [Lli(1, 8, MINUTE)]
        waits.append(now - before)
        before = now
    assert all(b == 2 * a for a, b in pairwise(waits))
    assert up.state is State.SILENT
    assert up.deadline == before + MAX_TIMEOUT


def reorder_delay(rtt: Rtt, up: Upstream, seq: int, now: int) -> int:
    """How long the item before `seq` may be late, when `seq` comes."""
    up.arrived(seq, now)
    return up.deadline - now


def test_a_repair_for_nothing_makes_the_next_one_wait_longer_and_a_loss_less_long() -> None:
    rtt = Rtt()
    up = Upstream(1, rtt, MINUTE)
    up.want(1000, NEVER, 0)
    up.answered(0, up.limit, 40 * MS)
    now, seq, delays = 40 * MS, 0, []
    for late in [True] * 5 + [False] * 20:  # a loss counts once its first copy would have come
        now += 40 * MS
        seq += 2
        delays.append(reorder_delay(rtt, up, seq, now))
        now = up.deadline
        assert up.wake(now)
        now += MS
        up.arrived(seq - 1, now)  # the item, or its repair
        if late:
            up.came_again(seq - 1)
    first = delays[0]
    assert first == 10 * MS  # a quarter of the round trip
    assert delays[:5] == sorted(delays[:5])
    assert 4 * first <= delays[4] <= 8 * first
    assert delays[5:] == sorted(delays[5:], reverse=True)
    assert delays[-1] == first


def test_the_second_copy_after_a_repair_tells_of_reordering_even_if_nothing_is_missing_any_more() -> None:
    """The late original and its repair both come; the second of them is the news."""
    rtt = Rtt()
    up = Upstream(1, rtt, MINUTE)
    up.want(8, NEVER, 0)
    up.answered(0, up.limit, 40 * MS)
    before = rtt.reorder_delay()
    up.arrived(2, 80 * MS)
    assert up.wake(up.deadline) == [Lli(1, 1, MINUTE)]
    up.arrived(1, 95 * MS)
    up.came_again(1)
    assert rtt.reorder_delay() == 2 * before


# Congestion.


def test_a_mark_halves_what_is_in_use_once_for_all_that_was_asked_for_and_it_grows_back() -> None:
    up = opened(64)
    up.congested(1)
    assert up.window.size == 32
    up.congested(64)
    assert up.window.size == 32
    up.congested(65)
    assert up.window.size == 16
    seq = 0
    while up.window.size is not None and seq < 10_000:
        seq += 1
        up.arrived(seq, 100 * MS + seq * MS)
        up.want(seq + 64, NEVER, 100 * MS + seq * MS)
    assert up.window.size is None
    assert seq > 500  # one more a window: 16 and 17 and 18 and so on up to 64


def test_credit_beyond_the_window_is_not_asked_for() -> None:
    up = opened(16)
    up.congested(1)
    for seq in range(1, 12):
        up.arrived(seq, 30 * MS)
        assert up.want(100, NEVER, 30 * MS) == []
    assert up.window.size == 9
    up.arrived(12, 30 * MS)
    assert up.want(100, NEVER, 30 * MS) == [Lli(17, 5, MINUTE)]


def test_a_loss_shrinks_the_window_only_if_the_upstream_holds_more_than_has_come() -> None:
    idle = opened(16)
    idle.arrived(2, 20 * MS)
    idle.wake(idle.deadline)
    assert idle.window.size is None
    busy = opened(16)
    busy.answered(40, 16, 20 * MS)
    busy.arrived(2, 20 * MS)
    busy.wake(busy.deadline)
    assert busy.window.size == 8


# An upstream that cannot push.


def test_a_bare_first_answer_makes_it_pull_ahead() -> None:
    up = pulling()
    assert up.want(8, NEVER, 10 * MS) == [Lli(seq, 1, PULL_LIFETIME_MS) for seq in range(2, 9)]
    assert up.want(8, NEVER, 10 * MS) == []
    up.arrived(2, 20 * MS, bare=True)
    assert up.want(9, NEVER, 20 * MS) == [Lli(9, 1, PULL_LIFETIME_MS)]


def test_a_bare_item_later_or_of_another_number_is_no_such_answer() -> None:
    up = asking()
    up.arrived(2, 10 * MS, bare=True)
    assert up.state is State.REPAIRING
    up = opened()
    up.arrived(1, 20 * MS, bare=True)
    assert up.state is State.OPEN


def test_it_pulls_no_more_than_a_window_ahead() -> None:
    up = pulling(1000)
    llis = up.want(1000, NEVER, 10 * MS)
    assert [lli.first for lli in llis] == list(range(2, PULL_WINDOW + 2))
    up.arrived(3, 20 * MS, bare=True)
    assert up.want(1000, NEVER, 20 * MS) == []
    up.arrived(2, 20 * MS, bare=True)
    assert [lli.first for lli in up.want(1000, NEVER, 20 * MS)] == [PULL_WINDOW + 2, PULL_WINDOW + 3]


def test_where_nothing_comes_one_item_is_pulled_again_and_the_others_once_that_has_come() -> None:
    up = pulling()
    up.want(8, NEVER, 10 * MS)
    assert up.deadline == 10 * MS + PULL_LIFETIME_MS * MS
    ended = up.deadline
    assert up.wake(ended) == [Lli(2, 1, PULL_LIFETIME_MS)]
    assert up.want(8, NEVER, ended) == []
    assert up.deadline == ended + PULL_LIFETIME_MS * MS // 2
    up.arrived(2, ended + 10 * MS, bare=True)
    assert up.want(8, NEVER, ended + 10 * MS) == [Lli(seq, 1, PULL_LIFETIME_MS) for seq in range(3, 9)]


def test_a_lost_item_is_pulled_again_at_once() -> None:
    up = pulling()
    up.want(8, NEVER, 10 * MS)
    up.arrived(3, 20 * MS, bare=True)
    assert up.deadline < 200 * MS
    assert up.wake(up.deadline) == [Lli(2, 1, PULL_LIFETIME_MS)]


def test_a_state_from_an_upstream_that_seemed_not_to_push_makes_it_push() -> None:
    up = pulling()
    up.want(8, NEVER, 10 * MS)
    up.answered(2, 2, 20 * MS)
    up.arrived(2, 20 * MS)
    assert up.state is State.OPEN
    assert up.want(64, NEVER, 20 * MS) == [Lli(9, 56, MINUTE)]


def test_silence_is_taken_for_a_legacy_path() -> None:
    up = silent()
    now = up.deadline
    up.assume_legacy()
    assert up.state is State.PULLING
    assert up.want(8, NEVER, now) == [Lli(1, 1, PULL_LIFETIME_MS)]
    assert up.deadline == now + PULL_LIFETIME_MS * MS
    up.arrived(1, now + MS, bare=True)
    assert up.want(8, NEVER, now + MS) == [Lli(seq, 1, PULL_LIFETIME_MS) for seq in range(2, 9)]


# The state machine.


class Taken(dict[Event, State]):
    """A row of the table that notes which of its entries is used."""

    def __init__(self, state: State, taken: list[tuple[State, Event]]) -> None:
        super().__init__(TRANSITIONS[state])
        self.state = state
        self.taken = taken

    def get(self, event: Event, default: State | None = None) -> State | None:  # type: ignore[override]
        if event in self:
            self.taken.append((self.state, event))
        return super().get(event, default)


def wake_until(state: State) -> Callable[[Upstream], None]:
    def act(up: Upstream) -> None:
        for _ in range(10):
            if up.state is not state:
                up.wake(up.deadline)

    return act


def repairing() -> Upstream:
    up = opened()
    up.arrived(3, 20 * MS)
    return up


def silent_repairing() -> Upstream:
    up = repairing()
    wake_until(State.SILENT)(up)
    return up


def asking_with_gap() -> Upstream:
    up = asking()
    up.arrived(3, 20 * MS)
    up.arrived(1, 20 * MS)
    return up


def all_arrive(up: Upstream) -> None:
    for seq in range(up.head, up.limit + 1):
        up.arrived(seq, 20 * MS)


def pulled() -> Upstream:
    up = pulling()
    up.want(8, NEVER, 10 * MS)
    return up


WAYS: dict[tuple[State, Event], tuple[Callable[[], Upstream], Callable[[Upstream], object]]] = {
    (State.IDLE, Event.ASK): (lambda: Upstream(1, Rtt()), lambda up: up.want(8, NEVER, 0)),
    (State.IDLE, Event.ASSUME): (lambda: Upstream(1, Rtt()), lambda up: up.assume_legacy()),
    (State.ASKING, Event.ANSWER): (asking, lambda up: up.answered(0, up.limit, 10)),
    (State.ASKING, Event.BARE): (asking, lambda up: up.arrived(1, 10, bare=True)),
    (State.ASKING, Event.GAP): (asking, lambda up: up.arrived(2, 10)),
    (State.ASKING, Event.UNANSWERED): (asking, wake_until(State.SILENT)),
    (State.ASKING, Event.SPENT): (asking, lambda up: up.cancel(10)),
    (State.OPEN, Event.ASK): (opened, lambda up: up.want(16, NEVER, 20 * MS)),
    (State.OPEN, Event.GAP): (opened, lambda up: up.arrived(2, 20 * MS)),
    (State.OPEN, Event.SPENT): (opened, all_arrive),
    (State.REPAIRING, Event.FILLED): (asking_with_gap, lambda up: up.arrived(2, 20 * MS)),
    (State.REPAIRING, Event.UNANSWERED): (repairing, wake_until(State.SILENT)),
    (State.REPAIRING, Event.SPENT): (repairing, lambda up: up.cancel(30 * MS)),
    (State.PULLING, Event.ANSWER): (pulled, lambda up: up.answered(2, 2, 20 * MS)),
    (State.PULLING, Event.UNANSWERED): (pulled, wake_until(State.SILENT)),
    (State.SILENT, Event.ANSWER): (silent, lambda up: up.answered(0, up.limit, 20_000 * MS)),
    (State.SILENT, Event.BARE): (silent, lambda up: up.arrived(1, 20_000 * MS, bare=True)),
    (State.SILENT, Event.ASSUME): (silent_repairing, lambda up: up.assume_legacy()),
    (State.SILENT, Event.SPENT): (silent, lambda up: up.cancel(20_000 * MS)),
}


def rows() -> list[tuple[State, Event]]:
    return [(state, event) for state, row in TRANSITIONS.items() for event in row]


@pytest.mark.patches
@pytest.mark.parametrize(("state", "event"), rows(), ids=lambda part: part.name)
def test_every_row_of_the_table_is_reached_and_leads_where_it_says(
    state: State, event: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, act = WAYS[state, event]
    up = start()
    assert up.state is state
    taken: list[tuple[State, Event]] = []
    monkeypatch.setattr(upstream, "TRANSITIONS", {state: Taken(state, taken) for state in State})
    act(up)
    assert (state, event) in taken
    assert up.state is TRANSITIONS[state][event]


def test_no_row_is_walked_in_vain() -> None:
    assert set(WAYS) == set(rows())
    assert set(TRANSITIONS) == set(State)


# Against a model of an upstream, over a link that loses, delays, reorders and duplicates.

FEED = feed_name(b"", bytes(32))
DATA: dict[int, Data] = {n: parse_data(make_data(item_name(FEED, n), b"")) for n in range(1, 201)}
NUMBERS = {data.wire: seq for seq, data in DATA.items()}


class Link:
    """Virtual time, and a holder and its upstream on the two ends of a link."""

    def __init__(self, seed: int, recovery: Recovery, loss: float, jitter: int, legacy: bool) -> None:
        self.rng = Random(seed)
        self.loss = loss
        self.jitter = jitter
        self.legacy = legacy
        self.now = 0
        self.tip = 0
        self.ranges = Ranges()
        self.pending: dict[int, int] = {}
        self.credit = FixedCredit(16)
        self.up = Upstream(1, Rtt(), MINUTE, recovery)
        self.got: set[int] = set()
        self.sent_up = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, when: int, what: Callable[[], None]) -> None:
        heappush(self._queue, (when, next(self._order), what))

    def carry(self, what: Callable[[], None]) -> None:
        for _ in range(2 if self.rng.random() < self.loss / 2 else 1):
            if self.rng.random() >= self.loss:
                self.at(self.now + 10 * MS + self.rng.randrange(self.jitter + 1), what)

    # The holder.

    def send_up(self, llis: list[Lli]) -> None:
        for lli in llis:
            self.sent_up += 1
            packet = lli.packet(FEED, self.rng.getrandbits(32))
            self.carry(lambda packet=packet: self.asked(packet))  # type: ignore[misc]

    def want(self) -> None:
        up = self.up
        self.send_up(
            up.want(self.credit.limit(up.next - 1, up.next - 1, up.limit, self.now), NEVER, self.now)
        )

    def came(self, packet: bytes) -> None:
        header, up = parse_lp(packet), self.up
        seq = NUMBERS.get(header.fragment)
        if header.tip is not None:
            up.answered(header.tip, header.limit or 0, self.now)
        if seq is not None and up.is_missing(seq):
            self.got.add(seq)
            up.arrived(seq, self.now, bare=header.tip is None)
        elif seq is not None:
            up.came_again(seq)
        self.want()

    # Its upstream: the one that pushes, or a forwarder that has never heard of that.

    def get(self, seq: int) -> Data | None:
        return DATA[seq] if seq <= self.tip else None

    def send_down(self, packets: list[bytes]) -> None:
        for packet in packets:
            self.carry(lambda packet=packet: self.came(packet))  # type: ignore[misc]

    def asked(self, packet: bytes) -> None:

        lli = parse_interest(packet)
        first = int.from_bytes(lli.name[len(FEED) + 2 :], "big")
        if self.legacy or lli.send_credit is None:
            if data := self.get(first):
                self.send_down([data.wire])
            else:
                self.pending[first] = self.now + lli.lifetime_ms * MS
            return
        again = [data.wire for data in self.ranges.grant(1, first, lli, self.now, self.get)]
        served = list(self.ranges.serve(1, self.get, self.tip, None))
        self.send_down(again + served)
        granted = self.ranges.get(1)
        if granted is not None and not served and not again:
            self.send_down([make_feed_state(FEED, tip=self.tip, limit=granted.limit)])

    def publish(self) -> None:
        self.tip += 1
        self.ranges.expire(self.now)
        self.send_down(list(self.ranges.serve(1, self.get, self.tip, None)))
        if self.pending.pop(self.tip, 0) > self.now:
            self.send_down([DATA[self.tip].wire])

    def run(self, items: int, gaps: list[int], heals_at: int) -> int:
        """Run until everything is there; return the number of steps."""
        when = 0
        for place in range(items):
            when += gaps[place % len(gaps)]
            self.at(when, self.publish)
        self.want()
        for step in range(100_000):
            if len(self.got) == items:
                return step
            deadline = self.up.deadline
            if self._queue and self._queue[0][0] <= deadline:
                self.now, _, act = heappop(self._queue)
                if self.now >= heals_at:
                    self.loss = 0.0
                act()
            else:
                assert deadline < NEVER, "an item is missing, and nothing is going to happen"
                self.now = max(self.now, deadline)
                if self.now >= heals_at:
                    self.loss = 0.0
                self.send_up(self.up.wake(self.now))
                if self.up.state is State.SILENT and self.legacy:
                    self.up.assume_legacy()
                self.want()
                assert self.up.deadline > self.now, "an alarm that is always due"
        raise AssertionError("not everything has come")


@settings(max_examples=250)
@given(
    seed=st.integers(0, 1 << 30),
    recovery=st.sampled_from([Recovery.IN_NETWORK, Recovery.GO_BACK_N, Recovery.SELECTIVE]),
    loss=st.sampled_from([0.0, 0.05, 0.3, 0.7]),
    jitter=st.sampled_from([0, 3 * MS, 40 * MS]),
    legacy=st.booleans(),
    items=st.integers(1, 60),
    gaps=st.lists(st.sampled_from([0, MS, 30 * MS, 900 * MS]), min_size=1, max_size=4),
)
def test_everything_comes_in_the_end_and_in_bounded_steps(
    seed: int, recovery: Recovery, loss: float, jitter: int, legacy: bool, items: int, gaps: list[int]
) -> None:
    link = Link(seed, recovery, loss, jitter, legacy)
    heals_at = 5_000 * MS
    steps = link.run(items, gaps, heals_at)
    assert link.got == set(range(1, items + 1))
    assert steps <= 400 + 40 * items
    last = sum(gaps[place % len(gaps)] for place in range(items))
    assert link.now <= max(last, heals_at) + 20_000 * MS
    if not loss and not jitter and not legacy:
        assert link.sent_up <= 10 + items // 4 + link.now // (900 * MS)


def test_where_repeated_pulls_bring_the_items_the_next_are_repeated_soon_until_one_comes_without() -> None:
    up = pulling()
    up.want(8, NEVER, 10 * MS)
    now = up.deadline
    up.wake(now)
    up.arrived(2, now + 10 * MS, bare=True)
    assert [lli.first for lli in up.want(8, NEVER, now + 10 * MS)] == [3, 4, 5, 6, 7, 8]
    soon = up.deadline
    assert soon < now + PULL_LIFETIME_MS * MS // 8
    assert up.wake(soon) == [Lli(3, 1, PULL_LIFETIME_MS)]
    up.arrived(3, soon + 600 * MS, bare=True)  # too late to be due to that
    up.want(8, NEVER, soon + 600 * MS)
    assert up.deadline == now + 10 * MS + PULL_LIFETIME_MS * MS


# What it takes a path for.


def test_a_burst_that_is_paced_is_not_taken_for_a_lost_tail() -> None:
    up = opened(100)
    up.answered(100, 100, 20 * MS)
    now = 20 * MS
    for seq in range(1, 21):
        now += 100 * MS
        up.arrived(seq, now)
    assert up.deadline >= now + 300 * MS
    up.answered(20, 100, now)
    quick = opened(100)
    quick.answered(100, 100, 20 * MS)
    quick.arrived(1, 20 * MS)
    assert quick.deadline <= 20 * MS + 60 * MS, "nothing is known of its pace"


def test_one_repair_is_one_answer_however_many_items_it_brings() -> None:
    """Items asked for twice tell whether the time-out is right, but ten of one repair tell it once."""
    rtt = Rtt()
    up = Upstream(1, rtt, MINUTE)
    up.want(64, NEVER, 0)
    up.answered(0, 64, 10 * MS)
    before = rtt.timeout()
    up.arrived(11, 20 * MS)
    assert up.wake(up.deadline) == [Lli(1, 10, MINUTE)]
    again = up.deadline
    assert len(up.wake(again)) == 10
    for seq in range(1, 11):
        up.arrived(seq, again + 10 * MS)
    assert rtt.timeout() == before


def with_a_long_pause() -> tuple[Upstream, int]:
    """Items each 10 ms, but for one pause at the beginning."""
    up = opened(10_000)
    now = 20 * MS
    up.arrived(1, now)
    now += 900 * MS
    for seq in range(2, 60):
        up.arrived(seq, now)
        now += 10 * MS
    return up, now - 10 * MS


def test_a_path_that_loses_is_probed_sooner_for_a_while() -> None:
    up, now = with_a_long_pause()
    assert up.deadline >= now + 500 * MS
    up.arrived(61, now := now + 10 * MS)
    assert up.wake(up.deadline)
    up.arrived(60, now := now + 20 * MS)
    up.arrived(62, now := now + 10 * MS)
    assert up.deadline <= now + 100 * MS, "what comes last may be lost, too"
    for seq in range(63, 130):
        up.arrived(seq, now := now + 10 * MS)
    assert up.deadline >= now + 200 * MS, "no loss for long"
