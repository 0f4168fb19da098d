"""What applications report: the ground truth that captures are held against."""

from typing import NamedTuple


class Event(NamedTuple):
    """Something that happened to an item at an application.

    Attributes:
        time: ns.
        event: "published" or "delivered".
        seq: the item's sequence number.
        size: of the SSB message, bytes.
    """

    time: int
    event: str
    seq: int
    size: int
