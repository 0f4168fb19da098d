"""Stories of classic NDN: Interests, prefixes and logs, some with pushed feeds."""

from testbed.verify.classic.applications import CLASSIC_CATCH_UP_NS, Classic
from testbed.verify.classic.story import make_classic
from testbed.verify.kit.family import Family
from testbed.verify.kit.outcome import OutcomeOptions
from testbed.verify.push.changes import CLASSIC_CHANGES
from testbed.verify.push.passes import PASSES, pinned
from testbed.verify.push.stories.story import Story
from testbed.verify.push.world.beside import ExtraTraffic
from testbed.verify.push.world.world import World


def _world(story: Story, wanted: OutcomeOptions) -> World:
    return World(story, wanted, Classic if story.is_classic else ExtraTraffic)


CLASSIC = Family(
    "classic", Story, make_classic, _world, CLASSIC_CATCH_UP_NS, PASSES, CLASSIC_CHANGES, pinned=pinned
)
