"""Evidence of a source on the wire, and its order."""

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from forwarder.wire.evidence import (
    LAST_NUMBER,
    MOST_HOPS,
    MOST_LEAP,
    PROOF_BYTES,
    Evidence,
    decode_evidence,
    encode_evidence,
    proven_text,
)
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.lp import make_feed_state, make_lp, parse_lp
from forwarder.wire.packet import make_data, make_interest, parse_interest
from forwarder.wire.tlv import MalformedPacket, nni

FEED = feed_name(b"", bytes(32))
NUMBERS = st.integers(0, LAST_NUMBER) | st.sampled_from(
    [0, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, LAST_NUMBER]
)
HOPS = st.integers(0, MOST_HOPS)
PROOFS = st.just(b"") | st.binary(min_size=PROOF_BYTES, max_size=PROOF_BYTES)
UNSIGNED = st.builds(Evidence, NUMBERS, HOPS, st.just(False), st.just(b""))
EVIDENCE = UNSIGNED | st.builds(Evidence, NUMBERS, HOPS, st.just(True), PROOFS)
SMALL = st.builds(Evidence, st.integers(0, 3), st.integers(0, 3), st.booleans(), st.just(b""))


# The bytes.


@pytest.mark.parametrize(
    ("evidence", "wire"),
    [
        (Evidence(0, 0), "00 00"),
        (Evidence(1, 3), "03 01"),
        (Evidence(300, 63), "3f 012c"),
        (Evidence(1 << 16, 1), "01 00010000"),
        (Evidence(LAST_NUMBER, 0), "00 fffffffffffffffe"),
        (Evidence(7, 2, True), "82 07"),
        (Evidence(7, 2, True, b"s" * 64), "82 07" + "73" * 64),
    ],
)
def test_the_bytes(evidence: Evidence, wire: str) -> None:
    assert encode_evidence(evidence) == bytes.fromhex(wire)
    assert decode_evidence(bytes.fromhex(wire)) == evidence


@given(EVIDENCE)
def test_it_reads_as_it_was_written(evidence: Evidence) -> None:
    assert decode_evidence(encode_evidence(evidence)) == evidence


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        *(bytes(size) for size in (4, 6, 7, 8, 10, 64, 65, 68, 70, 72, 74, 128)),
        b"\0" + nni(LAST_NUMBER + 1),
        b"\0" + nni(LAST_NUMBER + 1) + bytes(PROOF_BYTES),
        b"\2\7" + bytes(PROOF_BYTES),
    ],
    ids=lambda value: f"{len(value)}:{value[:9].hex()}",
)
def test_what_is_malformed(value: bytes) -> None:
    with pytest.raises(MalformedPacket):
        decode_evidence(value)


@given(st.binary(max_size=80))
@example(bytes(66))
@example(bytes(73))
def test_any_bytes_are_evidence_or_malformed(value: bytes) -> None:
    try:
        evidence = decode_evidence(value)
    except MalformedPacket:
        return
    assert evidence.number <= LAST_NUMBER
    assert evidence.hops <= MOST_HOPS
    assert len(evidence.proof) in ((0, PROOF_BYTES) if evidence.is_signed else (0,))
    again = encode_evidence(evidence)
    assert decode_evidence(again) == evidence
    assert len(again) <= len(value)


@given(st.none() | EVIDENCE, st.none() | EVIDENCE)
def test_packets_carry_it(evidence: Evidence | None, known: Evidence | None) -> None:
    data = make_data(item_name(FEED, 1), b"")
    for wire in (
        make_feed_state(FEED, tip=1, limit=2, evidence=evidence),
        make_lp(data, tip=1, limit=2, evidence=evidence),
    ):
        assert parse_lp(wire).evidence == evidence
    lli = make_interest(item_name(FEED, 1), nonce=1, send_credit=3, known=known and known.bare)
    assert parse_interest(lli).known == (known and known.bare)


def test_only_an_lli_says_what_is_known() -> None:
    lli = make_interest(item_name(FEED, 1), nonce=1, send_credit=3, known=Evidence(5, 1))
    assert parse_interest(lli).known == Evidence(5, 1)
    classic = make_interest(item_name(FEED, 1), nonce=1, known=Evidence(5, 1))
    assert parse_interest(classic).known is None


def test_what_is_signed_names_the_feed_and_the_number_and_is_no_packet() -> None:
    texts = {proven_text(feed, number) for feed in (FEED, FEED + b"x") for number in (0, 1, 256)}
    assert len(texts) == 6
    assert proven_text(FEED, 258) == b"feednet source\0" + bytes(6) + b"\1\2" + FEED
    assert not any(text.startswith((b"\5", b"\6", b"\x64")) for text in texts)


# The order.


