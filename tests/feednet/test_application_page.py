"""The program of docs/applications.md does what the page says."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from daemon_process import running
from patience import PATIENCE_S

ROOT = Path(__file__).parents[2]


def ended_by_ctrl_c(program: "subprocess.Popen[str]") -> tuple[int, str]:
    """Return the exit status of a program after one Ctrl-C, and its errors."""
    program.send_signal(signal.SIGINT)
    try:
        errors = program.communicate(timeout=PATIENCE_S)[1]
    finally:
        program.kill()
    return program.returncode, errors


def test_the_program_publishes_and_follows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "applications.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    with running(tmp_path) as daemon:
        env = os.environ | {
            "HOME": str(tmp_path),
            "NDN_CLIENT_TRANSPORT": daemon.uris["unix"],
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PYTHONUNBUFFERED": "1",
        }

        def start(*arguments: str) -> "subprocess.Popen[str]":
            command = [sys.executable, "-c", program, *arguments]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            return subprocess.Popen(command, env=env, cwd=tmp_path, text=True, **pipes)

        with start() as publisher:
            assert publisher.stdout is not None
            with start(publisher.stdout.readline().strip()) as follower:
                assert follower.stdout is not None
                lines = [follower.stdout.readline() for _ in range(2)]
                ends = [ended_by_ctrl_c(follower)]
            ends.append(ended_by_ctrl_c(publisher))
    assert ends == [(-signal.SIGINT, "")] * 2
    assert lines == ["1 b'a picture'\n", "2 b'a picture'\n"]
