"""asf: the next hop with the shortest round trip, found out by probing (NFD developer guide, section 5.2.4).

Adaptive SRTT-based Forwarding: V. Lehman et al., "An Experimental Investigation of Hyperbolic Routing with a
Smart Forwarding Plane in NDN", NDN Technical Report NDN-0042, 2016.

Theory of operation. For each namespace, that is each prefix in the FIB, the strategy knows of each next hop
whether it works, and its smoothed round-trip time. An Interest goes to the best one: those that work by their
time; then those that have not been measured, by cost; then those that have timed out, by cost.

- Timing out. One Interest at a time is timed for each next hop. When its answer is overdue (RFC 6298, 200 ms
  at least, 1 s before there is a measurement) that is one time-out; any answer from there sets their number
  back to 0. With `max-timeouts` of them in a row, or one Nack, the next hop counts as timed out, until the
  next answer from there. What is overdue is counted when the strategy is asked next for that namespace,
  before it decides anything, which comes to the same as a timer. So lost Interests count, repeated or not.
- Probing. Every `probing-interval`, the first time after up to 5 s, a copy of a new Interest goes to another
  next hop: one that has not been measured, else one drawn with chances that fall linearly with its rank. The
  entry stays for 50 ms after the first answer, so that the probe's still counts.
- Repetitions go to the best next hop that the Interest is not pending at; else to the one where it was sent
  longest ago, once that one's suppression interval has passed.
- What is known of a next hop that is not used is forgotten after `measurements-lifetime`.

An Interest that waits for Data that do not exist yet looks like one that is lost: for names under which
consumers ask for the future, a next hop's "round trip" is the time between two items.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from base.round_trip import RoundTrip
from base.units import MS
from forwarder.strategies.measurements import Measurements, round_trip
from forwarder.strategies.strategy import Node, Strategy
from forwarder.strategies.suppression import PARAMETERS, Suppression
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.packet import Data

_FIRST_PROBE_MS = 5000
_LEAST_PROBING_MS = 1000
_STRAGGLER = 50 * MS
_WORKING, _UNMEASURED, _TIMED_OUT = range(3)


@dataclass(slots=True)
class _Path:
    """A next hop of a namespace.

    Attributes:
        state: whether it works.
        timeouts: in a row.
        awaited: name of the Interest that is timed; None if none is.
        due: when its answer is overdue, ns.
        expiry: when all this is forgotten, ns.
    """

    expiry: int
    rtt: RoundTrip = field(default_factory=round_trip)
    state: int = _UNMEASURED
    timeouts: int = 0
    awaited: bytes | None = None
    due: int = 0


@dataclass(slots=True)
class _Namespace:
    """Measurements of a prefix's next hops, by face, and the time of the next probe, ns."""

    paths: dict[int, _Path] = field(default_factory=dict)
    probe_at: int | None = None


@dataclass(slots=True)
class _Notes:
    """Of a pending Interest: its namespace, where it went when it was new, suppression intervals by face."""

    namespace: _Namespace
    first: int | None = None
    intervals: dict[int, int] = field(default_factory=dict)


