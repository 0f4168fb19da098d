"""Programs that reach any node by its address: datagrams and streams over the emulated underlay."""

import io
from itertools import pairwise
from random import Random

import pytest
from stream_programs import PORT, Busy, Echo, Quiet, Source

from base.endpoint import (
    Close,
    Closed,
    Connect,
    DatagramPort,
    Ended,
    Full,
    Opened,
    Pause,
    Program,
    Received,
    Send,
    StreamPort,
    Writable,
)
from base.units import MS, SECOND
from captures.formats.pcapng import Interface as Described
from captures.formats.pcapng import Writer
from topologies.emulator.network import EmulatedNetwork
from topologies.emulator.tcp.events import Reason
from topologies.emulator.underlay import TTL, Packet, Station
from topologies.model import Link, Topology

NODES = ("a", "r", "s", "b")


def topology(**parameters: float) -> Topology:
    links = [("a", "r"), ("r", "s"), ("s", "b")]
    return Topology(NODES, tuple(Link(x, y, delay_ms=5, **parameters) for x, y in links))  # type: ignore[arg-type]


def network(net: Topology, programs: dict[str, list[Program]], seed: int = 1) -> EmulatedNetwork:
    return EmulatedNetwork(net, programs, seed=seed, capture=None)


def test_a_datagram_reaches_a_node_over_others_and_can_be_answered() -> None:
    net = topology()
    a, b = Quiet(), Quiet()
    emulated = network(
        net, {"a": [Program(a, {1: DatagramPort(7000)})], "b": [Program(b, {9: DatagramPort(8000)})]}
    )
    a.outputs.append((1, b"hello", (net.address("b"), 8000)))
    emulated.run(20 * MS)
    assert b.datagrams == [(15 * MS, b"hello", (net.address("a"), 7000))]
    sender = b.datagrams[0][2]
    b.outputs.append((9, b"answer", sender))
    emulated.run(40 * MS)
    assert a.datagrams == [(35 * MS, b"answer", (net.address("b"), 8000))]


def test_programs_on_one_node_reach_each_other_and_no_link_carries_that() -> None:
    net = topology()
    a, b = Quiet(), Quiet()
    programs = [Program(a, {1: DatagramPort(7000)}), Program(b, {1: DatagramPort(8000)})]
    emulated = network(net, {"a": programs})
    a.outputs.append((1, b"hello", (net.address("a"), 8000)))
    emulated.run(0)
    assert b.datagrams == [(0, b"hello", (net.address("a"), 7000))]


def test_what_cannot_arrive_is_dropped_and_counted() -> None:
    net = Topology((*NODES, "alone"), topology().links)
    station = Station(net, "r", Random(1))
    a, b = net.address("a"), net.address("b")
    station.receive(Packet(a, b, 17, b"", 1, ttl=1), 0)
    station.receive(Packet(a, net.address("alone"), 17, b"", 1), 0)
    station.receive(Packet(a, "192.0.2.1", 17, b"", 1), 0)
    station.receive(Packet(a, net.address("r"), 17, bytes(8), 1), 0)
    assert station.drops == {"ttl exceeded": 1, "no route": 2, "port unreachable": 1}
    station.receive(Packet(a, b, 17, b"", 5), 0)
    ((hop, packet),) = station.take_packets()
    assert hop is not None
    assert hop.into.node == "s"
    assert (packet.ttl, packet.ident) == (TTL - 1, 5)


@pytest.mark.parametrize("loss", [0.0, 2.0])
def test_a_stream_brings_everything_there_and_back(loss: float) -> None:
    net = topology(bw_mbit=20.0, loss_percent=loss)
    content = Random(1).randbytes(400_000)
    source, echo = Source((net.address("b"), PORT), content, at=MS), Echo()
    emulated = network(net, {"a": [Program(source, {})], "b": [Program(echo, {1: StreamPort(PORT)})]})
    emulated.run(60 * SECOND)
    assert source.received(1) == content == echo.received(-1)
    assert source.kinds(1)[0] is Opened
    assert [type(event) for _, event in source.events][-2:] == [Ended, Closed]
    assert source.events[-1][1] == Closed(1, "")
    assert echo.events[-1][1] == Closed(-1, "")
    assert echo.events[0][1] == Opened(-1, (net.address("a"), echo.events[0][1].peer[1]), PORT)  # type: ignore[union-attr]


class Woken(Source):
    """Notes when it is woken, and how often it is asked for its deadline."""

    wakes: tuple[int, ...] = ()
    asked = 0

    def next_deadline(self) -> int | None:
        self.asked += 1
        return super().next_deadline()

    def wake(self, now: int) -> None:
        self.wakes += (now,)
        super().wake(now)


def test_what_concerns_tcp_alone_does_not_wake_a_program() -> None:
    """Acknowledgements come and go, and timers of the connection end; the program has one deadline."""
    net = topology(bw_mbit=20.0, loss_percent=2.0)
    source, sink = Woken((net.address("b"), PORT), bytes(400_000), at=MS), Quiet()
    emulated = network(net, {"a": [Program(source, {})], "b": [Program(sink, {1: StreamPort(PORT)})]})
    emulated.run(60 * SECOND)
    assert len(sink.received(-1)) == 400_000
    assert source.wakes == (MS,)
    assert source.asked <= 2 + len(source.events) + len(source.wakes)


