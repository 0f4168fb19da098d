"""The command line as a process that gets signals, and all the processes that it started."""

import os
import signal
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from patience import PATIENCE_S

from topologies.mininet import sandbox

ROOT = Path(__file__).parents[1]
FEEDNET = Path(sysconfig.get_path("scripts"), "feednet")


def drilled(script: Path, directory: Path, *more: Path) -> list[str]:
    """Run a script in network namespaces of its own, with a directory; return its lines.

    `more` is where it finds modules, besides those of its folder and of the tests.
    """
    places = (ROOT, ROOT / "tests", *more)
    done = subprocess.run(
        sandbox.command([sys.executable, str(script), str(directory)]),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=os.environ | {"PYTHONPATH": ":".join(map(str, places))},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class Feednet:
    """`feednet` with some arguments, in a session of its own, as in a terminal of its own.

    Whatever it starts is known by a mark in its environment, and ended with the `with` block.
    """

    def __init__(self, *arguments: object, cwd: Path, program: Sequence[object] = (FEEDNET,)) -> None:
        self.mark = f"FEEDNET_TEST={uuid.uuid4()}"
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            [*map(str, program), *map(str, arguments)],
            cwd=cwd,
            env=os.environ | {"PYTHONPATH": str(ROOT), "FEEDNET_CACHE": "", name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def press_ctrl_c(self) -> None:
        """Send SIGINT to all that the terminal would send it to."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> tuple[int, str, str]:
        """Wait for the end of it; return the exit status, what it printed, and what it complained of."""
        said, complained = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said, complained.strip()

    def others(self) -> dict[int, str]:
        """Return the processes that it has started and that still live: id -> what they are."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() not in (place / "environ").read_bytes().split(b"\0"):
                    continue
                state = (place / "stat").read_text().rpartition(")")[2].split()[0]
                what = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if int(place.name) != self.process.pid and state != "Z":
                found[int(place.name)] = what
        return found

    def __enter__(self) -> "Feednet":
        return self

    def __exit__(self, _: type[BaseException] | None, __: object, ___: TracebackType | None) -> None:
        self.process.kill()
        while others := self.others():
            for pid in others:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.communicate()


def wait_for(happened: Callable[[], object], what: str) -> None:
    """Wait until something has happened."""
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until, f"{what}: not within {PATIENCE_S:.0f} s"
        time.sleep(0.02)
