"""What a run has measured: its tables, as pandas or Arrow."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from testbed.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from analysis.run.manifest import Manifest


class Results:
    """The directory of a run that has ended. The first look at a table analyses the run.

    Args:
        directory: of the run.

    Raises UserError if it is none, or has been damaged.
    """

    def __init__(self, directory: str | Path) -> None:
        from analysis.errors import AnalysisError
        from analysis.run.manifest import Run

        self.directory = Path(directory)
        try:
            self._run = Run(self.directory)
        except AnalysisError as error:
            raise UserError(str(error)) from error

    @property
    def manifest(self) -> "Manifest":
        """How the run came about: analysis.run.manifest.Manifest."""
        return self._run.manifest

    @property
    def report(self) -> Path:
        """The page with the comparison; the run is analysed if it has not been."""
        if not self._run.report.is_file():
            self.analyze()
        return self._run.report

    def analyze(self, *, engine: Literal["auto", "spark", "sail"] = "auto", all_tables: bool = False) -> Self:
        """Analyse the run, again if it has been; return this object. `all_tables`: also those that the report
        does not show. Raises UserError."""
        from analysis.errors import AnalysisError
        from analysis.pipelines.run import analyze

        try:
            analyze(self.directory, engine=engine, all_tables=all_tables)
        except AnalysisError as error:
            raise UserError(str(error)) from error
        return self

    @property
    def tables(self) -> list[str]:
        """The names of the tables that there are; docs/tables.md says what is in them."""
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
        """Return the metrics (rows) of the layerings (columns); docs/tables.md says what each is."""
        rows = self.pandas("comparison")
        frame = rows.pivot(index="metric", columns="layering", values="value")
        return frame.loc[rows["metric"].unique(), list(self.manifest.layerings)]

    def events(self, layering: str) -> "pd.DataFrame":
        """Return what applications and the scenario did: time (ns), node, event, feed, seq, bytes."""
        import pandas as pd

        if layering not in self.manifest.layerings:
            known = ", ".join(self.manifest.layerings)
            raise UserError(f"{self.directory}: layering {layering!r} has not run; there are {known}")
        return pd.read_json(self._run.events(layering), lines=True)
