"""`feednet lab`: labs of twenty minutes, as notebooks or pages, and the check of a student's answers."""

import os
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from base.files import write_whole
from forwarder.toml_file import read_toml
from testbed.cli.console import console, result
from testbed.cli.extras import how_to_get
from testbed.errors import UserError, shown, suggestion
from testbed.labs import books
from testbed.labs.check import check as verdicts
from testbed.labs.lab import NAMES
from testbed.labs.lab import lab as lab_named

ANSWERS = "answers.toml"


class _Labs(click.Group):
    """A group that has a command for each lab, beside `check`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command; an error for an unknown one has the names of the labs."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise UserError(f"lab {shown(args[0])}: {suggestion(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the labs in their order, and the other commands."""
        return [*NAMES, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a lab's command, or another."""
        if cmd_name not in NAMES:
            return super().get_command(ctx, cmd_name)
        page = click.Option(
            ["--page", "is_page"], is_flag=True, help="A page instead, which needs no JupyterLab."
        )
        folder = click.Option(
            ["--folder"], type=click.Path(path_type=Path), help=f"Where to; default labs/{cmd_name}."
        )
        title = lab_named(cmd_name).title
        return click.Command(cmd_name, callback=partial(_open, cmd_name), params=[page, folder], help=title)


@click.group(cls=_Labs, invoke_without_command=True)
@click.pass_context
def lab(ctx: click.Context) -> None:
    """Labs of twenty minutes: predict, run, look, and check your answers.

    `feednet lab NAME` writes the lab's notebook into labs/NAME, and opens it in JupyterLab. Without NAME it
    lists the labs.
    """
    if ctx.invoked_subcommand is not None:
        return
    for name in NAMES:
        console.print(f"  {name:9} {lab_named(name).title}", markup=False, highlight=False)
    console.print("  (feednet lab NAME: do it; feednet lab check NAME: check your answers)")


def _open(name: str, is_page: bool, folder: Path | None) -> None:
    """Write a lab's files, but those that are there, and open the notebook."""
    chosen = lab_named(name)
    place = folder or Path("labs") / name
    place.mkdir(parents=True, exist_ok=True)
    if is_page:
        _write(place / "lab.py", books.script(chosen))
        _write(place / ANSWERS, books.answers(chosen))
        write_whole(place / "lab.html", books.page(chosen))
        result("lab", str(place / "lab.html"))
        return
    path = place / "lab.ipynb"
    _write(path, books.notebook(chosen))
    result("lab", str(path))
    if find_spec("jupyterlab") is None:
        raise UserError(f"to open it takes {how_to_get('jupyterlab', 'lab')}; or take the page: --page")
    command = [sys.executable, "-m", "jupyterlab", path.name]
    if os.geteuid() == 0:  # as for Mininet; the server has a token, and listens on loopback only
        command.append("--allow-root")
    sys.exit(subprocess.run(command, cwd=place, check=False).returncode)


def _write(path: Path, text: str) -> None:
    """Write a file that the student then changes, unless it is there."""
    if not path.exists():
        write_whole(path, text)


def _read_answers(path: Path) -> dict[str, Any]:
    """Return the answers of a file; none if it is not there. Raises UserError."""
    try:
        return read_toml(path) if path.exists() else {}
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error


@lab.command()
@click.argument("name", metavar="NAME", type=click.Choice(NAMES))
@click.option("--answer", "typed", metavar="QUESTION=ANSWER", multiple=True, help="An answer (repeatable).")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where the lab is; default here, or labs/NAME."
)
@click.option("--reveal", is_flag=True, help="Show the right answers, too.")
def check(name: str, typed: tuple[str, ...], folder: Path | None, reveal: bool) -> None:
    """Check your answers to a lab: those of answers.toml in its folder, and of --answer.

    The right ones are computed from the runs that you have made there. Exit status 1 unless all are right.
    """
    place = folder or (
        Path() if Path(ANSWERS).exists() or Path("lab.ipynb").exists() else Path("labs") / name
    )
    if not place.is_dir():
        raise UserError(f"{place}: there is no such folder; `feednet lab {name}` makes labs/{name}")
    answers = _read_answers(place / ANSWERS)
    for each in typed:
        question, equals, answer = each.partition("=")
        if not equals:
            raise UserError(f"--answer {each}: it reads QUESTION=ANSWER")
        answers[question.strip()] = answer.strip()
    found = verdicts(name, answers, place)
    for verdict in found:
        right = verdict.right
        if isinstance(right, float):
            right = round(right, 2)
        elif isinstance(right, set | frozenset):
            right = ", ".join(sorted(right))
        answer = f"   ({right})" if reveal else ""
        console.print(f"{verdict.question.name}: {verdict.said}{answer}", markup=False, highlight=False)
    if not found.are_right:
        sys.exit(1)
