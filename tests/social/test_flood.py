"""Where strategies send Interests, asked without a network."""

from random import Random

from base.units import SECOND
from forwarder.forwarder import Forwarder
from forwarder.tables.pit import InRecord, OutRecord, PitEntry
from forwarder.wire.feed import item_name
from forwarder.wire.lp import NO_ROUTE
from forwarder.wire.name import from_uri
from forwarder.wire.packet import make_interest, parse_data, parse_interest
from ssb.generate import generate_feed
from ssb.keys import Identity
from ssb_over_ndn.naming import log_name, message_packet
from ssb_over_ndn.social.flood import AHEAD, SocialFlood
from ssb_over_ndn.social.receivers import SocialRouting, receiver_hint, receiver_of

KEEPER, LEFT, RIGHT, PLAIN = 1, 2, 3, 4
ANN, BEN, CLEO = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
FEED = log_name(ANN.ref)


class Knowing:
    """A keeper that says what the test says."""

    def __init__(self) -> None:
        self.carried = {FEED}
        self.homes: set[bytes] = set()
        self.tips = {FEED: 5}
        self.generations = {LEFT: 1, RIGHT: 1}
        self.places = {ANN.ref: LEFT, BEN.ref: RIGHT}

    def is_home(self, feed: bytes) -> bool:
        return feed in self.homes

    def carries(self, feed: bytes) -> bool:
        return feed in self.carried

    def tip(self, feed: bytes) -> int:
        return self.tips.get(feed, 0)

    def holds(self, feed: bytes, seq: int) -> bool:
        return seq <= self.tip(feed)

    def generation(self, face: int) -> int | None:
        return self.generations.get(face)

    def place(self, user: str) -> int | None:
        return self.places.get(user)

    def reaches(self, user: str, feed: str) -> bool:
        return user != CLEO.ref

    def holders(self, user: str, feed: str) -> list[str]:
        return [ANN.ref] if user == ANN.ref else [ANN.ref, BEN.ref]


class Asked:
    """A strategy with its keeper, and pending Interests by name."""

    def __init__(self, kind: type[SocialFlood] = SocialFlood, quota: int = 500) -> None:
        self.node = Forwarder(rng=Random(1))
        for face in (LEFT, RIGHT, PLAIN):
            self.node.add_face(face)
        self.node.add_face(KEEPER, local=True)
        self.keeper = Knowing()
        self.strategy = kind(self.node, self.keeper, KEEPER, quota)
        self.entries: dict[bytes, PitEntry] = {}
        self.nonces = iter(range(1, 10_000))

    def ask(
        self, seq: int, face: int, now: int = 0, feed: bytes = FEED, hint: tuple[bytes, ...] = ()
    ) -> object:
        name, nonce = item_name(feed, seq), next(self.nonces)
        wire = make_interest(name, nonce=nonce, lifetime_ms=1000, forwarding_hint=hint)
        entry = self.entries.setdefault(name, PitEntry((name, False, False)))
        entry.set_in_record(InRecord(face, nonce, now + SECOND, None, wire))
        faces = self.strategy.after_interest(entry, face, (), now)
        for out in faces or ():
            entry.set_out_record(OutRecord(out, nonce, now, now + SECOND))
        return faces


def test_what_is_here_is_answered_and_what_is_not_is_flooded_to_neighbours_with_keepers() -> None:
    asked = Asked()
    assert asked.ask(5, LEFT) == [KEEPER]
    assert asked.ask(6, KEEPER) == [LEFT, RIGHT]
    assert asked.ask(7, LEFT) == [RIGHT]


