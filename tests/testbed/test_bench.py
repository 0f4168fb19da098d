import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from patience import PATIENCE_S

from base.sockets import free_port
from testbed.bench import faces
from testbed.bench.core import measure_exchanges
from testbed.bench.faces import Kind, carry_push, carry_runs, carry_stream, round_trips, through_faces
from testbed.bench.figures import Series
from testbed.bench.load import BenchError, Exchanges, Feed, make_exchanges, native_feed
from testbed.bench.peers import replication as ssb_replication
from testbed.bench.process import Passage, Usage
from testbed.bench.program import fresh
from testbed.bench.udp import carry, compile_echo, through_feednet

ROOT = Path(__file__).parents[2]
BENCH = [sys.executable, "-m", "testbed.bench"]
CORE = ["forwarding core", "core and links"]
PUSHES = ["push, native items", "push, SSB messages"]
WAYS = ["UDP forwarding", "UDP channel", "in runs", "Unix stream"]
ECHO = "UDP echo in C"
PUSHED = ["push, native items, UDP", "delivered"]
ALONE = [f"exchange, {way}, {part}" for part in ("p50", "p99") for way in ("UDP", "Unix", "C echo")]
PIT = "PIT entry"
SCALE = ["Ed25519 verify", "Ed25519 sign", "SHA-256", "SSB message"]

HAS_ECHO = shutil.which("cc") is not None
needs_cc = pytest.mark.skipif(not HAS_ECHO, reason="no C compiler here")


