"""tinyISP: its commands byte by byte, and each fault of the reference prototype that must not occur."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_cell import SECOND, cell, identity, node

from ssb.bipf import encode
from ssb.tiny.goset import set_demultiplexer
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.messages import (
    NOT_FOUND,
    REJECTED,
    Announcement,
    FarewellAck,
    FarewellFin,
    FarewellInit,
    HopFin,
    HopNext,
    HopPrev,
    Message,
    OnboardAck,
    OnboardRequest,
    OnboardResponse,
    SubPause,
    SubRequest,
    SubRequestIsp,
    SubResponse,
    SubResponseIsp,
    SubResume,
    is_tunnelled,
    read,
    write,
)
from ssb.tiny.isp.party import Event
from ssb.tiny.isp.provider import Provider
from ssb.tiny.isp.terms import Terms
from ssb.tiny.store import TinyStore
from topologies.emulator.network import EmulatedNetwork

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))["tinyisp"]
KEY, OTHER, REF = bytes(range(32)), bytes(range(32, 64)), bytes(range(20))

EXAMPLES: dict[str, Message] = {
    "announcement": Announcement(),
    "onboard_request": OnboardRequest(KEY, OTHER),
    "onboard_response(accept)": OnboardResponse(REF, True, KEY),
    "onboard_response(reject)": OnboardResponse(REF, False, None),
    "onboard_ack": OnboardAck(KEY),
    "feedhopping_prev": HopPrev(KEY),
    "feedhopping_prev(first)": HopPrev(None),
    "feedhopping_next": HopNext(KEY),
    "feedhopping_next(last)": HopNext(None),
    "feedhopping_fin": HopFin(KEY),
    "sub_req": SubRequest(KEY, OTHER),
    "sub_req_isp": SubRequestIsp(REF, KEY, OTHER),
    "sub_resp(accept)": SubResponse(REF, True, OTHER),
    "sub_resp(reject)": SubResponse(REF, False, None),
    "sub_resp_isp(accept)": SubResponseIsp(REF, True, OTHER),
    "sub_resp_isp(not_found)": SubResponseIsp(REF, False, NOT_FOUND),
    "sub_resp_isp(rejected)": SubResponseIsp(REF, False, REJECTED),
    "farewell_init": FarewellInit(),
    "farewell_ack": FarewellAck(),
    "farewell_fin": FarewellFin(),
}


@pytest.mark.parametrize("name", VECTORS)
def test_commands_both_ways(name: str) -> None:
    told = bytes.fromhex(VECTORS[name]["hex"])
    assert write(EXAMPLES[name]) == told
    assert read(told) == EXAMPLES[name]
    assert len(told) == VECTORS[name]["bytes"]
    assert not is_tunnelled(told)


@pytest.mark.parametrize(
    "value",
    [
        ["ISP"],
        ["ISP", "nothing"],
        ["TAV", "announcement"],
        ["ISP", "announcement", 1],
        ["ISP", "onboard_ack", bytes(31)],
        ["ISP", "onboard_ack", None],
        ["ISP", "onboard_ack"],
        ["ISP", "onboard_response", REF, True, None],
        ["ISP", "onboard_response", REF, False, KEY],
        ["ISP", "onboard_response", REF, 1, KEY],
        ["ISP", "sub_resp_isp", REF, True, NOT_FOUND],
        ["ISP", "sub_resp_isp", REF, False, KEY],
        ["ISP", 5],
        {"ISP": "announcement"},
        "ISP",
        None,
    ],
)
def test_what_is_no_command(value: object) -> None:
    assert read(encode(value)) is None  # type: ignore[arg-type]


def test_what_is_left_out_at_the_end_is_null() -> None:
    """The Android client's refusal has no feed."""
    assert read(encode(["ISP", "onboard_response", REF, False])) == OnboardResponse(REF, False, None)


@given(st.binary(max_size=300))
def test_any_content_is_a_command_or_none(content: bytes) -> None:
    message = read(content)
    assert message is None or read(write(message)) == message


