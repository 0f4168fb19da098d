"""Sampled state of nodes.

Each node reports its state by kind, as docs/architecture.md counts it. A sample is valid until the node's
next one. Nodes are sampled at different moments, so network state is the sum of each node's latest sample.
"""

from collections.abc import Mapping
from math import fsum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from analysis.columns.arrays import groups_of
from analysis.columns.values import ALL, HELD
from analysis.errors import AnalysisError
from analysis.files import Rows
from analysis.packet_schema import schema_of
from analysis.pit.entry import State
from analysis.pit.windows.levels import Levels
from analysis.run.context import Cases, Span
from captures.formats.records import Ints

_TOLD = schema_of("time int64, node string")
SAMPLES = pa.schema(
    [
        *schema_of("layering string, node string, time int64, kind string"),
        *((what, pa.int64()) for what in HELD),
    ]
)
"""A row for each sample and kind of state."""

KINDS = pa.schema(
    [("layering", pa.string()), ("kind", pa.string())]
    + [(f"{measure}_{what}", pa.float64()) for what in HELD for measure in ("mean", "peak")]
)
"""A row for each kind of state of a layering: a node's mean, and the highest peak of a node. The means of all
kinds together are the mean of a node's state."""

_NO_MEANS = dict.fromkeys(f"mean_{what}" for what in State._fields)


def read_samples(cases: Cases) -> pa.Table:
    """Return the SAMPLES of cases, ordered by all columns except the amounts; raise AnalysisError."""
    tables = [SAMPLES.empty_table()]
    for name, case in cases.items():
        path = case.run.counters(case.layering)
        if not path.stat().st_size:
            continue
        try:
            rows = pyarrow.json.read_json(
                path, parse_options=pyarrow.json.ParseOptions(explicit_schema=_TOLD)
            )
            for kind in rows["state"].type if "state" in rows.column_names else ():
                held = [pc.struct_field(rows["state"], [kind.name, what]).cast(pa.int64()) for what in HELD]
                labels = (
                    pa.repeat(name, len(rows)),
                    rows["node"],
                    rows["time"],
                    pa.repeat(kind.name, len(rows)),
                )
                tables.append(pa.table([*labels, *held], schema=SAMPLES).drop_null())
        except (pa.ArrowInvalid, TypeError) as error:
            raise AnalysisError(f"{path}: {error}") from None
    order = [(column, "ascending") for column in ("layering", "node", "time", "kind")]
    return pa.concat_tables(tables).sort_by(order)


def held_levels(
    samples: pa.Table, spans: Mapping[str, Span], over: Mapping[str, Span], bins: int
) -> dict[str, Rows]:
    """Return `summary`, `curves` and `heat` rows like analysis.pit.windows.levels.scan, over all kinds
    together, and `kinds`, rows of KINDS.

    `samples` is SAMPLES; `spans` are of runs, `over` the averaging intervals, by layering. Means are null if
    no node was sampled in the averaging interval: what was held before it tells nothing of it.
    """
    tables: dict[str, Rows] = {"summary": [], "curves": [], "heat": [], "kinds": []}
    for layering in pc.unique(samples["layering"]).to_pylist():
        of_run = samples.filter(pc.equal(samples["layering"], layering))

        def follow(rows: pa.Table, layering: str = layering) -> dict[str, Levels]:
            return _levels(rows, spans[layering], over[layering], bins)

        moments = of_run["time"].to_numpy()
        begun, ended = over[layering]
        unknown = {} if ((begun <= moments) & (moments < ended)).any() else _NO_MEANS
        every = follow(of_run)
        for node, levels in every.items():
            where = {"layering": layering, "node": node}
            summary = levels.summary()
            tables["summary"] += [where | summary | unknown] if summary else []
            tables["curves"] += [where | row for row in levels.curve()]
            tables["heat"] += [where | row for row in levels.heat()] if node != ALL else []
        for kind in pc.unique(of_run["kind"]).to_pylist():
            followed = follow(of_run.filter(pc.equal(of_run["kind"], kind)))
            nodes = [own for node, levels in followed.items() if node != ALL and (own := levels.summary())]
            row = {"layering": layering, "kind": kind}
            for what in HELD:
                row |= {
                    f"mean_{what}": fsum(own[f"mean_{what}"] for own in nodes) / max(1, len(every) - 1),
                    f"peak_{what}": max((own[f"peak_{what}"] for own in nodes), default=0),
                }
            tables["kinds"].append(row | {key: None for key in unknown if key in row})
    return tables


def _levels(samples: pa.Table, span: Span, over: Span, bins: int) -> dict[str, Levels]:
    """Return the levels of each node and of ALL, kinds added up."""
    moments = samples.group_by(["node", "time"]).aggregate([(what, "sum") for what in HELD])
    of_nodes = groups_of(moments.sort_by("time"), ["node"])
    states = {rows["node"][0].as_py(): _states(rows) for rows in of_nodes}
    states = dict(sorted(states.items())) | {ALL: _added_up([*states.values()])}
    followed = {}
    for node, (times, held) in states.items():
        followed[node] = Levels(span, HELD, bins, over=over)
        followed[node].push(times, held)
        followed[node].finish()
    return followed


def _states(rows: pa.Table) -> tuple[Ints, Ints]:
    """Return times and states, in columns of analysis.pit.entry.State; PIT-only fields are 0."""
    held: Ints = np.zeros((len(rows), len(State._fields)), np.int64)
    for place, what in enumerate(HELD):
        held[:, place] = rows[f"{what}_sum"].to_numpy()
    return rows["time"].to_numpy(), held


def _added_up(nodes: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Return times and sums of the nodes' latest samples."""
    times = np.concatenate([times for times, _ in nodes])
    changes = np.concatenate([np.diff(states, axis=0, prepend=0) for _, states in nodes])
    order = np.argsort(times, kind="stable")
    times, sums = times[order], changes[order].cumsum(axis=0)
    last = np.flatnonzero(np.diff(times, append=np.iinfo(np.int64).max))
    return times[last], sums[last]
