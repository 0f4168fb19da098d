"""Pictures of messages: who served them and what links carried, counted by hand and by a model in pandas."""

import pandas_model
import pyarrow as pa
import pytest
from short_runs import emulate
from test_replication import ADDRESSES, crossing
from test_short_runs import differences

from analysis.metrics.pictures import EVENTS, PICTURES, SHARED, SHOWN, pictures, totals
from analysis.pipelines.run import measure_cases
from analysis.run.context import NODES, Case
from analysis.spark.engine import frame
from analysis.tables.protocol_messages import SEEN

A, B = "/ssb/blobs/%AA", "/ssb/blobs/%BB"
MESSAGES = (
    "layering string, node string, interface string, direction string, kind string, name string, "
    "time long, frame long, frame_bytes long, payload_bytes long"
)
CONNECTIONS = "layering string, node string, direction string, src string, dst string"


def hop(time, sender, receiver, kind, name, size, payload=None):
    """A packet on a link, as it leaves and as it arrives."""
    for node, other, direction, at in ((sender, receiver, "out", 0), (receiver, sender, "in", 1)):
        yield "n", node, f"{node}-{other}", direction, kind, name, time + at, time + at, size, payload


@pytest.fixture(scope="module")
def traffic(spark):
    first = f"{A}/seg=0"
    messages = [
        # b asks a through r; c asks before the Data has come, and d after it: r has it in its store.
        *hop(0, "b", "r", "interest", first, 60),
        *hop(10, "r", "a", "interest", first, 60),
        *hop(20, "c", "r", "interest", first, 60),
        *hop(30, "a", "r", "data", first, 1000, 900),
        *hop(40, "r", "b", "data", first, 1000, 900),
        *hop(42, "r", "c", "data", first, 1000, 900),
        *hop(50, "d", "r", "interest", first, 60),
        *hop(60, "r", "d", "data", first, 1000, 900),
        *hop(70, "r", "d", "nack", first, 70),
        *hop(80, "a", "r", "data", "/ssb/logs/x/seq=1", 500, 400),
    ]
    blob = {"blob": B, "blob_bytes": 90, "layering": "s"}
    other = {"blob": None, "blob_bytes": 0, "layering": "s"}
    seen = [
        *(row | other for row in crossing("a", "b", 0, 80, "wants")),
        *(row | blob | {"blob_bytes": 0} for row in crossing("b", "a", 10, 70, "request")),
        *(row | blob for row in crossing("a", "b", 20, 100, "blob")),
        *(row | blob for row in crossing("b", "c", 30, 100, "blob")),
        *(row | other for row in crossing("a", "b", 40, 300, "data", "/f", 1)),
    ]
    connections = [
        ("s", node, direction, ADDRESSES[opener], ADDRESSES[to])
        for opener, to in ("ab", "bc")
        for node, direction in ((opener, "out"), (to, "in"))
    ]
    found = pictures(
        spark.createDataFrame(messages, MESSAGES),
        frame(spark, pa.Table.from_pylist(seen, SEEN)),
        spark.createDataFrame(connections, CONNECTIONS),
    )
    return found.select(*PICTURES.names).toArrow().cast(PICTURES)


def rows(table, layering):
    return {
        (row["interface"], row["picture"]): (row["frame_bytes"], row["content_bytes"], row["served_bytes"])
        for row in table.to_pylist()
        if row["layering"] == layering
    }


@pytest.mark.spark
def test_a_node_serves_what_no_packet_has_just_brought(traffic):
    assert rows(traffic, "n") == {
        ("a-r", A): (1000, 900, 900),
        ("b-r", A): (60, 0, 0),
        ("c-r", A): (60, 0, 0),
        ("d-r", A): (60, 0, 0),
        ("r-a", A): (60, 0, 0),
        ("r-b", A): (1000, 900, 0),
        ("r-c", A): (1000, 900, 0),
        ("r-d", A): (1070, 900, 900),
    }


@pytest.mark.spark
def test_a_peer_serves_what_it_sends_and_a_router_passes_it_on(traffic):
    assert rows(traffic, "s") == {
        ("a-eth0", ""): (80, 0, 0),
        ("r-eth0", ""): (80, 0, 0),
        ("b-eth0", B): (170, 90, 90),
        ("a-eth0", B): (100, 90, 90),
        ("r-eth0", B): (270, 180, 0),
    }


def told(*events):
    """Events as (time, node, event, feed, number, bytes, picture)."""
    return pa.Table.from_pylist([dict(zip(EVENTS, ("n", *each), strict=True)) for each in events])


def test_what_is_expected_and_what_came():
    events = told(
        (0, "b", "joined", "/f", 0, 0, None),
        (0, "c", "joined", "/f", 0, 0, None),
        (5_000_000, "d", "joined", "/f", 0, 0, None),
        (1_000_000, "a", SHARED, "/f", 1, 900, A),
        (9_000_000, "a", SHARED, "/f", 1, 900, A),  # a starts anew
        (2_000_000, "a", SHARED, "/f", 3, 900, B),
        (3_000_000, "b", SHOWN, "/f", 1, 900, A),
        (8_000_000, "b", SHOWN, "/f", 1, 900, A),
        (6_000_000, "d", SHOWN, "/f", 1, 900, A),
        (7_000_000, "c", SHOWN, "/f", 3, 900, B),
    )
    names = ("layering", "node", "interface", "picture", "frame_bytes", "content_bytes", "served_bytes")
    traffic = pa.Table.from_pylist(
        [
            dict(zip(names, ("n", *row), strict=True))
            for row in [
                ("a", "a-r", A, 2000, 1800, 1800),
                ("r", "r-b", A, 1000, 900, 300),
                ("b", "b-r", B, 400, 300, 300),
                ("a", "a-r", "", 100, 0, 0),
            ]
        ],
        PICTURES,
    )
    roles = [
        {"layering": "n", "node": node, "role": role} for node, role in (("r", "forwarder"), ("a", "peer"))
    ]
    found = totals(events, traffic, pa.Table.from_pylist(roles, NODES))["n"]
    assert found == {
        "pictures_share": 50.0,
        "picture_p50": 2.0,  # of 2, 1 and 5 ms
        "picture_p95": None,
        "picture_bytes": 3500 / 3,
        "picture_again": 100 * 900 / 3000,
        "picture_author_bytes": 1.0,
        "picture_from_authors": 75.0,
        "picture_from_others": 12.5,
        "picture_from_relays": 12.5,
    }


def test_without_pictures_there_is_nothing_to_say():
    assert (
        totals(told((0, "b", "joined", "/f", 0, 0, None)), PICTURES.empty_table(), NODES.empty_table()) == {}
    )


@pytest.mark.spark
def test_a_run_is_what_its_packets_say(tmp_path):
    run = emulate(tmp_path / "run", "photos", layerings=("ssb", "lli"), items=24)
    cases = {layering: Case(run, layering) for layering in run.manifest.layerings}
    measured = {
        row["layering"]: row for row in measure_cases(cases, tmp_path / "tables", engine="sail").to_pylist()
    }
    model = pandas_model.Model(run.directory, "lli").pictures()
    assert differences(measured["lli"], model, list(pandas_model.PICTURES)) == {}
    assert model["pictures_share"] == measured["ssb"]["pictures_share"] == 100
    # Peers keep what they have fetched for others, and serve it; under NDN only content stores do.
    assert measured["ssb"]["picture_from_others"] > measured["ssb"]["picture_from_relays"] == 0
    assert model["picture_from_relays"] > model["picture_from_others"] == 0
