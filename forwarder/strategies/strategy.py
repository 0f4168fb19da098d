"""The base class of forwarding strategies (NFD developer guide, section 5); see also strategy_choice.

A strategy is a class in a file of its own, in forwarder.strategies or elsewhere: it chooses next hops, and
may learn from answers. The core does the rest: it offers only next hops that are allowed, keeps the PIT,
sends, and refuses downstreams when there is no next hop. A strategy has no timer: it finds time-outs when it
is called next.

State of a pending Interest goes into the entry's `notes`. forwarder.strategies.measurements holds state by
name, forwarder.strategies.suppression delays repeated Interests.
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
    """The part of a forwarder that strategies use."""

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
        """Remove the route by which `name` was sent to `face`, if announce() has made it."""
        ...

    def find_announcement(self, name: bytes, now: int) -> bytes | None:
        """Return the announcement that made the route of the longest prefix of `name`, None if none did.

        An application of this node has made it, or it has come to announce().
        """
        ...


class Strategy:
    """Base of all strategies: never forwards anything.

    Class attributes:
        NAME, VERSION: its name is /localhost/nfd/strategy/<NAME>/v=<VERSION>.
        PARAMETERS: default values of its parameters, from 0 on; if a default is an int, only whole numbers
            are accepted.
        PROBES, HEARS_DATA, JUDGES_DATA, LEADS_FEEDS: whether it overrides probe(), after_data(), accepts()
            and feed_hops(); set automatically, so that the core need not call those that are not.
        IS_STRICT: whether after_interest() refuses only the current downstream, even while others wait.

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
        """Set the class attributes that depend on overridden methods."""
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

        `hops` are the allowed next hops, cheapest first: never back to `face`, and never out of its scope.
        `entry.is_pending(now)` is true of a repetition. `entry.tags` are the header fields that it came with,
        and those that it will be sent with.

        Empty: it is suppressed while another one is pending. None: there is no next hop (Nack NoRoute, unless
        it is pending at some face).
        """
        return None

    def probe(self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int) -> Sequence[int]:
        """Choose faces to which a copy goes, with a nonce of its own so that it does not read as a loop.

        Called after an Interest has been sent where after_interest() said.
        """
        return ()

    def accepts(self, entry: PitEntry, face: int, data: Data, now: int) -> bool:
        """Return whether Data that came in on `face` satisfy an Interest; those that satisfy none are
        dropped.
        """
        return True

    def after_data(self, entry: PitEntry, face: int, data: Data, now: int) -> int:
        """Learn from Data that came in on `face`, before they go to downstreams.

        Return how long the entry is to stay, ns, without its in-records, to learn from other answers; 0
        is usual. Later Data for such an entry come here too, without downstreams. The Data are sent with the
        announcement in `entry.tags`.
        """
        return 0

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """Learn from a Nack that came in on `face`; return faces to try instead.

        Once all upstreams have refused, downstreams are refused with the least severe reason; None: the entry
        stays pending all the same. Without downstreams `hops` is empty, and the return value is ignored.
        """
        return ()

    def after_expiry(self, entry: PitEntry, now: int) -> None:
        """Learn from an Interest that has expired."""

    def feed_hops(self, feed: bytes, hops: Sequence[NextHop], *, past: bool) -> Sequence[NextHop] | None:
        """Choose the next hops that a feed may come from under controlled push (forwarder.lli), best first.

        `hops` are those of the FIB, cheapest first. Empty: the node waits for one; None: it refuses the feed.
        With `past`: next hops that may have items that this node's caches have evicted.
        """
        return hops
