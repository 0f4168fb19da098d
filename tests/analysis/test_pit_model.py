"""The PIT model against cases computed by hand: times are small numbers, each rule of its text has a test."""

from analysis.packet_schema import FOREVER
from analysis.pit.entry import Interval, Message, State, Step
from analysis.pit.model import PitModel
from forwarder.wire.evidence import Evidence
from forwarder.wire.hello import Hello, Standing, make_hello, reference
from forwarder.wire.lp import parse_lp
from forwarder.wire.name import from_uri

FEED = "/f/key"
FEED_LENGTH = 10


def interest(time, way, interface, name="/a/b", *, nonce=1, lifetime=100, **fields):
    return Message(
        time, interface, way, "interest", name, 6, nonce=nonce, lifetime_ns=lifetime, hop_limit=9
    )._replace(**fields)


def data(time, way, interface, name="/a/b"):
    return Message(time, interface, way, "data", name, 6)


def nack(time, way, interface, name="/a/b", *, nonce=1, reason=150, **fields):
    message = interest(time, way, interface, name, nonce=nonce, **fields)
    return message._replace(kind="nack")


def lli(time, way, interface, first, credit, *, nonce, lifetime=1000, hop_limit=9):
    return Message(
        time,
        interface,
        way,
        "lli",
        f"{FEED}/seq={first}",
        FEED_LENGTH + 3,
        nonce=nonce,
        lifetime_ns=lifetime,
        hop_limit=hop_limit,
        send_credit=credit,
        feed=FEED,
        seq=first,
    )


def item(time, way, interface, seq):
    return Message(time, interface, way, "data", f"{FEED}/seq={seq}", FEED_LENGTH + 3, feed=FEED, seq=seq)


def follow(messages, end=None):
    """Yield the intervals of a node's PIT from its packets, which are in order, until `end`."""
    model = PitModel()
    for message in messages:
        yield from model.receive(message)
    yield from model.finish(end)


def spans(*messages):
    """Return (name, opened, closed) of every entry, in the order of closing."""
    return [(i.name, i.opened, i.closed) for i in follow(messages)]


def steps(*messages):
    """Return the changes of the table until every entry has expired."""
    model = PitModel()
    for message in messages:
        model.receive(message)
    model.finish(FOREVER)
    return model.take_steps()


def sizes(*messages):
    """Return (time, bytes) after each step that changed them."""
    total = 0
    return [(step.time, total := total + step.bytes) for step in steps(*messages) if step.bytes]


def outcomes(*messages, end=FOREVER):
    """Return (name, outcome, when) of every entry, in the order of closing."""
    return [(i.name, i.outcome, i.closed) for i in follow(messages, end)]


# --- classic Interests ------------------------------------------------------------------------------------


def test_an_interest_opens_and_data_closes():
    messages = interest(10, "in", "i"), data(30, "in", "j")
    (interval,) = follow(messages)
    assert interval == Interval("classic", "/a/b", 10, 30, "satisfied", 1, 0, 1, 0, 1, 1, 0, 22, 0)
    assert steps(*messages) == [Step(10, 1, 6 + 16), Step(30, -1, -22, satisfied=1)]


def test_an_interval_is_told_when_it_ends():
    model = PitModel()
    assert model.receive(interest(10, "in", "i", lifetime=100)) == []
    (interval,) = model.receive(interest(500, "in", "i", "/other", lifetime=5))
    assert interval.closed == 110
    (interval,) = model.finish()
    assert (interval.name, interval.closed) == ("/other", 505)


def test_an_entry_ends_exactly_at_its_expiry():
    assert spans(interest(0, "in", "i", lifetime=100)) == [("/a/b", 0, 100)]


def test_an_interest_at_the_moment_of_expiry_makes_a_new_entry():
    messages = interest(0, "in", "i", lifetime=100), interest(100, "in", "i", nonce=2, lifetime=100)
    assert spans(*messages) == [("/a/b", 0, 100), ("/a/b", 100, 200)]


def test_data_at_the_moment_of_expiry_comes_too_late():
    messages = interest(0, "in", "i", lifetime=100), data(100, "in", "j")
    assert outcomes(*messages) == [("/a/b", "expired", 100)]
    assert steps(*messages) == [Step(0, 1, 22), Step(100, -1, -22, expired=1)]


def test_a_repetition_extends_and_a_shorter_lifetime_does_not_shorten():
    longer = interest(0, "in", "i", lifetime=100), interest(50, "in", "i", nonce=2, lifetime=100)
    assert spans(*longer) == [("/a/b", 0, 150)]
    shorter = interest(0, "in", "i", lifetime=100), interest(50, "in", "i", nonce=2, lifetime=10)
    assert spans(*shorter) == [("/a/b", 0, 100)]


def test_an_interest_sent_opens_and_extends_too():
    assert spans(interest(0, "out", "j", lifetime=100)) == [("/a/b", 0, 100)]
    both = interest(0, "in", "i", lifetime=100), interest(5, "out", "j", lifetime=100)
    assert spans(*both) == [("/a/b", 0, 105)]


def test_bytes_are_name_and_16_a_distinct_record():
    assert sizes(
        interest(0, "in", "i"),
        interest(0, "out", "u"),
        interest(5, "in", "j", nonce=2),
        interest(6, "in", "j", nonce=3),  # a record of its own only once
        data(20, "in", "u"),
    ) == [(0, 6 + 32), (5, 6 + 48), (20, 0)]


