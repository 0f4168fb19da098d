"""The neighbours of a keeper, and the users attached there. Both expire without repeated hellos (`hello`)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final, NamedTuple, Protocol

from base.units import MS
from forwarder.tables.face import Face
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import parse_interest
from forwarder.wire.tlv import MalformedPacket
from ssb.keys import Identity
from ssb_over_ndn.social.community import Community
from ssb_over_ndn.social.hello import MOST_ATTACHMENTS, Attachment, Hello, make_hello, read_hello

MOST_USERS: Final = 1_024
MOST_USERS_OF_FACE: Final = 64
SOON: Final = 50 * MS
"""Changes within this time are announced and applied together, ns."""
_HELLOS_MISSED: Final = 3  # before a neighbour counts as gone


class Terms(NamedTuple):
    """The terms of service of a keeper.

    Attributes:
        hops: depth of users' graphs.
        hello_ms: time between two hellos.
        serves_neighbours: whether users at neighbours are served; this node has none of its own then.
        spreads: whether nodes that serve neighbours flood attachments; each of them serves every attached
            user then: it inspects all logs, and has a path to every user.
        keeps: whether logs are stored and served, not only inspected; always those of this node's users.
        neighbour_hops: depth of the graph of a forwarder with a log of its own, by which it follows all who
            are attached at its neighbours; 0 without such a log.
    """

    hops: int
    hello_ms: int
    serves_neighbours: bool
    spreads: bool = False
    keeps: bool = True
    neighbour_hops: int = 0


class Surroundings(Protocol):
    """A forwarder's interface for a keeper, besides exchanging packets."""

    @property
    def faces(self) -> Mapping[int, Face]:
        """All faces by number."""
        ...

    def drop(self, feed: bytes, now: int) -> None:
        """Remove a feed from caches, and refuse its downstreams."""
        ...

    def reconsider(self, face: int) -> None:
        """Process a neighbour's change of feeds, or its end."""
        ...


class _Neighbour:
    """A neighbour with a keeper: its generation, its expiry (ns), and its attached users."""

    def __init__(self) -> None:
        self.generation = -1
        self.until = 0
        self.users: dict[str, None] = {}


PLACE_BYTES: Final = 32 + 8 + 64 + 4 + 8
"""Bytes of a user's place: the user's key, the attachment's time and signature, face and expiry."""


class _Place(NamedTuple):
    """The place of a user: the face towards it, the attachment, and its expiry, ns."""

    face: int
    attachment: Attachment
    until: int


