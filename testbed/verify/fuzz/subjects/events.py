"""Inputs that are events: what happens to a program that is fuzzed, one thing after the other.

An event is a byte, the kind in its low three bits and an index in the others, then, but for a pause, two
bytes of a length and as many bytes. Any input is a sequence of events.
"""

from typing import Final, NamedTuple

PAUSE: Final = 7
"""The kind of event that is the same for all programs: time passes."""


class Event(NamedTuple):
    """What happens: a kind (below 8), an index (below 32) and bytes."""

    kind: int
    which: int
    content: bytes = b""

    def encode(self) -> bytes:
        """Write it."""
        head = bytes((self.kind | self.which << 3,))
        return head if self.kind == PAUSE else head + len(self.content).to_bytes(2) + self.content


def read_events(data: bytes, most: int) -> list[Event]:
    """Read the events of an input, the first `most` of them."""
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
