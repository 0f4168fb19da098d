"""What the player reads of one layering of a run: the analysis' tables, and the files of the run."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analysis.decode.protocols.registry import framed
from analysis.errors import AnalysisError
from analysis.files import Rows, read_lines, read_rows
from analysis.run.context import Case, setting
from analysis.run.manifest import Run
from analysis.spark.parquet import partition


class Inputs:
    """The inputs of one layering, and the names that the page shows.

    Attributes:
        case: the layering's.
        start, end: of its run, ns.
        nodes: names of nodes and media, in the page's order.
        feeds: names of feeds, likewise; `labels`: their short names.
        neighbours: the node or medium at the other end of each interface.
    """

    def __init__(self, run: Run, layering: str) -> None:
        self.case = Case(run, layering)
        manifest = self.case.manifest
        turn = manifest.runs[layering]
        self.start, self.end = turn.start_ns, turn.end_ns
        topology = manifest.topology
        media = [medium.name for medium in topology.media]
        self.nodes = [*(node.name for node in topology.nodes), *media]
        self.feeds = [feed.feed for feed in manifest.workload.feeds]
        self.labels = feed_labels(run)
        self.neighbours = {link.interface_a: link.b for link in topology.links}
        self.neighbours |= {link.interface_b: link.a for link in topology.links}
        self.neighbours |= {name: medium.name for medium in topology.media for name in medium.interfaces}

    def table(self, name: str) -> pa.Table:
        """Return a table's rows of this layering; without columns if there are none. Raises AnalysisError if
        the run has no such table.
        """
        path = self.case.run.tables / f"{name}.parquet"
        if not path.exists():
            raise AnalysisError(f"{path}: missing: analyse the run first (feednet report)")
        own = path / partition("layering", self.case.layering)
        return read_rows(own, partitioning=None) if own.exists() else pa.table({})

    @cached_property
    def stream_messages(self) -> Rows:
        """The messages of protocols over TCP, in order of time, with `protocol`."""
        rows: Rows = []
        for protocol in framed():
            path = self.case.run.tables / f"{protocol.name}.parquet"
            if path.exists():
                rows += [row | {"protocol": protocol.name} for row in self.table(protocol.name).to_pylist()]
        return sorted(rows, key=itemgetter("time", "frame"))

    @cached_property
    def messages(self) -> dict[str, pa.Table]:
        """The NDN packets at each node, in order of time."""
        every = self.table("messages")
        if not len(every):
            return {}
        every = every.sort_by([("time", "ascending"), ("frame", "ascending")])
        return {node: every.filter(pc.field("node") == node) for node in pc.unique(every["node"]).to_pylist()}

    def breaks(self) -> Rows:
        """Return the restarts and broken links of nodes: analysis.run.context.BREAKS."""
        rows: Rows = setting({self.case.layering: self.case}).breaks.to_pylist()
        return [row for row in rows if row["event"] != "peer-restart"]

    @cached_property
    def events(self) -> Rows:
        """The events of applications."""
        return list(read_lines(self.case.run.events(self.case.layering)))

    def counters(self) -> Iterator[dict[str, Any]]:
        """Yield the samples of nodes."""
        yield from read_lines(self.case.run.counters(self.case.layering))

    def said(self, name: str) -> str:
        """Return a packet's name, and the flags after it, with its feed's short name."""
        feed = name.partition(" ")[0]
        while feed and feed not in self.labels:
            feed = feed.rpartition("/")[0]
        return self.labels[feed] + name[len(feed) :] if feed else name


def feed_labels(run: Run) -> Mapping[str, str]:
    """Return a short name of each feed: its publisher's, with a number if there are several."""
    labels: dict[str, str] = {}
    for feed in run.manifest.workload.feeds:
        number = sum(label.partition("/")[0] == feed.publisher for label in labels.values())
        labels[feed.feed] = f"{feed.publisher}/{number + 1}" if number else feed.publisher
    for cross in run.manifest.workload.cross_traffic:
        labels.setdefault(cross.feed, f"{cross.sender} (cross traffic)")
    return labels
