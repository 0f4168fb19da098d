"""`feednet ssb group`: private groups, whose messages their members alone can read."""

import json

import click

from testbed.cli.console import say
from testbed.cli.nodes.ssb import Settings, body_of, commands_of
from testbed.cli.nodes.ssb_lines import label, limit_option, message_line, reference_of


@click.group()
def group() -> None:
    """Begin private groups, add and remove members, write and read.

    GROUP is the id that `create` and `list` print. Peers of ssb-tribes can be members.
    """


@group.command()
@click.pass_obj
def create(settings: Settings) -> None:
    """Begin a group; print its id, which tells strangers nothing."""
    with commands_of(settings, begins=True) as commands:
        say(commands.answer(["groups", "create"], []))


@group.command()
@click.argument("group")
@click.argument("feeds", nargs=-1, required=True, metavar="FEED...")
@click.option("--text", default="", show_default=False, help="A word of welcome, for the whole group.")
@click.pass_obj
def add(settings: Settings, group: str, feeds: tuple[str, ...], text: str) -> None:
    """Add FEEDs to GROUP: they can read it from its beginning, or since somebody was last removed."""
    members = [reference_of(feed) for feed in feeds]
    with commands_of(settings) as commands:
        commands.answer(["groups", "add"], [group, members, text])


@group.command()
@click.argument("group")
@click.argument("feeds", nargs=-1, required=True, metavar="FEED...")
@click.pass_obj
def remove(settings: Settings, group: str, feeds: tuple[str, ...]) -> None:
    """Remove FEEDs from GROUP: it goes on with a key that they do not get.

    They can still read earlier messages. Members who have not heard of the removal still write for them.
    """
    members = [reference_of(feed) for feed in feeds]
    with commands_of(settings) as commands:
        commands.answer(["groups", "remove"], [group, members])


@group.command()
@click.argument("group")
@click.argument("text", required=False)
@click.option("--content", metavar="JSON", help="The whole content, in place of a post with TEXT.")
@click.pass_obj
def post(settings: Settings, group: str, text: str | None, content: str | None) -> None:
    """Write to the members of GROUP. Prints the message's id."""
    body = body_of(text, content)
    with commands_of(settings) as commands:
        say(commands.answer(["groups", "post"], [group, body]))


@group.command()
@click.argument("group")
@limit_option
@click.option("--json", "as_json", is_flag=True, help="A line of JSON a message, with its plaintext.")
@click.pass_obj
def log(settings: Settings, group: str, limit: int, as_json: bool) -> None:
    """Show the newest messages of GROUP, in the order in which they came."""
    with commands_of(settings) as commands:
        for entry in commands.stream(["groups", "log"], [{"id": group, "limit": limit}]):
            if as_json:
                say(json.dumps(entry, ensure_ascii=False))
            else:
                say(message_line(entry["value"], entry["opened"], entry["name"]))


@group.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> None:
    """Show the groups whose keys are here, their members, and removed ones who still have the key."""
    with commands_of(settings) as commands:
        groups = commands.answer(["groups", "list"], [])
    for one in groups:
        if as_json:
            say(json.dumps(one))
            continue
        state = _number(len(one["members"]), "member") if one["isMember"] else "no member any more"
        say(f"{one['id']}  {state}, {_number(one['messages'], 'message')}")
        for feed in one["members"]:
            say(f"  member     {label(feed, one['names'])}")
        for feed in sorted({*one["readers"]} - {*one["members"]}):
            say(f"  still reads {label(feed, one['names'])}: removed, until somebody writes here")
        for epoch in one["epochs"][1:]:
            say(f"  also named {epoch}")


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
