"""Topics of feeds. Each message is retained under one of its own, so who subscribes late gets all of them."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import Final

from ssb.keys import KEY_BYTES, feed_ref, parse_feed

_PREFIX: Final = "f"
_LAST: Final = (1 << 63) - 1


def topic_of(feed: str, sequence: int | str) -> str:
    """Return the topic of a feed's message; of all, if `sequence` is "+"."""
    key = urlsafe_b64encode(parse_feed(feed)).decode().rstrip("=")
    return f"{_PREFIX}/{key}/{sequence}"


def split_topic(topic: str) -> tuple[str, int] | None:
    """Return a feed and a sequence number; None if a topic is of none."""
    prefix, _, rest = topic.partition("/")
    key, _, number = rest.partition("/")
    try:
        decoded = urlsafe_b64decode(key + "=")
    except (Error, ValueError):
        return None
    is_number = number.isascii() and number.isdigit() and len(number) <= len(str(_LAST))
    if prefix != _PREFIX or len(decoded) != KEY_BYTES or not is_number:
        return None
    feed, sequence = feed_ref(decoded), int(number)
    return (feed, sequence) if 1 <= sequence <= _LAST and topic_of(feed, sequence) == topic else None
