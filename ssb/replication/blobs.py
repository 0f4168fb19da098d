"""Blobs between connected peers: each tells what it wants and has, and gets what another has.

On `blobs.createWants`, a source that each side calls at the other, objects tell about blobs: a number below
0 is a want, and says how many hops it has come; one from 0 on is the size of a blob that the sender has and
the receiver has wanted. What a remote wants (-n) and this peer does not have, it wants on the remote's behalf
(-n - 1), and passes it on when it has it. Nobody passes on a want of -3. So a blob crosses two peers that
nobody there has asked, as with npm's ssb-blobs, whose `sympathy` is 3. `blobs.get` is a source of a blob's
bytes. (Scuttlebutt Protocol Guide, "Blobs".)

A want on behalf of others lasts as long as a remote has a nearer one. So two peers that want a blob on each
other's behalf cannot keep the want alive. What a remote wants or offers beyond the limits is not looked
at; it is no fault, as stock peers have no limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ssb.canonical import InvalidJson, Value, parse, stringify
from ssb.keys import InvalidRef, parse_blob
from ssb.store.blobs import MAX_SIZE, BlobStore, Incoming
from ssb.transport.muxrpc import BodyType

CREATE_WANTS: Final = ("blobs", "createWants")
GET: Final = ("blobs", "get")
HAS: Final = ("blobs", "has")
SIZE: Final = ("blobs", "size")

_OWN = -1
_FARTHEST = -3
_PIECE = 1 << 16


class InvalidRequest(ValueError):
    """The arguments of a call, or a part of a stream of wants, are not what they should be; says why."""


class BlobLimits(NamedTuple):
    """A blob that is being fetched, and its requesters.

    Attributes:
        max_size: bytes of the largest blob that is fetched.
        wants: blobs that a remote may want at once, and that are wanted on behalf of all remotes together.
        fetches: blobs that are fetched at once on one connection.
    """

    max_size: int = MAX_SIZE
    wants: int = 1_000
    fetches: int = 4


DEFAULT_LIMITS: Final = BlobLimits()


class BlobSource:
    """The answering side of `blobs.get`.

    Args:
        blobs: where the bytes are.
        arguments: of the call: a reference, or an object with `hash` or `key`, and maybe `size` and `max`.
            Raises InvalidRequest, also for a blob that is not here.
    """

    body_type = BodyType.BINARY

    def __init__(self, blobs: BlobStore, arguments: Sequence[Value]) -> None:
        options = arguments[0] if arguments else None
        if not isinstance(options, dict):
            options = {"hash": options}
        self._blob = read_reference(options.get("hash", options.get("key")))
        self._blobs = blobs
        size = blobs.size(self._blob)
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
        """Whether there are bytes to be sent."""
        return not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether all bytes are sent."""
        return self._sent >= self._size

    def take_output(self, room: int) -> list[bytes]:
        """Return the next parts of the stream, about `room` bytes at most; it may be that it gets shorter."""
        parts = []
        while room > 0 and not self.is_over:
            part = self._blobs.read(self._blob, self._sent, min(_PIECE, self._size - self._sent))
            parts.append(part)
            self._sent += len(part)
            room -= len(part)
        return parts


@dataclass(slots=True)
class _Session:
    """A connection.

    Attributes:
        told: what the remote was told: blob -> want or size.
        news: what it is to be told.
        wants: what it wants.
        has: what it has said that it has, with sizes.
        fetching: what is being fetched from it.
    """

    told: dict[str, int] = field(default_factory=dict)
    news: dict[str, int] = field(default_factory=dict)
    wants: dict[str, int] = field(default_factory=dict)
    has: dict[str, int] = field(default_factory=dict)
    fetching: dict[str, Incoming] = field(default_factory=dict)