def test_hop_limit_0_is_dropped():
    assert spans(interest(0, "in", "i", hop_limit=0)) == []


def test_a_loop_is_dropped():
    begin = interest(0, "in", "i", nonce=7, lifetime=100)
    from_another = interest(50, "in", "j", nonce=7, lifetime=1000)
    assert spans(begin, from_another) == [("/a/b", 0, 100)]
    sent = interest(0, "out", "u", nonce=7, lifetime=100)
    assert spans(sent, interest(50, "in", "j", nonce=7, lifetime=1000)) == [("/a/b", 0, 100)]
    assert spans(sent, interest(50, "in", "u", nonce=7, lifetime=1000)) == [("/a/b", 0, 100)]


def test_the_same_nonce_from_the_same_interface_is_a_repetition():
    begin = interest(0, "in", "i", nonce=7, lifetime=100), interest(0, "out", "u", nonce=7, lifetime=100)
    assert spans(*begin, interest(50, "in", "i", nonce=7, lifetime=100)) == [("/a/b", 0, 150)]


def test_interests_without_a_nonce_are_no_loops():
    messages = interest(0, "in", "i", nonce=None), interest(50, "in", "j", nonce=None)
    assert spans(*messages) == [("/a/b", 0, 150)]
    nonceless = lli(0, "in", "i", 1, 2, nonce=None, lifetime=50), lli(9, "in", "i", 1, 2, nonce=None)
    assert spans(*nonceless) == [(FEED, 0, 1009)]


def test_the_key_has_both_selectors():
    kinds = [(p, f) for p in (False, True) for f in (False, True)]
    messages = [
        interest(n, "in", "i", nonce=n, can_be_prefix=p, must_be_fresh=f) for n, (p, f) in enumerate(kinds)
    ]
    assert len(spans(*messages)) == 4
    assert [closed for _, _, closed in spans(*messages, data(50, "in", "u"))] == [50] * 4


def test_data_matches_prefixes_of_whole_components_only():
    asked = [
        interest(0, "in", "i", "/a", can_be_prefix=True),
        interest(0, "in", "i", "/a/b", can_be_prefix=True),
        interest(0, "in", "i", "/a/bc", can_be_prefix=True),
        interest(0, "in", "i", "/a/bc/d", can_be_prefix=True),
        interest(0, "in", "i", "/a", can_be_prefix=False),
    ]
    closed = {name: end for name, _, end in spans(*asked, data(50, "in", "u", "/a/bc")) if end == 50}
    assert closed == {"/a": 50, "/a/bc": 50}
    ends = sorted(end for _, _, end in spans(*asked, data(50, "in", "u", "/a/bc")))
    assert ends == [50, 50, 100, 100, 100]


def test_data_matches_an_interest_with_its_digest():
    asked = interest(0, "in", "i", "/a/b/sha256digest=" + "00" * 32)
    assert spans(asked, data(50, "in", "u", "/a/b"))[0][2] == 50
    assert spans(asked, data(50, "in", "u", "/a"))[0][2] == 100


def test_data_sent_takes_its_record_and_the_last_one_closes():
    messages = (
        interest(0, "in", "i", nonce=1),
        interest(1, "in", "j", nonce=2),
        data(10, "out", "i"),
        data(20, "out", "j"),
    )
    assert spans(*messages) == [("/a/b", 0, 20)]
    assert sizes(*messages) == [(0, 22), (1, 38), (10, 22), (20, 0)]


def test_data_sent_to_who_has_no_record_closes_nothing():
    assert spans(interest(0, "out", "u"), data(10, "out", "i")) == [("/a/b", 0, 100)]
    assert spans(interest(0, "in", "i"), data(10, "out", "j")) == [("/a/b", 0, 100)]


def test_an_answer_from_the_cache_leaves_no_step():
    messages = interest(10, "in", "i"), data(10, "out", "i")
    (interval,) = follow(messages)
    assert (interval.opened, interval.closed, interval.peak_bytes) == (10, 10, 0)
    assert steps(*messages) == []


def test_a_nack_sent_takes_its_record():
    two = interest(0, "in", "i", nonce=1), interest(1, "in", "j", nonce=2)
    assert spans(*two, nack(10, "out", "i", nonce=1)) == [("/a/b", 0, 101)]
    assert spans(*two, nack(10, "out", "i", nonce=1), nack(12, "out", "j", nonce=2)) == [("/a/b", 0, 12)]


def test_a_nack_for_an_interest_that_looped_takes_no_record():
    messages = (
        interest(0, "in", "i", nonce=1),
        interest(1, "in", "j", nonce=2),
        interest(5, "in", "i", nonce=2),  # j's, that has gone round
        nack(5, "out", "i", nonce=2, reason=100),
        nack(6, "out", "j", nonce=2),
    )
    assert spans(*messages) == [("/a/b", 0, 101)]


def test_a_refusal_for_duplicate_that_is_passed_on_takes_its_record():
    asked = interest(0, "in", "i", nonce=1), interest(0, "out", "u", nonce=1)
    refused = nack(9, "in", "u", nonce=1, reason=100), nack(9, "out", "i", nonce=1, reason=100)
    assert spans(*asked, *refused) == [("/a/b", 0, 9)]


