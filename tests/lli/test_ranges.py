"""Ranges against an obvious model: the set of items that each downstream may be sent."""

from hypothesis import given, settings
from hypothesis import strategies as st

from base.units import MS
from forwarder.lli.ranges import LAST_ITEM, MOST_AGAIN, REMEMBERED_NONCES, Ranges
from forwarder.lli.upstream import PULL_WINDOW
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import Data, Interest, make_data, make_interest, parse_data, parse_interest

DATA: dict[int, Data] = {n: parse_data(make_data(b"\x08\x01" + bytes((n,)), b"")) for n in range(1, 101)}

ITEM = item_name(feed_name(b"", bytes(32)), 1)

NUMBERS = {data.wire: seq for seq, data in DATA.items()}


def lli(credit: int | None, nonce: int, lifetime_ms: int = 1000) -> Interest:
    wire = make_interest(ITEM, nonce=nonce, lifetime_ms=lifetime_ms, send_credit=credit)
    return parse_interest(wire)


def grant(
    ranges: Ranges, face: int, first: int, credit: int, nonce: int, now: int = 0, lifetime_ms: int = 1000
) -> list[int]:
    """Apply an LLI; return the items asked for again."""
    again = ranges.grant(face, first, lli(credit, nonce, lifetime_ms), now, DATA.get)
    return [NUMBERS[data.wire] for data in again]


def serve(ranges: Ranges, face: int, tip: int) -> list[tuple[int, int | None]]:
    """(item, announced limit) of everything sent."""
    packets = ranges.serve(face, lambda seq: DATA.get(seq) if seq <= tip else None, tip, None)
    headers = [parse_lp(packet) for packet in packets]
    assert all(header.tip in (None, tip) for header in headers)
    return [(NUMBERS[header.fragment], header.limit) for header in headers]


def items(ranges: Ranges, face: int, tip: int) -> list[int]:
    return [seq for seq, _ in serve(ranges, face, tip)]


def test_a_range_is_served_item_by_item_and_ends_with_its_credit() -> None:
    ranges = Ranges()
    grant(ranges, 1, 3, 4, nonce=1)
    assert items(ranges, 1, 4) == [3, 4]
    assert items(ranges, 1, 4) == []
    assert items(ranges, 2, 4) == []
    assert items(ranges, 1, 40) == [5, 6]
    assert not ranges


def test_a_renewal_extends() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 4, nonce=1)
    assert items(ranges, 1, 3) == [1, 2, 3]
    grant(ranges, 1, 5, 4, nonce=2)
    assert items(ranges, 1, 40) == [4, 5, 6, 7, 8]


def test_a_renewal_that_starts_later_grants_what_the_lost_one_did() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 4, nonce=1)
    grant(ranges, 1, 9, 4, nonce=3)
    assert items(ranges, 1, 40) == list(range(1, 13))


def test_an_lli_that_reaches_to_what_has_not_been_sent_rewinds() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 8, nonce=1)
    assert items(ranges, 1, 5) == [1, 2, 3, 4, 5]
    assert grant(ranges, 1, 2, 5, nonce=2) == []
    assert items(ranges, 1, 40) == [2, 3, 4, 5, 6, 7, 8]


def test_an_lli_for_what_has_been_sent_asks_for_just_that_again() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 8, nonce=1)
    assert items(ranges, 1, 5) == [1, 2, 3, 4, 5]
    assert grant(ranges, 1, 2, 2, nonce=2) == [2, 3]
    assert items(ranges, 1, 5) == []
    assert items(ranges, 1, 40) == [6, 7, 8]


def test_what_is_asked_for_again_and_not_at_hand_is_sent_once_it_is_and_the_range_stays_what_it_is() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 8, nonce=1)
    assert items(ranges, 1, 5) == [1, 2, 3, 4, 5]
    without_3 = {seq: data for seq, data in DATA.items() if seq not in (3, 6, 7)}
    assert ranges.grant(1, 2, lli(2, 2), 0, without_3.get) == []
    granted = ranges.get(1)
    assert granted is not None
    assert (granted.wanted, granted.wanted_until, ranges.first_wanted()) == (2, 3, 2)
    assert [NUMBERS[parse_lp(sent).fragment] for sent in ranges.serve(1, without_3.get, 5, None)] == [2]
    assert (granted.wanted, granted.wanted_until) == (3, 3)
    assert items(ranges, 1, 6) == [3, 6]
    assert (granted.wanted, granted.wanted_until) == (7, 8)
    assert items(ranges, 1, 40) == [7, 8]
    assert not ranges


