"""Results of a run: its tables, as pandas, polars or Arrow, and its player."""

import json
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from testbed.api.notebook import Player, bars
from testbed.errors import UserError, as_user_error
from topologies.model import NODE_NETWORK

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from analysis.decode.whole import Whole
    from analysis.run.manifest import Manifest


class Results:
    """The directory of a completed run, which is analysed on first access to a table.

    Args:
        directory: of the run.

    Raises UserError if it is none, or has been damaged.
    """

    def __init__(self, directory: str | Path) -> None:
        from analysis.errors import AnalysisError
        from analysis.run.manifest import Run

        self.directory = Path(directory)
        with as_user_error(AnalysisError):
            self._run = Run(self.directory)

    @property
    def manifest(self) -> "Manifest":
        """Provenance of the run: analysis.run.manifest.Manifest."""
        return self._run.manifest

    @property
    def report(self) -> Path:
        """The page with the comparison, written on first access."""
        if not self._run.report.is_file():
            self.analyze()
        return self._run.report

    def analyze(self, *, engine: Literal["auto", "spark", "sail"] = "auto", all_tables: bool = False) -> Self:
        """Analyse the run, again if necessary; return this object. `all_tables` adds those that the report
        does not show. Raises UserError.
        """
        from analysis.errors import AnalysisError
        from analysis.pipelines.run import analyze

        with as_user_error(AnalysisError), bars("analysed") as shown:
            analyze(self.directory, engine=engine, all_tables=all_tables, progress=shown.step)
        return self

    @property
    def tables(self) -> list[str]:
        """Names of the existing tables; docs/tables.md explains them."""
        if not self._run.comparison.is_file():
            self.analyze()
        return sorted(path.name.removesuffix(".parquet") for path in self._run.tables.glob("*.parquet"))

    def arrow(self, table: str) -> "pa.Table":
        """Return a table by its name. Raises UserError if there is none.

        The metadata of its fields say what a column is (`meaning`), and in which `unit`, as docs/tables.md.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if table not in self.tables:
            raise UserError(
                f"{self.directory}: there is no table {table!r}; there are {', '.join(self.tables)}"
                " (analyze(all_tables=True) makes more)"
            )
        rows = pq.read_table(self._run.tables / f"{table}.parquet")
        fields = (
            field.with_metadata(dict(zip(("unit", "meaning"), _explained(table, field.name), strict=True)))
            for field in rows.schema
        )
        return rows.cast(pa.schema(fields, metadata=rows.schema.metadata))

    def pandas(self, table: str) -> "pd.DataFrame":
        """Return a table by its name. Raises UserError.

        `attrs["units"]` has the units of its columns, as in all frames of this class.
        """
        return _with_units(self.arrow(table).to_pandas(), table)

    def polars(self, table: str) -> "pl.DataFrame":
        """Return a table by its name. Raises UserError, also if polars is not installed."""
        try:
            import polars as pl
        except ModuleNotFoundError:
            raise UserError(
                "polars is not installed: pip install polars (pandas() and arrow() need no more)"
            ) from None
        return pl.DataFrame(self.arrow(table))

    def comparison(self) -> "pd.DataFrame":
        """Return the metrics (rows, by their keys): `title`, `unit`, and the values of each layering."""
        rows = self.pandas("comparison")
        words = rows.drop_duplicates("metric").set_index("metric")[["title", "unit"]]
        values = rows.pivot(index="metric", columns="layering", values="value")
        return words.join(values[list(self.manifest.layerings)])

    def player(self, *layerings: str, height: int = 760) -> Player:
        """Return the player of all layerings, or of some; a notebook shows it, `height` pixels high.

        It is that of `feednet play`, in one piece: 0.2 MB for a small run, and some 40 bytes a packet more.
        The run is analysed if it has not been. Raises UserError.
        """
        from analysis.errors import AnalysisError
        from analysis.player.page import player

        if not self._run.comparison.is_file():
            self.analyze()
        with as_user_error(AnalysisError):
            page = player(self.directory, layerings, is_inline=True)
        return Player(page, str(self.directory), height)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: before an analysis the deliveries, after it the comparison in words,
        and where report and player are.
        """
        from html import escape

        import pandas as pd

        title, place = escape(self.manifest.title), escape(str(self.directory))
        if self._run.comparison.is_file():
            frame = self.comparison().set_index("title").rename_axis(None)
            frame = frame.dropna(how="all", subset=[*self.manifest.layerings])  # of other layerings
            rest = " ".join(
                f'<a href="{escape(path.as_posix())}">{name}</a>'
                for name, path in (("report", self._run.report), ("player", self.directory / "player.html"))
                if path.is_file()
            )
        else:
            wanted = sum(self.manifest.workload.expected.values())
            got = [(self.events(name)["event"] == "delivered").sum() for name in self.manifest.layerings]
            rows = {"items delivered": got, "items expected": [wanted] * len(got)}
            frame = pd.DataFrame.from_dict(rows, orient="index", columns=list(self.manifest.layerings))
            rest = "not analysed yet: comparison() does it"
        table = frame.to_html(border=0, float_format=lambda value: f"{value:,.6g}", na_rep="")
        return f"<p><b>{title}</b>, {place}; {rest}</p>{table}"

    def events(self, layering: str) -> "pd.DataFrame":
        """Return events of applications and the scenario: time (ns), node, event, feed, seq, bytes."""
        import pandas as pd

        self._check(layering)
        return _with_units(pd.read_json(self._run.events(layering), lines=True), "events")

    def counters(self, layering: str) -> "pd.DataFrame":
        """Return the samples of nodes: time (ns), node, and what it holds: "state.pit.entries" and so on."""
        import pandas as pd

        self._check(layering)
        with self._run.counters(layering).open(encoding="utf-8") as lines:
            frame = pd.json_normalize([json.loads(line) for line in lines])
        units = {name: "bytes" for name in map(str, frame) if name.endswith("bytes")}
        frame.attrs["units"] = {"time": "ns"} | units
        return frame

    def packets(self, layering: str) -> "pd.DataFrame":
        """Return the frames of the capture, without an analysis: `packets` of docs/tables.md, and `peer`, the
        node at the other end of the interface. Raises UserError.
        """
        import pandas as pd
        import pyarrow as pa

        integers = {pa.int64(): pd.Int64Dtype()}
        frame: pd.DataFrame = self._whole(layering).packets.to_pandas(types_mapper=integers.get)
        links = self.manifest.topology.links
        peers = {link.interface_a: link.b for link in links} | {link.interface_b: link.a for link in links}
        frame = frame.assign(peer=frame["interface"].map(peers)).drop(columns="layering")
        return _with_units(frame, "packets")

    def messages(self, layering: str, protocol: str = "ssb") -> "pd.DataFrame":
        """Return the messages of a protocol over TCP, without an analysis: the table `ssb` of docs/tables.md,
        and `sender` and `receiver`, the nodes at both ends. Raises UserError.
        """
        import pandas as pd

        rows = self._whole(layering).messages.get(protocol, [])
        nodes = enumerate(self.manifest.topology.nodes, start=1)
        names = {str(IPv4Network(NODE_NETWORK)[number]): node.name for number, node in nodes}
        frame = pd.DataFrame(rows).convert_dtypes()
        ends = {"sender": frame["src"].map(names), "receiver": frame["dst"].map(names)} if rows else {}
        return _with_units(frame.assign(**ends), protocol)

    def _whole(self, layering: str) -> "Whole":
        from analysis.decode.whole import read_whole
        from captures.formats.pcapng import CaptureError

        self._check(layering)
        with as_user_error(CaptureError):
            return read_whole(layering, self._run.capture(layering))

    def _check(self, layering: str) -> None:
        if layering not in self.manifest.layerings:
            known = ", ".join(self.manifest.layerings)
            raise UserError(f"{self.directory}: layering {layering!r} has not run; there are {known}")


def _explained(table: str, column: str) -> tuple[str, str]:
    """Return unit and meaning of a table's column; "" if unknown."""
    from analysis.metrics.catalogue import BY_KEY
    from analysis.tables.schema import column_of

    if (own := column_of(table, column)) is not None:
        return own.unit, own.meaning
    metric = BY_KEY.get(column)
    return ("", "") if metric is None else (metric.unit, metric.title)


def _with_units(frame: "pd.DataFrame", table: str) -> "pd.DataFrame":
    """Return a table's rows with the units of their columns."""
    units = {name: _explained(table, name)[0] for name in map(str, frame)}
    frame.attrs["units"] = {name: unit for name, unit in units.items() if unit}
    return frame
