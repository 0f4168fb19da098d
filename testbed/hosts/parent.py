"""Messages between a process of nodes and its parent during a run."""

import asyncio
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from captures.network.clock import Clock
from testbed.layerings.nodes.node import Node, report_of
from testbed.scenario.sections import Change
from testbed.scenario.timeline import Awaited


class Line:
    """The connection of a process to its parent, shared by its nodes.

    Args:
        connection: to the parent.
        is_held: whether the run continues after its end.
        clock: of the run.

    Attributes:
        watches: of the running nodes, by name.
    """

    def __init__(self, connection: Connection, is_held: bool, clock: Clock) -> None:
        self.connection = connection
        self.is_held = is_held
        self.clock = clock
        self.watches: dict[str, Watch] = {}

    def receive(self) -> None:
        """Process the parent's messages: changes, requests, and the end."""
        said = self.connection.recv()
        if said == "state":
            self.connection.send(("state", {name: watch.report() for name, watch in self.watches.items()}))
        elif said == "end":
            for watch in self.watches.values():
                watch.end_now()
        elif said.node is not None:
            self.watches[said.node].end_now()
        else:
            for end in said.ends:
                if end in self.watches:
                    self.watches[end].listener(said)


class Watch:
    """Reports a node's deliveries to the parent while conditions wait for them, and receives the changes.

    Args:
        node: the node.
        awaited: the waiting conditions.
        line: to the parent.

    Attributes:
        events: of the node, as far as processed.
        listener: receives links of the node going down, or up again.
        clock: of the run.
    """

    def __init__(self, node: Node, awaited: Awaited, line: Line) -> None:
        self.events: list[dict[str, Any]] = []
        self.clock = line.clock
        self.listener: Callable[[Change], None] = lambda _: None
        self._node, self._awaited, self._line = node, awaited, line
        self._has_ended = False
        self._sleeping: asyncio.Future[None] | None = None

    @property
    def is_held(self) -> bool:
        """Whether the run continues after its end."""
        return self._line.is_held

    def begin(self, listener: Callable[[Change], None]) -> None:
        """Start notifying the node of changes of its links outside the timeline."""
        self.listener = listener
        self._line.watches[self._node.name] = self
        asyncio.get_running_loop().add_reader(self._line.connection, self._line.receive)

    def end(self) -> None:
        """Stop notifying the node."""
        self._line.watches.pop(self._node.name, None)

    def report_deliveries(self) -> None:
        """Process new deliveries."""
        if self._awaited:
            self.events += self._node.take_events()
            if self._awaited.take(self._node.state.delivered):
                self._line.connection.send(("delivered", dict(self._node.state.delivered)))

    def report(self) -> dict[str, Any]:
        """Return the node's state."""
        self.events += self._node.take_events()
        return report_of(self._node, self.clock.now())

    def end_now(self) -> None:
        """End the node early, or a held run."""
        self._has_ended = True
        self._wake()

    async def sleep(self, until: int | None) -> bool:
        """Sleep until a time, ns, or without one for ever; return whether the node is to end early."""
        loop = asyncio.get_running_loop()
        if not self._has_ended:
            self._sleeping = loop.create_future()
            late = None if until is None else loop.call_later((until - self.clock.now()) / 1e9, self._wake)
            await self._sleeping
            if late is not None:
                late.cancel()
        return self._has_ended

    def _wake(self) -> None:
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)
