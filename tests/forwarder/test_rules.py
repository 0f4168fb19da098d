"""Rules of the pipelines beside the plain exchange: scope, local fields, hints, loops, Nacks, links."""

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random

import pytest
from scripted_node import Node, interest

from base.units import MS
from forwarder.strategies.multicast import Multicast
from forwarder.strategies.strategy import Node as Core
from forwarder.strategies.strategy import Strategy
from forwarder.tables.face import CONTENT_STORE_FACE, LinkType
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import PitEntry
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.lp import CONGESTION, DUPLICATE, NO_ROUTE, LpPacket, make_lp, parse_lp
from forwarder.wire.name import component, from_uri, to_uri
from forwarder.wire.packet import Data, make_data, make_interest, parse_interest
from forwarder.wire.tlv import element

APP = 9


def sent(node: Node) -> list[tuple[int, bytes]]:
    return node.core.take_outputs()


# Scope.


@pytest.mark.parametrize("uri", ["/localhost", "/localhost/a"])
def test_localhost_does_not_come_from_the_network(uri: str) -> None:
    node = Node()
    node.route("/localhost", APP)
    assert node.interest(1, uri, 7) == []
    assert len(node.core.pit) == 0
    assert node.core.counters.out_of_scope == 1
    assert node.interest(APP, "/localhost/b", 7) == ["9 nack /localhost/b nonce=7 no-route"]


def test_localhost_does_not_go_to_the_network() -> None:
    node = Node()
    node.core.add_face(8, local=True)
    node.route("/localhost", 1, 8)
    assert node.interest(APP, "/localhost/a", 7) == ["8 interest /localhost/a nonce=7"]
    assert node.data(1, "/localhost/a") == []
    assert node.core.counters.out_of_scope == 1
    assert node.data(8, "/localhost/a") == ["9 data /localhost/a"]


def test_localhop_goes_one_hop_from_an_application() -> None:
    node = Node()
    node.route("/localhop", 1, 2)
    assert node.interest(APP, "/localhop/a", 7) == ["1 interest /localhop/a nonce=7"]
    assert node.interest(3, "/localhop/b", 7) == ["3 nack /localhop/b nonce=7 no-route"]
    node.route("/localhop", APP)
    assert node.interest(3, "/localhop/c", 7) == ["9 interest /localhop/c nonce=7"]
    assert node.data(APP, "/localhop/c") == ["3 data /localhop/c"]


def test_a_name_that_only_begins_like_a_scope_is_no_scope() -> None:
    node = Node()
    node.route("/", 2)
    assert node.interest(1, "/localhosts", 7) == ["2 interest /localhosts nonce=7"]


# Local fields.


def test_a_face_with_local_fields_learns_where_things_come_from() -> None:
    node = Node()
    node.core.faces[APP].local_fields = True
    node.route("/a", APP)
    node.route("/b", 2)
    node.core.receive(1, interest("/a/x", 7), 0)
    node.core.receive(APP, interest("/b/x", 8), 0)
    node.core.receive(2, make_data(from_uri("/b/x"), b"", freshness_ms=1000), 0)
    node.core.receive(APP, interest("/b/x", 9), 0)
    packets = [(face, parse_lp(packet).incoming_face) for face, packet in sent(node)]
    assert packets == [(APP, 1), (2, None), (APP, 2), (APP, CONTENT_STORE_FACE)]


def test_the_next_hop_that_an_application_chooses() -> None:
    node = Node()
    node.route("/a", 2)
    chosen = make_lp(interest("/a", 7), next_hop_face=3)
    assert node.receive(APP, chosen) == []  # not without local fields
    assert (len(node.core.pit), node.core.counters.malformed) == (0, 1)
    node.core.faces[APP].local_fields = True
    for wrong in (
        make_lp(make_data(from_uri("/a"), b""), next_hop_face=3),
        make_lp(interest("/a", 7), next_hop_face=3, nack_reason=NO_ROUTE),
    ):
        assert node.receive(APP, wrong) == []
    assert node.core.counters.malformed == 3
    assert node.receive(APP, make_lp(interest("/b", 8), next_hop_face=3)) == ["3 interest /b nonce=8"]
    assert node.data(3, "/b") == ["9 data /b"]
    assert node.receive(APP, make_lp(interest("/c", 8), next_hop_face=77)) == []
    node.wait(4000 * MS)
    assert len(node.core.pit) == 0


