import io
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datagrams import parse_udp
from network_box import box, why_not
from patience import PATIENCE_S
from pcapng_oracle import Packet, read, statistics
from recorder_drill import payload

from captures.formats.pcapng import Direction, Interface, Writer
from captures.network import recorder
from captures.network.clock import Clock
from captures.network.recorder import RecorderError, Recording, Spec, load
from captures.network.ring import Frame

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
DATAGRAMS, LAST_BURST = 2000, 40


def spec(directory: Path, **changes: Any) -> Path:
    """Write a spec that captures this namespace's loopback."""
    tap = {"name": "lo", "description": "node a to a", "ipv4": "127.0.0.1/8", "netns": "/proc/self/ns/net"}
    content = {"output": str(directory / "capture.pcapng"), "application": "test", "interfaces": [tap]}
    path = directory / "spec.json"
    path.write_text(json.dumps({**content, **changes}))
    return path


# --- with real interfaces ---


@pytest.mark.mininet
@pytest.mark.parametrize(
    ("rootless", "way"), [(False, "signal"), (True, "signal"), (True, "eof")], ids=["root", "rootless", "eof"]
)
def test_every_frame_is_captured_up_to_the_stop(tmp_path: Path, rootless: bool, way: str) -> None:
    if reason := why_not(rootless):
        pytest.skip(reason)
    drill = [
        str(Path(__file__).with_name("recorder_drill.py")),
        str(tmp_path),
        str(DATAGRAMS),
        str(LAST_BURST),
        way,
    ]
    command = box(sys.executable, *drill, rootless=rootless)
    done = subprocess.run(
        command, capture_output=True, check=False, text=True, env=ENVIRONMENT, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    counts = json.loads(done.stdout)

    capture = tmp_path / "capture.pcapng"
    packets = list(read(capture))
    assert counts["dropped"] == 0
    assert counts["frames"] == len(packets)
    assert [each.time for each in packets] == sorted(each.time for each in packets)
    expected = {
        "a": [payload("a", number) for number in range(DATAGRAMS + LAST_BURST)],
        "b": [payload("b", number) for number in range(DATAGRAMS)],
    }
    for name, outward, inward in (("a-eth0", "a", "b"), ("b-eth0", "b", "a")):
        here = [each for each in packets if each.interface.name == name]
        assert counts["interfaces"][name] == {"frames": len(here), "dropped": 0}
        assert list(payloads(here, Direction.OUT)) == expected[outward]
        assert list(payloads(here, Direction.IN)) == expected[inward]
        assert all(each.original_length == len(each.frame) for each in here)
    described = [each.interface for each in statistics(capture)]
    assert described == [
        Interface("a-eth0", "node a to b", "10.0.0.1/30"),
        Interface("b-eth0", "node b to a", "10.0.0.2/30"),
    ]
    for each in statistics(capture):
        assert (each.received, each.dropped) == (counts["interfaces"][each.interface.name]["frames"], 0)
        assert each.time >= packets[-1].time


def payloads(packets: list[Packet], direction: Direction) -> Iterator[bytes]:
    for each in packets:
        view = parse_udp(each.frame)
        if view and each.direction is direction and view.dst_port == 6363:
            yield each.frame[view.payload_offset : view.payload_offset + view.payload_length]


def tap(**changes: str) -> dict[str, Any]:
    return {"interfaces": [{"name": "lo", "netns": "/proc/self/ns/net", **changes}]}


@pytest.mark.mininet
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (tap(name="r9-eth0"), "r9-eth0 in /proc/self/ns/net: no such device"),
        (
            tap(netns="/proc/0/ns/net"),
            "lo in /proc/0/ns/net: no such network namespace: has its process ended?",
        ),
        (tap(netns="/proc/self/ns/uts"), "lo in /proc/self/ns/uts: invalid argument"),
        (tap(ipv4="r1"), "interface lo: no IPv4 address: 'r1'"),
        ({"output": "/nowhere/capture.pcapng"}, "/nowhere/capture.pcapng: No such file or directory"),
        ({"output": "/dev/full"}, "/dev/full: No space left on device"),
    ],
)
def test_what_keeps_it_from_recording_is_one_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    if reason := why_not():
        pytest.skip(reason)
    command = box(sys.executable, "-m", "captures.network.recorder", str(spec(tmp_path, **changes)))
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (2, f"captures.network.recorder: {message}\n")


