"""The two lines of data feeds of a contract: one is written, the other is read.

A data feed begins with `prev` and ends with `next`, which names its successor. Its reader then sends `fin`
on its control feed and drops it; then the writer drops it, too. Both replace it in the set by its successor,
and increment the epoch. A writer begins a feed only if fewer than `unread` are unread: until then data wait
at their source, until the next `fin`.

An unexplained entry stops the line: the command that explains it may be on its way. If none arrives within
`patience`, the other side has broken the contract. Its line is read no further, and its signed entry is kept
as evidence.
"""

from abc import ABC, abstractmethod
from collections import Counter
from typing import Protocol

from ssb.keys import Identity
from ssb.tiny.entry import packets_of
from ssb.tiny.feed import Whole
from ssb.tiny.isp.accusations import Accusations
from ssb.tiny.isp.evidence import NOBODYS
from ssb.tiny.isp.facts import FAREWELL, OPEN, Facts
from ssb.tiny.isp.messages import (
    FarewellFin,
    HopFin,
    HopNext,
    HopPrev,
    Message,
    is_tunnelled,
    read,
    write,
)
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node
from ssb.tiny.replica import Limit


class Party(Protocol):
    """Interface of a contract's owner."""

    node: Node
    gate: "Gate"
    accusations: Accusations
    faults: Counter[str]

    def new_identity(self) -> Identity:
        """Return a new key pair."""

    def on_control(self, contract: "Lines", entry: Whole, message: Message, now: int) -> None:
        """Process a command from the other's control feed that is not about the contract itself."""

    def on_data(self, contract: "Lines", content: bytes, now: int) -> bool:
        """Process an entry of the other's line; False if it has to wait."""

    def next_content(self, contract: "Lines", now: int) -> bytes | None:
        """Return the next content for the line, and count it as written; None for nothing."""

    def has_more(self, contract: "Lines") -> bool:
        """Whether there is more to write to a line that ends."""

    def on_state(self, contract: "Lines", now: int) -> None:
        """Handle a change of the contract's state."""

    def on_read(self, contract: "Lines", feed: bytes, now: int) -> None:
        """The other has read a feed of the own line to its end."""

    def on_broken(self, contract: "Lines", now: int) -> None:
        """The other has violated the protocol: its line is read no further."""


class Gate:
    """Limits the rate at which a party reads the feeds of others; this one has no limits."""

    def take_command(self, other: bytes, feed: bytes, now: int) -> bool:
        """Return whether to read the next entry of another's root or control feed now, and count it."""
        return True

    def give_back_command(self, other: bytes, now: int) -> None:
        """Uncount the last command: it cannot be read yet, or is free."""

    def take_packets(self, other: bytes, feed: bytes, packets: int, now: int) -> bool:
        """Return whether to read the next entry of another's line now, and count its packets."""
        return True

    def give_back_packets(self, other: bytes, packets: int) -> None:
        """Uncount the packets of the last entry: it cannot be read yet."""


