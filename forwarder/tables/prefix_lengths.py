"""The lengths of prefixes in a table, in bytes.

A look-up by prefix that tried every prefix of a name would take time quadratic in the name's size: one packet
of some thousand empty components would cost as much as thousands of others. Most lengths do not occur in a
table.
"""

from collections.abc import Iterable


class Lengths:
    """The lengths of the prefixes that are in a table."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, prefix: bytes) -> None:
        """Note that a prefix has come into the table."""
        self._counts[len(prefix)] = self._counts.get(len(prefix), 0) + 1

    def remove(self, prefix: bytes) -> None:
        """Remove the length of a prefix that has left the table; it must have been added."""
        left = self._counts[len(prefix)] - 1
        if left:
            self._counts[len(prefix)] = left
        else:
            del self._counts[len(prefix)]

    def among(self, ends: Iterable[int]) -> list[int]:
        """Return those of a name's prefix_ends() that some prefix in the table has, in the same order."""
        counts = self._counts
        return [end for end in ends if end in counts]

    def __bool__(self) -> bool:
        return bool(self._counts)
