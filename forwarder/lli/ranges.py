"""Credit left to each downstream of one feed: the receiving side of send credit."""

from collections.abc import Callable, Iterator
from typing import Final

from base.units import MS
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import LAST_ITEM
from forwarder.wire.lp import make_lp
from forwarder.wire.packet import MOST_LIFETIME_MS, SENT_HOP_LIMIT, Data, Interest

REMEMBERED_NONCES: Final = 48
"""Nonces kept to know an LLI that is duplicated late, or led back: a node that pulls has fewer under way."""


class Range:
    """Items `next` .. `limit` granted by one downstream.

    Attributes:
        next: the next item to send.
        limit: the last item that may be sent.
        again: items before `next` that are to be sent again, in order, once they are at hand.
        expiry: when the grant ends, ns.
        nonce: of the newest LLI.
        lifetime: of the LLI that lasts longest, ns.
        hop_limit: its own, or a greater one of a later LLI; less this hop.
        known: evidence that the downstream has; only better evidence is of use to it.
        told: evidence that it has been offered, None if none, or if that holds no longer.
        is_answered: the newest LLI has been, by an item or by a FeedState.
        is_pressing: so has none of the last two been.
        announce: the next item sent is to carry the feed's state (the answer to an LLI).
        paced_until: no item is to be sent before, ns.
    """

    __slots__ = (
        "again",
        "announce",
        "expiry",
        "hop_limit",
        "is_answered",
        "is_pressing",
        "known",
        "lifetime",
        "limit",
        "next",
        "nonce",
        "paced_until",
        "told",
    )

    def __init__(self, first: int, limit: int, now: int, lli: Interest) -> None:
        self.next = first
        self.again: tuple[int, ...] = ()
        self.limit = limit
        self.lifetime = min(lli.lifetime_ms, MOST_LIFETIME_MS) * MS
        self.expiry = now + self.lifetime
        self.nonce = lli.nonce
        self.known = lli.known
        self.hop_limit = _hops_left(lli)
        self.told: Evidence | None = None
        self.announce = True
        self.is_answered = self.is_pressing = False
        self.paced_until = 0

    def shown(self) -> Evidence | None:
        """Return the evidence as it is sent to the downstream."""
        return None if self.told is None else self.told.shown_to(self.known)

    @property
    def wanted(self) -> int:
        """The next item to send, one that is asked for again first."""
        return self.again[0] if self.again else self.next

    def ready(self, get: Callable[[int], Data | None]) -> tuple[int, Data] | None:
        """Return the item that can be sent next, with its number; None if there is none at hand."""
        due = (*self.again[:1], self.next) if self.next <= self.limit else self.again[:1]
        for seq in due:
            data = get(seq)
            if data is not None:
                return seq, data
        return None

    def meaning(self, evidence: Evidence | None) -> tuple[bool, ...]:
        """Return the meaning of an offer to the downstream, if it is any.

        These are whether the downstream would take this node for its upstream, and whether the number is
        signed: nodes beyond the downstream may believe no other.
        """
        return () if evidence is None else (evidence.beats(self.known), evidence.is_signed)

    def skip(self, first: int) -> None:
        """Move the range beyond items that cannot be had here."""
        self.again = tuple(seq for seq in self.again if seq >= first)
        self.next = max(self.next, first)

    @property
    def wanted_until(self) -> int:
        """The last item of the run that begins with `wanted`."""
        return self.again[-1] if self.again else self.limit


