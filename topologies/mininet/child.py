"""A helper process: it prints `ready`, runs until its input ends, and reports in one line of JSON."""

import json
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_START_S = 30.0
_END_S = 10.0


class ChildError(OSError):
    """A helper that did not start, or failed; the message is one line."""


class Child:
    """A helper process, running after `wait()`.

    Args:
        name: in errors.
        argv: its command line.
        cwd: its working directory, None for this one's.

    Raises OSError if it cannot be started, and from `wait()` on ChildError.
    """

    def __init__(self, name: str, argv: Sequence[str], *, cwd: Path | None = None) -> None:
        self._name = name
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait(self) -> "Child":
        """Wait until it prints `ready`, and return it. Raises ChildError after 30 s."""
        assert self._process.stdout is not None
        said = select.select([self._process.stdout], [], [], _START_S)[0]
        if not said or self._process.stdout.readline() != "ready\n":
            self.kill()
            why = _last_line(self._process.communicate()[1]) if said else f"no output for {_START_S:.0f} s"
            raise ChildError(f"{self._name} did not start: {why}")
        return self

    def send(self, line: str) -> None:
        """Send it a line. Raises ChildError if it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ChildError(f"{self._name} has ended: {error.strerror}") from error

    def finish(self) -> dict[str, Any]:
        """End it; return its report. Raises ChildError if it had failed, or does not end within 10 s."""
        try:
            output, errors = self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ChildError(f"{self._name} did not end within {_END_S:.0f} s") from None
        if self._process.returncode:
            raise ChildError(f"{self._name} failed during the run: {_last_line(errors)}")
        report: dict[str, Any] = json.loads(output)
        return report

    def kill(self) -> None:
        """Kill it; no effect if it has ended."""
        self._process.kill()
        self._process.wait()


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "no output"
