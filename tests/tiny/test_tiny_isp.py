"""tinyISP: its commands byte by byte, and each fault of the reference prototype that must not occur."""

import json
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_cell import details, provider_cell, texts

from base.units import SECOND
from ssb.bipf import encode
from ssb.tiny.goset import set_demultiplexer
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.events import Event
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
from ssb.tiny.isp.terms import Terms
from testbed.bench.tiny.provider_network import ProviderNetwork

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
        ({"pace": 0}, "pace: 0"),
        ({"burst": 0}, "burst"),
        ({"line_pace": 0}, "line_pace"),
    ],
)
def test_terms_under_which_nothing_flows(terms: dict[str, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Terms(**terms).check()
    Terms().check()


# Networks


def commands(network: ProviderNetwork) -> list[tuple[str, Message]]:
    """Return the list to which all commands are added that are published from now on, with who says them."""
    said: list[tuple[str, Message]] = []
    for name, one in network.nodes.items():
        publish = one.store.publish

        def noting(key, content, *, is_plain=False, name=name, publish=publish):  # type: ignore[no-untyped-def]
            message = read(content)
            if message is not None:
                said.append((name, message))
            return publish(key, content, is_plain=is_plain)

        one.store.publish = noting  # type: ignore[method-assign]
    return said


def contract_of(network: ProviderNetwork, name: str) -> Contract:
    (contract,) = network.clients[name].contracts.values()
    return contract


def speakers(said: list[tuple[str, Message]], kind: type[Message]) -> list[str]:
    """Return who has said a command of a kind, each time."""
    return [name for name, message in said if isinstance(message, kind)]


def is_over(network: ProviderNetwork) -> bool:
    return not any(party.contracts for party in network.parties.values())


def test_onboarding_in_four_messages() -> None:
    network = provider_cell(1, signs_up=False)
    said = commands(network)
    network.providers["isp"].announce(0)
    network.sign_up()
    kinds = [(name, type(message)) for name, message in said]
    assert kinds == [
        ("isp", Announcement),
        ("c0", OnboardRequest),
        ("isp", OnboardResponse),
        ("c0", HopPrev),
        ("c0", OnboardAck),
        ("isp", HopPrev),
        ("isp", OnboardAck),
    ]
    contract = contract_of(network, "c0")
    (there,) = network.providers["isp"].contracts.values()
    request = network.clients["c0"].node.store.read(network.clients["c0"].root.public_key, 0, 1)[0]
    assert contract.id == there.id == request.id
    assert contract.control_set == f"ctrl{contract.facts.client.hex()}{contract.id.hex()}"
    for name in (contract.control_set, contract.data_set):
        assert network.nodes["c0"].keys(name) == network.nodes["isp"].keys(name)
    assert [event.kind for event in network.events("c0")] == ["announced", "onboarded"]


def test_a_whitelist_and_a_second_contract_are_refused() -> None:
    network = provider_cell(2, signs_up=False)
    said = commands(network)
    network.providers["isp"].allow(network.key("c0"))
    network.request_contracts()
    network.run(10)
    assert contract_of(network, "c0").facts.state == "open"
    assert not network.clients["c1"].contracts
    assert [event.kind for event in network.events("c1")] == ["rejected"]
    assert set(network.nodes["c1"].store.feeds) == {network.clients["c1"].root.public_key, network.key("isp")}
    with pytest.raises(ValueError, match="there is a contract"):
        network.clients["c0"].onboard(network.key("isp"), network.now)
    root = network.clients["c0"].root.public_key
    network.nodes["c0"].publish(root, write(OnboardRequest(network.key("isp"), KEY)), network.now)
    network.run(30)
    assert len(network.providers["isp"].contracts) == 1
    assert isinstance(said[-1][1], OnboardResponse)
    assert not said[-1][1].ok
    with pytest.raises(ValueError, match="not followed"):
        network.clients["c1"].onboard(KEY, 0)


def test_a_subscription_goes_through_the_provider_alone() -> None:
    network = provider_cell(3)
    ref = network.subscribe()
    network.send("c0", ref, texts("to", 5))
    network.send("c1", ref, texts("fro", 7, 300))
    assert network.receive("c1", ref, 5) == texts("to", 5)
    assert network.receive("c0", ref, 7) == texts("fro", 7, 300)
    inner = [network.clients[name].subscriptions[ref].own for name in ("c0", "c1")]
    assert not set(inner) & set(network.nodes["c2"].store.feeds), "others hear it and do not keep it"
    assert not network.nodes["c2"].sets._expected.keys() & set(inner)
    assert not any(one.sets.of(feed or b"") for one in network.nodes.values() for feed in inner)
    assert network.providers["isp"].node.store.size([feed for feed in inner if feed]) == 0, (
        "what has gone on is not kept"
    )


def test_subscriptions_that_are_refused() -> None:
    network = provider_cell(2)
    one, other = network.clients["c0"], network.clients["c1"]
    for target in (KEY, one.root.public_key):
        ref = one.subscribe(network.key("isp"), target, network.now)
        network.run(20, lambda ref=ref: ref not in one.subscriptions)  # type: ignore[misc]
        assert network.events("c0")[-1] == Event("refused", target, ref, NOT_FOUND)
    ref = one.subscribe(network.key("isp"), other.root.public_key, network.now)
    assert network.run(20, lambda: ref in other.subscriptions)
    other.answer(ref, network.now, accept=False)
    assert network.run(20, lambda: ref not in one.subscriptions)
    assert network.events("c0")[-1] == Event("refused", other.root.public_key, ref, REJECTED)
    assert not network.providers["isp"].routes
    assert not other.subscriptions
    for name in network.nodes:
        assert len(network.nodes[name].store.feeds) == (11 if name == "isp" else 6)
    with pytest.raises(ValueError, match="no such request"):
        other.answer(ref, network.now, accept=True)
    with pytest.raises(ValueError, match="does not stand"):
        one.send(ref, b"", network.now)


def test_data_feeds_begin_with_prev_and_end_with_next_at_the_agreed_size() -> None:
    """The prototype's Python side wrote `prev` at the end of the old feed."""
    network = provider_cell(2, Terms(size=5, unread=3), signs_up=False)
    said = commands(network)
    feeds: dict[bytes, list[bytes]] = {}
    publish = network.nodes["c0"].store.publish

    def noting(key: bytes, content: bytes, *, is_plain: bool = False):  # type: ignore[no-untyped-def]
        feeds.setdefault(key, []).append(content)
        return publish(key, content, is_plain=is_plain)

    network.nodes["c0"].store.publish = noting  # type: ignore[method-assign]
    network.sign_up()
    ref = network.subscribe()
    network.send("c0", ref, texts("a", 20))
    assert network.receive("c1", ref, 20) == texts("a", 20)
    line = [feed for feed, contents in feeds.items() if isinstance(read(contents[0]), HopPrev)]
    assert len(line) == 7
    for before, feed, after in zip([None, *line], line, [*line[1:], None], strict=False):
        assert read(feeds[feed][0]) == HopPrev(before)
        if after is not None:
            assert len(feeds[feed]) == 5
            assert read(feeds[feed][4]) == HopNext(after)
            assert all(map(is_tunnelled, feeds[feed][1:4]))
    assert speakers(said, HopFin).count("isp") == 6
    assert [feed for feed in line[:-1] if feed in network.nodes["c0"].store.feeds] == []


def test_both_sides_count_the_same_epochs_beyond_a_byte() -> None:
    """The prototype's sides write the epoch in two ways, one of which ends at 255."""
    network = provider_cell(2, Terms(size=3, unread=3, largest=20))
    ref = network.subscribe()
    for contract in [
        *network.providers["isp"].contracts.values(),
        *(contract_of(network, name) for name in network.clients),
    ]:
        contract.facts.epoch = 250  # as if they had hopped so often
    network.send("c0", ref, texts("a", 40, 8))
    assert network.receive("c1", ref, 40) == texts("a", 40, 8)
    network.run(10)
    for name in network.clients:
        contract = contract_of(network, name)
        there = network.providers["isp"].contracts[contract.id]
        assert contract.facts.epoch == there.facts.epoch > 256
        own, other = (one.sets[contract.data_set].keys for one in (network.nodes[name], network.nodes["isp"]))
        assert (
            own.demultiplexer
            == other.demultiplexer
            == set_demultiplexer(contract.data_set, contract.facts.epoch)
        )
        control = network.nodes[name].store.size(
            [contract.facts.own_control, contract.facts.other_control or b""]
        )
        assert control < 12 * 240, "what was read of control feeds is not kept"


def test_what_waits_for_a_slow_reader_is_bounded_and_resumed() -> None:
    """The prototype had no resumption."""
    terms = Terms(size=4, unread=2, backlog=3)
    network = provider_cell(2, terms)
    said = commands(network)
    ref = network.subscribe()
    sent = texts("a", 80)
    network.send("c0", ref, sent)
    network.run(20)
    assert network.clients["c1"]._backlog(network.clients["c1"].subscriptions[ref].other) <= terms.held
    (route,) = network.providers["isp"].routes.values()
    assert network.providers["isp"]._waiting(route.a) <= terms.held
    assert network.clients["c0"].subscriptions[ref].is_paused
    assert network.clients["c0"]._backlog(network.clients["c0"].subscriptions[ref].own) > 40, (
        "the rest waits at its author"
    )
    for name in ("c0", "c1"):
        assert len(contract_of(network, name).facts.own_line) <= terms.unread
    assert network.receive("c1", ref, 80) == sent
    assert speakers(said, SubPause)
    assert speakers(said, SubResume)


def test_a_slow_reader_holds_up_nobody_else() -> None:
    network = provider_cell(3, Terms(size=4, unread=2, backlog=3))
    slow, quick = network.subscribe("c0", "c1"), network.subscribe("c0", "c2")
    network.send("c0", slow, texts("slow", 60))
    network.run(30)
    network.send("c0", quick, texts("quick", 30))
    assert network.receive("c2", quick, 30, seconds=60) == texts("quick", 30)


def test_a_line_is_not_ended_before_the_farewell_is_agreed() -> None:
    """In the prototype `next` without a feed could come before `farewell_init`, which was then ignored."""
    for who in ("c0", "isp"):
        network = provider_cell(1)
        said = commands(network)
        if who == "c0":
            network.clients["c0"].farewell(network.key("isp"), network.now)
        else:
            network.providers["isp"].farewell(network.clients["c0"].root.public_key, network.now)
        assert said == [(who, FarewellInit())]
        assert network.run(60, partial(is_over, network))
        order = [(name, message) for name, message in said if not isinstance(message, HopPrev)]
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
    network = provider_cell(2, Terms(size=4, unread=2, linger=40 * SECOND), seed, delay_ms=5, **medium)
    ref = network.subscribe()
    sent = texts("a", rng.randint(0, 12), 60)
    network.send("c0", ref, sent)
    network.run(rng.random() * 2)
    who = rng.choice(["client", "provider", "both"])
    root = network.clients["c0"].root.public_key
    if who != "provider":
        network.clients["c0"].farewell(network.key("isp"), network.now)
    if who != "client":
        network.providers["isp"].farewell(root, network.now)
    found = network.receive("c1", ref, len(sent))
    assert found == sent, "what was sent before a farewell arrives"
    assert network.run(
        300, lambda: not network.clients["c0"].contracts and len(network.providers["isp"].contracts) == 1
    ), seed
    assert network.run(120, lambda: not network.providers["isp"].routes), seed
    network.run(20)
    assert set(network.nodes["c0"].store.feeds) == {root, network.key("isp")}
    assert network.nodes["c0"].store.names() == {"followed"}
    assert not network.clients["c1"].subscriptions
    gone = {
        network.clients["c1"].root.public_key,
        root,
        network.key("isp"),
        *contract_of(network, "c1").feeds,
    }
    assert set(network.nodes["isp"].store.feeds) == gone
    assert not network.providers["isp"].faults + network.clients["c0"].faults + network.clients["c1"].faults


@pytest.mark.parametrize("entries", range(8))
def test_the_end_of_a_line_is_never_the_last_entry_of_a_full_feed(entries: int) -> None:
    """The prototype reads what it finds there as the name of a feed."""
    network = provider_cell(2, Terms(size=4, unread=2, linger=20 * SECOND), signs_up=False)
    places = []
    publish = network.nodes["c0"].store.publish

    def noting(key: bytes, content: bytes, *, is_plain: bool = False):  # type: ignore[no-untyped-def]
        if isinstance(read(content), HopNext):
            places.append((network.nodes["c0"].store.feeds[key].sequence + 1, read(content)))
        return publish(key, content, is_plain=is_plain)

    network.nodes["c0"].store.publish = noting  # type: ignore[method-assign]
    network.sign_up()
    ref = network.subscribe()
    network.send("c0", ref, texts("a", entries))
    assert network.receive("c1", ref, entries) == texts("a", entries)
    network.clients["c0"].farewell(network.key("isp"), network.now)
    assert network.run(60, lambda: not network.clients["c0"].contracts)
    assert all((place == 4) == (message != HopNext(None)) for place, message in places)
    assert [message for _, message in places][-1:] == [HopNext(None)]


def test_long_entries_hop_after_they_are_whole() -> None:
    """In the prototype a feed's end could be read before all side chains (the paper's section 5.4)."""
    network = provider_cell(2, Terms(size=3, unread=3), delay_ms=2, loss_percent=10, jitter_ms=20)
    ref = network.subscribe()
    sent = [Random(number).randbytes(1000 if number % 2 else 5) for number in range(12)]
    network.send("c0", ref, sent)
    assert network.receive("c1", ref, 12) == sent


def test_a_contract_with_a_term_ends_by_itself() -> None:
    network = provider_cell(1, Terms(term=20 * SECOND, linger=20 * SECOND))
    assert network.run(80, partial(is_over, network))
    assert [event.kind for event in network.events("c0")] == ["onboarded", "farewell", "over"]
    network.clients["c0"].onboard(network.key("isp"), network.now)
    assert network.run(30, lambda: bool(network.providers["isp"].contracts)), "there may be another one"


def test_unsubscribing_sends_what_waits_and_ends_both_directions() -> None:
    network = provider_cell(2, Terms(size=4, unread=2))
    said = commands(network)
    ref = network.subscribe()
    network.send("c0", ref, texts("a", 30))
    network.send("c1", ref, texts("b", 10))
    network.clients["c0"].unsubscribe(ref, network.now)
    with pytest.raises(ValueError, match="ends"):
        network.clients["c0"].send(ref, b"", network.now)
    assert network.receive("c1", ref, 30) == texts("a", 30)
    assert network.receive("c0", ref, 10) == texts("b", 10)
    assert network.run(60, lambda: not any(one.subscriptions for one in network.clients.values()))
    assert not network.providers["isp"].routes
    assert not speakers(said, FarewellInit)


def test_who_leaves_ends_its_subscriptions_at_the_others() -> None:
    network = provider_cell(3, Terms(size=4, unread=2, backlog=2, linger=20 * SECOND))
    refs = [network.subscribe("c0", "c1"), network.subscribe("c2", "c0")]
    for ref, name in zip(refs, ("c1", "c2"), strict=True):
        network.send("c0", ref, texts("last", 9))
        network.send(name, ref, texts("never", 200))
    network.clients["c0"].farewell(network.key("isp"), network.now)
    for ref, name in zip(refs, ("c1", "c2"), strict=True):
        assert network.receive(name, ref, 9) == texts("last", 9)
    network.receive("c0", refs[0], 999, seconds=5)
    network.receive("c0", refs[1], 999, seconds=5)
    assert network.run(120, lambda: not network.clients["c0"].contracts)
    assert network.run(60, lambda: not network.providers["isp"].routes)
    for name in ("c1", "c2"):
        assert not network.clients[name].subscriptions
        assert network.events(name)[-1].kind in ("ended", "received")
        assert contract_of(network, name).facts.state == "open"


def lost(network: ProviderNetwork, name: str) -> list[str]:
    return details(network, name, "dropped")


@pytest.mark.parametrize("peers", [(), [("isp", "far")]])
def test_a_farewell_waits_for_no_reader_that_takes_nothing(peers: list[tuple[str, str]]) -> None:
    """What was sent arrives, and the end; what was not is lost to that one alone, and the leaver is told."""
    terms = Terms(size=4, unread=2, backlog=3, patience=30 * SECOND, linger=20 * SECOND)
    clients = {"c0": "isp", "c1": "far" if peers else "isp", "c2": "isp"}
    network = provider_cell(clients, terms, peers=peers)
    slow, quick = network.subscribe("c0", "c1"), network.subscribe("c0", "c2")
    network.send("c0", slow, texts("slow", 90))
    network.run(20)
    assert network.clients["c0"].subscriptions[slow].is_paused
    network.send("c0", quick, texts("quick", 30))
    began = network.now
    network.clients["c0"].farewell(network.key("isp"), began)
    assert network.receive("c2", quick, 30, seconds=20) == texts("quick", 30), "a slow one holds up nobody"
    assert network.run(60, lambda: not network.clients["c0"].subscriptions)
    assert network.now - began >= terms.patience, "nothing is dropped before"
    read = network.receive("c1", slow, 90, seconds=60)
    assert terms.held <= len(read) < 90
    assert read == texts("slow", len(read))
    assert lost(network, "c0") == [f"{90 - len(read)} entries"]
    assert slow not in network.clients["c1"].subscriptions
    assert network.run(120, lambda: not network.providers["isp"].routes)
    assert not any(one.accusations.evidence() for one in network.parties.values())


def test_a_farewell_waits_for_a_reader_that_goes_on() -> None:
    terms = Terms(size=4, unread=2, backlog=3, linger=20 * SECOND)
    network = provider_cell(2, terms, loss_percent=20.0)
    ref = network.subscribe("c0", "c1")
    network.send("c0", ref, texts("slow", 120))
    began = network.now
    network.clients["c0"].farewell(network.key("isp"), began)
    assert network.receive("c1", ref, 120) == texts("slow", 120)
    assert network.now - began > terms.patience, "longer than it waits for one that takes nothing"
    assert not lost(network, "c0")


def test_who_leaves_need_not_read() -> None:
    """All that is under way has a place at the leaver, and can be read after the end."""
    terms = Terms(size=4, unread=2, backlog=3, linger=20 * SECOND)
    network = provider_cell(2, terms)
    ref = network.subscribe("c0", "c1")
    network.send("c1", ref, texts("news", 90))
    network.run(20)
    network.clients["c0"].farewell(network.key("isp"), network.now)
    assert network.run(60, lambda: "over" in [event.kind for event in network.events("c0")])
    read = network.receive("c0", ref, 90, seconds=1)
    assert read == texts("news", len(read))
    assert len(read) > terms.held, "what it had, and what was under way"
    assert network.run(60, lambda: not network.providers["isp"].routes)
    assert not network.clients["c1"].subscriptions


def test_providers_part_though_a_reader_takes_nothing() -> None:
    terms = Terms(size=4, unread=2, backlog=3, patience=30 * SECOND, linger=20 * SECOND)
    network = provider_cell({"c0": "isp", "c1": "far"}, terms, peers=[("isp", "far")])
    ref = network.subscribe("c0", "c1")
    network.send("c0", ref, texts("slow", 90))
    network.run(20)
    network.providers["isp"].farewell(network.key("far"), network.now)
    assert network.run(200, lambda: not network.providers["isp"].routes)
    read = network.receive("c1", ref, 90, seconds=60)
    assert read == texts("slow", len(read))
    assert len(read) >= terms.held
    assert network.run(60, lambda: not network.providers["far"].routes)
    assert not any(one.accusations.evidence() for one in network.parties.values())


def test_a_contract_is_kept_until_its_last_word_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The want vector of a reader passes entries whose side chains it lacks, and so cannot read."""
    network = provider_cell(1, Terms(linger=60 * SECOND))
    client, provider = network.clients["c0"], network.providers["isp"]
    monkeypatch.setattr(client.node.store, "awaits", lambda pointer: False)  # all chunks are lost
    (contract,) = provider.contracts.values()
    original = provider.on_state

    def long_before_the_fin(contract: Contract, now: int) -> None:
        original(contract, now)
        if contract.facts.state == "farewell":
            network.nodes["isp"].publish(contract.facts.own_control, bytes(300), now)

    monkeypatch.setattr(provider, "on_state", long_before_the_fin)
    client.farewell(network.key("isp"), network.now)
    assert network.run(5, lambda: contract.facts.state == "over")
    network.run(40)
    assert [one.facts.state for one in client.contracts.values()] == ["farewell"]
    assert provider.contracts
    monkeypatch.undo()
    assert network.run(60, partial(is_over, network))


def test_one_who_breaks_the_protocol_can_be_abandoned() -> None:
    network = provider_cell(2, Terms(size=4))
    ref = network.subscribe()
    contract = contract_of(network, "c0")
    node_of = network.nodes["c0"]
    for content in [b"x" * 9, write(HopNext(network.key("isp")))]:
        node_of.publish(contract.facts.own_line[0], content, network.now)
    network.run(10)
    assert network.providers["isp"].faults == {
        "what does not belong into a line": 1,
        "a data feed that is known already": 1,
    }
    assert ref not in network.clients["c1"].subscriptions, "nobody waits for it"
    root = network.clients["c0"].root.public_key
    network.providers["isp"].abandon(root, network.now)
    network.run(30)
    assert [one.other for one in network.providers["isp"].contracts.values()] == [
        network.clients["c1"].root.public_key
    ]
    assert not network.providers["isp"].routes
    assert ref not in network.clients["c1"].subscriptions
    with pytest.raises(ValueError, match="no contract"):
        network.providers["isp"].abandon(root, network.now)


def test_content_that_is_too_long_is_refused_at_once() -> None:
    network = provider_cell(2, Terms(largest=100))
    ref = network.subscribe()
    with pytest.raises(ValueError, match="100 are agreed"):
        network.send("c0", ref, [bytes(101)])
    network.send("c0", ref, [bytes(100)])
    assert network.receive("c1", ref, 1) == [bytes(100)]
