"""The life cycle of contracts: answers to requests, epochs, lines."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from base.timers import Timers
from base.token_bucket import TokenBucket
from base.units import SECOND
from ndn_over_ssb.contract import Contract, Contracts, InvalidClause, Terms, clause
from ndn_over_ssb.links import Link, Links
from ndn_over_ssb.side import ScuttlebuttSide
from ssb.graph import CONTACT
from ssb.keys import Identity

_CONTRACTS: Final = 1_000  # of a provider at once
_REPLIES: Final = 20  # to a customer's requests and epochs, at once and an hour


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The policy of a participant as a provider.

    Attributes:
        root: the identity that allocates the name space.
        offer: the best terms for customers; None if not a provider.
        admits: whether an identity may be a customer.
    """

    root: str
    offer: Terms | None = None
    admits: Callable[[str], bool] = lambda customer: True


class Negotiation:
    """The participant's side of its contracts.

    Args:
        publish: (content, time, ns): append a message to the participant's log, and read it.
        counters: requests refused or ignored, by reason.

    Attributes:
        open: this participant's contracts that have not ended, by id.
        ends: timers of the accepted ones.
        is_silent: whether the participant's feed was not writable at the last update.
    """

    def __init__(
        self,
        side: ScuttlebuttSide,
        policy: Policy,
        contracts: Contracts,
        links: Links,
        publish: Callable[[Mapping[str, Any], int], Any],
        counters: Counter[str],
    ) -> None:
        self._side = side
        self._me = side.me
        self._policy = policy
        self._contracts = contracts
        self._links = links
        self._publish = publish
        self._counters = counters
        self._secret = side.identity.sign(b"feednet: keys of transient feeds")
        self.open: dict[str, Contract] = {}
        self.ends: Timers[str] = Timers()
        self.is_silent = False
        self._has_offered = False
        # Contract -> the number of the message by which its epoch was begun here.
        self._labels: dict[str, int] = {}
        self._broken: dict[str, None] = {}  # contracts to be ended
        self._replies: dict[str, TokenBucket] = {}  # customer -> limit of messages in this log

    def track(self, contract: Contract) -> None:
        """Track a changed contract, if it is this participant's."""
        if self._me in (contract.customer, contract.provider):
            self.open[contract.id] = contract
            self.ends.set(contract.id, self._side.ns(contract.until) if contract.is_accepted else None)

    def resume(self, now: int) -> None:
        """Begin new epochs of the contracts in force, after a restart."""
        for contract in list(self.open.values()):
            if contract.holds(self._side.ms(now)) and not self.is_silent:
                self._begin(contract, contract.epoch + 1, now)

    def abort(self, link: Link, now: int) -> None:
        """End a contract after a protocol violation of the other side."""
        self._broken[link.contract.id] = None
        self._links.close(link, now)

    def publish_pending(self, now: int) -> None:
        """Publish the offer and the ends of aborted contracts, once the feed is writable."""
        self.is_silent = not self._side.may_publish()
        if self.is_silent:
            return
        offer = self._policy.offer
        if offer is not None and not self._has_offered:
            if self._contracts.offers.get(self._me) != offer:
                self._publish(clause("offer", terms=offer), now)
            self._has_offered = True
        while self._broken:
            contract = next(iter(self._broken))
            self._publish(clause("end", contract=contract), now)
            del self._broken[contract]

    def update(self, now: int) -> None:
        """Update all open contracts."""
        for contract in list(self.open.values()):
            self._update_contract(contract, now)

    def _update_contract(self, contract: Contract, now: int) -> None:
        """Answer a request, or open, renew or close the line of a contract."""
        link = self._links.get(contract.id)
        if not contract.holds(self._side.ms(now)):
            if link is not None:
                self._links.close(link, now)
            if contract.has_ended or contract.is_accepted or contract.refusal is not None:
                self._close(contract)
                self._withdraw_feed(contract)
            elif contract.is_requested and contract.provider == self._me and not self.is_silent:
                self._answer(contract, now)
            return
        if link is not None and link.epoch < contract.epoch:
            self._links.close(link, now)
        if contract.id in self._broken:
            return
        mine = contract.begun.get(self._me, (-1, ""))[0]
        # After a restart, others' logs may arrive late; epochs begun before it are lost.
        is_old = mine >= 0 and contract.id not in self._labels
        if mine < max(contract.epoch, 0) or is_old:
            if self.is_silent:
                return
            self._withdraw_feed(contract)
            if self._may_reply(contract, now):
                self._begin(contract, max(contract.epoch + is_old, 0), now)
            else:
                self._publish(clause("end", contract=contract.id), now)
        elif mine == contract.begun.get(contract.other(self._me), (-1, ""))[0] and link is None:
            self._links.open(contract, self._transient(self._labels[contract.id]), now)

    def _close(self, contract: Contract) -> None:
        self.open.pop(contract.id, None)
        self.ends.set(contract.id, None)

    def _answer(self, contract: Contract, now: int) -> None:
        """Accept or refuse a request."""
        customer, offer = contract.customer, self._policy.offer
        if not self._may_reply(contract, now):
            self._close(contract)
            return
        reason = ""
        if offer is None:
            reason = "not a provider"
        elif not self._policy.admits(customer):
            reason = "not admitted"
        elif len(self._links) >= _CONTRACTS:
            reason = "too many customers"
        else:
            assert contract.asked is not None
            try:
                terms = contract.asked.within(offer)
            except InvalidClause as error:
                reason = str(error)
        if reason:
            self._counters["requests refused"] += 1
            self._publish(clause("refuse", contract=contract.id, customer=customer, reason=reason), now)
            return
        self._publish({"type": CONTACT, "contact": customer, "following": True}, now)
        self._publish(clause("accept", contract=contract.id, customer=customer, terms=terms), now)

    def _may_reply(self, contract: Contract, now: int) -> bool:
        """Whether the rate limit allows a reply to a customer: logs never shrink."""
        if contract.provider != self._me:
            return True
        new = TokenBucket(3600 * SECOND // _REPLIES, _REPLIES, now)
        replies = self._replies.setdefault(contract.customer, new)
        if replies.take(now):
            return True
        self._counters["too many requests of one customer"] += 1
        return False

    def _begin(self, contract: Contract, epoch: int, now: int) -> None:
        """Begin an epoch with a new transient feed, shared with the other side."""
        label = self._side.feeds.tips().get(self._me, 0) + 1
        feed = self._transient(label)(0).ref
        self._side.peer.share(feed, contract.other(self._me), now, receives=False)
        self._publish(clause("begin", contract=contract.id, epoch=epoch, feed=feed), now)
        self._labels[contract.id] = label

    def _withdraw_feed(self, contract: Contract) -> None:
        """Withdraw the transient feed of an epoch not begun by the other side."""
        label = self._labels.pop(contract.id, None)
        if label is not None:
            self._side.peer.replication.forget(self._transient(label)(0).ref)

    def _transient(self, label: int) -> Callable[[int], Identity]:
        """Return the identities of an epoch's transient feeds, by number."""

        def identity(number: int) -> Identity:
            return Identity.from_seed(hashlib.sha256(self._secret + f"{label} {number}".encode()).digest())

        return identity
