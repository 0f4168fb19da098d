"""Two stacks joined by a link, in virtual time: what tests of TCP run in, and who watches there."""

from heapq import heappop, heappush
from random import Random

from base.units import MS, SECOND
from captures.formats.pcapng import Direction
from captures.layers.frames import ipv4_frame
from topologies.emulator.tcp.events import Kind
from topologies.emulator.tcp.segment import ACK, FIN, RST, SYN, decode, pseudo_header
from topologies.emulator.tcp.stack import Stack
from topologies.model import Link, Topology
from topologies.pipe import Pipe, pipe_rng

PORT = 8008
ETHERNET_AND_IPV4 = 34
TCP_PROTOCOL = 6
MOST_TRIES = 12
"""0.2 s doubled until 100 s have passed makes 9, a fast retransmission 1; two more as 60 s end the
doubling."""
MOST_STEPS = 150_000
"""More than any test needs: what goes on then goes on for ever."""
MODULUS = 1 << 32


class World:
    """Stacks a and b, nodes 0 and 1, over one link. `now` in ns.

    events: (node, event) that nobody has taken. on_event: called with (node, event) for each event instead,
    before segments are taken. mangle: called with (node, octets) for each segment that a node sends, returns
    what is to go over the link, None for nothing. sent, arrived: called with (node, segment) for each segment
    that is sent, mangled or not, and for each that arrives as it was sent. capture: a
    captures.formats.pcapng.Writer of a's interface. on_read: called with a node whose application reads.
    """

    def __init__(self, link=None, seed=1, settings=(None, None), capture=None, rngs=None, pipes=None):
        link = link or Link("a", "b", bw_mbit=10, delay_ms=20, max_queue_size=50)
        self.interfaces = Topology((link.a, link.b), (link,)).link_ends
        self.addresses = [interface.ipv4 for interface in self.interfaces]
        rngs = rngs or [Random(f"{seed} {node}") for node in "ab"]
        self.stacks = [
            Stack([address], rng, chosen)
            for address, rng, chosen in zip(self.addresses, rngs, settings, strict=True)
        ]
        self.pipes = pipes or [Pipe(link, pipe_rng(seed, link, end)) for end in (link.a, link.b)]
        self.now = 0
        self.is_cut = False
        self.on_event = None
        self.on_read = lambda node: None
        self.events = []
        self.mangle = None
        self.sent = []
        self.arrived = []
        self._capture = capture
        self._queue = []
        self._count = 0
        self._idents = [0, 0]
        self._pseudo = pseudo_header(*self.addresses)

    def at(self, time, action):
        self._count += 1
        heappush(self._queue, (time, self._count, action))

    def after(self, node):
        """Hand out a stack's events and send what it has."""
        stack = self.stacks[node]
        while events := stack.take_events():
            for event in events:
                if self.on_event:
                    self.on_event(node, event)
                else:
                    self.events.append((node, event))
        for source, destination, octets in stack.take_segments():
            assert (source, destination) == (self.addresses[node], self.addresses[1 - node])
            if self.sent:
                segment = decode(octets, self._pseudo)
                for observe in self.sent:
                    observe(node, segment)
            self.transmit(node, octets)

    def transmit(self, node, octets):
        """Put a segment on the link, as if that node had sent it."""
        frame = self._record(node, octets)
        on_the_way = self.mangle(node, octets) if self.mangle else octets
        if on_the_way is not None and not self.is_cut:
            whole = on_the_way == octets
            for arrival, _ in self.pipes[node].send(self.now, bytes(ETHERNET_AND_IPV4 + len(octets))):
                self.at(arrival, lambda: self._arrive(1 - node, on_the_way, frame, whole))

    def _arrive(self, node, octets, frame, whole):
        if self._capture and node == 0:
            self._capture.write(0, self.now, frame, Direction.IN)
        if self.arrived and whole:
            segment = decode(octets, self._pseudo)
            for observe in self.arrived:
                observe(node, segment)
        self.stacks[node].receive(octets, self.addresses[1 - node], self.addresses[node], self.now)
        self.after(node)

    def _record(self, node, octets):
        if not self._capture:
            return b""
        here, there = self.interfaces[node], self.interfaces[1 - node]
        self._idents[node] += 1
        addresses = here.mac, there.mac, here.ipv4, there.ipv4
        frame = ipv4_frame(*addresses, TCP_PROTOCOL, octets, self._idents[node])
        if node == 0:
            self._capture.write(0, self.now, frame, Direction.OUT)
        return frame

    def run(self, until=None):
        """Let all happen up to a time (ns), or until nothing is to come; return whether that was so."""
        for _ in range(MOST_STEPS):
            deadlines = [stack.next_deadline() for stack in self.stacks]
            times = [deadline for deadline in deadlines if deadline is not None]
            if self._queue:
                times.append(self._queue[0][0])
            if not times or (until is not None and min(times) > until):
                self.now = max(self.now, until or 0)
                return not times
            assert min(times) >= self.now, "a deadline in the past"
            self.now = min(times)
            if self._queue and self._queue[0][0] <= self.now:
                heappop(self._queue)[2]()
                continue
            for node, deadline in enumerate(deadlines):
                if deadline is not None and deadline <= self.now:
                    self.stacks[node].wake(self.now)
                    self.after(node)
        raise AssertionError("a storm")

    def do(self, node, action):
        """Have an application act on a stack, now."""
        result = action(self.stacks[node])
        self.after(node)
        return result

    def send(self, node, connection, data):
        return self.do(node, lambda stack: stack.send(connection, data, self.now))

    def read(self, node, connection, limit=1 << 30):
        return self.do(node, lambda stack: stack.read(connection, limit, self.now))

    def close(self, node, connection):
        self.do(node, lambda stack: stack.close(connection, self.now))

    def kinds(self, node):
        return [event.kind for where, event in self.events if where == node]

    def connect(self):
        """Have a ask for a connection to b's port, which is listened to; return a's number of it."""
        self.stacks[1].listen(PORT)
        return self.do(0, lambda stack: stack.connect(self.addresses[1], PORT, self.now))

    def opened(self):
        """Connect a to b; return the numbers of both ends."""
        a = self.connect()
        self.run(self.now + 5 * SECOND)
        (b,) = [event.connection for node, event in self.events if node == 1]
        assert self.kinds(0) == [Kind.CONNECTED]
        assert self.kinds(1) == [Kind.ACCEPTED]
        self.events.clear()
        return a, b


