"""Reassembly of NDNLPv2 fragments to network packets, for an observer.

Fragment k of a packet has Sequence s + k, FragIndex k and FragCount n (NFD wiki, "NDNLPv2"). Every sender
counts its fragments by itself. An observer needs no time-outs: it keeps the fragments of the newest packets,
and drops the oldest.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Fragment = TypeVar("Fragment")

MOST_FRAGMENTS = 1000
"""Most fragments of a packet; forwarders accept 400."""

_SEQUENCES = 1 << 64


class Reassembler(Generic[Fragment]):
    """The fragments seen so far, of at most `most` packets; a duplicate fragment counts once.

    `once`: the last `most` complete packets are remembered, so that their fragments, duplicated by the link,
    do not make another one.
    """

    def __init__(self, most: int = 10_000, *, once: bool = False) -> None:
        self._most = most
        self._partial: dict[Hashable, dict[int, Fragment]] = {}
        self._whole: dict[Hashable, None] | None = {} if once else None

    def __len__(self) -> int:
        return len(self._partial)

    def add(
        self, link: Hashable, sequence: int | None, index: int, count: int, fragment: Fragment
    ) -> list[Fragment] | None:
        """Add a fragment; return those of the packet that it completes, in their order, or None.

        `link` separates independent fragments: by capture point, sender and receiver.
        """
        if sequence is None or not index < count <= MOST_FRAGMENTS or count == 1:
            return None
        key = link, (sequence - index) % _SEQUENCES, count
        if self._whole is not None and key in self._whole:
            return None
        fragments = self._partial.setdefault(key, {})
        fragments.setdefault(index, fragment)
        if len(fragments) < count:
            if len(self._partial) > self._most:
                del self._partial[next(iter(self._partial))]
            return None
        del self._partial[key]
        if self._whole is not None:
            self._whole[key] = None
            if len(self._whole) > self._most:
                del self._whole[next(iter(self._whole))]
        return [fragments[place] for place in range(count)]
