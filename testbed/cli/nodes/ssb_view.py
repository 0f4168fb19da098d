"""`feednet ssb log` and `get`, messages as they are, alone or in their thread; `links`, the messages that
link to something; and `view`, what applications make of messages.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from ssb.applications.catalogue import APPLICATIONS, Application
from ssb.applications.causality import CausalOrder
from ssb.applications.tangles import Completion, Tangle, Threads
from ssb.daemon.commands import CommandError
from ssb.keys import InvalidRef, parse_message
from ssb.message import Message
from ssb.tiny.daemon.texts import printable
from ssb.uri import plain
from testbed.cli.console import say
from testbed.cli.nodes.ssb import Settings, awaited, commands_of
from testbed.cli.nodes.ssb_lines import (
    detached_text,
    label,
    limit_option,
    message_line,
    reference_of,
    when,
)
from testbed.cli.options import Number
from testbed.cli.usage import exclude, require
from testbed.errors import UserError, as_user_error

Name = Callable[[str], str]

_LONGEST = 60
_MOST_NAMED = 3
_PAUSE_S = 0.25
_TO_THE_MINUTE = "%Y-%m-%d %H:%M"


@click.command()
@click.argument("feed", required=False)
@limit_option
@click.option("--all", "is_whole", is_flag=True, help="All messages.")
@click.option("--type", "kind", help="Messages of one type only, such as post or contact.")
@click.option(
    "--causal", is_flag=True, help="In causal order: each message after those whose hashes it contains."
)
@click.option(
    "--before", metavar="MESSAGE", help="In causal order, only messages that are older than this one."
)
@click.option(
    "--after", metavar="MESSAGE", help="In causal order, only messages that are newer than this one."
)
@click.option("--devices", is_flag=True, help="Of all devices of FEED's identity.")
@click.option("--json", "as_json", is_flag=True, help="An export: a line of JSON a message.")
@click.pass_obj
def log(
    settings: Settings,
    feed: str | None,
    limit: int,
    is_whole: bool,
    kind: str | None,
    causal: bool,
    before: str | None,
    after: str | None,
    devices: bool,
    as_json: bool,
) -> None:
    """Show the newest messages, of FEED or of all feeds, in the order in which they came.

    In causal order peers with the same messages show the same. All messages are read for it.
    """
    author = feed and reference_of(feed)
    is_causal = causal or before is not None or after is not None
    require("devices", "feed")
    exclude("devices", "causal", "before", "after")
    options: dict[str, Any] = {} if as_json else {"names": True, "contents": True, "private": True}
    if not is_causal:
        chosen = {
            "limit": None if is_whole else limit,
            "id": author,
            "type": kind,
            "devices": devices or None,
        }
        options |= {name: value for name, value in chosen.items() if value is not None}
    with commands_of(settings) as commands:
        entries = commands.stream(["createLogStream"], [options])
        if is_causal:
            ordered = _in_causal_order(entries, before, after)
            wanted = [each for each in ordered if _is_of(each["value"], author, kind)]
            entries = iter(wanted if is_whole else wanted[-limit:])
        for entry in entries:
            if as_json:
                say(json.dumps(entry, ensure_ascii=False))
                continue
            value = entry["value"]
            value["content"] = detached_text(entry) or value["content"]
            say(message_line(value, entry.get("opened"), entry.get("name")))


def _in_causal_order(
    entries: Iterable[dict[str, Any]], before: str | None, after: str | None
) -> list[dict[str, Any]]:
    """Return the entries of all messages in causal order; of them only those before and after a message.

    Raises UserError if such a message is not here.
    """
    here = {entry["key"]: entry for entry in entries}
    order = CausalOrder(Message.from_value(entry["value"]) for entry in here.values())
    wanted = {*here}
    for option, text, query in (("--before", before, order.before), ("--after", after, order.after)):
        if text is not None:
            id_ = plain(text)
            if id_ not in order:
                raise UserError(
                    f"{option}: {text}: no message here has this id; `feednet ssb get` fetches one"
                )
            wanted &= query(id_)
    return [here[id_] for id_ in order.order() if id_ in wanted]


def _is_of(value: dict[str, Any], author: str | None, kind: str | None) -> bool:
    """Return whether a message is of an author, and of a type, if they are given."""
    content = value["content"]
    type_ = content.get("type") if isinstance(content, dict) else None
    return author in (None, value["author"]) and kind in (None, type_)


@click.command()
@click.argument("message")
@click.option("--wait", "patience", type=Number(0, 3600), default=10.0, help="Seconds.")
@click.option("--thread", is_flag=True, help="Also the posts that answer it.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def get(settings: Settings, message: str, patience: float, thread: bool, as_json: bool) -> None:
    """Show a message by its id (%...=.sha256), wherever its feed is.

    If it is not here, the running peer asks those that it is connected with, and these ask others, three hops
    far. The message is what its author has signed. Its place in the author's feed is not checked. With
    --thread the peer also asks for posts that others of the thread name, up to a hundred.
    """
    message = plain(message)
    with commands_of(settings) as commands:
        if thread:
            values = _thread(commands, message, patience)
        else:
            missing = f"{message}: no peer has sent it; the running peer keeps asking"
            values = [awaited(commands, ["get"], [message], patience, missing)]
    for each in values:
        say(json.dumps(each, ensure_ascii=False) if as_json else message_line(each, None, None))


def _thread(commands: Any, root: str, patience: float) -> list[dict[str, Any]]:
    """Return a message and the posts that answer it, in causal order; say which are missing."""
    with as_user_error(InvalidRef):
        parse_message(root)
    tangle = Tangle(root)
    for entry in commands.stream(["links"], [{"dest": root, "rel": "root", "values": True}]):
        if entry["value"]["content"].get("type") == "post":
            tangle.add(Message.from_value(entry["value"]))
    _complete(commands, [tangle], patience)
    if not tangle.order:
        raise UserError(f"{root}: neither the message nor an answer to it is here")
    return [json.loads(message.text) for message in tangle.order]


def _complete(commands: Any, tangles: Sequence[Tangle], patience: float) -> None:
    """Fetch the messages that tangles lack, and say which nobody has sent.

    Messages from the fork of their feed on are ignored, as everywhere.
    """
    unasked = ""
    ignored: set[str] = set()

    def fetched(id_: str) -> Message | None:
        nonlocal unasked
        if id_ in ignored:
            return None
        try:
            value = commands.answer(["get"], [id_ if patience else {"id": id_, "ooo": False}])
        except CommandError as error:
            unasked = str(error)
            return None
        first = None if value is None else commands.answer(["forks"], []).get(value["author"])
        if first is not None and value["sequence"] >= first:
            ignored.add(id_)
            return None
        return None if value is None else Message.from_value(value)

    completion = Completion(tangles, fetched)
    ends = time.monotonic() + patience
    while (
        (missing := [id_ for id_ in completion.proceed() if id_ not in ignored])
        and not unasked
        and time.monotonic() < ends
    ):
        time.sleep(_PAUSE_S)
    if ignored and patience:
        say(f"left out: {_list_of([*ignored])}: their feeds are forked before them", err=True)
    if missing and patience:
        why = unasked or f"no peer has sent them in {patience:g} s; the running peer keeps asking"
        say(f"missing: {_list_of(missing)}: {why}", err=True)


def _list_of(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return f"{', '.join(ids[:_MOST_NAMED])}{more}"


@click.command()
@click.argument("reference")
@click.option("--rel", help="Only links of this relation: root, branch, vote, mentions, contact, about, ...")
@limit_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def links(settings: Settings, reference: str, rel: str | None, limit: int, as_json: bool) -> None:
    """Show the messages here that link to a message, a feed or a blob, and by which relation.

    Private messages have no links.
    """
    asked = {"dest": plain(reference), "rel": rel, "values": True}
    with commands_of(settings) as commands:
        found = list(commands.stream(["links"], [asked]))
    newest = sorted(found, key=lambda each: each["value"]["timestamp"])[-limit:]
    for each in newest:
        line = f"{printable(each['rel']):<10} {message_line(each['value'], None, None)}"
        say(json.dumps(each, ensure_ascii=False) if as_json else line)


@click.command()
@click.argument("what", type=click.Choice([*APPLICATIONS]))
@click.option(
    "--wait",
    "patience",
    type=Number(0, 3600),
    default=0.0,
    help="Seconds to ask other peers for posts that threads name and that are not here.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def view(settings: Settings, what: str, patience: float, as_json: bool) -> None:
    """Show threads of posts, liked messages, gatherings or games of chess.

    Each is computed anew from the messages here, in whatever order they came: peers with the same messages
    see the same. With --wait the running peer asks others for posts of threads, up to a hundred, those of the
    newest threads first.
    """
    if patience and what != "threads":
        raise click.UsageError("--wait is for threads")
    application = APPLICATIONS[what]
    names: dict[str, str | None] = {}
    with commands_of(settings) as commands:
        state = _state(commands, application, names)
        if isinstance(state, Threads):
            newest = sorted(
                state.tangles.values(), key=lambda each: -max(one.timestamp for one in each.order)
            )
            _complete(commands, newest, patience)
    for row in application.rows(state):
        line = _LINES[what](row, lambda feed: label(feed, names))
        say(json.dumps(row, ensure_ascii=False) if as_json else line)


def _state(commands: Any, application: Application, names: dict[str, str | None]) -> Any:
    """Return an application's state by the messages here; `names` gets those of their authors."""
    state = application.state()
    for type_ in application.types:
        for entry in commands.stream(["createLogStream"], [{"type": type_, "names": True}]):
            message = Message.from_value(entry["value"])
            names[message.author] = entry.get("name")
            state.add(message)
    return state