def test_data_from_here_end_an_entry_whose_other_records_have_expired():
    late = interest(0, "in", "i", nonce=1, lifetime=20), interest(10, "in", "j", nonce=2, lifetime=100)
    assert spans(*late, data(15, "out", "j")) == [("/a/b", 0, 110)]
    assert spans(*late, data(25, "out", "j")) == [("/a/b", 0, 25)]


def test_an_entry_closes_when_every_upstream_has_refused():
    asked = interest(0, "out", "u", nonce=1), interest(5, "out", "v", nonce=1)
    assert spans(*asked, nack(10, "in", "u", nonce=1)) == [("/a/b", 0, 105)]
    assert spans(*asked, nack(10, "in", "u", nonce=1), nack(20, "in", "v", nonce=1)) == [("/a/b", 0, 20)]


def test_who_is_not_told_of_a_refusal_waits_for_an_application_of_the_node():
    asked = interest(0, "in", "i", nonce=1), interest(0, "out", "u", nonce=1)
    refused = *asked, nack(10, "in", "u", nonce=1)
    assert spans(*refused) == [("/a/b", 0, 100)]
    assert spans(*refused, nack(10, "out", "i", nonce=1)) == [("/a/b", 0, 10)]


def test_a_nack_for_an_older_nonce_or_from_elsewhere_changes_nothing():
    asked = interest(0, "in", "i", nonce=1), interest(0, "out", "u", nonce=1)
    assert spans(*asked, nack(10, "in", "u", nonce=2)) == [("/a/b", 0, 100)]
    assert spans(*asked, nack(10, "in", "v", nonce=1)) == [("/a/b", 0, 100)]
    assert spans(nack(10, "in", "u")) == []


def test_sending_again_takes_a_refusal_back():
    messages = (
        interest(0, "out", "u", nonce=1),
        interest(0, "out", "v", nonce=1),
        nack(10, "in", "u", nonce=1),
        interest(20, "out", "u", nonce=2),
        nack(30, "in", "v", nonce=1),
    )
    assert spans(*messages) == [("/a/b", 0, 120)]


def test_a_lifetime_without_end_stays_a_number_that_tables_hold():
    assert spans(interest(5, "in", "i", lifetime=FOREVER)) == [("/a/b", 5, FOREVER)]


def test_an_entry_without_records_is_nothing_to_see():
    down = Message(20, "u", "", "link-down", "", 0)
    assert sizes(interest(0, "out", "u", lifetime=100), down) == [(0, 22), (20, 0)]
    again = interest(50, "out", "u", lifetime=100)
    assert sizes(interest(0, "out", "u", lifetime=100), down, again) == [(0, 22), (20, 0), (50, 22), (150, 0)]


# --- persistent Interests ---------------------------------------------------------------------------------


def persistent(time, way, interface, **fields):
    return interest(time, way, interface, "/a", can_be_prefix=True, is_persistent=True, **fields)


def test_data_do_not_use_up_a_persistent_interest():
    asked = persistent(0, "in", "i", nonce=1, lifetime=100), persistent(0, "out", "u", nonce=1, lifetime=100)
    passing = (
        data(10, "in", "u"),
        data(10, "out", "i"),
        data(20, "in", "u", "/a/c"),
        data(20, "out", "i", "/a/c"),
    )
    assert spans(*asked, *passing) == [("/a", 0, 100)]
    assert spans(persistent(0, "in", "i", lifetime=100), data(10, "out", "i")) == [("/a", 0, 100)]


def test_data_take_plain_and_expired_records_beside_a_persistent_one():
    asked = (
        persistent(0, "in", "i", nonce=1, lifetime=100),
        persistent(1, "in", "j", nonce=2, lifetime=10),
        interest(2, "in", "k", "/a", nonce=3, can_be_prefix=True),
    )
    assert sizes(*asked, data(5, "in", "u")) == [(0, 22), (1, 38), (2, 54), (5, 38), (102, 0)]
    assert sizes(*asked, data(50, "in", "u")) == [(0, 22), (1, 38), (2, 54), (50, 22), (102, 0)]


def test_data_end_an_entry_in_which_no_persistent_interest_is_left():
    asked = (
        persistent(0, "in", "i", nonce=1, lifetime=20),
        interest(2, "in", "k", "/a", nonce=2, can_be_prefix=True),
    )
    assert spans(*asked, data(50, "in", "u")) == [("/a", 0, 50)]


def test_the_next_persistent_interest_takes_those_that_have_expired():
    asked = persistent(0, "in", "i", nonce=1, lifetime=20), persistent(1, "in", "j", nonce=2, lifetime=90)
    assert sizes(*asked, persistent(50, "in", "j", nonce=3, lifetime=10)) == [
        (0, 22),
        (1, 38),
        (50, 22),
        (91, 0),
    ]


def test_a_local_applications_persistent_interest_keeps_its_entry():
    asked = persistent(0, "out", "u", nonce=1, lifetime=100)
    assert spans(asked, data(10, "in", "u")) == [("/a", 0, 100)]
    passed_on = persistent(0, "in", "i", nonce=2, lifetime=9), persistent(0, "out", "u", nonce=2, lifetime=90)
    assert spans(*passed_on, data(10, "in", "u")) == [("/a", 0, 10)]


# --- long-lived Interests ---------------------------------------------------------------------------------


