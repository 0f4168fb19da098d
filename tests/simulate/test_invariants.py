"""The observers themselves: each must see what it is for, and nothing else."""

from collections import Counter
from random import Random

import pytest

from base.units import MS
from forwarder.feedcache.items import open_item
from forwarder.forwarder import Forwarder
from forwarder.host import Host
from forwarder.wire.feed import item_name
from forwarder.wire.hello import Hello, Standing, reference
from forwarder.wire.lp import make_lp
from forwarder.wire.packet import make_interest
from testbed.verify.kit.outcome import Violation
from testbed.verify.push.stories.feeds import items_of, name_of
from testbed.verify.push.stories.story import Feed
from testbed.verify.push.world.frames import Frame, Reader
from testbed.verify.push.world.invariants import Delivery, Grants, check_ended, check_silent, digest

FEED = b"feed"


def lli(first: int, credit: int, nonce: int, lifetime_ms: int = 1000) -> Frame:
    kind = "lli" if credit else "cancel"
    return Frame(kind, FEED, first, credit, nonce=nonce, lifetime_ms=lifetime_ms)


def interest(seq: int, nonce: int) -> Frame:
    return Frame("interest", FEED, seq, nonce=nonce, lifetime_ms=1000)


class Link:
    """What `a` may send to `b`."""

    def __init__(self, *legacy: str) -> None:
        self.grants = Grants(legacy)

    def grant(self, frame: Frame, now: int = 0) -> None:
        self.grants.arrived("a", "b", frame, now)

    def may_send(self, seq: int, now: int = 0) -> bool:
        try:
            self.grants.sent("a", "b", Frame("item", FEED, seq), now)
        except Violation:
            return False
        return True

    def sendable(self, now: int = 0) -> list[int]:
        return [seq for seq in range(1, 30) if self.may_send(seq, now)]


def test_a_grant_pays_for_each_of_its_items_once() -> None:
    link = Link()
    link.grant(lli(3, 4, 1))
    assert link.sendable() == [3, 4, 5, 6]
    assert link.sendable() == []


def test_a_rewind_is_a_new_grant_and_a_renewal_extends() -> None:
    link = Link()
    link.grant(lli(1, 4, 1))
    assert link.may_send(1)
    link.grant(lli(1, 4, 2))
    assert link.may_send(1)
    link.grant(lli(5, 2, 3))
    assert link.sendable() == [2, 3, 4, 5, 6]


def test_a_renewal_grants_what_a_lost_one_did_as_long_as_the_range_is_open() -> None:
    link = Link()
    link.grant(lli(1, 2, 1))
    link.grant(lli(5, 2, 2))
    assert link.sendable() == [1, 2, 3, 4, 5, 6]
    link.grant(lli(9, 2, 3))
    assert link.sendable() == [9, 10]


def test_one_that_was_overtaken_grants_its_own_only() -> None:
    link = Link()
    link.grant(lli(5, 2, 2))
    link.grant(lli(1, 2, 1))
    assert link.sendable() == [1, 2, 5, 6]


def test_a_refusal_ends_a_grant() -> None:
    link = Link()
    link.grant(lli(1, 4, 1))
    link.grant(interest(9, 2))
    link.grants.sent("a", "b", Frame("nack", FEED, 1, is_lli=True), 0)
    assert link.sendable() == [9]


def test_the_duplicate_of_the_newest_lli_grants_nothing() -> None:
    link = Link()
    link.grant(lli(1, 2, 1))
    assert link.may_send(1)
    link.grant(lli(1, 2, 1))
    assert link.sendable() == [2]


def test_time_and_cancellation_end_grants() -> None:
    link = Link()
    link.grant(lli(1, 4, 1), now=0)
    assert not link.may_send(1, now=1000 * MS)
    link.grant(lli(1, 4, 2), now=0)
    link.grant(lli(5, 4, 3, lifetime_ms=3000), now=500 * MS)
    assert link.may_send(1, now=2000 * MS)
    link.grant(lli(1, 0, 4), now=2000 * MS)
    assert link.sendable(now=2000 * MS) == []


@pytest.mark.parametrize(
    "hello", [Hello(is_forgotten=True), Hello(haves=(Standing(reference(FEED)),))], ids=["forgotten", "have"]
)
def test_a_hello_ends_grants_as_a_cancellation_does(hello: Hello) -> None:
    link = Link()
    link.grant(lli(1, 4, 1))
    link.grant(interest(9, 2))
    for other in (Hello(), Hello(haves=(Standing(b"another."), Standing(reference(FEED), 1, 4)))):
        link.grant(Frame("hello", hello=other))
    assert link.may_send(1)
    link.grant(Frame("hello", hello=hello))
    assert link.sendable() == [9]
    link.grant(lli(1, 4, 1))
    assert link.sendable() == [1, 2, 3, 4], "a copy that comes later grants anew"


