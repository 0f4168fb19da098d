"""Nodes whose operations take time: waiting, turns, batches, and what is charged."""

import pytest

from base.endpoint import Address, Program, Received, Send, StreamAction, StreamEndpoint, StreamEvent
from base.passive import PassiveEndpoint
from base.units import US
from ssb.work import WORK, Operations
from topologies.emulator.processor import Costs, Processor

COSTS = Costs(forward=1 * US, verify=50 * US, sign=20 * US, hash=2 * US, store=100 * US, batch=4, queue=5)


class Echo(PassiveEndpoint):
    """Sends back what it gets, and does to it what its words say; wakes once."""

    def __init__(self, wakes_at: int | None = None) -> None:
        super().__init__()
        self.started: list[tuple[bytes, int]] = []
        self.wakes_at = wakes_at

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        self.started.append((payload, now))
        for word in payload.split():
            setattr(WORK, word.decode(), getattr(WORK, word.decode()) + 1)
        self.outputs.append((port, payload, sender))

    def set_link(self, port: int, up: bool, now: int) -> None:
        self.started.append((b"up" if up else b"down", now))

    def next_deadline(self) -> int | None:
        return self.wakes_at

    def wake(self, now: int) -> None:
        self.wakes_at = None
        self.outputs.append((0, b"awake", None))


class Reader(Echo):
    """Sends back what it reads from a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.actions: list[StreamAction] = []

    def on_stream(self, event: StreamEvent, now: int) -> None:
        assert isinstance(event, Received)
        self.actions.append(Send(event.stream, event.data))

    def take_actions(self) -> list[StreamAction]:
        actions, self.actions = self.actions, []
        return actions


def behind(*endpoints: Echo, costs: Costs = COSTS) -> tuple[Processor, list[Program]]:
    processor = Processor([Program(endpoint, {}) for endpoint in endpoints], costs, WORK)
    return processor, processor.programs


def sent(program: Program) -> list[bytes]:
    return [payload for _, payload, _ in program.endpoint.take_outputs()]


SPENT = {b"": 2, b"verify": 52, b"sign": 22, b"hash": 4, b"store": 102, b"verify hash hash store": 156}


@pytest.mark.parametrize(("words", "spent"), SPENT.items())
def test_what_is_sent_waits_for_the_time_of_its_operations(words: bytes, spent: int) -> None:
    processor, [program] = behind(Echo())
    program.endpoint.receive(1, words, None, 1000 * US)
    assert sent(program) == []
    until = (1000 + spent) * US
    assert program.endpoint.next_deadline() == until
    program.endpoint.wake(until - 1)
    assert sent(program) == []
    program.endpoint.wake(until)
    assert sent(program) == [words]
    assert program.endpoint.next_deadline() is None
    assert processor.busy_by(until) == spent * US
    assert processor.counters(until)["work_busy_ns"] == spent * US
    assert processor.counters(until - US)["work_busy_ns"] == (spent - 1) * US


def test_what_comes_meanwhile_waits_and_is_taken_up_together() -> None:
    """The first is alone; of those that wait, a turn takes four, and the next one the rest."""
    echo = Echo()
    processor, [program] = behind(echo)
    for number in range(6):
        program.endpoint.receive(1, b"verify", None, number)
    assert [time for _, time in echo.started] == [0]
    times = []
    while (due := program.endpoint.next_deadline()) is not None:
        program.endpoint.wake(due)
        times += [due] * len(sent(program))
    assert times == [52 * US] + [260 * US] * 4 + [312 * US]
    assert [time for _, time in echo.started] == [0] + [52 * US] * 4 + [260 * US]
    assert processor.counters(312 * US) == {
        "work_busy_ns": 312 * US,
        "work_frames": 12,
        "work_dropped": 0,
        "work_verified": 6,
        "work_signed": 0,
        "work_hashed": 0,
        "work_stored": 0,
    }


def test_a_queue_has_an_end_for_datagrams_but_not_for_news_of_links() -> None:
    echo = Echo()
    processor, [program] = behind(echo)
    for _ in range(9):
        program.endpoint.receive(1, b"store", None, 0)
    program.endpoint.set_link(1, False, 0)
    assert processor.counters(0)["work_dropped"] == 3  # one at work, five wait
    while (due := program.endpoint.next_deadline()) is not None:
        program.endpoint.wake(due)
    assert len(sent(program)) == 6
    assert echo.started[-1][0] == b"down"


def test_programs_of_a_node_share_its_processor() -> None:
    first, second = Echo(), Echo()
    _, programs = behind(first, second)
    programs[0].endpoint.receive(1, b"sign", None, 0)
    programs[1].endpoint.receive(1, b"sign", None, 0)
    programs[0].endpoint.wake(22 * US)
    assert (sent(programs[0]), sent(programs[1])) == ([b"sign"], [])
    assert second.started == [(b"sign", 22 * US)]
    programs[1].endpoint.wake(44 * US)
    assert sent(programs[1]) == [b"sign"]


def test_a_deadline_waits_for_the_processor() -> None:
    echo = Echo(wakes_at=10 * US)
    _, [program] = behind(echo)
    program.endpoint.receive(1, b"verify", None, 0)
    program.endpoint.wake(10 * US)
    assert echo.wakes_at == 10 * US
    program.endpoint.wake(52 * US)
    assert echo.wakes_at is None
    program.endpoint.wake(53 * US)
    assert sent(program) == [b"verify", b"awake"]


def test_streams_are_served_too_and_only_by_who_has_any() -> None:
    _, [reading, other] = behind(Reader(), Echo())
    assert isinstance(reading.endpoint, StreamEndpoint)
    assert not isinstance(other.endpoint, StreamEndpoint)
    reading.endpoint.on_stream(Received(3, b"x"), 0)
    assert reading.endpoint.take_actions() == []
    reading.endpoint.wake(2 * US)
    assert reading.endpoint.take_actions() == [Send(3, b"x")]


def test_a_node_verifies_what_another_one_has_verified() -> None:
    """One process runs all nodes, and remembers verified items for all: each is charged for its own."""
    nodes: list[dict[bytes, None]] = [{}, {}]
    before = WORK.done()
    try:
        for packet, verifies in ((b"a", True), (b"b", False), (b"a", True)):
            for known in nodes:
                WORK.known = known
                WORK.met(packet, verifies=verifies)
    finally:
        WORK.known = None
    WORK.met(b"c", verifies=True)
    grown = Operations(*(new - old for new, old in zip(WORK.done(), before, strict=True)))
    assert grown == Operations(verify=2, hash=4)
