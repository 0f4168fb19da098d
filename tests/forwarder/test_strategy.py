"""Best-route: which next hop, and when a repetition goes out."""

from collections.abc import Sequence

import pytest
from scripted_node import MS, Node, interest

from forwarder.fib import NextHop
from forwarder.pit import OutRecord, PitEntry
from forwarder.strategies.best_route import BestRoute
from forwarder.strategies.multicast import Multicast
from forwarder.strategy import Strategy, StrategyChoice
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import from_uri, prefix_ends
from forwarder.wire.packet import make_data

HOPS = (NextHop(2, 0), NextHop(3, 1), NextHop(4, 2))
CORE = Node().core


def choose(entry: PitEntry, face: int, hops: Sequence[NextHop], now: int) -> Sequence[int] | None:
    """What best-route decides of the hops that do not lead back, noted in the entry as the forwarder does."""
    hops = [hop for hop in hops if hop.face != face]
    faces = BestRoute(CORE, {}).after_interest(entry, face, hops, now)
    for out in faces or ():
        entry.set_out_record(OutRecord(out, 1, now, now + 4000 * MS))
    return faces


def new_entry() -> PitEntry:
    return PitEntry((b"\x08\x01a", False, False))


def test_the_cheapest_next_hop_but_not_back() -> None:
    assert choose(new_entry(), 1, HOPS, 0) == (2,)
    assert choose(new_entry(), 2, HOPS, 0) == (3,)
    assert choose(new_entry(), 2, HOPS[:1], 0) is None
    assert choose(new_entry(), 1, (), 0) is None


@pytest.mark.parametrize("hops", [HOPS[:1], HOPS], ids=["one hop", "three hops"])
def test_suppression_doubles_from_10_ms_to_250_ms(hops: Sequence[NextHop]) -> None:
    """As in NFD: from the last one sent, wherever that went, to the nanosecond."""
    entry = new_entry()
    now = 5 * MS
    assert choose(entry, 1, hops, now) == (2,)
    for interval in (10, 20, 40, 80, 160, 250, 250):
        assert choose(entry, 1, hops, now + 1) == ()
        assert choose(entry, 1, hops, now + interval * MS - 1) == ()
        now += interval * MS
        assert choose(entry, 1, hops, now) != ()


def test_what_is_held_back_does_not_lengthen_the_interval() -> None:
    entry = new_entry()
    choose(entry, 1, HOPS, 0)
    for now in range(0, 10 * MS, MS):
        assert choose(entry, 1, HOPS, now) == ()
    assert choose(entry, 1, HOPS, 10 * MS) == (3,)


def test_repetitions_take_unused_next_hops_first_then_the_one_used_longest_ago() -> None:
    entry = new_entry()
    taken = [choose(entry, 1, HOPS, now * 300 * MS) for now in range(6)]
    assert taken == [(2,), (3,), (4,), (2,), (3,), (4,)]


def test_a_repetition_does_not_go_back_where_it_came_from() -> None:
    entry = new_entry()
    assert choose(entry, 1, HOPS[:2], 0) == (2,)
    assert choose(entry, 3, HOPS[:2], 300 * MS) == (2,)
    assert choose(entry, 2, HOPS[:2], 900 * MS) == (3,)


def test_a_repetition_with_nowhere_else_to_go_waits() -> None:
    """An answer may still come to the first."""
    entry = new_entry()
    assert choose(entry, 1, HOPS[:1], 0) == (2,)
    assert choose(entry, 2, HOPS[:1], 300 * MS) == ()
    assert choose(entry, 1, (), 300 * MS) == ()


def test_a_new_entry_begins_anew() -> None:
    entry = new_entry()
    choose(entry, 1, HOPS[:1], 0)
    choose(entry, 1, HOPS[:1], 10 * MS)
    assert choose(entry, 1, HOPS[:1], 20 * MS) == ()
    again = new_entry()
    choose(again, 1, HOPS[:1], 15 * MS)
    assert choose(again, 1, HOPS[:1], 25 * MS) == (2,)


@pytest.mark.parametrize("second_face", [1, 3], ids=["the same consumer", "another consumer"])
def test_suppression_in_a_forwarder(second_face: int) -> None:
    node = Node()
    node.route("/a", 2)
    assert node.interest(1, "/a", 1) == ["2 interest /a nonce=1"]
    node.wait(10 * MS - 1)
    assert node.interest(second_face, "/a", 2) == []
    node.wait(1)
    assert node.interest(second_face, "/a", 3) == ["2 interest /a nonce=3"]
    node.wait(20 * MS - 1)
    assert node.interest(1, "/a", 4) == []
    node.wait(1)
    assert node.interest(1, "/a", 5) == ["2 interest /a nonce=5"]