class Asf(Strategy):
    """The next hop with the shortest round trip."""

    NAME = "asf"
    VERSION = 5
    PARAMETERS: ClassVar[Mapping[str, float]] = {
        **PARAMETERS,
        "probing-interval": 60_000,
        "max-timeouts": 3,
        "measurements-lifetime": 300_000,
    }

    def __init__(self, node: Node, parameters: Mapping[str, str]) -> None:
        super().__init__(node, parameters)
        self._suppression = Suppression(self.parameters)
        probing, lifetime = self.parameters["probing-interval"], self.parameters["measurements-lifetime"]
        if probing < _LEAST_PROBING_MS:
            raise ValueError(f"strategy asf: probing-interval must be {_LEAST_PROBING_MS} ms at least")
        if lifetime <= probing:
            raise ValueError("strategy asf: measurements-lifetime must be more than probing-interval")
        self._probing = round(probing * MS)
        self._lifetime = round(lifetime * MS)
        self._namespaces: Measurements[_Namespace] = Measurements(self._lifetime)

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        prefix = self.node.fib.longest_prefix(entry.name)
        namespace = self._namespaces.get_or_make(prefix, _Namespace, now)
        self._settle(namespace, now)
        if entry.notes is None or entry.notes.namespace is not namespace:
            entry.notes = _Notes(namespace)
        notes: _Notes = entry.notes
        if not entry.is_pending(now):
            if not hops:
                return None
            notes.first = _best(namespace, hops).face
            self._time(namespace, notes.first, entry.name, now)
            return (notes.first,)
        notes.first = None
        if not hops:
            return ()
        pending_since = {record.face: record.sent for record in entry.out_records if record.expiry > now}
        unused = [hop for hop in hops if hop.face not in pending_since]
        chosen = _best(namespace, unused) if unused else min(hops, key=lambda hop: pending_since[hop.face])
        if not self._suppression.allows(entry, chosen.face, notes.intervals, now):
            return ()
        if unused:
            self._time(namespace, chosen.face, entry.name, now)
        return (chosen.face,)

    def probe(self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int) -> Sequence[int]:
        notes: _Notes = entry.notes
        namespace = notes.namespace
        if notes.first is None:
            return ()
        if namespace.probe_at is None:
            namespace.probe_at = now + self.node.rng.randint(0, _FIRST_PROBE_MS) * MS
        others = [hop for hop in hops if hop.face not in (notes.first, face)]
        if now < namespace.probe_at or not others:
            return ()
        namespace.probe_at = now + self._probing
        ranked = sorted(others, key=lambda hop: _rank(namespace, hop, (_UNMEASURED, _WORKING, _TIMED_OUT)))
        chosen = ranked[0].face
        if _state(namespace, chosen) != _UNMEASURED:
            (chosen,) = self.node.rng.choices([hop.face for hop in ranked], range(len(ranked), 0, -1))
        self._time(namespace, chosen, entry.name, now)
        return (chosen,)

    def after_data(self, entry: PitEntry, face: int, data: Data, now: int) -> int:
        notes: _Notes | None = entry.notes
        record = entry.out_record(face)
        if notes is None:
            return 0
        self._settle(notes.namespace, now)
        path = notes.namespace.paths.get(face)
        if path is None:
            return 0
        # The answer to a persistent Interest may have been produced long after it was sent.
        if record is not None and entry.passed is None:
            path.rtt.sample(now - record.sent)
            path.state = _WORKING
        path.timeouts = 0
        path.expiry = now + self._lifetime
        if path.awaited is not None and (path.awaited == entry.name or data.name.startswith(path.awaited)):
            path.awaited = None
        has_others = any(other.face != face and other.nacked is None for other in entry.out_records)
        return _STRAGGLER if has_others else 0

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int]:
        notes: _Notes | None = entry.notes
        if notes is not None:
            self._settle(notes.namespace, now)
            path = notes.namespace.paths.get(face)
            if path is not None:
                path.state, path.timeouts = _TIMED_OUT, 0
                if path.awaited == entry.name:
                    path.awaited = None
        return ()

    def _settle(self, namespace: _Namespace, now: int) -> None:
        """Count time-outs, and drop expired measurements."""
        for path in namespace.paths.values():
            if path.awaited is not None and path.due <= now:
                path.awaited = None
                path.timeouts += 1
                if path.timeouts >= self.parameters["max-timeouts"]:
                    path.state, path.timeouts = _TIMED_OUT, 0
        if any(path.expiry <= now for path in namespace.paths.values()):
            namespace.paths = {face: path for face, path in namespace.paths.items() if path.expiry > now}

    def _time(self, namespace: _Namespace, face: int, name: bytes, now: int) -> None:
        """Record that an Interest goes to a face, and time it unless another one is being timed."""
        path = namespace.paths.get(face)
        if path is None:
            path = namespace.paths[face] = _Path(0)
        path.expiry = now + self._lifetime
        if path.awaited is None:
            path.awaited, path.due = name, now + path.rtt.timeout()


def _state(namespace: _Namespace, face: int) -> int:
    path = namespace.paths.get(face)
    return _UNMEASURED if path is None else path.state


def _rank(namespace: _Namespace, hop: NextHop, order: Sequence[int]) -> tuple[int, ...]:
    """Return the sort key of a next hop: its state first."""
    state = _state(namespace, hop.face)
    time = namespace.paths[hop.face].rtt.smoothed if state == _WORKING else None
    return order.index(state), time or 0, hop.cost, hop.above, hop.face


def _best(namespace: _Namespace, hops: Sequence[NextHop]) -> NextHop:
    return min(hops, key=lambda hop: _rank(namespace, hop, (_WORKING, _UNMEASURED, _TIMED_OUT)))
