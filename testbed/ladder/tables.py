"""The paper's three tables, reproduced: a cell for each figure, with its sampling error.

The paper's figures come from one run, or from about a hundred small ones, as its text says. So a cell has,
besides the mean over many runs, the 95 % interval of a figure obtained like the paper's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from testbed.errors import UserError
from testbed.ladder.networks import growing_network, random_network
from testbed.ladder.spread import MODEL, Means

CONFIDENCE: Final = 0.95
_TAILS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
_GRAPHS = 100
"""Networks behind each figure of the paper's second table."""
_FEW, _FEWEST_FOR_QUANTILES = 3, 40  # minimum numbers of runs for intervals
_LARGE = 10_000  # peers, above which a table has fewer rows

Trial = dict[str, dict[str, float]]
"""The results of one run: row -> column -> value; possibly incomplete."""


class Cell(NamedTuple):
    """One figure of a table.

    Attributes:
        row, column: its place.
        mean: of all runs; in a column of standard deviations, their standard deviation.
        error: half the 95 % confidence interval of the mean; None for a standard deviation.
        low, high: 95 % interval of a figure obtained like the paper's.
        runs: number of runs with the figure.
        paper: the paper's figure; None without one, or for networks of another size.
        digits: decimals of the paper's figures in the column.
    """

    row: str
    column: str
    mean: float
    error: float | None
    low: float
    high: float
    runs: int
    paper: float | None
    digits: int = 0

    @property
    def holds(self) -> bool | None:
        """Whether the paper's figure lies in the interval, within its precision; None without a figure."""
        if self.paper is None:
            return None
        slack = 0.5 * 10.0**-self.digits
        return self.low - slack <= self.paper <= self.high + slack


class Table(NamedTuple):
    """One of the tables.

    Attributes:
        title: the heading.
        rule: its construction, in a sentence.
        row: meaning of a row.
        columns: column -> its title.
        peers: in the paper's networks.
        trial: (means, peers, rows, random) -> results of one run.
        rows: of the paper's table; () for one per round.
        large_rows: for networks above 10,000 peers.
        paper: row -> column -> the paper's figure.
    """

    title: str
    rule: str
    row: str
    columns: Mapping[str, str]
    peers: int
    trial: Callable[[Means, int, Sequence[str], np.random.Generator], Trial]
    rows: Sequence[str]
    large_rows: Sequence[str]
    paper: Mapping[str, Mapping[str, float]]

    def digits(self, column: str) -> int:
        """Return the decimals of a column in the paper, which omits trailing zeros."""
        figures = [row[column] for row in self.paper.values() if column in row]
        return max((len(f"{figure:g}".partition(".")[2]) for figure in figures), default=0)

    def rows_for(self, peers: int) -> Sequence[str]:
        """Return the rows for networks of a size."""
        return self.rows if peers <= _LARGE else self.large_rows


def _gossip_trial(means: Means, peers: int, rows: Sequence[str], random: np.random.Generator) -> Trial:
    shown: Trial = {}
    for column, at_once in (("in turn", False), ("at once", True)):
        for number, reached in enumerate(means.gossip(peers, random, at_once), start=1):
            shown.setdefault(f"{number}", {})[column] = reached
    return shown


def _depth_trial(means: Means, peers: int, rows: Sequence[str], random: np.random.Generator) -> Trial:
    shown: Trial = {}
    for row in rows:
        found = means.depths(random_network(peers, float(row), random))
        is_connected = bool((found >= 0).all())
        shown[row] = {"connected": float(is_connected)}
        if is_connected:
            shown[row] |= dict.fromkeys(("depth", "deviation"), float(found.max()) + 1)
    return shown


def _flood_trial(means: Means, peers: int, rows: Sequence[str], random: np.random.Generator) -> Trial:
    shown: Trial = {}
    for row in rows:
        cost = means.flood(growing_network(peers, int(row), random))
        shown[row] = {
            "hops": cost.rounds + 1,
            "mean": cost.mean,
            "messages": cost.messages,
            "inefficiency": cost.inefficiency,
        }
    return shown


_REACHED = (10, 61, 354, 1549, 5452, 9327, 9993, 10_000)
_CONNECTED = {
    "1": (0.05, 57.26, 19.385),
    "1.1": (0.46, 23.33, 2.550),
    "1.2": (0.69, 18.1, 1.676),
    "1.3": (0.7, 15.08, 1.189),
    "1.4": (0.8, 13.52, 1.277),
    "1.5": (0.91, 12.33, 0.813),
    "1.6": (0.9, 11.45, 0.829),
    "1.7": (0.96, 10.59, 0.802),
    "1.8": (0.97, 9.83, 0.633),
    "1.9": (0.99, 9.29, 0.496),
    "2": (1.0, 8.72, 0.531),
    "3": (1.0, 6.91, 0.286),
    "5": (1.0, 5.39, 0.488),
    "10": (1.0, 4.59, 0.492),
    "20": (1.0, 4.0, 0.0),
}
_FLOODED = (
    (14, 6.657, 999),
    (7, 3.657, 2981),
    (6, 2.944, 4947),
    (5, 2.842, 6913),
    (5, 2.605, 8861),
    (5, 2.515, 10803),
    (4, 2.388, 12731),
    (4, 2.361, 14671),
    (4, 2.306, 16605),
    (4, 2.193, 18487),
    (4, 2.201, 20357),
    (4, 2.136, 22237),
    (4, 2.118, 24163),
    (4, 2.118, 25993),
    (4, 2.027, 27877),
    (4, 2.008, 29709),
    (4, 2.046, 31567),
    (4, 1.994, 33393),
    (4, 1.94, 35281),
    (4, 1.933, 37135),
)

