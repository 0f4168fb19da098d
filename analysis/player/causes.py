"""What made a node send a packet: the packet that arrived before, or what its application did.

A capture does not show causes; they are inferred. The latest of these is taken, all at the sender: the
arrival of a packet about the same thing (the same item or name, an LLI whose range holds the item, the same
TCP segment on its way); something that the application noted about the item; any arrival at this very moment,
of the same feed or connection first. Otherwise a timer or an application sent it.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

PUBLISHED, JOINED, NOTHING = -2, -3, -1
"""Causes that are no packets."""

_NOTED = {"published": PUBLISHED, "joined": JOINED}
_SLACK_NS = 1_000_000
"""With real clocks, time from an arrival to what it causes, ns."""


class Crossing(NamedTuple):
    """A packet on a link: its ends, times sent and received in ns (None if lost), kind, what it is about,
    feed, and item; of an LLI also its credit; the connection, if it is of one.
    """

    sender: str
    receiver: str
    sent: int
    received: int | None
    kind: str
    subject: Hashable
    feed: str | None
    seq: int | None
    credit: int
    connection: Hashable


class _Arrival(NamedTuple):
    time: int
    rank: int
    """Of two at one time the higher is taken."""
    cause: int


class _Node:
    """What has arrived at a node: the latest arrival about each subject, feed and connection, and at all."""

    def __init__(self) -> None:
        self.about: dict[Hashable, _Arrival] = {}
        self.llis: dict[tuple[str | None, str], list[tuple[int, int, _Arrival]]] = {}
        self.near: dict[Hashable, _Arrival] = {}

    def receive(self, packet: Crossing, number: int, time: int) -> None:
        if packet.subject is not None:
            self.about[packet.subject] = _Arrival(time, 3, number)
        if packet.kind == "lli" and packet.seq is not None:
            grant = packet.seq, packet.seq + packet.credit - 1, _Arrival(time, 3, number)
            self.llis[packet.feed, packet.sender] = [
                *self.llis.get((packet.feed, packet.sender), [])[-7:],
                grant,
            ]
        self.near[None] = _Arrival(time, 0, number)
        for place in filter(None, (packet.feed, packet.connection)):
            self.near[place] = _Arrival(time, 1, number)

    def cause(self, packet: Crossing, noted: Mapping[Hashable, _Arrival], slack: int) -> int:
        """Return the number of the packet that caused one, or PUBLISHED, JOINED or NOTHING."""
        found = [self.about.get(packet.subject)]
        if packet.kind == "lli" and found[0] is not None and found[0].time < packet.sent - slack:
            found = []  # the item that came before, maybe long ago, does not ask for more
        if packet.kind == "data":
            found += [self._under_name(packet.subject)] if found[0] is None else []
            grants = self.llis.get((packet.feed, packet.receiver), [])
            found += [at for first, last, at in grants if first <= (packet.seq or 0) <= last]
        what = "published" if packet.kind == "data" else "joined"
        did = noted.get((packet.sender, what, packet.feed, packet.seq if what == "published" else None))
        if did is not None and (did.cause == PUBLISHED or packet.sent - did.time <= slack):
            found.append(did)
        near = (self.near.get(place) for place in (packet.feed or packet.connection, None))
        found += [at for at in near if at is not None and packet.sent - at.time <= slack]
        return max(
            filter(None, found), key=lambda at: (at.time, at.rank), default=_Arrival(0, 0, NOTHING)
        ).cause

    def _under_name(self, name: Hashable) -> _Arrival | None:
        """Return what asked for a prefix of a name."""
        while isinstance(name, str) and name:
            name = name.rpartition("/")[0]
            if (found := self.about.get(name)) is not None:
                return found
        return None


def causes(
    packets: Sequence[Crossing], events: Iterable[Mapping[str, object]], *, is_exact: bool
) -> list[int]:
    """Return the cause of each packet, by its number; packets are in order of `sent`.

    `events` are the applications', with time, node, event, feed and seq. `is_exact`: in virtual time, where
    an effect has its cause's time.
    """
    nodes: defaultdict[str, _Node] = defaultdict(_Node)
    arrivals: list[tuple[int, int]] = []
    due = sorted((row for row in events if row["event"] in _NOTED), key=lambda row: int(str(row["time"])))[
        ::-1
    ]
    noted: dict[Hashable, _Arrival] = {}
    found = []
    for number, packet in enumerate(packets):
        while arrivals and arrivals[0][0] <= packet.sent:
            time, earlier = heappop(arrivals)
            nodes[packets[earlier].receiver].receive(packets[earlier], earlier, time)
        while due and int(str(due[-1]["time"])) <= packet.sent:
            row = due.pop()
            what = str(row["event"])
            place = row["node"], what, row["feed"], row["seq"] if what == "published" else None
            noted[place] = _Arrival(int(str(row["time"])), 2, _NOTED[what])
        found.append(nodes[packet.sender].cause(packet, noted, 0 if is_exact else _SLACK_NS))
        if packet.received is not None:
            heappush(arrivals, (packet.received, number))
    return found


def effects(found: Sequence[int]) -> list[list[int]]:
    """Return the packets that each packet has caused, by their numbers."""
    result: list[list[int]] = [[] for _ in found]
    for number, cause in enumerate(found):
        if cause >= 0:
            result[cause].append(number)
    return result


def repairs(packets: Sequence[Crossing]) -> dict[int, int]:
    """Return for each lost packet with an item the packet that brought it to the receiver afterwards."""
    came: dict[tuple[str, str, int], int] = {}
    found = {}
    # Backwards in time of sending, the latest that is known is the next one to arrive, save for overtaking.
    for number in range(len(packets) - 1, -1, -1):
        packet = packets[number]
        if packet.kind == "data" and packet.feed is not None and packet.seq is not None:
            key = packet.receiver, packet.feed, packet.seq
            if packet.received is not None:
                came[key] = number
            elif key in came:
                found[number] = came[key]
    return found
