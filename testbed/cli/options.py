"""Options common to several commands."""

import re
from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any

import click

from base.key_log import Secret, Secrets, from_lines
from testbed.errors import UserError, shown

Command = Callable[..., Any]
_ENGINES = ("auto", "spark", "sail")

MOST = 2**63 - 1
"""The largest number in tables, for seeds and frames."""
MOST_RUNS = 1_000_000
"""Maximum number of seeds of one command."""


class Number(click.FloatRange):
    """A number in a closed range; NaN is refused."""

    name = "number"

    def __init__(self, least: float, most: float) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found: float = super().convert(value, param, ctx)
        if isnan(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found


class Bytes(click.ParamType[int]):
    """A number of bytes: 20000000000, or 20GB (kB, MB, GB, TB: powers of 1000).

    Args:
        least: the least number.
    """

    name = "bytes"

    def __init__(self, least: int) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        parts = re.fullmatch(r"([0-9]{1,15}) ?(kB|MB|GB|TB|)", str(value))
        if parts is None:
            self.fail(f"{value} is not a number of bytes such as 20000000000 or 20GB.", param, ctx)
        found: int = int(parts[1]) * 1000 ** ("", "kB", "MB", "GB", "TB").index(parts[2])
        if found < self._least:
            self.fail(f"{value} is less than {self._least:,} bytes.", param, ctx)
        return found


jobs_option = click.option("--jobs", type=click.IntRange(1, 1024), help="Processes; default one a core.")

impairment_option = click.option(
    "--impairment",
    type=click.Choice(["auto", "netem", "relay"]),
    default="auto",
    help="What delays and loses frames in Mininet.",
)


def _configure(_context: click.Context, _option: click.Parameter, settings: tuple[str, ...]) -> None:
    """Have Spark use the settings of --conf."""
    if settings:
        from analysis.spark.session import configure

        configure(settings)


def spark_options(master: str = "Spark master; default local.") -> Callable[[Command], Command]:
    """Add --master and --conf to a command, which receives the master; `master` is its help."""
    conf = click.option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        expose_value=False,
        callback=_configure,
        help="A setting of Spark (repeatable), such as spark.executor.memory=4g.",
    )

    def decorate(command: Command) -> Command:
        return click.option("--master", help=master)(conf(command))

    return decorate


engine_option = click.option(
    "--engine",
    type=click.Choice(_ENGINES),
    default="auto",
    help="What analyses captures: Spark, or Sail (`feednet doctor` tells how to install it), which takes"
    " seconds where Spark takes half a minute; auto: Sail if it is installed and captures fit in memory,"
    " without --master.",
)

all_tables_option = click.option(
    "--all-tables",
    is_flag=True,
    help="Write the tables that the report does not show, too: transactions, entries and occupancy of PITs,"
    " progress of feeds, events.",
)

keys_option = click.option(
    "--keys",
    "key_logs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Key log of encrypted streams, such as a run's keys.log (repeatable); a run's capture has its keys"
    " in it.",
)


def read_keys(key_logs: tuple[Path, ...]) -> Secrets:
    """Return the secrets of key logs; raise UserError for one without any, and OSError."""
    secrets: set[Secret] = set()
    for path in key_logs:
        found = from_lines(path.read_bytes())
        if not found:
            raise UserError(f"--keys {shown(str(path))}: no key log: no line in it has a label and a secret")
        secrets |= found
    return frozenset(secrets)
