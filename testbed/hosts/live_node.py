"""A node in real time."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from base.sockets import Sockets
from testbed.hosts.local_faces import LocalFaces
from testbed.hosts.parent import Watch
from testbed.hosts.processes import Running
from testbed.layerings.nodes.ndn_node import NdnNode
from testbed.layerings.nodes.node import Node, ReroutableNode, StrategyNode, sample
from testbed.scenario.conditions import Routes
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change
from testbed.scenario.timeline import Timeline, sample_times


class LiveNode:
    """A node in real time, until the run's end, its next restart or stop.

    Args:
        node, watch: the node, and its watch.
        scenario, timeline: of the run.
        since: its restart, ns; None without one.
        beside: its other programs.
        within: see Sockets.

    Attributes:
        samples: of its state and counters.
        cpu_ns: processor time since its start, or since the timeline's start if that is later; 0 while it
            runs.
    """

    def __init__(
        self,
        node: Node,
        scenario: Scenario,
        timeline: Timeline,
        watch: Watch,
        *,
        since: int | None,
        beside: Running | None = None,
        within: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.samples: list[dict[str, Any]] = []
        self.cpu_ns = 0
        self._node = node
        self._scenario, self._timeline, self._watch = scenario, timeline, watch
        self._since = since
        self._changes = [(at, change) for at, change in timeline.changes if since is None or at > since]
        self._beside = beside or Running(())
        self._within = within
        self._cpu_before = 0

    async def run(self, forwarder: Path) -> None:
        """Run; `forwarder` is the forwarder's socket for programs on a node over NDN."""
        loop = asyncio.get_running_loop()
        failures: list[Exception] = []
        loop.set_exception_handler(
            lambda _, context: failures.append(context.get("exception") or RuntimeError(context["message"]))
        )
        end, address = self._end(), self._scenario.network.address(self._node.name)
        # Sockets must be made in the running loop.
        self._sockets = Sockets(self._node.programs, address, self._watch.clock.steady(), self._within)
        with ExitStack() as stack:
            stack.callback(self._sockets.close)
            await self._sockets.start()
            stack.callback(self._watch.end)
            self._watch.begin(self._set_link)
            # Other programs follow the machine's clock, so a dilated node must not talk to them.
            if isinstance(self._node, NdnNode) and self._watch.clock.dilation == 1:
                stack.callback(LocalFaces(self._node.host, self._sockets, forwarder).close)
            for at, action in sorted(self._agenda(), key=lambda entry: entry[0]):
                if at > end or await self._watch.sleep(at):
                    break
                action()
            await self._watch.sleep(end)
            self.cpu_ns = self._cpu() - self._cpu_before
            if self._watch.is_held and end == self._timeline.end:
                await self._watch.sleep(None)
        if failures:
            raise failures[0]

    def _end(self) -> int:
        own = (at for at, each in self._changes if each.ends_programs and each.node == self._node.name)
        return min(own, default=self._timeline.end)

    def _agenda(self) -> Iterator[tuple[int, Callable[[], None]]]:
        """Yield scheduled times, ns, and actions; of one time in this order."""
        node, name = self._node, self._node.name
        if self._since is None:
            yield self._timeline.start, self._begin
        for at, change in self._changes:
            if change.tells(name):
                yield at, partial(self._set_link, change)
        for at, change in self._changes:
            if change.chooses(name) and isinstance(node, StrategyNode):
                yield at, partial(self._choose, node, change)
        for at in sample_times(self._scenario, self._timeline):
            if self._since is None or at >= self._since:
                yield at, self._observe
        if isinstance(node, ReroutableNode):
            for routes in self._timeline.routes:
                if self._since is None or routes.time > self._since:
                    yield routes.time, partial(self._reroute, node, routes)

    def _begin(self) -> None:
        self._cpu_before = self._cpu()

    def _cpu(self) -> int:
        return time.process_time_ns() + self._beside.cpu_ns

    def _observe(self) -> None:
        self._beside.check()
        self.samples.append(sample(self._node, self._watch.clock.now()))
        self._watch.report_deliveries()

    def _set_link(self, change: Change) -> None:
        peer = next(end for end in change.ends if end != self._node.name)
        self._sockets.set_link(peer, change.link_up is not None)

    def _choose(self, node: StrategyNode, change: Change) -> None:
        for prefix, strategy in change.choice.items():
            node.choose_strategy(prefix, strategy)

    def _reroute(self, node: ReroutableNode, routes: Routes) -> None:
        node.reroute(routes.network, routes.ndn)
        self._sockets.settle()
