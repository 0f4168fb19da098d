"""What a forwarding strategy is (NFD developer guide, section 5); strategy_choice says which is where.

A strategy is a class in a file of its own in forwarder.strategies, or anywhere else: it says where an
Interest goes, and may learn from what comes back. The core does the rest: it passes on only next hops that
may be used, keeps the PIT, sends, and tells who waits when there is no way to go. A strategy has no timer:
what is overdue it finds when it is asked next.

What it remembers with a pending Interest goes into the entry's `notes`; for what it knows of names there is
forwarder.strategies.measurements, for repeated Interests forwarder.strategies.suppression.
"""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar, Protocol

from forwarder.tables.face import Face
from forwarder.tables.fib import Fib, NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.packet import Data


class Node(Protocol):
    """What a strategy may look at of the forwarder that it works for."""

    faces: dict[int, Face]
    fib: Fib
    rng: Random

    def neighbours(self, entry: PitEntry, face: int) -> list[int]:
        """Return the faces to the network, route or not, that an Interest from `face` may go out of.

        They are up, and neither lead back nor out of its scope.
        """
        ...

    def announce(self, face: int, announcement: bytes, now: int) -> None:
        """Make a route to `face` from a prefix announcement (a Data packet) that came in there."""
        ...

    def withdraw(self, face: int, name: bytes, now: int) -> None:
        """Forget the route to `face` that announce() has made and by which `name` was sent there, if any."""
        ...

    def find_announcement(self, name: bytes, now: int) -> bytes | None:
        """Return the announcement that made the route of the longest prefix of `name`, None if none did.

        An application of this node has made it, or it has come to announce().
        """
        ...


class Strategy:
    """Base of all strategies: never forwards anything.

    Class attributes:
        NAME, VERSION: it is known as /localhost/nfd/strategy/<NAME>/v=<VERSION>.
        PARAMETERS: default values of its parameters. A whole number takes whole numbers from 0 on, any other
            takes numbers from 0 on.
        PROBES, HEARS_DATA, JUDGES_DATA, LEADS_FEEDS: whether it has a probe(), an after_data(), an accepts()
            and a feed_hops() of its own, which is found out by itself: most have none, and all would be
            called for every exchange.
        IS_STRICT: whether after_interest() refuses only who asks now, and does so though others wait.

    Args:
        node: the forwarder.
        parameters: by name, as text, from the strategy's name or a configuration file.

    Attributes:
        parameters: the values of all its parameters.

    Raises ValueError, with a line for the user, if it does not take a parameter.
    """

    NAME: ClassVar[str] = ""
    VERSION: ClassVar[int] = 1
    PARAMETERS: ClassVar[Mapping[str, float]] = {}
    PROBES: ClassVar[bool] = False
    HEARS_DATA: ClassVar[bool] = False
    JUDGES_DATA: ClassVar[bool] = False
    LEADS_FEEDS: ClassVar[bool] = False
    IS_STRICT: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Take note of what a class derived from this one does."""
        super().__init_subclass__()
        cls.PROBES = cls.probe is not Strategy.probe
        cls.HEARS_DATA = cls.after_data is not Strategy.after_data
        cls.JUDGES_DATA = cls.accepts is not Strategy.accepts
        cls.LEADS_FEEDS = cls.feed_hops is not Strategy.feed_hops

    def __init__(self, node: Node, parameters: Mapping[str, str]) -> None:
        self.node = node
        self.parameters = {**self.PARAMETERS}
        for name, text in parameters.items():
            if name not in self.PARAMETERS:
                known = ", ".join(self.PARAMETERS) or "none"
                raise ValueError(f"strategy {self.NAME} has no parameter {name!r}; there are: {known}")
            self.parameters[name] = self._read(name, text)

    def _read(self, name: str, text: str) -> float:
        is_whole = type(self.PARAMETERS[name]) is int
        try:
            value = int(text) if is_whole else float(text)
        except ValueError:
            value = -1
        if not 0 <= value < math.inf:
            kind = "whole number" if is_whole else "number"
            raise ValueError(f"strategy {self.NAME}: {name}: {text!r} is not a {kind} from 0 on")
        return value

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """Choose the faces to send an Interest to that came from `face` at `now` (ns).

        `hops` are the next hops that it may go to, cheapest first: never back to `face`, and never out of
        its scope. `entry.is_pending(now)` tells whether it is a repetition. `entry.tags` are the header
        fields that it came with, and those that it will be sent with.

        Empty: it waits, another one is on its way. None: there is no way to go (Nack NoRoute, unless it is
        pending somewhere).
        """
        return None

    def probe(self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int) -> Sequence[int]:
        """Choose faces to which a copy goes, with a nonce of its own so that it does not read as a loop.

        Called after an Interest has been sent where after_interest() said.
        """
        return ()

    def accepts(self, entry: PitEntry, face: int, data: Data, now: int) -> bool:
        """Tell whether Data that came in on `face` answer an Interest; those that answer none are dropped."""
        return True

    def after_data(self, entry: PitEntry, face: int, data: Data, now: int) -> int:
        """Learn from Data that came in on `face`, before it goes to whoever waits for it.

        Return how long the entry is to stay, ns, without its in-records, to learn from other answers; 0
        is usual. The Data of such an entry come here too, and then nobody waits. The Data go on with the
        announcement in `entry.tags`.
        """
        return 0

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """Learn from a Nack that came in on `face`; return faces to try instead.

        Once all faces that were asked have refused, downstream is refused, with the least severe of their
        reasons; None: it goes on waiting all the same. If nobody waits any more there are no `hops`, and
        nothing to try.
        """
        return ()

    def after_expiry(self, entry: PitEntry, now: int) -> None:
        """Learn from an Interest that nobody has answered in time."""

    def feed_hops(self, feed: bytes, hops: Sequence[NextHop], *, past: bool) -> Sequence[NextHop] | None:
        """Choose the next hops that a feed may come from under controlled push (forwarder.lli), best first.

        `hops` are those of the FIB, cheapest first. Without any, the node waits for one; None: it refuses the
        feed. With `past`: those that may have items which this node's caches have let go.
        """
        return hops
