"""Plays seeds with the rule of a file: `python -m testbed.labs.broken rule.py 2000`; prints JSON."""

import json
import runpy
import sys
from unittest.mock import patch

from forwarder.feedcache import items
from testbed.labs.broken import Broken
from testbed.verify.kit.chart import draw
from testbed.verify.kit.shrink import shrink
from testbed.verify.push.family import PUSH

_PLAYS = 300
"""Maximum number of plays to cut a story down."""


def _play(seeds: int) -> Broken | None:
    for seed in range(seeds):
        if PUSH.play_seed(seed).violation is not None:
            story = shrink(PUSH, PUSH.make(seed), plays=_PLAYS)
            outcome = PUSH.play(story, record=True)
            assert outcome.violation is not None
            return Broken(seed, outcome.violation.invariant, len(outcome.rows), draw(story, outcome))
    return None


if __name__ == "__main__":
    made = runpy.run_path(sys.argv[1])
    owner, name = made["REPLACES"]
    original = getattr(owner, name)

    def _replaced(*arguments: object, **named: object) -> object:
        return made["rule"](original, *arguments, **named)

    items.forget_all()  # what was believed under another rule
    with patch.object(owner, name, _replaced):
        found = _play(int(sys.argv[2]))
    print(json.dumps(None if found is None else found._asdict()))
