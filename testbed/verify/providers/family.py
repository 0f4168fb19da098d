"""Stories of NDN over SSB: customers, providers and repositories."""

from testbed.verify.kit.changes import CHANGES
from testbed.verify.kit.family import Family
from testbed.verify.kit.shrink import emulated
from testbed.verify.providers.story import Network, make_story
from testbed.verify.providers.world import CATCH_UP_NS, play

PASSES = emulated("contracts", "prefixes", "hostile")

PROVIDERS = Family("providers", Network, make_story, play, CATCH_UP_NS, PASSES, CHANGES)
