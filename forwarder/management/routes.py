"""The modules rib and fib (NFD RibMgmt, FibMgmt, PrefixAnnouncement)."""

from collections.abc import Mapping, Sequence

from base.units import MS
from forwarder.management.announcement import (
    ROUTE_COST,
    Announcement,
    announcement_in,
    make_announcement,
    parse_announcement,
)
from forwarder.management.authorisation import Authorisation
from forwarder.management.module import MOST_COMPONENTS, Call, Command, Module, Refusal, check_prefix, done
from forwarder.management.parameters import (
    COST,
    EXPIRATION_PERIOD,
    FACE_ID,
    FLAGS,
    ORIGIN,
    ControlResponse,
)
from forwarder.tables.face import Face
from forwarder.tables.fib import Fib
from forwarder.tables.rib import Origin, Rib, Route, RouteFlag
from forwarder.wire.name import GENERIC, NAME, component, prefix_ends
from forwarder.wire.tlv import MalformedPacket, element, nni

_ENTRY = 0x80
_RECORD = 0x81

_LONGEST_MS = 1 << 43
"""Beyond this an ExpirationPeriod, ms, is no end at all; and ns stay within 64 bits."""

LEARNT_NS = 600_000_000_000
"""Longest lifetime of a route that a strategy has learnt, as in NFD."""

_SHORTEST_MS = 15_000
_LONGEST_OWN_MS = 3_600_000
"""Validity of announcements made for routes that were registered without one, ms, as in NFD."""

_LOCALHOST = component(GENERIC, b"localhost")


