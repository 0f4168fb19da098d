"""The contents of detached messages (`ssb.detached`), of which a peer may hold some and lack others.

A log is verified and passed on without them. For each detached message a content is in one of three states:
*present*; *lacking*, as it has not arrived yet; or *dropped*, because its author has asked for that or this
peer's user has. A dropped content is not fetched again, nor for others.

A peer drops a blob only when it has seen that it is the content of dropped messages and of no other. So a log
that names the hash of another's picture or content, and asks to delete it, has no effect on it.
"""

from collections import defaultdict
from enum import Enum
from typing import Any, NamedTuple

from ssb.detached import InvalidContent, Reference, attach, reference_of, requested_by
from ssb.message import Message
from ssb.store.blobs import BlobStore


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

    The rest of its state follows from the logs: after a start, add all messages of the types DETACHED and
    DELETE again, and drop again what the user has dropped.

    Args:
        blobs: the store.
        obeys: authors' requests to delete are obeyed.
    """

    def __init__(self, blobs: BlobStore, *, obeys: bool = True) -> None:
        self._blobs = blobs
        self._obeys = obeys
        self._claims: dict[str, _Claim] = {}
        self._claiming: defaultdict[str, list[str]] = defaultdict(list)
        self._dropped: set[str] = set()
        self._refused: dict[str, str] = {}  # blobs dropped here -> their authors
        self._changed: dict[str, None] = {}

    def add(self, message: Message) -> None:
        """Add a message of a feed, after all earlier ones; other types have no effect."""
        reference = reference_of(message)
        if reference is not None and message.id not in self._claims:
            self._claims[message.id] = _Claim(message.author, reference)
            self._claiming[reference.blob].append(message.id)
            if self._refused.get(reference.blob) == message.author:  # written once more
                del self._refused[reference.blob]
            self._changed[reference.blob] = None
        elif self._obeys:
            for named in requested_by(message):
                if named in self._claims and self._claims[named].author == message.author:
                    self.drop(named)

    def drop(self, id: str) -> None:  # noqa: A002 - the field's own name
        """Drop the content of a message, whoever has written it. Raises KeyError if it is not detached."""
        blob = self._claims[id].reference.blob
        self._dropped.add(id)
        self._changed[blob] = None
        self.keeps(blob)

    def keeps(self, blob: str) -> bool:
        """Return whether a blob that is here, or has arrived, may stay; remove it if not."""
        named = self._claiming.get(blob, ())
        if self._dropped.isdisjoint(named) or self._blobs.size(blob) is None:
            return True
        owners = [id_ for id_ in named if self._content(id_) is not None]
        if not owners or not self._dropped.issuperset(owners):
            return True
        self._blobs.remove(blob)
        self._refused[blob] = self._claims[owners[0]].author
        return False

    def wants(self, blob: str) -> bool:
        """Whether a message that is not dropped lacks this blob."""
        named = self._claiming.get(blob, ())
        return self._blobs.size(blob) is None and not self._dropped.issuperset(named)

    def refuses(self, blob: str) -> bool:
        """Whether a blob has been dropped here, and so is not fetched for others."""
        return blob in self._refused

    def take_changed(self) -> list[str]:
        """Return the blobs whose wants() may have changed since the last call."""
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

    def _content(self, id_: str) -> dict[str, Any] | None:
        """Return a content in the store, also a dropped one."""
        author, reference = self._claims[id_]
        if self._blobs.size(reference.blob) != reference.size:
            return None
        try:
            return attach(author, reference, self._blobs.read(reference.blob))
        except (InvalidContent, KeyError):
            return None
