"""Results of a run: its tables, as pandas or Arrow."""

import json
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from testbed.errors import UserError, as_user_error
from topologies.model import NODE_NETWORK

if TYPE_CHECKING:
    import pandas as pd
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

        with as_user_error(AnalysisError):
            analyze(self.directory, engine=engine, all_tables=all_tables)
        return self

    @property
    def tables(self) -> list[str]:
        """Names of the existing tables; docs/tables.md explains them."""
        if not self._run.comparison.is_file():
            self.analyze()
        return sorted(path.name.removesuffix(".parquet") for path in self._run.tables.glob("*.parquet"))

    def arrow(self, table: str) -> "pa.Table":
        """Return a table by its name. Raises UserError if there is none."""
        import pyarrow.parquet as pq

        if table not in self.tables:
            raise UserError(
                f"{self.directory}: there is no table {table!r}; there are {', '.join(self.tables)}"
                " (analyze(all_tables=True) makes more)"
            )
        return pq.read_table(self._run.tables / f"{table}.parquet")

    def pandas(self, table: str) -> "pd.DataFrame":
        """Return a table by its name. Raises UserError if there is none."""
        frame: pd.DataFrame = self.arrow(table).to_pandas()
        return frame

    def comparison(self, *, in_words: bool = False) -> "pd.DataFrame":
        """Return the metrics (rows) of the layerings (columns); docs/tables.md explains them.

        `in_words`: the rows are named as people say them, with a column `unit`.
        """
        from analysis.metrics.catalogue import BY_KEY

        rows = self.pandas("comparison")
        frame = rows.pivot(index="metric", columns="layering", values="value")
        frame = frame.loc[rows["metric"].unique(), list(self.manifest.layerings)]
        if in_words:
            frame.insert(0, "unit", [BY_KEY[key].unit for key in frame.index])
            frame.index = frame.index.map({key: metric.title for key, metric in BY_KEY.items()})
        return frame

    def _repr_html_(self) -> str:
        """Return what a notebook shows: before an analysis the deliveries, after it the comparison in words,
        and where report and player are.
        """
        from html import escape

        import pandas as pd

        title, place = escape(self.manifest.title), escape(str(self.directory))
        if self._run.comparison.is_file():
            frame = self.comparison(in_words=True)
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
        return pd.read_json(self._run.events(layering), lines=True)

    def counters(self, layering: str) -> "pd.DataFrame":
        """Return the samples of nodes: time (ns), node, and what it holds: "state.pit.entries" and so on."""
        import pandas as pd

        self._check(layering)
        with self._run.counters(layering).open(encoding="utf-8") as lines:
            return pd.json_normalize([json.loads(line) for line in lines])

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
        return frame.assign(peer=frame["interface"].map(peers)).drop(columns="layering")

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
        return frame.assign(**ends)

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
