"""`feednet ssb export` and `import`: messages between programs, or machines."""

import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.console import say
from testbed.cli.nodes.ssb import Settings, commands_of
from testbed.cli.nodes.ssb_lines import reference_of
from testbed.errors import UserError, as_user_error

if TYPE_CHECKING:
    from ssb.daemon.account import Account


@click.command()
@click.argument("feed", required=False)
@click.pass_obj
def export(settings: Settings, feed: str | None) -> None:
    """Print all messages, or those of FEED, a line each, as `import` and other programs read them.

    The lines are those of `ssb-server log`.
    """
    from ssb.canonical import stringify

    options = {} if feed is None else {"id": reference_of(feed)}
    with commands_of(settings) as commands:
        for entry in commands.stream(["createLogStream"], [options]):
            click.echo(stringify(entry, indent=0))


@click.command("import")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.pass_obj
def import_(settings: Settings, source: Path) -> None:
    """Take in the messages of SOURCE: a stock peer's directory (~/.ssb), or a file of lines from `export`.

    Of a directory the identity is taken, too, where there is none yet. Do not start its own program again.
    """
    from ssb.daemon.account import Account
    from ssb.daemon.importing import import_directory, import_lines
    from ssb.export import InvalidExport

    now_ms = time.time_ns() // 1_000_000
    if source.is_dir():
        account, take = _account_for(settings, source), import_directory
    else:
        account, take = Account(settings.path), import_lines
    with as_user_error(InvalidExport), closing(account):
        done = take(account, source, now_ms)
    say(f"new          {done.messages:,} messages; {done.blobs:,} blobs")
    say(f"identity     {account.identity.ref}, {done.own:,} messages of its own")
    for feed, reason in done.refused.items():
        say(f"cut short    {feed}: {reason}")
    for what, count in done.skipped.items():
        say(f"not taken    {count:,} x {what}")
    if account.own.doubt:
        say(f"in doubt     {account.own.why()}")


def _account_for(settings: Settings, source: Path) -> "Account":
    """Open the account of the identity in a stock peer's directory."""
    from ssb import key_file
    from ssb.daemon.account import Account
    from ssb.daemon.running import RunningPeer
    from ssb.daemon.stock import stock_logs

    if not stock_logs(source):
        raise UserError(
            f"{source}: no stock peer has its messages here: no flume/log.offset, no db2/log.bipf"
        )
    with suppress(ConnectionError):
        RunningPeer(source).close()
        raise UserError(f"{source}: a peer is running there; stop it first, and do not start it again")
    return Account(settings.path, identity=key_file.read(source / "secret"))
