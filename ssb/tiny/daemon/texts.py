"""Texts in entries, as tinySSB's chat has them: a BIPF list, `["TAV", text, voice, seconds]`.

A display name is `["IAM", name]`, by its author.
"""

from typing import NamedTuple

from ssb.bipf import MalformedBipf, decode, encode


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
    """Return text without control characters."""
    return "".join(each if each.isprintable() else "�" for each in text)
