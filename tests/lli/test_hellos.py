"""Two neighbours and the link between them: a asks, b grants.

What a FeedTable does with their news is not here, except that a gets what was lost."""

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count, pairwise

import pytest

from base.units import MS, SECOND
from forwarder.feedcache.cache import FeedCache
from forwarder.lli.entry import FeedEntry
from forwarder.lli.estimates import INITIAL_TIMEOUT
from forwarder.lli.neighbours import _GIVEN_UP, _SLACK, HELLO, Neighbour, Neighbours, News
from forwarder.lli.upstream import MAX_TRIES, Upstream
from forwarder.tables.face import Face
from forwarder.wire.evidence import Evidence
from forwarder.wire.feed import feed_name, item_name
from forwarder.wire.hello import (
    MOST_PROOFS,
    MOST_STANDINGS,
    Hello,
    Standing,
    digest,
    make_hello,
    parse_hello,
    reference,
)
from forwarder.wire.lp import parse_lp
from forwarder.wire.packet import make_interest, parse_interest

DELAY = 5 * MS
LINK, LOCAL = 1, 9
SOURCE = Evidence(1, 0)
LIFETIME_MS = 60_000


def feed(n: int) -> bytes:
    return feed_name(b"", n.to_bytes(32, "big"))


class End:
    """One end of the link."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.faces = {LINK: Face(LINK), LOCAL: Face(LOCAL, local=True)}
        self.outputs: list[bytes] = []
        self.sent: list[tuple[int, Hello]] = []
        self.news: list[News] = []
        self.deaths: list[int] = []
        self.entries: dict[int, FeedEntry] = {}
        self.core = self._new()

    def _new(self) -> Neighbours:
        return Neighbours(
            lambda face, packet: self.outputs.append(packet), self.faces, lambda: 7, self.counters
        )

    def restart(self) -> None:
        """Forget everything."""
        self.core, self.entries = self._new(), {}

    @property
    def other(self) -> Neighbour:
        """What is known of the other end."""
        return self.core.of(LINK)

    def entry(self, n: int) -> FeedEntry:
        if n not in self.entries:
            self.entries[n] = FeedEntry(feed(n), FeedCache(feed(n), 8, 1 << 20), 1, 0)
        return self.entries[n]

    def ask(self, n: int, credit: int, now: int, face: int = LINK) -> None:
        """Ask the other end for a feed, which has offered a source."""
        entry = self.entry(n)
        entry.upstream = Upstream(1, self.core.of(face).rtt, LIFETIME_MS)
        entry.face = face
        entry.upstream.want(credit, now + 3600 * SECOND, now)
        entry.upstream.is_fed, entry.upstream.offered = True, SOURCE
        self.core.index(entry)
        self.core.asked(face, LIFETIME_MS, now)

    def leave(self, n: int) -> None:
        """Ask for a feed no more."""
        self.entry(n).face = None
        self.core.index(self.entry(n))

    def grant(self, n: int, credit: int, now: int, told: Evidence | None = SOURCE, face: int = LINK) -> None:
        """Grant the other end a feed."""
        entry = self.entry(n)
        lli = make_interest(item_name(feed(n), 1), nonce=n, lifetime_ms=LIFETIME_MS, send_credit=credit)
        entry.ranges.grant(face, 1, parse_interest(lli), now, lambda seq: None)
        granted = entry.ranges.get(face)
        assert granted is not None
        granted.told = told
        granted.is_answered = True
        self.core.index(entry)

    def hears(self, hello: Hello, now: int) -> None:
        """Take in a Hello, and what it shows to be lost."""
        news = self.core.on_hello(LINK, hello, now)
        self.news.append(news)
        for entry, standing in news.states:
            if standing.next is not None:
                entry.upstream.skip(standing.next)
        for entry in news.dropped:
            entry.ranges.drop(LINK)
            self.core.index(entry)


class Link:
    """Virtual time, and both ends."""

    def __init__(self, feeds: int = 1, credit: int = 8, delay: int = DELAY) -> None:
        self.a, self.b = End(), End()
        self.delay = delay
        self.now = 0
        self.drops: Callable[[End, Hello], bool] = lambda sender, hello: False
        self._queue: list[tuple[int, int, End, bytes]] = []
        self._order = count()
        for n in range(feeds):
            self.a.ask(n, credit, 0)
            self.b.grant(n, credit, 0)
        self.a.core.speaks(LINK)
        self.b.core.speaks(LINK)

    def cut(self, *senders: End) -> None:
        """Lose all that these send."""
        self.drops = lambda sender, hello: sender in senders

    def heal(self) -> None:
        self.drops = lambda sender, hello: False

    def settle(self) -> None:
        for sender, receiver in ((self.a, self.b), (self.b, self.a)):
            for packet in sender.outputs:
                value = parse_lp(packet).hello
                assert value is not None
                hello = parse_hello(value)
                sender.sent.append((self.now, hello))
                if not self.drops(sender, hello):
                    heappush(self._queue, (self.now + self.delay, next(self._order), receiver, value))
            sender.outputs.clear()

    def wait(self, ns: int) -> None:
        end = self.now + ns
        self.settle()
        while True:
            dues = [due for x in (self.a, self.b) if (due := x.core.next_deadline()) is not None]
            dues += [self._queue[0][0]] if self._queue else []
            if not dues or min(dues) > end:
                break
            self.now = max(self.now, min(dues))
            while self._queue and self._queue[0][0] <= self.now:
                _, _, receiver, value = heappop(self._queue)
                receiver.core.heard(LINK, self.now)
                receiver.hears(parse_hello(value), self.now)
            for x in (self.a, self.b):
                x.deaths += [self.now for _ in x.core.wake(self.now)]
            self.settle()
        self.now = end


def hellos(end: End) -> list[Hello]:
    return [hello for _, hello in end.sent]


# Silence.


def test_who_has_granted_something_and_has_nothing_to_send_says_so_every_three_seconds() -> None:
    link = Link()
    link.wait(10 * SECOND)
    assert [at for at, _ in link.b.sent] == [HELLO, 2 * HELLO, 3 * HELLO]
    assert all(hello == Hello(granted=link.b.sent[0][1].granted) for hello in hellos(link.b))
    assert link.a.sent == []


def test_who_has_used_up_its_last_range_is_told_so_once() -> None:
    # The item that used it up is lost: nothing else would tell, until the holder wonders at the silence.
    link = Link()
    link.wait(4 * SECOND)
    link.b.entry(0).ranges.drop(LINK)
    link.b.core.index(link.b.entry(0))
    link.wait(20 * SECOND)
    assert [hello.granted == digest([]) for hello in hellos(link.b) if hello.granted] == [False, True]
    missed = [(at, have.next) for at, hello in link.a.sent for have in hello.haves]
    assert missed[0] == (2 * HELLO + DELAY, 1)


def test_a_hello_is_late_by_the_clock_and_not_by_the_round_trip() -> None:
    link = Link()
    for late in (3 * SECOND, 30 * MS) * 8:
        link.a.other.rtt.sample(late)
    link.cut(link.b)
    link.wait(HELLO + _SLACK)
    assert [at for at, _ in link.a.sent] == [HELLO + _SLACK]


@pytest.mark.parametrize("feeds", [1, 40, 1000])
def test_quiet_feeds_cost_a_packet_a_second_at_most_whatever_their_number(feeds: int) -> None:
    link = Link(feeds)
    link.wait(180 * SECOND)
    for end in (link.a, link.b):
        times = [at for at, _ in end.sent]
        assert len(times) <= 70, "one in three seconds, and a renewal each half lifetime"
        assert all(sum(start <= at < start + SECOND for at in times) <= 2 for start in times)
    assert link.a.deaths == link.b.deaths == []
    renewed = sum(len(news.renewed) for news in link.b.news)
    assert renewed == 5 * feeds
    assert all(entry.upstream.expiry > link.now for entry in link.a.entries.values())


def test_a_neighbour_that_falls_silent_is_asked_again_and_again_and_dies() -> None:
    link = Link()
    link.wait(4 * SECOND)
    link.cut(link.b)
    link.wait(10 * SECOND)
    first = HELLO + DELAY + HELLO + _SLACK  # the last sign of life, and the longest time to the next
    pauses = [INITIAL_TIMEOUT << tries for tries in range(MAX_TRIES)]
    asked = [at for at, _ in link.a.sent]
    assert asked[0] == first
    assert [b - a for a, b in pairwise(asked[: MAX_TRIES + 1])] == pauses
    assert link.a.deaths == [first + sum(pauses)]
    assert link.a.counters["deaths"] == 1
    assert link.a.core.is_dead(LINK)
    assert [hello.number for hello in hellos(link.a)] == list(range(1, len(asked) + 1))
    assert [hello.is_forgotten for hello in hellos(link.a)][: MAX_TRIES + 1] == [False] * MAX_TRIES + [True]


def test_a_neighbour_that_is_asked_for_nothing_may_be_silent() -> None:
    link = Link(0)
    link.cut(link.b)
    link.wait(60 * SECOND)
    assert link.a.sent == link.b.sent == []
    assert link.a.core.next_deadline() is None


def test_a_few_losses_kill_nobody() -> None:
    link = Link()
    lost = [0]

    def drops(sender: End, hello: Hello) -> bool:
        lost[0] += 1
        return lost[0] % 3 == 0

    link.drops = drops
    link.wait(120 * SECOND)
    assert link.a.deaths == []


def test_the_dead_are_asked_on_slowly_and_left_alone_in_the_end() -> None:
    link = Link()
    link.cut(link.b)
    link.wait(12 * SECOND)
    assert link.a.core.is_dead(LINK)
    link.a.leave(0)  # as a table does
    link.wait(30 * SECOND)
    late = [at for at, _ in link.a.sent][-5:]
    assert [b - a for a, b in pairwise(late)] == [HELLO] * 4
    link.wait(_GIVEN_UP * HELLO)
    assert len(link.a.sent) == _GIVEN_UP
    assert not link.a.core.is_dead(LINK), "nothing is known of it any more"
    assert link.a.core.next_deadline() is None


def test_the_dead_are_left_alone_when_nobody_follows_anything() -> None:
    link = Link()
    link.cut(link.b)
    link.wait(12 * SECOND)
    link.a.leave(0)
    link.a.core.rest()
    asked = len(link.a.sent)
    link.wait(60 * SECOND)
    assert len(link.a.sent) == asked
    assert link.a.core.next_deadline() is None


def test_a_range_that_ends_takes_its_news_along() -> None:
    link = Link(2)
    for n in range(2):
        link.b.core.notify(LINK, link.b.entry(n))
    link.b.entry(0).ranges.drop(LINK)
    link.b.core.index(link.b.entry(0))
    link.wait(SECOND)
    assert [state.reference for hello in hellos(link.b) for state in hello.states] == [reference(feed(1))]


def test_what_is_asked_for_anew_is_renewed_half_a_lifetime_later() -> None:
    link = Link()
    link.wait(20 * SECOND)
    link.a.leave(0)
    link.wait(20 * SECOND)
    link.a.ask(0, 8, link.now)
    link.a.core.agrees(LINK, link.now)  # by its answer
    link.b.entries.clear()
    link.b.grant(0, 8, link.now)
    link.wait(31 * SECOND)
    assert [at for at, hello in link.a.sent if hello.held is not None] == [70 * SECOND]


def test_any_packet_revives() -> None:
    link = Link()
    link.cut(link.b)
    link.wait(12 * SECOND)
    link.a.leave(0)
    assert link.a.core.heard(LINK, link.now)
    assert not link.a.core.heard(LINK, link.now)
    assert not link.a.core.is_dead(LINK)
    assert not link.a.core.heard(2, link.now), "of whom nothing is known"


def test_a_reply_revives() -> None:
    link = Link()
    link.cut(link.b)
    link.wait(12 * SECOND)
    link.a.leave(0)
    link.heal()
    link.wait(HELLO + SECOND)
    assert not link.a.core.is_dead(LINK)
    asked = len(link.a.sent)
    link.wait(60 * SECOND)
    assert len(link.a.sent) == asked, "and it need not be asked again"


def test_only_the_reply_to_the_newest_hello_counts() -> None:
    link = Link()
    link.cut(link.b)
    link.wait(8 * SECOND)
    number = link.a.other.number
    assert number > 1
    link.a.core.on_hello(LINK, Hello(reply=number - 1), link.now)
    assert number in link.a.other.pending
    link.a.core.on_hello(LINK, Hello(reply=number), link.now)
    assert not link.a.other.pending


def test_each_reply_measures_the_round_trip_since_its_hello() -> None:
    link = Link()
    link.a.core.check(LINK, link.a.entry(0))
    link.cut(link.b)
    link.wait(INITIAL_TIMEOUT)
    link.heal()
    link.wait(SECOND)
    assert link.a.other.rtt.smoothed == 2 * DELAY


def test_a_round_trip_that_was_too_short_is_mended_by_the_first_reply() -> None:
    link = Link(delay=100 * MS)
    link.a.other.rtt.sample(0, is_rough=True)
    assert link.a.other.rtt.timeout() < link.delay
    link.a.core.check(LINK, link.a.entry(0))
    link.wait(SECOND)
    assert link.a.other.rtt.smoothed is not None
    assert link.a.other.rtt.smoothed > link.delay
    assert not link.a.other.pending
    assert not link.a.counters["deaths"]


# Who is spoken to.


def test_who_has_never_shown_that_he_knows_hellos_gets_none() -> None:
    end = End()
    end.ask(0, 8, 0)
    end.grant(1, 8, 0)
    end.core.check(LINK, end.entry(0))
    assert not end.core.notify(LINK, end.entry(1))
    assert end.core.next_deadline() is None
    assert end.core.wake(100 * SECOND) == []
    assert end.outputs == []


def test_applications_get_none() -> None:
    end = End()
    end.core.speaks(LOCAL)
    end.ask(0, 8, 0, LOCAL)
    end.core.check(LOCAL, end.entry(0))
    assert end.core.wake(100 * SECOND) == []
    assert end.outputs == []


def test_a_downstream_that_listens_hears_that_this_node_lives() -> None:
    """It may be beyond a legacy forwarder, and has said nothing but LLIs."""
    end = End()
    end.grant(0, 8, 0)
    assert end.core.next_deadline() is None
    end.core.listens(LINK)
    end.core.wake(HELLO)
    assert [parse_hello(parse_lp(packet).hello or b"").granted is None for packet in end.outputs] == [False]


def test_a_holder_of_one_that_shows_to_know_them_is_watched() -> None:
    end = End()
    end.ask(0, 8, 0)
    assert not end.entry(0).upstream.is_watched
    end.core.speaks(LINK)
    assert end.entry(0).upstream.is_watched


# Agreement.


def lost_last_item(link: Link, *feeds: int) -> None:
    """b has sent item 1 of some feeds, and it was lost."""
    for n in feeds:
        granted = link.b.entry(n).ranges.get(LINK)
        assert granted is not None
        granted.next = 2


def states(end: End) -> dict[bytes, Standing]:
    return {standing.reference: standing for news in end.news for _, standing in news.states}


def test_a_lost_item_shows_in_the_digest_and_is_told() -> None:
    link = Link(3)
    lost_last_item(link, 1)
    link.wait(HELLO + 4 * DELAY)
    asked = hellos(link.a)[0]
    assert asked.haves == tuple(Standing(reference(feed(n)), 1, 8, SOURCE) for n in range(3))
    assert states(link.a)[reference(feed(1))] == Standing(reference(feed(1)), 2, 8, SOURCE)


@pytest.mark.parametrize("feeds", [MOST_STANDINGS, MOST_STANDINGS + 1, 100])
def test_many_are_compared_page_by_page(feeds: int) -> None:
    link = Link(feeds)
    lost_last_item(link, *range(feeds))
    link.wait(HELLO + SECOND)
    pages = [len(hello.haves) for hello in hellos(link.a)]
    assert max(pages) <= MOST_STANDINGS
    assert pages[0] == MOST_STANDINGS
    assert len(states(link.a)) == feeds
    said = len(link.a.sent)
    assert said <= 2 * -(-feeds // MOST_STANDINGS) + 4
    link.wait(4 * HELLO)
    assert len(link.a.sent) == said, "now they agree"


def test_a_page_that_is_lost_comes_again() -> None:
    link = Link(100)
    lost_last_item(link, *range(100))
    dropped: list[int] = []

    def drops(sender: End, hello: Hello) -> bool:
        if sender is link.a and hello.number is not None and len(dropped) < 2:
            dropped.append(hello.number)
            return True
        return False

    link.drops = drops
    link.wait(HELLO + 4 * SECOND)
    assert len(dropped) == 2
    assert len(states(link.a)) == 100


def test_one_feed_can_be_checked() -> None:
    link = Link(3)
    link.a.core.check(LINK, link.a.entry(2))
    lost_last_item(link, 1, 2)
    link.wait(SECOND)
    assert list(states(link.a)) == [reference(feed(2))]
    assert link.a.news[-1].states[0][0] is link.a.entry(2)


def test_what_the_neighbour_never_got_is_none_of_its_standings() -> None:
    link = Link(1)
    link.a.ask(7, 8, 0)  # the LLI is lost
    link.wait(HELLO + SECOND)
    assert states(link.a)[reference(feed(7))] == Standing(reference(feed(7)))


def test_what_is_asked_for_no_more_is_dropped_there() -> None:
    link = Link(2)
    link.a.leave(1)  # the cancel is lost
    link.a.core.check(LINK, link.a.entry(1))
    link.wait(SECOND)
    assert [entry.feed for news in link.b.news for entry in news.dropped] == [feed(1)]


def test_a_state_of_what_is_not_asked_for_drops_it() -> None:
    link = Link(2)
    link.a.core.check(LINK, link.a.entry(0))
    link.wait(SECOND)
    link.a.leave(1)
    assert link.b.core.notify(LINK, link.b.entry(1))
    link.wait(SECOND)
    assert [entry.feed for news in link.b.news for entry in news.dropped] == [feed(1)]


# Renewal.


def test_all_are_renewed_by_one_digest_at_half_of_their_lifetime() -> None:
    link = Link(50)
    link.wait(LIFETIME_MS // 2 * MS - 1)
    assert link.a.sent == []
    link.wait(1)
    (asked,) = hellos(link.a)
    assert (asked.haves, asked.states) == ((), ())
    assert asked.held is not None
    link.wait(SECOND)
    assert [len(news.renewed) for news in link.b.news] == [50]
    assert hellos(link.b)[-1].held == asked.held
    agreed_at = LIFETIME_MS // 2 * MS + 2 * DELAY
    assert {entry.upstream.expiry for entry in link.a.entries.values()} == {agreed_at + LIFETIME_MS * MS}
    link.wait(LIFETIME_MS // 2 * MS)
    assert len([hello for hello in hellos(link.a) if hello.held]) == 2


def test_items_under_way_do_not_keep_grants_from_being_renewed() -> None:
    link = Link(2)
    link.wait(29 * SECOND)
    lost_last_item(link, 1)
    link.a.core.heard(LINK, link.now)
    link.wait(1500 * MS)
    assert sum(len(news.renewed) for news in link.b.news) == 2
    assert all(entry.upstream.expiry > 80 * SECOND for entry in link.a.entries.values())


def test_what_is_not_agreed_on_is_not_renewed() -> None:
    """A grant that ended at the other end, or of which the source has gone."""
    link = Link(2)
    granted = link.b.entry(1).ranges.get(LINK)
    assert granted is not None
    granted.told = None
    link.wait(29 * SECOND)
    link.a.core.heard(LINK, link.now)
    link.drops = lambda sender, hello: hello.number is not None and hello.number > 1
    link.wait(1500 * MS)
    assert not any(news.renewed for news in link.b.news)
    assert all(entry.upstream.expiry == LIFETIME_MS * MS for entry in link.a.entries.values())
    link.heal()
    link.wait(10 * SECOND)
    assert states(link.a)[reference(feed(1))].evidence is None


def test_what_is_agreed_on_then_is_renewed_in_time() -> None:
    link = Link(2)
    link.wait(29 * SECOND)
    lost_last_item(link, 1)
    link.wait(LIFETIME_MS * MS - link.now - 4 * DELAY)
    assert all(entry.upstream.expiry > 80 * SECOND for entry in link.a.entries.values())
    assert sum(len(news.renewed) for news in link.b.news) >= 2


def test_where_one_feed_is_always_spent_each_renews_for_itself() -> None:
    link = Link(2)
    link.b.entry(1).ranges.drop(LINK)  # and granted anew, and spent again
    link.b.core.index(link.b.entry(1))
    link.wait(LIFETIME_MS * MS * 6 // 8 - SECOND)
    assert not any(news.left_alone for news in link.a.news)
    link.wait(7 * SECOND)
    assert {entry.feed for news in link.a.news for entry in news.left_alone} == {feed(0), feed(1)}
    upstream = link.a.entry(0).upstream
    upstream.is_watched = True
    upstream.answered(0, 8, DELAY)
    upstream.wake(link.now)
    assert upstream.deadline > link.now, "a Hello is to renew it"
    upstream.renew_alone()
    assert [lli.first for lli in upstream.wake(link.now)] == [1]


def test_who_does_not_agree_tells_all() -> None:
    link = Link(50)
    link.a.ask(50, 8, 0)  # the LLI is lost
    link.b.core.on_hello(LINK, Hello(1, held=bytes(8)), 0)
    link.wait(SECOND)
    assert max(len(hello.states) for hello in hellos(link.b)) == MOST_STANDINGS
    assert len(states(link.a)) >= 50


def test_a_lifetime_that_is_shorter_sets_the_pace() -> None:
    link = Link(3)
    link.a.core.asked(LINK, 10_000, 0)
    link.wait(5 * SECOND)
    assert len([hello for hello in hellos(link.a) if hello.held]) == 1


# Notices.


def introduced(feeds: int) -> Link:
    """Both have heard a Hello of the other."""
    link = Link(feeds)
    link.a.core.check(LINK, link.a.entry(0))
    link.wait(SECOND)
    return link


def test_a_notice_is_repeated_until_it_is_replied_to() -> None:
    link = introduced(2)
    link.cut(link.a)
    granted = link.b.entry(1).ranges.get(LINK)
    assert granted is not None
    granted.told = None
    assert link.b.core.notify(LINK, link.b.entry(1))
    before = len(link.b.sent)
    link.wait(600 * MS)
    repeated = hellos(link.b)[before:]
    assert len(repeated) >= 2
    assert {hello.states for hello in repeated} == {(Standing(reference(feed(1)), 1, 8, None),)}
    link.heal()
    link.wait(SECOND)
    said = len(link.b.sent)
    link.wait(SECOND)
    assert len(link.b.sent) == said
    assert states(link.a)[reference(feed(1))].evidence is None


def test_a_notice_says_how_it_stands_when_it_is_sent() -> None:
    link = introduced(1)
    link.cut(link.a, link.b)
    granted = link.b.entry(0).ranges.get(LINK)
    assert granted is not None
    granted.told = None
    link.b.core.notify(LINK, link.b.entry(0))
    link.wait(10 * MS)
    granted.told = Evidence(5, 0, True, b"s" * 64)
    link.heal()
    link.wait(SECOND)
    assert states(link.a)[reference(feed(0))].evidence == Evidence(5, 0, True, b"s" * 64), "with its proof"


@pytest.mark.parametrize(
    ("offered", "is_needed"),
    [(None, True), (Evidence(4, 1, True), True), (Evidence(5, 1), True), (Evidence(5, 1, True), False)],
)
def test_a_state_that_differs_has_the_proof_that_a_have_lacks(
    offered: Evidence | None, is_needed: bool
) -> None:
    link = introduced(1)
    granted, entry = link.b.entry(0).ranges.get(LINK), link.a.entry(0)
    assert granted is not None
    granted.told = Evidence(5, 0, True, b"s" * 64)
    entry.upstream.offered = offered
    link.a.core.check(LINK, entry)
    link.wait(SECOND)
    evidence = states(link.a)[reference(feed(0))].evidence
    assert evidence == Evidence(5, 0, True, b"s" * 64 if is_needed else b"")


def test_a_hello_with_many_proofs_fits_into_a_frame() -> None:
    link = introduced(MOST_STANDINGS)
    for n in range(MOST_STANDINGS):
        granted = link.b.entry(n).ranges.get(LINK)
        assert granted is not None
        granted.told = Evidence(1000, 9, True, b"s" * 64)
        link.b.core.notify(LINK, link.b.entry(n))
    link.wait(SECOND)
    assert max(len(make_hello(hello)) for hello in hellos(link.b)) < 1_400
    proofs = [bool(state.evidence and state.evidence.proof) for state in states(link.a).values()]
    assert Counter(proofs) == {True: MOST_PROOFS, False: MOST_STANDINGS - MOST_PROOFS}


def test_checks_and_notices_share_a_page() -> None:
    """A Hello with more standings is malformed: its sender would repeat it, and be asked, without end."""
    link = introduced(60)
    link.cut(link.b, link.a)
    for n in range(30):
        link.b.core.notify(LINK, link.b.entry(n))
    link.wait(10 * MS)
    for n in range(30, 60):
        link.b.core.check(LINK, link.b.entry(n))
    link.wait(100 * MS)
    link.heal()
    link.wait(SECOND)
    pages = [len(hello.haves) + len(hello.states) for hello in hellos(link.b)]
    assert max(pages) == MOST_STANDINGS
    assert len(states(link.a)) == 30


def test_many_notices_go_page_by_page() -> None:
    link = introduced(100)
    for n in range(100):
        link.b.core.notify(LINK, link.b.entry(n))
    link.wait(SECOND)
    assert [len(hello.states) for hello in hellos(link.b) if hello.states] == [MOST_STANDINGS] * 2 + [20]
    assert len(states(link.a)) == 100


def test_who_follows_and_does_not_reply_is_given_up_not_dead() -> None:
    """Whether it lives is for the one who asks it for something to find out."""
    link = introduced(1)
    link.cut(link.a)
    link.b.core.notify(LINK, link.b.entry(0))
    link.wait(20 * SECOND)
    assert link.b.deaths == []
    assert len([hello for hello in hellos(link.b) if hello.states]) == MAX_TRIES


# Restarts, and those who seemed dead.


def test_who_was_taken_for_dead_learns_that_its_grants_are_given_up() -> None:
    link = Link(3)
    link.cut(link.b)
    link.wait(12 * SECOND)
    assert link.a.deaths
    dropped = [entry.feed for news in link.b.news for entry in news.dropped]
    assert dropped == [feed(n) for n in range(3)]


def test_a_face_that_is_forgotten_is_a_stranger() -> None:
    link = Link(3)
    link.a.core.forget(LINK)
    link.a.core.forget(LINK)
    assert link.a.core.next_deadline() is None
    assert link.a.core.follows(LINK) == 0
    assert not link.a.other.is_aware


def test_how_many_feeds_a_neighbour_follows() -> None:
    end = End()
    assert end.core.follows(LINK) == 0
    for n in range(5):
        end.grant(n, 8, 0)
    assert end.core.follows(LINK) == 5
    end.entry(2).ranges.drop(LINK)
    end.core.index(end.entry(2))
    assert end.core.follows(LINK) == 4


def test_a_new_entry_takes_the_place_of_one_that_has_ended() -> None:
    end = End()
    end.ask(0, 8, 0)
    before = end.entries.pop(0)
    end.ask(0, 8, 0)
    before.face = None
    end.core.index(before)
    assert end.other.held[reference(feed(0))] is end.entry(0)


def test_hellos_are_counted() -> None:
    link = introduced(1)
    assert (link.a.counters["hellos_out"], link.a.counters["hellos_in"]) == (1, 1)


def test_who_has_started_anew_and_holds_nothing_says_so() -> None:
    link = Link(3)
    link.a.restart()
    link.wait(10 * SECOND)
    assert hellos(link.a) == [Hello(is_forgotten=True)]
    assert [entry.feed for news in link.b.news for entry in news.dropped] == [feed(n) for n in range(3)]
    assert [hello.granted == digest([]) for hello in hellos(link.b)] == [False, True], (
        "the last tells of none"
    )


def test_who_holds_nothing_says_so_once_each_time_that_it_is_told_of_grants() -> None:
    link = Link(3)
    link.a.restart()
    link.cut(link.a)
    link.wait(3 * HELLO + SECOND)
    assert hellos(link.a) == [Hello(is_forgotten=True)] * 3
    assert [at - DELAY for at, _ in link.a.sent] == [at for at, _ in link.b.sent]
    link.heal()
    link.wait(HELLO)
    assert link.b.other.grants() == []


def test_who_holds_nothing_and_is_told_of_nothing_says_nothing() -> None:
    end = End()
    for hello in (Hello(granted=digest([])), Hello(), Hello(is_forgotten=True)):
        end.core.on_hello(LINK, hello, 0)
    assert end.outputs == []


def test_who_has_started_anew_gets_rid_of_what_it_held_before() -> None:
    link = Link(3)
    link.a.restart()
    link.a.ask(1, 8, link.now)
    link.wait(HELLO + SECOND)
    assert {entry.feed for news in link.b.news for entry in news.dropped} == {feed(0), feed(2)}
    assert [standing.reference for standing in link.b.other.grants()] == [reference(feed(1))]
    held, others, same = hellos(link.a)
    assert held.held is not None
    assert set(others.haves) == {Standing(reference(feed(0))), Standing(reference(feed(2)))}
    assert same.haves == held.haves == (link.a.other.have(reference(feed(1))),)
    assert link.a.sent[-1][0] == link.b.sent[0][0] + 3 * DELAY, (
        "a round trip after the first Granted has come"
    )


def test_who_has_started_anew_and_has_used_up_what_it_holds_gets_rid_of_the_rest() -> None:
    link = Link(3)
    link.a.restart()
    link.a.ask(1, 8, link.now)
    link.a.entry(1).upstream.skip(9)
    link.wait(HELLO + SECOND)
    assert link.a.other.asked() == link.b.other.grants() == []


def test_an_upstream_that_has_started_anew_is_found_out() -> None:
    link = introduced(3)
    link.b.restart()
    link.wait(5 * SECOND)
    gone = {entry.feed for news in link.a.news for entry, state in news.states if state.next is None}
    assert gone == {feed(n) for n in range(3)}


def test_an_upstream_that_has_started_anew_and_grants_something_else_is_found_out() -> None:
    link = introduced(3)
    link.b.restart()
    link.b.grant(1, 8, link.now)
    link.b.core.listens(LINK)
    link.wait(HELLO + SECOND)
    gone = {entry.feed for news in link.a.news for entry, state in news.states if state.next is None}
    assert gone == {feed(0), feed(2)}


def unproven(in_bytes: int, out_bytes: int) -> End:
    """Return an end whose neighbour may have made up its address."""
    end = End()
    face = end.faces[LINK]
    face.is_proven, face.in_bytes, face.out_bytes = False, in_bytes, out_bytes
    return end


def test_data_that_answered_interests_does_not_keep_the_challenge_away() -> None:
    end = unproven(in_bytes=600, out_bytes=10_000)
    end.core.prove(LINK, 0)
    number = parse_hello(parse_lp(end.outputs[0]).hello or b"").number
    end.core.on_hello(LINK, Hello(reply=number), 0)
    assert end.core.may_send(LINK)


def test_an_address_that_may_be_made_up_gets_at_most_three_times_its_bytes() -> None:
    end = unproven(in_bytes=100, out_bytes=0)
    for _ in range(100):
        end.core.prove(LINK, 0)
    sizes = [len(packet) for packet in end.outputs]
    assert 300 - sizes[0] < sum(sizes) <= 300
