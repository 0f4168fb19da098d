"""Invariants of Interests and their answers at each node: an observer of classic packets.

It records the packets received and sent by a node, on links and application faces, with their times.

- `unasked`: Data go only to a face with a pending Interest: the Data satisfy it (name, CanBePrefix, implicit
  digest; for MustBeFresh the Data arrived within their freshness period), it has not expired, and has not
  been answered. Data of each name answer a persistent Interest once. The node has received these Data, and
  does not return them to the face of their arrival.
- `withheld`: a node sends arriving Data at once to all faces with a pending Interest, except the face of
  their arrival. A persistent Interest may have passed these Data before.
- `loop`: a node forwards an Interest (name and nonce) from one face only, to another face no more often than
  received, and never back. It sends a copy with a nonce of its own (a probe) only if another face waits for
  the same name.
- `hop-limit`: HopLimit decreases by one at each hop, and is not 0 on a link.
- `refusal`: a Nack answers an Interest from the same face, once. Unless the Interest was a duplicate, every
  next hop has refused it, or the Interest has expired there.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from base.units import MS
from forwarder.tables.dead_nonces import LIFETIME
from forwarder.wire.lp import DUPLICATE
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.world.frames import Frame, Key


@dataclass(eq=False, slots=True)
class _InRecord:
    """A pending Interest of a face, with all its copies: expiry and nonces.

    `answered`: time of its answer, -1 before. `copies`: number sent by an application at the instant
    `arrival`: each may be answered, and may cross with Data that arrive at that instant, so that it stays
    pending.
    """

    expiry: int = 0
    last_expiry: int = 0  # of the last copy
    # The node may hold no record: the Interest was refused, or answered at the instant of its arrival.
    is_doubtful: bool = False
    last_nonce: int | None = None
    nonces: set[int | None] = field(default_factory=set)
    answered: int = -1
    arrival: int = -1
    copies: int = 0
    passed: set[bytes] | None = None  # names of Data passed by a persistent one
    repeatable: set[bytes] = field(default_factory=set)  # those that may be repeated once

    def waits(self, now: int) -> bool:
        """Return whether it is neither answered nor expired."""
        return self.answered < 0 and self.expiry > now

    def waited(self, now: int) -> bool:
        """Return whether it is pending, or was answered at this instant."""
        return self.expiry > now and self.answered in (-1, now)


@dataclass(eq=False, slots=True)
class _NonceRecord:
    """An Interest of one name and nonce: faces received from and sent to."""

    received: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    hop_limits: dict[str, set[int | None]] = field(default_factory=dict)
    source: str | None = None
    is_known: bool = False
    last_from: str = ""
    last: int = 0


class _OutRecord(NamedTuple):
    """A sent Interest: its nonce, its expiry (ns), and whether the node surely holds it."""

    nonce: int | None
    expiry: int
    is_certain: bool


@dataclass(eq=False, slots=True)
class _Node:
    """Packets received and sent by a node, by face."""

    in_records: dict[str, dict[Key, _InRecord]] = field(default_factory=dict)
    out_records: dict[Key, dict[str, _OutRecord]] = field(default_factory=dict)
    answered: dict[Key, int] = field(default_factory=dict)  # arrival of Data for forwarded Interests
    data: dict[bytes, tuple[int, str]] = field(default_factory=dict)  # time and face of the last arrival
    nonces: dict[tuple[bytes, int | None], _NonceRecord] = field(default_factory=dict)


class Exchanges:
    """The exchanges of all nodes; `probing` nodes have strategies that send copies."""

    def __init__(self, probing: frozenset[str]) -> None:
        self._probing = probing
        self._nodes: dict[str, _Node] = {}
        self._unsettled: list[tuple[str, _InRecord]] = []

    def arrived(self, node: str, peer: str, frame: Frame, now: int) -> None:
        """Record a packet that `node` has received from `peer`."""
        here = self._nodes.setdefault(node, _Node())
        if frame.kind == "interest":
            self._note_interest(here, peer, frame, now)
        elif frame.kind in ("data", "item"):
            here.data[frame.wire] = now, peer
            self._note_waiting(here, peer, frame, now)
            for key in [key for key in here.out_records if frame.satisfies(key)]:
                del here.out_records[key]
                here.answered[key] = now
        elif frame.kind == "nack":
            records = here.out_records.get(frame.key, {})
            if peer in records and records[peer].nonce == frame.nonce:
                del records[peer]

    def sent(self, node: str, peer: str, frame: Frame, now: int) -> None:
        """Check a packet that `node` sends to `peer`."""
        here = self._nodes.setdefault(node, _Node())
        if frame.kind == "interest":
            self._check_interest(here, node, peer, frame, now)
        elif frame.kind in ("data", "item"):
            self._check_data(here, node, peer, frame, now)
        elif frame.kind == "nack":
            self._check_nack(here, node, peer, frame, now)

    def forget(self, node: str, peer: str | None = None) -> None:
        """Forget the records between `node` and `peer` after a link failure; or all records of a restarted
        node.
        """
        if peer is None:
            self._nodes.pop(node, None)
            return
        here = self._nodes.setdefault(node, _Node())
        for key in here.in_records.pop(peer, {}):
            # Without other requesters the node also drops its next hops.
            sent = here.out_records.get(key, {})
            sent.update({face: record._replace(is_certain=False) for face, record in sent.items()})
        for sent in here.out_records.values():
            sent.pop(peer, None)

    def _note_waiting(self, here: _Node, origin: str, frame: Frame, now: int) -> None:
        """Record the faces with Interests that await arriving Data."""
        for face, records in here.in_records.items():
            for key, record in records.items():
                if record.answered >= 0 or record.last_expiry <= now or record.is_doubtful:
                    continue
                if not frame.satisfies(key):
                    continue
                if face == origin:
                    record.is_doubtful = True  # the node has the Data itself
                elif record.arrival != now and record.passed is None:
                    self._unsettled.append((face, record))

    def check_settled(self, node: str, now: int) -> None:
        """Check that a node has sent arrived Data to all faces with pending Interests."""
        for face, record in self._unsettled:
            if record.answered != now and not record.is_doubtful:
                raise Violation("withheld", node, f"has Data that {face} waits for, and does not send them")
        self._unsettled.clear()

    def _note_interest(self, here: _Node, peer: str, frame: Frame, now: int) -> None:
        key = frame.key
        records = here.in_records.setdefault(peer, {})
        record = records.get(key)
        if record is None or not record.waits(now):
            record = records[key] = _InRecord()
        if is_application(peer):
            record.copies = record.copies + 1 if record.arrival == now else 1
        record.arrival = now
        record.last_expiry = now + frame.lifetime_ms * MS
        record.expiry = max(record.expiry, record.last_expiry)
        record.is_doubtful |= frame.hop_limit == 0
        if frame.nonce not in record.nonces:  # a copy changes nothing, and its refusal concerns no other
            record.last_nonce = frame.nonce
        record.nonces.add(frame.nonce)
        if frame.is_persistent and record.passed is None:
            record.passed = set()
        name = frame.name, frame.nonce
        by_nonce = here.nonces.get(name)
        if by_nonce is None or by_nonce.last + LIFETIME // 2 <= now:
            is_known = by_nonce is not None
            by_nonce = here.nonces[name] = _NonceRecord()
            by_nonce.is_known = is_known  # the node may still remember it, but need not
        by_nonce.received[peer] += 1
        by_nonce.hop_limits.setdefault(peer, set()).add(frame.hop_limit)
        by_nonce.last = now
        by_nonce.last_from = peer

    def _check_interest(self, here: _Node, node: str, peer: str, frame: Frame, now: int) -> None:
        key = frame.key
        by_nonce = here.nonces.get((frame.name, frame.nonce))
        if by_nonce is None:
            if node not in self._probing:
                raise Violation("loop", node, f"sends {peer} an Interest that has not come from anywhere")
            if not any(
                records[key].waited(now)
                for face, records in here.in_records.items()
                if key in records and face != peer
            ):
                raise Violation(
                    "loop", node, f"sends {peer} a copy of an Interest for which nobody else waits"
                )
            here.nonces[frame.name, frame.nonce] = by_nonce = _NonceRecord()
            by_nonce.received[node] += 1  # at its origin
            by_nonce.source, by_nonce.last = node, now
            by_nonce.sent[peer] += 1
        else:
            self._check_forwarded(by_nonce, node, peer, frame)
        # An application may answer before the frame is observed; or another Interest of the same instant.
        is_certain = here.answered.get(key) != now
        expiry = now + frame.lifetime_ms * MS
        here.out_records.setdefault(key, {})[peer] = _OutRecord(frame.nonce, expiry, is_certain)

    def _check_forwarded(self, by_nonce: _NonceRecord, node: str, peer: str, frame: Frame) -> None:
        origin = by_nonce.last_from
        if origin == peer:
            raise Violation("loop", node, f"sends an Interest back to {peer}")
        if by_nonce.source is None:
            by_nonce.source = origin
        elif by_nonce.source != origin:
            what = f"passes on an Interest of {by_nonce.source} once more as it comes from {origin}"
            raise Violation("loop", node, what)
        by_nonce.sent[peer] += 1
        if by_nonce.sent[peer] > by_nonce.received[origin]:
            times = f"{by_nonce.sent[peer]} times, which has come {by_nonce.received[origin]} times"
            raise Violation("loop", node, f"passes on an Interest to {peer} {times}")
        before = None if frame.hop_limit is None else frame.hop_limit + 1
        if before not in by_nonce.hop_limits[origin]:
            raise Violation(
                "hop-limit", node, f"sends {peer} hop limit {frame.hop_limit}, not one less than it got"
            )
        if frame.hop_limit == 0 and not is_application(peer):
            raise Violation("hop-limit", node, f"sends {peer} an Interest with hop limit 0")

    def _check_data(self, here: _Node, node: str, peer: str, frame: Frame, now: int) -> None:
        if frame.wire not in here.data:
            raise Violation("unasked", node, f"sends {peer} Data that have not come from anywhere")
        arrival, origin = here.data[frame.wire]
        is_new = arrival == now
        waiting = _waiting(here.in_records.get(peer, {}), frame, arrival, now)
        answerable = waiting
        if is_new and origin == peer:  # they may answer a later Interest
            answerable = [record for record in waiting if record.arrival == now]
        if not is_new and _answer_one_of_several(answerable, now):
            return
        if _answer(answerable, frame.name, is_new, now):
            return
        if len(answerable) < len(waiting):
            raise Violation("unasked", node, f"sends {peer} the Data that have just come from there")
        raise Violation("unasked", node, f"sends {peer} Data for which no Interest of it waits")

    def _check_nack(self, here: _Node, node: str, peer: str, frame: Frame, now: int) -> None:
        by_nonce = here.nonces.get((frame.name, frame.nonce))
        if by_nonce is None or by_nonce.refused[peer] >= by_nonce.received[peer]:
            raise Violation(
                "refusal", node, f"sends {peer} a Nack for an Interest that it does not have from there"
            )
        by_nonce.refused[peer] += 1
        key = frame.key
        record = here.in_records.get(peer, {}).get(key)
        if record is not None:
            self._check_first(record, by_nonce, node, peer, frame)
            record.is_doubtful = True
        pending = {face: sent for face, sent in here.out_records.get(key, {}).items() if sent.expiry > now}
        certain = [face for face, sent in pending.items() if sent.is_certain and face != peer]
        is_again = by_nonce.is_known or sum(by_nonce.received.values()) > 1
        # A persistent Interest stays pending after Data, and a copy of it is refused.
        is_persistent = record is not None and record.passed is not None
        is_again &= bool(pending) or is_persistent or by_nonce.source != peer
        if frame.reason == DUPLICATE and is_again:
            if record is not None and record.nonces == {frame.nonce} and by_nonce.received[peer] == 1:
                record.answered = now  # a looping Interest is not pending
            else:
                _allow_repetition(record)
            return
        if certain:
            raise Violation(
                "refusal", node, f"refuses an Interest of {peer} while {certain[0]} may still answer it"
            )
        if record is not None and record.last_nonce == frame.nonce:
            record.answered = now
        else:
            _allow_repetition(record)

    def _check_first(
        self, record: _InRecord, by_nonce: _NonceRecord, node: str, peer: str, frame: Frame
    ) -> None:
        """Check that a Nack is the first outcome of an Interest."""
        is_certain = not record.is_doubtful and by_nonce.received[peer] == 1 and not record.passed
        if record.answered >= 0 and is_certain and frame.nonce in record.nonces:
            raise Violation("refusal", node, f"sends {peer} a Nack for an Interest that has been answered")


def _allow_repetition(record: _InRecord | None) -> None:
    """Record that a persistent Interest may have ended by refusal: the same Data answer the next one."""
    if record is not None and record.passed:
        record.repeatable = set(record.passed)


def is_application(peer: str) -> bool:
    """Return whether a label is an application's, not a neighbour's."""
    return "/" in peer


def _waiting(records: dict[Key, _InRecord], frame: Frame, arrival: int, now: int) -> list[_InRecord]:
    """Return the Interests of a face that await Data which arrived at `arrival`.

    Data from the content store are sent at the instant of the Interest's arrival.
    """
    is_fresh = arrival == now or now < arrival + frame.freshness_ms * MS
    return [
        record
        for key, record in records.items()
        if record.waits(now) and frame.satisfies(key) and (is_fresh or not key[2])
        if now in (arrival, record.arrival)
    ]


def _answer_one_of_several(waiting: list[_InRecord], now: int) -> bool:
    """Record that stored Data answer one of several Interests of this instant; False if there is at most one.

    Each gets the Data, in an unobserved order.
    """
    simultaneous = [
        record for record in waiting if record.arrival == now and record.copies and record.passed is None
    ]
    if len(simultaneous) < 2:
        return False
    simultaneous[0].copies -= 1
    for record in simultaneous:
        record.is_doubtful = True
    return True


def _answer(waiting: list[_InRecord], name: bytes, is_new: bool, now: int) -> bool:
    """Record the Interests of a face answered by Data; return whether there are any.

    An application's Interests of this instant may each be answered separately. A persistent one is answered
    only if no other is.
    """
    copied = [record for record in waiting if record.arrival == now and record.copies > (not is_new)]
    if copied:
        copied[0].copies -= 1
    for record in copied:
        record.is_doubtful = True
    others = [record for record in waiting if record not in copied]
    classic = [record for record in others if record.passed is None]
    for record in classic:
        record.answered = now
    if copied or classic:
        return True
    for record in reversed(others):
        if record.passed is not None and (name not in record.passed or name in record.repeatable):
            record.passed.add(name)
            record.repeatable.discard(name)
            return True
    return False
