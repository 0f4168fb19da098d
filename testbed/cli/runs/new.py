"""`feednet new`: starting files."""

import os
from pathlib import Path

import click

from base.files import write_whole
from testbed.errors import UserError, shown
from testbed.scenario.reader import STARTING_FILE


@click.group()
def new() -> None:
    """Write a file to begin with."""


@new.command()
@click.argument("name", metavar="NAME", type=click.Path(path_type=Path))
def scenario(name: Path) -> None:
    """Write NAME.toml: a commented scenario that runs as it is. A file that is there stays."""
    if not name.name or name.name == "..":
        raise UserError(f"NAME {shown(os.fspath(name))}: name a file; NAME.toml is written")
    path = name if name.suffix == ".toml" else name.with_name(f"{name.name}.toml")
    text = STARTING_FILE.read_text(encoding="utf-8")
    try:
        if os.path.lexists(path):
            raise UserError(f"{path}: exists already; choose another name")
        write_whole(path, text)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{shown(os.fspath(path))}: {why}") from error
    click.echo(f"{path}: edit it, then: feednet run {path}")
