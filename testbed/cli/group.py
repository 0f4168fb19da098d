"""Groups of lazily imported commands.

All commands take seconds to import, as models need scipy and analyses Arrow. Commands with missing packages
are listed all the same.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import click

from testbed.cli.extras import lacking
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


class _Lacking(click.Command):
    """Placeholder of a command that cannot be imported: any use prints what it lacks."""

    def __init__(self, name: str, said: str) -> None:
        super().__init__(name, short_help="(not installed)", add_help_option=False)
        self._said = said

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse."""
        raise UserError(f"`{ctx.command_path}` needs {self._said}")
