"""What the analysis says was lost, and when packets arrived, against the emulator, which has decided it.

The analysis sees captures only: a frame where it is sent, and where it arrives, if it does. Here the
emulator's pipes tell the fate of each frame; from that follow arrivals, losses, recovery and duplicates.
"""

import random
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from pandas_packets import frames, packets
from short_runs import emulate

from analysis.decode.reading import SIGHTINGS
from analysis.pipelines.run import analyze
from analysis.run.context import Case
from analysis.run.manifest import Run
from analysis.spark.batch_reader import readings
from analysis.spark.capture_source import read_captures
from analysis.spark.engine import frame
from analysis.tables.link_frames import link_frames
from analysis.tables.link_transits import link_ends
from topologies.emulator import network
from topologies.model import Link
from topologies.pipe import Arrival, Pipe, pipe_rng

pytestmark = [pytest.mark.spark, pytest.mark.patches]  # TellingPipe stands for Pipe

SEEDS = (3, 4)
LAYERINGS = ("poll", "lli", "lli-selective")
SCENARIO = """
title = "Two ways, both of which lose and let overtake"
layerings = ["poll", "lli", "lli-selective"]
seed = 1
settle_ms = 6000
publisher = "p"
subscribers = ["s1", "s2"]

[topology]
links = [
    { a = "p", b = "r1" },
    { a = "r1", b = "r2", max_queue_size = 4, bw_mbit = 1.0 },
    { a = "r2", b = "s1" },
    { a = "r2", b = "s2", delay_ms = 20.0 },
]

[topology.link]
bw_mbit = 10.0
delay_ms = 8.0
jitter_ms = 4.0
loss_percent = 6.0

[workload]
items = 40

[workload.schedule]
speed = 1500000.0
idle_limit_ms = 30.0
"""


class TellingPipe(Pipe):
    """A pipe that keeps what became of each frame: the times at which it arrived."""

    __slots__ = ("fates",)
    made: ClassVar[list[tuple[str, str, "TellingPipe"]]] = []
    way: ClassVar[tuple[str, str]]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.fates: list[tuple[int, ...]] = []
        self.made.append((*self.way, self))

    def send(self, now_ns: int, frame: bytes) -> tuple[Arrival, ...]:
        arrivals = super().send(now_ns, frame)
        self.fates.append(tuple(time for time, _ in arrivals))
        return arrivals


def telling_rng(seed: int, link: Link, sender: str, receiver: str) -> random.Random:
    TellingPipe.way = sender, receiver
    return pipe_rng(seed, link, sender, receiver)


def truth(run: Run, layering: str, pipes: list[tuple[str, str, TellingPipe]]) -> list[dict[str, Any]]:
    """Return every packet sent, with its sender, receiver, and when it had arrived whole, None if never."""
    ends = {}
    for link in run.manifest.topology.links:
        ends[link.interface_a] = link.a, link.b, link
        ends[link.interface_b] = link.b, link.a, link
    table = frames(run.capture(layering))
    sent = table[table["direction"] == "out"]
    fate: dict[int, tuple[int, ...]] = {}
    for sender, receiver, pipe in pipes:
        [interface] = [name for name, (a, b, _) in ends.items() if (a, b) == (sender, receiver)]
        fate |= dict(zip(sent[sent["interface"] == interface]["frame"], pipe.fates, strict=True))
    last = run.manifest.runs[layering].end_ns
    rows = []
    for packet in packets(sent, {}):
        sender, receiver, link = ends[packet["interface"]]
        arrivals = [fate[number] for number in packet["pieces"]]
        came = max(max(times, default=last + 1) for times in arrivals)
        about = {"sender": sender, "receiver": receiver, "link": link}
        rows.append(packet | about | {"received": came if came <= last else None})
    return rows


def items(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == "data" and row["feed"] is not None]


