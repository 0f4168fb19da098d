"""The publishing end: what is answered at once, what waits, and what is not there any more."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from base.units import MS
from forwarder.lli.producer import Producer
from forwarder.wire.evidence import LAST_NUMBER, MOST_LEAP, Evidence, proven_text
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import Data, Interest, make_data, make_interest, parse_data, parse_interest
from ssb.keys import Identity, verify

FEED = feed_name(b"", bytes(32))
DATA: dict[int, Data] = {n: parse_data(make_data(item_name(FEED, n), b"")) for n in range(1, 61)}
NUMBERS = {data.wire: seq for seq, data in DATA.items()}


class Log:
    """A producer with items up to `tip`, of which it holds those from `oldest` on."""

    def __init__(
        self,
        tip: int = 0,
        oldest: int = 1,
        max_pending: int = 1024,
        relayed: Callable[[], Evidence | None] | None = None,
        sign: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.tip = tip
        self.oldest = oldest
        self.now = 0
        self.nonce = 0
        self.core = Producer(
            FEED,
            lambda seq: DATA[seq] if self.oldest <= seq <= self.tip else None,
            lambda: self.tip,
            oldest=lambda: self.oldest,
            relayed=relayed,
            sign=sign,
            max_pending=max_pending,
        )

    def interest(
        self,
        name: bytes,
        credit: int | None,
        lifetime_ms: int,
        nonce: int | None,
        known: Evidence | None = None,
    ) -> Interest:
        self.nonce += 1
        return parse_interest(
            make_interest(
                name,
                nonce=self.nonce if nonce is None else nonce,
                lifetime_ms=lifetime_ms,
                send_credit=credit,
                known=known,
            )
        )

    def offers(self, known: Evidence | None, first: int = 1, credit: int = 8) -> list[Evidence | None]:
        """What packets say of a source, that answer an LLI from who has this evidence."""
        self.core.receive(self.interest(item_name(FEED, first), credit, 10_000, None, known), self.now)
        return [parse_lp(packet).evidence for packet in self.core.take_outputs()]

    def lli(self, first: int, credit: int, lifetime_ms: int = 10_000, nonce: int | None = None) -> list[str]:
        name = item_name(FEED, first)
        self.core.receive(self.interest(name, credit, lifetime_ms, nonce), self.now)
        return self.out()

    def classic(self, seq: int, lifetime_ms: int = 4000) -> list[str]:
        self.core.receive(self.interest(item_name(FEED, seq), None, lifetime_ms, None), self.now)
        return self.out()

    def append(self) -> list[str]:
        self.tip += 1
        self.core.appended(self.tip, self.now)
        return self.out()

    def out(self) -> list[str]:
        return [told(packet) for packet in self.core.take_outputs()]


def told(packet: bytes) -> str:
    header = parse_lp(packet)
    state = "" if header.tip is None else f" tip {header.tip} limit {header.limit}"
    first = "" if header.first is None else f" first {header.first}"
    if header.fragment:
        return f"item {NUMBERS[header.fragment]}{state}{first}"
    assert header.feed == FEED
    return f"idle{state}{first}"


def test_an_lli_is_answered_by_the_items() -> None:
    log = Log(tip=3)
    assert log.lli(1, 8) == ["item 1 tip 3 limit 8", "item 2 tip 3 limit 8", "item 3"]
    assert log.append() == ["item 4"]


def test_an_lli_for_what_is_to_come_is_answered_at_once_all_the_same() -> None:
    log = Log()
    assert log.lli(1, 8) == ["idle tip 0 limit 8"]
    assert log.append() == ["item 1 tip 1 limit 8"]
    assert log.append() == ["item 2"]
    assert log.lli(9, 8) == ["idle tip 2 limit 16"]


def test_never_more_than_the_credit() -> None:
    log = Log(tip=5)
    assert log.lli(2, 3) == ["item 2 tip 5 limit 4", "item 3 tip 5 limit 4", "item 4 tip 5 limit 4"]
    assert log.append() == []
    assert log.core.waiting == 0


def test_a_duplicate_of_the_link_is_answered_and_changes_nothing() -> None:
    log = Log(tip=2)
    log.lli(1, 8, nonce=5)
    assert log.lli(1, 8, nonce=5) == ["idle tip 2 limit 8"]


def test_a_repetition_is_served_again() -> None:
    log = Log(tip=3)
    log.lli(1, 8)
    assert log.lli(1, 8) == ["item 1 tip 3 limit 8", "item 2 tip 3 limit 8", "item 3"]
    assert log.lli(2, 1) == ["item 2"]
    assert log.append() == ["item 4"]


def test_credit_zero_ends_it_and_needs_no_answer() -> None:
    log = Log()
    log.lli(1, 8)
    assert log.core.waiting == 1
    assert log.lli(1, 0) == []
    assert log.core.waiting == 0
    assert log.append() == []


def test_credit_expires() -> None:
    log = Log()
    log.lli(1, 8, lifetime_ms=300)
    assert log.core.next_deadline() == 300 * MS
    log.core.wake(300 * MS - 1)
    assert log.core.waiting == 1
    log.core.wake(300 * MS)
    assert log.core.waiting == 0
    assert log.core.next_deadline() is None
    log.lli(1, 8, lifetime_ms=300)
    log.now = 400 * MS  # and nobody has called wake()
    assert log.append() == []


def test_items_that_are_not_held_any_more_are_skipped_and_said_to_be_gone() -> None:
    log = Log(tip=9, oldest=7)
    gone = "idle tip 9 limit 20 first 7"
    assert log.lli(1, 20) == [gone, "item 7 tip 9 limit 20", "item 8 tip 9 limit 20", "item 9"]
    log = Log(tip=6, oldest=7)
    assert log.lli(1, 20) == ["idle tip 6 limit 20 first 7"]
    assert log.append() == ["item 7 tip 7 limit 20"]


def test_credit_for_the_past_alone_is_answered_and_forgotten() -> None:
    log = Log(tip=9, oldest=7)
    assert log.lli(1, 4) == ["idle tip 9 limit 4 first 7"]
    assert log.core.waiting == 0


def test_a_classic_interest_is_answered_or_waits_as_long_as_it_lives() -> None:
    log = Log(tip=2)
    assert log.classic(2) == ["item 2"]
    assert log.classic(3) == []
    assert log.classic(4, lifetime_ms=100) == []
    assert log.core.next_deadline() == 100 * MS
    log.now = 100 * MS
    assert log.append() == ["item 3"]
    assert log.append() == []
    log.core.wake(log.now)
    assert log.core.waiting == 0


def test_the_longest_of_several_interests_counts() -> None:
    log = Log()
    log.classic(1, lifetime_ms=4000)
    log.classic(1, lifetime_ms=100)
    log.now = 200 * MS
    assert log.append() == ["item 1"]


def test_a_classic_interest_for_what_is_gone_gets_no_answer() -> None:
    log = Log(tip=9, oldest=7)
    assert log.classic(6) == []
    assert log.core.waiting == 0


def test_an_item_goes_out_once_though_an_lli_and_an_interest_wait_for_it() -> None:
    log = Log()
    log.lli(1, 8)
    log.classic(1)
    assert log.append() == ["item 1 tip 1 limit 8"]


def test_what_waits_is_bounded() -> None:
    log = Log(max_pending=2)
    for seq in (1, 2, 3):
        log.classic(seq, lifetime_ms=100)
    assert log.core.waiting == 2
    log.now = 100 * MS
    log.classic(3)
    assert log.core.waiting == 1


def test_what_is_not_under_the_feeds_name_is_ignored() -> None:
    log = Log(tip=2)
    other = feed_name(b"", b"k" * 32)
    for name in (item_name(other, 1), FEED, item_name(FEED, 1) + b"\x08\x01x"):
        log.core.receive(log.interest(name, 8, 1000, None), 0)
        log.core.receive(log.interest(name, None, 1000, None), 0)
    assert log.out() == []
    assert log.core.waiting == 0


# Evidence.


def test_a_source_offers_a_number_and_advances_it_when_it_is_not_new_enough() -> None:
    log = Log()
    assert log.offers(None) == [Evidence(1, 0)]
    assert log.offers(Evidence(1, 1)) == [Evidence(1, 0)], "it beats that"
    assert log.offers(Evidence(0, 0)) == [Evidence(1, 0)]
    assert log.offers(Evidence(1, 0)) == [Evidence(2, 0)], "only a source can answer that"
    assert log.offers(Evidence(7, 3)) == [Evidence(8, 0)]
    assert log.offers(Evidence(7, 0)) == [Evidence(8, 0)]
    assert log.core.evidence == Evidence(8, 0)


def test_the_first_packet_that_answers_an_lli_offers_it() -> None:
    log = Log(tip=3)
    assert log.offers(None) == [Evidence(1, 0), None, None]
    log.append()
    assert log.offers(Evidence(1, 0), first=4) == [Evidence(2, 0)]


def test_a_source_that_starts_anew_is_as_good_as_before_at_the_first_demand() -> None:
    log = Log()
    assert log.offers(Evidence(1 << 30, 2)) == [Evidence((1 << 30) + 1, 0)]


def test_a_source_follows_a_liar_in_steps() -> None:
    log = Log()
    assert log.offers(Evidence(MOST_LEAP, 0)) == [Evidence(1 + MOST_LEAP, 0)]
    assert log.offers(Evidence(LAST_NUMBER, 0)) == [Evidence(1 + 2 * MOST_LEAP, 0)]


def test_a_source_that_starts_anew_gets_past_the_lies_of_before() -> None:
    log, known = Log(), Evidence(3 * MOST_LEAP, 0)
    offers = [log.offers(known) for _ in range(4)]
    assert [evidence.beats(known) for (evidence,) in offers if evidence] == [False, False, True, True]


def test_a_key_signs_each_number_once() -> None:
    writer = Identity.from_seed(bytes(32))
    signed: list[bytes] = []

    def sign(text: bytes) -> bytes:
        signed.append(text)
        return writer.sign(text)

    log = Log(sign=sign)
    (first,) = log.offers(None)
    log.offers(Evidence(1, 5, True))
    log.offers(Evidence(9, 5))  # it beats what anybody can make up
    (second,) = log.offers(Evidence(1, 0, True))
    assert signed == [proven_text(FEED, 1), proven_text(FEED, 2)]
    assert first is not None
    assert second is not None
    assert verify(writer.public_key, first.proof, proven_text(FEED, 1))
    assert verify(writer.public_key, second.proof, proven_text(FEED, 2))


def test_without_a_key_it_advances_no_signed_number() -> None:
    log = Log()
    assert log.offers(Evidence(7, 3, True)) == [Evidence(1, 0)]


def test_who_knows_a_number_is_not_sent_its_proof() -> None:
    log = Log(sign=lambda text: b"s" * 64)
    assert log.offers(None) == [Evidence(1, 0, True, b"s" * 64)]
    assert log.offers(Evidence(1, 3, True)) == [Evidence(1, 0, True)]
    assert log.offers(Evidence(0, 3)) == [Evidence(1, 0, True, b"s" * 64)]


def test_an_archive_passes_on_what_it_knows_and_advances_nothing() -> None:
    known: list[Evidence | None] = [None]
    log = Log(relayed=lambda: known[0])
    assert log.offers(None) == [None]
    known[0] = Evidence(4, 3)
    assert log.offers(None) == [Evidence(4, 3)]
    assert log.offers(Evidence(9, 0)) == [Evidence(4, 3)]
    assert log.core.evidence == Evidence(4, 3)
    known[0] = None
    assert log.offers(None) == [None]


STEPS = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 10), st.booleans(), st.integers(0, 400)), max_size=30
)


@given(STEPS)
def test_every_lli_with_credit_is_answered_and_no_item_goes_out_of_it(
    steps: list[tuple[int, int, bool, int]],
) -> None:
    log = Log()
    granted: set[int] = set()
    expiry = 0
    for first, credit, publishes, wait in steps:
        log.now += wait * MS
        if log.now >= expiry:
            granted = set()
        if publishes and log.tip < 50:
            out = log.append()
        else:
            if credit:
                granted.update(range(first, first + credit))
                # What lies between two LLIs was granted by one that is under way, or lost.
                granted = set(range(min(granted), max(granted) + 1))
                expiry = log.now + 1000 * MS
            else:
                granted = set()
            out = log.lli(first, credit, lifetime_ms=1000)
            assert bool(out) == bool(credit)
        sent = {int(line.split()[1]) for line in out if line.startswith("item")}
        assert sent <= granted
