"""Stories of SSB-aware forwarders: people who follow, block, move and come back."""

from testbed.verify.kit.changes import CHANGES, luck
from testbed.verify.kit.family import Family
from testbed.verify.kit.shrink import emulated
from testbed.verify.social.story import Neighbourhood, make_story
from testbed.verify.social.world import CATCH_UP_NS, play

_CHANGES = tuple(change for change in CHANGES if change is not luck)  # people's keys follow from the seed

PASSES = emulated("logs", "strangers", "away")

SOCIAL = Family("social", Neighbourhood, make_story, play, CATCH_UP_NS, PASSES, _CHANGES)
