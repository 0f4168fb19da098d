"""The processor of an emulated node: its programs take time.

A processor does one thing after another. What arrives while it is busy waits, up to a bound. The next turn
takes as much of that as a program reads at once, and the programs' outputs are sent when the turn is over.
So programs that put work off in case more of its kind comes, such as the verification of a run of items, save
as much as they do on sockets.

A turn takes the time of its frames and of the operations that its programs have counted.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from base.endpoint import Address, Endpoint, Program, StreamAction, StreamEndpoint, StreamEvent
from base.timers import earliest


class Costs(NamedTuple):
    """Times of a node's operations, ns.

    Attributes:
        forward: a frame, or a part of a stream, that a program receives or sends.
        verify, sign, hash, store: an operation of these kinds.
        batch: frames that a program reads at once.
        queue: frames that wait at most; further ones are dropped.
    """

    forward: int = 0
    verify: int = 0
    sign: int = 0
    hash: int = 0
    store: int = 0
    batch: int = 64
    queue: int = 1000


class Work(Protocol):
    """Counts the operations of this process.

    Attributes:
        known: packets that the node in turn has verified; None between turns.
    """

    known: dict[bytes, None] | None

    def done(self) -> tuple[int, int, int, int]:
        """Return the numbers of signatures verified and made, and of messages hashed and stored, so far."""
        ...


class Processor:
    """The processor of a node.

    Args:
        programs: the node's.
        costs: see Costs.
        work: counts what programs do.

    Attributes:
        programs: the same, each behind the processor.
    """

    def __init__(self, programs: Sequence[Program], costs: Costs, work: Work) -> None:
        self._costs = costs
        self._work = work
        self._served = [_served(self, endpoint) for endpoint, _ in programs]
        self.programs = [
            Program(served, ports) for served, (_, ports) in zip(self._served, programs, strict=True)
        ]
        self._waiting: deque[Callable[[int], None]] = deque()
        self._free_at = 0
        self._known: dict[bytes, None] = {}
        self._frames = self._dropped = self._busy = 0
        self._done = [0, 0, 0, 0]

    def counters(self, now: int) -> dict[str, int]:
        """Return how long it has been busy by now (ns), what it has done, and frames dropped."""
        names = ("verified", "signed", "hashed", "stored")
        counted = {f"work_{name}": count for name, count in zip(names, self._done, strict=True)}
        return {
            "work_busy_ns": self.busy_by(now),
            "work_frames": self._frames,
            "work_dropped": self._dropped,
            **counted,
        }

    def busy_by(self, now: int) -> int:
        """Return how long it has been busy by now, ns."""
        return self._busy - max(0, self._free_at - now)

    def accept(self, work: Callable[[int], None], now: int, *, may_drop: bool) -> None:
        """Queue work, and do it once the processor is free; if it `may_drop`, not into a full queue."""
        if may_drop and len(self._waiting) >= self._costs.queue:
            self._dropped += 1
            return
        self._waiting.append(work)
        self.run(now)

    def next_deadline(self) -> int | None:
        """Return when run() is due, ns."""
        due = earliest(*(served.endpoint.next_deadline() for served in self._served))
        if self._waiting:
            due = self._free_at
        released = earliest(*(served.first_release() for served in self._served))
        return earliest(None if due is None else max(due, self._free_at), released)

    def run(self, now: int) -> None:
        """Take a turn, if the processor is free and there is something to do; release what is due."""
        if now >= self._free_at:
            self._take_turn(now)
        for served in self._served:
            served.release(now)

    def _take_turn(self, now: int) -> None:
        before = self._work.done()
        self._work.known = self._known
        frames = 0
        try:
            while self._waiting and frames < self._costs.batch:
                self._waiting.popleft()(now)
                frames += 1
            for served in self._served:
                due = served.endpoint.next_deadline()
                if due is not None and due <= now:
                    served.endpoint.wake(now)
            taken = [served.take() for served in self._served]
        finally:
            self._work.known = None
        frames += sum(len(outputs) + len(actions) for outputs, actions in taken)
        costs = self._costs
        spent = costs.forward * frames
        each = (costs.verify, costs.sign, costs.hash, costs.store)
        for place, (count, earlier) in enumerate(zip(self._work.done(), before, strict=True)):
            self._done[place] += count - earlier
            spent += each[place] * (count - earlier)
        self._frames += frames
        self._busy += spent
        self._free_at = now + spent
        for served, outputs in zip(self._served, taken, strict=True):
            served.hold(self._free_at, outputs)


_Taken = tuple[Sequence[tuple[int, bytes, Address | None]], Sequence[StreamAction]]


class _Served:
    """An Endpoint behind a processor."""

    def __init__(self, processor: Processor, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._processor = processor
        self._held: deque[tuple[int, _Taken]] = deque()
        self._outputs: list[tuple[int, bytes, Address | None]] = []
        self._actions: list[StreamAction] = []

    def receive(self, port: int, payload: bytes, sender: Address | None, now: int) -> None:
        receive = self.endpoint.receive
        self._processor.accept(lambda started: receive(port, payload, sender, started), now, may_drop=True)

    def set_link(self, port: int, up: bool, now: int) -> None:
        self._processor.accept(lambda started: self.endpoint.set_link(port, up, started), now, may_drop=False)

    def take_outputs(self) -> list[tuple[int, bytes, Address | None]]:
        """See Endpoint: also what a program sends outside its turns, which takes no time."""
        outputs, self._outputs = self._outputs, []
        return [*outputs, *self.endpoint.take_outputs()]

    def next_deadline(self) -> int | None:
        return self._processor.next_deadline()

    def wake(self, now: int) -> None:
        self._processor.run(now)

    def take(self) -> _Taken:
        """Return what the program has to send."""
        return self.endpoint.take_outputs(), ()

    def hold(self, until: int, taken: _Taken) -> None:
        """Keep what a program has to send until its turn is over."""
        if taken[0] or taken[1]:
            self._held.append((until, taken))

    def first_release(self) -> int | None:
        """Return when something is to be sent, ns."""
        return self._held[0][0] if self._held else None

    def release(self, now: int) -> None:
        """Send what is due."""
        while self._held and self._held[0][0] <= now:
            _, (outputs, actions) = self._held.popleft()
            self._outputs += outputs
            self._actions += actions


class _ServedStreams(_Served):
    """A StreamEndpoint behind a processor."""

    def __init__(self, processor: Processor, endpoint: StreamEndpoint) -> None:
        super().__init__(processor, endpoint)
        self._of_streams = endpoint

    def on_stream(self, event: StreamEvent, now: int) -> None:
        """See StreamEndpoint: TCP holds back what waits, so that nothing is dropped."""
        on_stream = self._of_streams.on_stream
        self._processor.accept(lambda started: on_stream(event, started), now, may_drop=False)

    def take_actions(self) -> list[StreamAction]:
        actions, self._actions = self._actions, []
        return [*actions, *self._of_streams.take_actions()]

    def take(self) -> _Taken:
        return self.endpoint.take_outputs(), self._of_streams.take_actions()


def _served(processor: Processor, endpoint: Endpoint) -> _Served:
    if isinstance(endpoint, StreamEndpoint):
        return _ServedStreams(processor, endpoint)
    return _Served(processor, endpoint)
