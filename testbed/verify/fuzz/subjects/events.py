"""Inputs as events: a sequence of actions on a fuzzed program.

An event is a byte, the kind in its low three bits and an index in the others; except for a pause, two bytes
of length and the data follow. Any input is a sequence of events.
"""

from typing import Final, NamedTuple

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