def test_data_that_are_not_to_be_kept() -> None:
    """From any face: as in NFD, this one needs no local fields."""
    node = Node()
    node.route("/a", APP)
    node.interest(1, "/a", 7)
    assert node.receive(APP, make_lp(make_data(from_uri("/a"), b""), no_cache=True)) == ["1 data /a"]
    assert len(node.core.cs) == 0


@pytest.mark.parametrize("policy", [element(0x335, b"\2"), element(0x335, b"\0"), b""])
def test_data_of_a_cache_policy_that_there_is_not(policy: bytes) -> None:
    node = Node()
    node.route("/a", APP)
    node.interest(1, "/a", 7)
    data = make_data(from_uri("/a"), b"")
    assert node.receive(APP, element(100, element(0x334, policy) + element(0x50, data))) == []
    assert (len(node.core.cs), node.core.counters.malformed) == (0, 1)
    assert node.receive(APP, data) == ["1 data /a"]


def test_a_mark_goes_with_its_interest_and_no_other() -> None:
    node = Node()
    node.route("/a", 2)
    node.core.receive(1, make_lp(interest("/a/1", 7, lifetime_ms=100), congestion_mark=3), 0)
    node.core.receive(1, interest("/a/2", 8), 0)
    node.core.receive(3, make_lp(interest("/a/1", 9), congestion_mark=4), 200 * MS)
    node.core.receive(1, interest("/a/1", 10), 400 * MS)
    marks = [(to_uri(parse_interest(lp.fragment).name), lp.congestion_mark) for lp in opened(node)]
    assert marks == [("/a/1", 3), ("/a/2", 0), ("/a/1", 4), ("/a/1", 0)]
    node.core.faces[2].local_fields = True
    node.core.receive(1, make_lp(interest("/a/3", 7), congestion_mark=1), 0)
    (lp,) = opened(node)
    assert (lp.congestion_mark, lp.incoming_face) == (1, 1)


def opened(node: Node) -> list[LpPacket]:
    return [parse_lp(packet) for _, packet in sent(node)]


def test_a_name_with_two_digests_of_parameters() -> None:
    node = Node()
    node.route("/a", 2)
    digest = component(2, bytes(32))
    assert node.receive(1, make_interest(from_uri("/a") + digest + digest, nonce=7)) == []
    assert (len(node.core.pit), node.core.counters.malformed) == (0, 1)
    for name in (from_uri("/a") + digest, from_uri("/a") + component(8, digest + digest) + digest):
        assert len(node.receive(1, make_interest(name, nonce=8))) == 1


ITEM = item_name(feed_name(from_uri("/a"), bytes(32)), 7)
OTHERS = {
    "no number": element(240, b"hello"),
    "empty": element(240),
    "a number": element(240, b"\7"),
}


NAMES = {
    "plain": from_uri("/a/b"),
    "number": from_uri("/a/seq=7"),
    "key in a component": from_uri("/a")
    + component(8, b"xx" + component(8, bytes(32)))
    + component(58, b"\7"),
    "item": ITEM,
}
NO_LLI = [pair for pair in product(NAMES, OTHERS) if pair != ("item", "a number")]


@pytest.mark.parametrize(("name", "private"), NO_LLI)
def test_an_element_of_others_makes_no_long_lived_interest(name: str, private: str) -> None:
    """Types from 240 are for applications: SendCredit is one only in the Interest for an item."""
    node = Node()
    node.route("/a", 2)
    whole = element(5, element(7, NAMES[name]) + element(10, b"1234") + OTHERS[private])
    node.core.receive(1, whole, 0)
    assert sent(node) == [(2, whole)], "as it came"
    assert node.core.feeds is not None
    assert (len(node.core.pit), len(node.core.feeds), node.core.counters.malformed) == (1, 0, 0)
    node.core.receive(2, make_lp(whole, nack_reason=NO_ROUTE), 1)
    assert [lp.nack_reason for lp in opened(node)] == [NO_ROUTE]


