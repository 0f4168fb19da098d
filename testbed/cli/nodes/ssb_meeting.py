"""`feednet ssb pubs`: peers through which others are met."""

import json

import click

from testbed.cli.nodes.ssb import Settings, commands_of
from testbed.cli.nodes.ssb_lines import label


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
