"""Who does not keep to the protocol: who notices it, with what proof, and what it costs the others.

Each line of the table in docs/tiny.md names its test here.
"""

from dataclasses import replace
from typing import Any

import pytest
from tiny_cell import SECOND
from tiny_region import Region, texts

from ssb.bipf import encode
from ssb.tiny.entry import first_previous, sign
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.evidence import FORGED, FORKED, NOBODYS, Evidence, sign_feed, sign_receipt
from ssb.tiny.isp.messages import SubReceipt, SubRelay, SubRequest, SubResponse, SubResponseIsp
from ssb.tiny.isp.reach import MOST_TARGETS, Reach, Reachability
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node
from testbed.layerings.tiny.hostile_client import HostileClient, fork
from testbed.verify.tiny.hostile import HostileProvider
from testbed.verify.tiny.story import INSIDE, MS, Hostility

TERMS = Terms(size=8, unread=3, backlog=8, patience=20 * SECOND, linger=30 * SECOND)
CLIENTS = {"c0": "i0", "c1": "i0", "c2": "i0", "c3": "i0"}
ACCUSED_OF = {
    "flood": None,
    "false-fin": "a fin of a feed that is not at its end",
    "malformed": "what does not belong into a line",
    "ignore-pause": None,
    "replay": NOBODYS,
    "fork": FORKED,
}
"""What a provider has in its hands against a client who is hostile in a way; None where bounds are enough."""


def hostile(base: type, attack: Hostility, pace: tuple[int, int] = (100 * MS, 300 * MS)) -> Any:
    return type("Hostile", (base,), {"attack": attack, "pace": pace})


def throughput(attack: Hostility | None, seed: int, messages: int = 120) -> tuple[float, Region]:
    """Return how many messages a second go from one client to another, beside a third one."""
    kinds = {"c2": hostile(HostileClient, attack)} if attack else {}
    region = Region(CLIENTS, terms=TERMS, kinds=kinds, seed=seed)
    good, bad = region.subscribe("c0", "c1"), region.subscribe("c2", "c3")
    region.send("c2", bad, texts("x", 10))
    region.receive("c3", bad, 10, 10)
    begun = region.network.now
    region.send("c0", good, texts("a", messages))
    assert region.receive("c1", good, messages) == texts("a", messages)
    return messages * SECOND / (region.network.now - begun), region


@pytest.mark.slow
@pytest.mark.parametrize("attack", INSIDE)
def test_a_hostile_client_leaves_others_nine_tenths(attack: Hostility) -> None:
    """Over several seeds: those of one differ by a tenth, by the times that answers wait."""
    alone, beside = (sum(throughput(who, seed, 500)[0] for seed in range(1, 7)) for who in (None, attack))
    assert beside >= 0.9 * alone


@pytest.mark.parametrize("attack", INSIDE)
def test_a_hostile_client_is_noticed(attack: Hostility) -> None:
    _, region = throughput(attack, 1, 20)
    region.run(40)
    held = region.isp("i0").evidence()
    assert {one.accused for one in held} <= {region.key("c2")}
    reasons = {one.reason for one in held}
    assert ACCUSED_OF[attack] in reasons if ACCUSED_OF[attack] else not reasons
    assert all(one.is_signed() for one in held)
    assert all(one.is_proof() == (one.reason == FORKED) for one in held)
    assert region.detail("i0", "accused") == [one.reason for one in held] or len(held) > 1
    for name in ("c0", "c1", "c3"):
        assert not region.client(name).evidence()
    assert region.nodes["i0"].store.size() < 4 * TERMS.bound(1), "what it holds is bounded"


def evil(attack: Hostility, terms: Terms = TERMS, seed: int = 1) -> tuple[Region, bytes]:
    """Return two clients of a hostile provider, and a subscription that the first has asked for."""
    kinds = {"i0": hostile(HostileProvider, attack)}
    region = Region(dict.fromkeys(["c0", "c1", "c2"], "i0"), (), terms, kinds, seed)
    ref = region.ask("c0", "c1")
    assert region.run(30, lambda: ref in region.client("c1").subscriptions)
    region.client("c1").answer(ref, region.network.now, accept=True)
    region.run(5)
    return region, ref


