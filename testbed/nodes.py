"""The nodes of a run: what the emulator and the processes in Mininet both build from a scenario."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from forwarder.forwarder import Forwarder
from forwarder.host import Host
from ssb.message import Message
from ssb_over_ndn.naming import SHA256, log_name
from testbed.layerings import LAYERINGS, Endpoint
from testbed.scenario import Scenario
from testbed.workload import publication_times
from topologies.model import Interface

MS = 1_000_000


@dataclass(frozen=True)
class Timeline:
    """When things happen in the run of one layering, ns on the run's clock.

    Attributes:
        start: subscribers subscribe.
        publications: when each item is published.
        stop: subscribers unsubscribe.
        end: the run ends.
    """

    start: int
    publications: tuple[int, ...]
    stop: int
    end: int

    @classmethod
    def of(cls, scenario: Scenario, feed: Sequence[Message], start: int) -> "Timeline":
        """Lay out a scenario's run that starts at `start`."""
        times = publication_times(feed, scenario.workload.schedule, start + scenario.warmup_ms * MS)
        stop = times[-1] + scenario.settle_ms * MS
        return cls(start, tuple(times), stop, stop + scenario.drain_ms * MS)


class Node:
    """One node: its host, the faces of its interfaces, and the application that its role gives it.

    Attributes:
        name: the node's.
        host: the forwarder with its links and applications.
        faces: (interface, face number) in topology order.
    """

    def __init__(
        self, scenario: Scenario, layering: str, name: str, feed: Sequence[Message], timeline: Timeline
    ) -> None:
        self.name = name
        rng = Random(f"{scenario.seed} {layering} {name}")
        self.host = Host(Forwarder(rng=rng))
        self.faces: list[tuple[Interface, int]] = [
            (interface, self.host.add_link())
            for interface in scenario.network.interfaces()
            if interface.node == name
        ]
        self._application: Endpoint | None = None
        kind = LAYERINGS[layering]
        prefixes = (log_name(feed[0].author), SHA256)
        if name == scenario.publisher:
            self._application = kind.publisher(feed, timeline.publications)
            toward = self.host.attach(self._application)
        else:
            if name in scenario.subscribers:
                parameters = scenario.layering_parameters(layering)
                self._application = kind.subscriber(
                    prefixes[0],
                    start=timeline.start,
                    stop=timeline.stop,
                    rng=rng,
                    **parameters.model_dump(),
                )
                self.host.attach(self._application)
            route = scenario.network.routes(scenario.publisher).get(name)
            if route is None:
                return
            toward = next(face for interface, face in self.faces if interface.name == route.name)
        for prefix in prefixes:
            self.host.forwarder.fib.add(prefix, toward)

    def take_events(self) -> list[dict[str, Any]]:
        """Return the application's events since the last call, as rows of events.jsonl."""
        if self._application is None:
            return []
        return [
            {"time": e.time, "node": self.name, "event": e.event, "seq": e.seq, "bytes": e.size}
            for e in self._application.take_events()
        ]

    def sample(self, now: int) -> dict[str, Any]:
        """Return the forwarder's state and counters, as a row of counters.jsonl."""
        forwarder = self.host.forwarder
        row = {
            "time": now,
            "node": self.name,
            "pit_entries": forwarder.pit_entries(),
            "pit_bytes": forwarder.pit_bytes(),
            "cs_entries": len(forwarder.cs),
            **asdict(forwarder.counters),
        }
        if forwarder.feeds is not None:
            row |= {f"feeds_{key}": value for key, value in sorted(forwarder.feeds.counters.items())}
        return row


def sample_times(scenario: Scenario, timeline: Timeline) -> range:
    """Return when every node's counters are sampled, ns."""
    interval = round(scenario.sample_interval_ms * MS)
    return range(timeline.start, timeline.end + 1, interval)
