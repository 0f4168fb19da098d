"""Tables of a run by name, as reports, and metrics and figures of other distributions, read them."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.errors import AnalysisError
from analysis.files import Rows


class Tables:
    """Tables by the names that they have in analysis.pipelines.run; docs/tables.md explains some.

    Args:
        collected: tables, their rows, or paths of Parquet, which are read when they are asked for.
        engine: the engine that computed them, and its version.
    """

    def __init__(self, collected: Mapping[str, pa.Table | Rows | Path], engine: str = "") -> None:
        self._collected = dict(collected)
        self._rows: dict[str, Rows] = {}
        self.engine = engine

    def __getitem__(self, name: str) -> Rows:
        """Return a table's rows, a dict each. Raises AnalysisError if there is no such table."""
        if name not in self._rows:
            found = self.table(name)
            self._rows[name] = found.to_pylist() if isinstance(found, pa.Table) else found
        return self._rows[name]

    def table(self, name: str) -> pa.Table:
        """Return a table too large for rows. Raises AnalysisError if there is none of that name."""
        if name not in self._collected:
            raise AnalysisError(f"there is no table {name!r}; there are {', '.join(sorted(self._collected))}")
        found = self._collected[name]
        if isinstance(found, Path):
            found = self._collected[name] = pq.read_table(found)
        return found

    def where(self, name: str, which: pc.Expression, *columns: str) -> pa.Table:
        """Return some rows and columns of a table; of one that is a path, only these are read."""
        found = self._collected.get(name)
        if isinstance(found, Path):
            return pq.read_table(found, columns=[*columns], filters=which)
        return self.table(name).filter(which).select(columns)