@given(SMALL, SMALL)
def test_it_is_a_strict_order_signed_first_then_by_number_and_nearness(
    one: Evidence, other: Evidence
) -> None:
    def rank(evidence: Evidence) -> tuple[bool, int, int]:
        return evidence.is_signed, evidence.number, -evidence.hops

    assert one.beats(other) == (rank(one) > rank(other))
    assert one.beats(None)


@given(SMALL, SMALL)
def test_a_demand_calls_for_more_where_its_number_is_not_beaten(known: Evidence, own: Evidence) -> None:
    newer = own._replace(number=known.number + 1, hops=0)
    assert known.calls_for_more(own) == (not own.beats(known) and newer.beats(known))


@given(EVIDENCE, st.none() | EVIDENCE)
def test_a_proof_is_left_out_only_where_it_can_be_put_back(
    evidence: Evidence, known: Evidence | None
) -> None:
    assume(evidence.is_whole)
    if known is not None and known.is_signed and known.number == evidence.number:
        known = known._replace(proof=evidence.proof)
    assert evidence.shown_to(known).proven_by(known) == evidence


@given(EVIDENCE, EVIDENCE)
def test_a_proof_has_no_part_in_the_order(one: Evidence, other: Evidence) -> None:
    assert one.beats(other) == one.bare.beats(other.bare)
    assert not one.beats(one.bare)
    assert not one.bare.beats(one)


@given(EVIDENCE)
def test_who_takes_it_over_is_further_away(evidence: Evidence) -> None:
    assert evidence.beats(evidence.onward)
    assert not evidence.onward.beats(evidence)
    assert evidence.onward.proof == evidence.proof


def test_a_chain_of_nodes_gets_worse_by_a_hop_each() -> None:
    chain = [Evidence(4, 0)]
    while len(chain) < 10:
        chain.append(chain[-1].onward)
    assert all(near.beats(far) for near, far in pairwise(chain))
    assert [e.hops for e in chain] == list(range(10))


def test_a_leap_is_not_believed() -> None:
    known = Evidence(10, 3)
    assert Evidence(10 + MOST_LEAP, 0).is_believable(known)
    assert not Evidence(11 + MOST_LEAP, 0).is_believable(known)
    assert Evidence(0, 0).is_believable(known)
    assert Evidence(1 << 63, 0).is_believable(None)
    assert not Evidence((1 << 63) + 1, 0).is_believable(None)


KEYED, KEYLESS = 4, 5
PROOF = b"s" * PROOF_BYTES

SEEDS = range(2_000)

Hearing = Callable[[Evidence, Evidence | None], Evidence]


def as_said(heard: Evidence, known: Evidence | None) -> Evidence:
    return heard.proven_by(known)


def as_known(heard: Evidence, known: Evidence | None) -> Evidence:
    """Take each number that was once signed for signed, as this protocol did."""
    if known is not None and known.is_signed and known.number == heard.number:
        return heard._replace(is_signed=True, proof=known.proof)
    return heard


def forms_a_cycle(rng: Random, hearing: Hearing) -> bool:
    """Play the model: four nodes, a source with the key and one without.

    Messages are kept, and come late, doubled, or never, with their proof or without. A node that begins anew
    has nothing, and what it said before counts no longer. In each step a node says what it holds, or a source
    has a new number, or a node begins anew; and a node hears something that was once said.
    """
    numbers = {KEYED: 1, KEYLESS: 1}
    held: list[Evidence | None] = [None] * 4
    begun = [0] * 6
    upstream: dict[int, tuple[int, int]] = {}  # and how often it had begun anew as it offered that
    said: list[tuple[int, int, Evidence]] = []
    for _ in range(40):
        node, other = rng.randrange(4), rng.randrange(4)
        match rng.randrange(8):
            case 0:
                numbers[rng.choice((KEYED, KEYLESS))] += 1
            case 1:
                held[node] = None
                begun[node] += 1
                upstream.pop(node, None)
        said.append((KEYED, 0, Evidence(numbers[KEYED], 0, True, PROOF)))
        said.append((KEYLESS, 0, Evidence(numbers[KEYLESS], 0)))
        if (evidence := held[node]) is not None:
            said.append((node, begun[node], rng.choice((evidence, evidence.bare))))
        teller, life, heard = said[-1 - int(rng.expovariate(0.15)) % len(said)]
        heard = hearing(heard, held[other])
        if teller != other and heard.is_whole and heard.beats(held[other]):
            held[other], upstream[other] = heard.onward, (teller, life)
        for first in range(4):
            seen, at = set(), first
            while at in upstream and upstream[at][1] == begun[upstream[at][0]]:
                if at in seen:
                    return True
                seen.add(at)
                at = upstream[at][0]
    return False


def test_nodes_that_take_only_better_evidence_never_form_a_cycle() -> None:
    assert not any(forms_a_cycle(Random(seed), as_said) for seed in SEEDS)


def test_who_infers_that_a_number_is_signed_can_form_a_cycle() -> None:
    assert any(forms_a_cycle(Random(seed), as_known) for seed in SEEDS)
