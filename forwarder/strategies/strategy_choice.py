"""The Strategy Choice table (NFD developer guide, section 3.6)."""

from collections.abc import Sequence

from forwarder.strategies.strategy import Strategy
from forwarder.tables.prefix_lengths import Lengths


class StrategyChoice:
    """Strategies by prefix; the longest prefix of a name decides.

    Args:
        default: the strategy of all other names.

    Attributes:
        name_bytes: size of all prefixes that have a strategy of their own; len() is their number.
    """

    def __init__(self, default: Strategy) -> None:
        self._default = default
        self._by_prefix: dict[bytes, Strategy] = {}
        self._lengths = Lengths()
        self.name_bytes = 0

    def set(self, prefix: bytes, strategy: Strategy) -> None:
        """Choose a strategy for all names under a prefix; for the empty one, the default."""
        if prefix:
            if prefix not in self._by_prefix:
                self._lengths.add(prefix)
                self.name_bytes += len(prefix)
            self._by_prefix[prefix] = strategy
        else:
            self._default = strategy

    def unset(self, prefix: bytes) -> None:
        """Leave a prefix to the strategy of a shorter one; no effect on the empty prefix."""
        if self._by_prefix.pop(prefix, None) is not None:
            self._lengths.remove(prefix)
            self.name_bytes -= len(prefix)

    def find(self, name: bytes, ends: Sequence[int]) -> Strategy:
        """Return the strategy for a name, whose prefix_ends() are `ends`."""
        if self._by_prefix:
            for end in reversed(self._lengths.among(ends)):
                strategy = self._by_prefix.get(name[:end])
                if strategy is not None:
                    return strategy
        return self._default

    def items(self) -> list[tuple[bytes, Strategy]]:
        """Return all choices: (prefix, strategy), the empty prefix first."""
        return [(b"", self._default), *self._by_prefix.items()]

    def __len__(self) -> int:
        return len(self._by_prefix)