def test_one_lli_asks_for_so_much_again_and_no_more() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 200, nonce=1)
    assert items(ranges, 1, 99) == list(range(1, 100))
    assert grant(ranges, 1, 1, 90, nonce=2) == list(range(27, 91))


def test_a_duplicate_of_the_link_changes_nothing() -> None:
    ranges = Ranges()
    for nonce in (1, 2, 3, 4):
        grant(ranges, 1, 4 * nonce - 3, 4, nonce=nonce, now=nonce)
    assert items(ranges, 1, 9) == list(range(1, 10))
    for nonce in (1, 2, 3, 4):
        assert ranges.is_repeated(1, nonce)
        assert grant(ranges, 1, 1, 100, nonce=nonce, now=500 * MS) == []
    assert items(ranges, 1, 40) == list(range(10, 17))
    grant(ranges, 1, 1, 2, nonce=9)
    assert not ranges.is_repeated(2, 9)


def test_a_duplicate_does_not_prolong_a_grant() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 4, nonce=1, now=0)
    grant(ranges, 1, 1, 4, nonce=1, now=500 * MS)
    assert ranges.first_expiry() == 1000 * MS
    grant(ranges, 1, 1, 4, nonce=2, now=500 * MS)
    assert ranges.first_expiry() == ranges.last_expiry() == 1500 * MS


def test_evidence_goes_without_its_proof_to_those_who_hold_the_number() -> None:
    told = Evidence(4, 1, True, bytes(64))
    for known, shown in (
        (Evidence(4, 2, True), told.bare),
        (Evidence(4, 2), told),
        (Evidence(3, 2, True), told),
        (Evidence(4, 0, True), told),  # a demand, which says nothing about what is held
        (None, told),
    ):
        ranges = Ranges()
        asks = make_interest(ITEM, nonce=1, lifetime_ms=1000, send_credit=1, known=known)
        ranges.grant(1, 1, parse_interest(asks), 0, DATA.get)
        granted = ranges.get(1)
        assert granted is not None
        granted.told = told
        assert granted.shown() == shown


def test_only_the_newest_nonces_are_remembered() -> None:
    ranges = Ranges()
    for nonce in range(REMEMBERED_NONCES + 1):
        grant(ranges, 1, 4 * nonce + 1, 4, nonce=nonce)
    assert [nonce for nonce in range(60) if ranges.is_repeated(1, nonce)] == list(range(1, 49))
    assert REMEMBERED_NONCES > PULL_WINDOW  # else what one asks for at a time hides its own duplicates


def test_an_lli_does_not_shorten_what_another_was_granted() -> None:
    ranges = Ranges()  # two nodes ask by way of one legacy forwarder
    grant(ranges, 1, 1, 8, nonce=1, lifetime_ms=60_000)
    grant(ranges, 1, 8, 1, nonce=2, lifetime_ms=4_000)
    assert ranges.first_expiry() == 60_000 * MS


def test_credit_zero_cancels_and_time_expires() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 4, nonce=1)
    grant(ranges, 2, 3, 4, nonce=2, lifetime_ms=500)
    assert (ranges.first_expiry(), ranges.last_expiry()) == (500 * MS, 1000 * MS)
    assert (ranges.first_wanted(), ranges.last_wanted()) == (1, 6)
    assert not ranges.expire(500 * MS - 1)
    assert len(ranges) == 2
    assert ranges.expire(500 * MS)
    assert [face for face, _ in ranges.items()] == [1]
    assert 1 in ranges
    assert 2 not in ranges
    grant(ranges, 1, 1, 0, nonce=3)
    assert not ranges
    grant(ranges, 1, 1, 0, nonce=4)
    assert not ranges
    assert not ranges.drop(1)


def test_the_state_goes_with_the_answer_to_an_lli_and_while_more_follows() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 4, nonce=1)
    assert [limit for _, limit in serve(ranges, 1, 1)] == [4]
    assert [limit for _, limit in serve(ranges, 1, 2)] == [None]
    assert [limit for _, limit in serve(ranges, 1, 4)] == [4, None]
    grant(ranges, 1, 5, 4, nonce=2)
    assert [limit for _, limit in serve(ranges, 1, 5)] == [8]


def test_a_strangers_lifetime_is_an_hour_at_most() -> None:
    ranges = Ranges()
    for now in (0, 5 * MS):
        grant(ranges, 1, 1, 8, nonce=now, now=now, lifetime_ms=1 << 60)
        assert ranges.last_expiry() == now + 3_600_000 * MS
        assert ranges.longest_lifetime() == 3_600_000 * MS


