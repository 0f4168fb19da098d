"""`feednet ssb pubs`, `rooms` and `alias`: peers through which others are met."""

import json
import time
from typing import Any

import click

from ssb.daemon.views import shown
from testbed.cli.nodes.ssb import Settings, commands_of
from testbed.cli.nodes.ssb_lines import label, reference_of
from testbed.errors import UserError

_PATIENCE_S = 10.0
_PAUSE_S = 0.1


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
        click.echo(json.dumps(row, ensure_ascii=False) if as_json else _pub_line(row))


def _pub_line(row: dict[str, object]) -> str:
    state = "connected" if row["connected"] else row["trouble"] or "not connected"
    logs = "1 log" if row["authors"] == 1 else f"{row['authors']} logs"
    name = row["name"] if isinstance(row["name"], str) else None
    return f"{label(str(row['pub']), {str(row['pub']): name})}  {row['address']}, in {logs}, {state}"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def rooms(settings: Settings, as_json: bool) -> None:
    """Show the rooms that the running peer visits, and who is there.

    `feednet ssb connect` leads into an open room, `feednet ssb invite accept` into one for members.
    """
    with commands_of(settings) as commands:
        state = commands.answer(["rooms"], [])
    if as_json:
        click.echo(json.dumps(state, ensure_ascii=False))
        return
    if state["own"] is not None:
        own = state["own"]
        click.echo(f"this room  attendants: {len(own['attendants'])}, tunnels: {own['tunnels']}")
    for room in state["visited"]:
        member = "" if room["member"] else ", of which this peer is no member"
        click.echo(f"room       {room['room']}{shown(room['name'] or None)}{member}")
        for one in room["attendants"]:
            how = "connected through the room" if one["tunnelled"] else "connected"
            click.echo(
                f"there      {label(one['peer'], {one['peer']: one['name']})}"
                f"{', ' + how if one['connected'] else ''}"
            )


@click.command()
@click.argument("name")
@click.option("--room", metavar="FEED", help="The room; needless if the peer visits one only.")
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
        answer = _answered(commands, call, [reference_of(room, "--room: "), name])
    if not revoke:
        click.echo(answer)


def _answered(commands: Any, call: list[str], arguments: list[str]) -> Any:
    """Return a room's answer; raise UserError if it does not come."""
    ends = time.monotonic() + _PATIENCE_S
    while (answer := commands.answer(call, arguments)) is None:
        if time.monotonic() >= ends:
            raise UserError("the room does not answer")
        time.sleep(_PAUSE_S)
    return answer
