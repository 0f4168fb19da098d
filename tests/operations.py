"""Work that is counted instead of timed: instructions of Python, comparisons of times, bytes of arrays.

What C code does with a whole container at once shows as comparisons if it compares times (Moment), and as
bytes if it works on an array (Counted).
"""

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, SupportsIndex

import numpy as np

_seen: Counter[str] = Counter()


def _add(much: int) -> None:
    _seen["work"] += much


class Moment(int):
    """A time whose comparisons are counted, and of all times made of it."""

    __hash__ = int.__hash__

    def __lt__(self, other: int) -> bool:
        _add(1)
        return int.__lt__(self, other)

    def __le__(self, other: int) -> bool:
        _add(1)
        return int.__le__(self, other)

    def __gt__(self, other: int) -> bool:
        _add(1)
        return int.__gt__(self, other)

    def __ge__(self, other: int) -> bool:
        _add(1)
        return int.__ge__(self, other)

    def __add__(self, other: int) -> "Moment":
        return Moment(int.__add__(self, other))

    __radd__ = __add__


class _Octets(bytes):
    """Bytes whose searches are counted."""

    def find(self, *args: Any) -> int:  # type: ignore[override]
        place = super().find(*args)
        _add((len(self) if place < 0 else place) - (args[1] if len(args) > 1 else 0))
        return place


class Counted(np.ndarray):  # type: ignore[type-arg]
    """An array; the bytes of what is made of it are counted, and so are those that a function takes."""

    def __array_finalize__(self, whole: Any) -> None:
        if whole is not None and self.base is not whole:
            _add(self.nbytes)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [_plain(each) for each in inputs]
        _add(sum(each.nbytes for each in plain if isinstance(each, np.ndarray)))
        out = options.pop("out", None)
        if out is None:
            return _counted(getattr(function, method)(*plain, **options))
        getattr(function, method)(*plain, out=tuple(map(_plain, out)), **options)
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        _add(sum(each.nbytes for each in args if isinstance(each, np.ndarray)))
        return super().__array_function__(function, (), args, options)

    def tobytes(self, order: Any = "C") -> bytes:
        _add(self.nbytes)
        return _Octets(super().tobytes(order))

    def searchsorted(self, *args: Any, **options: Any) -> Any:
        return np.asarray(self).searchsorted(*args, **options)

    def __index__(self) -> SupportsIndex:  # type: ignore[override]
        return int(np.asarray(self))


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, Counted) else value


def _counted(result: Any) -> Any:
    return result.view(Counted) if isinstance(result, np.ndarray) else result


def octets(data: bytes) -> Any:
    """Return bytes as an array that is counted."""
    return np.frombuffer(data, np.uint8).view(Counted)


def counted(work: Callable[[], object]) -> int:
    """Return how much work something is."""

    def on_event(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "call":
            if frame.f_code.co_filename == __file__:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            _add(1)
        return on_event

    before = sys.gettrace()
    _seen.clear()
    sys.settrace(on_event)
    try:
        work()
    finally:
        sys.settrace(before)
    return _seen["work"]
