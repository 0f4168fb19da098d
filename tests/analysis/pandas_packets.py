"""A capture of feednet's as a pandas table, by other people's code: Scapy reads the file, python-ndn TLV.

Nothing here imports feednet: what the analysis reads with its own decoders is held against this. Of packets
it knows what runs hold: UDP over IPv4, Interests, LLIs, persistent Interests, Data, Nacks, FeedStates,
Hellos, NDNLPv2 fragments.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from ndn.encoding import Component, Name, parse_tl_num
from scapy.utils import RawPcapNgReader

HEADERS = 14 + 20 + 8  # Ethernet, IPv4 without options, UDP


def elements(wire: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (type, value) of the TLV elements in `wire`."""
    at = 0
    while at < len(wire):
        kind, used = parse_tl_num(wire, at)
        size, more = parse_tl_num(wire, at + used)
        at += used + more + size
        yield kind, bytes(wire[at - size : at])


def number(value: bytes | None, default: int | None = None) -> int | None:
    """Return a NonNegativeInteger."""
    return default if value is None else int.from_bytes(value, "big")


@cache
def network_packet(packet: bytes) -> dict[str, Any]:
    """Return what a whole Interest or Data says; `name` is a tuple of components."""
    [(kind, value)] = elements(packet)
    said: dict[int, bytes] = {}
    for each, inner in elements(value):
        said.setdefault(each, inner)
    name = tuple(map(bytes, Name.decode(value)[0]))
    row: dict[str, Any] = {"name": name, "feed": None, "seq": None, "kind": "data"}
    row["content"] = len(said.get(0x15, b"")) if kind == 6 else 0
    is_numbered = Component.get_type(name[-1]) == 58 and len(name) > 1
    if is_numbered and Component.get_type(name[-2]) == 8 and len(Component.get_value(name[-2])) == 32:
        row |= {"feed": Name.to_str(name[:-1]), "seq": number(bytes(Component.get_value(name[-1])))}
    if kind == 5:
        row |= {
            "kind": "lli" if 0xF0 in said else "interest",
            "can_be_prefix": 0x21 in said,
            "must_be_fresh": 0x12 in said,
            "nonce": number(said[0x0A]),
            "lifetime": number(said.get(0x0C), 4000) * 1_000_000,
            "hop_limit": number(said.get(0x22)),
            "credit": number(said.get(0xF0)),
            "persistent": said.get(0xFA) == b"",
        }
    return row


@cache
def link_packet(payload: bytes) -> dict[str, Any]:
    """Return what NDNLPv2 says around a packet or a piece of one: `piece`, its place, whether it is of a
    Nack, and whether it `asks`: begins an Interest or LLI that is not one's; and what it tells of
    feeds: `state`, `evidence` of a FeedState, `hello`."""
    lp: dict[int, bytes] = {0x50: payload}
    if payload[0] == 0x64:
        lp = dict(elements(next(elements(payload))[1]))
    piece, index = lp.get(0x50, b""), number(lp.get(0x52), 0)
    return {
        "piece": piece,
        "index": index,
        "count": number(lp.get(0x53), 1),
        "first": number(lp.get(0x51), 0) - number(lp.get(0x52), 0),
        "nacked": 0x0320 in lp,
        "state": lp.get(0x0370),
        "evidence": dict(elements(lp.get(0x0370, b""))).get(0x0374),
        "hello": lp.get(0x0378),
        "asks": piece[:1] == b"\x05" and index == 0 and 0x0320 not in lp,
    }


def frames(capture: Path) -> pd.DataFrame:
    """Return a row a frame: frame, time (ns), interface, direction, frame_bytes, and those of link_packet."""
    rows = []
    for place, (frame, about) in enumerate(RawPcapNgReader(str(capture)), start=1):
        time = (about.tshigh << 32 | about.tslow) * (1_000_000_000 // about.tsresol)
        way = {1: "in", 2: "out"}[about.direction]
        rows.append((place, time, about.ifname.decode(), way, about.wirelen, frame[HEADERS:]))
    table = pd.DataFrame(rows, columns=["frame", "time", "interface", "direction", "frame_bytes", "payload"])
    assert (table["time"].dtype, table["frame_bytes"].dtype) == ("int64", "int64")
    links = pd.DataFrame([link_packet(payload) for payload in table["payload"]])
    return table.join(links)


def packets(table: pd.DataFrame, breaks: dict[str, list[int]]) -> list[dict[str, Any]]:
    """Return the whole packets among frames, each when its last piece is there, as dicts of the fields above.

    `breaks` are the times at which an interface forgets what pieces it has.
    """
    held: dict[Any, dict[int, Any]] = {}
    whole = []
    for row in table.to_dict("records"):
        if not row["piece"]:
            continue
        era = sum(time <= row["time"] for time in breaks.get(row["interface"], []))
        pieces = {row["index"]: row}
        if row["count"] > 1:
            place = (row["interface"], row["direction"], era, row["first"], row["count"])
            pieces = held.setdefault(place, {})
            if row["index"] in pieces:
                continue
            pieces[row["index"]] = row
        if len(pieces) == row["count"]:
            packet = network_packet(b"".join(pieces[index]["piece"] for index in range(row["count"])))
            packet = packet | {"evidence": pieces[0]["evidence"]}
            about = {key: row[key] for key in ("frame", "time", "interface", "direction")}
            if pieces[0]["nacked"]:
                packet = packet | {"kind": "nack"}
            sizes = {
                "pieces": [piece["frame"] for piece in pieces.values()],
                "ndn_bytes": sum(len(piece["piece"]) for piece in pieces.values()),
                "frame_bytes": sum(piece["frame_bytes"] for piece in pieces.values()),
            }
            whole.append(packet | about | sizes)
    return whole


def standing(value: bytes) -> dict[str, Any]:
    """Return what a Hello says of a grant: the feed's reference, `there` if there is one, and `evidence`."""
    said = dict(elements(value[8:]))
    return {"reference": value[:8], "there": 0xB0 in said, "evidence": said.get(0xB4)}


def notices(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the FeedStates without Data and the Hellos among frames, as dicts.

    A `state` has name, evidence and first; a `hello` number, reply, granted, held, forgotten, and as lists of
    standing() haves and states.
    """
    rows = []
    for row in table.to_dict("records"):
        about = {key: row[key] for key in ("frame", "time", "interface", "direction")}
        if row["piece"]:
            continue
        if row["hello"] is not None:
            parts = [*elements(row["hello"])]
            said = dict(parts)
            about |= {"kind": "hello", "number": number(said.get(0xA2)), "reply": number(said.get(0xA4))}
            about |= {"granted": said.get(0xA6), "held": said.get(0xA8), "forgotten": 0xAE in said}
            for key, kind in (("haves", 0xAA), ("states", 0xAC)):
                about[key] = [standing(value) for each, value in parts if each == kind]
            rows.append(about)
        elif row["state"] is not None:
            said = dict(elements(row["state"]))
            if 0x07 in said:
                name = tuple(map(bytes, Name.decode(b"\x07" + length(said[0x07]) + said[0x07])[0]))
                about |= {"kind": "state", "name": name, "first": number(said.get(0x0373))}
                rows.append(about | {"evidence": row["evidence"]})
    return rows


def length(value: bytes) -> bytes:
    """Return the TLV-LENGTH of a value that is not long."""
    return bytes([len(value)]) if len(value) < 253 else b"\xfd" + len(value).to_bytes(2, "big")