def test_an_interest_goes_to_a_neighbour_once_in_its_lifetime_unless_the_keeper_repeats_it() -> None:
    asked = Asked()
    assert asked.ask(6, KEEPER) == [LEFT, RIGHT]
    assert asked.ask(6, LEFT, now=SECOND // 10) == []
    assert asked.ask(6, LEFT, now=SECOND // 5) == []
    assert asked.ask(6, KEEPER, now=SECOND // 4) == [LEFT, RIGHT]
    assert asked.ask(6, RIGHT, now=2 * SECOND) == [LEFT]


def test_a_feed_that_is_not_carried_is_refused_and_so_is_what_is_far_ahead() -> None:
    asked = Asked()
    assert asked.ask(1, LEFT, feed=log_name(BEN.ref)) is None
    assert asked.ask(5 + AHEAD, LEFT) == [RIGHT]
    assert asked.ask(6 + AHEAD, LEFT) is None
    assert asked.strategy.counters == {"refused": 1, "ahead": 1, "flooded": 1}


def test_who_has_refused_is_not_asked_until_it_carries_others_or_time_has_passed() -> None:
    asked = Asked()
    asked.ask(6, KEEPER)
    entry = asked.entries[item_name(FEED, 6)]
    assert asked.strategy.after_nack(entry, LEFT, NO_ROUTE, (), 1) == ()
    assert asked.ask(7, KEEPER, now=SECOND) == [RIGHT]
    for second in range(2, 15):  # asking does not make it last longer
        asked.ask(7, KEEPER, now=second * SECOND)
    assert asked.ask(8, KEEPER, now=17 * SECOND) == [LEFT, RIGHT]
    asked.strategy.after_nack(entry, LEFT, NO_ROUTE, (), 18 * SECOND)
    asked.keeper.generations[LEFT] = 2
    assert asked.ask(9, KEEPER, now=19 * SECOND) == [LEFT, RIGHT]


def test_neighbours_that_wait_are_not_refused() -> None:
    asked = Asked()
    asked.ask(6, LEFT)
    entry = asked.entries[item_name(FEED, 6)]
    assert asked.strategy.after_nack(entry, RIGHT, NO_ROUTE, (), 1) is None


def test_a_forged_item_answers_nothing_and_who_brings_it_is_asked_no_more() -> None:
    asked = Asked()
    [own] = generate_feed(Random(1), 1, ANN)
    asked.ask(6, KEEPER)
    entry = asked.entries[item_name(FEED, 6)]
    genuine = message_packet(own)
    assert asked.strategy.accepts(entry, LEFT, parse_data(genuine), 0)
    asked.keeper.carried.clear()
    assert not asked.strategy.accepts(entry, LEFT, parse_data(genuine), 0)
    asked.keeper.carried.add(FEED)
    forged = bytearray(genuine)
    forged[-60] ^= 1
    assert not asked.strategy.accepts(entry, LEFT, parse_data(bytes(forged)), 0)
    assert asked.ask(7, KEEPER, now=SECOND) == [RIGHT]


def test_a_face_floods_within_its_quota_and_costs_others_none_of_theirs() -> None:
    asked = Asked(quota=10)
    asked.keeper.tips[FEED] = 0
    answers = [asked.ask(seq, LEFT) for seq in range(1, 41)]
    assert answers.count(None) == 30
    assert asked.ask(50, RIGHT) == [LEFT]
    assert asked.ask(51, LEFT, now=SECOND) == [RIGHT]


def test_interests_for_what_is_pushed_wait_here() -> None:
    asked = Asked()
    asked.strategy = SocialFlood(asked.node, asked.keeper, KEEPER, pushes=True)
    assert asked.ask(6, LEFT) == []
    assert asked.ask(5, LEFT) == [KEEPER]


def test_a_feeds_next_hops_for_long_lived_interests() -> None:
    asked = Asked()
    hops = asked.strategy.feed_hops
    assert [hop.face for hop in hops(FEED, (), past=False)] == [LEFT, RIGHT]
    assert [hop.face for hop in hops(FEED, (), past=True)] == [KEEPER, LEFT, RIGHT]
    assert hops(log_name(BEN.ref), (), past=False) is None
    asked.keeper.homes.add(FEED)
    assert [hop.face for hop in hops(FEED, (), past=False)] == [KEEPER]


def test_a_receiver_is_read_from_the_hint_it_was_written_to() -> None:
    assert receiver_of(receiver_hint(ANN.ref)) == ANN.ref
    assert receiver_of(()) is None
    assert receiver_of((from_uri("/ssb/for"), FEED)) is None
    interest = make_interest(FEED, nonce=1, forwarding_hint=receiver_hint(BEN.ref))
    assert receiver_of(parse_interest(interest).forwarding_hint) == BEN.ref


def test_interests_go_where_the_receivers_graph_leads_and_split_where_graphs_differ() -> None:
    asked = Asked(SocialRouting)
    assert asked.ask(6, PLAIN) is None  # for nobody
    assert asked.ask(7, PLAIN, hint=receiver_hint(CLEO.ref)) is None
    assert asked.ask(8, PLAIN, hint=receiver_hint(ANN.ref)) == [LEFT]
    assert asked.ask(8, KEEPER, hint=receiver_hint(BEN.ref)) == [RIGHT]
    assert asked.ask(8, LEFT, hint=receiver_hint(BEN.ref)) == []
    assert asked.strategy.counters["joined"] == 2
    assert asked.strategy.counters["split"] == 1