def test_a_classic_interest_grants_its_item_and_so_does_any_at_a_legacy_node() -> None:
    link = Link()
    link.grant(interest(7, 1))
    assert link.sendable() == [7]
    link = Link("a")
    link.grant(lli(1, 4, 1))
    assert link.sendable() == [1]


def test_an_item_that_both_an_interest_and_a_range_grant_goes_twice_whichever_ends_first() -> None:
    for cancels in (False, True):
        link = Link()
        link.grant(interest(2, 1))
        link.grant(lli(1, 4, 2))
        assert link.may_send(2)
        if cancels:
            link.grant(lli(5, 0, 3))
        assert [link.may_send(2) for _ in range(2)] == [True, False]
    link = Link()
    link.grant(interest(2, 1))
    assert link.may_send(2)
    link.grant(lli(1, 4, 2))
    link.grant(lli(5, 0, 3))
    assert not link.may_send(2), "the range came later, and has paid for nothing"


def test_grants_end_with_the_link_and_with_the_node() -> None:
    for peer in ("b", None):
        link = Link()
        link.grant(lli(1, 4, 1))
        link.grants.forget("a", "c")
        assert link.may_send(1)
        link.grants.forget("a", peer)
        assert link.sendable() == []


def test_only_items_need_a_grant() -> None:
    for kind in ("data", "idle", "nack", "fragment", "lli"):
        Grants(()).sent("a", "b", Frame(kind, FEED, 1), 0)


SPEC = Feed("native", 0, ("a", "b"), fork=3)
BRANCHES = [tuple(item.content for item in items_of(SPEC, device)) for device in (0, 1)]


def deliver(delivery: Delivery, *got: tuple[int, int]) -> None:
    for seq, device in got:
        delivery.got(open_item(name_of(SPEC), seq, items_of(SPEC, device)[seq - 1]))


def test_items_in_order_pass() -> None:
    delivery = Delivery("s", BRANCHES, 3, after=0)
    deliver(delivery, (1, 0), (2, 1), (3, 1), (4, 1))
    assert delivery.is_done(4)
    assert not delivery.is_done(5)


@pytest.mark.parametrize("wrong", [[(1, 0), (1, 0)], [(2, 0)], [(1, 0), (2, 0), (3, 0), (4, 1)]])
def test_a_duplicate_a_gap_and_the_other_branch_do_not(wrong: list[tuple[int, int]]) -> None:
    with pytest.raises(Violation, match="delivered"):
        deliver(Delivery("s", BRANCHES, 3, after=0), *wrong)


def test_nothing_comes_after_an_error_and_a_fork_needs_one() -> None:
    delivery = Delivery("s", BRANCHES, 3, after=0)
    delivery.failed("fork")
    assert delivery.is_done(40)
    with pytest.raises(Violation, match="after the error"):
        deliver(delivery, (1, 0))
    with pytest.raises(Violation, match="has none"):
        Delivery("s", BRANCHES[:1], None, after=0).failed("fork")


def test_the_digest_sees_state_and_not_counters() -> None:
    host = Host(Forwarder(rng=Random(1)))
    face = host.add_link()
    empty = digest(host)
    host.receive(face, b"\x05\x00", None, 0)
    assert host.forwarder.counters.malformed == 1
    assert digest(host) == empty
    feeds = host.forwarder.feeds
    assert feeds is not None
    feeds.counters = Counter(gaps=3)
    assert digest(host) == empty
    host.forwarder.fib.add(name_of(SPEC), face + 1)
    host.forwarder.add_face(face + 1)
    routed = digest(host)
    assert routed != empty
    host.receive(face, make_interest(item_name(name_of(SPEC), 1), nonce=1, send_credit=3), None, 0)
    assert digest(host) != routed
    check_ended("a", Host(Forwarder(rng=Random(1))))
    check_silent("a", Host(Forwarder(rng=Random(1))))
    with pytest.raises(Violation, match=r"state-zero at a: .*PIT entries 1"):
        check_ended("a", host)
    with pytest.raises(Violation, match=r"state-zero at a: .*alarm at"):
        check_silent("a", host)


def test_a_frame_is_read_by_the_codec_alone() -> None:
    reader = Reader()
    name = name_of(SPEC)
    item = items_of(SPEC, 0)[0].wire
    assert reader.read(item, 0)[:3] == ("item", name, 1)
    assert reader.read(make_lp(item, tip=5, limit=9), 0).limit == 9
    asked = make_interest(item_name(name, 4), nonce=7, send_credit=2, lifetime_ms=60)
    assert reader.read(asked, 0)[:6] == ("lli", name, 4, 2, 7, 60)
    assert reader.read(make_interest(item_name(name, 4), nonce=7, send_credit=0), 0).kind == "cancel"
    assert reader.read(make_interest(item_name(name, 4), nonce=7), 0).kind == "interest"
    assert reader.read(make_lp(asked, nack_reason=150), 0).kind == "nack"
    assert reader.read(b"\x07", 0).kind == "malformed"
