"""The registry of layerings: what a scenario can compare."""

from testbed.layerings.append_poll import AppendPollLayering
from testbed.layerings.ndn import NDN_LAYERINGS
from testbed.layerings.node import Layering

LAYERINGS: dict[str, Layering] = {**NDN_LAYERINGS, "append-poll": AppendPollLayering()}
"""Layerings by name, in the order in which they are listed."""
