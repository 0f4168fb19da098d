import asyncio
import selectors
import time
from functools import partial

import pytest

from base.units import SECOND
from captures.network.clock import Clock
from testbed.hosts.dilated_loop import DilatedLoop


def test_timers_and_clocks_of_a_process_agree() -> None:
    clock = Clock.from_now(10)
    steady = clock.steady()
    begun, run_begun, steady_begun = time.monotonic(), clock.now(), steady()

    async def work() -> float:
        loop = asyncio.get_running_loop()
        at = loop.time()
        await asyncio.sleep(0.02)
        return loop.time() - at

    with asyncio.Runner(loop_factory=partial(DilatedLoop, clock.dilation)) as runner:
        slept = runner.run(work())
    run_passed, steady_passed = clock.now() - run_begun, steady() - steady_begun
    passed = time.monotonic() - begun
    assert slept >= 0.02
    assert passed >= 0.2
    for of_run in (run_passed / SECOND, steady_passed / SECOND):
        assert slept <= of_run + 0.001 <= passed / 10 + 0.002


def test_a_slow_timer_wakes_its_process_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts: list[float] = []
    select = selectors.DefaultSelector.select

    def counted(
        self: selectors.DefaultSelector, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        timeouts.append(timeout or 0.0)
        return select(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", counted)
    with asyncio.Runner(loop_factory=partial(DilatedLoop, 10)) as runner:
        runner.run(asyncio.sleep(0.02))
    assert len([timeout for timeout in timeouts if timeout > 0.001]) <= 2
