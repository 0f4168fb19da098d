"""What applications report: the ground truth that captures are held against."""

from typing import NamedTuple


class Event(NamedTuple):
    """Something that happened at an application.

    Attributes:
        time: ns.
        event: "published" or "delivered", an item; "forked", seq is where; "joined" and "stopped", of a
            subscriber; "error", a subscription's trouble that `detail` names.
        feed: the feed's name.
        seq: the item's sequence number, 0 if it is about none.
        size: of the SSB message, bytes.
        detail: what the trouble is, in a word.
    """

    time: int
    event: str
    feed: bytes
    seq: int = 0
    size: int = 0
    detail: str = ""
