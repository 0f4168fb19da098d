"""Why packets were sent, as far as a capture tells, and the columns that the page draws journeys from."""

import pyarrow as pa
import pytest
from handmade import FEED_URI
from test_report import DELIVERIES, crossed, made_manifest

from analysis.report.figures.journey import WHY, Packet, journey_data, reasons
from base.units import MS


def packet(sender, receiver, kind, seq=None, **said):
    usual = dict.fromkeys(Packet._fields) | {"feed": FEED_URI}
    return Packet(**(usual | {"sender": sender, "receiver": receiver, "kind": kind, "seq": seq} | said))


STORIES = {
    "a poll and its repetition": (
        [packet("s", "r", "interest", 1), packet("s", "r", "interest", 1), packet("s", "r", "interest", 2)],
        ["ask", "again", "ask"],
    ),
    "each link has its own past": (
        [packet("s", "r", "interest", 1), packet("r", "p", "interest", 1)],
        ["ask", "ask"],
    ),
    "an item, and once more": (
        [packet("p", "r", "data", 1), packet("p", "r", "data", 1), packet("r", "s", "data", 1)],
        ["item", "copy", "item"],
    ),
    "a subscription": (
        [
            packet("s", "r", "lli", 1, send_credit=4),
            packet("r", "s", "data", 1),
            packet("r", "s", "data", 3),
            packet("s", "r", "lli", 2, send_credit=1),  # sent before item 3, or lost
            packet("s", "r", "lli", 4, send_credit=1),  # not sent yet
            packet("s", "r", "lli", 5, send_credit=4),
            packet("s", "r", "lli", 9, send_credit=0),
            packet("s", "r", "lli", 9, send_credit=4),
        ],
        ["subscribe", "item", "item", "repair", "refresh", "grant", "cancel", "subscribe"],
    ),
    "what is about a feed": (
        [
            packet("s", "r", "interest", topic="metadata"),
            packet("r", "s", "data", topic="metadata"),
            packet("p", "r", "interest", 7, topic="notify"),
            packet("p", "r", "interest", topic="sync"),
            packet("p", "r", "interest", topic="fork"),
            packet("s", "r", "interest", is_persistent=True),
            packet("r", "s", "nack", 7),
        ],
        ["newest", "answer", "notify", "sync", "about", "hold", "nack"],
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_why_a_packet_was_sent(story):
    packets, expected = STORIES[story]
    assert [why for why, _ in reasons(iter(packets))] == expected
    assert {*expected} <= {*WHY}


def test_a_feed_state_says_its_feed():
    told = reasons(iter([packet("r", "s", "idle", feed="a"), packet("s", "r", "idle", feed="b")]))
    assert list(told) == [("state", "a"), ("state", "b")]


def test_the_columns_hold_every_packet_and_delivery():
    usual = {"kind": "data", "feed": FEED_URI, "seq": 1}
    rows = crossed(
        usual | {"sender": "p", "receiver": "r", "sent": 100 * MS, "received": 110 * MS},
        usual | {"sender": "r", "receiver": "s", "sent": 110 * MS + 999, "received": None},
        usual | {"sender": "p", "receiver": "r", "sent": 120 * MS, "feed": "/cross"},
        {
            "sender": "s",
            "receiver": "r",
            "kind": "lli",
            "feed": FEED_URI,
            "seq": 2,
            "send_credit": 5,
            "sent": 130 * MS,
        },
    )
    delivered = pa.Table.from_pylist(
        [
            {
                "layering": "lli",
                "node": "s",
                "feed": FEED_URI,
                "seq": 1,
                "published": 100 * MS,
                "delivered": 150 * MS,
            }
        ],
        DELIVERIES,
    )
    told = journey_data(rows, delivered, made_manifest())
    keys = list(WHY)
    assert told["nodes"] == ["p", "r", "s"]
    assert told["paths"] == {"0/2": [0, 1, 2]}
    of = told["layerings"]["lli"]
    assert of["packets"] == {
        "t": [100_000, 10_000, 20_000],  # the cross traffic is left out
        "d": [10_000, -1, -1],
        "a": [0, 1, 2],
        "b": [1, 2, 1],
        "w": [keys.index("item"), keys.index("item"), keys.index("subscribe")],
        "f": [0, 0, 0],
        "s": [1, 1, 2],
        "c": [0, 0, 5],
        "p": [],
        "l": [],
    }
    assert of["items"] == {"f": [0], "s": [1], "n": [2], "p": [100_000], "d": [150_000]}
    assert (of["end"], of["last"]) == (500_000, 1)
    assert told["layerings"]["poll"]["packets"]["t"] == []