def test_a_range_lasts_until_its_items_are_sent():
    messages = [
        lli(0, "in", "i", 1, 3, nonce=1),
        item(10, "out", "i", 1),
        item(20, "out", "i", 2),
        item(30, "out", "i", 3),
    ]
    (interval,) = follow(messages)
    size = FEED_LENGTH + 28
    assert interval == Interval("feed", FEED, 0, 30, "satisfied", 1, 0, 1, 0, 0, 3, 0, size, 3)
    assert steps(*messages) == [
        Step(0, 1, size, 1, 3),
        Step(10, 0, 0, 0, -1),
        Step(20, 0, 0, 0, -1),
        Step(30, -1, -size, -1, -1),
    ]


def test_an_lli_makes_no_classic_entry():
    assert [i.kind for i in follow([lli(0, "in", "i", 1, 3, nonce=1), item(10, "in", "u", 1)])] == ["feed"]


def test_a_range_expires():
    assert spans(lli(0, "in", "i", 1, 3, nonce=1, lifetime=50)) == [(FEED, 0, 50)]


def test_credit_0_cancels_and_alone_makes_nothing():
    assert spans(lli(0, "in", "i", 1, 3, nonce=1), lli(10, "in", "i", 1, 0, nonce=2)) == [(FEED, 0, 10)]
    assert spans(lli(0, "in", "i", 1, 0, nonce=1)) == []
    assert spans(lli(0, "out", "u", 1, 0, nonce=1)) == []


def test_a_second_lli_extends_limit_and_expiry():
    messages = [
        lli(0, "in", "i", 1, 2, nonce=1, lifetime=50),
        lli(10, "in", "i", 3, 1, nonce=2, lifetime=1000),
        item(20, "out", "i", 1),
        item(60, "out", "i", 2),
    ]
    assert spans(*messages) == [(FEED, 0, 1010)]
    assert spans(*messages, item(70, "out", "i", 3)) == [(FEED, 0, 70)]


def test_a_shorter_lifetime_does_shorten_a_range():
    messages = lli(0, "in", "i", 1, 2, nonce=1, lifetime=500), lli(10, "in", "i", 1, 2, nonce=2, lifetime=50)
    assert spans(*messages) == [(FEED, 0, 60)]


def test_an_lli_from_before_the_next_item_rewinds():
    sent = [
        lli(0, "in", "i", 1, 2, nonce=1),
        item(10, "out", "i", 1),
        lli(20, "in", "i", 1, 2, nonce=2),
        item(30, "out", "i", 1),
    ]
    assert spans(*sent) == [(FEED, 0, 1020)]
    assert spans(*sent, item(40, "out", "i", 2)) == [(FEED, 0, 40)]


def test_an_lli_for_what_was_sent_asks_for_it_again_and_no_more():
    sent = [
        lli(0, "in", "i", 1, 6, nonce=1),
        item(10, "out", "i", 5),
        lli(20, "in", "i", 2, 2, nonce=2),
        item(30, "out", "i", 2),
        item(40, "out", "i", 3),
    ]
    assert spans(*sent) == [(FEED, 0, 1020)]
    assert spans(*sent, item(50, "out", "i", 6)) == [(FEED, 0, 50)]


def test_an_item_beyond_the_range_does_not_use_it_up():
    assert spans(lli(0, "in", "i", 1, 2, nonce=1), item(10, "out", "i", 3)) == [(FEED, 0, 1000)]
    # One within it takes those before with it.
    assert spans(lli(0, "in", "i", 1, 2, nonce=1), item(10, "out", "i", 2)) == [(FEED, 0, 10)]


def test_the_links_duplicate_changes_nothing():
    twice = lli(0, "in", "i", 1, 2, nonce=1, lifetime=50), lli(10, "in", "i", 1, 2, nonce=1, lifetime=500)
    assert spans(*twice) == [(FEED, 0, 50)]


def test_an_lli_with_the_nonce_of_the_nodes_own_is_a_loop():
    begin = [
        lli(0, "in", "i", 1, 2, nonce=1, lifetime=50),
        lli(0, "out", "u", 1, 2, nonce=1, lifetime=50),
    ]
    assert sizes(*begin, lli(10, "in", "j", 1, 2, nonce=1, lifetime=500)) == [
        (0, FEED_LENGTH + 56),
        (50, 0),
    ]


def test_an_lli_with_hop_limit_0_is_dropped():
    assert spans(lli(0, "in", "i", 1, 2, nonce=1, hop_limit=0)) == []


def test_an_upstream_range_alone_shows_a_local_subscription():
    asked = lli(0, "out", "u", 1, 2, nonce=1)
    assert spans(asked) == [(FEED, 0, 1000)]
    assert spans(asked, item(10, "in", "u", 1), item(20, "in", "u", 2)) == [(FEED, 0, 20)]
    assert spans(asked, item(10, "in", "u", 1), item(20, "in", "u", 3)) == [(FEED, 0, 1000)]
    assert spans(asked, lli(30, "out", "u", 1, 0, nonce=2)) == [(FEED, 0, 30)]
    assert sizes(asked, item(10, "in", "u", 1), item(20, "in", "u", 2)) == [(0, FEED_LENGTH + 28), (20, 0)]


