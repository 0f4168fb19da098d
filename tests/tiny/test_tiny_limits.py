"""How often clients may ask a provider: what is beyond waits at the client."""

from functools import partial
from random import Random
from unittest.mock import Mock, patch
from zlib import crc32

import pytest
from tiny_cell import node, provider_cell, texts

from base.token_bucket import TokenBucket
from base.units import MS, SECOND
from ssb.tiny.entry import PACKET
from ssb.tiny.isp.contract import Contract
from ssb.tiny.isp.messages import HopFin, OnboardRequest, SubRequest, write
from ssb.tiny.isp.provider.provider import REQUEST_PAUSE
from ssb.tiny.isp.terms import Terms
from ssb.tiny.replica import _MOST_NOTED, _REPEATS, Repeats
from ssb.tiny.requests import Timing
from ssb.tiny.vectors import read_want
from testbed.bench.tiny.provider_network import ProviderNetwork
from testbed.layerings.tiny.hostile_client import Attack, HostileClient
from testbed.verify.tiny.story import INSIDE

PACE, BURST = SECOND // 2, 10
TERMS = Terms(pace=PACE, burst=BURST, size=8, linger=30 * SECOND)


def contract_of(network: ProviderNetwork, client: str) -> Contract:
    """Return a client's contract, as its provider sees it."""
    (provider,) = network.providers.values()
    found = provider.contracts.current(network.key(client))
    assert found is not None
    return found


def control_of(network: ProviderNetwork, client: str) -> bytes:
    control = contract_of(network, client).facts.other_control
    assert control is not None
    return control


def commands_read(network: ProviderNetwork, client: str) -> int:
    return network.nodes["isp"].store.feeds[control_of(network, client)].mark


def test_a_bucket_gives_a_burst_and_then_a_token_each_interval() -> None:
    bucket = TokenBucket(10, 3, now=1000)
    assert [bucket.take(1000) for _ in range(4)] == [True, True, True, False]
    assert bucket.due(1) == 1010
    assert bucket.due(9) == 1030, "it never holds more than three"
    assert [bucket.take(now) for now in (1009, 1010, 1011, 1020)] == [False, True, False, True]
    bucket.give_back()
    assert bucket.take(1020)
    assert [bucket.take(9000) for _ in range(4)] == [True, True, True, False]
    assert bucket.take(9010, cost=5)
    assert not bucket.take(9040), "four are owed"
    bucket.give_back(5)
    assert bucket.take(9040)


def test_a_charge_is_owed_up_to_ten_seconds() -> None:
    bucket = TokenBucket(SECOND, 2, now=0)
    assert [bucket.charge(0) for _ in range(4)] == [0, 0, SECOND, 2 * SECOND]
    assert bucket.charge(0, cost=60) == 10 * SECOND
    assert not bucket.take(11 * SECOND - 1)
    assert bucket.take(11 * SECOND)


def test_what_was_sent_is_noted_within_a_bound() -> None:
    repeats = Repeats(Timing(), 0)
    for sequence in range(1, 1000):
        assert repeats.take(bytes(32), sequence, 0, 0)
        assert repeats.take(bytes(32), sequence, 1, 0), "a chunk of it is another packet"
    assert sum(map(len, repeats._sent.values())) <= _MOST_NOTED
    again = [repeats.take(bytes(32), 1, 0, 0) for _ in range(2 * _REPEATS)]
    assert again == [True] * _REPEATS + [False] * _REPEATS, "the oldest counts as sent"


