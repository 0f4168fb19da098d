"""The contents of detached messages (`ssb.detached`), of which a peer may hold some and lack others.

A log is verified and passed on without them. For each detached message a content is in one of three states:
*present*; *lacking*, as it has not arrived yet; or *dropped*, because its author or
this peer's user has asked for that. A dropped content is not fetched again, not even for others.

A peer drops a blob only when it has seen that it is the content of dropped messages and of no other. So a log
that names the hash of another's picture or content, and asks to delete it, has no effect on it. A blob names
its author, its size and its type, so one reading shows which messages it is the content of.

A peer fetches the contents of each author up to a quota, in the order of the log; deletions make room.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from hashlib import sha256
from typing import Any, Final, NamedTuple

from ssb.detached import InvalidContent, Reference, attach, opened, reference_of, requested_by
from ssb.keys import blob_ref
from ssb.message import Message
from ssb.store.blobs import BlobStore

QUOTA: Final = 100 << 20
"""Bytes of contents that are fetched of one author: 20 of the largest blobs, or 300,000 posts of 330 bytes.

Contents come unasked, also from friends of friends. So the largest logs of 150 authors take 15 GB of a disk.
"""


class State(Enum):
    """State of a detached message's content."""

    PRESENT = "present"
    LACKING = "lacking"
    DROPPED = "dropped"


class _Claim(NamedTuple):
    author: str
    reference: Reference


