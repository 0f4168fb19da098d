"""A run as traces in ndnSIM's formats, for existing scripts.

Tab-separated, a header line, the columns and types of ndnSIM's L3RateTracer, AppDelayTracer and CsTracer
(https://ndnsim.net/current/metric.html). Semantics here:

- A face is a node's interface, numbered from 256 like ndnSIM's network devices. The application's face is not
  captured, so it has no rows; nor have SatisfiedInterests and TimedOutInterests, which ndnSIM reads from its
  PIT.
- An LLI counts as an Interest; a bare FeedState does not count. Sizes are of network-layer packets.
- FullDelay is from publication, or joining if later, to delivery. ndnSIM measures from the first Interest,
  which pushed items lack, and which may precede the item. LastDelay is from the node's last Interest for the
  item, if later still. RetxCount counts those Interests: 0 for a pushed item.
- HopCount counts the links of the item's path.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import pyarrow.compute as pc

from analysis.errors import AnalysisError, system_reason
from analysis.files import read_rows, whole_directory
from analysis.run.manifest import Run
from analysis.tables.latency import SUBSCRIBED

RATE = ("Time", "Node", "FaceId", "FaceDescr", "Type", "Packets", "Kilobytes", "PacketRaw", "KilobytesRaw")
DELAYS = ("Time", "Node", "AppId", "SeqNo", "Type", "DelayS", "DelayUS", "RetxCount", "HopCount")
CACHE = ("Time", "Node", "Type", "Packets")

FILES = ("rate-trace.txt", "app-delays-trace.txt", "cs-trace.txt")
PERIOD_S = 0.5
"""The averaging period, ndnSIM's own default."""

_NEW = 0.8
"""Weight of the newest period in the moving averages of packets and kilobytes, as in ndnSIM."""
_FIRST_FACE = 256
_TYPES = {
    ("interest", "in"): "InInterests",
    ("interest", "out"): "OutInterests",
    ("data", "in"): "InData",
    ("data", "out"): "OutData",
    ("nack", "in"): "InNacks",
    ("nack", "out"): "OutNacks",
}
_MESSAGES = ("layering", "node", "interface", "direction", "time", "kind", "ndn_bytes", "feed", "seq")


def export(directory: Path, target: Path, period_s: float = PERIOD_S) -> list[Path]:
    """Write the traces of an analysed run into the new directory `target`, one for each layering; return the
    files.

    Raises AnalysisError if the run has not been analysed, or `target` exists or cannot be written.
    """
    run = Run(directory)
    messages, latencies = run.tables / "messages.parquet", run.tables / "latency.parquet"
    for table in (messages, latencies):
        if not table.exists():
            raise AnalysisError(f"{table}: missing: analyse the run first (feednet report {directory})")
    written = []
    try:
        with whole_directory(target) as new:
            for layering in run.manifest.layerings:
                (new / layering).mkdir()
                only = pc.field("layering") == layering
                sent = read_rows(messages, columns=list(_MESSAGES), filters=only).to_pylist()
                late = read_rows(latencies, filters=only).to_pylist()
                rows = (
                    (RATE, rates(run, layering, sent, period_s)),
                    (DELAYS, delays(run, layering, sent, late)),
                    (CACHE, cache(run, layering, period_s)),
                )
                for name, (head, lines) in zip(FILES, rows, strict=True):
                    with (new / layering / name).open("w", encoding="utf-8") as file:
                        _write(file, head, lines)
                    written.append(target / layering / name)
    except FileExistsError as error:
        raise AnalysisError(f"{system_reason(error)}; choose another --out or remove it") from error
    except OSError as error:
        raise AnalysisError(system_reason(error)) from error
    return written


