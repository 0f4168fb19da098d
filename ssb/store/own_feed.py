"""The local feed: no message is signed where a later one may exist.

`ssb.store.mark` states the invariant. The mark lies beside the identity, the only file left when a store is
lost. The store is in doubt when it was restored or copied, when messages of its own feed were imported, and
when an identity has no mark: from a stock peer, or alone from a backup. Then nothing is published before
peers were queried (`ssb.daemon.recovery`), or the user declares that nobody has more.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final

from ssb.keys import Identity
from ssb.message import Message
from ssb.store.feeds import StoreError
from ssb.store.mark import Mark, Seen
from ssb.store.sqlite import SqliteFeeds

UNKNOWN: Final = "nothing here tells how many messages it has"
_COPIED: Final = "this directory was restored or copied"
_SHORT: Final = "messages of it are missing here"


class UnsureFeed(StoreError):
    """Later messages of the own feed may be elsewhere, so none is signed; the message has the remedies."""


class OwnFeed:
    """The feed of an identity in a store.

    Args:
        feeds: the store, open for writing.
        identity: its author.
        path: of the mark.
        is_new: the identity was just created: nobody can have seen anything.
        doubt: a reason for doubt that the caller knows.

    Raises StoreError if the mark cannot be read or written.

    Attributes:
        known: number of the last message that others may have seen.
        doubt: why there may be later ones elsewhere; "" for no doubt.
    """

    def __init__(
        self, feeds: SqliteFeeds, identity: Identity, path: Path, *, is_new: bool = False, doubt: str = ""
    ) -> None:
        self._feeds = feeds
        self._identity = identity
        self._mark = Mark(path, feeds.lock_path)
        self.feed = identity.ref
        self.doubt = doubt
        self.known = self.tip
        try:
            seen = self._mark.read()
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None
        if not is_new:
            self._compare(seen)
        if self._mark.is_copy or seen != Seen(self.feed, self.known, doubt=self.doubt):
            self._write(self.known, self.doubt)

    @property
    def tip(self) -> int:
        """Number of the last message held here; it and earlier ones may be damaged."""
        return self._feeds.last(self.feed)

    @property
    def is_damaged(self) -> bool:
        """Whether messages of it are damaged here, to be fetched again from others."""
        return self.feed in self._feeds.damaged()

    def check(self) -> None:
        """Raise UnsureFeed if later messages may be elsewhere."""
        self._check_process()
        if self.doubt:
            raise UnsureFeed(f"{self._mark.path.parent}: nothing is published: {self.why()}")

    def publish(
        self,
        content: Mapping[str, Any] | str,
        now_ms: float,
        on_signed: Callable[[Message], None] | None = None,
        publish: Callable[..., Message] | None = None,
    ) -> Message:
        """Sign content as the next message; when it returns, message and mark are durable.

        `publish` is called in place of FeedStore.publish(), which also explains `on_signed`. Raises
        UnsureFeed, and the errors of that.
        """
        self.check()
        message = (publish or self._feeds.publish)(self._identity, content, now_ms, on_signed)
        self.advance()
        return message

    def advance(self) -> None:
        """Update the mark for new messages in the store."""
        if self.tip > self.known:
            self._write(self.tip, self.doubt)

    def question(self, doubt: str, known: int = 0) -> None:
        """Publish nothing until settle(); `known` is the number of a message seen elsewhere."""
        known = max(self.known, known)
        if (doubt, known) != (self.doubt, self.known):
            self._write(known, doubt)

    def settle(self) -> None:
        """Continue after the last message held here: nobody has a later one."""
        self._write(self.tip, "")

    def why(self) -> str:
        """Return the reason why nothing is published, and the remedies."""
        here = f"{self.tip} are here" + (f" of {self.known}" if self.known > self.tip else "")
        command = f"feednet ssb --path {quote(str(self._mark.path.parent))}"
        return (
            f"later messages of your feed may be elsewhere, and to write over them would fork it "
            f"({self.doubt}; {here}). Run `{command} peer`, and connect with a peer that has your feed: "
            "it is fetched, and goes on. If nobody has more than is here, say so once: "
            f"`{command} --new-feed status`"
        )

    def _compare(self, seen: Seen | None) -> None:
        """Compare the mark with this store."""
        if seen is None or seen.feed != self.feed:
            self.doubt = self.doubt or UNKNOWN
            return
        self.known = max(seen.number, self.tip)
        self.doubt = self.doubt or seen.doubt
        if self.known > self.tip:
            self.doubt = self.doubt or _SHORT
        if self._mark.is_copy:
            self.doubt = self.doubt or _COPIED

    def _check_process(self) -> None:
        try:
            self._mark.check_process()
        except OSError as error:
            raise StoreError(str(error)) from None

    def _write(self, known: int, doubt: str) -> None:
        try:
            self._mark.write(Seen(self.feed, known, doubt=doubt))
        except OSError as error:
            raise StoreError(f"{self._mark.path}: {error.strerror or error}") from None
        self.known, self.doubt = known, doubt