def run(*options: str, **environment: str) -> str:
    done = subprocess.run(
        [*BENCH, "--quick", *options],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return dict(json.loads(run("--json")))


@pytest.fixture(scope="module")
def rows(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["what"].strip(): row for row in result["rows"]}


def test_every_figure_is_there_once_a_repetition(
    result: dict[str, Any], rows: dict[str, dict[str, Any]]
) -> None:
    assert [*rows] == [
        *(*CORE, PUSHES[0], "without Ed25519", PUSHES[1]),
        *(*WAYS, ECHO, *PUSHED, *(what for what in ALONE if HAS_ECHO or "echo" not in what), PIT, *SCALE),
    ]
    assert len(result["rows"]) == len(rows) + 1  # "without Ed25519" is there twice
    for row in result["rows"]:
        for spread in (row["figure"], row["ratio"], row["exchanges"]):
            if spread is not None:
                once = row["what"] == PIT
                assert len(spread["samples"]) == (1 if once else result["size"]["repetitions"])
                assert 0 < spread["min"] <= spread["median"] <= spread["max"]
                assert {spread["min"], spread["max"]} <= set(spread["samples"])


def test_as_much_comes_out_as_goes_in(result: dict[str, Any], rows: dict[str, dict[str, Any]]) -> None:
    size = result["size"]
    packets = 2 * size["exchanges"] * size["repetitions"]
    for what in [*CORE, *WAYS, ECHO]:
        if rows[what]["figure"] is not None:
            assert rows[what]["counts"] == {"received": packets, "sent": packets}, what
    items = size["items"] * size["repetitions"]
    assert rows[PUSHED[0]]["counts"] == {"received": items}
    assert rows[PUSHED[1]]["counts"] == {"sent": 8 * items}
    assert rows[PIT]["counts"] == {"pending": size["pending"]}
    for what in PUSHES:
        counts = rows[what]["counts"]
        assert (counts["received"], counts["sent"]) == (items, 2 * items)
        assert size["repetitions"] <= counts["verified"] <= items


@needs_cc
def test_ratios_are_taken_within_a_repetition(rows: dict[str, dict[str, Any]]) -> None:
    def quotients(above: str, below: str) -> list[float]:
        pairs = zip(rows[above]["figure"]["samples"], rows[below]["figure"]["samples"], strict=True)
        return [a / b for a, b in pairs]

    for what in WAYS:
        assert rows[what]["ratio"]["samples"] == pytest.approx(quotients(what, ECHO))
    for part in ("p50", "p99"):
        alone = f"exchange, UDP, {part}"
        assert rows[alone]["ratio"]["samples"] == pytest.approx(quotients(alone, f"exchange, C echo, {part}"))
    assert rows[CORE[1]]["ratio"]["samples"] == pytest.approx(quotients(CORE[1], CORE[0]))
    for what in PUSHES:
        assert rows[what]["ratio"]["max"] < 1, "Ed25519 is a share of the whole"


def test_the_bar_is_judged_by_the_median(result: dict[str, Any], rows: dict[str, dict[str, Any]]) -> None:
    core = rows[CORE[0]]
    assert core["bar"] == 150_000
    assert core["met"] == (core["figure"]["median"] >= core["bar"])
    assert all(row["met"] is None for row in result["rows"] if row["what"] != CORE[0])


def test_without_a_compiler_the_rest_is_measured(tmp_path: Path) -> None:
    lines = run(PATH=str(tmp_path)).splitlines()
    [echo] = [line for line in lines if ECHO in line]
    assert "not measured: no C compiler" in echo
    for what in [
        *CORE,
        *PUSHES,
        *WAYS,
        *PUSHED,
        *(what for what in ALONE if "echo" not in what),
        PIT,
        *SCALE,
    ]:
        [line] = [line for line in lines if line.startswith("│") and line.split("│")[1].strip() == what]
        assert any(letter.isdigit() for letter in line.split("│")[2]), line


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'no such header' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert compile_echo(tmp_path) == (None, "no such header")


def test_the_load_has_the_sizes_it_is_known_by() -> None:
    load = make_exchanges(300)
    assert {len(packet) for packet in load.interests} == {49}
    assert {len(packet) for packet in load.data} == {1155}
    assert len(set(load.interests)) == len(set(load.data)) == 300
    windows = list(load.windows())
    assert [len(interests) for interests, _ in windows] == [len(data) for _, data in windows]
    assert [packet for _, data in windows for packet in data] == load.data


def test_packets_that_do_not_come_out_void_the_measurement() -> None:
    class Hole:
        def receive(self, face: int, packet: bytes, sender: None, now: int, /) -> None: ...

        def take_outputs(self) -> list[tuple[int, bytes]]:
            return []

        def next_deadline(self) -> None: ...

    with pytest.raises(BenchError, match="20 packets went into the forwarder, 0 came out"):
        measure_exchanges(Series(), Hole(), make_exchanges(10))


def test_a_lost_datagram_voids_the_measurement() -> None:
    load = make_exchanges(10)
    with through_feednet() as passage:
        carry(passage, load)
        # The same Interests again are answered by the content store: nothing comes out on the far side.
        with pytest.raises(BenchError, match="did not come within 5 s"):
            carry(passage, load)


def test_a_process_that_did_less_voids_the_measurement() -> None:
    with through_feednet() as passage:
        idle = Passage(passage.near, passage.far, lambda: Usage(0, 0, 0, 0))
        with pytest.raises(BenchError, match="of 20 packets 0 came, 0 left"):
            carry(idle, make_exchanges(10))


def test_an_exchange_is_two_packets_and_a_delivery_is_held_against_it(
    rows: dict[str, dict[str, Any]],
) -> None:
    def samples(what: str) -> list[float]:
        return list(rows[what]["figure"]["samples"])

    for what in WAYS:
        assert rows[what]["exchanges"]["samples"] == pytest.approx([5e5 / us for us in samples(what)])
    items, delivered = (samples(what) for what in PUSHED)
    assert delivered == pytest.approx([8 * rate for rate in items])
    both = zip(samples("UDP channel"), delivered, strict=True)
    assert rows[PUSHED[1]]["ratio"]["samples"] == pytest.approx([2 * us * rate / 1e6 for us, rate in both])


@pytest.mark.parametrize(
    ("kind", "carrying"), [("udp", carry), ("udp in runs", carry_runs), ("unix", carry_stream)]
)
def test_all_ways_through_the_daemon_s_faces(
    kind: Kind, carrying: Callable[[Passage, Exchanges], Usage]
) -> None:
    load = make_exchanges(200)
    first = Exchanges(load.interests[:150], load.data[:150])
    last = Exchanges(load.interests[150:], load.data[150:])
    with through_faces(kind) as passage:
        usage = carrying(passage, first)
        assert (usage.received, usage.sent) == (300, 300)
        assert usage.cpu > 0
        taken = round_trips(passage, last)
        assert len(taken) == 50
        assert min(taken) > 0
        idle = Passage(passage.near, passage.far, lambda: Usage(0, 0, 0, 0))
        fresh = make_exchanges(260)
        with pytest.raises(BenchError, match="of 120 packets 0 came, 0 left"):
            carrying(idle, Exchanges(fresh.interests[200:], fresh.data[200:]))


def test_a_push_that_does_not_come_to_everybody_voids_the_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = native_feed(100)
    with through_faces("udp", 3) as passage:
        assert len({passage.near, passage.far, *passage.more}) == 4
        usage = carry_push(passage, feed)
        assert usage.received >= 100 + 3
    cut = Feed(feed.name, feed.items[:10] + feed.items[11:])
    monkeypatch.setattr(faces, "_LIFETIME_MS", 2_000)  # something else comes when the LLIs end
    with through_faces("udp", 2) as passage, pytest.raises(BenchError, match="push over UDP"):
        carry_push(passage, cut)


def test_the_memory_of_an_entry_is_that_of_all_over_their_number() -> None:
    """Name, key, records and packet: more than their bytes on the wire, and not by an order of magnitude."""
    assert 49 + 16 * 2 < fresh("testbed.bench.pit", 20_000) < 20 * (49 + 16 * 2)


def test_a_process_that_ends_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match="TypeError: "):
        fresh("testbed.bench.pit", "many")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(BenchError, match=r"exit status 1"):
        fresh("testbed.bench.pit", 1)


