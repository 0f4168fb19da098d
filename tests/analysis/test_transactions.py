"""Interests and what answered them, on tables small enough to work out by hand."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table import data, interest, item, lli, nack, packets

from analysis.spark.engine import frame
from analysis.spark.parquet import of_table
from analysis.tables import shares
from analysis.tables.schema import EVENTS, PACKETS, TRANSACTIONS
from analysis.tables.shares import followed, nodes_of
from analysis.tables.transactions import FOLLOWER, follow

SHORT = ("name", "time", "last", "interests", "outcome", "answered", "rtt_ns", "data_name", "items")


def transactions(table):
    """Return the transactions of packets, without their run."""
    return follow(table).drop_columns(["layering"])


def columns_of(rows, *columns):
    """Return columns of some transactions as sorted tuples."""
    return sorted((tuple(row[name] for name in columns) for row in rows.to_pylist()), key=repr)


@pytest.fixture(name="follow")
def columns_of_followed():
    """Takes packets; returns columns of their transactions, sorted."""

    def columns_of_packets(given, *columns):
        rows = columns_of(transactions(packets(*given)), *columns or SHORT)
        if "repeats" not in columns:
            return rows
        at = columns.index("repeats")
        flat = [[tuple(moment.values()) for moment in row[at]] for row in rows]
        return [(*row[:at], moments, *row[at + 1 :]) for row, moments in zip(rows, flat, strict=True)]

    return columns_of_packets


def test_the_columns_are_those_documented():
    table = transactions(packets(interest("/a", 1), lli(1, 2, 1))).drop_columns(["expires", "repeats"])
    assert table.schema == pa.schema([field for field in TRANSACTIONS.arrow if field.name != "layering"])


def test_an_interest_and_its_data():
    asked = interest("/a", 10, can_be_prefix=True, must_be_fresh=True, feed="/f", seq=3, frame_bytes=90)
    [row] = transactions(packets(asked, data("/a", 35))).to_pylist()
    assert row == {
        "node": "a",
        "interface": "a-eth0",
        "direction": "out",
        "kind": "interest",
        "name": "/a",
        "can_be_prefix": True,
        "must_be_fresh": True,
        "feed": "/f",
        "seq": 3,
        "send_credit": None,
        "time": 10,
        "last": 10,
        "interests": 1,
        "outcome": "data",
        "answered": 35,
        "rtt_ns": 25,
        "nack_reason": None,
        "data_name": "/a",
        "items": 1,
        "interest_bytes": 90,
        "answer_bytes": 500,
        "expires": 4010,
        "repeats": [],
    }


def test_a_retransmission_belongs_to_it_and_an_interest_after_the_answer_does_not(follow):
    packets = [
        interest("/a", 10),
        interest("/a", 20),
        data("/a", 50),
        data("/a", 60),  # nobody waits for this one
        interest("/a", 70, lifetime=5),
        data("/a", 75),  # too late: it ends exactly at its expiry
        interest("/a", 76, lifetime=5),
        data("/a", 80),
    ]
    assert follow(packets) == [
        ("/a", 10, 20, 2, "data", 50, 40, "/a", 1),
        ("/a", 70, 70, 1, "none", None, None, None, 0),
        ("/a", 76, 76, 1, "data", 80, 4, "/a", 1),
    ]
    assert follow(packets, "interest_bytes", "answer_bytes", "repeats") == [
        (100, 0, []),
        (100, 500, []),
        (200, 500, [(20, 100)]),
    ]


def test_it_lives_as_long_as_any_of_its_interests(follow):
    # The short retransmission does not shorten it; and after an answer, lifetimes from before do not count.
    packets = [
        interest("/a", 0, lifetime=100),
        interest("/a", 10, lifetime=5),
        interest("/a", 99, lifetime=5),
    ]
    assert follow(packets, "time", "interests", "expires") == [(0, 3, 104)]
    packets = [
        interest("/a", 0, lifetime=100),
        data("/a", 1),
        interest("/a", 2, lifetime=5),
        interest("/a", 9, lifetime=5),
    ]
    assert follow(packets, "time", "interests", "outcome") == [
        (0, 1, "data"),
        (2, 1, "none"),
        (9, 1, "none"),
    ]


def test_selectors_are_asked_for_apart_and_answered_together(follow):
    fresh = interest("/a", 2, must_be_fresh=True)
    packets = [interest("/a", 1), fresh, nack(fresh, 3), interest("/a", 4, can_be_prefix=True), data("/a", 9)]
    assert follow(packets, "time", "outcome", "answered", "nack_reason") == [
        (1, "data", 9, None),
        (2, "nack", 3, 150),
        (4, "data", 9, None),
    ]


def test_a_prefix_is_answered_by_a_longer_name_of_whole_components(follow):
    packets = [
        interest("/a", 1, can_be_prefix=True),
        interest("/a", 2),
        interest("/", 3, can_be_prefix=True),
        data("/ab/c", 5),
        data("/a/b/c", 7),
    ]
    assert follow(packets, "name", "can_be_prefix", "answered", "data_name") == [
        ("/", True, 5, "/ab/c"),
        ("/a", False, None, None),
        ("/a", True, 7, "/a/b/c"),
    ]


def test_a_name_with_an_implicit_digest(follow):
    digest = "/sha256digest=" + "ab" * 32
    packets = [interest(f"/a{digest}", 1), interest(f"/b{digest}", 2), data("/a", 5)]
    assert follow(packets, "name", "answered", "data_name") == [
        (f"/a{digest}", 5, "/a"),
        (f"/b{digest}", None, None),
    ]


def test_answers_go_back_on_the_same_interface_between_the_same_ends(follow):
    packets = [
        interest("/a", 1),
        interest("/a", 1, interface="a-eth1"),
        interest("/a", 1, dst="10.0.0.3"),
        interest("/a", 1, "in"),
        interest("/a", 1, node="b"),
        data("/a", 4, src="10.0.0.3"),
        data("/a", 5, "out"),
        data("/a", 6),
    ]
    assert follow(packets, "node", "interface", "direction", "answered") == [
        ("a", "a-eth0", "in", 5),
        ("a", "a-eth0", "out", 4),
        ("a", "a-eth0", "out", 6),
        ("a", "a-eth1", "out", None),
        ("b", "a-eth0", "out", None),
    ]


def test_a_group_answers_to_the_group(follow):
    group = {"dst": "224.0.23.170", "dst_port": 56363}
    packets = [interest("/a", 1, **group), data("/a", 5, src="10.0.0.9", src_port=7, **group)]
    assert follow(packets, "direction", "answered") == [("out", 5)]
    group = {"src": None, "dst": None, "src_port": None, "dst_port": None}
    packets = [interest("/a", 1, **group), data("/a", 5, **group)]
    assert follow(packets, "direction", "answered") == [("out", 5)]


def test_without_directions_addresses_tell_who_answers(follow):
    there = {"direction": None, "src": "10.0.0.1", "dst": "10.0.0.2"}
    back = {"direction": None, "src": "10.0.0.2", "dst": "10.0.0.1"}
    packets = [
        interest("/a", 1, **there),
        interest("/b", 1, **back),
        data("/a", 2, **there),  # goes with the Interest, not against it
        data("/a", 3, **back),
        data("/b", 4, **there),
    ]
    assert follow(packets, "direction", "name", "answered") == [(None, "/a", 3), (None, "/b", 4)]
    nobody = {"direction": None, "src": None, "dst": None, "src_port": None, "dst_port": None}
    assert follow([interest("/a", 1, **nobody), data("/a", 2, **nobody)], "answered") == [(2,)]


def test_a_lifetime_beyond_all_numbers(follow):
    assert follow([interest("/a", 5, lifetime=(1 << 63) - 1), data("/a", 9)], "answered", "expires") == [
        (9, (1 << 63) - 1)
    ]


def test_over_tcp_bytes_are_those_of_packets(follow):
    tcp = {"frame_bytes": 0, "lp_bytes": 4, "ndn_bytes": 30}
    packets = [interest("/a", 1, **tcp), data("/a", 2, **tcp)]
    assert follow(packets, "interest_bytes", "answer_bytes") == [(34, 34)]


def test_an_lli_and_the_items_of_its_range(follow):
    packets = [
        lli(3, 3, 10, frame_bytes=110),
        item(2, 11),  # before its range
        item(4, 20),
        item(4, 21),  # twice
        item(3, 25),
        item(6, 30),  # beyond its range
        item(5, 31, "out"),  # the wrong way
        item(5, 32, feed="/g"),  # of another feed
    ]
    columns = ("kind", "name", "feed", "seq", "send_credit", *SHORT[3:], "interest_bytes", "answer_bytes")
    assert follow(packets, *columns) == [
        ("lli", "/f/seq=3", "/f", 3, 3, 1, "data", 20, 10, "/f/seq=4", 2, 110, 1500)
    ]


def test_an_lli_ends_with_the_next_one_or_its_lifetime(follow):
    packets = [
        lli(1, 10, 0),
        item(1, 5),
        lli(5, 2, 10),
        item(2, 11),  # of the first one's range, which is over
        item(5, 12),
        lli(9, 4, 20, lifetime_ns=10),
        item(9, 30),  # too late
        lli(10, 0, 40),  # cancels
    ]
    assert follow(packets, "seq", "outcome", "answered", "items") == [
        (1, "data", 5, 1),
        (10, "none", None, 0),
        (5, "data", 12, 1),
        (9, "none", None, 0),
    ]


def test_an_lli_again_before_an_answer_is_a_retransmission(follow):
    packets = [
        lli(1, 4, 0),
        lli(1, 4, 10),
        item(1, 15),
        lli(1, 4, 20),  # something has come: this asks anew
        nack(lli(1, 4, 20), 21),
        lli(1, 4, 30, lifetime_ns=5),
        lli(1, 4, 40),  # too late to repeat it
        lli(1, 9, 41),  # another credit
    ]
    assert follow(packets, "time", "last", "interests", "outcome", "answered", "nack_reason", "repeats") == [
        (0, 10, 2, "data", 15, None, [(10, 100)]),
        (20, 20, 1, "nack", 21, 150, []),
        (30, 30, 1, "none", None, None, []),
        (40, 40, 1, "none", None, None, []),
        (41, 41, 1, "none", None, None, []),
    ]


def test_credit_beyond_all_numbers(follow):
    assert follow([lli(5, (1 << 63) - 1, 0), item(1 << 62, 1)], "items") == [(1,)]


# --- cut into windows -------------------------------------------------------------------------------------

DIGEST = "/sha256digest=" + "ab" * 32
NAMES = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/f/seq=1", "/f/seq=2", "/a" + DIGEST]
ENDS = st.sampled_from([{}, {}, {"direction": None}, {"dst": "224.0.23.170"}, {"interface": "a-eth1"}])
WAYS = st.sampled_from(["in", "out"])
LIVES = st.sampled_from([0, 1, 3, 20, (1 << 63) - 1, None])
ASKED = st.builds(
    lambda name, way, life, prefix, fresh, more: (
        interest(name, 0, way, life, can_be_prefix=prefix, must_be_fresh=fresh) | more
    ),
    *(st.sampled_from(NAMES), WAYS, LIVES, st.booleans(), st.booleans(), ENDS),
)
GRANTED = st.builds(
    lambda seq, credit, way, life: lli(seq, credit, 0, way, lifetime_ns=life),
    *(st.integers(1, 3), st.sampled_from([0, 1, 2, (1 << 63) - 1]), WAYS, LIVES),
)
ANSWERED = st.one_of(
    st.builds(lambda name, way, more: data(name, 0, way) | more, st.sampled_from(NAMES), WAYS, ENDS),
    st.builds(lambda seq, way: item(seq, 0, way), st.integers(1, 4), WAYS),
    st.builds(lambda of, way: nack(of, 0, way), st.one_of(ASKED, GRANTED), WAYS),
)


@pytest.mark.spark
@pytest.mark.parametrize("rows", [3, 20])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    story=st.lists(st.tuples(st.integers(0, 4), st.one_of(ASKED, GRANTED, ANSWERED)), min_size=9, max_size=60)
)
def test_shares_do_not_show(spark, monkeypatch, rows, story):
    monkeypatch.setattr(shares, "ROWS", rows)
    time, told = 0, []
    for later, packet in story:
        time += later
        told.append(packet | {"time": time})
    table = packets(*told)
    whole = frame(spark, table, PACKETS.spark)
    parted = followed(whole, nodes_of(whole), FOLLOWER)
    names = TRANSACTIONS.names
    assert columns_of(of_table(parted, "transactions", TRANSACTIONS.arrow).toArrow(), *names) == columns_of(
        follow(table), *names
    )


@pytest.mark.spark
def test_a_nack_that_carries_a_hello_is_an_event_once(spark, monkeypatch):
    """A Hello concerns all shares of a node, and nothing that only carries one does."""
    asked = interest("/a", 1) | {"hello": b"x"}
    told = packets(asked, nack(asked, 2), *(interest(f"/{place}", 3) for place in range(8)))
    found = []
    for rows in (1 << 19, 3):
        monkeypatch.setattr(shares, "ROWS", rows)
        whole = frame(spark, told, PACKETS.spark)
        events = of_table(followed(whole, nodes_of(whole), FOLLOWER), "events", EVENTS.arrow).toArrow()
        found.append(columns_of(events, "event", "name", "time"))
    assert found[0] == found[1]
    assert [event for event, _, _ in found[1]].count("nack") == 1
