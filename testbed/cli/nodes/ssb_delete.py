"""`feednet ssb delete`: the content of a detached message."""

import click

from ssb.uri import plain
from testbed.cli.nodes.ssb import Settings, commands_of


@click.command()
@click.argument("message")
@click.pass_obj
def delete(settings: Settings, message: str) -> None:
    """Delete the content of MESSAGE (%...=.sha256), which was published with --detached.

    Of a message of one's own, it asks all others to delete it, too, and prints the request's id. Peers of
    feednet obey; nobody can force others to. Another's content is deleted on this peer only. The log stays
    whole, as it has only hashes of such contents.
    """
    with commands_of(settings) as commands:
        asked = commands.answer(["detached", "delete"], [plain(message)])
    click.echo("deleted here" if asked is None else asked["key"])
