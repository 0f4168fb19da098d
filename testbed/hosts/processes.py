"""Additional programs on a node: started in its network namespace, and ended with it."""

import contextlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from base.files import write_whole
from testbed.layerings.nodes.node import Process

_READY_S = 60.0
_POLL_S = 0.05
_OUTPUT = "output.txt"
_OF_CXX = re.compile(r"^(std::exception::what|what\(\)): +")  # C++'s prefix of an error message
FIRST_PROCESS = "0"
"""The directory of the first program, in the directory of a node; of further ones 1, 2, ..."""


class ProcessEnded(Exception):
    """A program has ended unexpectedly; the message is one line."""


class Running:
    """Running programs."""

    def __init__(self, started: Sequence["tuple[subprocess.Popen[bytes], Path]"]) -> None:
        self._started = started

    def check(self) -> None:
        """Raise ProcessEnded if one of them has ended."""
        for process, directory in self._started:
            if process.poll() is not None:
                lines = (directory / _OUTPUT).read_text(encoding="utf-8", errors="replace").split("\n")
                last = next((line.strip() for line in reversed(lines) if line.strip()), "without a word")
                last = _OF_CXX.sub("", last)
                name = Path(str(process.args[0])).name  # type: ignore[index]
                raise ProcessEnded(f"{name} has ended with status {process.returncode}: {last}")

    @property
    def cpu_ns(self) -> int:
        """Their processor time, user and system."""
        return sum(_cpu_ns(process.pid) for process, _ in self._started)


@contextmanager
def running(processes: Sequence[Process], directory: Path) -> Iterator[Running]:
    """Run programs inside the `with` block, each in a directory below the given one, which may exist.

    The block begins when all of them listen. Raises ProcessEnded for one that ends before, or fails to
    listen.
    """
    with ExitStack() as stack:
        started = []
        for number, process in enumerate(processes):
            place = directory / str(number)
            started.append((stack.enter_context(_running(process, place)), place))
        group = Running(started)
        for process in processes:
            _wait(process, group)
        yield group


@contextmanager
def _running(process: Process, place: Path) -> "Iterator[subprocess.Popen[bytes]]":
    if not place.exists():
        place.mkdir(parents=True)
        for name, text in process.files.items():
            write_whole(place / name, text, mode=0o600)
    with (place / _OUTPUT).open("wb") as output:
        started = subprocess.Popen(
            process.argv,
            cwd=place,
            env=os.environ | {"HOME": str(place)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def _wait(process: Process, group: Running) -> None:
    """Wait until a program listens."""
    end = time.monotonic() + _READY_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(process.ready, _POLL_S):
            return
        group.check()
        if time.monotonic() > end:
            raise ProcessEnded(f"{Path(process.argv[0]).name} does not listen after {_READY_S:.0f} s")
        time.sleep(_POLL_S)


def _cpu_ns(pid: int) -> int:
    """Return the processor time of a process, ns; see proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