def test_an_upstream_lli_extends_and_repeats():
    asked = lli(0, "out", "u", 3, 2, nonce=1)
    items = [item(10 * n, "in", "u", n) for n in range(8)]
    assert spans(asked, lli(1, "out", "u", 5, 1, nonce=2), *items[3:6]) == [(FEED, 0, 50)]
    again = lli(35, "out", "u", 4, 1, nonce=2)
    assert spans(asked, items[3], again, items[4]) == [(FEED, 0, 40)]


def test_each_next_hop_that_is_asked_has_its_range():
    asked = lli(0, "out", "u", 3, 2, nonce=1), lli(1, "out", "v", 3, 1, nonce=2)
    ended = lli(30, "out", "u", 5, 0, nonce=3), lli(40, "out", "v", 5, 0, nonce=4)
    size = FEED_LENGTH + 28
    assert sizes(*asked, *ended) == [(0, size), (1, size + 28), (30, size), (40, 0)]
    # An item counts for all of them, wherever it comes from.
    assert spans(*asked, item(5, "in", "v", 3), item(6, "in", "v", 4)) == [(FEED, 0, 6)]


def test_an_upstream_lli_beyond_the_old_limit_begins_anew():
    asked = lli(0, "out", "u", 3, 2, nonce=1)
    items = [item(10 * n, "in", "u", n) for n in range(8)]
    assert spans(asked, lli(1, "out", "u", 6, 2, nonce=2), *items[6:8]) == [(FEED, 0, 70)]


def test_going_back_asks_for_everything_again():
    asked = lli(0, "out", "u", 1, 4, nonce=1)
    items = [item(10 * n, "in", "u", n) for n in range(5)]
    back = lli(35, "out", "u", 2, 3, nonce=2), item(36, "in", "u", 2), item(37, "in", "u", 3)
    assert spans(asked, *items[1:4], *back, items[4]) == [(FEED, 0, 40)]
    assert spans(asked, *items[1:4], *back) == [(FEED, 0, 1035)]


def test_a_gap_is_not_the_end():
    asked = lli(0, "out", "u", 1, 3, nonce=1)
    assert spans(asked, item(10, "in", "u", 1), item(20, "in", "u", 3)) == [(FEED, 0, 1000)]
    assert spans(asked, item(10, "in", "u", 3), item(20, "in", "u", 2), item(30, "in", "u", 1)) == [
        (FEED, 0, 30)
    ]


def test_a_proof_ends_the_feed_at_its_fork():
    proof_in = Message(20, "u", "in", "data", f"{FEED}/32=fork/seq=3", 20)
    asked = lli(0, "out", "u", 1, 9, nonce=1)
    assert spans(asked, proof_in, item(30, "in", "u", 1), item(40, "in", "u", 2)) == [(FEED, 0, 40)]
    granted = lli(0, "in", "i", 1, 9, nonce=1)
    assert spans(granted, proof_in._replace(interface="i", direction="out")) == [(FEED, 0, 20)]


def test_a_restart_ends_everything_and_a_link_its_own():
    messages = (
        interest(0, "in", "i", nonce=1),
        lli(0, "in", "i", 1, 9, nonce=1, lifetime=500),
        lli(0, "in", "j", 1, 9, nonce=2, lifetime=500),
    )
    restart = Message(20, "", "", "restart", "", 0)
    assert sorted(spans(*messages, restart)) == [("/a/b", 0, 20), (FEED, 0, 20)]
    down = Message(20, "i", "", "link-down", "", 0)
    assert sorted(spans(*messages, down)) == [("/a/b", 0, 20), (FEED, 0, 500)]


def test_a_spent_upstream_counts_until_the_entry_ends():
    messages = (
        lli(0, "in", "i", 1, 2, nonce=1),
        lli(0, "out", "u", 1, 1, nonce=1),
        item(10, "in", "u", 1),
        item(10, "out", "i", 1),
        item(30, "out", "i", 2),
    )
    assert sizes(*messages) == [(0, FEED_LENGTH + 56), (30, 0)]


def test_an_expired_upstream_counts_until_the_entry_ends():
    messages = lli(0, "in", "i", 1, 2, nonce=1, lifetime=100), lli(0, "out", "u", 1, 2, nonce=1, lifetime=40)
    assert sizes(*messages) == [(0, FEED_LENGTH + 56), (100, 0)]


def test_each_downstream_has_its_range():
    assert sizes(
        lli(0, "in", "i", 1, 1, nonce=1),
        lli(5, "in", "j", 1, 2, nonce=2),
        item(10, "out", "i", 1),
        item(10, "out", "j", 1),
        item(20, "out", "j", 2),
    ) == [(0, FEED_LENGTH + 28), (5, FEED_LENGTH + 56), (10, FEED_LENGTH + 28), (20, 0)]


def test_an_lli_refused_takes_its_range():
    asked = lli(0, "in", "i", 1, 2, nonce=1)
    refused = asked._replace(kind="nack", direction="out")
    assert spans(asked, refused) == [(FEED, 0, 0)]


def test_an_lli_refused_upstream_ends_what_a_local_application_asked():
    asked = lli(0, "out", "u", 1, 2, nonce=1)
    refused = asked._replace(time=5, kind="nack", direction="in")
    assert spans(asked, refused) == [(FEED, 0, 5)]
    assert spans(asked, refused._replace(nonce=2)) == [(FEED, 0, 1000)]
    assert spans(asked, refused._replace(interface="v")) == [(FEED, 0, 1000)]