def test_a_provider_that_puts_its_own_feed_in_place_of_a_clients_is_convicted() -> None:
    region, ref = evil("forge")
    assert region.detail("c0", "accused") == [FORGED]
    assert region.detail("c0", "refused") == [FORGED]
    (evidence,) = region.client("c0").evidence()
    assert evidence.accused == region.key("i0")
    assert evidence.is_proof()
    assert not region.client("c0").read(ref), "the user reads nothing of it"
    honest = replace(evidence, contact=region.key("i0"))
    assert not honest.is_proof(), "the provider has signed: it would be its own feed"
    for part in (0, -1):
        packets = list(evidence.packets)
        packets[part] = packets[part][:60] + bytes([packets[part][60] ^ 1]) + packets[part][61:]
        assert not replace(evidence, packets=packets).is_signed()
    region.client("c0").forget_evidence()
    assert not region.client("c0").evidence()


def test_a_provider_that_mixes_up_entries_of_clients_is_accused_by_who_gets_them() -> None:
    region, ref = evil("mix")
    other = region.subscribe("c1", "c2")
    for _ in range(10):
        region.send("c0", ref, texts("a", 5))
        region.send("c1", other, texts("b", 5))
        region.run(5)
    reads = region.receive("c1", ref, 50, 5) + region.receive("c2", other, 50, 5)
    assert all(content.startswith((b"a ", b"b ")) for content in reads)
    held = [one for name in ("c0", "c1", "c2") for one in region.client(name).evidence()]
    assert held
    assert {(one.accused, one.reason) for one in held} == {(region.key("i0"), NOBODYS)}
    assert all(one.is_signed() for one in held)


def test_a_provider_that_forks_a_feed_is_convicted() -> None:
    region = Region({"c0": "i0", "c1": "i0"}, terms=TERMS)
    contract = region.isp("i0").contract_with(region.key("c0"))
    assert contract is not None
    fork(region.nodes["i0"], contract.facts.own_control, region.network.now)
    region.run(5)
    (evidence,) = region.client("c0").evidence()
    assert (evidence.accused, evidence.reason) == (region.key("i0"), FORKED)
    assert region.client("c0").faults == {FORKED: 1}
    assert evidence.is_proof()
    assert not replace(evidence, packets=evidence.packets[:1] * 2).is_signed()


def test_what_a_provider_withholds_is_overdue_for_its_author() -> None:
    terms = TERMS._replace(receipt=2 * SECOND)
    region, ref = evil("withhold", terms)
    region.send("c0", ref, texts("a", 40))
    found = region.receive("c1", ref, 40, 60)
    assert found == texts("a", 3)
    assert region.detail("c0", "overdue")[0].endswith(" entries")
    one = region.client("c0").subscriptions[ref]
    assert one.arrived == 3 < one.taken
    assert region.isp("i0")._waiting(region.isp("i0").routes[ref].a) <= terms.held
    assert not region.client("c0").evidence(), "a silent contact looks the same: no proof"


def test_with_an_honest_provider_receipts_arrive_and_nothing_is_overdue() -> None:
    terms = TERMS._replace(receipt=2 * SECOND)
    region = Region({"c0": "i0", "c1": "i1"}, [("i0", "i1")], terms, loss_percent=5)
    ref = region.subscribe("c0", "c1")
    for _ in range(3):
        region.send("c0", ref, texts("a", 20))
        assert len(region.receive("c1", ref, 20, 30)) == 20
    region.run(5)
    assert region.client("c0").subscriptions[ref].arrived == 60
    region.run(60)
    assert not region.detail("c0", "overdue")
    # What nobody has signed, or what was not delivered, is no receipt, and goes no further.
    (contract,) = region.client("c1").contracts.values()
    own = region.nodes["c1"].store.feeds[region.client("c1").subscriptions[ref].own or b""].identity
    feed = region.client("c1").subscriptions[ref].other
    assert own is not None
    assert feed is not None
    before = region.nodes["i0"].sent["entry"]
    signed = [sign_receipt(own, feed, sequence) for sequence in (60, 61)]
    for sequence, signature in ((61, signed[1]), (60, bytes(64)), (60, signed[0])):
        contract.say(SubReceipt(ref, sequence, signature), region.network.now)
    region.run(3)
    assert region.isp("i1").faults["a receipt that is none"] == 3
    assert region.nodes["i0"].sent["entry"] == before