class Contents:
    """The contents of detached messages in a store of blobs.

    The rest of its state follows from the logs and two lists of messages: see restore().

    Args:
        blobs: the store.
        obeys: authors' requests to delete are obeyed.
        quota: bytes of contents that are wanted of one author.
        on_deletion: called with the id of a message before its blob is deleted.
    """

    def __init__(
        self,
        blobs: BlobStore,
        *,
        obeys: bool = True,
        quota: int = QUOTA,
        on_deletion: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._blobs = blobs
        self._obeys = obeys
        self._quota = quota
        self._on_deletion = on_deletion
        self._claims: dict[str, _Claim] = {}
        self._dropped: set[str] = set()
        self._live: Counter[_Claim] = Counter()  # messages that are not dropped
        self._dead: defaultdict[str, dict[_Claim, str]] = defaultdict(dict)  # all dropped -> one of them
        self._sizes: defaultdict[str, Counter[int]] = defaultdict(Counter)  # of live claims within the quota
        self._bytes: Counter[str] = Counter()  # of an author's live claims within the quota
        self._over: defaultdict[str, dict[_Claim, None]] = defaultdict(dict)  # and those beyond, by author
        self._owners: dict[str, _Claim | None] = {}  # blobs that have been read
        self._changed: dict[tuple[str, str], None] = {}

    def restore(self, messages: Iterable[Message], dropped: Iterable[str], deleted: Iterable[str]) -> None:
        """Restore the state after a start.

        Args:
            messages: all messages of all feeds, or at least those of the types DETACHED and DELETE.
            dropped: ids of the messages whose contents the user has dropped.
            deleted: ids of the messages whose blobs have been deleted.
        """
        for message in messages:
            self.add(message)
        for each in dropped:
            with suppress(KeyError):  # its feed is not here any more
                self.drop(each)
        for each in deleted:
            self._refuse(each)

    def add(self, message: Message) -> None:
        """Add a message of a feed, after all earlier ones; other types have no effect."""
        reference = reference_of(message)
        if reference is not None and message.id not in self._claims:
            claim = self._claims[message.id] = _Claim(message.author, reference)
            self._dead[reference.blob].pop(claim, None)
            self._live[claim] += 1
            if self._live[claim] == 1 and reference.size <= self._quota:
                self._over[claim.author][claim] = None
                if self._fits(claim):
                    self._admit(claim)
        elif self._obeys:
            for named in requested_by(message):
                if named in self._claims and self._claims[named].author == message.author:
                    self.drop(named)

    def drop(self, id: str) -> None:  # noqa: A002 - the field's own name
        """Drop the content of a message, whoever has written it. Raises KeyError if it is not detached."""
        claim = self._claims[id]
        if id in self._dropped:
            return
        self._dropped.add(id)
        self._live[claim] -= 1
        if self._live[claim]:
            return
        del self._live[claim]
        self._release(claim)
        self._dead[claim.reference.blob][claim] = id
        self.keeps(claim.reference.blob)

    def keeps(self, blob: str) -> bool:
        """Return whether a blob that is here, or has arrived, may stay; remove it if not."""
        dead = self._dead.get(blob)
        if not dead or self._blobs.size(blob) is None:
            return True
        owner = self._owner(blob)
        if owner is None or owner not in dead:
            return True
        self._on_deletion(dead[owner])
        self._blobs.remove(blob)
        return False

    def wants(self, blob: str) -> bool:
        """Whether a message that is not dropped lacks this blob, within its author's quota."""
        return self.needs(blob) and self._blobs.size(blob) is None and not self.refuses(blob)

    def needs(self, blob: str) -> bool:
        """Whether a blob is, or may be, the content of a message that is not dropped, within the quota."""
        return bool(self._sizes.get(blob))

    def expects(self, blob: str, size: int) -> bool:
        """Whether a blob of so many bytes may be a wanted content."""
        return size in self._sizes.get(blob, ())

    def refuses(self, blob: str) -> bool:
        """Whether a blob has been dropped here, and so is not fetched for others."""
        owner = self._owners.get(blob)
        return owner is not None and owner in self._dead.get(blob, ())

    def take_changed(self) -> list[tuple[str, str]]:
        """Return the blobs whose wants() may have changed since the last call, each after its author."""
        changed, self._changed = [*self._changed], {}
        return changed

    def state(self, id: str) -> State:  # noqa: A002 - the field's own name
        """Return the state of a message's content. Raises KeyError if it is not detached."""
        if id in self._dropped:
            return State.DROPPED
        self._claims[id]
        return State.LACKING if self._content(id) is None else State.PRESENT

    def content(self, id: str) -> dict[str, Any] | None:  # noqa: A002 - the field's own name
        """Return a message's content; None if it is lacking or dropped. Raises KeyError likewise."""
        return self._content(id) if self.state(id) is State.PRESENT else None

    def _refuse(self, id_: str) -> None:
        """Note that the blob of a message was its content, and has been deleted."""
        claim = self._claims.get(id_)
        if claim is not None:
            self._owners[claim.reference.blob] = claim

    def _content(self, id_: str) -> dict[str, Any] | None:
        author, reference = self._claims[id_]
        if self._blobs.size(reference.blob) != reference.size:
            return None
        try:
            return attach(author, reference, self._blobs.read(reference.blob))
        except (InvalidContent, KeyError):
            return None

    def _owner(self, blob: str) -> _Claim | None:
        """Return the only claim to a blob that is true; None if it is no content. It is read only once."""
        if blob in self._owners:
            return self._owners[blob]
        try:
            data = self._blobs.read(blob)
        except KeyError:
            return None
        if blob_ref(sha256(data).digest()) != blob:  # damaged
            return None
        owner = None
        with suppress(InvalidContent):
            author, content = opened(data)
            kind = content.get("type") if isinstance(content, dict) else None
            if isinstance(author, str) and isinstance(kind, str):
                owner = _Claim(author, Reference(kind, len(data), blob))
        self._owners[blob] = owner
        return owner

    def _fits(self, claim: _Claim) -> bool:
        return self._bytes[claim.author] + claim.reference.size <= self._quota

    def _admit(self, claim: _Claim) -> None:
        author, (_, size, blob) = claim
        del self._over[author][claim]
        self._bytes[author] += size
        self._sizes[blob][size] += 1
        self._changed[author, blob] = None

    def _release(self, claim: _Claim) -> None:
        """Take a claim from its author's quota, and admit those for which there is room now."""
        if claim.reference.size > self._quota:
            return
        over = self._over[claim.author]
        if claim in over:
            del over[claim]
        else:
            self._take_out(claim)
        while over and self._fits(first := next(iter(over))):
            self._admit(first)

    def _take_out(self, claim: _Claim) -> None:
        author, (_, size, blob) = claim
        self._bytes[author] -= size
        self._sizes[blob][size] -= 1
        if not self._sizes[blob][size]:
            del self._sizes[blob][size]
        self._changed[author, blob] = None
