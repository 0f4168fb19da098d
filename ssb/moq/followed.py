"""Who reads a track at a relay, and where the relay has it from."""

from typing import Final, NamedTuple

from base.endpoint import Address
from ssb.moq.messages import Track
from ssb.moq.session import Outgoing, Request

SUBSCRIPTION_BYTES: Final = 16
"""State of a subscription or fetch, of either side: request, alias, stream and next object, 4 bytes each."""


class Reader:
    """A subscription or a fetch of another relay, or of this node's own.

    Attributes:
        track: its track.
        stream: of the other's session; None for one of this node's own.
        number: its Request ID there.
        next: the next object that it needs.
        end: the object after its last; None for a subscription.
        out: its stream of objects; None until it is granted, and for this node's own.
    """

    def __init__(
        self, track: "Followed", stream: int | None, number: int, first: int, end: int | None = None
    ) -> None:
        self.track = track
        self.stream = stream
        self.number = number
        self.next = first
        self.end = end
        self.out: Outgoing | None = None

    @property
    def limit(self) -> int:
        """The object before which it can have all now."""
        return self.track.largest + 1 if self.end is None else self.end

    @property
    def has_all(self) -> bool:
        """Whether it has all that it can have now."""
        return self.next >= self.limit


class Upstream(NamedTuple):
    """A request to another relay: the stream of its session, and its address."""

    stream: int
    address: Address
    request: Request


class Followed:
    """A track that is published here, or wanted.

    Attributes:
        own: its objects, if it is published here.
        largest: the largest object that is known, -1 for none.
        readers: of whom it is wanted.
        upstreams: subscriptions to other relays: one, and behind it others while it moves to a better relay.
        fetch: what is being fetched.
        left: relays that are still to be asked, the next one first.
    """

    def __init__(self, name: Track) -> None:
        self.name = name
        self.own: list[bytes] | None = None
        self.largest = -1
        self.readers: list[Reader] = []
        self.upstreams: list[Upstream] = []
        self.fetch: Upstream | None = None
        self.left: list[Address] = []

    @property
    def source(self) -> Upstream | None:
        """The subscription that objects come from; None if none is granted."""
        return next((each for each in self.upstreams if each.request.alias is not None), None)

    @property
    def is_ready(self) -> bool:
        """Whether a subscription to it can be granted (8.3)."""
        return self.own is not None or self.source is not None

    @property
    def size(self) -> tuple[int, int]:
        """Requests of either side, and their bytes with the track's name."""
        count = sum(reader.stream is not None for reader in self.readers)
        count += len(self.upstreams) + (self.fetch is not None)
        return count, SUBSCRIPTION_BYTES * count + (self.name.size if count else 0)
