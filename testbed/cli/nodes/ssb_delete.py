"""`feednet ssb delete`: the content of a detached message."""

import click

from ssb.uri import plain
from testbed.cli.nodes.ssb import Settings, commands_of


@click.command()
@click.argument("message")
@click.pass_obj
def delete(settings: Settings, message: str) -> None:
    """Delete the content of MESSAGE (%...=.sha256), which was published with --detached.

    If MESSAGE is your own, this asks all others to delete the content, too, and prints the request's id.
    Peers of feednet obey; nobody can force others to. Another's content is deleted on this peer only, and so
    is your own once your feed has ended. The log stays whole, as it has only hashes of such contents.
    """
    with commands_of(settings) as commands:
        asked = commands.answer(["detached", "delete"], [plain(message)])
        state = commands.answer(["status"], []) if asked is None else {}
    if asked is not None:
        click.echo(asked["key"])
    elif state["id"] in state["ended"]:
        click.echo("deleted only here: your feed has ended, so it can ask nobody else")
    else:
        click.echo("deleted here")
