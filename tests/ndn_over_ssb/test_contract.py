"""Contracts follow from the logs of both sides, in whatever order they come."""

from random import Random
from typing import Any

import pytest

from forwarder.wire.name import from_uri
from ndn_over_ssb.contract import Clause, Contract, Contracts, InvalidClause, Terms, clause
from ssb.message import Message
from testbed.verify.providers.network import identity

ANN, BOB, EVE = identity("ann"), identity("bob"), identity("eve")
FEEDS = [identity(f"feed {number}").ref for number in range(6)]
TERMS = Terms(rate=10, term_s=100)


class Log:
    def __init__(self, name: str) -> None:
        self.identity = identity(name)
        self.messages: list[Message] = []

    def say(self, content: dict[str, Any], time: float = 0.0) -> str:
        before = self.messages[-1] if self.messages else None
        self.messages.append(Message.create(self.identity, before, content, time))
        return self.messages[-1].id


def agreed() -> tuple[Log, Log, str]:
    """The logs of a customer and a provider who have agreed."""
    ann, bob = Log("ann"), Log("bob")
    made = ann.say(clause("request", provider=BOB.ref, terms=TERMS))
    bob.say(clause("accept", contract=made, customer=ANN.ref, terms=TERMS), 1000)
    ann.say(clause("begin", contract=made, epoch=0, feed=FEEDS[0]))
    bob.say(clause("begin", contract=made, epoch=0, feed=FEEDS[1]))
    return ann, bob, made


def read(*logs: Log, order: int = 0) -> Contracts:
    """Read logs, in an order that is drawn."""
    random = Random(order)
    contracts = Contracts()
    left = [list(log.messages) for log in logs]
    while any(left):
        contracts.read(random.choice([log for log in left if log]).pop(0))
    return contracts


def the(contracts: Contracts) -> Contract:
    (contract,) = contracts
    return contract


@pytest.mark.parametrize("order", range(6))
def test_a_contract_holds_when_both_have_said_so(order: int) -> None:
    ann, bob, made = agreed()
    assert not the(read(ann)).holds(1000)
    assert not list(read(bob))
    contract = the(read(ann, bob, order=order))
    assert (contract.id, contract.customer, contract.provider) == (made, ANN.ref, BOB.ref)
    assert contract.holds(1000)
    assert contract.holds(100_999)
    assert not contract.holds(101_000)
    assert contract.begun == {ANN.ref: (0, FEEDS[0]), BOB.ref: (0, FEEDS[1])}
    assert contract.other(ANN.ref) == BOB.ref
    assert contract.other(BOB.ref) == ANN.ref


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("by", [0, 1])
def test_either_side_ends_it(by: int, order: int) -> None:
    *logs, made = agreed()
    logs[by].say(clause("end", contract=made))
    assert not the(read(*logs, order=order)).holds(1000)


@pytest.mark.parametrize("order", range(6))
def test_sides_begin_anew(order: int) -> None:
    ann, bob, made = agreed()
    bob.say(clause("begin", contract=made, epoch=1, feed=FEEDS[2]))
    ann.say(clause("begin", contract=made, epoch=1, feed=FEEDS[3]))
    ann.say(clause("begin", contract=made, epoch=1, feed=FEEDS[4]))  # the epoch has begun already
    contract = the(read(ann, bob, order=order))
    assert contract.epoch == 1
    assert contract.begun == {ANN.ref: (1, FEEDS[3]), BOB.ref: (1, FEEDS[2])}


@pytest.mark.parametrize("order", range(6))
def test_others_have_no_say(order: int) -> None:
    ann, bob, made = agreed()
    eve = Log("eve")
    eve.say(clause("accept", contract=made, customer=ANN.ref, terms=TERMS))
    eve.say(clause("refuse", contract=made, customer=ANN.ref, reason="no"))
    eve.say(clause("begin", contract=made, epoch=7, feed=FEEDS[5]))
    eve.say(clause("end", contract=made))
    ann.say(clause("accept", contract=made, customer=ANN.ref, terms=TERMS))  # her own request
    contract = the(read(ann, bob, eve, order=order))
    assert contract.holds(1000)
    assert contract.begun == {ANN.ref: (0, FEEDS[0]), BOB.ref: (0, FEEDS[1])}
    assert contract.refusal is None


def test_a_refusal_says_why() -> None:
    ann, bob = Log("ann"), Log("bob")
    made = ann.say(clause("request", provider=BOB.ref, terms=TERMS))
    bob.say(clause("refuse", contract=made, customer=ANN.ref, reason="too many customers"))
    contract = the(read(ann, bob))
    assert contract.refusal == "too many customers"
    assert not contract.holds(0)


def test_offers() -> None:
    bob = Log("bob")
    bob.say(clause("offer", terms=TERMS))
    bob.say(clause("offer", terms=TERMS._replace(rate=20)))
    assert read(bob).offers == {BOB.ref: TERMS._replace(rate=20)}


@pytest.mark.parametrize(
    ("asked", "offered", "granted"),
    [
        (["/"], ["/"], ["/"]),
        (["/a/b"], ["/"], ["/a/b"]),
        (["/"], ["/a", "/b"], ["/a", "/b"]),
        (["/a/b", "/c"], ["/a"], ["/a/b"]),
        (["/a"], ["/b"], None),
    ],
)
def test_terms_are_cut_down_to_the_offer(
    asked: list[str], offered: list[str], granted: list[str] | None
) -> None:
    wish = Terms(rate=100, term_s=10, prefixes=tuple(map(from_uri, asked)), transit=True)
    offer = Terms(rate=50, term_s=20, prefixes=tuple(map(from_uri, offered)))
    if granted is None:
        with pytest.raises(InvalidClause, match="none of these prefixes is offered"):
            wish.within(offer)
    else:
        terms = wish.within(offer)
        assert terms == Terms(rate=50, term_s=10, prefixes=tuple(map(from_uri, granted)))
        assert Terms.read(terms.content()) == terms


GOOD = clause("request", provider=BOB.ref, terms=TERMS)


@pytest.mark.parametrize(
    "change",
    [
        {"do": "rescind"},
        {"do": ["request"]},
        {"provider": "bob"},
        {"provider": None},
        {"terms": None},
        {"terms": TERMS.content() | {"rate": 0}},
        {"terms": TERMS.content() | {"rate": True}},
        {"terms": TERMS.content() | {"rate": 10.5}},
        {"terms": TERMS.content() | {"term_s": 10**12}},
        {"terms": TERMS.content() | {"prefixes": []}},
        {"terms": TERMS.content() | {"prefixes": ["/%z"]}},
        {"terms": TERMS.content() | {"prefixes": [7]}},
        {"terms": TERMS.content() | {"prefixes": ["/"] * 100}},
    ],
)
def test_what_cannot_be_understood_counts_for_nothing(change: dict[str, Any]) -> None:
    ann = Log("ann")
    ann.say(GOOD | change)
    with pytest.raises(InvalidClause):
        Clause.read(ann.messages[0])
    assert not list(read(ann))