class Ranges:
    """The ranges of one feed by downstream face.

    Attributes:
        is_changed: a downstream has come or gone; for the owner, who takes it back.

    A range is absolute, and so is an LLI, items s .. e:

    - one that reaches to what has not been sent yet (e >= next) makes the range begin at s if that is
      earlier (it *rewinds*), and end at e if that is later (it *extends*);
    - one for items that have all been sent (e < next) asks for just these *again*. They are
      sent when they are at hand, and the range stays what it is;
    - credit 0 cancels.

    So a repeated or reordered LLI does no harm: at worst some items are sent twice. A downstream renews with
    the items after its limit, so that a renewal that meets items in flight does not read as a rewind; one
    that starts later still tells that a renewal between was lost, and grants what that one did.
    """

    __slots__ = ("_by_face", "_heard", "is_changed")

    def __init__(self) -> None:
        self.is_changed = False
        self._by_face: dict[int, Range] = {}
        self._heard: dict[int, tuple[int | None, ...]] = {}  # nonces of the newest LLIs from a face

    def grant(
        self, face: int, first: int, lli: Interest, now: int, get: Callable[[int], Data | None]
    ) -> list[Data]:
        """Apply an LLI for items from `first`; return the items that it asks for again."""
        credit = lli.send_credit or 0
        if credit == 0:
            self.drop(face)
            return []
        if self.is_repeated(face, lli.nonce):
            return []
        self._heard[face] = (*self._heard.get(face, ())[1 - REMEMBERED_NONCES :], lli.nonce)
        limit = min(first + credit - 1, LAST_ITEM)
        lifetime = min(lli.lifetime_ms, MOST_LIFETIME_MS) * MS
        expiry = now + lifetime
        granted = self._by_face.get(face)
        if granted is None or granted.expiry <= now:
            self._by_face[face] = Range(first, limit, now, lli)
            self.is_changed = True
            return []
        granted.nonce, granted.known = lli.nonce, lli.known
        granted.is_pressing = not granted.is_answered
        # Several nodes may ask by way of one legacy forwarder, which keeps the LLI of each for its lifetime.
        if expiry >= granted.expiry:
            granted.expiry, granted.lifetime, granted.hop_limit = expiry, lifetime, _hops_left(lli)
        else:
            granted.hop_limit = max(granted.hop_limit, _hops_left(lli))
        if limit < granted.next:
            again = range(max(first, limit - MOST_AGAIN + 1), limit + 1)
            found = [data for data in map(get, again) if data is not None]
            if len(found) == len(again) and not set(again).intersection(granted.again):
                granted.is_answered = True
                return found
            granted.again = tuple(sorted({*granted.again, *again}))[-MOST_AGAIN:]
        else:
            granted.next = min(granted.next, first)
            granted.limit = max(granted.limit, limit)
            granted.again = tuple(seq for seq in granted.again if seq < granted.next)  # the rest is anyway
        granted.announce = True
        granted.is_answered = False
        return []

    def is_repeated(self, face: int, nonce: int | None) -> bool:
        """Return whether a recent LLI from `face` had this nonce: the link has duplicated it."""
        return nonce is not None and nonce in self._heard.get(face, ())

    def get(self, face: int) -> Range | None:
        """Return a downstream's range."""
        return self._by_face.get(face)

    def serve(
        self, face: int, get: Callable[[int], Data | None], tip: int, evidence: Evidence | None
    ) -> Iterator[bytes]:
        """Yield the packets that `face` may be sent now, in order, as far as `get` has them.

        The first one after an LLI carries FeedState, to tell the downstream that it is pushed to, and so
        does one that is not the newest, to tell that there are more.
        """
        while (granted := self._by_face.get(face)) is not None:
            ready = granted.ready(get)
            if ready is None:
                return
            yield self.send(face, granted, *ready, tip, evidence)

    def send(
        self, face: int, granted: Range, seq: int, data: Data, tip: int, evidence: Evidence | None
    ) -> bytes:
        """Consume a range up to item `seq`; return that item's packet.

        `evidence`: what the downstream is to be told of a source, if this is the answer to an LLI.
        """
        announce = granted.announce or seq < tip
        if granted.announce and evidence is not None:
            granted.told = evidence
            evidence = granted.shown()
        else:
            evidence = None
        granted.announce = False
        granted.is_answered = True
        if granted.again and seq == granted.again[0]:
            granted.again = granted.again[1:]
        else:
            granted.next = seq + 1
        self.settle(face)
        return make_lp(data.wire, tip=tip, limit=granted.limit, evidence=evidence) if announce else data.wire

    def settle(self, face: int) -> None:
        """Forget a range that is used up."""
        granted = self._by_face.get(face)
        if granted and granted.next > granted.limit and not granted.again:
            self.drop(face)

    def drop(self, face: int) -> bool:
        """Forget a downstream; return whether it had a range."""
        if self._by_face.pop(face, None) is None:
            return False
        self.is_changed = True
        return True

    def forget(self, face: int) -> None:
        """Forget a face that has gone, and which LLIs came from it."""
        self.drop(face)
        self._heard.pop(face, None)

    def expire(self, now: int) -> bool:
        """Drop the ranges whose lifetime is over; return whether there were any."""
        ended = [face for face, granted in self._by_face.items() if granted.expiry <= now]
        for face in ended:
            self.drop(face)
        return bool(ended)

    def items(self) -> list[tuple[int, Range]]:
        """Return (face, range) of every downstream."""
        return list(self._by_face.items())

    def first_wanted(self) -> int:
        """Return the lowest item that some downstream waits for; there must be a range."""
        return min(granted.wanted for granted in self._by_face.values())

    def last_wanted(self) -> int:
        """Return the highest limit; there must be a range."""
        return max(granted.limit for granted in self._by_face.values())

    def first_expiry(self) -> int:
        """Return when the first range expires, ns; there must be a range."""
        return min(granted.expiry for granted in self._by_face.values())

    def longest_lifetime(self) -> int:
        """Return the longest lifetime that a downstream has asked for, ns; there must be a range."""
        return max(granted.lifetime for granted in self._by_face.values())

    def hop_limit(self, apart_from: int | None = None) -> int:
        """Return the highest hop limit that the newest LLIs of downstreams, or of all but one, have left."""
        limits = [granted.hop_limit for face, granted in self._by_face.items() if face != apart_from]
        return max(limits, default=0 if self._by_face else SENT_HOP_LIMIT)

    def last_expiry(self) -> int:
        """Return when the last range expires, ns; there must be a range."""
        return max(granted.expiry for granted in self._by_face.values())

    def __iter__(self) -> Iterator[Range]:
        return iter(self._by_face.values())

    def __contains__(self, face: int) -> bool:
        return face in self._by_face

    def __len__(self) -> int:
        return len(self._by_face)


def _hops_left(lli: Interest) -> int:
    given = SENT_HOP_LIMIT if lli.hop_limit is None else min(lli.hop_limit, SENT_HOP_LIMIT)
    return max(given - 1, 0)


MOST_AGAIN: Final = 64
"""Items that one LLI can ask for again: a repair is short, and a stranger's must be."""
