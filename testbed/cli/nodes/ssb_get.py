"""`feednet ssb get`: a message by its id, and its thread."""

import json
import time
from typing import Any

import click

from ssb.applications.tangles import Tangle
from ssb.message import Message
from testbed.cli.nodes.ssb import Settings, commands_of
from testbed.cli.nodes.ssb_lines import message_line
from testbed.cli.options import Number
from testbed.errors import UserError

_PAUSE_S = 0.2


@click.command()
@click.argument("message")
@click.option("--wait", "patience", type=Number(0, 3600), default=10.0, show_default=True, help="Seconds.")
@click.option("--thread", is_flag=True, help="Also the posts that are here, and answer it.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def get(settings: Settings, message: str, patience: float, thread: bool, as_json: bool) -> None:
    """Show a message by its id (%...=.sha256), wherever its feed is.

    If it is not here, the running peer asks those that it is connected with, and these ask others, three hops
    far. The message is what its author has signed. Its place in the author's feed is not checked.
    """
    with commands_of(settings) as commands:
        value = _found(commands, message, patience)
        values = _thread(commands, message, value) if thread else [value]
    for each in values:
        click.echo(json.dumps(each, ensure_ascii=False) if as_json else message_line(each, None, None))


def _found(commands: Any, message: str, patience: float) -> dict[str, Any]:
    ends = time.monotonic() + patience
    while (value := commands.answer(["get"], [message])) is None:
        if time.monotonic() >= ends:
            raise UserError(f"{message}: no peer has sent it; the running peer goes on to ask")
        time.sleep(_PAUSE_S)
    found: dict[str, Any] = value
    return found


def _thread(commands: Any, root: str, first: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a message and the posts here that answer it, in causal order."""
    tangle = Tangle(root)
    tangle.add(Message.from_value(first))
    for entry in commands.stream(["createLogStream"], [{"type": "post"}]):
        if entry["value"]["content"].get("root") == root:
            tangle.add(Message.from_value(entry["value"]))
    return [json.loads(message.text) for message in tangle.order]
