"""Who does not keep to the protocol: who notices it, with what proof, and what it costs the others.

Each line of the table in docs/tiny.md names its test here.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tiny_cell import details, provider_cell, texts

from base.units import MS, SECOND
from ssb.bipf import encode
from ssb.tiny.entry import first_previous, sign
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.evidence import FORGED, FORKED, NOBODYS, Evidence, sign_feed, sign_receipt
from ssb.tiny.isp.messages import SubReceipt, SubRelay, SubRequest, SubResponse, SubResponseIsp
from ssb.tiny.isp.provider.reach import MOST_TARGETS, Reach, Reachability
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node
from testbed.bench.tiny.provider_network import ProviderNetwork
from testbed.layerings.tiny.hostile_client import HostileClient, fork
from testbed.verify.tiny.hostile import HostileProvider
from testbed.verify.tiny.story import INSIDE, Hostility

TERMS = Terms(size=8, unread=3, backlog=8, patience=20 * SECOND, linger=30 * SECOND)
CLIENTS = {"c0": "i0", "c1": "i0", "c2": "i0", "c3": "i0"}
ACCUSED_OF = {
    "flood": None,
    "false-fin": "a fin of a feed that is not at its end",
    "malformed": "what does not belong into a line",
    "ignore-pause": None,
    "replay": NOBODYS,
    "fork": FORKED,
    "beg": None,
}
"""What a provider has in its hands against a client who is hostile in a way; None where bounds are enough."""


PACE = 100 * MS, 300 * MS
"""Between two rounds of a hostile client."""


def throughput(attack: Hostility | None, seed: int, messages: int = 120) -> tuple[float, ProviderNetwork]:
    """Return how many messages a second go from one client to another, beside a third one."""
    kinds = {"c2": partial(HostileClient, attack=attack, pace=PACE)} if attack else {}
    network = provider_cell(CLIENTS, TERMS, seed, kinds=kinds)
    good, bad = network.subscribe("c0", "c1"), network.subscribe("c2", "c3")
    network.send("c2", bad, texts("x", 10))
    network.receive("c3", bad, 10, 10)
    begun = network.now
    network.send("c0", good, texts("a", messages))
    assert network.receive("c1", good, messages) == texts("a", messages)
    return messages * SECOND / (network.now - begun), network


@pytest.mark.slow
@pytest.mark.parametrize("attack", INSIDE)
def test_a_hostile_client_leaves_others_nine_tenths(attack: Hostility) -> None:
    """Over several seeds: those of one differ by a tenth, by the times that answers wait."""
    alone, beside = (sum(throughput(who, seed, 500)[0] for seed in range(1, 7)) for who in (None, attack))
    assert beside >= 0.9 * alone


@pytest.mark.parametrize("attack", INSIDE)
def test_a_hostile_client_is_noticed(attack: Hostility) -> None:
    # With this seed the first malformed content is too short for an entry.
    _, network = throughput(attack, 2, 20)
    network.run(40)
    held = network.providers["i0"].accusations.evidence()
    assert {one.accused for one in held} <= {network.key("c2")}
    reasons = {one.reason for one in held}
    assert ACCUSED_OF[attack] in reasons if ACCUSED_OF[attack] else not reasons
    assert all(one.is_signed() for one in held)
    assert all(one.is_proof() == (one.reason == FORKED) for one in held)
    assert details(network, "i0", "accused") == [one.reason for one in held] or len(held) > 1
    for name in ("c0", "c1", "c3"):
        assert not network.clients[name].accusations.evidence()
    assert network.nodes["i0"].store.size() < 4 * TERMS.bound(1), "what it holds is bounded"


def evil(attack: Hostility, terms: Terms = TERMS, seed: int = 1) -> tuple[ProviderNetwork, bytes]:
    """Return two clients of a hostile provider, and a subscription that the first has asked for."""
    kinds = {"i0": partial(HostileProvider, attack=attack)}
    network = provider_cell(dict.fromkeys(["c0", "c1", "c2"], "i0"), terms, seed, kinds=kinds)
    ref = network.request("c0", "c1")
    assert network.run(30, lambda: ref in network.clients["c1"].subscriptions)
    network.clients["c1"].answer(ref, network.now, accept=True)
    network.run(5)
    return network, ref


def test_a_provider_that_puts_its_own_feed_in_place_of_a_clients_is_convicted() -> None:
    network, ref = evil("forge")
    assert details(network, "c0", "accused") == [FORGED]
    assert details(network, "c0", "refused") == [FORGED]
    (evidence,) = network.clients["c0"].accusations.evidence()
    assert evidence.accused == network.key("i0")
    assert evidence.is_proof()
    assert not network.clients["c0"].read(ref), "the user reads nothing of it"
    honest = replace(evidence, contact=network.key("i0"))
    assert not honest.is_proof(), "the provider has signed: it would be its own feed"
    for part in (0, -1):
        packets = list(evidence.packets)
        packets[part] = packets[part][:60] + bytes([packets[part][60] ^ 1]) + packets[part][61:]
        assert not replace(evidence, packets=packets).is_signed()


def test_a_provider_that_mixes_up_entries_of_clients_is_accused_by_who_gets_them() -> None:
    network, ref = evil("mix")
    other = network.subscribe("c1", "c2")
    for _ in range(10):
        network.send("c0", ref, texts("a", 5))
        network.send("c1", other, texts("b", 5))
        network.run(5)
    reads = network.receive("c1", ref, 50, 5) + network.receive("c2", other, 50, 5)
    assert all(content.startswith((b"a ", b"b ")) for content in reads)
    held = [one for name in ("c0", "c1", "c2") for one in network.clients[name].accusations.evidence()]
    assert held
    assert {(one.accused, one.reason) for one in held} == {(network.key("i0"), NOBODYS)}
    assert all(one.is_signed() for one in held)


def test_a_provider_that_forks_a_feed_is_convicted() -> None:
    network = provider_cell({"c0": "i0", "c1": "i0"}, TERMS)
    contract = network.providers["i0"].contracts.current(network.key("c0"))
    assert contract is not None
    fork(network.nodes["i0"], contract.facts.own_control, network.now)
    network.run(5)
    (evidence,) = network.clients["c0"].accusations.evidence()
    assert (evidence.accused, evidence.reason) == (network.key("i0"), FORKED)
    assert network.clients["c0"].faults == {FORKED: 1}
    assert evidence.is_proof()
    assert not replace(evidence, packets=evidence.packets[:1] * 2).is_signed()


def test_what_a_provider_withholds_is_overdue_for_its_author() -> None:
    terms = TERMS._replace(receipt=2 * SECOND)
    network, ref = evil("withhold", terms)
    network.send("c0", ref, texts("a", 40))
    found = network.receive("c1", ref, 40, 60)
    assert found == texts("a", 3)
    assert details(network, "c0", "overdue")[0].endswith(" entries")
    one = network.clients["c0"].subscriptions[ref]
    assert one.arrived == 3 < one.taken
    assert network.providers["i0"]._waiting(network.providers["i0"].routes[ref].a) <= terms.held
    assert not network.clients["c0"].accusations.evidence(), "a silent contact looks the same: no proof"


def test_with_an_honest_provider_receipts_arrive_and_nothing_is_overdue() -> None:
    terms = TERMS._replace(receipt=2 * SECOND)
    network = provider_cell({"c0": "i0", "c1": "i1"}, terms, peers=[("i0", "i1")], loss_percent=5)
    ref = network.subscribe("c0", "c1")
    for _ in range(3):
        network.send("c0", ref, texts("a", 20))
        assert len(network.receive("c1", ref, 20, 30)) == 20
    network.run(5)
    assert network.clients["c0"].subscriptions[ref].arrived == 60
    network.run(60)
    assert not details(network, "c0", "overdue")
    # What nobody has signed, or what was not delivered, is no receipt, and goes no further.
    (contract,) = network.clients["c1"].contracts.values()
    own = network.nodes["c1"].store.feeds[network.clients["c1"].subscriptions[ref].own or b""].identity
    feed = network.clients["c1"].subscriptions[ref].other
    assert own is not None
    assert feed is not None
    before = network.nodes["i0"].sent["entry"]
    signed = [sign_receipt(own, feed, sequence) for sequence in (60, 61)]
    for sequence, signature in ((61, signed[1]), (60, bytes(64)), (60, signed[0])):
        contract.send_command(SubReceipt(ref, sequence, signature), network.now)
    network.run(3)
    assert network.providers["i1"].faults["a receipt that is none"] == 3
    assert network.nodes["i0"].sent["entry"] == before


def test_a_client_cannot_offer_what_it_has_not_signed_for() -> None:
    network = provider_cell({"c0": "i0", "c1": "i0"}, TERMS)
    (contract,) = network.clients["c0"].contracts.values()
    own = network.nodes["c0"].store.add_own(network.clients["c0"].new_identity()).key
    proof = sign_feed(network.clients["c0"].root, own, network.key("c1"))
    for wrong in (bytes(64), sign_feed(network.clients["c0"].root, own, network.key("i0"))):
        contract.send_command(SubRequest(network.key("c1"), own, wrong), network.now)
    network.run(3)
    assert network.providers["i0"].faults["a feed that is not signed for"] == 2
    contract.send_command(SubRequest(network.key("c1"), own, None), network.now)
    network.run(3)
    assert not network.clients["c1"].subscriptions, "the client refuses what has no proof"
    assert not network.clients["c1"].accusations.evidence()
    contract.send_command(SubRequest(network.key("c1"), own, proof), network.now)
    network.run(3)
    (ref,) = network.clients["c1"].subscriptions
    (other,) = network.clients["c1"].contracts.values()
    other.send_command(SubResponse(ref, True, bytes(32), bytes(64)), network.now)
    network.run(3)
    assert not network.providers["i0"].routes
    assert network.providers["i0"].faults["a feed that is not signed for"] == 3


def test_a_contact_cannot_bring_a_provider_into_disrepute() -> None:
    """He answers with a feed that the asker has already, by another way: its entries are thrown away."""
    network = provider_cell({"c0": "i0", "c1": "i0"}, TERMS)
    known = network.clients["c1"].new_identity()
    network.nodes["c0"].store.add(known.public_key)
    ref = network.request("c0", "c1")
    network.run(3)
    one = network.clients["c1"].subscriptions[ref]
    (contract,) = network.clients["c1"].contracts.values()
    network.nodes["c1"].store.add_own(known)
    network.clients["c1"]._reply(contract, one, known.public_key, network.now)
    network.send("c1", ref, texts("a", 20))
    network.run(60)
    assert not network.clients["c0"].accusations.evidence()
    assert network.clients["c0"].faults["an entry of a feed that cannot be taken"]
    assert ref not in network.clients["c0"].subscriptions
    network.subscribe("c0", "c1")


def test_a_provider_that_claims_clients_of_others_cannot_answer_for_them() -> None:
    network = provider_cell({"c0": "i0", "c1": "i1"}, TERMS, peers=[("i0", "i1"), ("i2", "i0")])
    contract = network.parties["i2"].contracts.current(network.key("i0"))
    assert contract is not None
    nobody = network.clients["c1"].new_identity().public_key
    contract.send_command(Reach((network.key("i2"),), (nobody, network.key("c1"))), network.now)
    network.run(5)
    assert nobody in network.providers["i0"].reachability.paths()
    answer = network.providers["i2"]
    own = answer.new_identity()

    def lie(to: Any, request: SubRelay, now: int) -> None:
        proof = sign_feed(answer.root, own.public_key, request.source, request.feed)
        to.send_command(SubResponseIsp(request.ref, True, own.public_key, proof), now)

    answer._on_request = lie  # type: ignore[method-assign]
    client = network.clients["c0"]
    ref = client.subscribe(network.key("i0"), nobody, network.now)
    assert network.run(20, lambda: ref not in client.subscriptions)
    assert network.providers["i0"].faults["a feed that is not signed for"] == 1
    assert not network.providers["i0"].routes


def test_news_are_bounded() -> None:
    own, neighbour = bytes(32), bytes(range(32))
    table = Reachability(own)
    for at in range(0, MOST_TARGETS + 40, 20):
        targets = tuple((at + more).to_bytes(32) for more in range(1, 21))
        table.receive(b"c", neighbour, Reach((neighbour,), targets))
    assert len(table.paths()) == MOST_TARGETS
    assert table.receive(b"c", neighbour, Reach((own,), (own,))) == "a path that leads nowhere"
    assert (
        table.receive(b"c", neighbour, Reach((neighbour, neighbour), (own,))) == "a path that leads nowhere"
    )
    assert table.receive(b"c", neighbour, Reach((neighbour, own), ((1).to_bytes(32),))) is None
    assert len(table.paths()) == MOST_TARGETS - 1, "its only way leads back here"


def test_evidence_survives_and_cannot_be_made_up() -> None:
    network, _ = evil("forge")
    (evidence,) = network.clients["c0"].accusations.evidence()
    client = network.clients["c0"]
    again = Node(client.node.store, client._random)
    restarted = Client(again, client.root, client._random, TERMS, 0)
    assert restarted.accusations.evidence() == [evidence]
    assert restarted.faults == {FORGED: 1}
    assert Evidence.load(evidence.record()) == evidence
    assert encode(evidence.record())
    own = network.clients["c0"].new_identity()
    entry, chunks = sign(own, 1, first_previous(own.public_key), b"nothing of the kind")
    packets, place = [entry.packet, *chunks], first_previous(own.public_key)
    made_up = replace(evidence, feed=own.public_key, sequence=1, previous=place, packets=packets)
    assert made_up.is_signed()
    assert not made_up.is_proof()
    for broken in ([], [b""], [entry.packet, *chunks, bytes(120)]):
        assert not replace(made_up, packets=broken).is_signed()
