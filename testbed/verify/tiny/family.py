"""Stories of tinyISP providers and their clients in one radio cell."""

from testbed.verify.kit.changes import again, fewer, luck, times
from testbed.verify.kit.family import Family
from testbed.verify.kit.shrink import fewer_of, nodes, plain, round_times, steps
from testbed.verify.tiny.story import Cell, make_story
from testbed.verify.tiny.world import CATCH_UP_NS, play

PASSES = (steps, nodes, fewer_of("kills"), fewer_of("peers"), fewer_of("hostile"), plain, round_times)
CHANGES = (luck, times, times, fewer, again)

TINY = Family("tiny", Cell, make_story, play, CATCH_UP_NS, PASSES, CHANGES)
