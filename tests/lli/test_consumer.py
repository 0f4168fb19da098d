"""The subscribing end: every item once, in order, verified, or a named error; and no more than fits."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lli_maker import BRANCH, FEED, FORKED_AT, NAME, PROOF, branch, forged, idle, packet, proof, pushed, told

from base.units import MS
from forwarder.lli.consumer import WAITING, Consumer
from forwarder.lli.credit import AdaptiveCredit, CreditPolicy
from forwarder.lli.producer import Producer
from forwarder.lli.upstream import Recovery, State
from forwarder.wire.evidence import MOST_HOPS, Evidence
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.lp import DUPLICATE, NO_ROUTE, make_lp, parse_lp
from forwarder.wire.packet import Data, make_data, make_interest, parse_data, parse_interest
from forwarder.wire.tlv import MalformedPacket

SOURCE = Evidence(1, 0)


class Desk:
    """A consumer and its application."""

    def __init__(
        self,
        credit: int | CreditPolicy = 8,
        *,
        after: int = 0,
        recovery: Recovery = Recovery.IN_NETWORK,
        start: bool = True,
        seed: int = 1,
        skips_gaps: bool = False,
        is_relay: bool = False,
    ) -> None:
        self.core = Consumer(
            NAME,
            rng=Random(seed),
            after=after,
            credit=credit,
            lifetime_ms=60_000,
            recovery=recovery,
            skips_gaps=skips_gaps,
            is_relay=is_relay,
        )
        self.now = 0
        if start:
            self.core.start(0)

    def out(self) -> list[str]:
        return [told(sent) for sent in self._sent()]

    def _sent(self) -> list[bytes]:
        sent = self.core.take_outputs()
        if sent:
            self.last = parse_interest(sent[-1])
        return sent

    def refuse(self, reason: int, feed: bytes = NAME) -> list[str]:
        """Let the last LLI be refused."""
        before = self.out()
        nonce = self.last.nonce or 0
        return before + self.come(
            make_lp(make_interest(item_name(feed, 1), nonce=nonce, send_credit=8), nack_reason=reason)
        )

    def come(self, *packets: bytes) -> list[str]:
        for received in packets:
            try:
                header = parse_lp(received)
            except MalformedPacket:
                continue  # dropped before a consumer gets it
            self.core.receive(header, self.now)
        return self.out()

    def take(self, limit: int | None = None) -> list[int]:
        items = self.core.take_items(limit)
        assert all(item.message == FEED[item.seq - 1].encoded for item in items)
        return [item.seq for item in items]

    def wait(self, ns: int) -> list[str]:
        """Let time pass, waking it whenever that is due."""
        end = self.now + ns
        while (deadline := self.core.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.core.wake(self.now)
        self.now = end
        return self.out()


def test_it_asks_from_the_first_item_on_and_delivers_in_order() -> None:
    desk = Desk()
    assert desk.out() == ["lli 1+8"]
    assert desk.come(pushed(1, 3, 8), packet(3), packet(2)) == []
    assert desk.take() == [1, 2, 3]
    assert desk.take() == []
    assert desk.core.take_errors() == []


def test_it_goes_on_after_what_is_already_held() -> None:
    desk = Desk(after=5)
    assert desk.out() == ["lli 6+11"]
    assert desk.come(packet(5), pushed(6, 6, 16)) == []
    assert desk.take() == [6]


def test_nothing_is_delivered_twice_or_unasked() -> None:
    desk = Desk()
    desk.come(pushed(1, 1, 8), packet(1), packet(20))
    assert desk.take() == [1]
    assert desk.core.rejected == {"duplicate": 1, "unasked": 1}


def test_a_forged_item_is_not_delivered_and_the_true_one_still_is() -> None:
    desk = Desk()
    text = FEED[0].encoded.replace(b'"type": "post"', b'"type": "past"')
    desk.come(forged(1, text), forged(1), forged(1, FEED[1].encoded))
    assert desk.take() == []
    assert desk.core.rejected == {"signature": 1, "message": 1, "sequence": 1}
    desk.come(packet(1))
    assert desk.take() == [1]


def test_an_application_that_does_not_take_is_not_sent_more() -> None:
    desk = Desk()
    desk.out()
    for seq in range(1, 9):
        assert desk.come(pushed(seq, 8, 8)) == []
    assert desk.wait(20_000 * MS) == []
    assert desk.take(3) == [1, 2, 3]
    assert desk.wait(0) == []
    assert desk.take(1) == [4]
    assert desk.core.next_deadline() == 0
    assert desk.wait(0) == ["lli 9+8"]
    assert desk.core.next_deadline() != 0


def test_an_application_that_takes_at_once_is_sent_more_before_it_runs_dry() -> None:
    desk = Desk()
    desk.out()
    asked = []
    for seq in range(1, 17):
        asked += desk.come(pushed(seq, 60, 8))
        assert desk.take() == [seq]
        asked += desk.wait(0)
    assert asked[:1] == ["lli 9+8"]
    assert [line for line in asked if line.startswith("lli")] == asked


def test_cancelling_is_told_upstream_and_what_has_arrived_can_be_taken() -> None:
    desk = Desk()
    assert desk.come(pushed(1, 1, 8)) == ["lli 1+8"]
    desk.core.cancel(0)
    assert desk.out() == ["lli 2+0"]
    assert desk.core.next_deadline() is None
    assert desk.come(packet(2), PROOF) == []
    desk.core.wake(10_000 * MS)
    desk.core.cancel(0)
    assert desk.out() == []
    assert desk.take() == [1]
    assert desk.core.error is None


def test_subscribing_again_goes_on_where_it_was() -> None:
    desk = Desk()
    desk.come(pushed(1, 4, 8), packet(2), packet(4))
    desk.core.cancel(0)
    desk.out()
    desk.core.start(0)
    assert desk.out() == ["lli 3+6"]
    desk.core.start(0)
    assert desk.out() == []
    desk.come(pushed(3, 4, 8))
    assert desk.take() == [1, 2, 3]
    desk.come(packet(4))
    assert desk.take() == [4]


def refused(reason: int, feed: bytes = NAME) -> bytes:
    return make_lp(make_interest(item_name(feed, 1), nonce=1, send_credit=8), nack_reason=reason)


def test_a_refusal_is_told_and_the_subscription_tried_again_ever_more_slowly() -> None:
    desk = Desk()
    assert desk.out() == ["lli 1+8"]
    waits = []
    for _ in range(8):
        assert desk.refuse(NO_ROUTE) == []
        assert [error for error in desk.core.take_errors() if error != "waiting"] == ["no-route"]
        assert desk.refuse(NO_ROUTE) == []
        assert desk.core.take_errors() == []
        due = desk.core.next_deadline()
        assert due is not None
        waits.append((due - desk.now) // MS)
        assert desk.wait(due - desk.now - 1) == []
        assert desk.wait(1) == ["lli 1+8"]
    longest = [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]
    assert all(most // 2 <= waited <= most for waited, most in zip(waits, longest, strict=True))
    assert desk.core.error is None


def test_two_that_are_refused_together_do_not_ask_in_step() -> None:
    due = set()
    for seed in range(2):
        desk = Desk(seed=seed)
        desk.out()
        desk.refuse(NO_ROUTE)
        due.add(desk.core.next_deadline())
    assert len(due) == 2


def test_an_item_ends_the_patience_with_refusals() -> None:
    desk = Desk()
    for _ in range(3):
        desk.refuse(NO_ROUTE)
        desk.wait(1000 * MS)
    desk.come(pushed(1, 1, 8))
    desk.refuse(DUPLICATE)
    assert [error for error in desk.core.take_errors() if error != "waiting"] == ["no-route"] * 3 + ["loop"]
    due = desk.core.next_deadline()
    assert due is not None
    assert due - desk.now <= 250 * MS
    desk.out()
    assert desk.wait(due - desk.now) == ["lli 2+7"]


def test_other_refusals_have_a_word_too_and_other_feeds_are_others() -> None:
    desk = Desk()
    desk.refuse(NO_ROUTE, feed_name(b"", bytes(32)))
    assert desk.core.take_errors() == []
    desk.refuse(0)
    assert desk.core.take_errors() == ["refused"]


def test_while_it_is_refused_nothing_counts() -> None:
    desk = Desk()
    assert desk.refuse(NO_ROUTE) == ["lli 1+8"]
    assert desk.come(packet(1), idle(3, 8)) == []
    assert desk.take() == []
    assert desk.wait(250 * MS) == ["lli 1+8"]


def test_a_past_that_is_gone_is_told_once_and_waited_for() -> None:
    """Every item once and in order, or a named error: what is gone is not skipped in silence."""
    desk = Desk()
    desk.out()
    desk.now = 10 * MS
    assert desk.come(idle(9, 8, first=7, evidence=SOURCE)) == ["lli 1+8"], "who asks again, waits"
    assert desk.core.take_errors() == ["gone"]
    assert desk.core.gap == (1, 6)
    assert desk.come(idle(9, 8, first=7, evidence=SOURCE)) == []
    desk.come(pushed(7, 8, 8), packet(8))
    assert desk.wait(59_000 * MS) in ([], ["lli 1+8"]), "one request a lifetime at most"
    assert desk.take() == []
    desk.come(*(packet(seq) for seq in range(1, 7)))
    assert desk.take() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert desk.core.take_errors() == []
    assert desk.core.gap is None


def test_a_gap_that_has_grown_is_waited_for_again_and_not_told_again() -> None:
    desk = Desk()
    desk.out()
    desk.now = 10 * MS
    assert desk.come(idle(9, 8, first=3, evidence=SOURCE)) == ["lli 1+8"]
    assert desk.core.take_errors() == ["gone"]
    assert desk.come(idle(9, 8, first=5, evidence=SOURCE)) == ["lli 1+8"]
    assert desk.come(idle(9, 8, first=5, evidence=SOURCE)) == []
    assert desk.core.take_errors() == []
    assert desk.core.gap == (1, 4)


def test_who_skips_gaps_goes_on_behind_what_is_gone() -> None:
    desk = Desk(skips_gaps=True)
    desk.out()
    desk.now = 10 * MS
    assert desk.come(idle(9, 8, first=7, evidence=SOURCE)) == ["lli 1+0", "lli 7+10"]
    assert desk.core.take_errors() == ["gone"]
    assert desk.core.gap == (1, 6)
    desk.come(pushed(7, 8, 16), packet(8))
    assert desk.take() == [7, 8]
    assert desk.core.gap is None
    assert desk.core.take_errors() == []


def test_an_application_without_a_source_is_told_and_told_when_there_is_one_again() -> None:
    desk = Desk()
    desk.out()
    desk.wait(WAITING - 1)
    assert desk.core.take_errors() == []
    desk.wait(1)
    assert desk.core.take_errors() == ["waiting"]
    desk.come(idle(0, 8))  # whoever answers knows of none
    desk.wait(20_000 * MS)
    assert desk.core.take_errors() == []
    assert not desk.core.is_fed
    desk.come(idle(0, 8, evidence=SOURCE))
    assert desk.core.take_errors() == ["resumed"]
    assert desk.core.is_fed
    assert desk.core.evidence == SOURCE.onward
    desk.come(idle(0, 8))
    assert not desk.core.is_fed
    desk.wait(WAITING // 2)
    desk.come(idle(0, 8, evidence=SOURCE))
    desk.wait(WAITING)
    assert desk.core.take_errors() == [], "it was found again in time"


def test_an_item_may_bring_the_news_of_a_source() -> None:
    desk = Desk()
    desk.wait(WAITING)
    desk.come(packet(2))
    assert desk.core.take_errors() == ["waiting"], "items may come from a cache"
    desk.come(pushed(1, 2, 8, evidence=SOURCE))
    assert desk.core.take_errors() == ["resumed"]


def test_only_who_passes_a_feed_on_says_what_it_knows_and_believes_only_better() -> None:
    """An archive may be its relay's upstream, and is no source."""
    desk = Desk(is_relay=True)
    desk.come(idle(0, 8, evidence=Evidence(1, MOST_HOPS)))
    assert desk.core.evidence is None, "its own would have a hop more than can be said"
    desk.out()
    assert desk.last.known is None
    desk.come(idle(0, 8, evidence=Evidence(2, 1)))
    assert (desk.core.is_fed, desk.core.evidence) == (True, Evidence(2, 2))
    desk.come(idle(0, 8, evidence=Evidence(2, 2)))
    assert (desk.core.is_fed, desk.core.evidence) == (False, Evidence(2, 2))
    desk.wait(250 * MS)
    desk.come(*(packet(seq) for seq in range(1, 9)))
    desk.take()
    assert desk.wait(0)[-1] == "lli 9+8"
    assert desk.last.known == Evidence(2, 2)
    other = Desk()
    other.come(idle(0, 8, evidence=Evidence(2, 1)), idle(0, 8, evidence=Evidence(1, 7)))
    assert (other.core.is_fed, other.core.evidence) == (True, Evidence(1, 8)), "it feeds nobody: no cycle"