TABLES: Final[Mapping[str, Table]] = {
    "gossip": Table(
        title="Peers that have a message, round by round",
        rule="Each round, each peer connects to one drawn uniformly; if one has the message, both get it.",
        row="round",
        columns={"in turn": "one connection after the other", "at once": "all connections at once"},
        peers=10_000,
        trial=_gossip_trial,
        rows=(),
        large_rows=(),
        paper={f"{number}": {"in turn": reached} for number, reached in enumerate(_REACHED, start=1)},
    ),
    "connectivity": Table(
        title="Connections of a peer, and how far a random network reaches",
        rule="Each peer opens so many connections on average, to peers drawn uniformly.",
        row="connections",
        columns={"connected": "share connected", "depth": "depth + 1", "deviation": "its s.d."},
        peers=1_000,
        trial=_depth_trial,
        rows=tuple(_CONNECTED),
        large_rows=tuple(_CONNECTED),
        paper={
            row: {"connected": share, "depth": depth, "deviation": deviation}
            for row, (share, depth, deviation) in _CONNECTED.items()
        },
    ),
    "flood": Table(
        title="The flood of a message",
        rule="Each peer opens K connections to earlier ones, drawn uniformly; the first publishes.",
        row="K",
        columns={
            "hops": "depth + 1",
            "mean": "mean depth",
            "messages": "copies sent",
            "inefficiency": "per copy needed",
        },
        peers=1_000,
        trial=_flood_trial,
        rows=tuple(f"{k}" for k in range(1, 21)),
        large_rows=("1", "2", "3", "5", "10", "20"),
        paper={
            f"{k}": {"hops": hops, "mean": mean, "messages": sent}
            for k, (hops, mean, sent) in enumerate(_FLOODED, start=1)
        },
    ),
}


def play(name: str, peers: int, seed: int, real: Means | None = None) -> Trial:
    """Return the results of one run of a table.

    `real`: peers that speak the protocols play it, too. Raises UserError if they differ from the model.
    """
    shown = _play(MODEL, name, peers, seed)
    if real is not None and (seen := _play(real, name, peers, seed)) != shown:
        row = next(row for row in {**shown, **seen} if shown.get(row) != seen.get(row))
        raise UserError(
            f"table {name}, seed {seed}, row {row}: the protocols give {seen.get(row)}, "
            f"and the model {shown.get(row)}"
        )
    return shown


def _play(means: Means, name: str, peers: int, seed: int) -> Trial:
    table = TABLES[name]
    return table.trial(means, peers, table.rows_for(peers), np.random.default_rng([seed, *name.encode()]))


def cells(name: str, peers: int, trials: Sequence[Trial]) -> list[Cell]:
    """Return the cells of a table, row by row, without rows that occurred in no run."""
    table = TABLES[name]
    rows = table.rows_for(peers) or [f"{n}" for n in range(1, 1 + max(len(trial) for trial in trials))]
    paper = table.paper if peers == table.peers else {}
    found = []
    for row in rows:
        for column in table.columns:
            values = np.array(_values(name, peers, row, column, trials))
            if len(values):
                is_known = len(values) >= (_FEW if name == "connectivity" else _FEWEST_FOR_QUANTILES)
                figure = paper.get(row, {}).get(column) if is_known else None
                cell = _cell(name, row, column, values, figure)
                found.append(cell._replace(digits=table.digits(column)))
    return found


def _values(name: str, peers: int, row: str, column: str, trials: Sequence[Trial]) -> list[float]:
    if name != "gossip":
        return [trial[row][column] for trial in trials if column in trial[row]]
    # A finished run has reached all.
    values = [trial.get(row, {}).get(column, peers) for trial in trials]
    before = [trial.get(f"{int(row) - 1}", {}).get(column, peers) for trial in trials]
    return [] if row != "1" and min(before) == peers else values


def _cell(name: str, row: str, column: str, values: np.ndarray, paper: float | None) -> Cell:
    from scipy import stats

    runs, mean = len(values), float(values.mean())
    spread = float(values.std(ddof=1)) if runs > 1 else 0.0
    error = float(stats.t.ppf(_TAILS[1], runs - 1)) * spread / math.sqrt(runs) if runs > 1 else 0.0
    if column == "deviation":
        # Both the paper's figure and ours are of a sample: their ratio has an F distribution.
        free = max(runs - 1, 1)
        low, high = (spread * math.sqrt(stats.f.ppf(tail, _GRAPHS - 1, free)) for tail in _TAILS)
        return Cell(row, column, spread, None, low, high, runs, paper)
    if column == "connected":
        likely = stats.betabinom(_GRAPHS, values.sum() + 0.5, runs - values.sum() + 0.5)
        low, high = (float(likely.ppf(tail)) / _GRAPHS for tail in _TAILS)
    elif name == "connectivity":
        reach = error * math.sqrt(1 + runs / _GRAPHS)
        low, high = mean - reach, mean + reach
    else:
        low, high = (float(each) for each in np.quantile(values, _TAILS))
    return Cell(row, column, mean, error, float(low), float(high), runs, paper)
