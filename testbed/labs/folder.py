"""A student's folder, with the runs that the cells of a lab have made in it."""

import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from testbed.api.results import Results
from testbed.errors import UserError


class Folder(NamedTuple):
    """A student's folder."""

    path: Path

    def run(self, name: str) -> Results:
        """Return the newest run of a name. Raises UserError if there is none."""
        own = re.compile(rf"{re.escape(name)}-\d{{8}}-\d{{6}}")
        found = sorted(each for each in self.path.glob("runs/*") if own.fullmatch(each.name))
        if not found:
            raise UserError(
                f"{self.path / 'runs'}: there is no run named {name!r} yet: run the cells of the lab first"
            )
        return Results(found[-1])

    def file(self, name: str) -> Path:
        """Return the path of a file that a cell has written. Raises UserError if there is none."""
        path = self.path / name
        if not path.is_file():
            raise UserError(f"{path}: missing: run the cells of the lab first")
        return path


def deliveries(run: Results, layering: str) -> pd.DataFrame:
    """Return the items that subscribers got, in order of time: node, seq, published and delivered in ms."""
    events = run.events(layering)
    published = events[events.event == "published"].groupby(["feed", "seq"]).time.min() / 1e6
    rows = events[events.event == "delivered"].join(published.rename("published"), on=["feed", "seq"])
    return rows.assign(delivered=rows.time / 1e6)[["node", "seq", "published", "delivered"]]