def _numbers(fields: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(element(kind, nni(value)) for kind, value in fields)


class RibModule(Module):
    """rib/register, rib/unregister, rib/announce, rib/list; routes that strategies learn and announce.

    Args:
        rib: the table.
        faces: all of the forwarder's.
        authorisation: trusted signers of announcements.
    """

    name = "rib"

    def __init__(self, rib: Rib, faces: Mapping[int, Face], authorisation: Authorisation) -> None:
        self._rib = rib
        self._faces = faces
        self._authorisation = authorisation
        self.commands = {
            "register": Command(
                self._register,
                frozenset({"name"}),
                frozenset({"face", "origin", "cost", "flags", "expiration"}),
            ),
            "unregister": Command(self._unregister, frozenset({"name"}), frozenset({"face", "origin"})),
            "announce": Command(self._announce, takes_payload=True),
        }
        self.datasets = {"list": self._list}

    def _register(self, call: Call) -> ControlResponse:
        asked = call.parameters
        route = Route(
            call.prefix(),
            call.own_face(),
            Origin.APP if asked.origin is None else asked.origin,
            asked.cost or 0,
            RouteFlag.CHILD_INHERIT if asked.flags is None else asked.flags,
        )
        # NFD answers 200 and then forgets the route; its FIB has this code.
        if route.face not in self._faces:
            raise Refusal(410, f"there is no face {route.face}")
        if asked.expiration is not None and asked.expiration < _LONGEST_MS:
            route.deadline = call.now + asked.expiration * MS
        self._rib.register(route)
        return done(
            name=route.prefix,
            face=route.face,
            origin=route.origin,
            cost=route.cost,
            flags=int(route.flags),
            expiration=asked.expiration,
        )

    def _unregister(self, call: Call) -> ControlResponse:
        prefix, face = call.prefix(), call.own_face()
        origin = Origin.APP if call.parameters.origin is None else call.parameters.origin
        self._rib.unregister(prefix, face, origin)
        return done(name=prefix, face=face, origin=origin)

    def _announce(self, call: Call) -> ControlResponse:
        try:
            announcement = announcement_in(call.payload)
            face = call.own_face()
            check_prefix(announcement.prefix)
            if not self._authorisation.is_announced(announcement.data, call.now):
                raise Refusal(403, "prefix announcement rejected: not authorised, or wrongly signed")
        except MalformedPacket as error:
            raise Refusal(400, f"not a prefix announcement: {error}") from error
        expiry = announcement.expires(call.now)
        if expiry <= call.now:
            raise Refusal(403, "prefix announcement rejected: it does not count now")
        if face not in self._faces:
            raise Refusal(410, f"there is no face {face}")
        route = _route_of(announcement, face, expiry, call.now)
        self._rib.register(route)
        return done(
            name=route.prefix,
            face=face,
            origin=route.origin,
            cost=route.cost,
            flags=int(route.flags),
            expiration=(expiry - call.now) // MS,
        )

    def learn(self, face: int, wire: bytes, now: int) -> bool:
        """Make a route from an announcement that came in on a face; return whether it was made.

        This is Forwarder.on_announcement.
        """
        try:
            announcement = parse_announcement(wire)
            if len(prefix_ends(announcement.prefix)) > MOST_COMPONENTS or face not in self._faces:
                return False
            if not self._authorisation.is_announced(announcement.data, now):
                return False
        except MalformedPacket:
            return False
        expiry = min(announcement.expires(now), now + LEARNT_NS)
        if expiry <= now:
            return False
        self._rib.register(_route_of(announcement, face, expiry, now))
        return True

    def announcement_of(self, name: bytes, now: int) -> bytes | None:
        """Return the announcement for a name: that of the longest prefix that has one.

        An application here has registered the prefix, or a neighbour has announced it. For an application
        that has not announced it, one is made. This is Forwarder.announcement_of.
        """
        for end in [*reversed(prefix_ends(name)), 0]:
            prefix = name[:end]
            routes = [
                route
                for route in self._rib.routes_of(prefix)
                if (face := self._faces.get(route.face)) is not None
                and (face.is_local or route.announcement is not None)
            ]
            if routes and not prefix.startswith(_LOCALHOST):
                announced = [route for route in routes if route.announcement is not None]
                if announced:
                    return max(announced, key=lambda route: route.deadline).announcement
                lasting = any(route.deadline < 0 for route in routes)
                left = (max(route.deadline for route in routes) - now) // MS
                period = _LONGEST_OWN_MS if lasting else min(max(left, _SHORTEST_MS), _LONGEST_OWN_MS)
                return make_announcement(prefix, period, now // MS)
        return None

    def withdraw(self, face: int, name: bytes, now: int) -> None:
        """Remove the learnt route of a name to a face. This is Forwarder.on_withdrawal."""
        for end in [*reversed(prefix_ends(name)), 0]:
            learnt = [
                route
                for route in self._rib.routes_of(name[:end])
                if (route.face, route.origin) == (face, Origin.PREFIX_ANNOUNCEMENT)
            ]
            if learnt:
                self._rib.unregister(name[:end], face, Origin.PREFIX_ANNOUNCEMENT)
                return

    def _list(self, _rest: Sequence[tuple[int, bytes]], now: int) -> bytes:
        entries = []
        for prefix, routes in self._rib.items():
            value = element(NAME, prefix)
            for route in routes:
                fields = [
                    (FACE_ID, route.face),
                    (ORIGIN, route.origin),
                    (COST, route.cost),
                    (FLAGS, int(route.flags)),
                ]
                if route.deadline >= 0:
                    fields.append((EXPIRATION_PERIOD, max(route.deadline - now, 0) // MS))
                value += element(_RECORD, _numbers(fields))
            entries.append(element(_ENTRY, value))
        return b"".join(entries)


def _route_of(announcement: Announcement, face: int, expiry: int, now: int) -> Route:
    return Route(
        announcement.prefix,
        face,
        Origin.PREFIX_ANNOUNCEMENT,
        ROUTE_COST,
        RouteFlag.CHILD_INHERIT,
        expiry if expiry - now < _LONGEST_MS * MS else -1,
        announcement.data.wire,
    )


class FibModule(Module):
    """fib/add-nexthop, fib/remove-nexthop, fib/list.

    Args:
        fib: the forwarder's.
        faces: all of the forwarder's.
    """

    name = "fib"

    def __init__(self, fib: Fib, faces: Mapping[int, Face]) -> None:
        self._fib = fib
        self._faces = faces
        self.commands = {
            "add-nexthop": Command(self._add, frozenset({"name"}), frozenset({"face", "cost"})),
            "remove-nexthop": Command(self._remove, frozenset({"name"}), frozenset({"face"})),
        }
        self.datasets = {"list": self._list}

    def _add(self, call: Call) -> ControlResponse:
        prefix, face, cost = call.prefix(), call.own_face(), call.parameters.cost or 0
        if face not in self._faces:
            raise Refusal(410, f"there is no face {face}")
        self._fib.add(prefix, face, cost)
        return done(name=prefix, face=face, cost=cost)

    def _remove(self, call: Call) -> ControlResponse:
        prefix, face = call.prefix(), call.own_face()
        self._fib.remove(prefix, face)
        return done(name=prefix, face=face)

    def _list(self, _rest: Sequence[tuple[int, bytes]], _now: int) -> bytes:
        entries = []
        for prefix, hops in self._fib.items():
            value = element(NAME, prefix)
            for hop in hops:
                value += element(_RECORD, _numbers([(FACE_ID, hop.face), (COST, hop.cost)]))
            entries.append(element(_ENTRY, value))
        return b"".join(entries)
