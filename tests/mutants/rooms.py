"""Deliberate bugs of rooms and of those who visit them: what stories of swarms must find."""

from typing import Any

from mutants.patches import Mutants, Patch, instead, returns
from ssb.peer.connection import Connection
from ssb.peer.connections import Connections
from ssb.peer.streams import Streams
from ssb.rooms.room import Room
from ssb.rooms.visits import Visits
from ssb.transport.secure_stream import PlainStream


def _plain_inside(original: Any, self: Connections, called: str | None, admits: Any) -> Any:
    if admits == self._access.meets:
        return PlainStream(self._identity.public_key)
    return original(self, called, admits)


def _handshakes_go_on(original: Any, self: Connections, remote: str, now: int, **how: bool) -> None:
    young = {number: each for number, each in self._connections.items() if not each.remote}
    for number in young:
        del self._connections[number]
    original(self, remote, now, **how)
    self._connections |= young


def _tunnels_beside(original: Any, self: Connections, connection: Connection) -> bool:
    return bool(original(self, connection)) and not connection.room


ROOM_MUTANTS: Mutants = {
    "the room says who calls": (
        instead(Connections, "_channel", lambda original, self, called, admits: original(self, called, bool)),
    ),
    "nothing is sealed inside tunnels": (instead(Connections, "_channel", _plain_inside),),
    "nothing is sealed": (
        instead(Connections, "_channel", lambda original, self, *_: PlainStream(self._identity.public_key)),
    ),
    "the first way only": (
        instead(
            Streams, "open", lambda original, self, remote, address, _: original(self, remote, address, None)
        ),
    ),
    "a handshake outlives a farewell": (instead(Connections, "remove_peer", _handshakes_go_on),),
    "a tunnel is no connection": (instead(Connections, "_is_ours", _tunnels_beside),),
    "half a tunnel stays": (Patch(Room, "_end", returns(None)),),
    "subscriptions stay": (Patch(Room, "_unwatch", returns(None)),),
    "who has left is still there": (Patch(Room, "_leave", returns(None)),),
    "who comes is not told of": (Patch(Room, "_tell", returns(None)),),
    "visits stay": (Patch(Visits, "close", returns(None)),),
}
"""Bugs of rooms."""
