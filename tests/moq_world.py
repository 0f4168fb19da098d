"""Relays of Media over QUIC that talk to each other without a network: streams in any pieces, and faults."""

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random

from base.endpoint import (
    Close,
    Closed,
    Connect,
    Ended,
    Full,
    Opened,
    Received,
    Send,
    StreamAction,
    StreamEvent,
    Writable,
)
from base.units import SECOND
from ssb.moq.hops import BOUNDS, PORT, Bounds
from ssb.moq.messages import Track
from ssb.moq.relay import Relay

IDLE = 10 * SECOND
TRACK = Track((b"ssb", bytes(32)), b"log")
Place = tuple[str, int]


def text(number: int) -> bytes:
    """The object of a number; some are longer than a record."""
    return b"%d " % number * (1 + 4000 * (number % 7 == 3))


class World:
    """Relays, the first of which publishes.

    routes: of each relay those that it may ask, the best first. cache: objects that each keeps.
    """

    def __init__(
        self, routes: Mapping[str, Sequence[str]], cache: int = 100, seed: int = 0, bounds: Bounds = BOUNDS
    ) -> None:
        self.routes = dict(routes)
        self.origin = next(iter(routes))
        self.cache, self.bounds = cache, bounds
        self.now = 0
        self.rng = Random(seed)
        self.published = 0
        self.got: dict[str, list[int]] = {name: [] for name in routes}
        self.follows: set[str] = set()
        self.cut: set[frozenset[str]] = set()
        self.silent: set[frozenset[str]] = set()
        self.pipes: dict[Place, Place] = {}
        self.waiting: dict[Place, deque[bytes]] = {}
        self.full: set[Place] = set()
        self.said: list[tuple[Place, Place, bytes]] = []
        self._accepted = 0
        self.relays = {name: self._relay(name) for name in routes}

    def _relay(self, name: str) -> Relay:
        def routes(track: Track) -> list[tuple[str, int]]:
            return [(other, PORT) for other in self.routes[name]] if track == TRACK else []

        relay = Relay(routes, IDLE, self.cache, self.bounds)
        if name == self.origin:
            relay.announce(TRACK)
        return relay

    # --- What happens ---

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self.relays[self.origin].publish(TRACK, text(self.published), self.now)
            self.published += 1
        self.run()

    def follow(self, name: str) -> None:
        if name not in self.follows:
            self.follows.add(name)
            self.relays[name].follow(TRACK, len(self.got[name]), self.now)
            self.run()

    def leave(self, name: str) -> None:
        self.follows.discard(name)
        self.relays[name].leave(TRACK, self.now)
        self.run()

    def restart(self, name: str) -> None:
        for place in [place for place in self.pipes if place[0] == name]:
            self._close(place)
        self.relays[name] = relay = self._relay(name)
        if name == self.origin:
            for number in range(self.published):
                relay.publish(TRACK, text(number), self.now)
        elif name in self.follows:
            relay.follow(TRACK, len(self.got[name]), self.now)
        self.run()

    def break_off(self, a: str, b: str, *, silent: bool) -> None:
        """Let a hop carry nothing more; with or without a word to its ends."""
        self.cut.add(frozenset((a, b)))
        if silent:
            self.silent.add(frozenset((a, b)))
        else:
            self.reset(a, b)

    def mend(self, a: str, b: str) -> None:
        """Let a hop carry again; connections that it had are dead."""
        self.cut.discard(frozenset((a, b)))
        self.silent.discard(frozenset((a, b)))
        self.reset(a, b)

    def reset(self, a: str, b: str) -> None:
        for place in [each for each, other in self.pipes.items() if {each[0], other[0]} == {a, b}]:
            if place in self.pipes:
                self._close(place, both=True)
        self.run()

    def fill(self, a: str, b: str) -> None:
        """Let connections from one to the other take no more."""
        for place, other in [*self.pipes.items()]:
            if (place[0], other[0]) == (a, b) and place not in self.full:
                self.full.add(place)
                self._tell(place, Full(place[1]))
        self.run()

    def drain(self, a: str, b: str) -> None:
        for place in [*self.full]:
            if (place[0], self.pipes[place][0]) == (a, b):
                self._drain(place)
        self.run()

    def reroute(self, name: str, routes: Sequence[str]) -> None:
        self.routes[name] = routes
        self.relays[name].reroute(self.now)
        self.run()

    def pass_time(self, duration: int) -> None:
        until = self.now + duration
        for _ in range(10_000):
            due = [(relay.next_deadline(), name) for name, relay in self.relays.items()]
            first = min((each for each in due if each[0] is not None), default=(None, ""))
            if first[0] is None or first[0] > until:
                self.now = until
                return
            self.now = max(self.now, first[0])
            self.relays[first[1]].wake(self.now)
            self.run()
        raise AssertionError("it wakes without end")

    # --- The network ---

    def run(self) -> None:
        for _ in range(100_000):
            busy = [name for name, relay in self.relays.items() if relay.actions]
            waiting = [relay for relay in self.relays.values() if relay.has_more]
            if not busy and not waiting:
                break
            for relay in waiting if not busy else ():
                relay.wake(self.now)
            for name in busy:
                actions, self.relays[name].actions = self.relays[name].actions, []
                for action in actions:
                    self._act(name, action)
        else:
            raise AssertionError("they talk without end")
        for name, relay in self.relays.items():
            received, relay.received = relay.received, []
            for track, number, payload in received:
                assert track == TRACK
                assert payload == text(number)
                self.got[name].append(number)

    def _act(self, name: str, action: StreamAction) -> None:
        place = name, action.stream
        if isinstance(action, Connect):
            other = action.to[0]
            if frozenset((name, other)) in self.silent:
                return
            if frozenset((name, other)) in self.cut or other not in self.relays:
                self._tell(place, Closed(action.stream, "no way"))
                return
            self._accepted -= 1
            there = other, self._accepted
            self.pipes[place], self.pipes[there] = there, place
            self._tell(there, Opened(there[1], (name, 50_000), PORT))
            self._tell(place, Opened(action.stream, (other, PORT)))
        elif place not in self.pipes:
            return
        elif isinstance(action, Send):
            if place in self.full:
                self.waiting.setdefault(place, deque()).append(action.data)
            else:
                self._pass(place, action.data)
        elif isinstance(action, Close):
            self._close(place, both=not action.abort)

    def _pass(self, place: Place, data: bytes) -> None:
        there = self.pipes[place]
        if frozenset((place[0], there[0])) in self.silent:
            return
        self.said.append((place, there, data))
        at = 0
        while at < len(data) and there in self.pipes:
            end = at + self.rng.choice((1, 2, 7, 100, 5000, 100_000))
            self._tell(there, Received(there[1], data[at:end]))
            at = end

    def _drain(self, place: Place) -> None:
        self.full.discard(place)
        for data in self.waiting.pop(place, ()):
            if place in self.pipes:
                self._pass(place, data)
        if place in self.pipes:
            self._tell(place, Writable(place[1]))

    def _close(self, place: Place, *, both: bool = False) -> None:
        there = self.pipes.pop(place)
        self.pipes.pop(there)
        for end in (place, there):
            self.full.discard(end)
            self.waiting.pop(end, None)
        is_silent = frozenset((place[0], there[0])) in self.silent
        if both:
            self._tell(place, Closed(place[1], "reset"))
        if not is_silent:
            self._tell(there, Ended(there[1]) if both else Closed(there[1], "reset"))

    def _tell(self, place: Place, event: StreamEvent) -> None:
        self.relays[place[0]].on_stream(event, self.now)