def lost(rows: list[dict[str, Any]]) -> Counter:
    """Return of items that were missed: sender, receiver, seq, when it was due, how long until it came."""
    came: dict[Any, int] = {}
    missed: dict[Any, tuple[int, int, str]] = {}
    for row in items(rows):
        place, link = (row["receiver"], row["seq"]), row["link"]
        if row["received"] is not None:
            came[place] = min(row["received"], came.get(place, row["received"]))
            continue
        sending = round(row["frame_bytes"] * 8000 / link.bw_mbit)
        due = row["time"] + round(link.delay_ms * 1e6) + sending
        missed[place] = min(missed.get(place, (1 << 62, 0, "")), (row["time"], due, row["sender"]))
    return Counter(
        (sender, receiver, seq, due, came[receiver, seq] - due if (receiver, seq) in came else None)
        for (receiver, seq), (_, due, sender) in missed.items()
        if (receiver, seq) not in came or came[receiver, seq] > due
    )


def unclear(rows: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """Return the items (receiver, seq) of which a capture does not tell when they were lost.

    Two equal packets of it are under way on one link at once, the later is lost, and the earlier arrives when
    the later might have. (The pipe's queue was full: who replayed every queue, frame by frame, could tell.)
    """
    found = set()
    for earlier, later in permutations(items(rows), 2):
        same = all(earlier[x] == later[x] for x in ("sender", "receiver", "name", "frame_bytes"))
        if same and earlier["time"] < later["time"] and earlier["received"] and not later["received"]:
            link = later["link"]
            if earlier["received"] >= later["time"] + round((link.delay_ms - link.jitter_ms) * 1e6):
                found.add((later["receiver"], later["seq"]))
    return found


def duplicates(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Return how many items arrived, and how many of them where they had been."""
    arrived = [(row["receiver"], row["seq"]) for row in items(rows) if row["received"] is not None]
    return len(arrived), len(arrived) - len(set(arrived))


@pytest.fixture(scope="module")
def told(spark, tmp_path_factory):
    """Of each seed and layering: the truth, and the tables."""
    directory = tmp_path_factory.mktemp("truth")
    (directory / "two.toml").write_text(SCENARIO)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "Pipe", TellingPipe)
        patch.setattr(network, "pipe_rng", telling_rng)
        for seed in SEEDS:
            TellingPipe.made = []
            run = emulate(directory / str(seed), str(directory / "two.toml"), seed=seed)
            count = 2 * len(run.manifest.topology.links)
            for number, layering in enumerate(run.manifest.layerings):
                pipes = TellingPipe.made[number * count : (number + 1) * count]
                found[seed, layering] = truth(run, layering, pipes), run.tables
            analyze(run.directory)
    return found


def table(directory: Path, name: str, layering: str) -> list[dict[str, Any]]:
    rows = pq.read_table(directory / f"{name}.parquet").to_pylist()
    return [row for row in rows if row["layering"] == layering]


CASES = pytest.mark.parametrize("case", [(seed, x) for seed in SEEDS for x in LAYERINGS], ids=str)


FRAMES = """
title = "Bursts, frames that overtake, and copies"
layerings = ["append-poll", "lli"]
seed = 1
settle_ms = 6000
publisher = "p"
subscribers = ["s"]

[topology]
links = [
    { a = "p", b = "r", loss_percent = 4.0, loss_burst = 3.0, bw_mbit = 5.0 },
    { a = "r", b = "s", reorder_percent = 15.0, duplicate_percent = 20.0 },
]

[topology.link]
delay_ms = 8.0

[workload]
items = 400

[workload.schedule]
speed = 1500000.0
idle_limit_ms = 10.0
"""


def fates_counted(pipe: TellingPipe, last: int) -> dict[str, int]:
    """Count what a pipe has done, up to the last moment of a capture."""
    fates = [[time for time in fate if time <= last] for fate in pipe.fates]
    came = [min(fate) for fate in fates if fate]
    lost = "".join("." if fate else "x" for fate in fates)
    return {
        "frames": len(fates),
        "lost": lost.count("x"),
        "loss_runs": len(lost.replace(".", " ").split()),
        "arrived": len(came),
        "overtook": sum(time < max(came[: place + 1]) for place, time in enumerate(came)),
        "twice": sum(len(fate) > 1 for fate in fates),
    }


def test_what_links_did_to_frames(spark, tmp_path):
    """Of every protocol, frame by frame; and what was set, in frames."""
    (tmp_path / "frames.toml").write_text(FRAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "Pipe", TellingPipe)
        patch.setattr(network, "pipe_rng", telling_rng)
        TellingPipe.made = []
        run = emulate(tmp_path / "run", str(tmp_path / "frames.toml"))
    pipes = iter(TellingPipe.made)
    cases = {layering: Case(run, layering) for layering in run.manifest.layerings}
    captures = {name: str(run.capture(name)) for name in cases}
    sightings = read_captures(spark, readings(captures, 2), SIGHTINGS)
    found = link_frames(sightings, frame(spark, link_ends(cases)), cases)
    rows = {(row["layering"], row["sender"], row["receiver"]): row for row in found.to_pylist()}
    for layering in run.manifest.layerings:
        every: Counter[str] = Counter()
        for _ in range(4):
            sender, receiver, pipe = next(pipes)
            wanted = fates_counted(pipe, run.manifest.runs[layering].end_ns)
            row = rows.pop((layering, sender, receiver))
            assert {what: row[what] for what in wanted} == wanted, (layering, sender, receiver)
            lossy = {sender, receiver} == {"p", "r"}
            assert row["set_lost"] == pytest.approx(0.04 * row["frames"] * lossy)
            assert row["set_loss_runs"] == pytest.approx(row["set_lost"] / 3)
            assert row["set_overtook"] == pytest.approx(0.15 * row["arrived"] * (not lossy))
            assert row["set_twice"] == pytest.approx(0.2 * row["arrived"] * (not lossy))
            every.update(wanted)
        row = rows.pop((layering, "*", "*"))
        assert {what: row[what] for what in every} == every
        assert all(every.values())
    assert not rows


@CASES
def test_arrivals_and_losses_of_packets(told, case):
    rows, tables = told[case]
    kinds = ("interest", "lli", "data", "nack")
    ours = Counter(
        (row["sender"], row["receiver"], row["kind"], row["seq"], row["received"])
        for row in table(tables, "transits", case[1])
        if row["kind"] in kinds
    )
    theirs = Counter(tuple(row[x] for x in ("sender", "receiver", "kind", "seq", "received")) for row in rows)
    assert ours == theirs
    assert sum(row["received"] is None for row in rows) > 5
    assert any(len(row["pieces"]) > 1 for row in rows)


@CASES
def test_items_lost_and_when_they_came_all_the_same(told, case):
    rows, tables = told[case]
    skipped = unclear(rows)
    wanted = Counter({key: count for key, count in lost(rows).items() if key[1:3] not in skipped})
    names = ("sender", "receiver", "seq", "lost", "recovery_ns")
    told_lost = [tuple(row[x] for x in names) for row in table(tables, "losses", case[1])]
    assert Counter(row for row in told_lost if row[1:3] not in skipped) == wanted
    assert wanted
    assert len(skipped) < len(wanted) / 4


@CASES
def test_which_sending_it_was_that_arrived(told, case):
    """With two equal packets under way at once, this holds as long as neither overtakes the other."""
    rows, tables = told[case]
    skipped = unclear(rows)
    names = ("sender", "receiver", "seq", "time", "received")
    theirs = Counter(tuple(row[x] for x in names) for row in items(rows))
    crossed = [row | {"time": row["sent"]} for row in table(tables, "transits", case[1])]
    ours = Counter(
        tuple(row[x] for x in names)
        for row in crossed
        if row["kind"] == "data" and row["feed"] is not None and row["topic"] is None
    )
    differs = (ours - theirs) + (theirs - ours)
    assert {row[1:3] for row in differs} <= skipped


@CASES
def test_duplicates(told, case):
    rows, tables = told[case]
    [row] = table(tables, "copies", case[1])
    assert (row["arrived"], row["duplicates"]) == duplicates(rows)


def test_there_are_duplicates(told):
    assert any(duplicates(rows)[1] for rows, _ in told.values())
