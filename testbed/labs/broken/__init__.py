"""Break it: a changed rule of controlled push, the first seed that notices, and its shortest story.

The rule is patched into plain modules, as compiled classes cannot be: so another process plays the seeds.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from testbed.errors import UserError
from testbed.labs.folder import Folder

PROMISES = {"granted": 1, "credit": 1, "delivered": 2, "error": 2, "told once, in order": 2, "catch-up": 3}
PROMISES |= {"hops": 3, "evidence": 4, "loop": 4, "source": 4, "state-zero": 5, "forgery": 6}
"""The promise of controlled push that an invariant of the simulation stands for."""


class Broken(NamedTuple):
    """The first seed that fails, the invariant, the events of its shortest story, their number and chart."""

    seed: int
    invariant: str
    lines: int
    chart: str


def broken(rule: str | Path, seeds: int = 2000) -> Broken:
    """Play seeds from 0 on with a changed rule until one fails. Raises UserError if none does."""
    root = str(Path(__file__).parents[3])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "testbed.labs.broken", str(rule), str(seeds)],
        env=os.environ | {"FEEDNET_PLAIN": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UserError(f"{rule}: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout)
    if found is None:
        raise UserError(f"{rule}: nothing fails in {seeds} seeds: the promises hold without this rule")
    return Broken(**found)


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, by playing the rule of the folder."""
    found = broken(folder.file("rule.py"))
    return {"promise": PROMISES.get(found.invariant, 0), "seed": found.seed, "lines": found.lines}
