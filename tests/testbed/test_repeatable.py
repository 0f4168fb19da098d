"""In the emulator the same seed gives the same bytes, whatever order Python has for sets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("scenario", "layering", "items"),
    [("fetch", "ndn-over-ssb", 30), ("social", "ssb", 24), ("gateways", "lli", 24), ("fanout", "lli", 20)],
)
def test_hashes_of_strings_do_not_matter(scenario: str, layering: str, items: int, tmp_path: Path) -> None:
    captures = []
    for seed in ("1", "2"):
        arguments = ["run", scenario, "--layering", layering, "--items", str(items), "--net", "emulated"]
        subprocess.run(
            [sys.executable, "-m", "testbed.cli", *arguments, "--no-report", "--out", str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
        captures.append((tmp_path / seed / layering / "capture.pcapng").read_bytes())
    assert captures[0] == captures[1]