class Blobs:
    """Blobs that a peer wants, has and fetches, over all connections.

    Args:
        store: where blobs are kept.
        limits: see BlobLimits.
    """

    def __init__(self, store: BlobStore, limits: BlobLimits = DEFAULT_LIMITS) -> None:
        self._store = store
        self._limits = limits
        self._wanted: dict[str, int] = {}
        self._sessions: dict[int, _Session] = {}
        self._news: list[str] | None = None
        self._gone: list[str] = []  # blobs that are wanted no more, while news is collected

    @property
    def store(self) -> BlobStore:
        """Interface of a blob store."""
        return self._store

    @property
    def wanted(self) -> dict[str, int]:
        """Blobs that are wanted: -1 for this peer's own wants, -2 and -3 on behalf of others."""
        return self._wanted

    def want(self, blob: str) -> bool:
        """Fetch a blob as soon as anybody has it; return whether it is here already. Raises InvalidRef."""
        parse_blob(blob)
        if self._store.size(blob) is not None:
            return True
        self._add_want(blob, _OWN)
        return False

    def is_asked_for(self, blob: str) -> bool:
        """Tell whether a connected peer wants a blob for itself."""
        return self._nearest(blob) == _OWN

    def unwant(self, blob: str) -> None:
        """Fetch a blob no more; others are told again if it is wanted again."""
        self._want_no_more(blob)
        for session in self._sessions.values():
            session.news.pop(blob, None)
            session.told.pop(blob, None)

    def take_news(self) -> list[str]:
        """Return the blobs that are wanted since the last call; the first call begins to collect them."""
        news, self._news = self._news or [], []
        return news

    def take_gone(self) -> list[str]:
        """Return the blobs that have come, or are wanted no more, since the last call; see take_news()."""
        gone, self._gone = self._gone, []
        return gone

    def _want_no_more(self, blob: str) -> None:
        if self._wanted.pop(blob, None) is not None and self._news is not None:
            self._gone.append(blob)

    def added(self, blob: str) -> None:
        """Tell those who want a blob that it is here."""
        self._want_no_more(blob)
        size = self._store.size(blob)
        for session in self._sessions.values():
            if size is not None and session.wants.pop(blob, None) is not None:
                session.news[blob] = size

    def open(self, number: int) -> None:
        """Begin with a connection."""
        self._sessions[number] = _Session(news=dict(self._wanted))

    def close(self, number: int) -> None:
        """End with a connection; what was being fetched there is fetched from others."""
        session = self._sessions.pop(number, None)
        if session is not None:
            for incoming in session.fetching.values():
                incoming.abort()
            self._forget_behalves()

    def receive(self, number: int, body: bytes) -> None:
        """Take in a part of the remote's stream of wants; raise InvalidRequest."""
        try:
            told = parse(body.decode())
        except (InvalidJson, UnicodeDecodeError) as error:
            raise InvalidRequest(f"wants that cannot be read: {error}") from None
        if not isinstance(told, dict):
            raise InvalidRequest("wants that are no object")
        session = self._sessions[number]
        for blob, value in told.items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidRequest("a want that is no number")
            try:
                parse_blob(blob)
            except InvalidRef:
                continue
            if value < 0:
                self._take_want(session, blob, value)
            elif blob in self._wanted and value <= self._limits.max_size:
                session.has[blob] = value

    def has_output(self, number: int) -> bool:
        """Whether there is something to tell the remote of a connection."""
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
        """Return the blobs to be got on a connection from now on: `fetched` and `finished` have to follow."""
        session = self._sessions[number]
        chosen = []
        for blob, size in session.has.items():
            if len(session.fetching) >= self._limits.fetches:
                break
            if blob in self._wanted and not any(blob in other.fetching for other in self._sessions.values()):
                session.fetching[blob] = self._store.receive(blob, max_size=min(size, self._limits.max_size))
                chosen.append(blob)
        return chosen

    def fetched(self, number: int, blob: str, data: bytes) -> None:
        """Take in bytes of a blob; raise RefusedBlob if they are too many."""
        incoming = self._sessions[number].fetching.get(blob)
        if incoming is not None:
            incoming.write(data)

    def finished(self, number: int, blob: str, error: str) -> None:
        """Take note that all bytes of a blob have come, or that they do not; raise RefusedBlob."""
        session = self._sessions[number]
        incoming = session.fetching.pop(blob, None)
        session.has.pop(blob, None)
        if incoming is None:
            return
        if error:
            incoming.abort()
            return
        incoming.finish()
        self.added(blob)

    def _take_want(self, session: _Session, blob: str, want: int) -> None:
        if blob not in session.wants and len(session.wants) >= self._limits.wants:
            return
        session.wants[blob] = want
        if self._store.size(blob) is not None:
            self.added(blob)
        elif want > _FARTHEST and (blob in self._wanted or len(self._wanted) < self._limits.wants):
            self._add_want(blob, want - 1)

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

    def _forget_behalves(self) -> None:
        """Want no more on behalf of remotes that have left."""
        for blob, want in list(self._wanted.items()):
            nearest = self._nearest(blob)
            if want == _OWN or nearest > want:
                continue
            if nearest > _FARTHEST:
                self._wanted[blob] = nearest - 1
            else:
                self.unwant(blob)


def read_reference(value: Value) -> str:
    """Return a blob's reference as it came in a call; raise InvalidRequest if it is none."""
    if not isinstance(value, str):
        raise InvalidRequest("no reference of a blob")
    try:
        parse_blob(value)
    except InvalidRef as error:
        raise InvalidRequest(str(error)) from None
    return value
