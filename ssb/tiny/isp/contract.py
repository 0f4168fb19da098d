"""A contract between a client and a provider, as one of the two sees it.

Each side writes a *control feed* and a *line* of data feeds, and reads those of the other. The two control
feeds are a set. The two data feeds that are being read are another one, of lower priority: the oldest feed of
the own line that the other has not read to its end, and the feed of the other line that is read here.

**Farewell.** Who wants to end the contract says `farewell_init`; the other answers with `farewell_ack`,
unless he has said `farewell_init` himself. Only after that, and when all that was to be sent has been sent,
does a side end its line by `next` without a feed. Who has read that says `farewell_fin`. With a
`farewell_fin` said and one heard, the contract is over: lines and subscriptions are deleted at once. The
control feeds stay until the other is known to have read the last word, by its want vector, or has been silent
for `linger`.

**Control feeds** are pruned. What was read is not kept. Of the own feed everything up to the last `fin` is
deleted as soon as the other serves the data feed that follows: it does so only after it has read that `fin`.
Who asks without end and sends no data is not answered any more (`MOST_UNREAD`).

All that happens is part of the transaction of the packet that causes it, so a crash cannot come between.
"""

from typing import Final

from base.units import SECOND
from ssb.bipf import Value
from ssb.tiny.feed import Whole
from ssb.tiny.isp.facts import ACCEPTED, FAREWELL, OPEN, OVER, Facts, record_of, root_set
from ssb.tiny.isp.lines import Lines, Party
from ssb.tiny.isp.messages import (
    COMMANDS,
    FarewellAck,
    FarewellFin,
    FarewellInit,
    HopFin,
    HopPrev,
    Message,
    OnboardAck,
    read,
    write,
)
from ssb.tiny.isp.terms import Terms

MOST_UNREAD: Final = 256
"""Entries of the own control feed that are not known to be read, from which on requests are not answered."""
_PAGE = 100
_LAST_WORDS: Final = 4
"""Repetitions of a side's final acknowledgement before it deletes the contract."""
_LAST_WORDS_EVERY: Final = SECOND // 2