def test_no_command_looks_like_a_tunnelled_entry() -> None:
    examples = [*EXAMPLES.values(), SubPause(KEY), SubResume(KEY)]
    assert not [message for message in examples if is_tunnelled(write(message))]
    assert [read(write(message)) for message in examples] == examples


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"size": 2}, "size: 2"),
        ({"unread": 1}, "unread"),
        ({"largest": 14_000}, "too large"),
        ({"backlog": 0}, "backlog"),
    ],
)
def test_terms_under_which_nothing_flows(terms: dict[str, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Terms(**terms).check()
    Terms().check()


# Networks


class Town:
    """A provider and clients in one cell; what they say in control and data feeds is noted, in order."""

    def __init__(
        self,
        clients: int = 2,
        terms: Terms | None = None,
        seed: int = 1,
        **medium: float,
    ) -> None:
        terms = terms or Terms(linger=30 * SECOND)
        self.said: list[tuple[str, Message]] = []
        names = ["isp", *(f"c{number}" for number in range(clients))]
        self.nodes = {name: node(number + 100 * seed) for number, name in enumerate(names)}
        self.provider = Provider(self.nodes["isp"], identity(0), Random(0), terms, 0)
        self.clients = {
            name: Client(self.nodes[name], identity(number), Random(number), terms, 0)
            for number, name in enumerate(names)
            if number
        }
        self.isp = self.provider.root.public_key
        for name, one in self.nodes.items():
            self._listen(name, one.store)
        medium = {"delay_ms": 1.0} | medium
        self.network: EmulatedNetwork = cell(self.nodes, seed, **medium)
        for client in self.clients.values():
            self.provider.follow(client.root.public_key, 0)
            client.follow(self.isp, 0)
        self.events: dict[str, list[Event]] = {name: [] for name in names}

    def _listen(self, name: str, store: TinyStore) -> None:
        publish = store.publish

        def noting(key: bytes, content: bytes, *, is_plain: bool = False):  # type: ignore[no-untyped-def]
            message = read(content)
            if message is not None:
                self.said.append((name, message))
            return publish(key, content, is_plain=is_plain)

        store.publish = noting  # type: ignore[method-assign]

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        for name in self.nodes:
            self.network.settle(name)
        end = self.network.now + round(seconds * SECOND)
        while self.network.now < end and not until():
            self.network.run(min(end, self.network.now + SECOND // 5))
            for name, party in [("isp", self.provider), *self.clients.items()]:
                self.events[name] += party.take_events()  # type: ignore[attr-defined]
        return until()

    def onboard(self) -> None:
        for client in self.clients.values():
            client.onboard(self.isp, self.network.now)
        assert self.run(60, lambda: all(self.contract(name).facts.state == "open" for name in self.clients))

    def contract(self, name: str) -> Contract:
        (contract,) = self.clients[name].contracts.values()
        return contract

    def subscribe(self, asker: str = "c0", asked: str = "c1") -> bytes:
        one, other = self.clients[asker], self.clients[asked]
        ref = one.subscribe(self.isp, other.root.public_key, self.network.now)
        assert self.run(60, lambda: ref in other.subscriptions)
        other.answer(ref, self.network.now, accept=True)
        assert self.run(60, lambda: one.subscriptions[ref].state == "stands")
        return ref

    def send(self, name: str, ref: bytes, contents: list[bytes]) -> None:
        for content in contents:
            self.clients[name].send(ref, content, self.network.now)

    def receive(self, name: str, ref: bytes, count: int, seconds: float = 300) -> list[bytes]:
        client, found = self.clients[name], []
        for _ in range(round(seconds * 5)):
            self.run(0.2)
            for entry in client.read(ref):
                found.append(entry.content)
                client.confirm(ref, entry.sequence, self.network.now)
            if len(found) >= count:
                break
        return found

    def of(self, kind: type[Message]) -> list[str]:
        return [name for name, message in self.said if isinstance(message, kind)]

    def is_over(self) -> bool:
        return not any(party.contracts for party in [self.provider, *self.clients.values()])  # type: ignore[attr-defined]


def texts(name: str, count: int, size: int = 30) -> list[bytes]:
    return [f"{name} {number}".encode().ljust(size, b".") for number in range(count)]


def test_onboarding_in_four_messages() -> None:
    town = Town(1)
    town.provider.announce(0)
    town.onboard()
    kinds = [(name, type(message)) for name, message in town.said]
    assert kinds == [
        ("isp", Announcement),
        ("c0", OnboardRequest),
        ("isp", OnboardResponse),
        ("c0", HopPrev),
        ("c0", OnboardAck),
        ("isp", HopPrev),
        ("isp", OnboardAck),
    ]
    contract = town.contract("c0")
    (there,) = town.provider.contracts.values()
    request = town.clients["c0"].node.store.read(town.clients["c0"].root.public_key, 0, 1)[0]
    assert contract.id == there.id == request.id
    assert contract.control_set == f"ctrl{contract.facts.client.hex()}{contract.id.hex()}"
    for name in (contract.control_set, contract.data_set):
        assert town.nodes["c0"].keys(name) == town.nodes["isp"].keys(name)
    assert [event.kind for event in town.events["c0"]] == ["announced", "onboarded"]


def test_a_whitelist_and_a_second_contract_are_refused() -> None:
    town = Town(2)
    town.provider.allow(town.clients["c0"].root.public_key)
    for client in town.clients.values():
        client.onboard(town.isp, 0)
    town.run(10)
    assert town.contract("c0").facts.state == "open"
    assert not town.clients["c1"].contracts
    assert [event.kind for event in town.events["c1"]] == ["rejected"]
    assert set(town.nodes["c1"].store.feeds) == {town.clients["c1"].root.public_key, town.isp}
    with pytest.raises(ValueError, match="there is a contract"):
        town.clients["c0"].onboard(town.isp, town.network.now)
    root = town.clients["c0"].root.public_key
    town.nodes["c0"].publish(root, write(OnboardRequest(town.isp, KEY)), town.network.now)
    town.run(30)
    assert len(town.provider.contracts) == 1
    assert isinstance(town.said[-1][1], OnboardResponse)
    assert not town.said[-1][1].ok
    with pytest.raises(ValueError, match="not followed"):
        town.clients["c1"].onboard(KEY, 0)


def test_a_subscription_goes_through_the_provider_alone() -> None:
    town = Town(3)
    town.onboard()
    ref = town.subscribe()
    town.send("c0", ref, texts("to", 5))
    town.send("c1", ref, texts("fro", 7, 300))
    assert town.receive("c1", ref, 5) == texts("to", 5)
    assert town.receive("c0", ref, 7) == texts("fro", 7, 300)
    inner = [town.clients[name].subscriptions[ref].own for name in ("c0", "c1")]
    assert not set(inner) & set(town.nodes["c2"].store.feeds), "others hear it and do not keep it"
    assert not town.nodes["c2"]._expected.keys() & set(inner)
    assert all(not one._members.get(feed or b"") for one in town.nodes.values() for feed in inner), (
        "in no set"
    )
    assert town.provider.node.store.size([feed for feed in inner if feed]) == 0, (
        "what has gone on is not kept"
    )


def test_subscriptions_that_are_refused() -> None:
    town = Town(2)
    town.onboard()
    one, other = town.clients["c0"], town.clients["c1"]
    for target in (KEY, one.root.public_key):
        ref = one.subscribe(town.isp, target, town.network.now)
        town.run(20, lambda ref=ref: ref not in one.subscriptions)  # type: ignore[misc]
        assert town.events["c0"][-1] == Event("refused", target, ref, NOT_FOUND)
    ref = one.subscribe(town.isp, other.root.public_key, town.network.now)
    assert town.run(20, lambda: ref in other.subscriptions)
    other.answer(ref, town.network.now, accept=False)
    assert town.run(20, lambda: ref not in one.subscriptions)
    assert town.events["c0"][-1] == Event("refused", other.root.public_key, ref, REJECTED)
    assert not town.provider.routes
    assert not other.subscriptions
    for name in town.nodes:
        assert len(town.nodes[name].store.feeds) == (11 if name == "isp" else 6)
    with pytest.raises(ValueError, match="no such request"):
        other.answer(ref, town.network.now, accept=True)
    with pytest.raises(ValueError, match="does not stand"):
        one.send(ref, b"", town.network.now)


def test_data_feeds_begin_with_prev_and_end_with_next_at_the_agreed_size() -> None:
    """The prototype's Python side wrote `prev` at the end of the old feed."""
    town = Town(2, Terms(size=5, unread=3))
    feeds: dict[bytes, list[bytes]] = {}
    publish = town.nodes["c0"].store.publish

    def noting(key: bytes, content: bytes, *, is_plain: bool = False):  # type: ignore[no-untyped-def]
        feeds.setdefault(key, []).append(content)
        return publish(key, content, is_plain=is_plain)

    town.nodes["c0"].store.publish = noting  # type: ignore[method-assign]
    town.onboard()
    ref = town.subscribe()
    town.send("c0", ref, texts("a", 20))
    assert town.receive("c1", ref, 20) == texts("a", 20)
    line = [feed for feed, contents in feeds.items() if isinstance(read(contents[0]), HopPrev)]
    assert len(line) == 7
    for before, feed, after in zip([None, *line], line, [*line[1:], None], strict=False):
        assert read(feeds[feed][0]) == HopPrev(before)
        if after is not None:
            assert len(feeds[feed]) == 5
            assert read(feeds[feed][4]) == HopNext(after)
            assert all(map(is_tunnelled, feeds[feed][1:4]))
    assert town.of(HopFin).count("isp") == 6
    assert [feed for feed in line[:-1] if feed in town.nodes["c0"].store.feeds] == []


def test_both_sides_count_the_same_epochs_beyond_a_byte() -> None:
    """The prototype's sides write the epoch in two ways, one of which ends at 255."""
    town = Town(2, Terms(size=3, unread=3, largest=20))
    town.onboard()
    ref = town.subscribe()
    for contract in [*town.provider.contracts.values(), *map(town.contract, town.clients)]:
        contract.facts.epoch = 250  # as if they had hopped so often
    town.send("c0", ref, texts("a", 40, 8))
    assert town.receive("c1", ref, 40) == texts("a", 40, 8)
    town.run(10)
    for name in town.clients:
        contract = town.contract(name)
        there = town.provider.contracts[contract.id]
        assert contract.facts.epoch == there.facts.epoch > 256
        own, other = (one._sets[contract.data_set].keys for one in (town.nodes[name], town.nodes["isp"]))
        assert (
            own.demultiplexer
            == other.demultiplexer
            == set_demultiplexer(contract.data_set, contract.facts.epoch)
        )
        control = town.nodes[name].store.size(
            [contract.facts.own_control, contract.facts.other_control or b""]
        )
        assert control < 12 * 240, "what was read of control feeds is not kept"


def test_what_waits_for_a_slow_reader_is_bounded_and_resumed() -> None:
    """The prototype had no resumption."""
    terms = Terms(size=4, unread=2, backlog=3)
    town = Town(2, terms)
    town.onboard()
    ref = town.subscribe()
    sent = texts("a", 80)
    town.send("c0", ref, sent)
    town.run(20)
    assert town.clients["c1"]._backlog(town.clients["c1"].subscriptions[ref].other) <= terms.held
    (route,) = town.provider.routes.values()
    assert town.provider._waiting(route.a) <= terms.held
    assert town.clients["c0"].subscriptions[ref].is_paused
    assert town.clients["c0"]._backlog(town.clients["c0"].subscriptions[ref].own) > 40, (
        "the rest waits at its author"
    )
    for name in ("c0", "c1"):
        assert len(town.contract(name).facts.own_line) <= terms.unread
    assert town.receive("c1", ref, 80) == sent
    assert town.of(SubPause)
    assert town.of(SubResume)


def test_a_slow_reader_holds_up_nobody_else() -> None:
    town = Town(3, Terms(size=4, unread=2, backlog=3))
    town.onboard()
    slow, quick = town.subscribe("c0", "c1"), town.subscribe("c0", "c2")
    town.send("c0", slow, texts("slow", 60))
    town.run(30)
    town.send("c0", quick, texts("quick", 30))
    assert town.receive("c2", quick, 30, seconds=60) == texts("quick", 30)


def test_a_line_is_not_ended_before_the_farewell_is_agreed() -> None:
    """In the prototype `next` without a feed could come before `farewell_init`, which was then ignored."""
    for who in ("c0", "isp"):
        town = Town(1)
        town.onboard()
        town.said.clear()
        if who == "c0":
            town.clients["c0"].farewell(town.isp, town.network.now)
        else:
            town.provider.farewell(town.clients["c0"].root.public_key, town.network.now)
        assert town.said == [(who, FarewellInit())]
        assert town.run(60, town.is_over)
        order = [(name, message) for name, message in town.said if not isinstance(message, HopPrev)]
        other = "isp" if who == "c0" else "c0"
        assert order[:3] == [(who, FarewellInit()), (other, FarewellAck()), (other, HopNext(None))]
        assert order.index((who, HopNext(None))) > order.index((other, FarewellAck()))
        assert sorted(order[3:], key=str) == sorted(
            [(who, HopNext(None)), (who, FarewellFin()), (other, FarewellFin())], key=str
        )


@pytest.mark.parametrize("seed", range(8))
def test_farewells_do_not_hang_and_leave_nothing(seed: int) -> None:
    """Of both at once, too, and under losses, with data on the way. `make test-slow` has 1,000 of them."""
    part(seed)


def part(seed: int) -> None:
    rng = Random(seed)
    medium = {
        "loss_percent": rng.choice([0, 20]),
        "jitter_ms": rng.choice([0, 30]),
        "reorder_percent": 20,
        "duplicate_percent": 10,
    }
    town = Town(2, Terms(size=4, unread=2, linger=40 * SECOND), seed, delay_ms=5, **medium)
    town.onboard()
    ref = town.subscribe()
    sent = texts("a", rng.randint(0, 12), 60)
    town.send("c0", ref, sent)
    town.run(rng.random() * 2)
    who = rng.choice(["client", "provider", "both"])
    root = town.clients["c0"].root.public_key
    if who != "provider":
        town.clients["c0"].farewell(town.isp, town.network.now)
    if who != "client":
        town.provider.farewell(root, town.network.now)
    found = town.receive("c1", ref, len(sent))
    assert found == sent, "what was sent before a farewell arrives"
    assert town.run(300, lambda: not town.clients["c0"].contracts and len(town.provider.contracts) == 1), seed
    assert town.run(120, lambda: not town.provider.routes), seed
    town.run(20)
    assert set(town.nodes["c0"].store.feeds) == {root, town.isp}
    assert town.nodes["c0"].store.names() == {"followed"}
    assert not town.clients["c1"].subscriptions
    gone = {town.clients["c1"].root.public_key, root, town.isp, *town.contract("c1").feeds}
    assert set(town.nodes["isp"].store.feeds) == gone
    assert not town.provider.faults + town.clients["c0"].faults + town.clients["c1"].faults


@pytest.mark.parametrize("entries", range(8))
def test_the_end_of_a_line_is_never_the_last_entry_of_a_full_feed(entries: int) -> None:
    """The prototype reads what it finds there as the name of a feed."""
    town = Town(2, Terms(size=4, unread=2, linger=20 * SECOND))
    places = []
    publish = town.nodes["c0"].store.publish

    def noting(key: bytes, content: bytes, *, is_plain: bool = False):  # type: ignore[no-untyped-def]
        if isinstance(read(content), HopNext):
            places.append((town.nodes["c0"].store.feeds[key].sequence + 1, read(content)))
        return publish(key, content, is_plain=is_plain)

    town.nodes["c0"].store.publish = noting  # type: ignore[method-assign]
    town.onboard()
    ref = town.subscribe()
    town.send("c0", ref, texts("a", entries))
    assert town.receive("c1", ref, entries) == texts("a", entries)
    town.clients["c0"].farewell(town.isp, town.network.now)
    assert town.run(60, lambda: not town.clients["c0"].contracts)
    assert all((place == 4) == (message != HopNext(None)) for place, message in places)
    assert [message for _, message in places][-1:] == [HopNext(None)]


def test_long_entries_hop_after_they_are_whole() -> None:
    """In the prototype a feed's end could be read before all side chains (the paper's section 5.4)."""
    town = Town(2, Terms(size=3, unread=3), delay_ms=2, loss_percent=10, jitter_ms=20)
    town.onboard()
    ref = town.subscribe()
    sent = [Random(number).randbytes(1000 if number % 2 else 5) for number in range(12)]
    town.send("c0", ref, sent)
    assert town.receive("c1", ref, 12) == sent


def test_a_contract_with_a_term_ends_by_itself() -> None:
    town = Town(1, Terms(term=20 * SECOND, linger=20 * SECOND))
    town.onboard()
    assert town.run(80, town.is_over)
    assert [event.kind for event in town.events["c0"]] == ["onboarded", "farewell", "over"]
    town.clients["c0"].onboard(town.isp, town.network.now)
    assert town.run(30, lambda: bool(town.provider.contracts)), "there may be another one"


def test_unsubscribing_sends_what_waits_and_ends_both_directions() -> None:
    town = Town(2, Terms(size=4, unread=2))
    town.onboard()
    ref = town.subscribe()
    town.send("c0", ref, texts("a", 30))
    town.send("c1", ref, texts("b", 10))
    town.clients["c0"].unsubscribe(ref, town.network.now)
    with pytest.raises(ValueError, match="ends"):
        town.clients["c0"].send(ref, b"", town.network.now)
    assert town.receive("c1", ref, 30) == texts("a", 30)
    assert town.receive("c0", ref, 10) == texts("b", 10)
    assert town.run(60, lambda: not any(one.subscriptions for one in town.clients.values()))
    assert not town.provider.routes
    assert not town.of(FarewellInit)


def test_who_leaves_ends_its_subscriptions_at_the_others() -> None:
    town = Town(3, Terms(size=4, unread=2, backlog=2, linger=20 * SECOND))
    town.onboard()
    refs = [town.subscribe("c0", "c1"), town.subscribe("c2", "c0")]
    for ref, name in zip(refs, ("c1", "c2"), strict=True):
        town.send("c0", ref, texts("last", 9))
        town.send(name, ref, texts("never", 200))
    town.clients["c0"].farewell(town.isp, town.network.now)
    for ref, name in zip(refs, ("c1", "c2"), strict=True):
        assert town.receive(name, ref, 9) == texts("last", 9)
    town.receive("c0", refs[0], 999, seconds=5)
    town.receive("c0", refs[1], 999, seconds=5)
    assert town.run(120, lambda: not town.clients["c0"].contracts)
    assert town.run(60, lambda: not town.provider.routes)
    for name in ("c1", "c2"):
        assert not town.clients[name].subscriptions
        assert town.events[name][-1].kind in ("ended", "received")
        assert town.contract(name).facts.state == "open"


def test_one_who_breaks_the_protocol_can_be_abandoned() -> None:
    town = Town(2, Terms(size=4))
    town.onboard()
    ref = town.subscribe()
    contract = town.contract("c0")
    node_of = town.nodes["c0"]
    for content in [b"x" * 9, write(HopNext(town.isp))]:
        node_of.publish(contract.facts.own_line[0], content, town.network.now)
    town.run(10)
    assert town.provider.faults == {
        "what does not belong into a line": 1,
        "a data feed that is known already": 1,
    }
    root = town.clients["c0"].root.public_key
    town.provider.abandon(root, town.network.now)
    town.run(30)
    assert [one.other for one in town.provider.contracts.values()] == [town.clients["c1"].root.public_key]
    assert not town.provider.routes
    assert ref not in town.clients["c1"].subscriptions
    with pytest.raises(ValueError, match="no contract"):
        town.provider.abandon(root, town.network.now)


def test_content_that_is_too_long_is_refused_at_once() -> None:
    town = Town(2, Terms(largest=100))
    town.onboard()
    ref = town.subscribe()
    with pytest.raises(ValueError, match="100 are agreed"):
        town.send("c0", ref, [bytes(101)])
    town.send("c0", ref, [bytes(100)])
    assert town.receive("c1", ref, 1) == [bytes(100)]
