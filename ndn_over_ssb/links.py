"""The contracts in force, each a line to the other side and a face of the forwarder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from base.timers import Timers
from base.token_bucket import TokenBucket
from base.units import SECOND
from forwarder.host import Host
from ndn_over_ssb.contract import Contract
from ndn_over_ssb.line import Line, Passage
from ndn_over_ssb.side import ScuttlebuttSide
from ssb.keys import Identity

_PATIENCE: Final = SECOND  # a customer with a longer debt is not received until repayment


@dataclass(slots=True)
class Link:
    """A contract in force.

    Attributes:
        contract: the contract.
        epoch: the current epoch.
        line: to the other side.
        face: of the forwarder.
        allowance: the customer's token bucket.
        reads: the line's feeds, for reading().
    """

    contract: Contract
    epoch: int
    line: Line
    face: int
    allowance: TokenBucket
    reads: tuple[str, ...] = ()


class Links:
    """All links of a participant; `watch` is called with the other side and each packet on a line."""

    def __init__(self, side: ScuttlebuttSide, host: Host, watch: Callable[[str, Passage], None]) -> None:
        self._side = side
        self._host = host
        self._watch = watch
        self._by_contract: dict[str, Link] = {}
        self._by_face: dict[int, Link] = {}
        self._by_feed: dict[str, Link] = {}
        self._unflushed: dict[str, Link] = {}  # links whose lines may have output
        self._held: Timers[str] = Timers()  # of when to receive held-back customers again

    def __iter__(self) -> Iterator[Link]:
        return iter(self._by_contract.values())

    def __len__(self) -> int:
        return len(self._by_contract)

    def get(self, contract: str) -> Link | None:
        """Return the link of a contract, by its id."""
        return self._by_contract.get(contract)

    def at_face(self, face: int) -> Link | None:
        """Return the link of a face."""
        return self._by_face.get(face)

    def reading(self, feed: str) -> Link | None:
        """Return the link whose line reads a feed."""
        return self._by_feed.get(feed)

    def open(self, contract: Contract, identities: Callable[[int], Identity], now: int) -> None:
        """Open the link of a contract whose epoch both sides have begun.

        `identities`: those of this side's transient feeds, by number.
        """
        side, other, terms = self._side, contract.other(self._side.me), contract.terms
        assert terms is not None
        feed = contract.begun[other][1]
        watch = partial(self._watch, other)
        line = Line(side.peer, side.feeds, other, terms, identities, feed, now, watch)
        face = self._host.add_face()
        face.uri = f"ssb:{other}"
        # A customer reserves half of the burst for jitter on the path to its provider.
        burst = terms.rate if contract.provider == side.me else max(terms.rate // 2, 1)
        allowance = TokenBucket(SECOND // terms.rate, burst, now)
        link = Link(contract, contract.epoch, line, face.number, allowance)
        self._by_contract[contract.id] = self._by_face[face.number] = link
        self.update(link)

    def close(self, link: Link, now: int) -> None:
        """Close a link, its line and its face."""
        link.line.close()
        self.update(link)
        self._unflushed.pop(link.contract.id, None)
        self._held.set(link.contract.id, None)
        self._host.remove_face(link.face, now)
        del self._by_contract[link.contract.id], self._by_face[link.face]

    def update(self, link: Link) -> None:
        """Index a link by its line's current feeds, and schedule its flush()."""
        for feed in link.reads:
            if self._by_feed.get(feed) is link:
                del self._by_feed[feed]
        link.reads = link.line.reads
        for feed in link.reads:
            self._by_feed.setdefault(feed, link)
        self._unflushed[link.contract.id] = link

    def put(self, link: Link, packet: bytes, now: int) -> bool:
        """Queue a packet on a line; return whether there was room."""
        self._unflushed[link.contract.id] = link
        return link.line.put(packet, now)

    def flush(self, now: int) -> None:
        """Write the lines' due messages."""
        for link in sorted(self._unflushed.values(), key=lambda link: link.face):
            link.line.flush(now, self._side.ms(now))
            if not link.line.is_waiting:
                del self._unflushed[link.contract.id]

    def charge(self, link: Link, now: int) -> bool:
        """Charge a customer for a packet; return whether its rate allows the packet."""
        if link.contract.provider != self._side.me:
            return True
        debt = link.allowance.charge(now)
        if link.contract.id not in self._held and debt > _PATIENCE:
            self._held.set(link.contract.id, now + debt)
            link.line.hold_back(now)
        return not debt

    def next_deadline(self) -> int | None:
        """Return when wake() is due, ns."""
        return self._held.next_deadline()

    def wake(self, now: int) -> None:
        """Receive customers again whose debt is repaid."""
        for contract in self._held.expire(now):
            self._by_contract[contract].line.release(now)