@pytest.mark.parametrize(
    ("policy", "kept"), [("drop-all", 0), ("admit-local", 1), ("admit-network", 1), ("admit-all", 2)]
)
def test_data_that_nobody_has_asked_for(policy: str, kept: int) -> None:
    node = Node()
    node.core.unsolicited = policy
    assert node.data(1, "/a") == node.data(APP, "/b") == []
    assert len(node.core.cs) == kept
    assert node.core.counters.unsolicited == 2


# Forwarding hints.


def hinted(uri: str, *hints: str, nonce: int = 7) -> bytes:
    return make_interest(from_uri(uri), nonce=nonce, hop_limit=5, forwarding_hint=[*map(from_uri, hints)])


def test_a_hint_leads_where_the_name_does_not() -> None:
    node = Node()
    node.route("/", 4)
    node.route("/isp", 2)
    node.route("/a", 3)
    node.core.receive(1, hinted("/a/x", "/elsewhere", "/isp/region"), 0)
    ((face, packet),) = sent(node)
    assert face == 4  # the default route leads on from where no better is known
    assert parse_interest(packet).forwarding_hint == (from_uri("/elsewhere"), from_uri("/isp/region"))
    node.core.fib.remove(b"", 4)
    node.core.receive(1, hinted("/a/y", "/elsewhere", "/isp/region"), 0)
    assert [face for face, _ in sent(node)] == [2]


def test_a_hint_that_has_arrived_is_taken_off() -> None:
    node = Node()
    node.core.regions = {from_uri("/isp")}
    node.route("/a", 3)
    node.core.receive(1, hinted("/a/x", "/isp/region"), 0)
    ((face, packet),) = sent(node)
    assert face == 3
    assert packet == make_interest(from_uri("/a/x"), nonce=7, hop_limit=4)


def test_a_hint_with_a_broken_name_is_malformed() -> None:
    node = Node()
    node.route("/", 2)
    before = node.state()
    node.core.receive(1, make_interest(from_uri("/a"), nonce=7, forwarding_hint=[b"\x08\x05ab"]), 0)
    assert sent(node) == []
    assert node.core.counters.malformed == 1
    assert node.state() == before


# Loops.


def test_an_interest_that_comes_back_after_its_entry_has_gone() -> None:
    node = Node()
    node.route("/a", 2)
    node.interest(1, "/a", 7, lifetime_ms=100)
    node.wait(101 * MS)
    assert len(node.core.pit) == 0
    assert node.interest(3, "/a", 7) == ["3 nack /a nonce=7 duplicate"]
    assert node.interest(3, "/a", 8) == ["2 interest /a nonce=8"]
    assert node.core.counters.looped == 1


def test_a_nonce_is_forgotten_after_a_while() -> None:
    node = Node()
    node.route("/a", 2)
    node.interest(1, "/a", 7, lifetime_ms=100)
    node.wait(100 * MS + 2999 * MS)
    assert node.interest(3, "/a", 7) == ["3 nack /a nonce=7 duplicate"]
    node.wait(3002 * MS)
    assert node.interest(3, "/a", 7) == ["2 interest /a nonce=7"]


@pytest.mark.parametrize(("fresh", "answer"), [(True, "3 nack /a nonce=7 duplicate"), (False, "3 data /a")])
def test_an_answered_interest_that_comes_back(fresh: bool, answer: str) -> None:
    """From the cache if that can answer; else it must be known by its nonce."""
    node = Node()
    node.route("/a", 2)
    node.interest(1, "/a", 7, must_be_fresh=fresh)
    node.data(2, "/a")
    assert node.interest(3, "/a", 7, must_be_fresh=fresh) == [answer]