class Flood(Strategy):
    """A strategy of one's own."""

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        return [hop.face for hop in hops] or None


def test_a_strategy_of_ones_own() -> None:
    node = Node(strategy=Flood)
    node.route("/a", 1, 2, 3)
    assert node.interest(1, "/a", 7) == ["2 interest /a nonce=7", "3 interest /a nonce=7"]
    assert node.interest(2, "/b", 7) == ["2 nack /b nonce=7 no-route"]
    (entry,) = node.core.pit
    assert [record.face for record in entry.out_records] == [2, 3]


def test_multicast_sends_to_all_but_back() -> None:
    node = Node(strategy=Multicast)
    node.route("/a", 1, 2, 3)
    assert node.interest(1, "/a", 7) == ["2 interest /a nonce=7", "3 interest /a nonce=7"]
    assert node.interest(4, "/b", 7) == ["4 nack /b nonce=7 no-route"]


def test_multicast_has_nowhere_to_go_but_back() -> None:
    node = Node(strategy=Multicast)
    node.route("/a", 1)
    assert node.interest(1, "/a", 7) == ["1 nack /a nonce=7 no-route"]


def test_multicast_of_a_second_consumer_goes_where_the_first_came_from() -> None:
    node = Node(strategy=Multicast)
    node.route("/a", 1, 2, 3)
    node.interest(1, "/a", 7)
    node.wait(MS)
    assert node.interest(2, "/a", 8) == ["1 interest /a nonce=8"]
    node.wait(9 * MS)
    assert node.interest(1, "/a", 9) == ["2 interest /a nonce=9", "3 interest /a nonce=9"]


def test_multicast_suppression_doubles_from_10_ms_to_250_ms() -> None:
    entry = new_entry()
    strategy = Multicast(CORE, {})

    def sent(now: int) -> Sequence[int] | None:
        faces = strategy.after_interest(entry, 1, HOPS, now)
        for out in faces or ():
            entry.set_out_record(OutRecord(out, 1, now, now + 4000 * MS))
        return faces

    now = 0
    assert sent(now) == [2, 3, 4]
    for interval in (10, 20, 40, 80, 160, 250, 250):
        assert sent(now + interval * MS - 1) == []
        now += interval * MS
        assert sent(now) == [2, 3, 4]


def test_one_answer_satisfies_all_branches_of_a_multicast() -> None:
    node = Node(strategy=Multicast)
    node.route("/a", 2, 3)
    node.interest(1, "/a", 7)
    assert node.data(2, "/a") == ["1 data /a"]
    assert node.data(3, "/a") == []
    assert node.core.counters.unsolicited == 1


def test_the_strategy_of_the_longest_prefix() -> None:
    default, short, long = BestRoute(CORE, {}), Multicast(CORE, {}), Multicast(CORE, {})
    choice = StrategyChoice(default)
    name = from_uri("/a/b/c")
    assert choice.find(name, prefix_ends(name)) is default
    choice.set(from_uri("/a"), short)
    choice.set(from_uri("/a/b"), long)
    assert choice.find(name, prefix_ends(name)) is long
    for uri, chosen in (("/a/x", short), ("/a", short), ("/a/b", long), ("/x", default), ("/ab", default)):
        assert choice.find(from_uri(uri), prefix_ends(from_uri(uri))) is chosen


def test_a_forwarder_takes_the_strategy_of_the_name() -> None:
    node = Node()
    node.core.choose_strategy(from_uri("/a/m"), Multicast)
    node.route("/a", 2, 3)
    assert node.interest(1, "/a/x", 7) == ["2 interest /a/x nonce=7"]
    assert node.interest(1, "/a/m/x", 7) == ["2 interest /a/m/x nonce=7", "3 interest /a/m/x nonce=7"]


@pytest.mark.parametrize("token", [None, b"t"])
def test_a_congestion_mark_goes_on_with_its_data(token: bytes | None) -> None:
    node = Node()
    node.route("/a", 2)
    node.interest(1, "/a", 7, token)
    node.interest(3, "/a", 8)
    data = make_data(from_uri("/a"), b"")
    node.core.receive(2, make_lp(data, congestion_mark=2), node.now)
    sent = {face: parse_lp(packet) for face, packet in node.core.take_outputs()}
    assert {face: (lp.fragment, lp.congestion_mark) for face, lp in sent.items()} == {
        1: (data, 2),
        3: (data, 2),
    }
    assert (sent[1].pit_token, sent[3].pit_token) == (token, None)
    node.core.receive(4, interest("/a", 9), node.now)
    assert node.core.take_outputs() == [(4, data)]  # from the cache, and no longer marked
