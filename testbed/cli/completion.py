"""`feednet completion SHELL`: completion of command lines in bash, zsh and fish.

click completes commands and options; here are scenarios, layerings and their parameters, networks, keys. A
shell runs the program for every word, with the words so far in its environment.
"""

from collections.abc import Callable, Iterable

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


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(names: Callable[[], Iterable[str]], *, or_file: bool = False) -> Completer:
    """Return what completes one of some names, which are looked up when a word is completed; else a file."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in dict.fromkeys(names()) if name.startswith(incomplete)]
        return found or ([CompletionItem(incomplete, type="file")] if or_file else [])

    return complete


def _explained() -> list[str]:
    """Return what `feednet describe` explains: scenarios, layerings, tables and keys."""
    headings = [table.heading.strip("[]") for table in reference.tables() if table.heading]
    return [*scenarios(), *LAYERINGS, *headings, *reference.entries()]


def _parameters() -> list[str]:
    return [
        entry.key.removeprefix("parameters.")
        for name in LAYERINGS
        for entry in reference.layering_entries(name)
    ]


def _axes() -> list[str]:
    """Return the keys of --sweep."""
    short = [key for key in SHORT_KEYS if key.islower()]
    numbers = [key for key, entry in reference.entries().items() if "number" in entry.kind]
    own = [key for key in numbers if not key.startswith("parameters.") and key.split(".")[-1].islower()]
    return [key for key in (*short, *_parameters(), *own) if not {"NODE", "PREFIX"} & {*key.split(".")}]


scenario = _completer(scenarios, or_file=True)
study = _completer(studies, or_file=True)
anything = _completer(_explained, or_file=True)
layering = _completer(lambda: LAYERINGS)
network = _completer(networks, or_file=True)
strategy = _completer(lambda: sorted(STRATEGIES))
parameter = _completer(lambda: [f"{name}=" for name in _parameters()])
axis = _completer(lambda: [f"{key}=" for key in _axes()])
