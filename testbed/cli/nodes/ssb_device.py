"""`feednet ssb device`: several devices of one person, each with a feed of its own, as one identity; and
`merge`, for a feed that several devices write with one key.
"""

import json

import click

from testbed.cli.nodes.ssb import Settings, commands_of
from testbed.cli.nodes.ssb_lines import branches_text, label, reference_of
from testbed.cli.usage import require
from testbed.errors import UserError

_JOINED = {
    "member": "this device is one of the identity's already",
    "consented": "consented: this device becomes a member when FEED's peer has answered",
    "declined": "declined",
}


@click.group()
def device() -> None:
    """Use Scuttlebutt on several devices, each with a feed of its own, as one identity.

    Who follows one of the devices replicates all, and sees one name. A block of one is a block of all.
    Never copy an identity to a second device: two devices with one key fork their feed.
    """


@device.command()
@click.argument("feed")
@click.pass_obj
def invite(settings: Settings, feed: str) -> None:
    """Invite the device with FEED to be one identity with this one, and follow it.

    Run `join` there.
    """
    feed = reference_of(feed)
    with commands_of(settings, begins=True) as commands:
        click.echo(commands.answer(["devices", "invite"], [feed]))


@device.command()
@click.argument("feed")
@click.option("--decline", is_flag=True, help="Say no.")
@click.pass_obj
def join(settings: Settings, feed: str, decline: bool) -> None:
    """Be one identity with FEED's device, which has invited this one, and follow it.

    The rest goes by itself as soon as the peers of both devices run and meet.
    """
    feed = reference_of(feed)
    with commands_of(settings, begins=True) as commands:
        state = commands.answer(["devices", "join"], [feed, decline])
    if state == "waiting":
        followed = "" if decline else "; this device follows it now"
        raise UserError(f"no invitation by {feed} is here{followed}: run this again when its feed has come")
    click.echo(_JOINED[state].replace("FEED", feed))


@device.command("list")
@click.argument("feed", required=False)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def list_(settings: Settings, feed: str | None, as_json: bool) -> None:
    """Show the devices of FEED's identity, by default this one's, and open invitations."""
    of = "" if feed is None else reference_of(feed)
    with commands_of(settings) as commands:
        state = commands.answer(["devices", "list"], [of])
    if as_json:
        click.echo(json.dumps(state))
        return
    for each in state["devices"]:
        click.echo(f"device       {label(each, {each: state['name']})}")
    for fusion in state["fusions"]:
        for by, invited in fusion["invites"]:
            answer = "has consented" if invited in fusion["consented"] else "has not consented yet"
            click.echo(f"invited      {invited} by {by}: {answer}")


@device.command()
@click.argument("feed")
@click.option("--reason", default="", show_default=False, help="Shown to others.")
@click.pass_obj
def remove(settings: Settings, feed: str, reason: str) -> None:
    """Take the device with FEED out of this identity, for example a lost one.

    Nobody can take a key back. So this ends the identity for good, and invites the other devices to a new
    one: run `join` on each of them. To stop replicating the removed device, block it (`follow --block`).
    """
    feed = reference_of(feed)
    with commands_of(settings) as commands:
        answer = commands.answer(["devices", "remove"], [feed, reason])
    for each in answer["left_out"]:
        click.echo(f"{each} is not invited; `device invite` does that if it is yours", err=True)
    if answer["fusion"] is not None:
        click.echo(answer["fusion"])
    else:
        click.echo("no device is invited: this one is on its own", err=True)


@device.command()
@click.option("--reason", default="", show_default=False, help="Shown to others.")
@click.pass_obj
def end(settings: Settings, reason: str) -> None:
    """End this identity of several devices, for good: each is on its own again."""
    with commands_of(settings) as commands:
        commands.answer(["devices", "end"], [reason])


@click.command()
@click.argument("feed", required=False)
@click.option("--undo", is_flag=True, help="Merge no more: the branches that came later are deleted.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def merge(settings: Settings, feed: str | None, undo: bool, as_json: bool) -> None:
    """Keep and show all branches of FEED if it is forked, and exchange them with peers that do so, too.

    Without FEED, show the feeds that are merged. Your own feed can be merged, too, and then be written on.
    Stock peers ignore a forked feed from the fork on.
    """
    require("undo", "feed")
    author = None if feed is None else reference_of(feed)
    with commands_of(settings) as commands:
        if author is None:
            merged = commands.answer(["branches", "list"], [])
        else:
            merged = commands.answer(["branches", "split" if undo else "merge"], [author])
    if as_json:
        click.echo(json.dumps(merged))
        return
    for each, state in merged.items():
        click.echo(f"{each}: {branches_text(state)}")
