"""tinySSB's packets in captures: each a row that says what it is for, and all their bytes a layer."""

import zlib

import pyarrow as pa
import pytest
from crafted import Frame
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from test_batch import at_once, one_by_one

from analysis.decode.protocols.registry import PROTOCOLS
from analysis.metrics.run.tiny import commands
from analysis.packet_schema import PACKETS
from analysis.report.figures.tiny import by_party
from analysis.spark.engine import frame
from analysis.tables.overhead import overhead, traffic
from ssb.bipf import encode
from ssb.keys import Identity
from ssb.tiny.entry import first_previous, sign
from ssb.tiny.goset import GrowOnlySet, make_novelty
from ssb.tiny.isp.messages import HopNext, SubRequest, write
from ssb.tiny.vectors import Missing, make_chunk_vector, make_want

AUTHOR = Identity.from_seed(bytes(32))
KEY = bytes(range(32))


def entry(content: bytes) -> list[bytes]:
    made, chunks = sign(AUTHOR, 1, first_previous(AUTHOR.public_key), content)
    return [made.packet, *chunks]


def packets() -> list[tuple[str, bytes]]:
    """Return kinds, and a packet of each."""
    tunnel = entry(b"".join(entry(b"x" * 50)))
    return [
        ("entry", entry(b"hello")[0]),
        ("tunnel", tunnel[0]),
        ("chunk", tunnel[1]),
        ("control", entry(write(HopNext(None)))[0]),
        ("control", entry(write(SubRequest(KEY, KEY)))[0]),
        ("want", make_want(KEY, 0, [1, 2])[0]),
        ("chunk_vector", make_chunk_vector(KEY, [Missing(0, 1, 2)])[0]),
        ("novelty", make_novelty(bytes(7), KEY)),
        ("claim", GrowOnlySet("s", [KEY, AUTHOR.public_key]).beacon()[-1]),
    ]


def framed(payload: bytes) -> Frame:
    wire = bytes(Ether() / IP(src="10.0.0.1", dst="239.5.5.8") / UDP(sport=1558, dport=1558) / Raw(payload))
    return Frame(wire, len(wire), 1)


def with_crc(packet: bytes) -> bytes:
    return packet + zlib.crc32(packet).to_bytes(4)


def test_both_decoders_tell_what_each_packet_is_for() -> None:
    known = packets()
    some = [framed(with_crc(packet)) for _, packet in known]
    some += [framed(known[0][1] + b"abcd"), framed(with_crc(b"?")), framed(b"")]
    cut = framed(with_crc(known[0][1]))
    some.append(Frame(cut.octets[:90], len(cut.octets), 1))
    rows = at_once(some)
    assert rows == one_by_one(some)
    assert [row["kind"] for row in rows] == [kind for kind, _ in known] + 3 * ["malformed"] + ["other"]
    assert {row["protocol"] for row in rows} == {"tiny"}
    assert [row["carried_bytes"] for row in rows[: len(known)]] == [len(packet) + 4 for _, packet in known]
    assert rows[len(known)]["problem"] == "another CRC than tinySSB's"
    names = [row["name"] for row in rows if row["kind"] == "control"]
    written = [packet[:7].hex() for kind, packet in known if kind == "control"]
    assert names == [f"/{written[0]}/feedhopping_next", f"/{written[1]}/sub_req"]
    assert sum(row["name"] is not None for row in rows) == 2
    kinds = {row["kind"] for row in rows} - {"malformed", "other"}
    assert kinds == PROTOCOLS["tiny"].kinds.keys()


def test_a_command_may_be_called_anything() -> None:
    (row,) = at_once([framed(with_crc(entry(encode(["ISP", "a/b c"]))[0]))])
    assert row["kind"] == "control"
    assert row["name"].endswith("/unknown")


@pytest.mark.spark
def test_commands_are_counted_once_however_often_they_are_sent(spark) -> None:  # type: ignore[no-untyped-def]
    sent = [
        ("a", 5, "/01/sub_req"),
        ("p", 6, "/01/sub_req"),  # passed on
        ("a", 9, "/01/sub_req"),  # again
        ("a", 7, "/02/sub_req"),
        ("p", 8, "/03/onboard_response"),
    ]
    place = {"layering": "x", "protocol": "tiny", "kind": "control", "direction": "out"}
    rows = [place | {"node": node, "time": time, "name": name} for node, time, name in sent]
    rows += [rows[0] | {"direction": "in"}, rows[0] | {"kind": "entry", "name": None}]
    found = commands(frame(spark, pa.Table.from_pylist(rows, PACKETS))).toArrow().to_pylist()
    assert sorted((row["node"], row["command"], row["entries"], row["packets"]) for row in found) == [
        ("a", "sub_req", 2, 4),
        ("p", "onboard_response", 1, 1),
    ]
    provider, client = by_party(found)
    assert (provider["node"], provider["contracts_answered"], provider["commands"]) == ("p", 1, 1)
    assert (client["node"], client["feeds_requested"], client["packets"]) == ("a", 2, 4)


@pytest.mark.spark
def test_all_bytes_are_in_one_layer(spark) -> None:  # type: ignore[no-untyped-def]
    known = packets()
    some = [framed(with_crc(packet)) for _, packet in known] + [framed(b"bad")]
    rows = [row | {"frame_bytes": each.original} for row, each in zip(one_by_one(some), some, strict=True)]
    place = {"layering": "tiny", "node": "a", "interface": "a-eth0", "direction": "out"}
    seen = traffic(frame(spark, _table([place | row for row in rows])))
    read = frame(spark, _streams())
    found = {row["layer"]: row["bytes"] for row in overhead(seen, read).collect()}
    assert sum(found.values()) == sum(row["frame_bytes"] for row in rows)
    for kind in PROTOCOLS["tiny"].kinds:
        assert found[f"tiny {kind}"] == sum(len(packet) + 4 for what, packet in known if what == kind)


def _table(rows):  # type: ignore[no-untyped-def]
    names = [name for name in PACKETS.names if name in rows[0]]
    schema = pa.schema([PACKETS.field(name) for name in names])
    where = [("layering", pa.string())] if "layering" not in names else []
    return pa.Table.from_pylist(rows, pa.schema([*where, *schema]))


def _streams():  # type: ignore[no-untyped-def]
    names = ("layering", "node", "interface", "protocol", "layer")
    return pa.table({name: pa.array([], pa.string()) for name in names} | {"bytes": pa.array([], pa.int64())})
