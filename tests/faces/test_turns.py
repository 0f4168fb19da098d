"""Turns of faces that compete for the processor: equal shares of its time, whatever their bursts cost."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from base.units import US
from forwarder.faces.driver import TURN, Driver
from testbed.bench.load import new_host


class Busy:
    """A face whose bursts cost so much processor time, ns."""

    def __init__(self, driver: Driver, face: int, cost: int) -> None:
        self.spent = self.turns = 0
        self._cost = cost
        self.take_turn = driver.reader(face, self._read)

    def _read(self) -> None:
        begun = time.thread_time_ns()
        while time.thread_time_ns() < begun + self._cost:
            pass
        self.spent += time.thread_time_ns() - begun
        self.turns += 1


@pytest.fixture
def driver() -> Iterator[Driver]:
    loop = asyncio.new_event_loop()
    yield Driver(new_host(), loop)
    loop.close()


@pytest.mark.parametrize("costs", [(100, 2_000), (2_000, 100), (300, 300), (200, 5_000)])
def test_two_faces_share_the_processors_time(driver: Driver, costs: tuple[int, int]) -> None:
    faces = [Busy(driver, face, cost * US) for face, cost in enumerate(costs, 1)]
    while sum(face.spent for face in faces) < 100_000 * US:
        for face in faces:
            face.take_turn()
    shares = sorted(face.spent for face in faces)
    assert shares[1] - shares[0] <= TURN + 2 * max(costs) * US + sum(shares) * 0.1


def test_a_face_alone_is_never_refused(driver: Driver) -> None:
    face = Busy(driver, 1, 3_000 * US)
    for turns in range(1, 10):
        face.take_turn()
        assert face.turns == turns


def test_a_face_that_was_idle_has_saved_nothing(driver: Driver) -> None:
    busy, late = Busy(driver, 1, 1_000 * US), Busy(driver, 2, 1_000 * US)
    for _ in range(20):
        busy.take_turn()
    busy.spent = 0
    for _ in range(20):
        busy.take_turn()
        late.take_turn()
    assert abs(busy.spent - late.spent) <= 2_000 * US + TURN


def test_a_face_that_is_gone_holds_nobody_up(driver: Driver) -> None:
    busy, other = Busy(driver, 1, 5_000 * US), Busy(driver, 2, 100 * US)
    for _ in range(5):
        busy.take_turn()
        other.take_turn()
    driver.detach(2)
    turns = busy.turns
    for _ in range(4):
        busy.take_turn()
    assert busy.turns >= turns + 2
