"""Groups of lazily imported commands.

All commands take seconds to import, as models need scipy and analyses Arrow; so a group's help reads their
docstrings from their sources. Commands with missing packages are listed all the same.
"""

import ast
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from testbed.cli.extras import lacking, missing
from testbed.errors import UserError


class LazyGroup(click.Group):
    """A group that knows the modules of its commands.

    `places` maps a command's name to "module:function".
    """

    def __init__(self, *arguments: Any, places: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *self._places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        return self._found(cmd_name) or super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and the first sentence about each."""
        if missing("testbed"):  # which command lacks something shows when it is imported
            super().format_commands(ctx, formatter)
            return
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._summary(ctx, name, limit)) for name in names])

    def _summary(self, ctx: click.Context, name: str, limit: int) -> str:
        text = _docstring(*self._places[name].split(":")) if name in self._places else None
        if text is not None:
            return click.Command(name, help=text).get_short_help_str(limit)
        command = self.get_command(ctx, name)
        return command.get_short_help_str(limit) if command else ""

    def load(self, words: Iterable[str]) -> None:
        """Import the commands at the beginning of a command line."""
        group: click.Command | None = self
        for word in words:
            if not isinstance(group, LazyGroup):
                break
            group = group._found(word)

    def _found(self, name: str) -> click.Command | None:
        if name not in self._places:
            return None
        module, _, function = self._places[name].partition(":")
        try:
            found: click.Command = vars(import_module(module))[function]
        except ModuleNotFoundError as error:
            said = lacking(error)
            if said is None:
                raise
            return _Lacking(name, said)
        return found


def _docstring(module: str, function: str) -> str | None:
    """Return the docstring of a function in a module that need not be imported."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    for statement in ast.parse(Path(spec.origin).read_bytes()).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == function:
            return ast.get_docstring(statement)
    return None


class _Lacking(click.Command):
    """Placeholder of a command that cannot be imported: any use prints what it lacks."""

    def __init__(self, name: str, said: str) -> None:
        super().__init__(name, short_help="(not installed)", add_help_option=False)
        self._said = said

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse."""
        raise UserError(f"`{ctx.command_path}` needs {self._said}")