class Witness:
    """Sees what goes over a link, and to it that neither end

    - sends beyond the window it was offered, or acknowledges what has not come;
    - answers what asks for no answer, so that two would answer each other for ever: of plain acknowledgements
      it sends no more than segments with content or with an old number have come, and than its application
      has read;
    - sends the same number oftener than its timer and one fast retransmission account for, as long as nothing
      more is acknowledged.
    """

    def __init__(self, world):
        self._acks = [0, 0]  # plain ones that each node may still send
        self._first = [None, None]  # the number of each node's SYN
        self._looks_on = True
        self._end = [0, 0]  # of what each node has sent
        self._fresh = [0, 0]  # the last number acknowledged to each node
        self._tries = [{}, {}]  # since then: sequence numbers sent, how often
        self._edge = [None, None]  # what each node may send up to
        self._scale = [0, 0]  # of each node's windows
        self._syn_scale = [None, None]
        self._come = [None, None]  # how far each node has got the other's numbers, gaps included
        world.sent.append(self._sent)
        world.arrived.append(self._arrived)
        world.on_read = self._read

    def _sent(self, node, segment):
        if segment.flags & SYN:
            self._syn_scale[node] = segment.scale
            self._first[node] = self._first[node] or segment.sequence
            # A late copy of a SYN begins another connection: numbers of two are no longer told apart.
            self._looks_on = self._looks_on and self._first[node] == segment.sequence
        if not self._looks_on:
            return
        if not segment.flags & (SYN | RST):
            end = segment.sequence + segment.length
            assert self._edge[node] is None or _ahead(self._edge[node], end) <= 0, "beyond the window"
        self._count(node, segment)
        if segment.flags & ACK and not segment.flags & RST and self._come[node] is not None:
            assert _ahead(self._come[node], segment.acknowledgement) <= 0, "acknowledges what has not come"

    def _count(self, node, segment):
        if segment.length:
            if segment.flags & SYN:
                self._end[node] = segment.sequence
            tries = self._tries[node]
            tries[segment.sequence] = tries.get(segment.sequence, 0) + 1
            assert tries[segment.sequence] <= MOST_TRIES, "sent too often"
            if _ahead(self._end[node], segment.sequence + segment.length) > 0:
                self._end[node] = segment.sequence + segment.length
        elif not segment.flags & RST and segment.sequence == self._end[node]:  # else it asks about a window
            self._acks[node] -= 1
            assert self._acks[node] >= 0, "answers what asks for no answer"

    def _read(self, node):
        self._acks[node] += 1

    def _arrived(self, node, segment):
        is_old = self._come[node] is not None and (
            _ahead(self._come[node], segment.sequence) < 0
            or _ahead(self._fresh[node], segment.acknowledgement) < 0
        )
        if segment.length or is_old or segment.flags & RST:
            self._acks[node] += 1
        if segment.flags & RST:
            return
        if segment.flags & ACK and (
            segment.flags & SYN or _ahead(self._fresh[node], segment.acknowledgement) > 0
        ):
            self._fresh[node] = segment.acknowledgement
            self._tries[node].clear()
        end = segment.sequence + segment.length
        if self._come[node] is None or _ahead(self._come[node], end) > 0:
            self._come[node] = end
        if segment.flags & ACK:
            scales = self._syn_scale
            scale = (scales[1 - node] or 0) if None not in scales and not segment.flags & SYN else 0
            edge = segment.acknowledgement + (segment.window << scale)
            if self._edge[node] is None or _ahead(self._edge[node], edge) > 0:
                self._edge[node] = edge