def test_an_upstream_that_refuses_or_is_cut_off_does_not_count_any_more():
    asked = lli(0, "in", "i", 1, 2, nonce=1), lli(0, "out", "u", 1, 2, nonce=1)
    refused = asked[1]._replace(time=5, kind="nack", direction="in")
    for lost in (refused, Message(5, "u", "", "link-down", "", 0)):
        assert sizes(*asked, lost) == [(0, FEED_LENGTH + 56), (5, FEED_LENGTH + 28), (1000, 0)]


def test_a_feeds_state_goes_with_its_entry():
    messages = (
        lli(0, "in", "i", 1, 1, nonce=1),
        lli(0, "out", "u", 1, 1, nonce=1),
        item(10, "in", "u", 1),
        item(10, "out", "i", 1),
        lli(20, "in", "i", 2, 1, nonce=1, lifetime=30),  # no loop: the node's own LLI is forgotten
    )
    assert spans(*messages) == [(FEED, 0, 10), (FEED, 20, 50)]


def test_the_feeds_name_is_the_items_without_its_number():
    numbered = lli(0, "in", "i", 300, 1, nonce=1)._replace(name_length=FEED_LENGTH + 4)
    assert sizes(numbered)[0] == (0, FEED_LENGTH + 28)


def test_a_pushed_item_also_answers_a_classic_interest():
    messages = (
        interest(0, "in", "j", f"{FEED}/seq=1"),
        lli(0, "in", "i", 1, 1, nonce=1),
        item(10, "in", "u", 1),
        item(10, "out", "i", 1),
    )
    assert sorted(spans(*messages)) == [(FEED, 0, 10), (f"{FEED}/seq=1", 0, 10)]


def test_who_has_sent_an_item_is_not_sent_it():
    asked = lli(0, "in", "i", 1, 2, nonce=1)
    assert spans(asked, item(10, "in", "i", 1), item(20, "out", "i", 2)) == [(FEED, 0, 20)]
    assert spans(asked, item(10, "in", "i", 2), item(20, "out", "i", 2)) == [(FEED, 0, 20)]
    assert spans(asked, item(10, "in", "i", 1), item(20, "in", "i", 2)) == [(FEED, 0, 20)]


def test_an_item_that_answers_a_classic_interest_was_not_pushed():
    asked = lli(0, "in", "i", 1, 2, nonce=1)
    wanted = interest(5, "in", "i", f"{FEED}/seq=2")
    assert spans(asked, wanted, item(10, "out", "i", 2))[-1] == (FEED, 0, 1000)
    assert spans(asked, wanted, item(10, "in", "u", 2), item(10, "out", "i", 2))[-1] == (FEED, 0, 1000)
    # Its other copy is.
    assert spans(asked, wanted, *2 * [item(10, "out", "i", 2)])[-1] == (FEED, 0, 10)


def test_a_range_is_not_used_up_while_something_is_asked_for_again():
    messages = (
        lli(0, "in", "i", 1, 3, nonce=1),
        item(10, "out", "i", 1),
        item(10, "out", "i", 2),
        lli(20, "in", "i", 1, 1, nonce=2),
        item(30, "out", "i", 3),
    )
    assert spans(*messages) == [(FEED, 0, 1020)]
    assert spans(*messages, item(40, "out", "i", 1)) == [(FEED, 0, 40)]


def state(time, way, interface, *, evidence=b"\0\1", first=None):
    message = Message(time, interface, way, "idle", "", 0, feed=FEED)
    return message._replace(evidence=evidence, feed_first=first)


def test_where_a_feed_begins_is_told_once():
    asked = lli(0, "in", "i", 1, 4, nonce=1)
    assert spans(asked, state(5, "out", "i", first=4), item(10, "out", "i", 4)) == [(FEED, 0, 10)]
    assert spans(asked, state(5, "out", "i", first=5)) == [(FEED, 0, 5)]
    again = lli(6, "in", "i", 1, 4, nonce=2)
    told = state(5, "out", "i", first=3), again, state(7, "out", "i", first=3)
    assert steps(asked, *told)[-1] == Step(1006, -1, -FEED_LENGTH - 28, -1, -4)


def hello(time, way, interface, **fields):
    value = parse_lp(make_hello(Hello(**fields))).hello
    return Message(time, interface, way, "hello", "", 0, hello=value)


HELD = b"agreed.."
GRANT = Standing(reference(from_uri(FEED)), 1, 9, Evidence(1, 0))


