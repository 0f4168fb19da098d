"""What each downstream may still be sent of one feed: the receiving side of send credit."""

from collections.abc import Callable, Iterator

from forwarder.wire.lp import make_lp
from forwarder.wire.packet import Data, Interest

MS = 1_000_000

LAST_ITEM = (1 << 64) - 1
"""The highest number that a name can carry; a stranger's credit must not reach beyond."""


class Range:
    """Items `next` .. `limit` granted by one downstream.

    Attributes:
        next: the next item to send.
        limit: the last item that may be sent.
        expiry: when the grant ends, ns.
        nonce: of the newest LLI, to tell the link's duplicate from the downstream's repetition.
        announce: the next item sent is to carry the feed's state (the answer to an LLI).
    """

    __slots__ = ("announce", "expiry", "limit", "next", "nonce")

    def __init__(self, first: int, limit: int, expiry: int, nonce: int | None) -> None:
        self.next = first
        self.limit = limit
        self.expiry = expiry
        self.nonce = nonce
        self.announce = True


class Ranges:
    """The ranges of one feed by downstream face.

    A range is absolute, so a repeated or reordered LLI does no harm: one that starts at or before what was
    sent rewinds, one that ends later extends, and credit 0 cancels. A downstream renews with the items
    after its limit, so that a renewal that meets items in flight does not read as a rewind; one that starts
    later still tells that a renewal between was lost, and grants what that one did.
    """

    __slots__ = ("_by_face",)

    def __init__(self) -> None:
        self._by_face: dict[int, Range] = {}

    def grant(self, face: int, first: int, lli: Interest, now: int) -> None:
        """Apply an LLI for items from `first`."""
        credit = lli.send_credit or 0
        if credit == 0:
            self.drop(face)
            return
        granted = self._by_face.get(face)
        limit = min(first + credit - 1, LAST_ITEM)
        expiry = now + lli.lifetime_ms * MS
        if granted is None or granted.expiry <= now or limit < granted.next - 1:
            # New, or apart from what was granted before, which is void.
            self._by_face[face] = Range(first, limit, expiry, lli.nonce)
        elif granted.nonce != lli.nonce:
            granted.next = min(granted.next, first)
            granted.limit = max(granted.limit, limit)
            granted.expiry = expiry
            granted.nonce = lli.nonce
            granted.announce = True

    def is_repeated(self, face: int, nonce: int | None) -> bool:
        """Tell whether the newest LLI from `face` had this nonce: the link has duplicated it."""
        granted = self._by_face.get(face)
        return granted is not None and granted.nonce == nonce

    def serve(self, face: int, get: Callable[[int], Data | None], tip: int) -> Iterator[bytes]:
        """Yield the packets that `face` may be sent now, of the items that `get` has.

        The first one after an LLI carries FeedState, to tell the downstream that it is pushed to, and so
        does one that is not the newest, to tell that there are more.
        """
        granted = self._by_face.get(face)
        while granted is not None and granted.next <= granted.limit:
            data = get(granted.next)
            if data is None:
                return
            announce = granted.announce or granted.next < tip
            granted.announce = False
            granted.next += 1
            if granted.next > granted.limit:
                del self._by_face[face]
            yield make_lp(data.wire, tip=tip, limit=granted.limit) if announce else data.wire

    def drop(self, face: int) -> bool:
        """Forget a downstream; return whether it had a range."""
        return self._by_face.pop(face, None) is not None

    def expire(self, now: int) -> None:
        """Drop the ranges whose lifetime is over."""
        for face, granted in self.items():
            if granted.expiry <= now:
                del self._by_face[face]

    def items(self) -> list[tuple[int, Range]]:
        """Return (face, range) of every downstream."""
        return list(self._by_face.items())

    def first_wanted(self) -> int:
        """Return the lowest item that some downstream waits for; there must be a range."""
        return min(granted.next for granted in self._by_face.values())

    def last_wanted(self) -> int:
        """Return the highest limit; there must be a range."""
        return max(granted.limit for granted in self._by_face.values())

    def first_expiry(self) -> int:
        """Return when the first range expires, ns; there must be a range."""
        return min(granted.expiry for granted in self._by_face.values())

    def last_expiry(self) -> int:
        """Return when the last range expires, ns; there must be a range."""
        return max(granted.expiry for granted in self._by_face.values())

    def __contains__(self, face: int) -> bool:
        return face in self._by_face

    def __len__(self) -> int:
        return len(self._by_face)
