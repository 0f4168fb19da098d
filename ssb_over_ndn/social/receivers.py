"""social-routing: Interests carry their receiver's id, and are forwarded along that receiver's social graph.

Theory of operation. Every node knows the place of every user, as attachments are flooded; and the graph of
every user, as nodes without users inspect all logs, without storing them. An Interest names its receiver, a
user. It is refused if the feed is not on the receiver's graph. Else it is sent towards the feed's author, and
towards the author's followers on the receiver's graph, who replicate the feed. Their keepers answer.

The id is a forwarding hint, /ssb/for/<key>, the only field of NDN's packet format for it that leaves the
name unchanged. ApplicationParameters add their digest to the name, so an item would have another name for
each receiver, and neither PIT nor content store would aggregate two receivers' Interests.

Receivers still differ while an Interest is pending, as their graphs may lead to different neighbours.
Interests that join a pending one are `joined`; those of them that are forwarded nevertheless are `split`.
"""

from collections.abc import Sequence
from typing import Final

from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.name import GENERIC, component, from_uri
from forwarder.wire.packet import parse_interest
from ssb.keys import KEY_BYTES, feed_ref, parse_feed
from ssb_over_ndn.naming import log_key
from ssb_over_ndn.social.flood import SocialFlood

_FOR: Final = from_uri("/ssb/for")
_SIZE: Final = len(_FOR) + 2 + KEY_BYTES


def receiver_hint(user: str) -> tuple[bytes]:
    """Return the forwarding hint of Interests for a user (`@...=.ed25519`)."""
    return (_FOR + component(GENERIC, parse_feed(user)),)


def receiver_of(hint: Sequence[bytes]) -> str | None:
    """Return the user in a forwarding hint; None if there is none."""
    for delegation in hint:
        key = delegation[-KEY_BYTES:]
        if len(delegation) == _SIZE and delegation == _FOR + component(GENERIC, key):
            return feed_ref(key)
    return None


class SocialRouting(SocialFlood):
    """Forwards along the graph of an Interest's receiver; the arguments are SocialFlood's.

    Attributes:
        counters: those of SocialFlood; `joined` and `split` Interests.
    """

    NAME = "social-routing"
    VERSION = 1

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        """See Strategy: a refusal concerns one receiver, not others."""
        return self._after_refusal(entry)

    def _is_admitted(self, entry: PitEntry, face: int, feed: bytes, seq: int) -> bool:
        receiver = _receiver(entry)
        if receiver is None or not self._keeper.reaches(receiver, log_key(feed)):
            self.counters["refused"] += 1
            return False
        return super()._is_admitted(entry, face, feed, seq)

    def _faces(self, entry: PitEntry, face: int, feed: bytes, now: int) -> list[int]:
        is_joining = entry.is_pending(now) and any(record.face != face for record in entry.in_records)
        faces = super()._faces(entry, face, feed, now)
        if is_joining:
            self.counters["joined"] += 1
            self.counters["split"] += bool(faces)
        return faces

    def _targets(self, entry: PitEntry, face: int, feed: bytes, now: int) -> list[int]:
        """Return the neighbours on paths to the author, or to replicas of the feed."""
        receiver = _receiver(entry)
        if receiver is None:
            return []
        places = {self._keeper.place(user) for user in self._keeper.holders(receiver, log_key(feed))}
        return [out for out in self.node.neighbours(entry, face) if out in places]


def _receiver(entry: PitEntry) -> str | None:
    """Return the receiver of the newest Interest."""
    return receiver_of(parse_interest(entry.in_records[-1].wire).forwarding_hint)