def test_one_seed_gives_one_capture() -> None:
    def captured(seed: int) -> bytes:
        net = topology(bw_mbit=20.0, loss_percent=2.0)
        file = io.BytesIO()
        described = [Described(i.name, "", i.ipv4) for i in net.link_ends]
        capture = Writer(file, described, application="test")
        source, echo = Source((net.address("b"), PORT), bytes(50_000)), Echo()
        programs = {"a": [Program(source, {})], "b": [Program(echo, {1: StreamPort(PORT)})]}
        emulated = EmulatedNetwork(net, programs, seed=seed, capture=capture)
        emulated.run(30 * SECOND)
        assert len(source.received(1)) == 50_000
        return file.getvalue()

    assert captured(1) == captured(1) != captured(2)


def test_nobody_listens() -> None:
    net = topology()
    source = Source((net.address("b"), PORT), b"x")
    network(net, {"a": [Program(source, {})]}).run(SECOND)
    assert [event for _, event in source.events] == [Closed(1, "nobody listens there")]


def test_no_such_port() -> None:
    net = topology()
    quiet = Quiet()
    quiet.actions.append(Connect(1, (net.address("b"), 0)))
    network(net, {"a": [Program(quiet, {})]}).run(SECOND)
    ((_, event),) = quiet.events
    assert event == Closed(1, "a port is from 1 to 65535, not 0")


def test_a_program_that_does_not_read_keeps_the_other_waiting() -> None:
    net = topology(bw_mbit=100.0)
    content = bytes(3_000_000)
    source, sink = Source((net.address("b"), PORT), content), Busy()
    emulated = network(net, {"a": [Program(source, {})], "b": [Program(sink, {1: StreamPort(PORT)})]})
    emulated.run(10 * SECOND)
    assert len(sink.received(-1)) == 0
    assert source.sent < 1_000_000
    assert source.is_full
    sink.actions.append(Pause(-1, paused=False))
    emulated.run(20 * SECOND)
    assert sink.received(-1) == content


@pytest.mark.parametrize("has_unread", [False, True])
def test_the_streams_of_a_node_that_starts_anew_are_closed(has_unread: bool) -> None:
    net = topology()
    first, second = Echo(), Echo()
    source = Quiet()
    emulated = network(net, {"a": [Program(source, {})], "b": [Program(first, {1: StreamPort(PORT)})]})
    source.actions += [Connect(1, (net.address("b"), PORT)), Send(1, b"before")]
    emulated.run(SECOND)
    assert source.received(1) == b"before"
    if has_unread:
        first.actions.append(Pause(-1))
        emulated.run(SECOND + 1)
        source.actions.append(Send(1, b"unread"))
        emulated.run(2 * SECOND)
    emulated.change(3 * SECOND, lambda: emulated.replace("b", [Program(second, {1: StreamPort(PORT)})]))
    emulated.run(4 * SECOND)
    assert source.events[-1][1] == (Closed(1, Reason.RESET.value) if has_unread else Ended(1))
    source.actions += [Send(1, b"too late"), Connect(2, (net.address("b"), PORT)), Send(2, b"after")]
    emulated.run(5 * SECOND)
    assert source.received(2) == b"after"
    assert any(isinstance(e, Closed) and e.stream == 1 for _, e in source.events)
    assert not [e for _, e in first.events if isinstance(e, Received) and e.data != b"before"]


def test_full_and_writable_take_turns() -> None:
    net = topology()
    source, sink = Quiet(), Quiet()
    emulated = network(net, {"a": [Program(source, {})], "b": [Program(sink, {1: StreamPort(PORT)})]})
    source.actions += [Connect(1, (net.address("b"), PORT)), Send(1, bytes((1 << 18) + 1))]
    for time, size in ((60 * MS, 1), (61 * MS, 50_000), (90 * MS, 300_000)):
        emulated.run(time)
        source.actions.append(Send(1, bytes(size)))
    emulated.run(60 * SECOND)
    told = [type(event) for _, event in source.events if isinstance(event, Full | Writable)]
    assert told[:2] == [Full, Writable]
    assert all(before is not after for before, after in pairwise(told))
    assert len(sink.received(-1)) == (1 << 18) + 1 + 350_001


def test_what_a_program_was_opening_is_dropped_when_it_ends() -> None:
    net = topology()
    source, sink = Quiet(), Quiet()
    emulated = network(net, {"a": [Program(source, {})], "b": [Program(sink, {1: StreamPort(PORT)})]})
    source.actions += [Connect(1, (net.address("b"), PORT)), Send(1, b"old request")]
    emulated.change(4 * MS, lambda: emulated.replace("a", [Program(Quiet(), {})]))
    emulated.run(60 * SECOND)
    assert sink.received(-1) == b""
    assert source.events == []


def test_a_stream_that_is_broken_off_unread_leaves_nothing() -> None:
    net = topology()
    source, sink = Source((net.address("b"), PORT), b"unread"), Busy()
    emulated = network(net, {"a": [Program(source, {})], "b": [Program(sink, {1: StreamPort(PORT)})]})
    emulated.run(SECOND)
    sink.actions.append(Close(-1))
    emulated.run(100 * SECOND)
    sink.actions.append(Close(-1, abort=True))
    emulated.run(200 * SECOND)
    assert sink.events[-1][1] == Closed(-1, "broken off here")
    assert emulated._nodes["b"].station._stack.is_idle()