def test_a_hello_renews_what_was_told_of_a_source():
    asked = lli(0, "in", "i", 1, 9, nonce=1, lifetime=100)
    asks, agrees = {"number": 4, "held": HELD}, {"reply": 4, "held": HELD}
    renewed = hello(50, "in", "i", **asks), hello(60, "out", "i", **agrees)
    assert spans(asked, state(5, "out", "i"), *renewed) == [(FEED, 0, 160)]
    assert spans(asked, *renewed) == [(FEED, 0, 100)]  # it knows of no source
    assert spans(asked, state(5, "out", "i"), state(6, "out", "i", evidence=None), *renewed) == [
        (FEED, 0, 100)
    ]
    assert spans(asked, state(5, "out", "i"), renewed[0]) == [(FEED, 0, 100)]  # no reply
    told = hello(5, "out", "i", number=1, states=(GRANT,))
    assert spans(asked, told, *renewed) == [(FEED, 0, 160)]
    lost = hello(6, "out", "i", number=2, states=(GRANT._replace(evidence=None),))
    assert spans(asked, told, lost, *renewed) == [(FEED, 0, 100)]
    for other in ({"reply": 3, "held": HELD}, {"reply": 4, "held": HELD[::-1]}):
        assert spans(asked, told, renewed[0], hello(60, "out", "i", **other)) == [(FEED, 0, 100)]
    twice = hello(90, "out", "i", **agrees)
    assert spans(asked, told, *renewed, twice) == [(FEED, 0, 160)]
    shorter = lli(10, "in", "i", 1, 9, nonce=2, lifetime=30)
    renewed_soon = hello(20, "in", "i", **asks), hello(20, "out", "i", **agrees)
    assert spans(asked, told, shorter, *renewed_soon) == [(FEED, 0, 50)]


def test_a_hello_renews_what_was_asked_of_who_offers_a_source():
    asked = lli(0, "out", "u", 1, 9, nonce=1, lifetime=100)
    renewed = hello(50, "out", "u", number=4, held=HELD), hello(60, "in", "u", reply=4, held=HELD)
    assert spans(asked, *renewed) == [(FEED, 0, 100)]
    for offer in (state(5, "in", "u"), hello(5, "in", "u", number=1, states=(GRANT,))):
        assert spans(asked, offer, *renewed) == [(FEED, 0, 160)]
    offered = item(5, "in", "u", 1)._replace(evidence=b"\0\1")
    assert spans(asked, offered, *renewed) == [(FEED, 0, 160)]
    elsewhere = (each._replace(interface="v") for each in renewed)
    assert spans(asked, offered, *elsewhere) == [(FEED, 0, 100)]


def test_a_hello_ends_ranges():
    asked = lli(0, "in", "i", 1, 9, nonce=1), lli(0, "out", "u", 1, 9, nonce=1)
    have = hello(10, "in", "i", haves=(GRANT._replace(next=None, limit=None),))
    size = FEED_LENGTH + 28
    assert sizes(*asked, have) == [(0, size + 28), (10, size), (1000, 0)]
    assert sizes(*asked, hello(10, "in", "i", is_forgotten=True)) == [(0, size + 28), (10, size), (1000, 0)]
    assert sizes(*asked, hello(10, "out", "u", is_forgotten=True)) == [(0, size + 28), (10, size), (1000, 0)]
    for other in (
        hello(10, "out", "i", haves=(GRANT._replace(next=None, limit=None),)),
        hello(10, "in", "i", haves=(GRANT, Standing(bytes(8)))),
        hello(10, "in", "u", is_forgotten=True),
        hello(10, "in", "i")._replace(hello=b"?"),
    ):
        assert sizes(*asked, other) == [(0, size + 28), (1000, 0)]
    assert outcomes(asked[0], have) == [(FEED, "lost", 10)]


# --- what entries have come to ----------------------------------------------------------------------------


def test_outcomes_of_classic_entries():
    asked = interest(0, "in", "i"), interest(0, "out", "u")
    assert outcomes(*asked, data(9, "in", "u")) == [("/a/b", "satisfied", 9)]
    assert outcomes(*asked, data(9, "out", "i")) == [("/a/b", "satisfied", 9)]
    assert outcomes(*asked, nack(9, "out", "i")) == [("/a/b", "nacked", 9)]
    assert outcomes(asked[1], nack(9, "in", "u")) == [("/a/b", "nacked", 9)]
    assert outcomes(*asked) == [("/a/b", "expired", 100)]
    assert outcomes(*asked, Message(9, "", "", "restart", "", 0)) == [("/a/b", "lost", 9)]
    assert outcomes(*asked, Message(9, "i", "", "link-down", "", 0)) == [("/a/b", "lost", 9)]


def test_outcomes_of_feeds():
    asked = lli(0, "in", "i", 1, 1, nonce=1)
    assert outcomes(asked, item(9, "out", "i", 1)) == [(FEED, "satisfied", 9)]
    assert outcomes(asked, asked._replace(kind="nack", direction="out", time=9)) == [(FEED, "nacked", 9)]
    assert outcomes(asked, lli(9, "in", "i", 1, 0, nonce=2)) == [(FEED, "cancelled", 9)]
    proof = Message(9, "i", "out", "data", f"{FEED}/32=fork/seq=1", 20)
    assert outcomes(asked, proof) == [(FEED, "forked", 9)]
    assert outcomes(asked, Message(9, "i", "", "link-down", "", 0)) == [(FEED, "lost", 9)]
    assert outcomes(asked) == [(FEED, "expired", 1000)]


def test_what_is_there_when_the_packets_end_is_open():
    messages = interest(0, "in", "i", "/gone"), interest(150, "in", "i", lifetime=100)
    assert outcomes(*messages, end=None) == [("/gone", "expired", 100), ("/a/b", "open", 250)]
    assert outcomes(*messages, end=249) == [("/gone", "expired", 100), ("/a/b", "open", 250)]
    assert outcomes(*messages, end=250) == [("/gone", "expired", 100), ("/a/b", "expired", 250)]
    model = PitModel()
    for message in messages:
        model.receive(message)
    (last,) = model.finish()
    assert last.peak_bytes == 22
    assert model.state == State(1, 22, 0, 0)
    assert [step.time for step in model.take_steps()] == [0, 100, 150]