def test_an_idle_answer_is_heard_if_it_is_this_feeds() -> None:
    desk = Desk()
    desk.out()
    desk.come(idle(0, 8, feed=feed_name(b"", bytes(32))))
    assert desk.wait(250 * MS) == ["lli 1+8"]
    desk.come(idle(0, 8))
    assert desk.wait(250 * MS) == []


def test_a_lost_tail_that_the_upstream_has_told_of_is_asked_for() -> None:
    desk = Desk()
    desk.out()
    desk.now = 10 * MS
    desk.come(idle(2, 8))
    assert desk.wait(200 * MS)[0] == "lli 1+8"


@pytest.mark.parametrize(
    ("recovery", "asked"),
    [
        (Recovery.IN_NETWORK, ["lli 2+2", "lli 5+1"]),
        (Recovery.GO_BACK_N, ["lli 2+7"]),
        (Recovery.SELECTIVE, ["interest 2", "interest 3", "interest 5"]),
    ],
)
def test_what_is_missing_is_asked_for_as_the_mode_says(recovery: Recovery, asked: list[str]) -> None:
    desk = Desk(recovery=recovery)
    desk.out()
    desk.now = 10 * MS
    assert desk.come(pushed(1, 1, 8), packet(4), packet(6)) == []
    assert desk.take() == [1]
    assert desk.wait(10 * MS) == asked
    assert desk.come(packet(2), packet(3), packet(5)) == []
    assert desk.take() == [2, 3, 4, 5, 6]


