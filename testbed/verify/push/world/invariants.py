"""Invariants under loss, duplication, reordering, delay and cuts: observers of a simulated world.

1. No link carries an item outside a range granted over it: `Grants`.
2. An application gets every item exactly once, in order, verified, or a named error: `Delivery`.
3. Connected for long enough, every subscriber catches up: `Delivery.is_done`, checked by the world.
4. State returns to zero when subscriptions end: `check_ended`.
5. A malformed or forged packet changes no state but counters: `digest` before and after.

And idle feeds cause little traffic: `check_quiet`.

Observers know frames, items and a host's public interface, but not the forwarder's own grants.
"""

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any

from base.units import MS
from forwarder.feedcache.items import Item
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.tables.counters import Counters
from forwarder.tables.face import BYTE_COUNTERS, PACKET_COUNTERS
from forwarder.wire.hello import Hello, reference
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.world.frames import Frame

QUIET_LLIS = 60
"""Maximum LLIs per feed and link direction, besides renewals, during half a minute of idleness."""


@dataclass(eq=False, slots=True)
class _Grant:
    number: int
    first: int
    limit: int
    lifetime: int
    expiry: int
    nonce: int | None
    classic: bool
    own_expiry: int
    instead: frozenset[int] = frozenset()  # the ranges that could have paid, where it has
    paid: set[int] = field(default_factory=set)
    is_open: bool = True  # closed when used up, or at a fork
    # Its last item was sent, possibly for a classic Interest, or came from there.
    may_be_over: bool = False

    def copy(self) -> "_Grant":
        """Return a grant that is paid apart from this one."""
        return replace(self, paid={*self.paid}, own_expiry=self.expiry, is_open=True, may_be_over=False)

    def is_duplicated_by(self, frame: Frame, now: int) -> bool:
        """Return whether a frame is a link-level duplicate of its origin."""
        return self.is_open and not self.may_be_over and self.nonce == frame.nonce and now < self.own_expiry

    def covers(self, seq: int, now: int) -> bool:
        """Return whether it covers an item not sent since its creation."""
        return self.first <= seq <= self.limit and self.expiry > now and seq not in self.paid


