"""An event loop whose timers follow the clock of a dilated run."""

import asyncio
import selectors

_LONGEST_S = 86_400.0
"""Maximum sleep; waking early is harmless. Linux allows 24 days."""


class DilatedLoop(asyncio.SelectorEventLoop):
    """An event loop with dilated seconds.

    Args:
        dilation: the machine's seconds for a second of the loop (captures.network.clock).
    """

    def __init__(self, dilation: int) -> None:
        self._dilation = dilation
        super().__init__(_Selector(dilation))

    def time(self) -> float:
        """Return the loop's time, s."""
        return super().time() / self._dilation


class _Selector(selectors.DefaultSelector):
    def __init__(self, dilation: int) -> None:
        super().__init__()
        self._dilation = dilation

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else min(timeout * self._dilation, _LONGEST_S))
