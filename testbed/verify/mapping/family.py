"""Stories of name services, storage providers and moving devices."""

from testbed.verify.kit.changes import CHANGES
from testbed.verify.kit.family import Family
from testbed.verify.kit.shrink import emulated
from testbed.verify.mapping.story import Region, make_story
from testbed.verify.mapping.world import CATCH_UP_NS, play

PASSES = emulated("readers", "devices")

MAPPING = Family("mapping", Region, make_story, play, CATCH_UP_NS, PASSES, CHANGES)