class Grants:
    """The ranges that have arrived at each end of each link.

    A classic Interest, and any at a node without push, grants its one item once. The LLIs of a downstream
    make one range: a sent item counts against all of them that cover it, or against the Interest, whichever
    is left: if the Interest has paid where ranges could have paid, it is left until an item goes that only
    they cover. An LLI prolongs existing grants, and lasts as long as those that are open; one apart from an
    open range grants the gap, for the renewal in between was lost. All grants of a feed end with credit 0, a
    sent Nack, a Hello with Forgotten (all feeds), or one with only the feed's reference in a Have. A Hello
    with the digest of all grants prolongs them, if the reply has the same digest. A duplicate of the newest
    LLI grants nothing during its lifetime while its range is open.

    A node notices an expiry when it is not busy any more, `turns` ns late, by node. Until then, an LLI
    prolongs a range that has expired.

    A node that receives several frames in one turn sends after the last of them, and so sends for grants that
    a later frame of the turn has ended or replaced: an item counts against these first. If it refuses an LLI
    in such a turn, it may have accepted another one, even a copy of the same: each Nack is for one LLI.
    """

    def __init__(self, legacy: Iterable[str], turns: Mapping[str, int] = MappingProxyType({})) -> None:
        self._legacy = frozenset(legacy)
        self._turns = turns
        self._grants: dict[tuple[str, str, bytes], list[_Grant]] = {}
        self._made = 0
        self._held: dict[tuple[str, str, int], bytes | None] = {}  # by node, peer and number of the Hello
        self._may_have_sent = False
        self._before: defaultdict[tuple[str, str, bytes], list[_Grant]] = defaultdict(list)
        self._unanswered: Counter[tuple[str, str, bytes]] = Counter()  # LLIs of this turn less Nacks

    def turn_begins(self) -> None:
        """Begin a turn of a node."""
        self._may_have_sent = False
        self._before.clear()
        self._unanswered.clear()

    def may_have_sent(self) -> None:
        """Note that a node has received a frame, and may receive another before it sends."""
        self._may_have_sent = True

    def _keep(self, key: tuple[str, str, bytes]) -> None:
        """Keep grants that are about to change: what they cover may already be about to be sent."""
        if self._may_have_sent:
            self._before[key] += [grant.copy() for grant in self._grants.get(key, ())]

    def arrived(self, node: str, peer: str, frame: Frame, now: int) -> None:
        """Record a frame that `node` has received from `peer`."""
        if frame.hello is not None:
            self._hello(node, peer, frame.hello)
        key = (node, peer, frame.feed)
        if frame.kind == "item":  # its sender need not be sent it, so a range may be over without it
            for grant in self._grants.get(key, ()):
                grant.may_be_over = grant.may_be_over or frame.seq == grant.limit
        if frame.kind not in ("lli", "interest", "cancel") or not frame.seq:
            return
        self._keep(key)
        noticed = now - self._turns.get(node, 0)
        grants = [grant for grant in self._grants.get(key, ()) if grant.expiry > noticed]
        classic = frame.kind == "interest" or node in self._legacy
        if classic:
            grants.append(self._grant(frame, frame.seq, frame.seq, now, classic=True))
        elif frame.kind == "cancel":
            grants = [grant for grant in grants if grant.classic]
        else:
            self._unanswered[key] += 1
            ours = [grant for grant in grants if not grant.classic]
            is_duplicate = ours and ours[-1].is_duplicated_by(frame, now)
            if not is_duplicate or self._may_have_sent:  # what it duplicates may just have been used up
                still_open = [grant for grant in ours if grant.is_open]
                first = min([frame.seq, *(grant.limit + 1 for grant in still_open)])
                new = self._grant(frame, first, frame.seq + frame.credit - 1, now, classic=False)
                for grant in ours:
                    grant.expiry = max(grant.expiry, new.own_expiry)
                new.expiry = max([new.expiry, *(grant.expiry for grant in still_open)])
                is_old = any(grant.nonce == frame.nonce for grant in ours)  # replayed: no newest LLI
                grants.insert(0 if is_old else len(grants), new)
        self._grants[key] = grants

    def _grant(self, frame: Frame, first: int, limit: int, now: int, *, classic: bool) -> _Grant:
        self._made += 1
        lifetime = frame.lifetime_ms * MS
        until = now + lifetime
        return _Grant(self._made, first, limit, lifetime, until, frame.nonce, classic, own_expiry=until)

    def sent(self, node: str, peer: str, frame: Frame, now: int) -> None:
        """Check a frame that `node` sends to `peer`."""
        if frame.hello is not None and frame.hello.reply is not None:
            self._renew(node, peer, frame.hello.reply, frame.hello.held, now)
        grants = self._grants.get((node, peer, frame.feed), [])
        if frame.kind == "nack" and frame.is_lli:
            self._unanswered[node, peer, frame.feed] -= 1
            if self._unanswered[node, peer, frame.feed] <= 0:
                grants[:] = [grant for grant in grants if grant.classic]  # a refused range ends
        elif frame.kind == "proof":
            for grant in grants:
                grant.is_open = False
        if frame.kind != "item":
            return
        # A classic Interest takes precedence: it is good for this item only.
        noticed = now - self._turns.get(node, 0)
        current = [grant for grant in grants if grant.covers(frame.seq, noticed)]
        before = self._before.get((node, peer, frame.feed), ())
        covering = [grant for grant in before if grant.covers(frame.seq, noticed)][:1] or current
        paying = [grant for grant in covering if grant.classic][-1:] or covering
        if not paying:  # the range has paid for the one before, and has ended
            kept = [each for each in grants if each.instead and each.first == frame.seq]
            paying = [each for each in kept if each.expiry > noticed][-1:]
        if not paying:
            raise Violation("granted", node, f"item {frame.seq} goes to {peer}, which has not granted it")
        ranges = frozenset(grant.number for grant in covering if not grant.classic)
        for grant in grants:
            if grant.first == frame.seq and ranges <= grant.instead:
                grant.instead = frozenset()
        for grant in paying:
            grant.instead = ranges if grant.classic else frozenset()
            grant.paid.add(frame.seq)
            grant.is_open = grant.is_open and frame.seq != grant.limit
        for grant in current:
            grant.may_be_over = grant.may_be_over or frame.seq == grant.limit

    def _hello(self, node: str, peer: str, hello: Hello) -> None:
        if hello.number is not None:
            self._held[node, peer, hello.number] = hello.held
        gone = {have.reference for have in hello.haves if have.next is None}
        for (granting, asking, feed), grants in self._grants.items():
            if granting != node or asking != peer:
                continue
            if hello.is_forgotten or reference(feed) in gone:
                self._keep((granting, asking, feed))
                grants[:] = [grant for grant in grants if grant.classic]

    def _renew(self, node: str, peer: str, number: int, granted: bytes | None, now: int) -> None:
        """Prolong all grants of `peer` to `node`, if both agree on them in a Hello and its reply."""
        if granted is None or self._held.get((node, peer, number)) != granted:
            return
        for (granting, asking, _), grants in self._grants.items():
            if granting != node or asking != peer:
                continue
            noticed = now - self._turns.get(node, 0)
            ours = [grant for grant in grants if not grant.classic]
            # By the lifetime of the LLI that has arrived last, which may be a late duplicate of any.
            longest = max((grant.lifetime for grant in ours), default=0)
            for grant in ours:
                if grant.expiry > noticed:
                    grant.expiry = max(grant.expiry, now + longest)

    def is_rewind(self, node: str, peer: str, frame: Frame) -> bool:
        """Return whether an arriving LLI requests sent items again."""
        grants = self._grants.get((node, peer, frame.feed), ())
        return any(frame.seq in grant.paid for grant in grants)

    def forget(self, node: str, peer: str | None = None) -> None:
        """Drop the grants of `peer`, or everyone, to `node`, after a link failure or a restart."""
        for key in list(self._grants):
            if key[0] == node and peer in (None, key[1]):
                del self._grants[key]
        self._held = {
            key: held for key, held in self._held.items() if key[0] != node or peer not in (None, key[1])
        }