@pytest.mark.mininet
def test_without_permission_it_says_how_to_get_it(tmp_path: Path) -> None:
    if reason := why_not(True):
        pytest.skip(reason)
    # A user namespace inside the box has no rights over the box's network.
    nested = ["unshare", "--user", sys.executable, "-m", "captures.network.recorder", str(spec(tmp_path))]
    done = subprocess.run(
        box(*nested, rootless=True), capture_output=True, check=False, text=True, cwd=ROOT, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert "no permission to capture: run as root, or inside `unshare" in done.stderr
    assert done.stderr.count("\n") == 1


# --- specs ---


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Invalid JSON"),
        (
            '{"output": "x", "application": "y", "interfaces": []}',
            "interfaces: List should have at least 1 item",
        ),
        (
            '{"output": "x", "application": "y", "interfaces": [{"name": "a"}]}',
            "interfaces.0.netns: Field required",
        ),
        ('{"application": "y", "interfaces": [{"name": "a", "netns": "n"}]}', "output: Field required"),
        (
            '{"output": "x", "application": "y", "interfaces": [{"name": "a", "netns": "n"}], "ring": 1}',
            "ring: Extra inputs",
        ),
        (
            '{"output": "x", "application": "y", "ring_bytes": 1,'
            ' "interfaces": [{"name": "a", "netns": "n"}]}',
            "ring_bytes: Input should be greater than or equal to 524288",
        ),
        (
            '{"output": "x", "application": "y",'
            ' "interfaces": [{"name": "a", "netns": "n"}, {"name": "a", "netns": "m"}]}',
            "named twice: a",
        ),
    ],
)
def test_a_bad_spec_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(content)
    with pytest.raises(RecorderError) as refused:
        load(str(path))
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_spec_ends_with_status_2(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    command = [sys.executable, "-m", "captures.network.recorder", str(path)]
    done = subprocess.run(command, capture_output=True, check=False, text=True, cwd=ROOT)
    expected = f"captures.network.recorder: {path}: No such file or directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)


@pytest.mark.parametrize(
    ("links", "ring_bytes", "size"), [(1, None, 8 << 20), (64, None, 4 << 20), (1, 1 << 20, 1 << 20)]
)
def test_rings_shrink_where_there_are_many(links: int, ring_bytes: int | None, size: int) -> None:
    taps = [{"name": f"r{number}-eth0", "netns": "n"} for number in range(links)]
    content = {"output": "x", "application": "y", "ring_bytes": ring_bytes, "interfaces": taps}
    assert Spec.model_validate(content).ring_size() == size


# --- from the rings into the file ---


class ScriptedRing:
    """Stands for captures.network.ring.Ring: hands out what a test says, one list at each look."""

    def __init__(self, index: int, *looks: list[Frame], dropped: int = 0) -> None:
        self.index = index
        self.name = f"r{index}-eth0"
        self.dropped = dropped
        self.received = 0
        self._total = sum(len(look) for look in looks) + dropped
        self._looks = itertools.chain(looks, itertools.repeat([]))
        self.taken = 0
        self.gate_open = True

    def take(self) -> list[Frame]:
        frames = next(self._looks)
        self.taken += len(frames)
        return frames

    def close_gate(self) -> None:
        self.gate_open = False

    def count(self) -> None:
        assert not self.gate_open
        self.received = self._total

    def drained(self) -> bool:
        return self.taken == self.received - self.dropped


def frame(index: int, time: int) -> Frame:
    return index, time, b"", Direction.IN, 0


def recording(file: io.BytesIO, *rings: ScriptedRing) -> Recording:
    writer = Writer(file, [Interface(ring.name) for ring in rings], application="")
    return Recording(list(rings), writer, Clock())  # type: ignore[arg-type]


def order(file: io.BytesIO, directory: Path) -> list[tuple[str, int]]:
    path = directory / "capture.pcapng"
    path.write_bytes(file.getvalue())
    return [(each.interface.name, each.time) for each in read(path)]


def test_frames_are_held_until_no_older_one_can_come(tmp_path: Path) -> None:
    file = io.BytesIO()
    fast = ScriptedRing(0, [frame(0, 10), frame(0, 30)], [frame(0, 50)])
    slow = ScriptedRing(1, [], [frame(1, 20), frame(1, 19), frame(1, 45)])
    recorded = recording(file, fast, slow)
    recorded.take()
    recorded.write(10)
    assert order(file, tmp_path) == [("r0-eth0", 10)]
    recorded.take()
    recorded.write(44)
    assert [time for _, time in order(file, tmp_path)] == [10, 19, 20, 30]
    recorded.finish()
    assert [time for _, time in order(file, tmp_path)] == [10, 19, 20, 30, 45, 50]


def test_frames_of_one_moment_keep_the_order_of_their_ring(tmp_path: Path) -> None:
    file = io.BytesIO()
    frames: list[Frame] = [(0, 7, bytes([number]), Direction.IN, 1) for number in range(5)]
    recording(file, ScriptedRing(0, frames)).finish()
    (tmp_path / "capture.pcapng").write_bytes(file.getvalue())
    assert [each.frame for each in read(tmp_path / "capture.pcapng")] == [
        bytes([number]) for number in range(5)
    ]


def test_the_end_waits_for_blocks_that_are_still_open(tmp_path: Path) -> None:
    file = io.BytesIO()
    late = ScriptedRing(0, [frame(0, 1)], [], [], [frame(0, 2)], dropped=3)
    recording(file, late).finish()
    assert order(file, tmp_path) == [("r0-eth0", 1), ("r0-eth0", 2)]
    (counted,) = statistics(tmp_path / "capture.pcapng")
    assert (counted.received, counted.dropped) == (5, 3)


def test_the_end_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "DRAIN_S", 0.0)
    stuck = ScriptedRing(0, [], [], [frame(0, 2)])
    with pytest.raises(RecorderError, match="keeps frames back: r0-eth0"):
        recording(io.BytesIO(), stuck).finish()