@pytest.mark.parametrize("burst", [2, 4, 128])
def test_all_of_a_group_read_what_is_written_before_its_answers_are_read(burst: int) -> None:
    network = provider_cell(4, Terms(linger=30 * SECOND, burst=burst, pace=5 * SECOND))
    network.run(30)
    isp = network.key("isp")
    members = [network.key(name) for name in ("c1", "c2", "c3")]
    network.clients["c0"].found(isp, members, network.now)
    network.network.settle("c0")
    posted: set[str] = set()
    for _ in range(1200):
        network.run(0.05)
        for name, client in network.clients.items():
            for ref, one in list(client.subscriptions.items()):
                if one.state == "invited":
                    client.answer(ref, network.now, accept=True)
                    for target in range(3 if name == "c2" else 0):  # so that its answers are read late
                        client.subscribe(isp, bytes([target]) * 32, network.now)
            for group in [group.id for group in client.groups.values() if not group.pending]:
                if name not in posted:
                    posted.add(name)
                    client.post(group, name.encode(), network.now)
            network.network.settle(name)
    for name, client in network.clients.items():
        read = [
            whole.content
            for ref, one in client.subscriptions.items()
            if one.group
            for whole in client.read(ref)
        ]
        assert sorted(read) == sorted(other.encode() for other in network.clients if other != name)


