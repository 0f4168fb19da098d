"""Topics of feeds. Each message is retained under one of its own, so who subscribes late gets all of them."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import Final

from ssb.keys import KEY_BYTES, feed_ref, parse_feed

_PREFIX: Final = "f"


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
    if prefix != _PREFIX or len(decoded) != KEY_BYTES or not (number.isascii() and number.isdigit()):
        return None
    return feed_ref(decoded), int(number)