def test_what_has_expired_is_not_brought_back() -> None:
    ranges = Ranges()
    grant(ranges, 1, 2, 30, nonce=1)
    grant(ranges, 1, 2, 2, nonce=2, now=10_000 * MS)
    assert items(ranges, 1, 40) == [2, 3]


def test_a_strangers_credit_ends_with_the_numbers() -> None:
    ranges = Ranges()
    grant(ranges, 1, LAST_ITEM, LAST_ITEM, nonce=1)
    granted = ranges.get(1)
    assert granted is not None
    assert (granted.next, granted.limit) == (LAST_ITEM, LAST_ITEM)


def test_an_item_sent_out_of_turn_uses_up_what_comes_before_it() -> None:
    ranges = Ranges()
    grant(ranges, 1, 1, 4, nonce=1)
    granted = ranges.get(1)
    assert granted is not None
    assert parse_lp(ranges.send(1, granted, 3, DATA[3], 3, None)).limit == 4
    assert items(ranges, 1, 40) == [4]


GRANTS = st.tuples(
    st.integers(1, 3), st.integers(1, 30), st.integers(0, 10), st.integers(0, 40), st.integers(0, 800)
)


@settings(max_examples=300)
@given(st.lists(GRANTS, max_size=40))
def test_never_more_than_was_granted(steps: list[tuple[int, int, int, int, int]]) -> None:
    """The model: what a downstream may be sent is the set of the items that its LLIs have named.

    What lies between an old limit and a later LLI was named by one that is lost.
    """
    ranges = Ranges()
    granted: dict[int, set[int]] = {1: set(), 2: set(), 3: set()}
    sent: dict[tuple[int, int], int] = {}  # how often
    named: dict[tuple[int, int], int] = {}
    now = 0
    for nonce, (face, first, credit, tip, wait_ms) in enumerate(steps):
        now += wait_ms * MS
        before = ranges.get(face)
        if before is not None and before.expiry <= now:
            before = None
        if before is None or credit == 0:
            granted[face].clear()
        if credit:
            start = first if before is None else min(first, before.limit + 1)
            granted[face].update(range(start, first + credit))
            for seq in range(start, first + credit):
                named[face, seq] = named.get((face, seq), 0) + 1
        now_sent = grant(ranges, face, first, credit, nonce, now) + items(ranges, face, tip)
        assert set(now_sent) <= granted[face]
        assert len(set(now_sent)) == len(now_sent)
        for seq in now_sent:
            sent[face, seq] = sent.get((face, seq), 0) + 1
            assert sent[face, seq] <= named[face, seq], "each LLI pays for an item once"
        ranges.expire(now)
        for other, left in ranges.items():
            assert {*range(left.next, left.limit + 1), left.wanted} <= granted[other]


@settings(max_examples=200)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=8), st.integers(0, 100), st.data())
def test_renewals_in_any_order_and_number_grant_the_same(
    sizes: list[int], tip: int, data: st.DataObject
) -> None:
    """LLIs are absolute: those of a consumer, reordered, duplicated, give what they do in order.

    As long as no more than MOST_AGAIN items come to lie before the range.
    """
    assert sum(sizes) <= MOST_AGAIN
    firsts = [1 + sum(sizes[:place]) for place in range(len(sizes))]
    llis = [(first, credit, nonce) for nonce, (first, credit) in enumerate(zip(firsts, sizes, strict=True))]
    order = data.draw(st.permutations(llis))
    ranges = Ranges()
    sent: set[int] = set()
    for first, credit, nonce in order:
        for _ in range(data.draw(st.integers(1, 3))):
            again = ranges.grant(
                1, first, lli(credit, nonce), 0, lambda seq: DATA.get(seq) if seq <= tip else None
            )
            sent.update(NUMBERS[packet.wire] for packet in again)
            sent.update(items(ranges, 1, tip))
    sent.update(items(ranges, 1, 100))
    assert sent == set(range(1, sum(sizes) + 1))


def test_a_first_lli_that_comes_second_takes_nothing_away() -> None:
    """A relay asks for 1+4 and at once, for another downstream, for 5+4; they overtake each other."""
    ranges = Ranges()
    none_yet: dict[int, Data] = {}
    ranges.grant(1, 5, lli(4, 2), 0, none_yet.get)
    ranges.grant(1, 1, lli(4, 1), 0, none_yet.get)
    assert items(ranges, 1, 40) == [1, 2, 3, 4, 5, 6, 7, 8]
