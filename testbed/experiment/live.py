"""A live run: state of its nodes, waiting for conditions, and changes of the network.

A script is a function that receives a LiveRun once the nodes run, and returns when it is done; the run then
continues to its end. In the emulator time advances only while the script waits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from forwarder.toml_file import problem_of
from testbed.errors import UserError
from testbed.layerings.nodes.workload import Workload
from testbed.scenario.model import Scenario
from testbed.scenario.sections import Change
from testbed.scenario.timeline import Timeline, expected
from topologies.model import TopologyError


class NotYet(UserError):
    """A condition was not met in time; the message is one line with the progress."""


@dataclass(frozen=True)
class NodeState:
    """State of a node.

    Attributes:
        published, delivered: feed's key -> items.
        held: kind of state -> {"entries": n, "bytes": n}, as in counters.jsonl.
        counters: its other counters, by name.
        routes: of a forwarder: name prefix -> {neighbour: cost}; "" is an application of the node.
    """

    published: Mapping[str, int]
    delivered: Mapping[str, int]
    held: Mapping[str, Mapping[str, int]]
    counters: Mapping[str, Any]
    routes: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class State:
    """A run at an instant.

    Attributes:
        time_s: from the run's start.
        nodes: running ones, by name.
        expected: items for each subscriber by the end of the run.
    """

    time_s: float
    nodes: Mapping[str, NodeState]
    expected: Mapping[str, int]

    def delivered(self, node: str) -> int:
        """Return the number of items of all feeds at a subscriber; 0 for a stopped node."""
        return sum(self.nodes[node].delivered.values()) if node in self.nodes else 0

    def routes(self, node: str, prefix: str) -> Mapping[str, int]:
        """Return a forwarder's routes for exactly this name prefix, a URI: {neighbour: cost}."""
        return self.nodes[node].routes.get(prefix, {}) if node in self.nodes else {}


Condition = Callable[[State], bool]


def everything_delivered(state: State) -> bool:
    """Return whether every subscriber has all its items."""
    return all(state.delivered(node) >= count for node, count in state.expected.items())


def delivered(node: str, items: int) -> Condition:
    """Return the condition that a subscriber has `items` items."""

    def condition(state: State) -> bool:
        return state.delivered(node) >= items

    condition.__name__ = f"{node} has {items} items"
    return condition


def has_route(node: str, prefix: str) -> Condition:
    """Return the condition that a forwarder has a route for exactly this name prefix, a URI."""

    def condition(state: State) -> bool:
        return bool(state.routes(node, prefix))

    condition.__name__ = f"{node} has a route for {prefix}"
    return condition


