"""Exchange between clients: entries into the line and out of it, ends of subscriptions, receipts.

Content from the user is signed as an entry of the subscription's own feed at once, and stored. It waits there
until the line to the provider has room. Received entries are stored until the user confirms them; a user who
confirms nothing makes the provider pause the sender, in the end.

If receipts are agreed (`Terms.receipt`), a client acknowledges the entries read. By `feedhopping_fin`, signed
by the provider, a sender knows which entries the provider has. Those without a receipt `patience` later are
*overdue*: the provider withholds them or the receipts, or the other is silent. Which of the two is at fault
cannot be proven.

A leaving client first sends what it has written. It waits for a slow contact as long as that goes on: entries
to one for whom the provider has paused them for `patience` are dropped, and the user is told.
"""

from collections.abc import Iterator

from base.timers import Timers, earliest
from ssb.tiny.isp.events import Event
from ssb.tiny.isp.evidence import is_receipt, sign_receipt
from ssb.tiny.isp.facts import FAREWELL, OPEN
from ssb.tiny.isp.lines import Lines
from ssb.tiny.isp.messages import (
    NOT_FOUND,
    SubReceipt,
    SubResponse,
    SubResponseIsp,
    is_tunnelled,
    read,
    write,
)
from ssb.tiny.isp.party import BaseParty, Line
from ssb.tiny.isp.subscription import ENDED, INVITED, SPOILT, STANDS, WANTED, Group, Subscription


