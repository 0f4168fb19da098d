"""`feednet model`: models of protocols at sizes that no run reaches."""

import click

from testbed.cli.group import LazyGroup

_PLACES = {
    name: f"testbed.cli.model.{name}:{name}"
    for name in ("ladder", "costs", "social", "friends", "sparse", "formats", "hashes", "breaks")
}


@click.group(cls=LazyGroup, places=_PLACES)
def model() -> None:
    """Compute models of protocols, at sizes that no run reaches."""
