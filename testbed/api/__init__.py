"""Experiments from Python: see docs/experiments.md.

    from testbed.api import Experiment, everything_delivered

An Experiment is a scenario, made here or read from a file. run() returns its Results: tables as pandas or
Arrow.
"""

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

__all__ = [
    "Condition",
    "Experiment",
    "Link",
    "LiveRun",
    "Medium",
    "NotYet",
    "Results",
    "Script",
    "State",
    "Topology",
    "UserError",
    "delivered",
    "everything_delivered",
    "has_route",
]
