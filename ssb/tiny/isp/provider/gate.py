"""Limits of the rate at which a provider reads the feeds of its clients.

The feeds of a faster client are not requested until there are tokens again, so its commands wait on its own
disk. Commands that the provider itself causes are free: an answer, or a `fin` that is due. So nobody can use
up the limit of another.
"""

from collections.abc import Callable

from base.timers import Timers
from base.token_bucket import TokenBucket
from base.units import SECOND
from ssb.tiny.isp.lines import Gate
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node


class RateGate(Gate):
    """Reads the root feeds, control feeds and lines of clients at the pace of their terms.

    Args:
        node: replicates them.
        terms_with: returns the terms of a client, by its root feed.
    """

    def __init__(self, node: Node, terms_with: Callable[[bytes], Terms]) -> None:
        self._node = node
        self._terms_with = terms_with
        self._commands: dict[bytes, TokenBucket] = {}
        self._packets: dict[bytes, TokenBucket] = {}
        self._due: Timers[bytes] = Timers()

    def take_command(self, client: bytes, feed: bytes, now: int) -> bool:
        """Take a token for a client's next command.

        If there is none, return False, and withhold its feed until there are those of a second.
        """
        bucket = self._commands_of(client, now)
        if bucket.take(now):
            return True
        self.close(feed, bucket.due(max(SECOND // self._terms_with(client).pace, 1)))
        return False

    def take_packets(self, client: bytes, feed: bytes, packets: int, now: int) -> bool:
        """Likewise take tokens for the packets of the next entry of a client's line."""
        terms = self._terms_with(client)
        if terms.line_pace is None:
            return True
        if client not in self._packets:
            self._packets[client] = TokenBucket(terms.line_pace, terms.size, now)
        bucket = self._packets[client]
        if bucket.take(now, packets):
            return True
        self.close(feed, bucket.due(max(SECOND // terms.line_pace, 1)))
        return False

    def give_back_command(self, client: bytes, now: int) -> None:
        """Refund the token of a command."""
        self._commands_of(client, now).give_back()

    def give_back_packets(self, client: bytes, packets: int) -> None:
        """Refund the tokens of an entry that could not be processed."""
        if client in self._packets:
            self._packets[client].give_back(packets)

    def close(self, feed: bytes, due: int | None = None) -> None:
        """Withhold a feed until a time, ns; None for until `open`."""
        self._node.withheld.add(feed)
        if due is not None:
            self._due.set(feed, due)

    def open(self, feed: bytes, now: int) -> None:
        """Read a feed now, if no other time is set."""
        if feed not in self._due:
            self._due.set(feed, now)

    def next_deadline(self) -> int | None:
        """Return when the next feed can be read further, ns."""
        return self._due.next_deadline()

    def take_opened(self, now: int) -> list[bytes]:
        """Return the feeds whose time has passed; the node requests them again."""
        opened = self._due.expire(now)
        for feed in opened:
            self._node.release(feed, now)
        return opened

    def _commands_of(self, client: bytes, now: int) -> TokenBucket:
        if client not in self._commands:
            terms = self._terms_with(client)
            self._commands[client] = TokenBucket(terms.pace, terms.burst, now)
        return self._commands[client]