class Neighbours:
    """The neighbours of a keeper by face, and the places of users.

    Args:
        terms: see Terms.
        homes: the users of this node, who sign attachments.
        community: the users served by this node, updated here.
        surroundings: of the forwarder.
        rng: source of nonces, and of the first generation.
        counters: errors, by a word each.
        outputs: list for hellos.
        on_users: called with the time when served users have changed, ns.
        on_generation: called with the time when a neighbour has another generation, ns.
        start: when hellos begin, ns.

    Attributes:
        generation: of this node; it changes with the set of carried feeds.
        hello_at: when the next hello is due, ns; None after end().
    """

    def __init__(
        self,
        terms: Terms,
        homes: Iterable[Identity],
        community: Community,
        surroundings: Surroundings,
        rng: Random,
        counters: Counter[str],
        outputs: list[bytes],
        on_users: Callable[[int], None],
        on_generation: Callable[[int], None],
        start: int,
    ) -> None:
        self.generation = rng.getrandbits(48)
        self.hello_at: int | None = start
        self._terms = terms
        self._homes = {identity.ref: identity for identity in homes}
        self._community = community
        self._surroundings = surroundings
        self._rng = rng
        self._counters = counters
        self._outputs = outputs
        self._on_users = on_users
        self._on_generation = on_generation
        self._places: dict[str, _Place] = {}
        self._neighbours: dict[int, _Neighbour] = {}
        self._up: set[int] = set()
        self._own: dict[str, Attachment] = {}
        self._spread: dict[str, int] = {}  # user -> time of the last forwarded attachment
        self._lasts = _HELLOS_MISSED * terms.hello_ms * MS

    def generation_of(self, face: int) -> int | None:
        """Return the generation of the neighbour at a face; None if it has no keeper."""
        neighbour = self._neighbours.get(face)
        return None if neighbour is None else neighbour.generation

    def place(self, user: str) -> int | None:
        """Return the face towards a user; None for a user of this node, or at no neighbour."""
        place = self._places.get(user)
        return None if place is None else place.face

    @property
    def places(self) -> int:
        """The number of users whose place is known."""
        return len(self._places)

    def announce(self, now: int) -> None:
        """Announce a new generation soon, as this node carries other feeds."""
        self.generation += 1
        assert self.hello_at is not None
        self.hello_at = min(self.hello_at, now)

    def end(self) -> None:
        """Send the last hello."""
        self.hello_at = None
        self._outputs.append(make_hello(Hello(self.generation, ()), self._rng.getrandbits(32)))
        self._neighbours.clear()

    def check_faces(self, now: int) -> None:
        """Send a hello to neighbours at faces that are up now; remove those at faces that are down."""
        up = {number for number, face in self._surroundings.faces.items() if face.is_up and not face.is_local}
        if up != self._up:
            if up - self._up and self.hello_at is not None:
                self._send_hello(now)
            for face in self._up - up:
                self._neighbours.pop(face, None)
                self._surroundings.reconsider(face)
            self._up = up

    def wake(self, now: int) -> None:
        """Expire neighbours and users without recent hellos, and send a hello, if it is due."""
        if self.hello_at is None or now < self.hello_at:
            return
        for face, neighbour in list(self._neighbours.items()):
            if neighbour.until <= now:
                del self._neighbours[face]
                self._surroundings.reconsider(face)
        for user, place in list(self._places.items()):
            if place.until <= now:
                self._detach(user, place.face)
                self._on_users(now)
        self._send_hello(now)

    def _send_hello(self, now: int) -> None:
        self.hello_at = now + self._terms.hello_ms * MS
        for user, identity in self._homes.items():
            if user not in self._own or now >= self._own[user].time + self._terms.hello_ms * MS:
                self._own[user] = Attachment.sign(identity, now)
        attachments = [*self._own.values()]
        if self._terms.spreads and self._terms.serves_neighbours:  # else this node refuses their Interests
            attachments += [place.attachment for place in self._places.values()]
            attachments = [each for each in attachments if each.time > self._spread.get(each.user, -1)]
            self._spread |= {each.user: each.time for each in attachments}
        for begin in range(0, max(len(attachments), 1), MOST_ATTACHMENTS):
            hello = Hello(self.generation, tuple(attachments[begin : begin + MOST_ATTACHMENTS]))
            self._outputs.append(make_hello(hello, self._rng.getrandbits(32)))

    def on_hello(self, packet: bytes, now: int) -> list[str]:
        """Process a neighbour's hello; return the users whose attachments are new in it."""
        try:
            header = parse_lp(packet)
            hello = read_hello(parse_interest(header.fragment))
        except MalformedPacket:
            self._counters["hellos"] += 1
            return []
        face = header.incoming_face
        if self.hello_at is None or face is None or face not in self._surroundings.faces:
            return []
        if face not in self._neighbours:
            self._neighbours[face] = _Neighbour()
            self._spread.clear()  # a new neighbour has none of them
        neighbour = self._neighbours[face]
        if neighbour.generation != hello.generation:
            neighbour.generation = hello.generation
            self._surroundings.reconsider(face)
            self._on_generation(now)
        neighbour.until = now + self._lasts
        terms = self._terms
        if not terms.serves_neighbours and not terms.spreads and not terms.neighbour_hops:
            neighbour.users = {each.user: None for each in hello.attachments[:MOST_USERS_OF_FACE]}
            return []
        new = [each.user for each in hello.attachments if self._attach(face, each, now)]
        if not self._terms.spreads and not hello.attachments:  # many attachments are in several hellos
            for user in list(neighbour.users):
                self._detach(user, face)
            self._on_users(now)
        elif new:
            self.hello_at = min(self.hello_at, now + SOON)
        return new

    def _attach(self, face: int, attachment: Attachment, now: int) -> bool:
        """Attach a user at a neighbour, or renew the attachment; return whether it is new."""
        user = attachment.user
        place = self._places.get(user)
        if user in self._homes or (place is not None and attachment.time <= place.attachment.time):
            return False
        if place is None and attachment.time + self._lasts <= now:
            self._counters["old attachments"] += 1
            return False
        users = self._neighbours[face].users
        most = MOST_USERS if self._terms.spreads else MOST_USERS_OF_FACE
        if place is None and (len(self._places) >= MOST_USERS or len(users) >= most):
            self._counters["users"] += 1
            return False
        if not attachment.is_signed():
            self._counters["attachments"] += 1
            return False
        if place is not None and place.face != face:
            moved = self._neighbours.get(place.face)
            if moved is not None:
                moved.users.pop(user, None)
        users[user] = None
        self._places[user] = _Place(face, attachment, now + self._lasts)
        if place is None and self._terms.serves_neighbours:
            self._community.attach(user, self._terms.hops)
            self._on_users(now)
        return True

    def _detach(self, user: str, face: int) -> None:
        place = self._places.get(user)
        if place is not None and place.face == face:
            del self._places[user]
            self._spread.pop(user, None)
            if user not in self._homes:
                self._community.detach(user)
        neighbour = self._neighbours.get(face)
        if neighbour is not None:
            neighbour.users.pop(user, None)