def _thread_line(row: dict[str, Any], name: Name) -> str:
    text = row["text"].replace("\n", " ")[:_LONGEST] if row["text"] else "(its first post is not here)"
    return f"{row['posts']:>4} posts, the last {when(row['last'], _TO_THE_MINUTE)}  {row['root']}  {text}"


def _gathering_line(row: dict[str, Any], name: Name) -> str:
    start = "" if row["start"] is None else f", {when(row['start'], _TO_THE_MINUTE)}"
    place = f", {row['location']}" if row["location"] else ""
    who = f"{len(row['attendees'])} attend"
    return f"{row['title'] or '(no title)'}{start}{place}, host {name(row['host'])}, {who}  {row['id']}"


def _chess_line(row: dict[str, Any], name: Name) -> str:
    state = row["end"] or ("goes on" if row["is_accepted"] else "not accepted")
    if row["winner"]:
        state += f", won by {name(row['winner'])}"
    late = f" ({row['waiting']} more wait for one that is not here)" if row["waiting"] else ""
    moves = f"{len(row['moves'])} moves{late}"
    return f"{name(row['white'])} - {name(row['black'])}: {moves}, {state}  {' '.join(row['moves'])}"


_LINES: dict[str, Callable[[dict[str, Any], Name], str]] = {
    "threads": _thread_line,
    "likes": lambda row, name: f"{row['likes']:>5}  {row['message']}",
    "gatherings": _gathering_line,
    "chess": _chess_line,
}
"""The line of a row for people, given a feed's label."""