# Nacks.


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (NO_ROUTE, CONGESTION, "congestion"),
        (CONGESTION, NO_ROUTE, "congestion"),
        (DUPLICATE, NO_ROUTE, "duplicate"),
        (0, NO_ROUTE, "no-route"),
    ],
)
def test_the_least_severe_reason_is_told(first: int, second: int, told: str) -> None:
    node = Node(strategy=Multicast)
    node.route("/a", 2, 3)
    node.interest(1, "/a", 7)
    assert node.nack(2, "/a", 7, first) == []
    assert node.nack(3, "/a", 7, second) == [f"1 nack /a nonce=7 {told}"]


def shared_link(node: Node, face: int, kind: LinkType) -> None:
    node.core.faces[face].link_type = kind


def test_no_nacks_on_a_shared_link() -> None:
    node = Node()
    shared_link(node, 1, LinkType.MULTI_ACCESS)
    assert node.interest(1, "/a", 7) == []
    node.route("/a", 1)
    node.interest(2, "/a", 8)
    assert node.nack(1, "/a", 8) == []
    assert node.data(1, "/a") == ["2 data /a"]


@pytest.mark.parametrize(
    ("kind", "answers"), [(LinkType.MULTI_ACCESS, []), (LinkType.AD_HOC, ["1 interest /a nonce=7"])]
)
def test_only_an_ad_hoc_link_is_gone_back_to(kind: LinkType, answers: list[str]) -> None:
    node = Node()
    shared_link(node, 1, kind)
    node.route("/a", 1)
    assert node.interest(1, "/a", 7) == answers
    assert node.data(1, "/a") == (["1 data /a"] if answers else [])


# What a strategy may do.


class Curious(Strategy):
    """Probes the last hop, waits for late answers, and turns to the next hop when refused."""

    NAME = "curious"

    def __init__(self, node: Core, parameters: Mapping[str, str]) -> None:
        super().__init__(node, parameters)
        self.seen: list[str] = []

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        return (hops[0].face,)

    def probe(self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int) -> Sequence[int]:
        return (hops[-1].face,)

    def after_data(self, entry: PitEntry, face: int, data: Data, now: int) -> int:
        self.seen.append(f"data {face} {to_uri(entry.name)}")
        return 100 * MS if entry.out_records[1:] else 0

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int]:
        self.seen.append(f"nack {face} {reason}")
        return (hops[1].face,) if entry.out_record(hops[1].face) is None else ()

    def after_expiry(self, entry: PitEntry, now: int) -> None:
        self.seen.append(f"expired {now // MS}")


def curious() -> tuple[Node, Curious]:
    node = Node(strategy=Curious)
    node.core.rng = Random(5)
    node.route("/a", 2, 3, 4)
    strategy = node.core.strategies.find(b"", [])
    assert isinstance(strategy, Curious)
    return node, strategy


def test_a_probe_has_a_nonce_of_its_own() -> None:
    node, _ = curious()
    other = Random(5).getrandbits(32)
    assert node.interest(1, "/a", 7, hop_limit=9) == [
        "2 interest /a nonce=7 hops=8",
        f"4 interest /a nonce={other} hops=8",
    ]
    (entry,) = node.core.pit
    assert [(record.face, record.nonce) for record in entry.out_records] == [(2, 7), (4, other)]


def test_an_entry_that_stays_for_late_answers() -> None:
    node, strategy = curious()
    node.interest(1, "/a", 7)
    assert node.data(4, "/a") == ["1 data /a"]
    (entry,) = node.core.pit
    assert entry.is_satisfied
    assert node.core.pit_entries() == 1  # it is state, and towards the network
    node.wait(50 * MS)
    assert node.data(2, "/a") == []
    assert strategy.seen == ["data 4 /a", "data 2 /a"]
    assert len(node.core.pit) == 0
    counters = node.core.counters
    assert (counters.satisfied, counters.expired, counters.unsolicited) == (1, 0, 0)


def test_an_entry_that_waits_in_vain_for_late_answers_goes_without_a_word() -> None:
    node, strategy = curious()
    node.interest(1, "/a", 7)
    node.data(4, "/a")
    assert node.wait(100 * MS) == []
    assert len(node.core.pit) == 0
    assert strategy.seen == ["data 4 /a"]
    assert node.core.counters.expired == 0


