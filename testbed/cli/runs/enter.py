"""`feednet exec` and `feednet shell`: a program on a node of a running Mininet network."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from testbed.errors import UserError
from testbed.experiment.control import command_on, connect_to_run


@click.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("node", metavar="NODE")
@click.argument("command", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(run: Path, node: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on a NODE of the RUN over Mininet that is going on in a directory.

    It finds the node's forwarder (NDN_CLIENT_TRANSPORT, and client.conf in a HOME of the node's own). The
    exit status is that of COMMAND; 127 if there is no such program.
    """
    _become(run, node, command, os.getcwd())


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("node", metavar="NODE")
def shell(run: Path, node: str) -> None:
    """Open a shell on a NODE of the RUN over Mininet that is going on in a directory, in the node's own HOME.

    `feednet run SCENARIO --net mininet --hold` keeps a run up until Ctrl-C.
    """
    os.environ["PS1"] = f"{node}:\\w\\$ "
    _become(run, node, ("bash", "--norc"), None)


def _become(run: Path, node: str, argv: Sequence[str], directory: str | None) -> None:
    """Replace this process by the program: terminal, signals and exit status are its own."""
    with connect_to_run(run) as client:
        words, environment = command_on(client, node, argv, directory)
    environment.pop("PYTHONSAFEPATH", None)  # ours; see main()
    try:
        os.execvpe(words[0], words, environment)
    except OSError as error:
        raise UserError(f"{words[0]}: {error.strerror}") from error
