"""The clock of a network in real time: the machine's, or a slower one.

*Time dilation* makes a second of the run last several seconds of the machine. The links' delays, the
programs' timers and the packets' time stamps all follow the run's clock. The machine's processors do not:
they do that much more work in a second of the run. So a network too large for two processors in real time can
be measured all the same (D. Gupta et al., "To Infinity and Beyond: Time-Warped Network Emulation", NSDI
2006).
"""

import time
from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """The clock of a run, ns since 1970.

    Attributes:
        dilation: seconds of the machine for a second of the run.
        origin: time at which both clocks agree, ns.
    """

    dilation: int = 1
    origin: int = 0

    @classmethod
    def from_now(cls, dilation: int) -> "Clock":
        """Return a clock that agrees with the machine's now."""
        return cls(dilation, time.time_ns())

    def at(self, time_ns: int) -> int:
        """Return the run's time for a time of the machine."""
        return self.origin + (time_ns - self.origin) // self.dilation

    def now(self) -> int:
        """Return the run's time."""
        return self.at(time.time_ns())

    def machine_s(self, run_ns: int) -> float:
        """Return the seconds of the machine in a duration of the run."""
        return run_ns * self.dilation / 1e9

    def steady(self) -> Callable[[], int]:
        """Return a function that returns the run's time, unaffected by changes of the machine's clock."""
        dilation, monotonic_ns = self.dilation, time.monotonic_ns
        begun, shown = monotonic_ns(), self.now()
        return lambda: shown + (monotonic_ns() - begun) // dilation
