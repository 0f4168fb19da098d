"""Tables of network-layer packets, written by hand."""

import pyarrow as pa

from analysis.spark.engine import frame
from analysis.tables.schema import PACKETS

_USUAL = {
    "layering": "x",
    "node": "a",
    "interface": "a-eth0",
    "src": "10.0.0.1",
    "dst": "10.0.0.2",
    "src_port": 6363,
    "dst_port": 6363,
    "frag_index": 0,
    "frag_count": 1,
    "frame_bytes": 100,
    **dict.fromkeys(("eth_bytes", "ip_bytes", "udp_bytes", "lp_bytes"), 0),
    "ndn_bytes": 60,
}


def packets(*rows):
    """Return packets as analysis.tables.reassembly gives them, numbered as they stand here. What comes in has
    its addresses the other way round, if it does not give any."""
    table = []
    assert rows
    for number, row in enumerate(rows, 1):
        turned = {"src": "10.0.0.2", "dst": "10.0.0.1"} if row.get("direction") == "in" else {}
        whole = {"frame": number} | _USUAL | turned | row
        table.append({name: whole.get(name) for name in PACKETS.names})
    # What analysis.tables.reassembly makes of whole packets, less what is about fragments.
    return pa.Table.from_pylist(table, PACKETS.arrow)


def messages(spark, *rows):
    """Return the same as a DataFrame."""
    return frame(spark, packets(*rows), PACKETS.spark)


def interest(name, time, direction="out", lifetime=4000, **fields):
    """Return an Interest."""
    return {
        "kind": "interest",
        "name": name,
        "time": time,
        "direction": direction,
        "lifetime_ns": lifetime,
        "can_be_prefix": False,
        "must_be_fresh": False,
        "nonce": time,
    } | fields


def lli(seq, credit, time, direction="out", feed="/f", **fields):
    """Return a long-lived Interest."""
    own = {"kind": "lli", "feed": feed, "seq": seq, "send_credit": credit}
    return interest(f"{feed}/seq={seq}", time, direction) | own | fields


def nack(of, time, direction="in", reason=150):
    """Return the Nack of an Interest."""
    return of | {"kind": "nack", "time": time, "direction": direction, "nack_reason": reason}


def data(name, time, direction="in", **fields):
    """Return Data."""
    return {"kind": "data", "name": name, "time": time, "direction": direction, "frame_bytes": 500} | fields


def item(seq, time, direction="in", feed="/f", **fields):
    """Return an item of a feed."""
    return data(f"{feed}/seq={seq}", time, direction, feed=feed, seq=seq) | fields


def rows(table, *columns):
    """Return some of a table's columns as sorted tuples."""
    return sorted(map(tuple, table.select(*columns).collect()), key=repr)
