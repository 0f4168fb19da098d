"""User programs in a run over Mininet: started on schedule, ended with the run."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.hosts.surroundings import ProgramEnvironment
from testbed.scenario.sections import ProgramSpec

PROGRAMS = "programs"
"""Directory of their output, in a layering's directory."""

_GRACE_S = 2.0


class UserPrograms:
    """The programs of a scenario.

    Args:
        specs: the programs.
        directory: of the layering.
        place: of each node, by name.
        start: starts a program on a node, as topologies.mininet.network.MininetNetwork.popen does.
    """

    def __init__(
        self,
        specs: tuple[ProgramSpec, ...],
        directory: Path,
        place: Callable[[str], ProgramEnvironment],
        start: Callable[..., "subprocess.Popen[Any]"],
    ) -> None:
        self._specs, self._place, self._start = specs, place, start
        self._directory = directory / PROGRAMS
        self._running: dict[int, subprocess.Popen[Any]] = {}

    def start(self, number: int) -> None:
        """Start one of them, by its number from 0."""
        spec = self._specs[number]
        self._directory.mkdir(exist_ok=True)
        with (self._directory / f"{spec.node}-{number + 1}.txt").open("wb") as output:
            self._running[number] = self._start(
                spec.node,
                spec.run,
                env=self._place(spec.node).all_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self) -> list[dict[str, Any]]:
        """End the running ones; return for each started program its place, words and exit status, None if it
        ran to the end.
        """
        statuses = {number: process.poll() for number, process in self._running.items()}
        for number, process in self._running.items():
            if statuses[number] is None:
                process.terminate()
        for process in self._running.values():
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        return [
            {"node": self._specs[number].node, "run": list(self._specs[number].run), "status": status}
            for number, status in statuses.items()
        ]
