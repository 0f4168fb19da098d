"""Pacing on a link of known rate, shared by streams.

Theory of operation. Whatever is sent on the link is charged to it, as if it queued for the link's rate; the
backlog is what a queue at the link would hold. Two kinds of streams share it. Items of a feed wait in the
cache, where they cost nothing, until their turn: each such stream is paced at its share of the rate, so that
a catch-up burst makes no queue. Answers to classic Interests cannot wait; when their backlog grows they are
marked (NDNLPv2 CongestionMark), and their consumers ask for less.
"""

from typing import Final

from base.units import MS

_ACTIVE: Final = 100 * MS
"""A stream counts as using the link this long after its last packet."""
_MOST_STREAMS: Final = 64
_MARK: Final = 5 * MS
_MOST_BACKLOG: Final = 20 * MS
_FULL_FRAME: Final = 1500
_FRAMES: Final = 5


class Pacer:
    """One direction of a link.

    Args:
        rate_mbit: its rate, Mbit/s.
        overhead: bytes that lower layers add to a frame.
    """

    def __init__(self, rate_mbit: float, overhead: int = 42) -> None:
        self._ns_per_byte = 8000 / rate_mbit
        self._overhead = overhead
        a_few = round(_FRAMES * _FULL_FRAME * self._ns_per_byte)
        self._mark = max(_MARK, a_few)
        self._most = max(_MOST_BACKLOG, 4 * a_few)
        self._idle = a_few // _FRAMES
        self._busy_until = 0
        self._handed_over = 0  # time on the link of packets handed over and not yet sent
        self._streams: dict[bytes, int] = {}

    def sent(self, size: int, now: int) -> None:
        """Charge the link for a frame of `size` bytes."""
        self._busy_until = max(self._busy_until, now) + self._time(size)

    def hand_over(self, size: int) -> None:
        """Note that a packet of `size` bytes is on its way: sent() will charge for it, before all_sent()."""
        self._handed_over += self._time(size)

    def all_sent(self) -> None:
        """Record that all packets handed over have been sent, or dropped."""
        self._handed_over = 0

    def seen(self, stream: bytes, now: int) -> None:
        """Note that a stream, known by some bytes, uses the link."""
        if stream not in self._streams and len(self._streams) >= _MOST_STREAMS:
            self._streams = {name: at for name, at in self._streams.items() if at + _ACTIVE > now}
        if stream in self._streams or len(self._streams) < _MOST_STREAMS:
            self._streams[stream] = now

    def is_congested(self, now: int) -> bool:
        """Return whether a packet sent now should carry a mark."""
        return self._busy_until > now + self._mark

    def next_turn(self, size: int, now: int) -> int:
        """Return when a stream that has sent `size` bytes at its share of the rate may send again, ns."""
        streams = sum(at + _ACTIVE > now for at in self._streams.values())
        return now + self._time(size) * max(streams, 1)

    def free_at(self, turn: int, now: int) -> int:
        """Return when a stream whose turn comes at `turn` may send, ns; not after `now` if it may.

        That is sooner if the link would be idle, and later if the backlog is too long.
        """
        busy_until = max(self._busy_until, now) + self._handed_over
        return max(min(turn, busy_until - self._idle), busy_until - self._most)

    def _time(self, size: int) -> int:
        return round((size + self._overhead) * self._ns_per_byte)