class Exchange(BaseParty):
    """A party with subscriptions, the Program of a node.

    Attributes:
        subscriptions: by reference.
        groups: by their ids.
    """

    subscriptions: dict[bytes, Subscription]
    groups: dict[bytes, Group]
    _timers: Timers[bytes]  # of subscriptions, by reference

    # Receiving

    def on_data(self, contract: Lines, content: bytes, now: int) -> bool:
        flowing = {one.ref: one for one in self._of(contract) if one.state in (STANDS, SPOILT)}
        message = None if is_tunnelled(content) else read(content)
        if isinstance(message, SubResponseIsp) and not message.ok and message.ref in flowing:
            self._on_end(flowing[message.ref], message)
            return True
        lines = [Line(one.ref, one.other) for one in flowing.values() if one.other is not None]
        line = self._feed_of(lines, content) if is_tunnelled(content) else None
        if line is not None:
            # A farewell does not wait for the user: all that is under way has a place here.
            room = contract.terms.held if contract.facts.state == OPEN else contract.terms.under_way
            if self._backlog(line.feed) >= room:
                self.faults["more under way than agreed"] += contract.is_ending
                return contract.is_ending
            if self._store_inner(contract, line, content, now):
                self._events.append(Event("received", flowing[line.ref].contact, line.ref))
            return True
        if not is_tunnelled(content) and not isinstance(message, SubResponseIsp):
            contract.accuse("what does not belong into a line", now)
            return True
        if contract.is_ending:
            self.faults["an entry of nobody's"] += 1
            return True
        if any(one.state == SPOILT for one in flowing.values()):
            self.faults["an entry of a feed that cannot be taken"] += 1
            return True
        contract.on_unexplained(now)
        return False

    def _on_end(self, subscription: Subscription, message: SubResponseIsp) -> None:
        """The other side has ended; if its contract is over, it cannot receive either."""
        subscription.state, subscription.is_leaving = ENDED, True
        own = subscription.own
        if message.feed == NOT_FOUND and own is not None and not self._is_shared(subscription):
            subscription.own = None  # without these entries, nothing can follow in this feed
            self._release(own)
        self._save(subscription)
        self._events.append(Event("ended", subscription.contact, subscription.ref))
        self._clean(subscription)
        self.contracts.changed(subscription.contract)

    # Sending

    def next_content(self, contract: Lines, now: int) -> bytes | None:
        ready = [
            one.ref
            for one in self._unsent(contract)
            if not (one.is_paused and one.own is not None and self._backlog(one.own))
        ]
        if not ready:
            return None
        subscription = self.subscriptions[self.contracts.in_turn(contract.id, ready)]
        own = subscription.own
        if own is not None and self._backlog(own):
            content = self._bundle(own)
            if contract.terms.receipt is not None:
                for one in self._of(contract):
                    if one.own == own:
                        one.bundled[contract.facts.own_line[-1].hex()] = self._store.feeds[own].mark
                        self._save(one)
            return content
        subscription.end_said = True
        self._save(subscription)
        self._clean(subscription)
        return write(SubResponse(subscription.ref, False, None))

    def has_more(self, contract: Lines) -> bool:
        return any(True for _ in self._unsent(contract))

    def _unsent(self, contract: Lines) -> Iterator[Subscription]:
        """Yield the subscriptions with an entry or their end to send."""
        gathering = {group.own for group in self.groups.values() if group.pending}
        for one in self._of(contract):
            flows = one.state in (STANDS, ENDED, SPOILT) and not one.end_said
            waits = self._backlog(one.own) and one.own not in gathering
            if flows and (one.is_leaving or waits):
                yield one

    # Receipts

    def _note_read(self, subscription: Subscription, sequence: int, now: int) -> None:
        contract = self.contracts.get(subscription.contract)
        subscription.read = max(subscription.read, sequence)
        if contract is not None and contract.terms.receipt is not None and subscription.receipt_at is None:
            subscription.receipt_at = now + contract.terms.receipt
        self._save(subscription)

    def _send_receipt(self, subscription: Subscription, now: int) -> None:
        subscription.receipt_at = None
        contract = self.contracts.get(subscription.contract)
        own = self._store.feeds.get(subscription.own) if subscription.own is not None else None
        is_new = subscription.receipted < subscription.read
        if (
            contract is not None
            and contract.facts.state == OPEN
            and own is not None
            and own.identity is not None
            and subscription.other is not None
            and is_new
        ):
            signature = sign_receipt(own.identity, subscription.other, subscription.read)
            contract.send_command(SubReceipt(subscription.ref, subscription.read, signature), now)
            subscription.receipted = subscription.read
        self._save(subscription)

    def _on_receipt(self, contract: Lines, message: SubReceipt, now: int) -> None:
        one = self.subscriptions.get(message.ref)
        if one is None or one.own is None or one.other is None or one.contract != contract.id:
            return  # it has ended meanwhile
        if not is_receipt(message.signature, one.other, one.own, message.sequence):
            self.faults["a receipt that is none"] += 1
            return
        one.arrived = max(one.arrived, message.sequence)
        one.overdue_at = now + contract.terms.patience if one.taken > one.arrived else None
        self._save(one)

    def on_read(self, contract: Lines, feed: bytes, now: int) -> None:
        """See Party: the provider has acknowledged a data feed."""
        for one in self._of(contract):
            taken = one.bundled.pop(feed.hex(), None)
            if taken is not None:
                one.taken = max(one.taken, taken)
                if one.taken > one.arrived and one.overdue_at is None:
                    one.overdue_at = now + contract.terms.patience
                self._save(one)

    def next_deadline(self) -> int | None:
        return earliest(super().next_deadline(), self._timers.next_deadline())

    def wake(self, now: int) -> None:
        for ref in self._timers.expire(now):
            one = self.subscriptions[ref]
            if one.receipt_at is not None and one.receipt_at <= now:
                self._send_receipt(one, now)
            if one.overdue_at is not None and one.overdue_at <= now:
                one.overdue_at = None
                self._save(one)
                missing = f"{one.taken - one.arrived} entries"
                self._events.append(Event("overdue", one.contact, one.ref, missing))
            if one.drop_at is not None and one.drop_at <= now:
                self._drop_unsent(one)
        super().wake(now)

    # Inside

    def _backlog(self, feed: bytes | None) -> int:
        """Return the number of unprocessed entries of a client-to-client feed."""
        held = self._store.feeds.get(feed) if feed is not None else None
        return 0 if held is None else held.sequence - held.mark

    def _set_drop(self, contract: Lines, subscription: Subscription, now: int) -> None:
        """Set the time at which the entries of a paused feed keep a client from leaving no longer."""
        is_waiting = contract.facts.state == FAREWELL and subscription.is_paused
        subscription.drop_at = now + contract.terms.patience if is_waiting else None
        self._save(subscription)

    def _drop_unsent(self, subscription: Subscription) -> None:
        """Drop the unsent entries of a leaving client for all who get them."""
        own, lost = subscription.own, self._backlog(subscription.own)
        for one in self.subscriptions.values():
            if one.own == own:
                one.own = one.drop_at = None
                self._save(one)
                if lost:
                    self._events.append(Event("dropped", one.contact, one.ref, f"{lost} entries"))
        if own is not None:
            self._release(own)
        self.contracts.changed(subscription.contract)

    def _bundle(self, feed: bytes) -> bytes:
        """Return the next unprocessed entry of a feed with its side chain, and advance the mark."""
        sequence = self._store.feeds[feed].mark + 1
        packets = self._store.packets(feed, sequence)
        self._store.set_mark(feed, sequence)
        self._store.prune(feed, sequence)
        return b"".join(packets)

    def _clean(self, subscription: Subscription) -> None:
        """Delete the unneeded feeds of a subscription, and the subscription without them."""
        if subscription.end_said and subscription.own is not None:
            own, subscription.own = subscription.own, None
            self._release(own)
            self._save(subscription)
        other, has_ended = subscription.other, subscription.state == ENDED
        if has_ended and other is not None and not self._backlog(other):  # the user has everything
            self._store.drop(other)
            subscription.other = None
            self._save(subscription)
        if has_ended and subscription.end_said and subscription.other is None:
            self._delete(subscription)

    def _of(self, contract: Lines) -> list[Subscription]:
        return [one for one in self.subscriptions.values() if one.contract == contract.id]

    def _is_shared(self, subscription: Subscription) -> bool:
        """Whether an own feed is for others of a group, too."""
        return any(
            one.own == subscription.own for one in self.subscriptions.values() if one is not subscription
        )

    def _release(self, own: bytes) -> None:
        """Delete an own feed that is used nowhere."""
        uses = [one.own for one in self.subscriptions.values()]
        uses += [group.own for group in self.groups.values()]
        if own not in uses:
            self._store.drop(own)

    def _save(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.ref] = subscription
        self._set_timer(subscription)
        self._store.put(f"subscription {subscription.ref.hex()}", vars(subscription))

    def _set_timer(self, subscription: Subscription) -> None:
        at = earliest(subscription.receipt_at, subscription.overdue_at, subscription.drop_at)
        self._timers.set(subscription.ref, at)

    def _delete(self, subscription: Subscription) -> None:
        self.subscriptions.pop(subscription.ref, None)
        self._timers.set(subscription.ref, None)
        self._store.put(f"subscription {subscription.ref.hex()}", None)
        if subscription.other is not None and subscription.state != INVITED:
            self._store.drop(subscription.other)
        self._end_pending(subscription)
        if subscription.own is not None:
            self._release(subscription.own)

    def _end_pending(self, subscription: Subscription) -> None:
        """Remove a contact from the pending members of its group; entries can be sent when none is left."""
        group = self.groups.get(subscription.group[0]) if subscription.group else None
        if group is None:
            return
        if subscription.contact in group.pending:
            group.pending.remove(subscription.contact)
            self.contracts.changed(group.contract)
        is_used = any(one.group and one.group[0] == group.id for one in self.subscriptions.values())
        if is_used or group.pending:
            self._save_group(group)
        else:
            del self.groups[group.id]
            self._store.put(f"group {group.id.hex()}", None)
            self._release(group.own)

    def _save_group(self, group: Group) -> None:
        self.groups[group.id] = group
        self._store.put(f"group {group.id.hex()}", vars(group))

    def _end_all(self, contract: Lines) -> None:
        """End all subscriptions and groups of a contract that is over."""
        for group in [group for group in self.groups.values() if group.contract == contract.id]:
            group.pending = []
            self._save_group(group)
        for one in self._of(contract):
            one.end_said = True
            if one.state in (WANTED, INVITED):
                self._delete(one)
                continue
            if one.state in (STANDS, SPOILT):
                self._events.append(Event("ended", one.contact, one.ref))
            one.state = ENDED
            self._save(one)
            self._clean(one)
        for group in [group for group in self.groups.values() if group.contract == contract.id]:
            del self.groups[group.id]
            self._store.put(f"group {group.id.hex()}", None)
            self._release(group.own)
