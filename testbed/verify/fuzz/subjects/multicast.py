"""A node in multicast trees under any packets of its neighbours, with a source and a reader of its own.

An input is a sequence of events (`events.py`). One neighbour is honest: it reads the source, and must get
all that is published, whatever the others send.
"""

from random import Random

from base.units import MS, SECOND
from ssb.multicast import gaps
from ssb.multicast.ends import Reader, Source
from ssb.multicast.gaps import Patience
from ssb.multicast.host import Host
from ssb.multicast.packets import (
    LAST_NUMBER,
    Channel,
    InvalidPacket,
    Item,
    Join,
    Request,
    encode,
    parse,
)
from ssb.multicast.router import MOST_TREES, Router
from testbed.verify.fuzz.subjects.events import PAUSE, Event, Timed, playing
from testbed.verify.fuzz.subjects.wire import expect

RAW, PUBLISH, LINK, ROUTE = range(4)
"""Kinds: bytes of a neighbour; the source publishes; a neighbour's link goes down, or up; routes change."""

MOST_EVENTS = 40
"""Maximum number of events of an input."""

_PAUSES = (MS, 150 * MS, 2 * SECOND, 100 * SECOND)
_MOST_WAKES = 3000
_MOST_SENT = 1 << 19
_LONGEST = 200
_KEPT = 4
_UPSTREAM, _HONEST, _OTHER = 1, 2, 3
OWN = Channel(b"\x0a\0\0\1", b"\xe8\0\1\0")
FOREIGN = Channel(b"\x0a\0\0\2", b"\xe8\0\1\0")
"""The channels of the source, and of the reader, whose source is behind the first neighbour."""


class _World(Timed):
    def __init__(self) -> None:
        routes = {OWN.source: 0, FOREIGN.source: _UPSTREAM}
        self.host = Host(Router((_UPSTREAM, _HONEST, _OTHER), routes, _KEPT, Patience(), Random(1)))
        self._published: list[bytes] = []
        self._got: list[bytes] = []
        self._read: list[bytes] = []
        self._down: set[int] = set()
        self.host.add(OWN, Source(OWN, 20), 0)
        self.host.add(FOREIGN, Reader(FOREIGN, 0, Patience()), 0)
        self.host.receive(_HONEST, encode(Join((OWN,))), 0)
        self._settle()

    def play(self, event: Event) -> None:
        """Perform an event, and check the invariants."""
        kind, which, content = event.kind, event.which, event.content[:_LONGEST]
        port = (_UPSTREAM, _OTHER)[which & 1]
        if kind == RAW:
            _check_packet(content)
            try:
                self.host.receive(port, content, self.now)
            except InvalidPacket:
                return
        elif kind == PUBLISH:
            item = content[:20] or b"x"
            self._published.append(item)
            self.host.publish(OWN, item, self.now)
        elif kind == LINK:
            self._down ^= {port}
            self.host.set_link(port, port not in self._down, self.now)
        elif kind == ROUTE:
            found = {FOREIGN.source: port} if which & 2 else {}
            self.host.reroute({OWN.source: 0, **found}, self.now)
        elif kind == PAUSE:
            self.host.receive(_HONEST, encode(Join((OWN,))), self.now)
            self.pass_time(self.host, _PAUSES[which % len(_PAUSES)], _MOST_WAKES, self._settle)
        self._settle()
        self._check()

    def _settle(self) -> None:
        sent = 0
        outputs, self.host.outputs = self.host.outputs, []
        for port, data in outputs:
            sent += len(data)
            packet = parse(data)
            expect("a packet is another when it is read", holds=encode(packet) == data)
            expect("something is sent to a link that is down", holds=port not in self._down)
            if port == _HONEST and isinstance(packet, Item) and packet.channel == OWN:
                self._got.append(packet.segment.content)
        expect(f"{sent} bytes are sent at once", holds=sent <= _MOST_SENT)
        self._read += [str(each).encode() for _, each in self.host.items]
        self.host.items.clear()

    def _check(self) -> None:
        router = self.host.router
        expect("the honest neighbour lacks an item", holds=self._got == self._published)
        expect("more trees than there may be", holds=len(router._trees) <= MOST_TREES)
        for tree in router._trees.values():
            expect("a tree without readers", holds=bool(tree.downstream))
            expect("a tree leads back", holds=tree.upstream not in tree.downstream)
            expect("more is kept than may be", holds=len(tree.kept) <= _KEPT)
            expect(
                "who does not read is waited for",
                holds=all(ports and ports <= tree.downstream for ports in tree.wanted.values()),
            )
            if tree.gaps is not None:
                expect("more is asked for than may be", holds=tree.gaps.asked <= gaps.MOST_ASKED)
                expect("more is ahead than may be", holds=tree.gaps.ahead <= gaps.MOST_AHEAD)
                expect("more is wanted than may be", holds=len(tree.wanted) <= gaps.MOST_ASKED)
        reader = self.host.ends[FOREIGN]
        assert isinstance(reader, Reader)
        expect("a reader holds too much", holds=len(reader._early) <= gaps.MOST_AHEAD)
        expect("a reader waits for what it has", holds=reader._next == reader.gaps.floor + 1)


def _check_packet(data: bytes) -> None:
    """Read a packet: the same bytes when it is written."""
    try:
        packet = parse(data)
    except InvalidPacket:
        return
    expect("a packet is another when it is written", holds=encode(packet) == data)
    if isinstance(packet, Request):
        ends = [(first, first + count) for first, count in packet.ranges]
        flat = [1, *(end for pair in ends for end in pair), LAST_NUMBER + 1]
        expect("ranges are not in order", holds=flat == sorted(flat))


check = playing(_World, MOST_EVENTS)
"""Play the events of an input; raise Finding, or whatever should not be raised."""
