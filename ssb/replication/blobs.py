"""Blobs between connected peers: wants, offers and transfers.

On `blobs.createWants`, a source that each side calls at the other, objects announce blobs: a number below 0
is a want, with its distance in hops; one from 0 on is the size of a blob that the sender has and the receiver
has wanted. If a remote wants a blob (-n) that this peer lacks, it wants the blob on the remote's behalf (-n -
1), and forwards it on arrival. A want of -3 is not forwarded. So a blob crosses two peers whose users have
not requested it, as with npm's ssb-blobs, whose `sympathy` is 3. `blobs.get` is a source of a blob's bytes.
(Scuttlebutt Protocol Guide, "Blobs".)

A want on behalf of others lasts as long as a remote has a nearer one. So two peers that want a blob on each
other's behalf cannot keep the want alive. Wants and offers beyond the limits are ignored; they are no fault,
as stock peers have no limits.

The contents of detached messages are such blobs (`ssb.store.contents`): a peer wants those that it lacks, and
neither keeps nor fetches those that it has dropped. So a peer without a content passes on the log alone.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from base.units import SECOND
from ssb.canonical import Value, stringify
from ssb.keys import InvalidRef, parse_blob
from ssb.message import Message
from ssb.replication.replication import InvalidRequest, read_object
from ssb.replication.storage import StorageLimit
from ssb.store.blobs import MAX_SIZE, BlobStore, Incoming
from ssb.store.contents import Contents
from ssb.transport.muxrpc import BodyType

CREATE_WANTS: Final = ("blobs", "createWants")
GET: Final = ("blobs", "get")
HAS: Final = ("blobs", "has")

_OWN = -1
_FARTHEST = -3
_PIECE = 1 << 16


class BlobLimits(NamedTuple):
    """Limits on wants and transfers.

    Attributes:
        max_size: bytes of the largest blob that is fetched.
        wants: most wants of a remote, and most wants on behalf of all remotes together.
        fetches: most concurrent fetches on one connection.
    """

    max_size: int = MAX_SIZE
    wants: int = 1_000
    fetches: int = 4


DEFAULT_LIMITS: Final = BlobLimits()


PATIENCE: Final = 30 * SECOND
"""Time within which a peer has to send more of a blob, ns; then others are asked."""


@dataclass(slots=True)
class BlobFetch:
    """A call of `blobs.get`: its blob, and when the peer was asked or has last sent some of it, ns."""

    blob: str
    heard: int

    @property
    def deadline(self) -> int:
        """When it is given up, ns."""
        return self.heard + PATIENCE


class BlobSource:
    """The answering side of `blobs.get`.

    Args:
        blobs: the store.
        arguments: of the call: a reference, or an object with `hash` or `key`, and maybe `size` and `max`.
            Raises InvalidRequest, also for a blob that is not held.

    Attributes:
        blob: its reference.
    """

    body_type = BodyType.BINARY

    def __init__(self, blobs: BlobStore, arguments: Sequence[Value]) -> None:
        options = arguments[0] if arguments else None
        if not isinstance(options, dict):
            options = {"hash": options}
        self.blob = read_reference(options.get("hash", options.get("key")))
        self._blobs = blobs
        size = blobs.size(self.blob)
        if size is None:
            raise InvalidRequest("the blob is not here")
        if options.get("size", size) != size:
            raise InvalidRequest(f"the blob has {size} bytes")
        most = options.get("max", size)
        if not isinstance(most, int) or most < size:
            raise InvalidRequest(f"the blob has {size} bytes, which is more than asked for")
        self._size = size
        self._sent = 0

    @property
    def has_output(self) -> bool:
        """Whether there are bytes to send."""
        return not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether all bytes are sent."""
        return self._sent >= self._size

    def take_output(self, room: int) -> list[bytes]:
        """Return the next parts of the stream, about `room` bytes at most."""
        parts = []
        while room > 0 and not self.is_over:
            try:
                part = self._blobs.read(self.blob, self._sent, min(_PIECE, self._size - self._sent))
            except KeyError:  # deleted meanwhile: the remote sees that it is too short
                self._size = self._sent
                break
            parts.append(part)
            self._sent += len(part)
            room -= len(part)
        return parts


@dataclass(slots=True)
class _Session:
    """A connection.

    Attributes:
        told: wants and sizes sent, by blob.
        news: wants and sizes to send.
        wants: of the remote.
        has: sizes of the blobs that the remote has announced.
        fetching: transfers from it.
    """

    told: dict[str, int] = field(default_factory=dict)
    news: dict[str, int] = field(default_factory=dict)
    wants: dict[str, int] = field(default_factory=dict)
    has: dict[str, int] = field(default_factory=dict)
    fetching: dict[str, Incoming] = field(default_factory=dict)


