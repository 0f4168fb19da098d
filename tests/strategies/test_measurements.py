"""The Measurements table against a list; round-trip times against RFC 6298's formulas."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from base.units import MS
from forwarder.strategies.measurements import Measurements, round_trip
from forwarder.wire.name import component, prefix_ends

LIFETIME = 10
A, B = component(8, b"a"), component(8, b"b")
NAMES = st.sampled_from([b"".join(parts) for n in range(3) for parts in product((A, B), repeat=n)])


class TableAgainstList(RuleBasedStateMachine):
    @initialize(most=st.sampled_from([1, 2, 3, 100]))
    def begin(self, most: int) -> None:
        self.table: Measurements[int] = Measurements(LIFETIME, most)
        self.most = most
        self.known: list[tuple[bytes, int, int]] = []  # (prefix, value, expiry), the last used last
        self.now = 0
        self.made = 0

    def use(self, prefix: bytes, value: int) -> None:
        self.known = [row for row in self.known if row[0] != prefix and row[2] > self.now]
        self.known.append((prefix, value, self.now + LIFETIME))
        self.known = self.known[-self.most :]
        assert len(self.table) == len(self.known), "what has expired takes room"

    def value(self, prefix: bytes) -> int | None:
        return next(
            (value for known, value, expiry in self.known if known == prefix and expiry > self.now), None
        )

    @rule(ns=st.sampled_from([0, 0, 1, 1, LIFETIME // 2, LIFETIME - 1, LIFETIME]))
    def wait(self, ns: int) -> None:
        self.now += ns

    @rule(prefix=NAMES)
    def set(self, prefix: bytes) -> None:
        self.made += 1
        self.table.set(prefix, self.made, self.now)
        self.use(prefix, self.made)

    @rule(prefix=NAMES)
    def get(self, prefix: bytes) -> None:
        expected = self.value(prefix)
        assert self.table.get(prefix, self.now) == expected
        if expected is not None:
            self.use(prefix, expected)

    @rule(prefix=NAMES)
    def get_or_make(self, prefix: bytes) -> None:
        self.made += 1
        expected = self.value(prefix) or self.made
        assert self.table.get_or_make(prefix, lambda: self.made, self.now) == expected
        self.use(prefix, expected)

    @rule(name=NAMES)
    def find(self, name: bytes) -> None:
        ends = prefix_ends(name)
        found = [value for end in ends if (value := self.value(name[:end])) is not None]
        assert self.table.find(name, ends, self.now) == (found[-1] if found else None)

    @invariant()
    def bounded(self) -> None:
        if hasattr(self, "table"):
            assert len(self.table) <= self.most


TestTableAgainstList = TableAgainstList.TestCase
TestTableAgainstList.settings = settings(max_examples=100, stateful_step_count=40)


@given(st.lists(st.integers(0, 10_000 * MS), min_size=1, max_size=20))
def test_round_trip(measured: list[int]) -> None:
    rtt = round_trip()
    assert rtt.timeout() == 1000 * MS
    smoothed, variation = float(measured[0]), measured[0] / 2
    rtt.sample(measured[0])
    for sample in measured[1:]:
        rtt.sample(sample)
        variation = 0.75 * variation + 0.25 * abs(smoothed - sample)
        smoothed = 0.875 * smoothed + 0.125 * sample
    assert rtt.smoothed == pytest.approx(smoothed, abs=100)
    expected = min(max(smoothed + 4 * variation, 200 * MS), 60_000 * MS)
    assert rtt.timeout() == pytest.approx(expected, abs=1000)
