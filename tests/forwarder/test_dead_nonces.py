"""The dead nonce list against a list of all that was ever added."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from forwarder.tables.dead_nonces import LIFETIME, DeadNonces

NAMES = st.sampled_from([b"\x08\x01a", b"\x08\x01b"])
NONCES = st.integers(0, 3)


class NoncesAgainstList(RuleBasedStateMachine):
    @initialize(most=st.sampled_from([1, 2, 3, 1000]), start=st.sampled_from([0, 7, 10**18 + 1]))
    def begin(self, most: int, start: int) -> None:
        self.most = most
        self.nonces = DeadNonces(most)
        self.added: list[tuple[bytes, int, int]] = []
        self.now = start

    @rule(name=NAMES, nonce=NONCES)
    def add(self, name: bytes, nonce: int) -> None:
        self.nonces.add(name, nonce, self.now)
        self.added.append((name, nonce, self.now))

    @rule(ns=st.sampled_from([1, LIFETIME // 6, LIFETIME // 2 - 1, LIFETIME // 2, LIFETIME - 1, LIFETIME]))
    def wait(self, ns: int) -> None:
        self.now += ns

    @rule(name=NAMES, nonce=NONCES)
    def has(self, name: bytes, nonce: int) -> None:
        ages = [self.now - added for other, number, added in self.added if (other, number) == (name, nonce)]
        has = self.nonces.has(name, nonce, self.now)
        there_is_room = sum(added >= self.now - LIFETIME for _, _, added in self.added) <= self.most
        if ages and min(ages) <= LIFETIME // 2 and there_is_room:
            assert has, "forgotten too early"
        if not ages or min(ages) > LIFETIME:
            assert not has, "remembered for too long"

    @invariant()
    def bounded(self) -> None:
        if hasattr(self, "nonces"):
            assert len(self.nonces) <= 2 * self.most


TestNoncesAgainstList = NoncesAgainstList.TestCase
TestNoncesAgainstList.settings = settings(max_examples=300, stateful_step_count=30)


def test_asked_seldom_it_does_not_remember_for_longer() -> None:
    nonces = DeadNonces()
    nonces.add(b"", 1, 0)
    assert nonces.has(b"", 1, LIFETIME - 1)
    assert not nonces.has(b"", 1, LIFETIME)
    for gap in (LIFETIME, LIFETIME + 1, 2 * LIFETIME, 10 * LIFETIME):
        nonces = DeadNonces()
        nonces.add(b"", 1, 7)
        assert not nonces.has(b"", 1, 7 + gap)


def test_a_nonce_belongs_to_its_name() -> None:
    nonces = DeadNonces()
    nonces.add(b"\x08\x01a", 1, 0)
    assert not nonces.has(b"\x08\x01b", 1, 0)
    assert not nonces.has(b"\x08\x01a", 2, 0)
