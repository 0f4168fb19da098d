"""`feednet ssb check`: integrity of a peer's store; `suite`, `notarise` and `vouched`: that of logs when the
classic hash or signature breaks.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from testbed.cli.nodes.ssb import Settings, commands_of
from testbed.cli.nodes.ssb_lines import numbers_text, reference_of, when
from testbed.errors import UserError


@click.command()
@click.pass_obj
def check(settings: Settings) -> None:
    """Read all messages and blobs, and find those that are damaged.

    A damaged message is fetched anew from other peers while this one runs, and so is a blob when it is
    wanted. If the file of messages is damaged beyond that, it is written anew with all that is whole, and the
    damaged one is kept.
    """
    from ssb.daemon.account import STORE
    from ssb.daemon.running import RunningPeer
    from ssb.store.mend import check_file

    store = settings.path / STORE
    if not store.exists():
        raise UserError(f"{store}: no such file: there are no messages to check")
    try:
        running = RunningPeer(settings.path)
    except ConnectionError:
        checked = check_file(store)
        blobs, branches = _check_blobs(settings.path), _check_branches(settings.path)
    else:
        with closing(running):
            checked, blobs, branches = check_file(store, read_only=True), 0, 0
            places = [[feed, number] for feed, numbers in checked.damaged.items() for number in numbers]
            running.answer(["check"], [places])
        click.echo("the peer is running: blobs and other branches of merged feeds are not checked")
    click.echo(f"{checked.messages:,} {'message is' if checked.messages == 1 else 'messages are'} whole")
    if checked.kept is not None:
        click.echo(f"{store} was damaged and is written anew; the damaged file is {checked.kept}")
    for feed, numbers in sorted(checked.damaged.items()):
        click.echo(f"damaged      {numbers_text(numbers)} of {feed}")
    damaged = sum(map(len, checked.damaged.values()))
    if damaged or blobs or branches:
        found = [_counted(damaged, "message")] if damaged else []
        found += [_counted(blobs, "blob")] if blobs else []
        found += [_counted(branches, "message") + " of other branches"] if branches else []
        raise UserError(f"damaged: {' and '.join(found)}; run the peer, so that others send them again")


@click.command()
@click.option(
    "--anew",
    is_flag=True,
    help="Count all messages of your feed here as yours, also those that came from others. If the second key "
    "is lost, make another.",
)
@click.pass_obj
def suite(settings: Settings, *, anew: bool) -> None:
    """Make a key of a second suite (Ed448 and BLAKE2b), which countersigns all further messages.

    Prints the key; the log declares it. Others who know the key can tell your messages from forged ones even
    when Ed25519 or SHA-256 is broken. The key vouches for the messages that your feed has now, and for those
    that are written here. It is in the file `secret.ed448`: keep a copy of it.
    """
    with commands_of(settings, begins=True) as commands:
        click.echo(commands.answer(["suites", "begin"], [{"anew": anew}])["key"])


@click.command()
@click.argument("feeds", nargs=-1, required=True, metavar="FEED...")
@click.pass_obj
def notarise(settings: Settings, feeds: Sequence[str]) -> None:
    """Publish, with today's date, the hash of all messages of each FEED that are here.

    Readers who trust your second key (`suite`) can take these messages as genuine after a break.
    """
    with commands_of(settings) as commands:
        for feed in [reference_of(text) for text in feeds]:
            answer = commands.answer(["suites", "notarise"], [feed])
            click.echo(f"{answer['key']}  messages 1 to {answer['sequence']} of {feed}")


@click.command()
@click.argument("feed")
@click.option(
    "--broken",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    required=True,
    help="When the classic hash or signature broke, UTC: what was notarised later proves nothing.",
)
@click.option("--notary", "notaries", multiple=True, metavar="KEY", help="A notary's key (repeatable).")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="The author's second key, if you are sure (repeatable).",
)
@click.pass_obj
def vouched(
    settings: Settings, feed: str, broken: datetime, notaries: Sequence[str], keys: Sequence[str]
) -> None:
    """Say which messages of FEED are genuine, though anybody could have signed them since the break.

    A message is genuine if a notary published its hash before the break, or if the author has countersigned
    it. Exit status 1 if others are here, if messages are missing, or if a notary contradicts the log.
    """
    if not notaries and not keys:
        raise click.UsageError("give --notary KEY, or the author's --key KEY: nothing else proves anything")
    feed = reference_of(feed)
    options: dict[str, Any] = {"id": feed, "broken": broken.replace(tzinfo=UTC).timestamp() * 1000}
    with commands_of(settings) as commands:
        found = commands.answer(["suites", "vouched"], [options | {"notaries": [*notaries], "keys": [*keys]}])
    last, total, by = (found[name] for name in ("vouched", "messages", "notarised"))
    if last:
        said = "countersigned by the author" if by is None else _notarised(by)
        click.echo(f"vouched for  messages 1 to {last} of {total}: {said}")
    if found["key"] is not None:
        click.echo(f"goes on as   {found['successor']}, with the key {found['key']}")
    problems = [*_problems(found)]
    for word, text in problems:
        click.echo(f"{word:<11}  {text}")
    if last < total:
        raise UserError(f"messages {last + 1} to {total} of {feed} may be forged: nothing vouches for them")
    if problems:
        raise UserError(f"{feed}: not all statements about it agree with the {total} messages here")


def _problems(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each contradiction and gap of a log, as a word and a text."""
    if (disputed := found["disputed"]) is not None:
        yield "disputed", f"messages 1 to {disputed['sequence']} are not those {_notarised(disputed)}"
    if (beyond := found["beyond"]) is not None:
        yield (
            "missing",
            f"messages 1 to {beyond['sequence']} were {_notarised(beyond)}; {found['messages']} are here",
        )
    if found["read"] < found["messages"]:
        yield "damaged", f"message {found['read'] + 1}: run the peer, so that others send it again"


def _notarised(statement: dict[str, Any]) -> str:
    return f"notarised on {when(statement['date'])} by {statement['notary']}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number > 1 else ''}"


def _check_blobs(path: Path) -> int:
    """Delete damaged blobs; return their number."""
    from ssb.store.blobs import DirectoryBlobs

    if not (path / "blobs").exists():
        return 0
    with DirectoryBlobs(path / "blobs") as blobs:
        return sum(blobs.remove(blob) for blob in list(blobs.damaged()))


def _check_branches(path: Path) -> int:
    """Read the other branches of merged feeds, and delete damaged messages; return their number."""
    from ssb.branches.store import BRANCHES_FILE, BranchTable

    if not (path / BRANCHES_FILE).exists():
        return 0
    with closing(BranchTable(path / BRANCHES_FILE, None)) as table:
        return table.check()