class Contract(Lines):
    """A contract.

    Args:
        id: the request's id, 20 bytes.
        facts: what is kept of it; written to the store when it changes.
        party: the program.
        terms: agreed on before.

    Attributes:
        other: the other side's root feed.
        is_over: whether nothing is left of it.
    """

    def __init__(self, id: bytes, facts: Facts, party: Party, terms: Terms) -> None:  # noqa: A002 - its name
        super().__init__(id, facts, party, terms)
        own = self._store.feeds.get(facts.client)
        self.other = facts.isp if own is not None and own.identity is not None else facts.client
        self.is_over = False
        self._words = 0
        self._over_at = 0
        self._next_word: int | None = None

    @classmethod
    def load(cls, id: bytes, value: Value, party: Party, terms: Terms) -> "Contract":  # noqa: A002 - its name
        """Return a contract as `save` has written it."""
        assert isinstance(value, dict)
        return cls(id, Facts(**value), party, terms)

    def save(self) -> None:
        """Write what is kept of it."""
        self._store.put(record_of(self.id), vars(self.facts))

    @property
    def is_current(self) -> bool:
        """Whether it is not over."""
        return self.facts.state != OVER

    @property
    def is_ending(self) -> bool:
        """Whether both sides know of the farewell."""
        return self.facts.init_heard or (self.facts.init_said and self.facts.ack_heard)

    @property
    def is_overrun(self) -> bool:
        """Whether the other has asked for more than it can have read the answers to; it is not answered."""
        if not self.is_behind:
            return False
        self._party.faults["requests without end"] += 1
        return True

    @property
    def is_behind(self) -> bool:
        """Whether the other is not known to have read many commands."""
        control = self._store.feeds[self.facts.own_control]
        return control.sequence - control.base >= MOST_UNREAD

    @property
    def feeds(self) -> list[bytes]:
        """All control and data feeds."""
        facts = self.facts
        found = [facts.own_control, facts.other_control, *facts.own_line, facts.other_data]
        return [feed for feed in found if feed is not None]

    def resume(self, now: int) -> None:
        """Replicate its sets again, after a restart, and go on with what had come."""
        self._join_control(now)
        self._join_data(now)
        if self.facts.state == OVER:
            self._begin_last_words(now)
        else:
            self.go_on(now)

    # What the program does

    def connect(self, control: bytes, now: int) -> None:
        """Know the other's control feed: the contract is accepted."""
        self.facts.other_control = control
        self._set_state(ACCEPTED, now)
        self._store.add(control)
        self._join_control(now)

    def acknowledge(self, now: int) -> None:
        """Begin the own line, and tell the other of it."""
        first = self._new_feed()
        self._node.publish(first, write(HopPrev(None)), now)
        self.facts.own_line.append(first)
        self.say(OnboardAck(first), now)
        self.save()

    def say(self, message: Message, now: int) -> bytes:
        """Write a command to the own control feed; return the entry's id."""
        return self._node.publish(self.facts.own_control, write(message), now).id

    def part(self, now: int) -> None:
        """Want to end the contract; what is to be sent is still sent."""
        if self.facts.state == OPEN:
            self.facts.init_said = True
            self.say(FarewellInit(), now)
            self._set_state(FAREWELL, now)

    def delete(self) -> None:
        """Delete everything, now, without a word to the other."""
        for name in (self.control_set, self.data_set):
            self._node.leave(name)
        for feed in self.feeds:
            self._store.drop(feed)
        self._store.put(record_of(self.id), None)
        self.is_over = True

    def take(self, feed: bytes, now: int) -> None:
        """Take in new whole entries of a feed that the other writes."""
        if feed == self.facts.other_control:
            self._read_control(now)
        self.go_on(now)

    def go_on(self, now: int) -> None:
        """Read and write data as far as that is possible now."""
        if self.facts.state in (OPEN, FAREWELL):
            self._read_line(now)
            self.write_line(now)

    # Control

    @property
    def control_set(self) -> str:
        """The name of the set of control feeds."""
        return f"ctrl{self.facts.client.hex()}{self.id.hex()}"

    def _read_control(self, now: int) -> None:
        control = self.facts.other_control
        assert control is not None
        while page := self._store.read(control, self._store.feeds[control].mark, _PAGE):
            for entry in page:
                if not self._party.gate.take_command(self.other, control, now):
                    break
                self._store.set_mark(control, entry.sequence)
                message = read(entry.content)
                if message is not None:
                    self._on_control(entry, message, now)
                if self.is_over:
                    return
            # Two stay: without the id of the entry before, nothing proves what is wrong with an entry.
            self._store.prune(control, self._store.feeds[control].mark - 2)
            if self._store.feeds[control].mark < page[-1].sequence:
                break
        self._confirm_control(control, now)

    def _confirm_control(self, control: bytes, now: int) -> None:
        """Hop now and then, though there are no data: the other prunes its control feed by that."""
        facts, mark = self.facts, self._store.feeds[control].mark
        is_idle = facts.state == OPEN and len(facts.own_line) == 1 and not facts.line_ended
        if is_idle and mark - facts.control_at_hop >= MOST_UNREAD // 4:
            facts.control_at_hop = mark
            self._begin_feed(now)

    def _on_control(self, entry: Whole, message: Message, now: int) -> None:
        facts = self.facts
        match message:
            case OnboardAck(data):
                if facts.state == ACCEPTED and data not in self._store.feeds:
                    self._open(data, now)
                else:
                    self._party.faults["an acknowledgement too many"] += 1
            case HopFin(feed):
                self._on_fin(feed, entry, now)
            case FarewellInit():
                if facts.state == OPEN and not facts.init_heard:
                    facts.init_heard = True
                    self.say(FarewellAck(), now)
                    self._set_state(FAREWELL, now)
                elif facts.state == FAREWELL:
                    facts.init_heard = True
                    self.save()
                else:
                    self._party.faults["a farewell to nobody"] += 1
            case FarewellAck():
                facts.ack_heard = facts.init_said
                self.save()
            case FarewellFin():
                if facts.line_ended:
                    facts.fin_heard = True
                    self.save()
                    self._end(now)
                else:
                    control = facts.other_control
                    assert control is not None
                    self._party.accusations.accuse(
                        self.other, "a fin before the end", control, entry.sequence, now
                    )
            case _:
                self._party.on_control(self, entry, message, now)

    def _open(self, data: bytes, now: int) -> None:
        facts = self.facts
        facts.other_data = data
        facts.began = now
        self._store.add(data)
        if not facts.own_line:
            self.acknowledge(now)
        self._set_state(OPEN, now)
        self._join_data(now)

    # The end

    def _end(self, now: int) -> None:
        """Delete lines and subscriptions, if both sides have read everything."""
        facts = self.facts
        if not (facts.fin_said and facts.fin_heard) or facts.state == OVER:
            return
        self._node.leave(self.data_set)
        for feed in (*facts.own_line, facts.other_data):
            if feed is not None:
                self._store.drop(feed)
        facts.own_line, facts.other_data = [], None
        self._set_state(OVER, now)
        self._begin_last_words(now)

    def _begin_last_words(self, now: int) -> None:
        self._over_at = self._next_word = now
        self._words = 0

    def next_deadline(self) -> int | None:
        """Return when `wake` is due, ns."""
        if self.facts.state == OVER:
            return self._next_word
        due = [self._term_ends, self._loses_patience]
        return min((time for time in due if time is not None), default=None)

    @property
    def _term_ends(self) -> int | None:
        """When it is agreed that the contract ends, ns."""
        if self.facts.state != OPEN or self.terms.term is None:
            return None
        return self.facts.began + self.terms.term

    def wake(self, now: int) -> None:
        """Part when the term is over; forget the contract when the other knows that it is over."""
        if self.facts.state != OVER:
            if self._loses_patience is not None and self._loses_patience <= now:
                if self._is_withheld:
                    self._puzzled_at = now
                else:
                    self._lose_patience(now)
            if self._term_ends is not None and self._term_ends <= now:
                self.part(now)
            return
        if self._next_word is None or self._next_word > now:
            return
        heard = self._node.sets[self.control_set].heard
        last = self._store.feeds[self.facts.own_control].sequence
        has_read = heard.wanted.get(self.facts.own_control, 0) > last
        is_silent = now >= max(self._over_at, heard.time) + self.terms.linger
        if is_silent or (has_read and self._words >= _LAST_WORDS):
            self.delete()
            return
        self._words += 1
        self._node.sets[self.control_set].wants.due = now
        if self._words < _LAST_WORDS:
            self._next_word = now + _LAST_WORDS_EVERY
        else:
            self._next_word = now + 2 * _LAST_WORDS_EVERY

    # Inside

    @property
    def _is_withheld(self) -> bool:
        """Whether commands of the other wait to be read: what explains his line may be among them."""
        return self.facts.other_control in self._node.withheld

    def _set_state(self, state: str, now: int) -> None:
        self.facts.state = state
        self.save()
        self._party.on_state(self, now)

    def _join_control(self, now: int) -> None:
        facts = self.facts
        if facts.other_control is not None:
            keys = [facts.own_control, facts.other_control]
            beside = root_set(self.other)
            self._node.join(self.control_set, keys, now, pair=COMMANDS, beside=beside)
