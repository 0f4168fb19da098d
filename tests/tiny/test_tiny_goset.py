"""Grow-only sets: whatever is lost, they become their union; forged packets add a bounded number of keys."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssb.tiny.goset import MAX_KEYS, Claim, GrowOnlySet, MalformedClaim, make_claim, read


def key(number: int) -> bytes:
    return Random(number).randbytes(32)


def converge(sets: list[GrowOnlySet], loss: float, rng: Random, rounds: int) -> int:
    """Return how many packets it took."""
    sent = 0
    for _ in range(rounds):
        if len({one.state for one in sets}) == 1:
            return sent
        for one in sets:
            packets = one.beacon()
            sent += len(packets)
            for packet in packets:
                assert len(packet) <= 120
                for other in sets:
                    if other is not one and rng.random() >= loss:
                        other.receive(packet)
    raise AssertionError([len(one) for one in sets])


@settings(max_examples=40)
@given(
    st.lists(st.sets(st.integers(0, 80), min_size=1), min_size=2, max_size=4),
    st.sampled_from([0, 0.3]),
    st.integers(0, 99),
)
def test_sets_become_their_union(members: list[set[int]], loss: float, seed: int) -> None:
    sets = [GrowOnlySet(keys=map(key, numbers)) for numbers in members]
    converge(sets, loss, Random(seed), 600)
    union = sorted(map(key, set().union(*members)))
    assert all(one.keys == union for one in sets)


def test_one_missing_key_takes_few_packets() -> None:
    """The search halves intervals: the logarithm of the size, not the size."""
    keys = [key(number) for number in range(200)]
    lacking = GrowOnlySet(keys=[one for one in keys if one != sorted(keys)[77]])
    whole = GrowOnlySet(keys=keys)
    assert converge([whole, lacking], 0, Random(1), 40) < 60


def test_keys_are_told_as_novelties_and_are_bounded() -> None:
    one, other = GrowOnlySet(keys=[key(0)]), GrowOnlySet(keys=[key(0)])
    one.add(key(1))
    assert [new for packet in one.beacon() for new in other.receive(packet)] == [key(1)]
    for number in range(400):
        one.add(key(number))
    assert len(one) == MAX_KEYS
    assert not one.add(key(999))
    assert not one.add(bytes(32))
    with pytest.raises(ValueError, match="are possible"):
        GrowOnlySet(keys=map(key, range(300)))


def test_state_is_the_xor_of_all_keys_in_any_order() -> None:
    keys = [key(number) for number in range(9)]
    one = GrowOnlySet()
    for new in keys[::-1]:
        assert one.add(new)
        assert not one.add(new)
    assert one.state == GrowOnlySet(keys=keys).state
    assert one.keys == sorted(keys)


def test_fixed_sets_say_and_hear_nothing() -> None:
    fixed = GrowOnlySet("ctrl", [key(1), key(2)], is_fixed=True)
    assert fixed.beacon() == []
    claim = make_claim(fixed.demultiplexer, Claim(2, key(3), key(3), bytes(32)))
    with pytest.raises(MalformedClaim, match="fixed"):
        fixed.receive(claim)
    assert len(fixed) == 2


def test_forged_claims_are_answered_for_a_while_only() -> None:
    one = GrowOnlySet(keys=map(key, range(8)))
    ends = sorted(map(key, range(8)))
    for number in range(50):
        one.receive(make_claim(one.demultiplexer, Claim(9 + number, ends[0], ends[-1], key(number))))
    assert max(len(one.beacon()) for _ in range(20)) <= 1 + 1 + 5
    assert len(one.beacon()) == 1


@given(st.binary(max_size=130))
def test_any_packet_is_read_or_malformed(data: bytes) -> None:
    for packet in (
        data,
        bytes(7) + b"c" + data,
        bytes(7) + b"n" + data,
        bytes(7) + b"c" + data.ljust(97, b"\1")[:97],
    ):
        try:
            told = read(packet)
        except MalformedClaim:
            continue
        assert isinstance(told, bytes) or told.size >= 1
