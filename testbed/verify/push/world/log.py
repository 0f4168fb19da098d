"""The log of a simulated network: frames, deliveries and errors in order, and event counts."""

import hashlib

from testbed.verify.kit.outcome import Outcome, Row
from topologies.emulator.virtual_time import VirtualTime


class Log:
    """The events of a network, recorded in its outcome.

    Args:
        time: the network's.
        keeps_rows: whether the outcome gets rows for a chart.

    Attributes:
        outcome: the record so far.
    """

    def __init__(self, time: VirtualTime, *, keeps_rows: bool) -> None:
        self.outcome = Outcome()
        self._time = time
        self._keeps_rows = keeps_rows
        self._hasher = hashlib.blake2b(digest_size=16)

    def count(self, what: str) -> None:
        """Count an event."""
        self.outcome.coverage[what] += 1

    def note(self, a: str, b: str | None, text: str, *, lost: bool = False) -> None:
        """Record an event at a node, or of a frame from one to another."""
        now = self._time.now
        self._hasher.update(f"{now} {a} {b} {text} {lost};".encode())
        if self._keeps_rows:
            self.outcome.rows.append(Row(now, a, b, text, lost))

    def digest(self) -> str:
        """Return the hash of all records."""
        return self._hasher.hexdigest()
