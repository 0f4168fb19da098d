"""Endings: `feednet ssb end`, of a feed, and the feed that goes on in its place; `delete`, of a content."""

from pathlib import Path
from shlex import quote
from typing import Any

import click

from ssb.daemon.views import ABOUT
from ssb.detached import DETACHED
from ssb.ending import end_content
from ssb.graph import CONTACT
from ssb.suites.countersignature import MEMBER, succession
from ssb.uri import plain
from testbed.cli.console import say
from testbed.cli.nodes.ssb import Settings, commands_of
from testbed.cli.usage import exclude
from testbed.errors import UserError


@click.command()
@click.option(
    "--successor",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Account whose feed goes on in its place; one is made there if there is none.",
)
@click.option("--for-good", is_flag=True, help="No feed goes on in its place.")
@click.pass_obj
def end(settings: Settings, successor: Path | None, for_good: bool) -> None:
    """Write the last message of this feed. Nothing can be published after it, ever.

    A successor's key signs the message, too: peers that replicate this feed replicate the successor from
    then on. If the successor has a key of a second suite (`suite`), that key signs as well. The successor's
    feed repeats whom this feed follows and blocks, and the names that it has given, and this feed adds it to
    its private groups.
    Prints the message's id, and the successor. Keep this peer running until others have the message.
    """
    from ssb.daemon.account import SUITE_SECRET
    from ssb.suites.own_key import read_key

    exclude("successor", "for_good")
    successor = successor and successor.expanduser()
    if successor is None and not for_good:
        raise click.UsageError("give --successor DIRECTORY, or --for-good if no feed goes on in its place")
    if successor is not None and successor.resolve() == settings.path.resolve():
        raise UserError(f"{successor}: holds the feed that is to end; name another directory")
    if successor is not None and (settings.path / SUITE_SECRET).exists():
        _check_suite(successor / SUITE_SECRET)
    with commands_of(settings) as commands:
        feed = _open_feed(commands)
        options = {"id": feed, "type": DETACHED, "contents": True}
        states = {entry.get("state") for entry in commands.stream(["createLogStream"], [options])}
        heir, suite = None, {}
        if successor is not None:
            heir = _continue(successor, feed, _statements(commands, feed))
            # Stock peers do not know this type: they find the successor as a feed that this one follows.
            commands.answer(["publish"], [{"type": CONTACT, "contact": heir.ref, "following": True}])
            for group in commands.answer(["groups", "list"], []):
                if group["isMember"]:
                    commands.answer(["groups", "add"], [group["id"], [heir.ref], ""])
            key = read_key(successor / SUITE_SECRET)
            suite = {} if key is None else succession(feed, heir.ref, key)
        say(commands.answer(["publish"], [end_content(feed, heir) | suite])["key"])
    if heir is not None:
        say(heir.ref)
    if states - {None, "dropped"}:
        say("from now on, detached contents of this feed can be deleted only on this peer", err=True)


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
        say(asked["key"])
    elif state["id"] in state["ended"]:
        say("deleted only here: your feed has ended, so it can ask nobody else")
    else:
        say("deleted here")


def _continue(directory: Path, feed: str, statements: dict[tuple[str, str], dict[str, Any]]) -> Any:
    """Follow the ended feed from an account, and repeat its statements; return the account's identity."""
    from ssb import key_file

    with commands_of(Settings(directory, is_settled=False), begins=True) as commands:
        heir = _open_feed(commands)
        if heir == feed:
            raise UserError(f"{directory}: holds the feed that is to end; name another directory")
        known = _statements(commands, heir)
        statements = statements | {(CONTACT, feed): {"type": CONTACT, "contact": feed, "following": True}}
        if (ABOUT, feed) in statements:
            statements[ABOUT, heir] = statements.pop((ABOUT, feed)) | {"about": heir}
        statements.pop((CONTACT, heir), None)
        for subject, content in statements.items():
            if subject not in known:
                commands.answer(["publish"], [content])
    return key_file.read(directory / "secret")


def _check_suite(key: Path) -> None:
    """Refuse a successor without a second key: its messages would be less safe than those of this feed."""
    if not key.exists():
        raise UserError(
            f"{key.parent}: has no second key, and this feed has one; make one with "
            f"`feednet ssb --path {quote(str(key.parent))} suite`"
        )


def _open_feed(commands: Any) -> str:
    """Return the feed of an account, if messages can be published there."""
    state = commands.answer(["status"], [])
    if state["doubt"]:
        raise UserError(state["doubt"])
    feed: str = state["id"]
    if feed in state["ended"]:
        raise UserError(f"{feed} has ended already")
    return feed


def _statements(commands: Any, author: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what a feed says now of other feeds and of itself, by type and feed."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, field in ((CONTACT, "contact"), (ABOUT, "about")):
        for entry in commands.stream(["createLogStream"], [{"id": author, "type": kind}]):
            content = {name: value for name, value in entry["value"]["content"].items() if name != MEMBER}
            feed = content.get(field)
            if isinstance(feed, str) and feed.startswith("@"):
                before = found.get((kind, feed), {}) if kind == ABOUT else {}  # one message has one attribute
                found[kind, feed] = before | content
    return found
