"""Stories of controlled push: forwarders, their links, publishers and subscribers."""

from testbed.verify.kit.family import Family
from testbed.verify.push.changes import CHANGES
from testbed.verify.push.passes import PASSES, pinned
from testbed.verify.push.stories.make import make_story
from testbed.verify.push.stories.promise import PLAIN_NS, promise
from testbed.verify.push.stories.story import Story
from testbed.verify.push.world.world import World


def _pace(story: Story) -> int | None:
    promised = promise(story)
    return promised.within - PLAIN_NS if promised.is_plain else None


PUSH = Family("push", Story, make_story, World, PLAIN_NS, PASSES, CHANGES, _pace, pinned)