class Lines(ABC):
    """The lines of a contract, which inherits them.

    Args:
        id: of the contract.
        facts: its durable state.
        party: the program.
        terms: agreed on before.

    Attributes:
        other: the other side's root feed.
    """

    other: bytes

    def __init__(self, id: bytes, facts: Facts, party: Party, terms: Terms) -> None:  # noqa: A002 - its name
        self.id = id
        self.facts = facts
        self.terms = terms
        self._party = party
        self._node = party.node
        self._store = party.node.store
        self._unexplained_since: int | None = None

    @property
    @abstractmethod
    def is_ending(self) -> bool:
        """Whether both sides know of the farewell."""

    @property
    @abstractmethod
    def is_overrun(self) -> bool:
        """Whether the other has too many unread answers; further requests are not answered."""

    @abstractmethod
    def save(self) -> None:
        """Store the durable state of the contract."""

    @abstractmethod
    def send_command(self, message: Message, now: int) -> bytes:
        """Write a command to the own control feed; return the entry's id."""

    @abstractmethod
    def _end(self, now: int) -> None:
        """End the contract, if both sides have read everything."""

    @property
    @abstractmethod
    def control_set(self) -> str:
        """The name of the set of control feeds."""

    @property
    def data_set(self) -> str:
        """The name of the set of data feeds."""
        return f"data{self.facts.client.hex()}{self.id.hex()}"

    @property
    def is_passable(self) -> bool:
        """Whether subscriptions may lead through it: both lines are read."""
        return self.facts.state == OPEN and not self.facts.is_broken

    def on_unexplained(self, now: int) -> None:
        """Record that the next entry of the other's line is unexplained."""
        if self._unexplained_since is None:
            self._unexplained_since = now

    @property
    def _patience_ends(self) -> int | None:
        """When an unexplained entry breaks the contract, ns."""
        if self._unexplained_since is None or self.facts.is_broken:
            return None
        return self._unexplained_since + self.terms.patience

    def _accuse_unexplained(self, now: int) -> None:
        self.accuse(NOBODYS, now)
        self.break_off(now)

    def break_off(self, now: int) -> None:
        """Read the other's line no further, as it has violated the protocol."""
        if not self.facts.is_broken:
            self.facts.is_broken = True
            self.save()
            self._party.on_broken(self, now)

    def accuse(self, reason: str, now: int) -> None:
        """Store the next entry of the other's line as evidence."""
        feed = self.facts.other_data
        assert feed is not None
        self._party.accusations.accuse(self.other, reason, feed, self._store.feeds[feed].mark + 1, now)

    # The other's line

    def _read_line(self, now: int) -> None:
        """Read the other's line as far as possible; hop when a feed ends."""
        facts = self.facts
        while (feed := facts.other_data) is not None and not facts.is_broken and not facts.fin_said:
            page = self._store.read(feed, self._store.feeds[feed].mark, 1)
            if not page:
                return
            packets = packets_of(len(page[0].content))
            if not self._party.gate.take_packets(self.other, feed, packets, now):
                return
            if not self._on_entry(feed, page[0], now):
                self._party.gate.give_back_packets(self.other, packets)
                return

    def _on_entry(self, feed: bytes, entry: Whole, now: int) -> bool:
        """Process an entry of the other's line; return whether to continue."""
        if entry.sequence > self.terms.size:
            return self._break("a data feed longer than agreed", feed, entry.sequence, now)
        if is_tunnelled(entry.content) and entry.sequence > 1:
            taken = self._party.on_data(self, entry.content, now)
        else:
            message = read(entry.content)
            if entry.sequence == 1:
                if message != HopPrev(self.facts.other_previous):
                    reason = "a data feed that does not follow the one before"
                    return self._break(reason, feed, entry.sequence, now)
                self._store.prune(self.facts.own_control, self.facts.hop_fin)
                taken = True
            elif isinstance(message, HopNext):
                self._store.set_mark(feed, entry.sequence)
                self._hop(feed, message.feed, now)
                return True
            else:
                taken = self._party.on_data(self, entry.content, now)
        if taken:
            self._unexplained_since = None
            self._store.set_mark(feed, entry.sequence)
        return taken

    def _hop(self, old: bytes, new: bytes | None, now: int) -> None:
        facts = self.facts
        if new is None:
            facts.fin_said = True
            self.send_command(FarewellFin(), now)
            self.save()
            self._end(now)
            return
        if new in self._store.feeds:
            self._break("a data feed that is known already", old, self._store.feeds[old].mark, now)
            return
        self.send_command(HopFin(old), now)
        facts.hop_fin = self._store.feeds[facts.own_control].sequence
        facts.other_previous, facts.other_data = old, new
        facts.epoch += 1
        self._store.add(new)
        self._join_data(now)
        self._store.drop(old)
        self.save()

    def _break(self, reason: str, feed: bytes, sequence: int, now: int) -> bool:
        self._party.accusations.accuse(self.other, reason, feed, sequence, now)
        self.break_off(now)
        return False

    # The own line

    def _on_fin(self, feed: bytes, entry: Whole, now: int) -> None:
        """Drop a feed of the own line that the other has read to its end."""
        facts = self.facts
        if len(facts.own_line) < 2 or feed != facts.own_line[0]:
            assert facts.other_control is not None
            reason = "a fin of a feed that is not at its end"
            self._party.accusations.accuse(self.other, reason, facts.other_control, entry.sequence, now)
            return
        del facts.own_line[0]
        facts.epoch += 1
        self._join_data(now)
        self._store.drop(feed)
        self._party.on_read(self, feed, now)
        self.save()

    def write_line(self, now: int) -> None:
        """Write pending data, as long as there is room; end the line when everything is sent."""
        facts = self.facts
        if facts.state not in (OPEN, FAREWELL) or facts.line_ended:
            return
        while self._has_room(now):
            content = self._party.next_content(self, now)
            if content is None:
                break
            self._node.publish(facts.own_line[-1], content, now)
        is_done = facts.state == FAREWELL and self.is_ending and not self._party.has_more(self)
        # The last entry of a full feed always names a feed: the prototype accepts no other.
        if is_done and (self._is_below_the_last() or self._begin_feed(now)):
            self._node.publish(facts.own_line[-1], write(HopNext(None)), now)
            facts.line_ended = True
            self.save()

    def _has_room(self, now: int) -> bool:
        """Return whether the line takes an entry; begins another feed if there are data."""
        return self._is_below_the_last() or (self._party.has_more(self) and self._begin_feed(now))

    def _is_below_the_last(self) -> bool:
        return self._store.feeds[self.facts.own_line[-1]].sequence < self.terms.size - 1

    def _begin_feed(self, now: int) -> bool:
        """Hop to another feed, within the limit of unread ones; return whether it did."""
        facts = self.facts
        if len(facts.own_line) >= self.terms.unread:
            return False
        current, new = facts.own_line[-1], self._new_feed()
        self._node.publish(current, write(HopNext(new)), now)
        self._node.publish(new, write(HopPrev(current)), now)
        facts.own_line.append(new)
        self.save()
        return True

    # Inside

    def _new_feed(self) -> bytes:
        return self._store.add_own(self._party.new_identity()).key

    def _join_data(self, now: int) -> None:
        facts = self.facts
        if facts.own_line and facts.other_data is not None:
            keys = [facts.own_line[0], facts.other_data]
            limit = Limit(self.terms.size, self.terms.inner_bytes)
            self._node.join(
                self.data_set,
                keys,
                now,
                epoch=facts.epoch,
                priority=1,
                pair=limit,
                beside=self.control_set,
            )