def test_a_client_cannot_offer_what_it_has_not_signed_for() -> None:
    region = Region({"c0": "i0", "c1": "i0"}, terms=TERMS)
    (contract,) = region.client("c0").contracts.values()
    own = region.nodes["c0"].store.add_own(region.client("c0").new_identity()).key
    proof = sign_feed(region.client("c0").root, own, region.key("c1"))
    for wrong in (bytes(64), sign_feed(region.client("c0").root, own, region.key("i0"))):
        contract.say(SubRequest(region.key("c1"), own, wrong), region.network.now)
    region.run(3)
    assert region.isp("i0").faults["a feed that is not signed for"] == 2
    contract.say(SubRequest(region.key("c1"), own, None), region.network.now)
    region.run(3)
    assert not region.client("c1").subscriptions, "the client refuses what has no proof"
    assert not region.client("c1").evidence()
    contract.say(SubRequest(region.key("c1"), own, proof), region.network.now)
    region.run(3)
    (ref,) = region.client("c1").subscriptions
    (other,) = region.client("c1").contracts.values()
    other.say(SubResponse(ref, True, bytes(32), bytes(64)), region.network.now)
    region.run(3)
    assert not region.isp("i0").routes
    assert region.isp("i0").faults["a feed that is not signed for"] == 3


def test_a_contact_cannot_bring_a_provider_into_disrepute() -> None:
    """He answers with a feed that the asker has already, by another way: its entries are thrown away."""
    region = Region({"c0": "i0", "c1": "i0"}, terms=TERMS)
    known = region.client("c1").new_identity()
    region.nodes["c0"].store.add(known.public_key)
    ref = region.ask("c0", "c1")
    region.run(3)
    one = region.client("c1").subscriptions[ref]
    (contract,) = region.client("c1").contracts.values()
    region.nodes["c1"].store.add_own(known)
    region.client("c1")._reply(contract, one, known.public_key, region.network.now)
    region.send("c1", ref, texts("a", 20))
    region.run(60)
    assert not region.client("c0").evidence()
    assert region.client("c0").faults["an entry of a feed that cannot be taken"]
    assert ref not in region.client("c0").subscriptions
    region.subscribe("c0", "c1")


def test_a_provider_that_claims_clients_of_others_cannot_answer_for_them() -> None:
    region = Region({"c0": "i0", "c1": "i1"}, [("i0", "i1"), ("i2", "i0")], TERMS)
    contract = region.parties["i2"].contract_with(region.key("i0"))
    assert contract is not None
    nobody = region.client("c1").new_identity().public_key
    contract.say(Reach((region.key("i2"),), (nobody, region.key("c1"))), region.network.now)
    region.run(5)
    assert nobody in region.isp("i0").reachability.paths()
    answer = region.isp("i2")
    own = answer.new_identity()

    def lie(to: Any, request: SubRelay, now: int) -> None:
        proof = sign_feed(answer.root, own.public_key, request.source, request.feed)
        to.say(SubResponseIsp(request.ref, True, own.public_key, proof), now)

    answer._on_request = lie  # type: ignore[method-assign]
    client = region.client("c0")
    ref = client.subscribe(region.key("i0"), nobody, region.network.now)
    assert region.run(20, lambda: ref not in client.subscriptions)
    assert region.isp("i0").faults["a feed that is not signed for"] == 1
    assert not region.isp("i0").routes


def test_news_are_bounded() -> None:
    own, neighbour = bytes(32), bytes(range(32))
    table = Reachability(own)
    for at in range(0, MOST_TARGETS + 40, 20):
        targets = tuple((at + more).to_bytes(32) for more in range(1, 21))
        table.hear(b"c", neighbour, Reach((neighbour,), targets))
    assert len(table.paths()) == MOST_TARGETS
    assert table.hear(b"c", neighbour, Reach((own,), (own,))) == "a path that leads nowhere"
    assert table.hear(b"c", neighbour, Reach((neighbour, neighbour), (own,))) == "a path that leads nowhere"
    assert table.hear(b"c", neighbour, Reach((neighbour, own), ((1).to_bytes(32),))) is None
    assert len(table.paths()) == MOST_TARGETS - 1, "its only way leads back here"


def test_evidence_survives_and_cannot_be_made_up() -> None:
    region, _ = evil("forge")
    (evidence,) = region.client("c0").evidence()
    client = region.client("c0")
    again = Node(client.node.store, client._random)
    restarted = Client(again, client.root, client._random, TERMS, 0)
    assert restarted.evidence() == [evidence]
    assert restarted.faults == {FORGED: 1}
    assert Evidence.load(evidence.record()) == evidence
    assert encode(evidence.record())
    own = region.client("c0").new_identity()
    entry, chunks = sign(own, 1, first_previous(own.public_key), b"nothing of the kind")
    packets, place = [entry.packet, *chunks], first_previous(own.public_key)
    made_up = replace(evidence, feed=own.public_key, sequence=1, previous=place, packets=packets)
    assert made_up.is_signed()
    assert not made_up.is_proof()
    for broken in ([], [b""], [entry.packet, *chunks, bytes(120)]):
        assert not replace(made_up, packets=broken).is_signed()