class Delivery:
    """The deliveries of one subscription of an application.

    Args:
        where: name for reports.
        branches: the contents of the items that each device of the feed publishes.
        fork: first item that differs between branches, None without.
        after: the last item already held.
    """

    def __init__(self, where: str, branches: Sequence[Sequence[bytes]], fork: int | None, after: int) -> None:
        self.where = where
        self.held = after
        self.fork = fork
        self.error: str | None = None
        self._branches = branches

    def got(self, item: Item) -> None:
        """Check an item taken by the application."""
        seq = item.seq
        if self.error is not None:
            raise Violation("delivered", self.where, f"item {seq} after the error {self.error!r}")
        if seq != self.held + 1:
            raise Violation("delivered", self.where, f"item {seq} after item {self.held}")
        self._branches = [branch for branch in self._branches if branch[seq - 1] == item.data.content]
        if not self._branches:
            raise Violation(
                "delivered", self.where, f"item {seq} is not the one that follows item {self.held}"
            )
        self.held = seq

    def failed(self, error: str) -> None:
        """Check an error reported to the application."""
        if error == "fork" and self.fork is None:
            raise Violation("error", self.where, "a fork is reported in a feed that has none")
        self.error = error

    @property
    def progress(self) -> str:
        """Its progress, for reports."""
        return f"has items up to {self.held}, and {self.error or 'no error'}"

    def is_done(self, published: int) -> bool:
        """Return whether the application has all `published` items, or an error for their absence."""
        return self.error is not None or self.held >= published


