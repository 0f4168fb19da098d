"""Stories that seeds have found which nobody had played before: each violated an invariant once."""

import json
from pathlib import Path

from testbed.verify.push.stories.story import Story

SAVED = {
    path.stem: Story.from_json(json.loads(path.read_text(encoding="utf-8")))
    for path in sorted((Path(__file__).parent / "simulate" / "stories").glob("*.json"))
}
"""By what they are about."""
