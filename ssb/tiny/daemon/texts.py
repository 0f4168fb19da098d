"""Texts in entries, as tinySSB's chat has them: a BIPF list, `["TAV", text, voice, seconds]`.

A display name is `["IAM", name]`, by its author.
"""

import re
from typing import Final, NamedTuple

from ssb.bipf import MalformedBipf, decode, encode

_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, separators of lines, changes of direction, and halves of characters."""


class Text(NamedTuple):
    """A text, or a display name.

    Attributes:
        text: the text, or the name.
        is_name: whether it is a name.
    """

    text: str
    is_name: bool = False

    def encode(self, now_s: int) -> bytes:
        """Return the content of an entry."""
        return encode(["IAM", self.text]) if self.is_name else encode(["TAV", self.text, None, now_s])


def read_text(content: bytes) -> Text | None:
    """Parse the content of an entry; None if it is neither, such as a picture or a command."""
    try:
        value = decode(content)
    except MalformedBipf:
        return None
    match value:
        case ["TAV", str(text), *_]:
            return Text(text)
        case ["IAM", str(name), *_]:
            return Text(name, is_name=True)
    return None


def printable(text: str) -> str:
    """Return text in one line that is safe to show: what would move a terminal's cursor, change its state or
    reverse the text around it is escaped as in JSON.
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