def test_an_interest_for_an_entry_that_stays_begins_anew() -> None:
    node, _ = curious()
    node.core.cs.capacity = 0
    node.interest(1, "/a", 7)
    node.data(4, "/a")
    assert node.interest(3, "/a", 9)[0] == "2 interest /a nonce=9"
    assert node.data(2, "/a") == ["3 data /a"]


def test_another_hop_is_tried_after_a_nack() -> None:
    node, strategy = curious()
    node.interest(1, "/a", 7)
    assert node.nack(2, "/a", 7) == ["3 interest /a nonce=7"]
    probe = next(record.nonce for entry in node.core.pit for record in entry.out_records if record.face == 4)
    assert node.nack(4, "/a", probe) == []
    assert node.nack(3, "/a", 7) == ["1 nack /a nonce=7 no-route"]
    assert strategy.seen == ["nack 2 150", "nack 4 150", "nack 3 150"]


def test_nobody_answers() -> None:
    node, strategy = curious()
    node.interest(1, "/a", 7, lifetime_ms=300)
    node.wait(301 * MS)
    assert strategy.seen == ["expired 300"]


# Bounds.


def test_a_full_pit_refuses_what_is_new() -> None:
    node = Node(pit_capacity=2)
    node.route("/a", 2)
    node.interest(1, "/a/1", 1)
    node.interest(1, "/a/2", 2)
    assert node.interest(1, "/a/3", 3) == ["1 nack /a/3 nonce=3 congestion"]
    assert node.interest(3, "/a/2", 4) == []  # joins what is pending
    assert node.data(2, "/a/2") == ["1 data /a/2", "3 data /a/2"]
    assert node.interest(1, "/a/3", 5) == ["2 interest /a/3 nonce=5"]
    assert node.core.counters.pit_full == 1


def test_no_interest_stays_for_ever() -> None:
    node = Node()
    node.route("/a", 2)
    node.interest(1, "/a", 1, lifetime_ms=(1 << 64) - 1)
    node.wait(3_600_000 * MS)
    assert len(node.core.pit) == 0


# Faces.


def test_counters_of_faces_add_up_and_outlive_them() -> None:
    node = Node()
    node.route("/a", 2)
    for nonce in range(3):
        node.interest(1, f"/a/{nonce}", nonce)
    node.data(2, "/a/1")
    one, two = node.core.faces[1], node.core.faces[2]
    assert (one.in_interests, one.out_data, two.out_interests, two.in_data) == (3, 1, 3, 1)
    before = node.core.counters.as_dict()
    assert (before["in_interests"], before["out_interests"], before["in_data"]) == (3, 3, 1)
    node.core.remove_face(1, node.now)
    assert node.core.counters.as_dict() == before
    assert len(node.core.pit) == 0


def test_what_an_announcement_needs() -> None:
    node = Node()
    heard: list[tuple[int, bytes, int]] = []
    assert node.core.find_announcement(b"", 0) is None
    node.core.announce(1, b"x", 2)
    node.core.on_announcement = lambda *what: heard.append(what)
    node.core.announcement_of = lambda name, now: name + b"!"
    node.core.announce(1, b"x", 2)
    assert heard == [(1, b"x", 2)]
    assert node.core.find_announcement(b"n", 0) == b"n!"


def test_a_small_store_answers_the_copy_of_an_interest() -> None:
    node = Node()
    node.route("/a", 2)
    node.core.cs.capacity = 64
    node.receive(1, interest("/a/1", 7))
    node.data(2, "/a/1")
    node.core.receive(3, interest("/a/1", 7), 0)
    ((face, packet),) = sent(node)
    assert (face, parse_lp(packet).nack_reason) == (3, None)


def test_the_copy_of_a_pending_interest_is_no_loop_when_its_upstream_has_gone() -> None:
    node = Node()
    node.route("/a", 2)
    node.core.receive(1, interest("/a/1", 7), 0)
    sent(node)
    node.core.remove_face(2, 0)
    node.core.receive(1, interest("/a/1", 7), 0)
    assert [lp.nack_reason for lp in opened(node)] != [DUPLICATE]
