"""`feednet model`: models of protocols at sizes that no run reaches."""

import click

from testbed.cli.model.costs import costs
from testbed.cli.model.friends import friends
from testbed.cli.model.ladder import ladder
from testbed.cli.model.social import social


@click.group()
def model() -> None:
    """Compute models of protocols, at sizes that no run reaches."""


for command in (ladder, costs, social, friends):
    model.add_command(command)
