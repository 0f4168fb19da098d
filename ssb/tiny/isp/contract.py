"""A contract between a client and a provider, as one of the two has it.

Each side writes a *control feed* and a *line* of data feeds, and reads those of the other. The two control
feeds are a set. The two current data feeds are another one, of lower priority: the oldest feed of the own
line that the other has not read to its end, and the feed of the other line that is read here.

**Farewell.** To end the contract, a side sends `farewell_init`; the other answers with `farewell_ack`, unless
it has sent `farewell_init` itself. Only then, and when all data are sent, does a side end its line by `next`
without a feed. Its reader sends `farewell_fin`. With a `farewell_fin` sent and one received, the contract is
over: lines and subscriptions are deleted at once, and the side ends its control feed. That proves that it has
read the last word of the other. A want vector does not: it tells of entries, and not of their side chains.
The control feeds stay until the other's has ended and its want vector confirms the own end, or the other has
been silent for `linger`.

**Control feeds** are pruned. Entries that were read are deleted. Of the own feed everything up to the last
`fin` is deleted as soon as the other serves the data feed that follows: it does so only after it has read
that `fin`. A side that sends requests without end and no data is not answered any more (`MOST_UNREAD`).

All effects of a packet are part of its transaction, so no crash can separate them.
"""

from typing import Final

from base.timers import earliest
from base.units import SECOND
from ssb.bipf import Value
from ssb.tiny.feed import ENDED, Whole
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
"""Unconfirmed entries of the own control feed above which requests are not answered."""
_PAGE = 100
_LAST_WORDS: Final = 4
"""Repetitions of a side's final acknowledgement before it deletes the contract."""
_LAST_WORDS_EVERY: Final = SECOND // 2


class Contract(Lines):
    """A contract.

    Args:
        id: the request's id, 20 bytes.
        facts: its durable state; written to the store when it changes.
        party: the program.
        terms: agreed on before.

    Attributes:
        other: the other side's root feed.
        is_over: whether nothing is left to store.
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
        """Return a contract from a record written by `save`."""
        assert isinstance(value, dict)
        return cls(id, Facts(**value), party, terms)

    def save(self) -> None:
        self._store.put(record_of(self.id), vars(self.facts))

    @property
    def is_current(self) -> bool:
        """Whether it is not over."""
        return self.facts.state != OVER

    @property
    def is_ending(self) -> bool:
        return self.facts.init_heard or (self.facts.init_said and self.facts.ack_heard)

    @property
    def is_overrun(self) -> bool:
        """See Lines; counts a violation."""
        if not self.is_behind:
            return False
        self._party.faults["requests without end"] += 1
        return True

    @property
    def is_behind(self) -> bool:
        """Whether many entries of the own control feed are unconfirmed."""
        control = self._store.feeds[self.facts.own_control]
        return control.sequence - control.base >= MOST_UNREAD

    @property
    def feeds(self) -> list[bytes]:
        """All control and data feeds."""
        facts = self.facts
        found = [facts.own_control, facts.other_control, *facts.own_line, facts.other_data]
        return [feed for feed in found if feed is not None]

    def resume(self, now: int) -> None:
        """Replicate its sets again, after a restart, and process the entries received before."""
        self._join_control(now)
        self._join_data(now)
        if self.facts.state == OVER:
            self._begin_last_words(now)
        else:
            self.process(now)

    # For the program

    def connect(self, control: bytes, now: int) -> None:
        """Add the other's control feed: the contract is accepted."""
        self.facts.other_control = control
        self._set_state(ACCEPTED, now)
        self._store.add(control)
        self._join_control(now)

    def acknowledge(self, now: int) -> None:
        """Begin the own line, and announce it."""
        first = self._new_feed()
        self._node.publish(first, write(HopPrev(None)), now)
        self.facts.own_line.append(first)
        self.send_command(OnboardAck(first), now)
        self.save()

    def send_command(self, message: Message, now: int) -> bytes:
        return self._node.publish(self.facts.own_control, write(message), now).id

    def begin_farewell(self, now: int) -> None:
        """Begin the farewell; pending data are still sent."""
        if self.facts.state == OPEN:
            self.facts.init_said = True
            self.send_command(FarewellInit(), now)
            self._set_state(FAREWELL, now)

    def delete(self) -> None:
        """Delete everything at once, without notifying the other."""
        for name in (self.control_set, self.data_set):
            self._node.leave(name)
        for feed in self.feeds:
            self._store.drop(feed)
        self._store.put(record_of(self.id), None)
        self.is_over = True

    def on_entries(self, feed: bytes, now: int) -> None:
        """Process new whole entries of a feed of the other."""
        if feed == self.facts.other_control:
            self._read_control(now)
        self.process(now)

    def process(self, now: int) -> None:
        """Read and write data as far as possible now."""
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
            # Two stay: without the id of the preceding entry, an entry cannot serve as evidence.
            self._store.prune(control, self._store.feeds[control].mark - 2)
            if self._store.feeds[control].mark < page[-1].sequence:
                break
        self._confirm_control(control, now)

    def _confirm_control(self, control: bytes, now: int) -> None:
        """Hop now and then even without data: on that the other prunes its control feed."""
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
                    self.send_command(FarewellAck(), now)
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
        self._node.end(facts.own_control, now)
        self._set_state(OVER, now)
        self._begin_last_words(now)

    def _begin_last_words(self, now: int) -> None:
        self._over_at = self._next_word = now
        self._words = 0

    def next_deadline(self) -> int | None:
        """Return when `wake` is due, ns."""
        if self.facts.state == OVER:
            return self._next_word
        return earliest(self._term_ends, self._patience_ends)

    @property
    def _term_ends(self) -> int | None:
        """Agreed end of the contract, ns."""
        if self.facts.state != OPEN or self.terms.term is None:
            return None
        return self.facts.began + self.terms.term

    def wake(self, now: int) -> None:
        """Begin the farewell at the end of the term; forget the contract when its end is confirmed."""
        if self.facts.state != OVER:
            if self._patience_ends is not None and self._patience_ends <= now:
                if self._is_withheld:
                    self._unexplained_since = now
                else:
                    self._accuse_unexplained(now)
            if self._term_ends is not None and self._term_ends <= now:
                self.begin_farewell(now)
            return
        if self._next_word is None or self._next_word > now:
            return
        heard = self._node.sets[self.control_set].heard
        last = self._store.feeds[self.facts.own_control].sequence
        is_read = heard.wanted.get(self.facts.own_control, 0) > last
        control = self.facts.other_control
        has_read = control is not None and self._store.feeds[control].condition == ENDED
        is_silent = now >= max(self._over_at, heard.time) + self.terms.linger
        if is_silent or (has_read and is_read and self._words >= _LAST_WORDS):
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
        """Whether the other's commands are throttled: one of them may explain the entry."""
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