class LiveRun(ABC):
    """The run of one layering.

    Attributes:
        layering: its name.
        scenario: the scenario.
        load: the feeds: `load.feeds[0].key` is the first one's key.
    """

    def __init__(self, scenario: Scenario, layering: str, load: Workload) -> None:
        self.scenario, self.layering, self.load = scenario, layering, load
        self._timeline = Timeline.of(scenario, load, 0)
        self._expected = expected(scenario, load, self._timeline)

    @abstractmethod
    def state(self) -> State:
        """Return the current state."""

    @abstractmethod
    def _advance(self, until_s: float) -> None:
        """Advance to a time of the run, s."""

    @abstractmethod
    def _apply(self, change: Change) -> None:
        """Apply a change now. Raises UserError."""

    @abstractmethod
    def _finish(self) -> None:
        """End the run now."""

    @property
    @abstractmethod
    def time_s(self) -> float:
        """Time since the run's start."""

    @property
    def end_s(self) -> float:
        """The run's end, from its start."""
        return self._timeline.end / 1e9

    @property
    def last_s(self) -> float:
        """When the last item is published, from the run's start."""
        return self._timeline.last / 1e9

    def sleep(self, seconds: float) -> None:
        """Wait for some time of the run; not beyond its end."""
        self._advance(min(self.time_s + seconds, self.end_s))

    def wait(self, condition: Condition, within_s: float | None = None) -> State:
        """Wait until a condition holds; return the state then.

        It is checked whenever states are sampled (sample_interval_ms). Raises NotYet if it does not hold
        `within_s`, or by the end of the run. For everything_delivered, which cannot hold before the last item
        is published, `within_s` begins then: the same number fits any workload.
        """
        begin = max(self.time_s, self.last_s) if condition is everything_delivered else self.time_s
        end = self.end_s if within_s is None else min(begin + within_s, self.end_s)
        step = self.scenario.sample_interval_ms / 1e3
        while not condition(state := self.state()):
            if state.time_s >= end:
                what = getattr(condition, "__name__", "the condition").replace("_", " ")
                raise NotYet(f"{self.layering}, {state.time_s:.3f} s: not yet: {what} ({_progress(state)})")
            self._advance(min(state.time_s + step, end))
        return state

    def finish(self) -> None:
        """End the run now, without its settling and draining times.

        Subscriptions end with it. Raises UserError if the scenario has further events.
        """
        settle_s = self._timeline.settle / 1e9
        if self.state().time_s < settle_s:  # by the run's own clock
            raise UserError(f"finish: the scenario goes on until {settle_s:.3f} s; wait for that first")
        self._finish()

    def link_down(self, a: str, b: str, *, signalled: bool = True) -> None:
        """Break a link; if `signalled`, its ends notice. Raises UserError."""
        self._do(link_down=f"{a} {b}", signalled=signalled)

    def link_up(self, a: str, b: str, *, signalled: bool = True) -> None:
        """Restore a link. Raises UserError."""
        self._do(link_up=f"{a} {b}", signalled=signalled)

    def change_link(self, a: str, b: str, **parameters: float | str) -> None:
        """Change a link's parameters, as in [topology.link]. Raises UserError."""
        self._do(link_change=f"{a} {b}", set=parameters)

    def restart(self, node: str) -> None:
        """Restart a node. Raises UserError."""
        self._do(restart=node)

    def stop(self, node: str) -> None:
        """End a node's programs. Raises UserError."""
        self._do(stop=node)

    def start(self, node: str) -> None:
        """Start the programs of a stopped node. Raises UserError."""
        self._do(start=node)

    def _do(self, **what: Any) -> None:
        try:
            change = Change.model_validate({"at_ms": self.time_s * 1e3, **what})
            if change.node is None:
                network = self.scenario.network
                change.changed(network.links[network.link_between(*change.ends)])
            elif change.node not in self.scenario.network.nodes:
                raise TopologyError(f"there is no node {change.node!r}")
        except ValidationError as error:
            raise UserError(f"{next(iter(what))}: {problem_of(error)[1]}") from error
        except TopologyError as error:
            raise UserError(f"{next(iter(what))}: {error}") from error
        self._apply(change)


Script = Callable[[LiveRun], object]


def check_node(change: Change, running: Container[str]) -> None:
    """Raise UserError if a change concerns a stopped node, or starts a running one."""
    if change.node is not None and (change.node in running) != change.ends_programs:
        raise UserError(f"{change.event}: {change.node} {'runs' if change.start else 'has stopped'}")


def state_of(reports: Mapping[str, Mapping[str, Any]], time_ns: int, counts: Mapping[str, int]) -> State:
    """Return a state from the reports of nodes, `time_ns` after the run's start."""
    return State(time_ns / 1e9, {name: NodeState(**report) for name, report in reports.items()}, counts)


def _progress(state: State) -> str:
    lacking = {node: count for node, count in state.expected.items() if state.delivered(node) < count}
    if not lacking:
        return "everything is delivered"
    node, count = next(iter(lacking.items()))
    others = f", and {len(lacking) - 1} more lack items" if len(lacking) > 1 else ""
    return f"{node} has {state.delivered(node)} of {count} items{others}"
