"""Layering `ndn`: a whole object, by its segments, as NDN applications fetch files.

An object is a complete feed: its items are the segments, and the last one's number is in the FinalBlockId of
each. Later items of the feed are ignored.
"""

from collections.abc import Callable
from random import Random

from forwarder.wire.feed import item_name, ssb_content
from forwarder.wire.name import SEQUENCE, component, components
from forwarder.wire.packet import Data
from forwarder.wire.tlv import MalformedPacket, nni, read_nni
from ssb.message import Message
from ssb_over_ndn.following.follower import Follower, Scout
from ssb_over_ndn.naming import log_name


def segment_packet(message: Message, last: int, sign: Callable[..., bytes]) -> bytes:
    """Return the Data packet of a message in an object whose last segment is `last`.

    `sign` builds it: (name, content, final_block=component).
    """
    name = item_name(log_name(message.author), message.sequence)
    return sign(name, ssb_content(message.encoded), final_block=component(SEQUENCE, nni(last)))


class Whole(Scout):
    """Requests the first segment, which has the number of the last one."""

    def start(self, now: int) -> None:
        self.tip = max(self.tip, 1)

    def on_item(self, seq: int, data: Data, now: int) -> None:
        try:
            parts = components(data.final_block)
            if len(parts) == 1 and parts[0][0] == SEQUENCE:
                self.tip = max(self.tip, read_nni(parts[0][1]))
        except MalformedPacket:
            return


def subscribe(feed: bytes, *, rng: Random, buffer: int, lifetime_ms: int, after: int = 0) -> Follower:
    """Return the Subscription of `ndn`."""
    return Follower(feed, Whole(), rng=rng, buffer=buffer, lifetime_ms=lifetime_ms, after=after)
