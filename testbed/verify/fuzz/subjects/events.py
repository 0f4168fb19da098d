"""Inputs as events: a sequence of actions on a fuzzed program.

An event is a byte, the kind in its low three bits and an index in the others; except for a pause, two bytes
of length and the data follow. Any input is a sequence of events.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

from testbed.verify.fuzz.subjects.wire import expect

T = TypeVar("T")

PAUSE: Final = 7
"""The kind of event common to all programs: time passes."""


class Event(NamedTuple):
    """An event: a kind (below 8), an index (below 32) and bytes."""

    kind: int
    which: int
    content: bytes = b""

    def encode(self) -> bytes:
        """Return its bytes."""
        head = bytes((self.kind | self.which << 3,))
        return head if self.kind == PAUSE else head + len(self.content).to_bytes(2) + self.content


def read_events(data: bytes, most: int) -> list[Event]:
    """Return the first `most` events of an input."""
    events: list[Event] = []
    at = 0
    while at < len(data) and len(events) < most:
        kind, which = data[at] & 7, data[at] >> 3
        at += 1
        content = b""
        if kind != PAUSE:
            end = at + 2 + int.from_bytes(data[at : at + 2])
            content, at = data[at + 2 : end], end
        events.append(Event(kind, which, content))
    return events


def encoded(inputs: Mapping[str, Iterable[Event]]) -> dict[str, bytes]:
    """Return inputs as bytes, by name."""
    return {name: b"".join(event.encode() for event in events) for name, events in inputs.items()}


def taken(items: list[T]) -> list[T]:
    """Return the items of a list, which is empty afterwards."""
    found = items.copy()
    items.clear()
    return found


class _Playing(Protocol):
    def play(self, event: Event) -> None: ...


def playing(make: Callable[[], _Playing], most: int) -> Callable[[bytes], None]:
    """Return the check of inputs: it plays the first `most` events of each in a program of its own."""

    def check(data: bytes) -> None:
        program = make()
        for event in read_events(data, most):
            program.play(event)

    return check


class _Waking(Protocol):
    def next_deadline(self) -> int | None: ...

    def wake(self, now: int) -> None: ...


class Timed:
    """A fuzzed program and its time.

    Attributes:
        now: the time, ns.
    """

    now = 0

    def pass_time(self, program: _Waking, duration: int, most: int, take: Callable[[], object]) -> None:
        """Let time pass, ns: wake a program when due, fewer than `most` times, and take its outputs."""
        until = self.now + duration
        for _ in range(most):
            deadline = program.next_deadline()
            if deadline is None or deadline > until:
                break
            self.now = max(deadline, self.now)
            program.wake(self.now)
            take()
        else:
            expect("it wakes without end", holds=False)
        self.now = until