def check_quiet(asked: Mapping[tuple[str, str, bytes], int], seconds: int, shortest_ms: int) -> None:
    """Check that idle feeds cause little traffic.

    A lifetime is renewed half way, by the downstream's repetition and by the relay's own; probes become
    rarer. QUIET_LLIS allows for earlier activity.

    Args:
        asked: LLIs sent meanwhile, by sender, receiver and feed.
        seconds: duration of idleness.
        shortest_ms: the shortest lifetime of a subscription.
    """
    most = 2 * seconds * 2000 // shortest_ms + QUIET_LLIS
    for (a, b, _), count in asked.items():
        if count > most:
            raise Violation("quiet", a, f"{count} LLIs to {b} in {seconds} s in which nothing happens")


def check_ended(name: str, host: Host) -> None:
    """Check that a host has no state of ended subscriptions."""
    entries, size = host.forwarder.pit_entries(), host.forwarder.pit_bytes()
    if entries or size:
        raise _left(name, f"PIT entries {entries}, bytes in the PIT {size}")


def check_silent(name: str, host: Host) -> None:
    """Check that a host will do nothing more of its own accord."""
    alarm = host.next_deadline()
    if alarm is not None:
        raise _left(name, f"alarm at {alarm}")


def _left(name: str, what: str) -> Violation:
    return Violation("state-zero", name, f"all subscriptions have ended, but there is: {what}")


_NO_STATE = frozenset(
    {"counters", "rejected", "failures", "oversized", "_now", "_asks", "_application_due"}
    | {*PACKET_COUNTERS, *BYTE_COUNTERS}
)
"""Counters, times of last arrivals, and a host's knowledge of what its applications will say."""
_PLAIN = frozenset({type(None), bool, int, float, str})
_found_slots: dict[type, list[str]] = {}
_SKIPPED = (Random, Counter, Counters, type, FunctionType, BuiltinFunctionType, MethodType)


def digest(host: Host | Forwarder) -> bytes:
    """Return a hash of the state of a host, or a forwarder alone, without counters and random generators.

    It walks the whole tree of objects, private ones too: a forged packet must not touch any of them.
    """
    hasher = hashlib.blake2b(digest_size=16)
    _hash_object(host, hasher.update, {})
    return hasher.digest()


def _hash_object(value: Any, update: Callable[[bytes], None], seen: dict[int, tuple[int, Any]]) -> None:
    kind = type(value)
    if kind in _PLAIN:
        update(f"{value!r};".encode())
        return
    if kind is bytes:
        update(b"%d:" % len(value))
        update(value)
        return
    if isinstance(value, _SKIPPED):
        return
    if id(value) in seen:
        update(b"#%d" % seen[id(value)][0])
        return
    seen[id(value)] = (len(seen), value)  # keeps it alive: compiled code makes tuples on access
    update(kind.__name__.encode())
    if isinstance(value, (list, tuple, deque)):
        for inner in value:
            _hash_object(inner, update, seen)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _hash_object(key, update, seen)
            _hash_object(inner, update, seen)
    elif isinstance(value, (set, frozenset)):
        for inner in sorted(value):
            _hash_object(inner, update, seen)
    else:
        for name in _slots(kind):
            _hash_attribute(value, name, update, seen)
        for name in sorted(getattr(value, "__dict__", ())):
            _hash_attribute(value, name, update, seen)


def _hash_attribute(
    value: object, name: str, update: Callable[[bytes], None], seen: dict[int, tuple[int, Any]]
) -> None:
    if name not in _NO_STATE:
        update(name.encode())
        _hash_object(getattr(value, name, None), update, seen)


def _slots(kind: type) -> list[str]:
    found = _found_slots.get(kind)
    if found is not None:
        return found
    names: set[str] = set()
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
        names.update(base.__dict__.get("__mypyc_attrs__", ()))  # slots of compiled classes
    found = _found_slots[kind] = sorted(names - {"__dict__"})
    return found
