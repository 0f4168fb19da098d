"""A store of feeds in memory, for emulated peers and tests."""

from collections.abc import Mapping, Sequence

from ssb.canonical import parse, stringify
from ssb.message import ForkedFeed, InvalidMessage, Message
from ssb.store.feeds import Appended, Stored


class MemoryFeeds:
    """See FeedStore."""

    def __init__(self) -> None:
        self._feeds: dict[str, list[Message]] = {}
        self._tips: dict[str, int] = {}
        self._messages: dict[str, Message] = {}
        self._forks: dict[str, tuple[Message, Message]] = {}

    def tips(self) -> Mapping[str, int]:
        """See FeedStore."""
        return self._tips

    def append(self, messages: Sequence[Message], received: float) -> Appended:
        """See FeedStore."""
        stored = []
        refused: dict[str, InvalidMessage | ForkedFeed] = {}
        for message in messages:
            if message.author in refused:
                continue
            try:
                if self._append(message):
                    stored.append(message)
            except ForkedFeed as fork:
                self._forks[message.author] = fork.proof
                refused[message.author] = fork
            except InvalidMessage as error:
                refused[message.author] = error
        return Appended(stored, refused)

    def _append(self, message: Message) -> bool:
        feed = self._feeds.setdefault(message.author, [])
        held = feed[message.sequence - 1] if message.sequence <= len(feed) else None
        if held == message:
            return False
        message.verify()
        if held is not None:
            raise ForkedFeed(f"feed {message.author} is forked at {message.sequence}", held, message)
        message.follow(feed[-1] if feed else None)
        feed.append(message)
        self._tips[message.author] = message.sequence
        self._messages[message.id] = message
        return True

    def after(self, feed: str, sequence: int, limit: int) -> list[Stored]:
        """See FeedStore."""
        newer = self._feeds.get(feed, [])[sequence : sequence + limit]
        return [Stored(message.sequence, stringify(parse(message.text), 0).encode()) for message in newer]

    def get(self, reference: str) -> Message | None:
        """See FeedStore."""
        return self._messages.get(reference)

    def forks(self) -> Mapping[str, tuple[Message, Message]]:
        """See FeedStore."""
        return self._forks
