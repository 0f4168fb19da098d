"""The log of a forwarder that follows its neighbours, as a pub follows its customers."""

from collections.abc import Callable, Sequence

from ssb.generate import FIRST_TIMESTAMP
from ssb.graph import CONTACT
from ssb.keys import Identity
from ssb.message import Message
from ssb_over_ndn.social.community import MOST_STATEMENTS


class OwnLog:
    """A forwarder's log of follows. It never takes one back: who carries logs between places has to hold them
    after it has left one. A log has no way to forget: each message names the one before. So it ends with the
    last follow that a keeper reads of one author; who is met later is not followed.

    Args:
        identity: the forwarder's.
        messages: what it has written before.
        written: called with each message that it writes.

    Attributes:
        identity: see above.
        refused: how often somebody was met whom the log has no room to follow.
    """

    def __init__(
        self, identity: Identity, messages: Sequence[Message], written: Callable[[Message], None]
    ) -> None:
        self.identity = identity
        self.refused = 0
        self._tip = messages[-1] if messages else None
        self._written = written
        contents = (message.content for message in messages)
        self._followed = {content["contact"] for content in contents if isinstance(content, dict)}

    def follow(self, user: str) -> Message | None:
        """Follow a user; return the message that says so, None if one does already, or the log is full."""
        if user in self._followed:
            return None
        if len(self._followed) >= MOST_STATEMENTS:
            self.refused += 1
            return None
        self._followed.add(user)
        content = {"type": CONTACT, "contact": user, "following": True}
        self._tip = Message.create(self.identity, self._tip, content, FIRST_TIMESTAMP + len(self._followed))
        self._written(self._tip)
        return self._tip