def _ahead(start, end):
    """How far `end` is after `start`, both modulo 2^32."""
    return (end - start + MODULUS // 2) % MODULUS - MODULUS // 2


class Talker:
    """An application at one end: sends its bytes, reads the other's, then closes.

    data: to be sent. limit, pause: reads so many bytes at a time, so often (ns). closes_last: only once the
    peer has closed. Attributes: got; told: kinds of events; reason: of FAILED; has_aborted; most_unread:
    bytes that have waited to be read.
    """

    def __init__(self, world, node, data=b"", limit=1 << 30, pause=0, closes_last=False):
        self.world, self.node = world, node
        self.data, self.limit, self.pause, self.closes_last = data, limit, pause, closes_last
        self.connection = None
        self.got = bytearray()
        self.told = []
        self.reason = None
        self.has_aborted = False
        self.most_unread = 0
        self._is_reading = False

    @property
    def is_over(self):
        return bool({Kind.CLOSED, Kind.FAILED} & set(self.told))

    def begin(self, connection):
        self.connection = connection
        self._send()

    def on_event(self, event):
        if self.connection is not None and event.connection != self.connection:
            if event.kind is Kind.ACCEPTED:  # a late copy of the SYN has opened one more
                self.world.stacks[self.node].abort(event.connection, self.world.now)
            return
        self.told.append(event.kind)
        if event.kind is Kind.ACCEPTED:
            self.begin(event.connection)
        elif event.kind is Kind.WRITABLE:
            self._send()
        elif event.kind is Kind.READABLE:
            self._read_later()
        elif event.kind is Kind.PEER_CLOSED and self.closes_last:
            self._close()
        elif event.kind is Kind.FAILED:
            self.reason = event.reason

    def _send(self):
        stack, now = self.world.stacks[self.node], self.world.now
        taken = stack.send(self.connection, self.data, now)
        self.data = self.data[taken:]
        if not self.data and (not self.closes_last or Kind.PEER_CLOSED in self.told):
            stack.close(self.connection, now)

    def _close(self):
        if not self.data:
            self.world.stacks[self.node].close(self.connection, self.world.now)

    def _read_later(self):
        if not self.pause:
            while self._read():
                pass
        elif not self._is_reading:
            self._is_reading = True
            self.world.at(self.world.now + self.pause, self._read_some)

    def abort(self):
        """Break the connection off, if there is one."""
        if self.connection is not None and not self.is_over:
            self.has_aborted = True
            self.world.stacks[self.node].abort(self.connection, self.world.now)
            self.world.after(self.node)

    def _read_some(self):
        self._is_reading = False
        if Kind.FAILED not in self.told and not self.has_aborted:
            if self._read():
                self._read_later()
            self.world.after(self.node)

    def _read(self):
        if self.connection not in self.world.stacks[self.node]._numbers:
            return b""
        known = self.world.stacks[self.node]._numbers[self.connection]
        self.most_unread = max(self.most_unread, known.receiver.unread)
        self.world.on_read(self.node)
        data = self.world.stacks[self.node].read(self.connection, self.limit, self.world.now)
        self.got += data
        return data


def conversation(world, talkers):
    """Have two talkers talk: a connects to b."""
    world.on_event = lambda node, event: talkers[node].on_event(event)
    world.stacks[1].listen(PORT)
    talkers[0].connection = world.stacks[0].connect(world.addresses[1], PORT, world.now)
    talkers[0].begin(talkers[0].connection)
    world.after(0)


def bulk(link, seed, seconds, settings=None, capture=None):
    """Send from a to b as fast as it goes.

    Returns the bytes that b's application has got within so many seconds of the connection's acceptance, and
    the world.
    """
    world = World(link, seed, (settings, settings), capture)
    chunk = bytes(1 << 16)
    got = [0]
    accepted = []

    def on_event(node, event):
        stack = world.stacks[node]
        if event.kind in (Kind.CONNECTED, Kind.WRITABLE):
            while stack.send(event.connection, chunk, world.now) == len(chunk):
                pass
        elif event.kind is Kind.ACCEPTED:
            accepted.append(world.now)
        elif event.kind is Kind.READABLE:
            got[0] += len(stack.read(event.connection, 1 << 30, world.now))

    world.on_event = on_event
    world.connect()
    while not accepted:
        world.run(world.now + 10 * MS)
    end = accepted[0] + round(seconds * SECOND)
    while world.now < end:
        world.run(min(world.now + SECOND, end))
    return got[0], world


def is_data(octets):
    """Whether a segment carries bytes."""
    return len(octets) > (octets[12] >> 4) * 4


def sequence(octets):
    """A segment's sequence number."""
    return int.from_bytes(octets[4:8])


def flags(octets):
    """A segment's flags."""
    return octets[13] & (FIN | SYN | RST | ACK)
