"""`feednet ssb pubs`, `rooms` and `alias`: peers through which others are met."""

import json
from typing import Any

import click

from ssb.daemon.views import shown
from testbed.cli.console import say
from testbed.cli.nodes.ssb import Settings, awaited, commands_of
from testbed.cli.nodes.ssb_lines import reference_of
from testbed.errors import UserError

_PATIENCE_S = 10.0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def pubs(settings: Settings, as_json: bool) -> None:
    """Show the pubs whose addresses are in the logs here, those named most often first.

    A running peer calls the first fifty in turn.
    """
    with commands_of(settings) as commands:
        rows = commands.answer(["pubs"], [])
    for row in rows:
        say(json.dumps(row, ensure_ascii=False) if as_json else _pub_line(row))


def _pub_line(row: dict[str, Any]) -> str:
    state = "connected" if row["connected"] else row["trouble"] or "not connected"
    logs = "1 log" if row["authors"] == 1 else f"{row['authors']} logs"
    return f"{row['pub']}{shown(row['name'])}  {row['address']}, in {logs}, {state}"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def rooms(settings: Settings, as_json: bool) -> None:
    """Show the rooms that the running peer visits, and who is there.

    Enter an open room by `feednet ssb connect`, and one for members by `feednet ssb invite accept`.
    """
    with commands_of(settings) as commands:
        state = commands.answer(["rooms"], [])
    if as_json:
        say(json.dumps(state, ensure_ascii=False))
        return
    if state["own"] is not None:
        own = state["own"]
        say(f"this room  attendants: {len(own['attendants'])}, tunnels: {own['tunnels']}")
    for room in state["visited"]:
        member = "" if room["member"] else ", of which this peer is no member"
        say(f"room       {room['room']}{shown(room['name'] or None)}{member}")
        for one in room["attendants"]:
            how = "connected through the room" if one["tunnelled"] else "connected"
            say(f"there      {one['peer']}{shown(one['name'])}{', ' + how if one['connected'] else ''}")


@click.command()
@click.argument("name")
@click.option("--room", metavar="FEED", help="The room; not needed if the peer visits only one.")
@click.option("--revoke", is_flag=True, help="Give the alias up.")
@click.pass_obj
def alias(settings: Settings, name: str, room: str | None, revoke: bool) -> None:
    """Be known in a room by the alias NAME; prints a URI for others, who give it to `feednet ssb connect`."""
    with commands_of(settings) as commands:
        if room is None:
            visited = [each["room"] for each in commands.answer(["rooms"], [])["visited"]]
            if len(visited) != 1:
                raise UserError(f"the peer visits {len(visited)} rooms: name one with --room")
            [room] = visited
        call = ["room", "revokeAlias" if revoke else "registerAlias"]
        arguments = [reference_of(room, "--room: "), name]
        answer = awaited(commands, call, arguments, _PATIENCE_S, "the room does not answer")
    if not revoke:
        say(answer)
