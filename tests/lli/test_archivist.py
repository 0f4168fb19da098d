"""An archive is no source: it offers what it knows of one, for as long as it knows one."""

from random import Random

from lli_maker import FEED, NAME, idle, packet, pushed

from base.units import MS
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import item_name
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import INTEREST, make_interest, parse_interest
from ssb.application import Plan
from ssb_over_ndn.layerings.archive import Archivist
from ssb_over_ndn.layerings.lli import LliSubscription

S = 1_000 * MS


class Shelf:
    """An archive behind a face, and what it says."""

    def __init__(self, kept: int = 0) -> None:
        subscription = LliSubscription(
            NAME, rng=Random(1), credit=8, lifetime_ms=60_000, is_relay=True, after=kept
        )
        self.core = Archivist(NAME, subscription, Plan(0, 3600 * S), FEED[:kept])
        self.now = 0
        self.core.wake(0)
        self.nonce = 0

    def asks(self) -> list[Evidence | None]:
        """What it says to know in the LLIs that it sends."""
        sent = [parse_lp(wire).fragment for wire in self.core.take_outputs()]
        return [parse_interest(wire).known for wire in sent if wire and wire[0] == INTEREST]

    def offers(self, known: Evidence | None = None) -> list[Evidence | None]:
        self.core.take_outputs()
        self.nonce += 1
        lli = make_interest(
            item_name(NAME, 50), nonce=self.nonce, lifetime_ms=9_000, send_credit=4, known=known
        )
        self.core.receive(lli, self.now)
        return [parse_lp(wire).evidence for wire in self.core.take_outputs()]

    def hear(self, wire: bytes) -> None:
        self.now += MS
        self.core.receive(wire, self.now)


def test_it_offers_what_it_has_heard_one_hop_on() -> None:
    shelf = Shelf()
    assert shelf.asks() == [None]
    assert shelf.offers() == [None]
    shelf.hear(idle(0, 8, evidence=Evidence(3, 2)))
    assert shelf.offers() == [Evidence(3, 3)]


def test_it_says_what_it_holds_when_it_asks() -> None:
    shelf = Shelf()
    shelf.hear(idle(0, 8, evidence=Evidence(3, 2)))
    shelf.core.take_outputs()
    for seq in range(1, 9):
        shelf.hear(pushed(seq, 8, 8) if seq == 1 else packet(seq))
    shelf.core.wake(shelf.now)
    assert shelf.asks() == [Evidence(3, 3)]


def test_it_advances_no_number() -> None:
    shelf = Shelf(kept=4)
    shelf.hear(idle(4, 12, evidence=Evidence(3, 2)))
    assert shelf.offers(Evidence(3, 0)) == [Evidence(3, 3)]
    assert shelf.offers(Evidence(30, 0)) == [Evidence(3, 3)]


def test_it_offers_nothing_when_its_own_source_is_gone_and_takes_only_better_ones() -> None:
    """Its relay may have got its evidence from it: what comes back is of no use."""
    shelf = Shelf(kept=4)
    shelf.hear(idle(4, 12, evidence=Evidence(3, 2)))
    shelf.hear(idle(4, 12))
    assert shelf.offers() == [None]
    shelf.hear(idle(4, 12, evidence=Evidence(3, 4)))
    assert shelf.offers() == [None]
    shelf.hear(idle(4, 12, evidence=Evidence(4, 9)))
    assert shelf.offers() == [Evidence(4, 10)]
