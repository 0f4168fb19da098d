"""The log of a forwarder that follows its neighbours: each once, and no more than keepers read."""

from functools import cache

import pytest
from mutants.bounds import Bound, check, line

from ssb.keys import Identity, feed_ref
from ssb.message import Message
from ssb_over_ndn.social.community import MOST_STATEMENTS, Community
from ssb_over_ndn.social.own_log import OwnLog

FORWARDER = Identity.from_seed(bytes(32))


def met(number: int) -> str:
    return feed_ref(number.to_bytes(32))


@cache
def full_log() -> tuple[Message, ...]:
    """Return what a forwarder writes that meets a few more than it can follow."""
    written: list[Message] = []
    log = OwnLog(FORWARDER, (), written.append)
    for number in range(MOST_STATEMENTS + 10):
        assert log.follow(met(number)) == (written[-1] if number < MOST_STATEMENTS else None)
        assert log.follow(met(0)) is None
    assert log.refused == 10
    return tuple(written)


def test_a_log_ends_with_the_last_follow_that_keepers_read() -> None:
    log = full_log()
    assert len(log) == MOST_STATEMENTS
    community = Community(2 * MOST_STATEMENTS)
    community.attach(FORWARDER.ref, 1)
    for message in log:
        community.add(message)
    assert community.statements == len(log)
    assert not community.counters
    assert community.reaches(FORWARDER.ref, met(MOST_STATEMENTS - 1))


def test_a_log_that_is_full_is_so_after_a_restart() -> None:
    written: list[Message] = []
    log = OwnLog(FORWARDER, full_log(), written.append)
    assert log.follow(met(3)) is None
    assert log.follow(met(MOST_STATEMENTS)) is None
    assert log.refused == 1
    assert not written


@pytest.mark.patches
def test_without_its_bound_a_test_fails() -> None:
    check(
        Bound(
            "follows",
            line(OwnLog, "follow", "len(self._followed) >= MOST_STATEMENTS", "False"),
            test_a_log_that_is_full_is_so_after_a_restart,
        )
    )
