"""Sequence charts of names: the captured packets of a name, as arrows between endpoints."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from analysis.columns.rows import grouped
from analysis.columns.values import MOST_FRAMES
from analysis.files import Rows
from analysis.packet_schema import MESSAGES
from analysis.report.capture.endpoints import Way
from analysis.report.capture.findings import NACKS
from analysis.report.figures.plot import Scene, Spec
from analysis.tables.matching import match

_ONCE = -1


Ends = tuple[str, str, str]
"""A run, and sender and receiver in it."""


def names_data(
    frames: Rows, subjects: Rows, ways: Mapping[Ends, Way], late: Mapping[Ends, int], scene: Scene
) -> Spec | None:
    """Return the data of the page's charts; None if there are none.

    `frames` has rows of captured_names.sequences in the order of time, `subjects` of its subjects; `ways`
    gives the endpoints of (layering, src, dst), `late` the minimum lag of the receiver's clock in (layering,
    sender, receiver), ns. The result has `nodes`, `words`, `kinds`, `most` and for each run its `subjects`
    (name, trouble, at and end: range of their packets) and `packets`, columns of equal length: t time sent,
    µs, and d transit time, µs, None if not captured at its destination, -1 if seen at one end only; a, b
    sender and receiver; k kind; w words; f frame and n node that captured it.
    """
    rows = grouped(frames, "layering", "subject")
    nodes: dict[str, int] = {}
    words: dict[str, int] = {}
    runs: dict[str, Spec] = {}
    for layering in scene.layerings:
        columns: dict[str, list[Any]] = {name: [] for name in "tdabkwfn"}
        listed = []
        mine = [row for row in subjects if row["layering"] == layering]
        for subject in sorted(mine, key=lambda row: (row["first"], row["name"])):
            at = len(columns["t"])
            for arrow in _arrows(rows[layering, subject["name"]], ways, late):
                columns["t"].append((arrow["sent"] - scene.runs[layering].start_ns) // 1000)
                columns["d"].append(arrow["way"])
                for name, text in (("a", "sender"), ("b", "receiver"), ("n", "node")):
                    columns[name].append(nodes.setdefault(arrow[text], len(nodes)))
                columns["k"].append(MESSAGES.index(arrow["kind"]))
                columns["w"].append(words.setdefault(arrow["words"], len(words)))
                columns["f"].append(arrow["frame"])
            if len(columns["t"]) > at:
                end = len(columns["t"])
                listed.append({"name": subject["name"], "trouble": subject["trouble"], "at": at, "end": end})
        if listed:
            runs[layering] = {"subjects": listed, "packets": columns}
    if not runs:
        return None
    return {"nodes": list(nodes), "words": list(words), "kinds": MESSAGES, "most": MOST_FRAMES, "runs": runs}


def _arrows(frames: Rows, ways: Mapping[Ends, Way], late: Mapping[Ends, int]) -> Rows:
    """Return the arrows of one chart, in sending order."""
    links: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in frames:
        links[_ends(row)].append(row)
    arrows = []
    for (src, dst), rows in links.items():
        way = ways.get((rows[0]["layering"], src, dst))
        sender, receiver = (way.sender, way.receiver) if way else (src, dst)
        shift = late.get((rows[0]["layering"], sender, receiver), 0)
        both = {row["direction"] for row in rows} >= {"out", "in"}
        asked: Counter[tuple[str, str]] = Counter()
        for row, came in _matched(rows, shift) if both else ((row, None) for row in rows):
            asked[row["kind"], row["name"]] += 1
            arrows.append(
                {
                    "sent": row["time"],
                    "way": (came - row["time"]) // 1000 if came is not None else None if both else _ONCE,
                    "sender": sender,
                    "receiver": receiver,
                    "kind": row["kind"],
                    "words": _words(row) + (", again" if asked[row["kind"], row["name"]] > 1 else ""),
                    "frame": row["frame"],
                    "node": row["node"],
                }
            )
    order = ("sent", "frame", "sender", "receiver")
    return sorted(arrows, key=lambda arrow: [arrow[name] for name in order])


def _matched(rows: Rows, shift: int) -> list[tuple[dict[str, Any], int | None]]:
    """Pair departures with arrivals, with the sender's clock `shift` ahead of the receiver's."""
    moved = [row | {"time": row["time"] + (shift if row["direction"] == "in" else 0)} for row in rows]
    moved.sort(key=lambda row: (row["time"], row["direction"] == "in", row["frame"]))
    times = [row["time"] for row in moved]
    same = ("kind", "name", "nonce", "send_credit", "nack_reason")
    keys = [tuple(row[name] for name in same) for row in moved]
    pairs = match([row["direction"] == "out" for row in moved], times, keys, 0)
    return [(moved[place], came) for place, came in pairs]


def _ends(row: dict[str, Any]) -> tuple[str, str]:
    """Return the two addresses of a frame as captured.sightings formats them."""
    src, dst = row["src"] or "?", row["dst"] or "?"
    if src != dst:
        return src, dst
    host = f"[{src}]" if ":" in src else src
    return f"{host}:{row['src_port']}", f"{host}:{row['dst_port']}"


def _words(row: dict[str, Any]) -> str:
    if row["kind"] == "lli":
        credit = row["send_credit"]
        return f"LLI ({row['seq']}, {credit})" if credit else "LLI: cancel"
    if row["kind"] == "nack":
        reason = row["nack_reason"]
        return f"Nack: {NACKS.get(reason, reason)}"
    return "Interest" if row["kind"] == "interest" else "Data"
