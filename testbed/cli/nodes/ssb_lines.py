"""Formatting of `feednet ssb`: feeds and messages for people."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from ssb.applications.fusion import ENTRUST, FUSION
from ssb.daemon.views import shown
from ssb.groups.epoch import ADD, EXCLUDE, INIT
from ssb.keys import InvalidRef, is_feed, parse_feed
from ssb.tiny.daemon.texts import printable
from ssb.uri import plain
from testbed.errors import UserError

_MOST_SHOWN = 5
_OF_GROUPS = (INIT, ADD, EXCLUDE)


def reference_of(text: str, place: str = "") -> str:
    """Return the reference of a feed given by a user, possibly as an SSB URI; raise UserError.

    `place` is the argument's name, for the error.
    """
    feed = plain(text)
    try:
        parse_feed(feed)
    except InvalidRef as error:
        raise UserError(f"{place}{text}: {error}") from None
    return feed


def label(feed: str, names: Mapping[str, str | None]) -> str:
    """Return a feed as users see it, with its name if it has one."""
    return f"{feed}{shown(names.get(feed))}"


def numbers_text(numbers: Sequence[int]) -> str:
    """Return a list of messages in words: "message 7", or "messages 7, 9 and 12 more"."""
    first = ", ".join(map(str, numbers[:_MOST_SHOWN]))
    more = f" and {len(numbers) - _MOST_SHOWN:,} more" if len(numbers) > _MOST_SHOWN else ""
    return f"message{'s' if len(numbers) > 1 else ''} {first}{more}"


def branches_text(merged: Mapping[str, Any]) -> str:
    """Return what is known of the branches of a feed that is merged, in words."""
    if merged["fork"] is None:
        return "not forked"
    if merged["overgrown"]:
        return f"overgrown with {merged['branches']} branches; ignored from message {merged['fork']} on"
    return f"{merged['branches']} branches from message {merged['fork']} on, {merged['messages']:,} messages"


def detached_text(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is shown of an entry of the log in place of a detached message; None for any other."""
    if "state" not in entry:
        return None
    if entry["state"] == "present":
        content: dict[str, Any] = entry["detached"]
        return content
    named = entry["value"]["content"]
    why = "is deleted" if entry["state"] == "dropped" else "has not come yet"
    return {"type": "post", "text": f"(the content, a {printable(named['of'])}, {why})"}


def when(ms: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a time, ms since 1970, as a date in UTC; the number itself if it is outside the calendar, as
    authors may sign any number.
    """
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return f"{ms:g} ms"


limit_option = click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    default=20,
    help="Newest messages at most.",
)


def message_line(value: dict[str, Any], said: dict[str, Any] | None, name: str | None) -> str:
    """Return a message as a line for people."""
    time = when(value["timestamp"])
    content = said if said is not None else value["content"]
    if isinstance(content, str):
        text = "(private, for others)"
    elif content.get("type") == "post":
        text = str(content.get("text", ""))
    elif content.get("type") in _OF_GROUPS:
        text = _group_text(content)
    elif content.get("type") in (FUSION, ENTRUST):
        text = _device_text(content)
    else:
        text = json.dumps(content, ensure_ascii=False)
    mark = "  (private)" if said is not None else ""
    who = f"{value['author'][:9]}…{shown(name)}"
    one_line = text.replace("\n", " ")
    return f"{time}  {who} {value['sequence']:>5}{mark}  {one_line}"


def _device_text(content: dict[str, Any]) -> str:
    """Return a message about the devices of an identity in words, without the secret key."""
    if "tombstone" in content:
        return "(ends the identity of several devices)"
    if content["type"] == ENTRUST:
        return "(hands on the key of an identity)"
    invited, consented = content.get("invited"), content.get("consented")
    if isinstance(invited, dict):
        feeds = ", ".join(filter(is_feed, invited))  # a stranger may have written any text
        return f"(invites {feeds or 'nobody'} to one identity)"
    if isinstance(consented, dict):
        return "(consents to be one identity)" if 1 in consented.values() else "(declines to be one identity)"
    return "(begins an identity)" if content.get("subtype") == "fusion/init" else "(is one identity's device)"


def _group_text(content: dict[str, Any]) -> str:
    """Return a message about a group in words, without the group's key."""
    kind, recipients, excluded = (content.get(name) for name in ("type", "recps", "excludes"))
    if kind == ADD:
        feeds = recipients[1:] if isinstance(recipients, list) else []
        said = content.get("text")
        return f"(adds {', '.join(map(str, feeds))}){f' {said}' if said else ''}"
    if kind == EXCLUDE:
        return f"(removes {', '.join(map(str, excluded if isinstance(excluded, list) else []))})"
    return "(goes on with a new key)" if content.get("version") else "(begins a group)"