def rates(
    run: Run, layering: str, messages: Iterable[dict[str, Any]], period_s: float
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of rate-trace.txt: one for each period, face and packet type."""
    turn = run.manifest.runs[layering]
    period = round(period_s * 1e9)
    periods = -(-(turn.end_ns - turn.start_ns) // period)
    counts: defaultdict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in messages:
        kind = "interest" if row["kind"] == "lli" else row["kind"]
        what = _TYPES.get((kind, row["direction"]))
        if what is not None:
            # The last period includes its end.
            place = min((row["time"] - turn.start_ns) // period, periods - 1)
            count = counts[row["interface"], what, place]
            count[0] += 1
            count[1] += row["ndn_bytes"]
    faces = _faces(run)
    packets: defaultdict[tuple[str, str], float] = defaultdict(float)
    kilobytes: defaultdict[tuple[str, str], float] = defaultdict(float)
    for place in range(periods):
        for node, number, interface, peer in faces:
            for what in _TYPES.values():
                number_of, size = counts.get((interface, what, place), (0, 0))
                key = (interface, what)
                packets[key] = _NEW * number_of / period_s + (1 - _NEW) * packets[key]
                kilobytes[key] = _NEW * size / 1024 / period_s + (1 - _NEW) * kilobytes[key]
                face = number, f"netdev://{interface}-to-{peer}"
                amounts = packets[key], kilobytes[key], number_of, size / 1024
                yield (place + 1) * period_s, node, *face, what, *amounts


def delays(
    run: Run, layering: str, messages: Iterable[dict[str, Any]], latencies: Iterable[dict[str, Any]]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of app-delays-trace.txt: LastDelay and FullDelay of each delivery, in order of time."""
    start = run.manifest.runs[layering].start_ns
    peers = {interface: peer for _, _, interface, peer in _faces(run)}
    asked: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
    came: dict[tuple[str, str, int], tuple[int, str]] = {}
    for row in messages:
        if row["feed"] is None:
            continue
        key = (row["node"], row["feed"], row["seq"])
        if row["kind"] == "interest" and row["direction"] == "out":
            asked[key].append(row["time"])
        elif row["kind"] == "data" and row["direction"] == "in":
            arrival = (row["time"], peers.get(row["interface"], ""))
            came[key] = min(came.get(key, arrival), arrival)
    apps = {feed.feed: number for number, feed in enumerate(run.manifest.workload.feeds)}
    for row in sorted(latencies, key=lambda row: (row["delivered"], row["node"], row["feed"], row["seq"])):
        if row["purpose"] != SUBSCRIBED:
            continue
        requests = [time for time in asked[row["node"], row["feed"], row["seq"]] if time <= row["delivered"]]
        last = min([row["latency_ns"], *(row["delivered"] - time for time in requests)])
        hops = _hops(came, row["node"], row["feed"], row["seq"])
        about = (row["delivered"] - start) / 1e9, row["node"], apps.get(row["feed"], 0), row["seq"]
        for what, delay, count in (
            ("LastDelay", last, 1 if requests else 0),
            ("FullDelay", row["latency_ns"], len(requests)),
        ):
            yield *about, what, delay / 1e9, delay / 1e3, count, hops


def _hops(came: dict[tuple[str, str, int], tuple[int, str]], node: str, feed: str, seq: int) -> int:
    """Return the hop count of an item to a node, following first arrivals back to the publisher."""
    seen = {node}
    while (node, feed, seq) in came:
        node = came[node, feed, seq][1]
        if node in seen:
            break
        seen.add(node)
    return len(seen) - 1


def cache(run: Run, layering: str, period_s: float) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of cs-trace.txt from the forwarders' counters; nothing without counters."""
    import pyarrow.json

    path = run.counters(layering)
    if not path.stat().st_size:
        return
    table = pyarrow.json.read_json(path)
    if not {"cs_hits", "cs_misses"} <= {*table.column_names}:
        return
    start = run.manifest.runs[layering].start_ns
    period = round(period_s * 1e9)
    by_node: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for row in table.select(["time", "node", "cs_hits", "cs_misses"]).drop_null().to_pylist():
        # The last sample in a period represents it.
        place = -(-(row["time"] - start) // period)
        by_node[row["node"]][place] = (row["cs_hits"], row["cs_misses"])
    last = max((place for places in by_node.values() for place in places), default=0)
    so_far: dict[tuple[str, int], tuple[int, int]] = {}
    for node, places in by_node.items():
        known = places.get(0, (0, 0))
        for place in range(last + 1):
            known = places.get(place, known)
            so_far[node, place] = known
    for before, place in pairwise(range(last + 1)):
        for node in by_node:
            (hits, misses), (old_hits, old_misses) = so_far[node, place], so_far[node, before]
            for what, now, old in (("CacheHits", hits, old_hits), ("CacheMisses", misses, old_misses)):
                # A restarted node counts from 0 again.
                yield place * period_s, node, what, now - old if now >= old else now


def _faces(run: Run) -> list[tuple[str, int, str, str]]:
    """Return (node, face number, interface, peer) of every interface, by node."""
    ends = [
        end
        for link in run.manifest.topology.links
        for end in ((link.a, link.interface_a, link.b), (link.b, link.interface_b, link.a))
    ]
    faces = []
    for node in run.manifest.topology.nodes:
        own = [(interface, peer) for name, interface, peer in ends if name == node.name]
        faces += [
            (node.name, _FIRST_FACE + place, interface, peer) for place, (interface, peer) in enumerate(own)
        ]
    return faces


def _write(file: TextIO, head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    file.write("\t".join(head) + "\n")
    for row in rows:
        file.write("\t".join(f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row) + "\n")
