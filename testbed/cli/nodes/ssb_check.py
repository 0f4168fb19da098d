"""`feednet ssb check`: integrity of a peer's store."""

from contextlib import closing
from pathlib import Path

import click

from testbed.cli.nodes.ssb import Settings
from testbed.cli.nodes.ssb_lines import numbers_text
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
        blobs = _check_blobs(settings.path)
    else:
        with closing(running):
            checked, blobs = check_file(store, read_only=True), 0
            places = [[feed, number] for feed, numbers in checked.damaged.items() for number in numbers]
            running.answer(["check"], [places])
        click.echo("the peer is running: blobs are not checked")
    click.echo(f"{checked.messages:,} {'message is' if checked.messages == 1 else 'messages are'} whole")
    if checked.kept is not None:
        click.echo(f"{store} was damaged and is written anew; the damaged file is {checked.kept}")
    for feed, numbers in sorted(checked.damaged.items()):
        click.echo(f"damaged      {numbers_text(numbers)} of {feed}")
    damaged = sum(map(len, checked.damaged.values()))
    if damaged or blobs:
        found = [_counted(damaged, "message")] if damaged else []
        found += [_counted(blobs, "blob")] if blobs else []
        raise UserError(f"damaged: {' and '.join(found)}; run the peer, so that others send them again")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number > 1 else ''}"


def _check_blobs(path: Path) -> int:
    """Delete damaged blobs; return their number."""
    from ssb.store.blobs import DirectoryBlobs

    if not (path / "blobs").exists():
        return 0
    with DirectoryBlobs(path / "blobs") as blobs:
        return sum(blobs.remove(blob) for blob in list(blobs.damaged()))
