"""Results of a run: its tables, as pandas or Arrow."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from testbed.errors import UserError, as_user_error

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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

    def comparison(self) -> "pd.DataFrame":
        """Return the metrics (rows) of the layerings (columns); docs/tables.md explains them."""
        rows = self.pandas("comparison")
        frame = rows.pivot(index="metric", columns="layering", values="value")
        return frame.loc[rows["metric"].unique(), list(self.manifest.layerings)]

    def events(self, layering: str) -> "pd.DataFrame":
        """Return events of applications and the scenario: time (ns), node, event, feed, seq, bytes."""
        import pandas as pd

        if layering not in self.manifest.layerings:
            known = ", ".join(self.manifest.layerings)
            raise UserError(f"{self.directory}: layering {layering!r} has not run; there are {known}")
        return pd.read_json(self._run.events(layering), lines=True)