def test_an_entry_that_cannot_be_taken_yet_uses_up_nothing() -> None:
    network = provider_cell(2, Terms(line_pace=SECOND // 10, size=50, linger=30 * SECOND))
    ref = network.subscribe("c0", "c1")
    (provider,) = network.providers.values()
    contract = contract_of(network, "c0")
    stuck = Mock(return_value=False)
    with patch.object(provider, "on_data", stuck):
        network.send("c0", ref, texts("a", 1))
        network.run(2)
        for _ in range(200):
            contract.process(network.now)
    assert stuck.call_count > 200
    provider.contracts.changed(contract.id)
    provider.contracts.update(network.now)
    network.network.settle("isp")
    assert contract.facts.other_data not in network.nodes["isp"].withheld
    assert network.receive("c1", ref, 1) == texts("a", 1)


def test_a_client_that_asks_without_end_is_read_at_the_pace_of_the_terms() -> None:
    flood = partial(HostileClient, attack="flood", pace=(10 * MS, 20 * MS))
    network = provider_cell(3, TERMS, kinds={"c2": flood})
    good = network.subscribe("c0", "c1")
    network.run(5)
    before, begun = commands_read(network, "c2"), network.now
    network.send("c0", good, texts("a", 100))
    network.run(30)
    rounds = (network.now - begun) / PACE
    assert 0.8 * rounds < commands_read(network, "c2") - before <= rounds + 1
    hostile = network.clients["c2"]
    assert isinstance(hostile, HostileClient)
    assert hostile.attacks > 1500
    assert network.nodes["isp"].store.size([control_of(network, "c2")]) < 80 * PACKET, "the rest is not here"
    assert network.size("c2") > 300_000
    assert not network.providers["isp"].accusations.evidence(), "it is slow, and nothing else"
    assert network.receive("c1", good, 100) == texts("a", 100)


def test_an_honest_client_with_many_requests_is_only_slower() -> None:
    network = provider_cell(4, TERMS)
    (contract,) = network.clients["c0"].contracts.values()
    wanted = 40
    for _ in range(wanted):
        feed = network.clients["c0"].new_identity().public_key
        contract.send_command(SubRequest(network.key("isp"), feed, None), network.now)
    ref = network.request("c0", "c1")
    network.run(5)
    assert ref not in network.clients["c1"].subscriptions
    network.run(wanted * PACE / SECOND)
    network.clients["c1"].answer(ref, network.now, accept=True)
    network.send("c1", ref, texts("b", 50))
    assert network.receive("c0", ref, 50) == texts("b", 50)
    assert not network.providers["isp"].faults


def test_answers_and_fins_that_are_due_cost_nothing() -> None:
    network = provider_cell(5, TERMS._replace(pace=10_000 * SECOND, burst=6))
    refs = [network.request(f"c{number}", "c0") for number in range(1, 5)]
    network.run(2)
    for ref in refs:
        network.clients["c0"].answer(ref, network.now, accept=True)
    network.run(2)
    for number, ref in enumerate(refs, start=1):
        network.send(f"c{number}", ref, texts("a", 40))
        assert len(network.receive("c0", ref, 40)) == 40, "a fin after every sixth"
    assert commands_read(network, "c0") > 20


def test_a_false_fin_costs_what_other_commands_cost() -> None:
    network = provider_cell(2, TERMS)
    (contract,) = network.clients["c0"].contracts.values()
    for _ in range(3 * BURST):
        contract.send_command(HopFin(bytes(32)), network.now)
    network.run(2)
    assert commands_read(network, "c0") <= BURST + 2 * SECOND // PACE


def test_what_explains_a_line_may_be_among_the_commands_that_wait() -> None:
    terms = TERMS._replace(pace=5 * SECOND, burst=3, patience=4 * SECOND)
    network = provider_cell(3, terms)
    ref = network.request("c1", "c0")
    network.run(2)
    (contract,) = network.clients["c0"].contracts.values()
    for _ in range(8):
        contract.send_command(SubRequest(network.key("isp"), bytes(32), None), network.now)
    network.clients["c0"].answer(ref, network.now, accept=True)
    network.send("c0", ref, texts("a", 5))
    assert network.receive("c1", ref, 5) == texts("a", 5)
    assert not network.providers["isp"].accusations.evidence()


@pytest.mark.parametrize("is_request", [True, False])
def test_a_root_feed_without_end_is_not_stored(is_request: bool) -> None:
    network = provider_cell(2, TERMS)
    client = network.clients["c0"]
    content = write(OnboardRequest(network.key("isp"), bytes(32))) if is_request else b"nothing of the kind"
    for _ in range(400):
        network.nodes["c0"].publish(client.root.public_key, content, network.now)
    begun = network.now
    network.run(30)
    held = network.nodes["isp"].store.feeds[client.root.public_key]
    pace = REQUEST_PAUSE if is_request else PACE
    assert held.mark <= BURST + (network.now - begun) / pace + 2
    assert held.sequence - held.base < 80
    network.subscribe("c0", "c1")


def test_a_command_is_not_longer_than_any_that_there_is() -> None:
    network = provider_cell(2, TERMS)
    contract = contract_of(network, "c0")
    own = network.clients["c0"].contracts[contract.id].facts.own_control
    network.nodes["c0"].publish(own, bytes(1501), network.now)
    network.run(5)
    assert network.nodes["isp"].dropped["beyond"]
    assert network.size("isp") < 5000


def test_entries_of_a_feed_that_is_withheld_are_dropped_unread() -> None:
    network = provider_cell(2, TERMS)
    isp, control = network.nodes["isp"], control_of(network, "c0")
    isp.withheld.add(control)
    own = network.nodes["c0"].store.publish(control, b"another")
    before = isp.store.feeds[control].sequence
    for packet in (own.packet, own.packet[:60] + bytes(PACKET - 60)):
        isp.receive(1, packet + crc32(packet).to_bytes(4), None, network.now)
    assert isp.dropped["withheld"] == 2, "no signature is verified"
    assert isp.store.feeds[control].sequence == before
    network.run(10)
    assert isp.store.feeds[control].sequence == before, "nor does it ask for them"
    isp.release(control, network.now)
    network.run(1)
    assert isp.store.feeds[control].sequence == before + 1


def test_a_vector_passes_over_a_feed_that_is_withheld() -> None:
    one = node(1)
    keys = sorted(Random(number).randbytes(32) for number in range(5))
    one.join("five", keys, 0)
    heard = []
    for withheld in ((0, 2), (1,), range(5), (4,)):
        for at in range(5):
            one.release(keys[at], 0)
        for at in withheld:
            one.withheld.add(keys[at])
        for _ in range(2):
            one.sets["five"].wants.due = 0
            one.wake(0)
            heard.append([sorted(read_want(packet[:-4], 5)) for _, packet, _ in one.take_outputs()])
    assert heard == [[[1]], [[3, 4]], [[0]], [[0, 2, 3, 4]], [], [], [[1, 2, 3]], [[0, 1, 2, 3]]]


def test_what_is_asked_for_again_and_again_is_sent_now_and_then() -> None:
    beg = partial(HostileClient, attack="beg", pace=(5 * MS, 10 * MS))
    network = provider_cell(4, TERMS, kinds={"c2": beg})
    good, bad = network.subscribe("c0", "c1"), network.subscribe("c2", "c3")
    network.send("c3", bad, texts("b", 5))
    network.run(6)
    isp, hostile = network.nodes["isp"], network.clients["c2"]
    assert isinstance(hostile, HostileClient)
    before, asked, begun = isp.sent["entry"] + isp.sent["chunk"], hostile.attacks, network.now
    network.run(20)
    repeated = isp.sent["entry"] + isp.sent["chunk"] - before
    seconds = (network.now - begun) / SECOND
    assert hostile.attacks - asked > 2000
    assert repeated <= 2 * (_REPEATS + 1.2 * seconds), "in its two sets"
    assert isp.dropped["asked again"] > 2000
    network.send("c0", good, texts("a", 100))
    assert network.receive("c1", good, 100) == texts("a", 100)


def test_a_loss_of_40_percent_refuses_few_answers() -> None:
    network = provider_cell(2, TERMS, loss_percent=40)
    ref = network.subscribe("c0", "c1")
    network.send("c0", ref, texts("a", 60, 200))
    assert network.receive("c1", ref, 60) == texts("a", 60, 200)
    assert sum(one.dropped["asked again"] for one in network.nodes.values()) < 0.1 * sum(
        one.sent["entry"] + one.sent["chunk"] for one in network.nodes.values()
    )


OFTEN = "flood", "false-fin"


@pytest.mark.parametrize(
    "attack", [*OFTEN, *(pytest.param(each, marks=pytest.mark.slow) for each in INSIDE if each not in OFTEN)]
)
def test_a_hostile_client_fills_no_disk_but_its_own(attack: Attack) -> None:
    kinds = {
        name: partial(HostileClient, attack=attack, pace=(10 * MS, 20 * MS), talks=True)
        for name in ("c0", "c1")
    }
    terms = Terms(size=8, backlog=8, largest=400, patience=2 * SECOND)
    network = ProviderNetwork(2, terms, kinds=kinds)
    network.subscribe()
    network.run(20)
    full, own = network.size("isp"), network.size("c0")
    network.run(6)
    assert network.size("isp") < full + 5_000
    if attack == "false-fin":
        assert network.size("c0") > own + 6 * 10_000, "its commands, which nobody reads so fast"


def test_a_line_is_read_at_the_pace_of_the_terms_and_nothing_is_lost() -> None:
    terms = TERMS._replace(line_pace=SECOND // 8)
    network = provider_cell(4, terms)
    crowd, slow = network.subscribe("c0", "c1"), network.subscribe("c2", "c3")
    contract, begun = contract_of(network, "c0"), network.now
    network.send("c0", crowd, texts("x", 200))
    network.run(20)
    read = 8 * contract.facts.epoch + network.nodes["isp"].store.feeds[contract.facts.other_data or b""].mark
    most = 8 + (network.now - begun) * 4 // SECOND
    assert 0.5 * most < read <= most + 8, "entries of two packets"
    network.send("c2", slow, texts("a", 3))
    sent = network.now
    assert network.receive("c3", slow, 3) == texts("a", 3)
    assert network.now - sent < 2 * SECOND, "others do not wait for it"
    assert network.receive("c1", crowd, 200) == texts("x", 200)
    assert not network.providers["isp"].faults
    network.clients["c0"].farewell(network.key("isp"), network.now)
    assert network.run(60, lambda: contract.facts.other_data not in network.nodes["isp"].withheld)