def test_a_path_that_cannot_push_is_pulled_from_without_a_time_out_an_item() -> None:
    desk = Desk()
    desk.out()
    desk.now = 10 * MS
    assert desk.come(packet(1)) == [f"lli {seq}+1" for seq in range(2, 9)]
    desk.come(*(packet(seq) for seq in range(2, 7)))
    assert desk.take() == [1, 2, 3, 4, 5, 6]
    assert desk.wait(0) == [f"lli {seq}+1" for seq in range(9, 17)]
    assert desk.come(pushed(7, 7, 7)) == []
    assert desk.core._upstream.state is State.OPEN  # it has learned to push


def test_silence_is_met_with_classic_pulls() -> None:
    desk = Desk()
    sent = desk.wait(5_000 * MS)
    assert sent[:5] == ["lli 1+8"] * 5
    assert sent[5:] == ["lli 1+1"], "one, as there may be nobody to answer"


@pytest.mark.parametrize(("mark", "asked"), [(0, "lli 33+32"), (1, "lli 33+10")])
def test_a_mark_makes_it_ask_for_less(mark: int, asked: str) -> None:
    """The mark halves 32 items in use; 23 more arrive and add some bytes; 8 of them are still under way."""
    desk = Desk(32)
    desk.out()
    desk.now = 10 * MS
    desk.come(pushed(1, 60, 32, mark=mark), *(pushed(seq, 60, 32) for seq in range(2, 25)))
    assert len(desk.take()) == 24
    assert desk.wait(0) == [asked]


