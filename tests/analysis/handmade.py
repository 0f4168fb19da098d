"""A run small enough to follow by hand: publisher p, forwarder r, subscriber s in a row, three items.

    python tests/analysis/handmade.py DIRECTORY

writes it, to look at the report. Every hop takes 10 ms. Item n exists at n * 100 ms; item 2 takes two
fragments. Under `poll` the subscriber asks 50 ms ahead for items 1 and 2, and 30 ms late for item 3; under
`lli` it asks once at time 0, with credit 3. What each node's PIT holds, and so its counters, is written
down below from that story, not computed by the code under test.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pcapng_oracle

from analysis.run.manifest import Run
from base.units import MS
from captures.formats.pcapng import Direction, Interface, Writer
from captures.layers.frames import udp_frame
from forwarder.wire.feed import item_name, native_content
from forwarder.wire.lp import make_lp
from forwarder.wire.name import component, to_uri
from forwarder.wire.packet import make_data, make_interest
from testbed.experiment.files import CAPTURE, COUNTERS, EVENTS, sealed

HOP = 10 * MS
END = 500 * MS
TIMES = {
    "start_ns": 0,
    "first_ns": 100 * MS,
    "last_ns": 300 * MS,
    "settle_ns": 300 * MS,
    "stop_ns": 450 * MS,
    "end_ns": END,
}
FEED = component(8, b"demo") + component(8, bytes(range(32)))
FEED_URI = to_uri(FEED)
NAME_LENGTH = len(FEED) + 3
PAYLOADS = (100, 1600, 200)
INTERFACES = ("p-eth0", "r-eth0", "r-eth1", "s-eth0")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.5", "10.0.0.6")
UP = {"s": ("s-eth0", "r-eth1"), "r": ("r-eth0", "p-eth0")}
DOWN = {"p": ("p-eth0", "r-eth0"), "r": ("r-eth1", "s-eth0")}


class Held(NamedTuple):
    """An entry in a node's PIT from `opened` to `closed` (ns), of `size` bytes."""

    node: str
    opened: int
    closed: int
    size: int


class Story:
    """What happens under one layering."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str, str, bytes]] = []
        self.held: list[Held] = []
        self.events: list[dict[str, Any]] = []
        self.note(0, "s", "joined", 0, 0)

    def note(self, time: int, node: str, event: str, seq: int, size: int) -> None:
        """Note an event."""
        row = {"time": time, "node": node, "event": event, "feed": FEED_URI, "seq": seq, "bytes": size}
        self.events.append(row)

    def ask(self, time: int, interest: bytes) -> int:
        """Send an Interest from s to p; return when it arrives."""
        for node in ("s", "r"):
            self.sent.append((time, *UP[node], interest))
            time += HOP
        return time

    def answer(self, time: int, seq: int) -> int:
        """Send item `seq` from p to s; return when it arrives."""
        content = native_content(b"" if seq == 1 else bytes(32), bytes(PAYLOADS[seq - 1]))
        packet = make_data(item_name(FEED, seq), content)
        frames = [packet]
        if len(packet) > 1400:
            halves = packet[:1000], packet[1000:]
            frames = [
                make_lp(half, sequence=7 + k, frag_index=k, frag_count=2) for k, half in enumerate(halves)
            ]
        for node in ("p", "r"):
            self.sent += [(time, *DOWN[node], frame) for frame in frames]
            time += HOP
        return time

    def deliver(self, published: int, delivered: int, seq: int) -> None:
        """Note the events of an item."""
        self.note(published, "p", "published", seq, PAYLOADS[seq - 1])
        self.note(delivered, "s", "delivered", seq, PAYLOADS[seq - 1])


def poll() -> Story:
    """One Interest an item."""
    story = Story()
    for seq, ahead in ((1, 50 * MS), (2, 50 * MS), (3, -30 * MS)):
        published = seq * 100 * MS
        asked = published - ahead
        there = story.ask(asked, make_interest(item_name(FEED, seq), nonce=seq, lifetime_ms=400, hop_limit=9))
        answered = max(there, published)
        story.deliver(published, story.answer(answered, seq), seq)
        story.held += [
            Held("s", asked, answered + 2 * HOP, NAME_LENGTH + 16),
            Held("r", asked + HOP, answered + HOP, NAME_LENGTH + 32),
            Held("p", there, answered, NAME_LENGTH + 16),
        ]
    return story


def lli() -> Story:
    """One LLI for all three."""
    story = Story()
    story.ask(0, make_interest(item_name(FEED, 1), nonce=9, lifetime_ms=60_000, hop_limit=9, send_credit=3))
    for seq in (1, 2, 3):
        published = seq * 100 * MS
        story.deliver(published, story.answer(published, seq), seq)
    story.held = [
        Held("s", 0, published + 2 * HOP, len(FEED) + 28),
        Held("r", HOP, published + HOP, len(FEED) + 56),
        Held("p", 2 * HOP, published, len(FEED) + 28),
    ]
    return story


STORIES = {"poll": poll, "lli": lli}


def frame(source: str, target: str, payload: bytes) -> bytes:
    """Return the Ethernet frame from one interface to another."""
    macs = [bytes((2, 0, 0, 0, 0, n)) for n in range(4)]
    a, b = INTERFACES.index(source), INTERFACES.index(target)
    return udp_frame(macs[a], macs[b], ADDRESSES[a], ADDRESSES[b], 6363, 6363, payload)


def write_capture(path: Path, story: Story) -> int:
    """Write a story's capture; return its number of frames."""
    seen = []
    for order, (time, source, target, payload) in enumerate(story.sent):
        seen.append((time, order, source, Direction.OUT, frame(source, target, payload)))
        seen.append((time + HOP, order, target, Direction.IN, frame(source, target, payload)))
    # At one instant a node has received before it sends.
    seen.sort(key=lambda row: (row[0], row[3] != Direction.IN, row[1]))
    with path.open("wb") as file:
        writer = Writer(file, [Interface(name) for name in INTERFACES], application="test")
        for time, _, interface, direction, content in seen:
            writer.write(INTERFACES.index(interface), time, content, direction)
    return len(seen)