class Blobs:
    """The wants, offers and transfers of a peer, over all connections.

    Args:
        store: the store of blobs.
        limits: see BlobLimits.
        contents: the contents of detached messages in it; None: such messages are as any other.
        storage: a limit on all blobs; None for none.
    """

    def __init__(
        self,
        store: BlobStore,
        limits: BlobLimits = DEFAULT_LIMITS,
        contents: Contents | None = None,
        storage: StorageLimit | None = None,
    ) -> None:
        self._store = store
        self._limits = limits
        self.contents = contents
        self._storage = storage
        self._wanted: dict[str, int] = {}
        self._lacking: dict[str, dict[str, None]] = {}  # contents to be wanted, by author
        self._asked: dict[str, str] = {}  # contents wanted as such, and not by want() -> their authors
        self._sessions: dict[int, _Session] = {}
        self._news: list[str] | None = None
        self._gone: list[str] = []  # wants ended, while changes are collected

    @property
    def store(self) -> BlobStore:
        """The store of blobs."""
        return self._store

    @property
    def wanted(self) -> dict[str, int]:
        """Wants: -1 for this peer's own, -2 and -3 on behalf of others."""
        return self._wanted

    def want(self, blob: str) -> bool:
        """Fetch a blob when a peer offers it; return whether it is held already. Raises InvalidRef."""
        parse_blob(blob)
        if self._store.size(blob) is not None:
            self.on_wanted_here(blob)
            return True
        self._asked.pop(blob, None)
        self._add_want(blob, _OWN)
        return False

    def on_wanted_here(self, blob: str) -> None:
        """Record that the user or a peer wants a blob that is here."""
        if self._storage is not None:
            self._storage.on_want(blob)

    def came(self, messages: Iterable[Message]) -> None:
        """Handle new messages of feeds: want contents of detached ones, drop those that are to be deleted."""
        if self.contents is not None:
            for message in messages:
                self.contents.add(message)
        self.update_contents()

    def update_contents(self) -> None:
        """Want the contents that are lacking, and no dropped one, after a change to `contents`."""
        if self.contents is None:
            return
        for author, blob in self.contents.take_changed():
            if self.contents.wants(blob):
                self._lacking.setdefault(author, {})[blob] = None
            elif blob in self._asked or self.contents.refuses(blob):
                self.unwant(blob)
        # Remotes ignore further wants, so the others wait here. Authors take turns. Each has fewer wants than
        # are free, so a log of contents that nobody has leaves room for others (dynamic threshold of a shared
        # buffer: Choudhury and Hahne, IEEE/ACM Transactions on Networking 6:2, 1998).
        shares = Counter(self._asked.values())
        turns = deque(self._lacking)
        while turns:
            author = turns.popleft()
            if shares[author] >= self._limits.wants // 2 - len(self._asked):
                continue
            lacking = self._lacking.pop(author)
            blob = next(iter(lacking))
            del lacking[blob]
            if lacking:  # at the end, where its next turn is
                self._lacking[author] = lacking
                turns.append(author)
            # It may have come for others, or be wanted by the user or on account of another author.
            if self.contents.wants(blob) and self._wanted.get(blob) != _OWN:
                self._asked[blob] = author
                shares[author] += 1
                self._add_want(blob, _OWN)

    def is_wanted_by_peer(self, blob: str) -> bool:
        """Whether a connected peer wants a blob for itself."""
        return self._nearest(blob) == _OWN

    def unwant(self, blob: str) -> None:
        """End a want; a later one is announced again."""
        self._end_want(blob)
        for session in self._sessions.values():
            session.news.pop(blob, None)
            session.told.pop(blob, None)

    def take_new_wants(self) -> list[str]:
        """Return the new wants since the last call; the first call begins to collect them."""
        news, self._news = self._news or [], []
        return news

    def take_ended_wants(self) -> list[str]:
        """Return the wants fulfilled or ended since the last call; see take_new_wants()."""
        gone, self._gone = self._gone, []
        return gone

    def _end_want(self, blob: str) -> None:
        self._asked.pop(blob, None)
        if self._wanted.pop(blob, None) is not None and self._news is not None:
            self._gone.append(blob)

    def announce(self, blob: str) -> None:
        """Announce a blob to the peers that want it."""
        self._end_want(blob)
        size = self._store.size(blob)
        if self._storage is not None and size is not None:
            self._storage.on_want(blob)
            self._storage.make_room()
        for session in self._sessions.values():
            if size is not None and session.wants.pop(blob, None) is not None:
                session.news[blob] = size

    def open(self, number: int) -> None:
        """Add a connection; contents that nobody had so far let others go first."""
        if self._lacking:
            for blob, author in [*self._asked.items()]:
                self.unwant(blob)
                self._lacking.setdefault(author, {})[blob] = None
            self.update_contents()
        self._sessions[number] = _Session(news=dict(self._wanted))

    def close(self, number: int) -> None:
        """Remove a connection; its transfers are repeated from others."""
        session = self._sessions.pop(number, None)
        if session is not None:
            for incoming in session.fetching.values():
                incoming.abort()
            self._update_delegated()

    def receive(self, number: int, body: bytes) -> None:
        """Process a part of the remote's stream of wants; raise InvalidRequest."""
        told = read_object(body, "wants")
        session = self._sessions[number]
        for blob, value in told.items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidRequest("a want that is no number")
            try:
                parse_blob(blob)
            except InvalidRef:
                continue
            if value < 0:
                self._on_want(session, blob, value)
            elif blob in self._wanted and value <= self._limits.max_size:
                session.has[blob] = value

    def has_output(self, number: int) -> bool:
        """Whether there are wants or sizes to send on a connection."""
        return bool(self._sessions[number].news)

    def take_output(self, number: int) -> list[bytes]:
        """Return the next parts of this peer's stream of wants on a connection."""
        session = self._sessions[number]
        if not session.news:
            return []
        news: dict[str, Value] = dict(session.news)
        session.told |= session.news
        session.news.clear()
        return [stringify(news, indent=0).encode()]

    def take_fetches(self, number: int) -> list[str]:
        """Return the blobs to fetch on a connection: `on_data` and `on_finished` have to follow."""
        session = self._sessions[number]
        chosen = []
        for blob, size in [*session.has.items()]:
            if len(session.fetching) >= self._limits.fetches:
                break
            if any(blob in other.fetching for other in self._sessions.values()):
                continue
            if blob not in self._wanted or not self._accepts(blob, size):
                continue
            if self._storage is not None and not self._storage.make_room(size):
                del session.has[blob]  # until it is offered again
            else:
                session.fetching[blob] = self._store.receive(blob, max_size=min(size, self._limits.max_size))
                chosen.append(blob)
        return chosen

    def on_data(self, number: int, blob: str, data: bytes) -> None:
        """Write bytes of a blob; raise RefusedBlob if they are too many."""
        incoming = self._sessions[number].fetching.get(blob)
        if incoming is not None:
            incoming.write(data)

    def on_finished(self, number: int, blob: str, error: str) -> None:
        """End a transfer, with an error if it is incomplete; raise RefusedBlob."""
        session = self._sessions[number]
        incoming = session.fetching.pop(blob, None)
        session.has.pop(blob, None)
        if incoming is None:
            return
        if error:
            incoming.abort()
            return
        incoming.finish()
        if self.contents is None or self.contents.keeps(blob):
            self.announce(blob)
        else:
            self.unwant(blob)
        self.update_contents()

    def _on_want(self, session: _Session, blob: str, want: int) -> None:
        if self.contents is not None and self.contents.refuses(blob):
            return
        if blob not in session.wants and len(session.wants) >= self._limits.wants:
            return
        session.wants[blob] = want
        if self._store.size(blob) is not None:
            self.announce(blob)
        elif want > _FARTHEST and (blob in self._wanted or len(self._wanted) < self._limits.wants):
            self._add_want(blob, want - 1)

    def _accepts(self, blob: str, size: int) -> bool:
        """Whether a blob of this size is fetched: one wanted only as a content needs the content's size."""
        if blob not in self._asked or self.contents is None or self._nearest(blob) > _FARTHEST:
            return True
        return self.contents.expects(blob, size)

    def _nearest(self, blob: str) -> int:
        """Return the nearest want of connected peers for a blob; _FARTHEST if there is none."""
        return max(
            (session.wants.get(blob, _FARTHEST) for session in self._sessions.values()), default=_FARTHEST
        )

    def _add_want(self, blob: str, want: int) -> None:
        if self._wanted.get(blob, want - 1) >= want:
            return
        if blob not in self._wanted and self._news is not None:
            self._news.append(blob)
        self._wanted[blob] = want
        for session in self._sessions.values():
            if session.told.get(blob) != want:
                session.news[blob] = want

    def _update_delegated(self) -> None:
        """Update the wants on behalf of remotes that have left."""
        for blob, want in list(self._wanted.items()):
            nearest = self._nearest(blob)
            if want == _OWN or nearest > want:
                continue
            if nearest > _FARTHEST:
                self._wanted[blob] = nearest - 1
            else:
                self.unwant(blob)


def read_reference(value: Value) -> str:
    """Return the reference of a blob in a call; raise InvalidRequest if it is malformed."""
    if not isinstance(value, str):
        raise InvalidRequest("no reference of a blob")
    try:
        parse_blob(value)
    except InvalidRef as error:
        raise InvalidRequest(str(error)) from None
    return value
