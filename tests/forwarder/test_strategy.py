"""What a strategy is to a forwarder; best-route and multicast, decision by decision."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from scripted_node import Node, interest

from base.units import MS
from forwarder import strategies
from forwarder.strategies.best_route import BestRoute
from forwarder.strategies.multicast import Multicast
from forwarder.strategies.strategy import Strategy
from forwarder.strategies.strategy_choice import StrategyChoice
from forwarder.tables.fib import NextHop
from forwarder.tables.pit import OutRecord, PitEntry, Tags
from forwarder.wire.lp import make_lp, parse_lp
from forwarder.wire.name import component, components, from_uri, prefix_ends
from forwarder.wire.packet import Data, make_data

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


PREFIXES = st.lists(st.sampled_from([component(8, b"a"), component(8, b"b")]), max_size=3).map(b"".join)


class ChoiceAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.chosen = {b"": BestRoute(CORE, {})}
        self.choice = StrategyChoice(self.chosen[b""])

    @rule(prefix=PREFIXES)
    def set(self, prefix: bytes) -> None:
        self.chosen[prefix] = BestRoute(CORE, {})
        self.choice.set(prefix, self.chosen[prefix])

    @rule(prefix=PREFIXES)
    def unset(self, prefix: bytes) -> None:
        self.choice.unset(prefix)
        if prefix:
            self.chosen.pop(prefix, None)

    @rule(name=PREFIXES)
    def find(self, name: bytes) -> None:
        parts = components(name)
        matching = [
            prefix for prefix in self.chosen if components(prefix) == parts[: len(components(prefix))]
        ]
        longest = max(matching, key=lambda prefix: len(components(prefix)))
        assert self.choice.find(name, prefix_ends(name)) is self.chosen[longest]

    @rule()
    def items(self) -> None:
        listed = self.choice.items()
        assert listed[0][0] == b""
        assert dict(listed) == self.chosen
        assert len(listed) == len(self.chosen)


TestChoiceAgainstDict = ChoiceAgainstDict.TestCase
TestChoiceAgainstDict.settings = settings(max_examples=60, stateful_step_count=30)


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


class Patient(Strategy):
    """Waits for other answers, probes, and writes down what it is told."""

    STAY = 50 * MS

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        self.log: list[str] = getattr(self, "log", [])
        return (hops[0].face,) if not entry.is_pending(now) else ()

    def probe(self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int) -> Sequence[int]:
        self.log.append("probe")
        return [hop.face for hop in hops[1:]]

    def after_data(self, entry: PitEntry, face: int, data: Data, now: int) -> int:
        self.log.append(f"data from {face}, {len(entry.in_records)} wait")
        return self.STAY

    def after_nack(
        self, entry: PitEntry, face: int, reason: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int]:
        self.log.append(f"nack from {face}")
        return ()

    def after_expiry(self, entry: PitEntry, now: int) -> None:
        self.log.append("expired")


def patient(*faces: int) -> tuple[Node, Patient]:
    node = Node(strategy=Patient)
    node.route("/a", *faces)
    ((_, strategy),) = node.core.strategies.items()
    assert isinstance(strategy, Patient)
    return node, strategy


def test_an_entry_that_stays_learns_from_late_answers_and_answers_nobody_twice() -> None:
    node, strategy = patient(2, 3)
    first, second = node.interest(1, "/a", 7)
    assert first == "2 interest /a nonce=7"
    assert second.startswith("3 interest /a nonce=")
    assert second != "3 interest /a nonce=7"
    assert node.data(2, "/a") == ["1 data /a"]
    assert len(node.core.pit) == 1
    assert node.data(3, "/a") == []
    assert strategy.log == ["probe", "data from 2, 1 wait", "data from 3, 0 wait"]
    node.wait(50 * MS)
    assert len(node.core.pit) == 0
    assert "expired" not in strategy.log
    assert node.core.counters.expired == 0
    assert node.core.counters.satisfied == 1


def test_an_entry_that_stays_learns_from_a_late_nack() -> None:
    node, strategy = patient(2, 3)
    _, probe = node.interest(1, "/a", 7)
    node.data(2, "/a")
    assert node.nack(3, "/a", int(probe.partition("nonce=")[2])) == []
    assert strategy.log[-1] == "nack from 3"


def test_an_entry_that_stays_takes_a_new_interest() -> None:
    node, strategy = patient(2)
    node.interest(1, "/a", 7, must_be_fresh=True)
    node.data(2, "/a")
    node.wait(10 * MS)
    assert node.interest(1, "/a", 8, must_be_fresh=True) == ["2 interest /a nonce=8"]
    assert node.data(2, "/a") == ["1 data /a"]
    assert strategy.log == ["probe", "data from 2, 1 wait", "probe", "data from 2, 1 wait"]


def test_what_is_held_back_is_not_probed() -> None:
    node, strategy = patient(2, 3)
    node.interest(1, "/a", 7)
    assert node.interest(4, "/a", 8) == []
    assert strategy.log == ["probe"]


def test_an_unanswered_interest_expires_once() -> None:
    node, strategy = patient(2)
    node.interest(1, "/a", 7, lifetime_ms=100)
    node.wait(200 * MS)
    assert strategy.log == ["probe", "expired"]
    assert node.core.counters.expired == 1


class Marking(Strategy):
    """Sets NonDiscovery on what it sends, and reports it of what came."""

    def after_interest(
        self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int
    ) -> Sequence[int] | None:
        self.came_with = entry.tags
        entry.tags = Tags(non_discovery=True)
        return (hops[0].face,)


def test_tags_are_those_of_the_latest_interest_until_the_strategy_sets_others() -> None:
    node = Node(strategy=Marking)
    node.route("/a", 2)
    ((_, strategy),) = node.core.strategies.items()
    assert isinstance(strategy, Marking)
    for nonce, is_marked in ((7, False), (8, True), (9, False)):
        packet = interest("/a", nonce)
        node.core.receive(1, make_lp(packet, non_discovery=True) if is_marked else packet, node.now)
        assert strategy.came_with == (Tags(non_discovery=True) if is_marked else None)
        ((face, sent),) = node.core.take_outputs()
        assert face == 2
        assert parse_lp(sent).non_discovery


class TestParameters:
    class Made(Strategy):
        NAME = "made"
        PARAMETERS: ClassVar[dict[str, float]] = {"count": 3, "share": 0.5}

    def test_defaults_and_values(self) -> None:
        assert self.Made(CORE, {}).parameters == {"count": 3, "share": 0.5}
        assert self.Made(CORE, {"share": "2", "count": "0"}).parameters == {"count": 0, "share": 2.0}

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("count", "1.5"),
            ("count", "-1"),
            ("count", "x"),
            ("count", ""),
            ("share", "-0.1"),
            ("share", "inf"),
            ("share", "nan"),
            ("share", "x"),
            ("size", "1"),
        ],
    )
    def test_refused_in_one_line_that_names_it(self, name: str, text: str) -> None:
        with pytest.raises(ValueError, match=f"^strategy made.*{name}") as error:
            self.Made(CORE, {name: text})
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        "text",
        [
            "asf/probing-interval~999",
            "asf/probing-interval~60000/measurements-lifetime~60000",
            "best-route/retx-suppression-initial~0",
            "best-route/retx-suppression-initial~300",
            "multicast/retx-suppression-multiplier~0.9",
            "access/anything~1",
            "self-learning/anything~1",
            "random/anything~1",
        ],
    )
    def test_what_does_not_fit_together_is_refused(self, text: str) -> None:
        chosen, parameters = strategies.parse(text)
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            chosen(CORE, parameters)

    def test_suppression_as_the_parameters_say(self) -> None:
        node = Node()
        _, parameters = strategies.parse(
            "best-route/retx-suppression-initial~20/retx-suppression-multiplier~3"
        )
        node.core.choose_strategy(b"", BestRoute, parameters)
        node.route("/a", 2)
        node.interest(1, "/a", 1)
        for nonce, interval in enumerate((20, 60, 180, 250, 250), start=2):
            node.wait(interval * MS - 1)
            assert node.interest(1, "/a", 100 + nonce) == []
            node.wait(1)
            assert node.interest(1, "/a", nonce) == [f"2 interest /a nonce={nonce}"]


class TestNames:
    def test_all_of_nfd(self) -> None:
        versions = {name: found.VERSION for name, found in strategies.STRATEGIES.items()}
        assert (
            versions.items()
            >= {
                "access": 1,
                "asf": 5,
                "best-route": 5,
                "multicast": 5,
                "random": 1,
                "self-learning": 1,
            }.items()
        )

    def test_parsed(self) -> None:
        asf = strategies.STRATEGIES["asf"]
        assert strategies.parse("asf") == (asf, {})
        assert strategies.parse("/localhost/nfd/strategy/asf/v=5/a~1/b~2~3") == (asf, {"a": "1", "b": "2~3"})
        assert strategies.parse("asf/a~1") == (asf, {"a": "1"})

    @pytest.mark.parametrize(
        "text", ["", "x", "asf/", "asf/v=4", "asf/a~1/v=5", "asf/a", "asf/~1", "asf/a~", "/asf"]
    )
    def test_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            strategies.parse(text)

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("x = 1", "no class"),
            ("x = = 1", "SyntaxError"),
            ("1 / 0", "ZeroDivisionError"),
            (None, "No such file"),
        ],
    )
    def test_a_file_that_is_none(self, tmp_path: Path, text: str | None, complaint: str) -> None:
        path = tmp_path / "mine.py"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ValueError, match=complaint) as error:
            strategies.load(path)
        assert str(path) in str(error.value)


def test_localhop_of_a_neighbour_does_not_ride_on_an_applications() -> None:
    node = Node()
    node.route("/localhop/a", 2, 3)
    assert node.interest(9, "/localhop/a", 1) == ["2 interest /localhop/a nonce=1"]
    node.wait(100 * MS)
    assert node.interest(1, "/localhop/a", 2) == []
    assert node.interest(9, "/localhop/a", 3) == ["3 interest /localhop/a nonce=3"]
    assert node.data(3, "/localhop/a") == ["1 data /localhop/a", "9 data /localhop/a"]


def test_what_has_expired_upstream_is_new_again() -> None:
    """A patient consumer keeps the entry; the impatient one's Interest has long been forgotten upstream."""
    entry = new_entry()
    strategy = BestRoute(CORE, {})
    entry.set_out_record(OutRecord(2, 1, 0, 100 * MS))
    assert strategy.after_interest(entry, 1, HOPS, 99 * MS) == (3,)
    assert strategy.after_interest(entry, 1, HOPS, 100 * MS) == (2,)


