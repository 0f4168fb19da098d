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
    Heartbeat,
    InvalidPacket,
    Item,
    Join,
    Prune,
    Request,
    Restart,
    Segment,
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
_OWN = Channel(b"\x0a\0\0\1", b"\xe8\0\1\0")
_FOREIGN = Channel(b"\x0a\0\0\2", b"\xe8\0\1\0")
"""The channels of the source, and of the reader, whose source is behind the first neighbour."""


class _World(Timed):
    def __init__(self) -> None:
        routes = {_OWN.source: 0, _FOREIGN.source: _UPSTREAM}
        self.host = Host(Router((_UPSTREAM, _HONEST, _OTHER), routes, _KEPT, Patience(), Random(1)))
        self._published: list[bytes] = []
        self._got: list[bytes] = []
        self._read: list[bytes] = []
        self._down: set[int] = set()
        self.host.add(_OWN, Source(_OWN, 20), 0)
        self.host.add(_FOREIGN, Reader(_FOREIGN, 0, Patience()), 0)
        self.host.receive(_HONEST, encode(Join((_OWN,))), 0)
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
            self.host.publish(_OWN, item, self.now)
        elif kind == LINK:
            self._down ^= {port}
            self.host.set_link(port, port not in self._down, self.now)
        elif kind == ROUTE:
            found = {_FOREIGN.source: port} if which & 2 else {}
            self.host.reroute({_OWN.source: 0, **found}, self.now)
        elif kind == PAUSE:
            self.host.receive(_HONEST, encode(Join((_OWN,))), self.now)
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
            if port == _HONEST and isinstance(packet, Item) and packet.channel == _OWN:
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
        reader = self.host.ends[_FOREIGN]
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


def inputs() -> dict[str, bytes]:
    """Return initial inputs: what neighbours say, and what they must not."""

    def said(*packets: object, which: int = 0) -> list[Event]:
        return [Event(RAW, which, encode(each)) for each in packets]  # type: ignore[arg-type]

    def item(number: int, before: int = 255, channel: Channel = _FOREIGN) -> Item:
        return Item(channel, number, before, Segment(3, b"%d" % number))

    published = [Event(PUBLISH, 0, b"%d" % number) for number in range(6)]
    later = [Event(PAUSE, each) for each in range(4)]
    join, leave = Join((_FOREIGN,)), Prune((_FOREIGN,))
    ahead = Heartbeat(_FOREIGN, 1, 9)
    asked = [Request(each, ((1, 2), (4, 1))) for each in (_OWN, _FOREIGN)]
    strangers = [Join(tuple(Channel(bytes((each,) * 4), b"\xe8\0\1\0") for each in range(20)))]
    ranges = [((1 + 256 * each, 256),) for each in range(20)]
    flood = said(*(Request(_FOREIGN, each) for each in ranges), which=1)
    events = {
        "items": [*said(Heartbeat(_FOREIGN, 1, 0), item(1), item(2), item(3)), *later],
        "gap": [*said(Heartbeat(_FOREIGN, 1, 0), item(1), item(4, 1)), *later, *said(item(2), item(3))],
        "heartbeat": [*said(ahead, item(3), item(7)), *later, *said(item(1), item(2))],
        "gone": [*said(ahead, item(3)), *later, *said(Heartbeat(_FOREIGN, 6, 9))],
        "far": [*said(ahead, Heartbeat(_FOREIGN, 1, LAST_NUMBER), item(LAST_NUMBER)), *later],
        "reader": [*published, *said(Join((_OWN,)), asked[0], which=1), *later, *published],
        "joined": [*said(ahead), *said(join, which=1), *said(item(1)), *said(asked[1], which=1), *later],
        "left": [*said(ahead), *said(join, leave, which=1), *said(item(1)), *later],
        "wanted": [*said(ahead), *said(join, which=1), *said(*map(item, range(1, 10))),
                   *said(Request(_FOREIGN, ((1, 3),)), leave, which=1), *later],
        "link": [*said(ahead, item(2)), Event(LINK, 0), *later, Event(LINK, 0), *later],
        "route": [*said(ahead), *said(join, which=1), Event(ROUTE, 3), *later, Event(ROUTE, 0), *later],
        "back": [*said(ahead, join, item(1)), *later],
        "crowd": [*said(Heartbeat(_FOREIGN, 1, 100_000)), *said(join, which=1), *flood],
        "order": said(asked[0]._replace(ranges=((4, 2), (1, 1))), asked[0]._replace(ranges=((1, 0),))),
        "stranger": [*said(*strangers, which=1), *said(item(1, channel=_OWN)), *later],
        "restart": [*said(ahead, Restart()), *later],
    }  # fmt: skip
    return {name: b"".join(event.encode() for event in of) for name, of in events.items()}
