"""What applications reported in a run: errors, and the proofs of a fork."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow.compute as pc

from analysis.files import Rows
from analysis.run.manifest import Manifest
from analysis.tables.collected import Tables


class ErrorReports(NamedTuple):
    """Equal errors of a node: their detail and number, and the time of the first, s into the run."""

    layering: str
    node: str
    detail: str
    times: int
    first: float


class ForkAt(NamedTuple):
    """A fork at a subscriber: the items that it took after the fork, the time of the first, and that of the
    proof, s into the run; None for never.
    """

    layering: str
    node: str
    taken: int
    first: float | None
    proof: float | None


def errors(incidents: Rows, manifest: Manifest) -> Iterator[ErrorReports]:
    """Yield the errors, in order of their first reports by layering."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in incidents:
        if row["event"] == "error":
            key = (row["layering"], row["node"], row["detail"] or "error")
            found.setdefault(key, []).append(_seconds(row["time"], row["layering"], manifest))
    for key, times in found.items():
        yield ErrorReports(*key, len(times), min(times))


def forks(tables: Tables, manifest: Manifest) -> Iterator[ForkAt]:
    """Yield the fork at each subscriber under each layering, if there is one in the scenario."""
    if manifest.fork is None:
        return
    is_beyond = (pc.field("feed") == manifest.fork.feed) & (pc.field("seq") > manifest.fork.after)
    taken: dict[tuple[str, str], list[int]] = {}
    for row in tables.where("latency", is_beyond, "layering", "node", "delivered").to_pylist():
        taken.setdefault((row["layering"], row["node"]), []).append(row["delivered"])
    proofs = {
        (row["layering"], row["node"]): row["time"] for row in tables["incidents"] if row["event"] == "forked"
    }
    for layering in manifest.layerings:
        for node in manifest.workload.expected:
            times, proof = taken.get((layering, node), []), proofs.get((layering, node))
            yield ForkAt(
                layering,
                node,
                len(times),
                _seconds(min(times), layering, manifest) if times else None,
                None if proof is None else _seconds(proof, layering, manifest),
            )


def _seconds(time: int, layering: str, manifest: Manifest) -> float:
    return (time - manifest.runs[layering].start_ns) / 1e9
