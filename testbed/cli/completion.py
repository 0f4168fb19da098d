"""`feednet completion SHELL`: completion of command lines in bash, zsh and fish.

click completes commands and options; here are scenarios, layerings and their parameters, networks, keys. A
shell runs the program for every word, with the words so far in its environment.
"""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

from forwarder.strategies import STRATEGIES
from testbed.layerings.registry import LAYERINGS
from testbed.library import scenarios, studies
from testbed.scenario import reference
from testbed.scenario.overrides import SHORT_KEYS
from topologies.library import networks

VARIABLE = "_FEEDNET_COMPLETE"
"""The shell's request, as defined by click."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete feednet's commands, options, scenarios, layerings and keys.

    \b
    bash:  echo 'eval "$(feednet completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(feednet completion zsh)"' >> ~/.zshrc
    fish:  feednet completion fish > ~/.config/fish/completions/feednet.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(click.get_current_context().find_root().command, {}, "feednet", VARIABLE).source())


def scenario(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a scenario, else a file."""
    return _starting(scenarios(), incomplete, or_file=True)


def study(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a study, else a file."""
    return _starting(studies(), incomplete, or_file=True)


def anything(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete what `feednet describe` explains: a scenario, a layering, a table or a key, else a file."""
    headings = [table.heading.strip("[]") for table in reference.tables() if table.heading]
    return _starting([*scenarios(), *LAYERINGS, *headings, *reference.entries()], incomplete, or_file=True)


def layering(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a layering."""
    return _starting(LAYERINGS, incomplete)


def network(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a network of the library, else a file."""
    return _starting(networks(), incomplete, or_file=True)


def strategy(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a forwarding strategy."""
    return _starting(sorted(STRATEGIES), incomplete)


def parameter(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete LAYERING.NAME= of --set."""
    return _starting([f"{name}=" for name in _parameters()], incomplete)


def axis(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete KEY= of --sweep."""
    short = [key for key in SHORT_KEYS if key.islower()]
    numbers = [key for key, entry in reference.entries().items() if "number" in entry.kind]
    own = [key for key in numbers if not key.startswith("parameters.") and key.split(".")[-1].islower()]
    keys = [key for key in (*short, *_parameters(), *own) if not {"NODE", "PREFIX"} & {*key.split(".")}]
    return _starting([f"{key}=" for key in keys], incomplete)


def _parameters() -> list[str]:
    return [
        entry.key.removeprefix("parameters.")
        for name in LAYERINGS
        for entry in reference.layering_entries(name)
    ]


def _starting(names: Iterable[str], incomplete: str, *, or_file: bool = False) -> list[CompletionItem]:
    found = [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]
    return found or ([CompletionItem(incomplete, type="file")] if or_file else [])
