"""feednet's public names. All else may change with any version.

Experiments (docs/experiments.md): an Experiment is a scenario, made in Python or read from a file; run()
returns its Results, tables as pandas or Arrow. They need the extra `testbed`.

    from feednet import Experiment, everything_delivered
    from feednet.topologies import star

feednet.packets has layers for Scapy, and feednet.streams a source for Spark's streams.

Feeds for python-ndn applications: subscribe as an async iterator, publish by appending.

    app = NDNApp()
    feeds = feednet.Feeds(app)

    async def main():
        async for item in feeds.subscribe("/unibas/camera/%0B..."):
            print(item.seq, item.message)

    app.run_forever(after_start=main())

All packets use the application's own face. A forwarder with long-lived Interests pushes the items; over one
without (NFD) the same calls pull them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from feednet import rooms

if TYPE_CHECKING:
    from feednet.client import Feed, Feeds, Forked, Subscription
    from feednet.log import BadLog, Log
    from forwarder.feedcache.items import Item
    from testbed.api.experiment import Experiment
    from testbed.api.results import Results
    from testbed.errors import UserError
    from testbed.experiment.live import (
        Condition,
        LiveRun,
        NotYet,
        Script,
        State,
        delivered,
        everything_delivered,
        has_route,
    )
    from topologies.model import Link, Medium, Topology

_PLACES = {
    "feednet.client": ("Feed", "Feeds", "Forked", "Subscription"),
    "feednet.log": ("BadLog", "Log"),
    "forwarder.feedcache.items": ("Item",),
    "testbed.api.experiment": ("Experiment",),
    "testbed.api.results": ("Results",),
    "testbed.errors": ("UserError",),
    "testbed.experiment.live": (
        *("Condition", "LiveRun", "NotYet", "Script", "State"),
        *("delivered", "everything_delivered", "has_route"),
    ),
    "topologies.model": ("Link", "Medium", "Topology"),
}
"""Modules of the public names, imported on first access: a publisher needs no Spark."""

_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "BadLog",
    "Condition",
    "Experiment",
    "Feed",
    "Feeds",
    "Forked",
    "Item",
    "Link",
    "LiveRun",
    "Log",
    "Medium",
    "NotYet",
    "Results",
    "Script",
    "State",
    "Subscription",
    "Topology",
    "UserError",
    "delivered",
    "everything_delivered",
    "has_route",
]


def __getattr__(name: str) -> object:
    """Import a public name (PEP 562).

    Raises ImportError, with a line for the user, if other packages hide feednet's, or an extra is missing.
    """
    if name not in _MODULES:
        raise AttributeError(f"module 'feednet' has no attribute {name!r}")
    rooms.check()
    from base import compiled

    compiled.use()
    module = _MODULES[name]
    if module.startswith("testbed."):
        from testbed.cli.extras import need

        need("testbed", by=f"feednet.{name}")
    found: object = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
