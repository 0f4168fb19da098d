"""Stories in files: JSON that names its family."""

import json
from collections.abc import Mapping
from typing import Any

from testbed.verify.kit.family import Family
from testbed.verify.kit.story import Story


def to_text(family: Family[Any], story: Story) -> str:
    """Write a story."""
    return json.dumps({"family": family.name} | story.to_json(), indent=1) + "\n"


def from_text(text: str, families: Mapping[str, Family[Any]], unnamed: str) -> tuple[Family[Any], Story]:
    """Read a story, and which of some families it is of; `unnamed`: that of a file that does not say so.

    Raises ValueError, KeyError, TypeError or AttributeError for any text that to_text() has not written.
    """
    value = json.loads(text)
    family = families[value.pop("family", unnamed)]
    return family, family.story.from_json(value)