# Forks.


def test_a_fork_that_shows_in_the_items_ends_the_subscription() -> None:
    desk = Desk()
    desk.out()
    desk.come(*(packet(seq) for seq in range(1, FORKED_AT + 1)), branch(FORKED_AT + 1))
    assert desk.core.error == "fork"
    assert desk.core.take_errors() == ["fork"]
    assert desk.core.fork is not None
    assert desk.core.fork.seq == FORKED_AT
    assert told(desk.core.fork.packet(NAME)) == f"proof {FORKED_AT}"
    assert desk.core.next_deadline() is None
    desk.core.start(0)
    assert desk.core.next_deadline() is None


def test_what_is_not_taken_of_a_fork_is_not_delivered_any_more() -> None:
    """Items 1 .. f - 1 are undisputed, and nothing from f on counts, on any branch."""
    desk = Desk()
    desk.come(*(packet(seq) for seq in range(1, FORKED_AT + 1)), branch(FORKED_AT + 1))
    assert desk.take() == [1, 2, 3, 4]


def test_what_is_undisputed_is_still_fetched_after_a_proof() -> None:
    desk = Desk()
    desk.out()
    desk.now = 10 * MS
    assert desk.come(pushed(1, 20, 8), PROOF) == []
    assert desk.core.error is None
    assert desk.take() == [1]
    assert desk.wait(300 * MS)[0] == "lli 2+3"
    desk.come(packet(2), packet(3), packet(4))
    assert desk.core.error == "fork"
    assert desk.take() == [2, 3, 4]
    assert desk.core.rejected == {}


