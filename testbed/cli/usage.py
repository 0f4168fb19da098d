"""Help of commands; typed options without effect."""

from typing import Any, Final

import click
from click.core import ParameterSource

HELP: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "show_default": True}
"""Settings of a command and those below it: how they help."""


def is_typed(name: str) -> bool:
    """Return whether a parameter was given on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def exclude(name: str, *others: str) -> None:
    """Raise click.UsageError if a parameter was given together with one that has no effect beside it."""
    for other in others:
        if is_typed(name) and is_typed(other):
            raise click.UsageError(
                f"{_display_name(other)} has no effect with {_display_name(name)}; leave one of them out."
            )


def require(name: str, other: str) -> None:
    """Raise click.UsageError if a parameter was given without the one that it refines."""
    if is_typed(name) and not is_typed(other):
        raise click.UsageError(f"{_display_name(name)} has no effect without {_display_name(other)}.")


def _display_name(name: str) -> str:
    """Return a parameter's display name: an option's longest name, or an argument as in the help."""
    context = click.get_current_context()
    (found,) = [each for each in context.command.params if each.name == name]
    return max(found.opts, key=len) if isinstance(found, click.Option) else found.make_metavar(context)
