"""Network packets put together from the fragments of NDNLPv2, for whoever looks on.

Fragment k of a packet has Sequence s + k, FragIndex k and FragCount n (NFD wiki, "NDNLPv2").
An onlooker has no time-outs to keep: it holds the pieces of the newest packets, and lets go of the oldest.
"""

from collections.abc import Hashable

from captures.dissectors.lp import LpPacket

_MOST_FRAGMENTS = 1000
_MOST_PARTIAL = 10_000


class Reassembler:
    """The fragments seen so far, by link."""

    def __init__(self) -> None:
        self._partial: dict[Hashable, dict[int, bytes]] = {}

    def add(self, link: Hashable, packet: LpPacket) -> tuple[bytes, int] | None:
        """Take in a fragment; return the packet that it completes, and of how many pieces, or None.

        `link` tells apart what must not be mixed: where the frame was captured, from whom, to whom.
        """
        count, index = packet.frag_count or 1, packet.frag_index or 0
        if packet.sequence is None or not 1 < count <= _MOST_FRAGMENTS:
            return None
        key = (link, (packet.sequence - index) % (1 << 64), count)
        pieces = self._partial.setdefault(key, {})
        pieces.setdefault(index, bytes(packet.payload))
        if len(pieces) < count:
            if len(self._partial) > _MOST_PARTIAL:
                del self._partial[next(iter(self._partial))]
            return None
        del self._partial[key]
        return b"".join(pieces[at] for at in range(count)), count
