"""Tracks of feeds. Each message depends on those before it, so a feed is one group of one track."""

from typing import Final

from ssb.keys import KEY_BYTES, feed_ref, parse_feed
from ssb.moq.messages import Location, Track

_PREFIX: Final = b"ssb"
_NAME: Final = b"log"


def track_of(feed: str) -> Track:
    """Return a feed's track; its namespace is the feed's own, so that a relay can have a route to it."""
    return Track((_PREFIX, parse_feed(feed)), _NAME)


def feed_of(track: Track) -> str | None:
    """Return a track's feed; None if it is of none."""
    if len(track.namespace) != 2 or track.namespace[0] != _PREFIX or track.name != _NAME:
        return None
    key = track.namespace[1]
    return feed_ref(key) if len(key) == KEY_BYTES else None


def location_of(sequence: int) -> Location:
    """Return the location of a message, which are counted from 1."""
    return Location(0, sequence - 1)


def sequence_of(location: Location) -> int | None:
    """Return the number of a message; None if a location is of none."""
    return None if location.group else location.object + 1
