"""Context of runs as Arrow tables: everything besides packets and events.

Every table has the column `layering`, so that layerings of one or several runs are measured together.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from analysis.packet_schema import schema_of
from analysis.run.manifest import Manifest, Run
from analysis.run.paths import delivery_paths


class Span(NamedTuple):
    """Begin and end of a run, ns."""

    start_ns: int
    end_ns: int


class Case(NamedTuple):
    """One layering of one run."""

    run: Run
    layering: str

    @property
    def manifest(self) -> Manifest:
        """The run's manifest."""
        return self.run.manifest

    @property
    def protocol(self) -> str:
        """The protocol that carries feeds between nodes."""
        return self.manifest.protocol(self.layering)


Cases = Mapping[str, Case]
"""The cases analysed together, by their names in the tables' column `layering`."""

RUNS = schema_of(
    "layering string, position int64, protocol string, start_ns int64, end_ns int64, dropped int64,"
    " expected int64, written int64, credit int64, from_ns int64, until_ns int64, cpu_ns int64"
)
"""A row per case: its position in the run, the protocol between nodes (analysis/decode/protocols), times,
frames dropped by the capture, deliveries expected, deliveries of all that an author writes on two devices
(null without such), and the credit of its LLIs (null if not fixed). from_ns, until_ns: averaging interval,
from the first publication to the last one, or to the end if there is but one. cpu_ns: processor time of all
nodes, null in the emulator without a cost model.
"""

NODES = schema_of("layering string, node string, role string")
"""A row per node; role: "publisher", "subscriber", "peer" for both, "archive", "gateway" or "forwarder"."""

FEEDS = schema_of("layering string, feed string, cross bool, last int64")
"""A row per feed; cross: whether it is cross traffic; last: the last item before its fork, if any."""

HOPS = schema_of(
    "layering string, feed string, subscriber string, sender string, receiver string, delay_ns int64,"
    " ns_per_byte float64"
)
"""A row per hop: the fields of analysis.run.paths.Hop."""

TIMELINE = schema_of("layering string, time int64, event string, place string")
"""A row per scenario event: its time on the run's clock, and the link or node."""

BREAKS = schema_of("layering string, interface string, node string, time int64, event string")
"""A row per interface and event that interrupts its reception: `event` is "restart" (of its node),
"peer-restart", "link-down" or "link-up" (where the ends notice).
"""

LINKS = schema_of(
    "layering string, interface string, ns_per_byte float64, max_queue_size int64, start_ns int64, end_ns"
    " int64"
)
"""A row per interface that sends into a link with a rate; max_queue_size in frames."""


T = TypeVar("T")


class Setting(NamedTuple, Generic[T]):
    """The tables of all cases."""

    runs: T
    nodes: T
    feeds: T
    hops: T
    timeline: T
    breaks: T
    links: T


def setting(cases: Cases) -> Setting[pa.Table]:
    """Return the tables."""
    return Setting(
        *(
            pa.Table.from_pylist(
                [{"layering": name} | row for name, case in cases.items() for row in rows(case)], schema
            )
            for schema, rows in (
                (RUNS, _runs),
                (NODES, _nodes),
                (FEEDS, _feeds),
                (HOPS, lambda case: (hop._asdict() for hop in delivery_paths(case.manifest))),
                (TIMELINE, _timeline),
                (BREAKS, _breaks),
                (LINKS, _links),
            )
        )
    )


def _runs(case: Case) -> Iterator[dict[str, Any]]:
    turn, load = case.manifest.runs[case.layering], case.manifest.workload
    credit = case.manifest.parameters.get(case.layering, {}).get("credit")
    yield {
        "position": case.manifest.layerings.index(case.layering),
        "protocol": case.protocol,
        "start_ns": turn.start_ns,
        "end_ns": turn.end_ns,
        "dropped": turn.capture.dropped,
        "expected": case.manifest.expected_deliveries,
        "written": None if load.written is None else load.written * load.subscribers,
        "credit": credit if isinstance(credit, int) and credit else None,  # 0: adaptive
        "from_ns": turn.first_ns,
        "until_ns": turn.last_ns if turn.last_ns > turn.first_ns else turn.end_ns,
        "cpu_ns": sum(turn.cpu_ns.values()) if turn.cpu_ns else None,
    }


def _nodes(case: Case) -> Iterator[dict[str, Any]]:
    for node in case.manifest.topology.nodes:
        yield {"node": node.name, "role": node.role}


def _feeds(case: Case) -> Iterator[dict[str, Any]]:
    fork = case.manifest.fork
    for feed in case.manifest.workload.feeds:
        is_forked = fork is not None and fork.feed == feed.feed
        yield {"feed": feed.feed, "cross": False, "last": fork.after if fork and is_forked else None}
    for cross in case.manifest.workload.cross_traffic:
        yield {"feed": cross.feed, "cross": True, "last": None}


def _breaks(case: Case) -> Iterator[dict[str, Any]]:
    start = case.manifest.runs[case.layering].start_ns
    for happening in case.manifest.happenings(case.layering):
        time = start + happening.time_ns
        for link in case.manifest.topology.links:
            ends = (link.interface_a, link.a, link.b), (link.interface_b, link.b, link.a)
            for interface, node, peer in ends:
                event = ""
                if happening.event in ("restart", "stop") and happening.node in (node, peer):
                    event = "restart" if happening.node == node else "peer-restart"
                elif happening.signalled and happening.link in (f"{link.a}--{link.b}", f"{link.b}--{link.a}"):
                    event = happening.event
                if event:
                    yield {"interface": interface, "node": node, "time": time, "event": event}


def _timeline(case: Case) -> Iterator[dict[str, Any]]:
    start = case.manifest.runs[case.layering].start_ns
    for happening in case.manifest.happenings(case.layering):
        yield {"time": start + happening.time_ns, "event": happening.event, "place": happening.place}


def _links(case: Case) -> Iterator[dict[str, Any]]:
    turn = case.manifest.runs[case.layering]
    topology = case.manifest.topology
    senders = [(link, (link.interface_a, link.interface_b)) for link in topology.links]
    for link, interfaces in [*senders, *((medium, medium.interfaces) for medium in topology.media)]:
        for interface in interfaces:
            if link.bw_mbit and interface:
                yield {
                    "interface": interface,
                    "ns_per_byte": link.ns_per_byte,
                    "max_queue_size": link.max_queue_size,
                    "start_ns": turn.start_ns,
                    "end_ns": turn.end_ns,
                }