def in_group(group: int) -> set[int]:
    """Processes of a process group that have not ended."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue  # it has ended meanwhile
            if int(pgrp) == group and state != "Z":
                found.add(int(entry.name))
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs_forwarder(bench: int) -> bool:
    """Tell whether the bench has a forwarder running: forked, so it has the bench's command line."""
    return any(command(pid) == command(bench) for pid in in_group(bench) - {bench})


def runs_echo(bench: int) -> bool:
    return any(command(pid)[0].endswith("/bench_echo") for pid in in_group(bench))


def command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return [""]


@pytest.mark.parametrize(
    ("runs", "number"),
    [
        pytest.param(runs_forwarder, signal.SIGINT, id="ctrl-c"),
        pytest.param(runs_forwarder, signal.SIGKILL, id="kill"),
        pytest.param(runs_echo, signal.SIGKILL, id="kill-echo", marks=needs_cc),
    ],
)
def test_no_process_is_left_behind(
    runs: Callable[[int], bool], number: signal.Signals, tmp_path: Path
) -> None:
    with subprocess.Popen(
        BENCH,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            wait_until(lambda: runs(process.pid))
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does
            else:
                process.kill()
            output, errors = process.communicate(timeout=PATIENCE_S)
            if number == signal.SIGINT:
                assert (process.returncode, output, errors.strip()) == (130, "", "feednet: interrupted")
                assert not in_group(process.pid)
                assert not [*tmp_path.iterdir()]
            wait_until(lambda: not in_group(process.pid))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_replication_between_two_peers_is_measured():
    for _ in range(5):  # others of this machine may take a port that was free
        ports = [str(free_port()), str(free_port())]
        done = CliRunner().invoke(ssb_replication.bench, ["--messages", "1000", "--ports", *ports])
        if "free?" not in done.output and not isinstance(done.exception, OSError):
            break
    assert done.exit_code == 0, done.output
    figures = dict(re.findall(r"^│ +(\S.*?) +│ ([\d,.]+) ", done.output, re.MULTILINE))
    # A live message has a box and a packet of its own: headers of 34 and 9 bytes.
    assert 43 <= float(figures["bytes beyond the message, live"]) < 50
    assert float(figures["bytes beyond the message, in bulk"]) < 43
