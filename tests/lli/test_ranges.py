"""Ranges against an obvious model: the set of items that each downstream may be sent."""

from hypothesis import given
from hypothesis import strategies as st

from forwarder.lli.ranges import Ranges
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import Data, Interest, make_data, make_interest, parse_data, parse_interest

MS = 1_000_000
DATA: dict[int, Data] = {n: parse_data(make_data(b"\x08\x01" + bytes((n,)), b"")) for n in range(1, 41)}

NUMBERS = {data.wire: seq for seq, data in DATA.items()}


def lli(credit: int, nonce: int, lifetime_ms: int = 1000) -> Interest:
    wire = make_interest(b"\x08\x01x", nonce=nonce, lifetime_ms=lifetime_ms, send_credit=credit)
    return parse_interest(wire)


def serve(ranges: Ranges, face: int, tip: int) -> list[tuple[int, int | None]]:
    """(item, announced limit) of everything sent."""
    packets = ranges.serve(face, lambda seq: DATA.get(seq) if seq <= tip else None, tip)
    headers = [parse_lp(packet) for packet in packets]
    return [(NUMBERS[header.fragment], header.limit) for header in headers]


def items(ranges: Ranges, face: int, tip: int) -> list[int]:
    return [seq for seq, _ in serve(ranges, face, tip)]


def test_a_range_is_served_item_by_item_and_ends_with_its_credit() -> None:
    ranges = Ranges()
    ranges.grant(1, 3, lli(4, nonce=1), 0)
    assert items(ranges, 1, 4) == [3, 4]
    assert items(ranges, 1, 4) == []
    assert items(ranges, 1, 40) == [5, 6]
    assert not ranges


def test_a_renewal_extends_and_a_repetition_rewinds() -> None:
    ranges = Ranges()
    ranges.grant(1, 1, lli(4, nonce=1), 0)
    assert items(ranges, 1, 3) == [1, 2, 3]
    ranges.grant(1, 5, lli(4, nonce=2), 0)
    assert items(ranges, 1, 6) == [4, 5, 6]
    ranges.grant(1, 2, lli(7, nonce=3), 0)
    assert items(ranges, 1, 40) == [2, 3, 4, 5, 6, 7, 8]


def test_a_duplicate_of_the_link_changes_nothing() -> None:
    ranges = Ranges()
    ranges.grant(1, 1, lli(4, nonce=1), 0)
    assert items(ranges, 1, 2) == [1, 2]
    ranges.grant(1, 1, lli(4, nonce=1), 5)
    assert items(ranges, 1, 2) == []


def test_credit_zero_cancels_and_time_expires() -> None:
    ranges = Ranges()
    ranges.grant(1, 1, lli(4, nonce=1), 0)
    ranges.grant(2, 1, lli(4, nonce=2, lifetime_ms=500), 0)
    assert ranges.first_expiry() == 500 * MS
    ranges.expire(500 * MS - 1)
    assert len(ranges) == 2
    ranges.expire(500 * MS)
    assert [face for face, _ in ranges.items()] == [1]
    ranges.grant(1, 1, lli(0, nonce=3), 0)
    assert not ranges
    ranges.grant(1, 1, lli(0, nonce=4), 0)
    assert not ranges


def test_the_state_goes_with_the_answer_to_an_lli_and_while_more_follows() -> None:
    ranges = Ranges()
    ranges.grant(1, 1, lli(4, nonce=1), 0)
    assert [limit for _, limit in serve(ranges, 1, 1)] == [4]
    assert [limit for _, limit in serve(ranges, 1, 2)] == [None]
    assert [limit for _, limit in serve(ranges, 1, 4)] == [4, None]


def test_what_has_expired_is_not_brought_back() -> None:
    ranges = Ranges()
    ranges.grant(1, 2, lli(30, nonce=1, lifetime_ms=1000), 0)
    ranges.grant(1, 2, lli(2, nonce=2), 10_000 * MS)
    assert items(ranges, 1, 40) == [2, 3]


grants = st.tuples(
    st.integers(1, 3), st.integers(1, 30), st.integers(1, 10), st.integers(0, 40), st.integers(0, 800)
)


@given(st.lists(grants, max_size=40))
def test_never_more_than_was_granted(steps: list[tuple[int, int, int, int, int]]) -> None:
    ranges = Ranges()
    granted: dict[int, set[int]] = {1: set(), 2: set(), 3: set()}
    now = 0
    for nonce, (face, first, credit, tip, wait_ms) in enumerate(steps):
        now += wait_ms * MS
        # A consumer's own ranges hang together: what lies between an old limit and a new start was granted.
        before = dict(ranges.items()).get(face)
        if before and before.expiry <= now:
            before = None
            granted[face].clear()
        start = min(first, before.limit + 1) if before else first
        granted[face].update(range(start, first + credit))
        ranges.grant(face, first, lli(credit, nonce), now)
        sent = items(ranges, face, tip)
        assert set(sent) <= granted[face]
        assert sent == sorted(set(sent))
