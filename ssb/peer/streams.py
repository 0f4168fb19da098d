"""The streams of a peer: those of TCP, and those that rooms carry as tunnels."""

from itertools import count

from base.endpoint import Address, Close, Connect, Pause, Send, StreamAction
from ssb.rooms.visits import Visits


class Streams:
    """Streams by their numbers.

    Args:
        visits: streams through rooms; None if the peer visits none.
    """

    def __init__(self, visits: Visits | None = None) -> None:
        self._visits = visits
        self._numbers = count(1)
        self._actions: list[StreamAction] = []

    def take_actions(self) -> list[StreamAction]:
        """Return the actions on streams of TCP since the last call; see StreamEndpoint."""
        actions, self._actions = self._actions, []
        return actions

    def open(self, remote: str, address: Address | None, useless: str | None) -> tuple[int, str] | None:
        """Open a stream to a peer; return its number and its way, None if there is none.

        A way is a room that the peer is in, or "" for its address. The ways take turns: the one after the way
        that was useless last is taken, so a room that swallows all keeps nobody from the others. Both peers
        leave it at the same time, and meet on the next way that they share.
        """
        rooms = {} if self._visits is None else self._visits.rooms_with(remote)
        ways = [*([""] if address is not None else []), *sorted(rooms)]
        if not ways:
            return None
        way = ways[(ways.index(useless) + 1) % len(ways)] if useless in ways else ways[0]
        if self._visits is not None and way:
            return self._visits.connect(remote, rooms[way]), way
        assert address is not None
        number = next(self._numbers)
        self._actions.append(Connect(number, address))
        return number, way

    def room_of(self, number: int) -> str:
        """Return the room that carries a stream; "" if it is one of TCP."""
        return "" if self._visits is None else self._visits.room_of(number)

    def send(self, number: int, data: bytes) -> None:
        """Send bytes."""
        self._act(Send(number, data))

    def close(self, number: int, *, abort: bool = False) -> None:
        """Finish sending after what was sent; if `abort`, break off."""
        self._act(Close(number, abort))

    def pause(self, number: int, *, paused: bool) -> None:
        """Stop reading from a stream of TCP, or resume."""
        self._actions.append(Pause(number, paused))

    def in_order(self, numbers: list[int]) -> list[int]:
        """Return numbers in the order to send on them: what rooms carry first, as it is calls on others."""
        if self._visits is None:
            return numbers
        return sorted(numbers, key=self._visits.is_stream, reverse=True)

    def _act(self, action: Send | Close) -> None:
        if self._visits is not None and self._visits.is_stream(action.stream):
            self._visits.act(action)
        else:
            self._actions.append(action)
