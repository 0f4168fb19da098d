"""Batches of damaged captures through the whole of `feednet analyze`: tables, page, counts."""

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
from click.testing import CliRunner

from analysis.spark.session import spark_session
from captures.formats.files import cut
from captures.formats.pcapng import CaptureError
from testbed.verify.fuzz.corpus import SEEDS, read
from testbed.verify.fuzz.subjects.wire import expect
from testbed.verify.fuzz.targets import TARGETS, change

AT_ONCE = 40
"""Captures per analysis; a third of them are separate runs."""


def check(captures: Sequence[bytes]) -> None:
    """Analyse captures together; raise Finding, or whatever the command raises."""
    from testbed.cli.main import feednet

    with tempfile.TemporaryDirectory() as name:
        place, given = Path(name), []
        for number, data in enumerate(captures):
            path = place / f"n{number}-eth0.pcap"
            path.write_bytes(data)
            try:
                list(cut(path))
            except CaptureError:
                continue  # refused in one line
            given.append(f"run{number if number % 3 == 0 else ''}={path}")
        if not given:
            return
        done = CliRunner().invoke(
            feednet, ["analyze", *given, "--out", str(place / "out")], catch_exceptions=False
        )
        expect(f"analyze succeeds: {done.output}", holds=done.exit_code == 0)
        summary = json.loads((place / "out" / "summary.json").read_bytes())
        rows = pq.read_table(place / "out" / "packets", columns=["kind"]).num_rows
        expect("kinds add up", holds=rows == sum(sum(run["kinds"].values()) for run in summary))
        expect("there is a page", holds=(place / "out" / "report.html").stat().st_size > 100_000)


def damaged(rng: Random, count: int) -> list[bytes]:
    """Damage captures of the corpus: packets, frames, records and bytes."""
    target, inputs = TARGETS["captures"], list(read(SEEDS / "captures.hex").values())
    units = [unit for data in inputs for unit in target.split(data)]
    made = []
    for _ in range(count):
        data = rng.choice(inputs)
        for _ in range(rng.randint(1, 4)):
            data = change(target, data, units, rng)
        octets = bytearray(data)
        for _ in range(rng.choice((0, 0, 1, 3)) if octets else 0):
            octets[rng.randrange(len(octets))] = rng.randrange(256)
        made.append(bytes(octets))
    return made


def fuzz_pages(seconds: float, seed: int) -> int:
    """Analyse damaged captures for some time; return their number. Failures are raised with their seed."""
    rng, tried = Random(seed or time.time_ns()), 0
    spark_session(small=True)
    until = time.monotonic() + seconds  # Spark may need as long to start
    while time.monotonic() < until:
        drawn = rng.randrange(1 << 32)
        try:
            check(damaged(Random(drawn), AT_ONCE))
        except Exception as error:
            error.add_note(f"testbed.verify.fuzz.pages.check(damaged(Random({drawn}), {AT_ONCE}))")
            raise
        tried += AT_ONCE
    return tried