def test_what_is_new_again_is_not_held_back() -> None:
    entry = new_entry()
    strategy = BestRoute(CORE, {})
    entry.set_out_record(OutRecord(2, 1, 0, 5 * MS))
    assert strategy.after_interest(entry, 1, HOPS, 4 * MS) == ()
    assert strategy.after_interest(entry, 1, HOPS, 5 * MS) == (2,)
    assert strategy.after_interest(entry, 1, (), 5 * MS) is None


def test_a_next_hop_where_it_has_expired_counts_as_unused() -> None:
    entry = new_entry()
    strategy = BestRoute(CORE, {})
    entry.set_out_record(OutRecord(2, 1, 0, 100 * MS))
    entry.set_out_record(OutRecord(3, 1, 50 * MS, 4000 * MS))
    assert strategy.after_interest(entry, 1, HOPS, 200 * MS) == (2,)


def test_multicast_holds_each_upstream_back_by_its_own_interval() -> None:
    node = Node(strategy=Multicast)
    node.route("/a", 2, 3)
    node.interest(1, "/a", 1)
    node.wait(10 * MS)
    assert node.interest(3, "/a", 2) == ["2 interest /a nonce=2"]
    node.wait(10 * MS)
    assert node.interest(1, "/a", 3) == ["3 interest /a nonce=3"]
    node.wait(10 * MS)
    assert node.interest(1, "/a", 4) == ["2 interest /a nonce=4"]


def test_a_class_knows_what_it_has_of_its_own_and_from_whom() -> None:
    class Refined(Patient):
        """Nothing of its own."""

    class Probing(BestRoute):
        """One method of its own."""

        def probe(self, entry: PitEntry, face: int, hops: Sequence[NextHop], now: int) -> Sequence[int]:
            return ()

    known = {
        kind: (kind.PROBES, kind.HEARS_DATA) for kind in (Strategy, BestRoute, Patient, Refined, Probing)
    }
    assert known == {
        Strategy: (False, False),
        BestRoute: (False, False),
        Patient: (True, True),
        Refined: (True, True),
        Probing: (True, False),
    }
