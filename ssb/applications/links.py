"""Links: what the content of a message refers to.

A link is a member of a content whose value is the reference of a message, feed or blob, an object with a
reference in its member `link`, or a list of either. The member's name is the link's relation, its *rel*.
ssb-server indexes the same links (npm's ssb-msgs, `indexLinks`). References deeper inside a content, or in a
text, are no links. A private message has none, as its content is a text.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ssb.applications.about import is_reference


class Link(NamedTuple):
    """A relation, and the reference of a message, feed or blob."""

    rel: str
    dest: str


def links_of(content: Mapping[str, Any] | str) -> list[Link]:
    """Return the links of a content, each once."""
    found: dict[Link, None] = {}
    for rel, value in content.items() if isinstance(content, Mapping) else ():
        for each in value if isinstance(value, list) else [value]:
            dest = each.get("link") if isinstance(each, dict) else each
            if is_reference(dest):
                found[Link(rel, dest)] = None
    return [*found]