def test_nothing_beyond_a_proven_fork_is_taken_in() -> None:
    desk = Desk()
    desk.come(PROOF, *(packet(seq) for seq in range(2, 8)))
    assert desk.core.rejected == {"unasked": 3}
    desk.come(packet(1))
    assert desk.take() == [1, 2, 3, 4]
    assert desk.core.error == "fork"


def test_only_a_lower_fork_is_news() -> None:
    writer_later = proof(7, FEED[6], BRANCH[7 - FORKED_AT + 1])
    desk = Desk()
    desk.come(writer_later)
    assert desk.core.fork is not None
    assert desk.core.fork.seq == 7
    desk.come(PROOF)
    assert desk.core.fork.seq == FORKED_AT
    desk.come(writer_later)
    assert desk.core.fork.seq == FORKED_AT


def test_a_proof_that_is_none_is_counted() -> None:
    desk = Desk()
    named = parse_data(PROOF)
    desk.come(make_data(named.name, b""), make_data(named.name, named.content[:-1]))
    assert desk.core.rejected == {"proof": 2}
    assert desk.core.fork is None
    assert desk.core.error is None


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="credit of at least 1"):
        Desk(0)


PACKETS = [packet(1), packet(2), pushed(3, 9, 8), idle(4, 8), PROOF, refused(NO_ROUTE), branch(6), forged(1)]


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(PACKETS), st.integers(0, 2000), st.integers(0, 255)), max_size=6))
def test_no_bytes_hurt_a_consumer(changed: list[tuple[bytes, int, int]]) -> None:
    desk = Desk()
    for place, (wire, at, byte) in enumerate(changed):
        junk = bytearray(wire)
        junk[at % len(wire)] = byte
        desk.now += place * 300 * MS
        desk.come(bytes(junk), bytes(junk[: at % len(wire)]))
        desk.wait(10 * MS)
        desk.take()


# Against a producer, over a link that loses, reorders and duplicates, with an application that pauses.

DATA: dict[int, Data] = {seq: parse_data(packet(seq)) for seq in range(1, len(FEED) + 1)}