def counters(story: Story) -> list[dict[str, Any]]:
    """Return samples of every node's PIT, each 5 ms."""
    rows = []
    for time in range(0, END, 5 * MS):
        for node in "prs":
            sizes = [h.size for h in story.held if h.node == node and h.opened <= time < h.closed]
            pit = {"entries": len(sizes), "bytes": sum(sizes)}
            rows.append({"time": time, "node": node, "state": {"pit": pit}})
    return rows


def write_run(directory: Path) -> None:
    """Write the run directory."""
    runs = {}
    for layering, tell in STORIES.items():
        story = tell()
        where = directory / layering
        where.mkdir(parents=True)
        frames = write_capture(where / "capture.pcapng", story)
        for name, rows in (("events", story.events), ("counters", counters(story))):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (where / f"{name}.jsonl").write_text(text, encoding="utf-8")
        runs[layering] = {
            **TIMES,
            "sample_interval_ns": 5 * MS,
            "capture": {"frames": frames, "dropped": 0},
        }
    for name in ("scenario.json", "feed.jsonl"):
        (directory / name).touch()
    (directory / "manifest.json").write_text(json.dumps(manifest(runs)), encoding="utf-8")
    seal(directory)


def seal(directory: Path) -> None:
    """Write the sizes and digests of a run's files into its manifest, as when a run ends."""
    path = directory / "manifest.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(told | {"files": sealed(directory, told["runs"])}), encoding="utf-8")


def manifest(runs: dict[str, Any]) -> dict[str, Any]:
    """Return the run's manifest."""
    roles = {"p": "publisher", "r": "forwarder", "s": "subscriber"}
    return {
        "format": 2,
        "feednet": "0.1.0",
        "scenario": "handmade",
        "title": "Three items by hand",
        "seed": 1,
        "net": "emulated",
        "net_reason": "asked for",
        "impairment": "emulated",
        "created": None,
        "layerings": list(STORIES),
        "parameters": {"poll": {"window": 1}, "lli": {"credit": 3}},
        "workload": {
            "source": "generated",
            "items": 3,
            "subscribers": 1,
            "feeds": [{"feed": FEED_URI, "publisher": "p", "items": 3}],
            "expected": {"s": 3},
        },
        "topology": {
            "nodes": [{"name": name, "role": role} for name, role in roles.items()],
            "links": [
                {"a": "p", "b": "r", "delay_ms": 10, "interface_a": "p-eth0", "interface_b": "r-eth0"},
                {"a": "r", "b": "s", "delay_ms": 10, "interface_a": "r-eth1", "interface_b": "s-eth0"},
            ],
        },
        "timeline": [{"time_ns": 150 * MS, "event": "link-down", "link": "r--s"}],
        "software": {},
        "runs": runs,
        "files": {
            f"{layering}/{name}": {"bytes": 0, "sha256": ""}
            for layering in STORIES
            for name in (CAPTURE, EVENTS, COUNTERS)
        },
    }


if __name__ == "__main__":
    write_run(Path(sys.argv[1]))


def without_keys(run, directory, layering):
    """Copy a run, without its key log and the block of it in the capture."""
    shutil.copytree(run.directory, directory)
    (directory / layering / "keys.log").unlink()
    path = directory / layering / "capture.pcapng"
    path.write_bytes(pcapng_oracle.without_secrets(path.read_bytes()))
    manifest = json.loads((directory / "manifest.json").read_text())
    del manifest["files"][f"{layering}/keys.log"]
    (directory / "manifest.json").write_text(json.dumps(manifest))
    seal(directory)
    return Run(directory)