def test_what_a_classic_entry_counts():
    (interval,) = follow(
        [
            interest(0, "in", "i", nonce=1, lifetime=20),
            interest(0, "out", "u", nonce=1),
            interest(5, "in", "j", nonce=2),
            interest(6, "in", "k", nonce=1),  # a loop
            interest(7, "in", "k", nonce=3, hop_limit=0),
            interest(8, "out", "v", nonce=2),
            interest(9, "out", "u", nonce=4),
            data(30, "in", "u"),  # i does not wait any more
        ]
    )
    assert interval == Interval("classic", "/a/b", 0, 30, "satisfied", 2, 3, 2, 2, 1, 1, 0, 6 + 64, 0)


def test_data_that_are_sent_count_one_by_one():
    asked = interest(0, "in", "i", nonce=1), interest(1, "in", "j", nonce=2)
    (interval,) = follow([*asked, data(10, "out", "i"), data(20, "out", "j"), data(21, "out", "j")])
    assert (interval.items_in, interval.items_out, interval.peak_bytes) == (0, 2, 38)


def test_what_a_persistent_entry_counts():
    asked = persistent(0, "in", "i", nonce=1), persistent(0, "out", "u", nonce=1)
    passing = [data(t, way, f) for t in (10, 20) for way, f in (("in", "u"), ("out", "i"))]
    (interval,) = follow([*asked, *passing])
    assert (interval.items_in, interval.items_out, interval.outcome) == (2, 2, "open")


def test_what_a_feed_counts():
    messages = [
        lli(0, "in", "i", 1, 2, nonce=1),
        lli(0, "out", "u", 1, 2, nonce=11),
        item(10, "in", "u", 1),
        item(10, "out", "i", 1),
        lli(12, "in", "i", 3, 2, nonce=2),  # renewed, down and up
        lli(12, "out", "u", 3, 2, nonce=12),
        lli(13, "in", "i", 3, 2, nonce=2),  # the link's duplicate
        lli(14, "in", "i", 1, 1, nonce=3),  # asks for an item again
        lli(15, "in", "j", 4, 9, nonce=4),
    ]
    (interval,) = follow(messages)
    size = FEED_LENGTH + 3 * 28
    counts = interval[5:]
    assert counts == (5, 2, 2, 1, 1, 1, 2, size, 3 + 9)


def test_the_state_is_at_hand_at_any_time():
    model = PitModel()
    assert model.state == State(0, 0, 0, 0)
    model.receive(interest(0, "in", "i"))
    model.receive(lli(1, "in", "i", 1, 5, nonce=1))
    model.receive(item(2, "out", "i", 2))
    assert model.state == State(2, 22 + FEED_LENGTH + 28, 1, 3)
    assert model.advance(100)[0].outcome == "expired"
    assert model.state == State(1, FEED_LENGTH + 28, 1, 3)


def test_satisfied_and_expired_begin_anew_with_the_node():
    messages = (
        interest(0, "in", "i"),
        data(10, "in", "u"),
        interest(20, "in", "i", lifetime=5),
        Message(30, "", "", "restart", "", 0),
        interest(40, "in", "i", lifetime=5),
    )
    counted = [(step.time, step.satisfied, step.expired) for step in steps(*messages)]
    assert counted == [(0, 0, 0), (10, 1, 0), (20, 0, 0), (25, 0, 1), (30, -1, -1), (40, 0, 0), (45, 0, 1)]


def test_credit_without_bounds_stays_a_number_that_tables_hold():
    granted = [lli(0, "in", f"i{n}", 1, FOREVER, nonce=n) for n in range(9)]
    (interval,) = follow(granted)
    assert interval.peak_credit == 9 << 53
    asked = lli(0, "out", "u", 1, FOREVER, nonce=1)
    assert outcomes(asked, item(5, "in", "u", 1 << 62)) == [(FEED, "expired", 1000)]


# --- where packets have no direction ----------------------------------------------------------------------


def on_link(message):
    return message._replace(direction=None)


def test_on_a_link_an_interest_opens_and_what_answers_it_closes():
    asked = on_link(interest(0, "in", "l", nonce=1))
    for answer in (data(9, "in", "l"), nack(9, "in", "l", nonce=1)):
        (interval,) = follow([asked, on_link(answer)])
        assert (interval.opened, interval.closed, interval.interests_in) == (0, 9, 1)
    again = on_link(interest(50, "in", "l", nonce=1))
    assert spans(asked, again) == [("/a/b", 0, 150)]
    at_once = on_link(data(50, "in", "l"))
    assert spans(asked, again, at_once) == [("/a/b", 0, 50)]
    assert outcomes(asked, at_once._replace(interface="m")) == [("/a/b", "expired", 100)]


def test_on_a_link_items_use_up_what_was_granted():
    asked = on_link(lli(0, "in", "l", 1, 2, nonce=1))
    items = [on_link(item(10 * n, "in", "l", n)) for n in (1, 2)]
    (interval,) = follow([asked, *items])
    assert (interval.closed, interval.outcome, interval.items_out, interval.peak_credit) == (
        20,
        "satisfied",
        2,
        2,
    )