class Path:
    """Virtual time, a consumer with its application, and the producer at the other end of a link."""

    def __init__(
        self, seed: int, loss: float, jitter: int, credit: int | CreditPolicy, recovery: Recovery
    ) -> None:
        self.rng = Random(seed)
        self.loss = loss
        self.jitter = jitter
        self.now = 0
        self.tip = 0
        self.taken: list[int] = []
        self.reach = 0
        self.granted: set[int] = set()
        self.consumer = Consumer(NAME, rng=self.rng, credit=credit, lifetime_ms=30_000, recovery=recovery)
        self.producer = Producer(NAME, lambda seq: DATA[seq] if seq <= self.tip else None, lambda: self.tip)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, when: int, what: Callable[[], None]) -> None:
        heappush(self._queue, (when, next(self._order), what))

    def carry(self, what: Callable[[], None]) -> None:
        for _ in range(2 if self.rng.random() < self.loss / 2 else 1):
            if self.rng.random() >= self.loss:
                self.at(self.now + 10 * MS + self.rng.randrange(self.jitter + 1), what)

    def publish(self) -> None:
        self.tip += 1
        self.producer.appended(self.tip, self.now)

    def take(self) -> None:
        self.taken += [item.seq for item in self.consumer.take_items()]

    def settle(self) -> None:
        for sent in self.consumer.take_outputs():
            interest = parse_interest(sent)
            first = int.from_bytes(interest.name[len(NAME) + 2 :], "big")
            self.reach = max(self.reach, first + (interest.send_credit or 1) - 1)
            self.carry(lambda interest=interest: self.producer.receive(interest, self.now))  # type: ignore[misc]
        for sent in self.producer.take_outputs():
            seq = parse_lp(sent).fragment and told(sent).split()[1]
            assert not seq or int(seq) <= self.reach, "sent without credit"
            self.carry(lambda sent=sent: self.consumer.receive(parse_lp(sent), self.now))  # type: ignore[misc]

    def run(self, items: int, take_every: int, heals_at: int) -> None:
        self.consumer.start(0)
        self.settle()
        for _ in range(50_000):
            if self.taken and self.taken[-1] == items:
                return
            due = [
                deadline
                for core in (self.consumer, self.producer)
                if (deadline := core.next_deadline()) is not None
            ]
            next_take = (self.now // take_every + 1) * take_every
            now = min([next_take, *due, *(entry[0] for entry in self._queue[:1])])
            self.now = max(self.now, now)
            if self.now >= heals_at:
                self.loss = 0.0
            if self._queue and self._queue[0][0] <= self.now:
                heappop(self._queue)[2]()
            elif self.now == next_take:
                self.take()
            for core in (self.consumer, self.producer):
                deadline = core.next_deadline()
                if deadline is not None and deadline <= self.now:
                    core.wake(self.now)
            self.settle()
        raise AssertionError("not everything has come")


@settings(max_examples=120)
@given(
    seed=st.integers(0, 1 << 30),
    recovery=st.sampled_from([Recovery.IN_NETWORK, Recovery.GO_BACK_N, Recovery.SELECTIVE]),
    loss=st.sampled_from([0.0, 0.05, 0.4]),
    jitter=st.sampled_from([0, 30 * MS]),
    credit=st.sampled_from([1, 8, 13, "auto"]),
    items=st.integers(1, 40),
    take_every=st.sampled_from([5 * MS, 400 * MS]),
)
def test_every_item_is_delivered_once_in_order_and_never_more_is_asked_for_than_fits(
    seed: int, recovery: Recovery, loss: float, jitter: int, credit: int | str, items: int, take_every: int
) -> None:
    path = Path(seed, loss, jitter, credit if isinstance(credit, int) else AdaptiveCredit(), recovery)
    for seq in range(items):
        path.at(seq * 20 * MS, path.publish)
    path.run(items, take_every, heals_at=4_000 * MS)
    assert path.taken == list(range(1, items + 1))
    if isinstance(credit, int):
        assert path.reach <= items + credit + credit // 2
    assert path.now <= 60_000 * MS
    assert set(path.consumer.rejected) <= {"duplicate", "unasked"}
