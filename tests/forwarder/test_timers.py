"""Timers against a list that is sorted when asked."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from base.timers import Timers
from base.units import MS

TICK = 1 << 20

DEADLINES = st.one_of(
    st.integers(0, 20 * MS),
    st.integers(0, 1 << 40),
    st.builds(lambda tick, offset: tick * TICK + offset, st.integers(1, 20), st.sampled_from([-1, 0, 1])),
)


class Alarm:
    def __init__(self, deadline: int) -> None:
        self.deadline = deadline


class WheelAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.wheel: Timers[Alarm] = Timers()
        self.alarms: list[Alarm] = []

    @rule(deadline=DEADLINES)
    def add(self, deadline: int) -> None:
        alarm = Alarm(deadline)
        self.wheel.set(alarm, alarm.deadline)
        self.alarms.append(alarm)

    @precondition(lambda self: self.alarms)
    @rule(data=st.data())
    def add_another_at_the_same_time(self, data: st.DataObject) -> None:
        self.add(data.draw(st.sampled_from(self.alarms)).deadline)

    @precondition(lambda self: self.alarms)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        alarm = data.draw(st.sampled_from(self.alarms))
        self.wheel.set(alarm, None)
        self.alarms.remove(alarm)

    @precondition(lambda self: self.alarms)
    @rule(data=st.data(), deadline=DEADLINES)
    def move(self, data: st.DataObject, deadline: int) -> None:
        alarm = data.draw(st.sampled_from(self.alarms))
        self.wheel.set(alarm, None)
        self.alarms.remove(alarm)
        alarm.deadline = deadline
        self.wheel.set(alarm, alarm.deadline)
        self.alarms.append(alarm)

    @rule(now=DEADLINES)
    def expire(self, now: int) -> None:
        self.expire_by(now)

    @precondition(lambda self: self.alarms)
    @rule(early=st.sampled_from([0, 1]))
    def expire_at_the_next_deadline(self, early: int) -> None:
        self.expire_by(min(alarm.deadline for alarm in self.alarms) - early)

    def expire_by(self, now: int) -> None:
        due = sorted((a for a in self.alarms if a.deadline <= now), key=lambda alarm: alarm.deadline)
        assert self.wheel.expire(now) == due  # of equal deadlines, the one added first
        self.alarms = [alarm for alarm in self.alarms if alarm.deadline > now]

    @invariant()
    def the_next_deadline_is_the_earliest(self) -> None:
        assert self.wheel.next_deadline() == min((alarm.deadline for alarm in self.alarms), default=None)


TestWheelAgainstList = WheelAgainstList.TestCase
TestWheelAgainstList.settings = settings(max_examples=60, stateful_step_count=40)


@pytest.mark.parametrize("deadline", [0, 1, TICK - 1, TICK, TICK + 1, 10 * MS, 3_600_000 * MS])
def test_an_alarm_goes_off_at_its_nanosecond(deadline: int) -> None:
    wheel: Timers[Alarm] = Timers()
    alarm = Alarm(deadline)
    wheel.set(alarm, alarm.deadline)
    assert wheel.next_deadline() == deadline
    assert wheel.expire(deadline - 1) == []
    assert wheel.expire(deadline) == [alarm]
    assert wheel.next_deadline() is None
    assert wheel.expire(deadline + TICK) == []


def test_alarms_go_off_in_order() -> None:
    wheel: Timers[Alarm] = Timers()
    alarms = [Alarm(deadline) for deadline in (5 * TICK, 3, 2 * TICK + 7, 2 * TICK, 3, 9 * TICK)]
    for alarm in alarms:
        wheel.set(alarm, alarm.deadline)
    assert [alarm.deadline for alarm in wheel.expire(5 * TICK)] == [3, 3, 2 * TICK, 2 * TICK + 7, 5 * TICK]
    assert wheel.next_deadline() == 9 * TICK


def test_cancelled_alarms_leave_nothing_behind() -> None:
    """However far away they were: whoever sets the deadlines must not make the wheel grow."""
    wheel: Timers[Alarm] = Timers()
    kept = [Alarm(day * 86_400_000 * MS) for day in range(1, 11)]
    for alarm in kept:
        wheel.set(alarm, alarm.deadline)
    for far in range(1, 5001):
        alarm = Alarm(far * 10_000 * MS)
        wheel.set(alarm, alarm.deadline)
        wheel.set(alarm, None)
    assert len(wheel._heap) < 200
    assert len(wheel) == len(kept)
    assert wheel.expire(10 * 86_400_000 * MS) == kept


def test_a_key_has_one_deadline_and_the_same_one_keeps_its_place() -> None:
    timers: Timers[str] = Timers()
    for key in ("a", "b", "c"):
        timers.set(key, 5)
    timers.set("a", 5)
    assert (timers.get("a"), timers.get("d"), "d" in timers, list(timers)) == (
        5,
        None,
        False,
        ["a", "b", "c"],
    )
    timers.set("b", 7)
    timers.set("b", 5)  # it was another one meanwhile
    timers.set("d", None)
    assert timers.expire(5) == ["a", "c", "b"]
    assert (len(timers), timers.next_deadline()) == (0, None)


def test_some_at_a_time() -> None:
    timers: Timers[int] = Timers()
    for key in range(4):
        timers.set(key, 4 - key)
    assert [timers.expire(3, 2), timers.expire(3, 2), timers.next_deadline()] == [[3, 2], [1], 4]


def test_deadlines_that_are_put_off_again_and_again_leave_nothing_behind() -> None:
    timers: Timers[int] = Timers()
    for now in range(10_000):
        timers.set(0, now + 1_000)
        timers.set(1, 10**9 + now)
        assert timers.next_deadline() == now + 1_000
    assert len(timers._heap) < 100
