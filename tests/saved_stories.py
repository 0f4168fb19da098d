"""Stories that seeds have found which nobody had played before: each violated an invariant once."""

from pathlib import Path

from testbed.verify.kit.family import from_text
from testbed.verify.push.family import PUSH
from testbed.verify.push.stories.story import Story


def _read(path: Path) -> Story:
    _, story = from_text(path.read_text(encoding="utf-8"), {PUSH.name: PUSH}, PUSH.name)
    assert isinstance(story, Story)
    return story


SAVED = {
    path.stem: _read(path) for path in sorted((Path(__file__).parent / "simulate/stories").glob("*.json"))
}
"""By what they are about."""
