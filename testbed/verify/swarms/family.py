"""Stories of swarms of Scuttlebutt peers."""

from testbed.verify.kit.changes import CHANGES
from testbed.verify.kit.family import Family
from testbed.verify.kit.shrink import emulated
from testbed.verify.swarms.story import Swarm, make_swarm
from testbed.verify.swarms.world import CATCH_UP_NS, play

PASSES = emulated("calls", "feeds", "hostile")

SWARMS = Family("swarms", Swarm, make_swarm, play, CATCH_UP_NS, PASSES, CHANGES)
