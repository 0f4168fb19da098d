"""access: the next hop that answered last, for lossy last hops (NFD's strategy of that name).

Theory of operation. For a router whose next hops each lead to somebody's machine, over links that lose, with
routes that are mostly right. The first Interest goes to all next hops. The one that answers first is
remembered for all names with the same parent as its Data; Interests under it then go only there. A
repetition goes to all, no sooner than 100 ms after the last one sent. If the next hop leaves an Interest
unanswered for a retransmission time-out, the next Interest, whichever it is, goes to all again.

What is remembered is forgotten after 8 s without an answer. NFD sends the very Interest that has timed out to
the others; here its consumer's repetition does that, since strategies have no timers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from base.round_trip import RoundTrip
from base.units import MS
from forwarder.strategies.measurements import Measurements, round_trip
from forwarder.strategies.strategy import Node, Strategy
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.name import prefix_ends
from forwarder.wire.packet import Data

_HOLD_BACK = 100 * MS
_LIFETIME = 8000 * MS


@dataclass(slots=True)
class _Known:
    """The face that answered last; the name of the Interest that it is timed by, and when that is due, ns."""

    face: int
    rtt: RoundTrip = field(default_factory=round_trip)
    awaited: bytes | None = None
    due: int = 0


class Access(Strategy):
    """The next hop that answered last; all of them if there is none, or if it does not answer."""

    NAME = "access"
    VERSION = 1

    def __init__(self, node: Node, parameters: Mapping[str, str]) -> None:
        super().__init__(node, parameters)
        self._known: Measurements[_Known] = Measurements(_LIFETIME)

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        everywhere = [hop.face for hop in hops]
        if entry.is_pending(now):
            return everywhere if now >= entry.last_sent() + _HOLD_BACK else ()
        known = self._known.find(entry.name, prefix_ends(entry.name), now)
        if known is None or known.face not in everywhere:
            return everywhere or None
        if known.awaited is None:
            known.awaited, known.due = entry.name, now + known.rtt.timeout()
        elif now >= known.due:
            known.awaited = None
            return everywhere
        return (known.face,)

    def after_data(self, entry: PitEntry, face: int, data: Data, now: int) -> int:
        record = entry.out_record(face)
        ends = prefix_ends(data.name)
        if entry.is_satisfied or record is None:
            return 0
        parent = data.name[: ends[-2]] if len(ends) > 1 else data.name
        known = self._known.get_or_make(parent, lambda: _Known(face), now)
        if known.face != face:
            known = _Known(face)
            self._known.set(parent, known, now)
        known.rtt.sample(now - record.sent)
        if known.awaited == entry.name:
            known.awaited = None
        return 0
