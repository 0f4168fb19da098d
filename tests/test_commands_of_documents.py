"""Commands of documents, one after the other, as a newcomer gives them: from an empty directory and home."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S
from test_documents import FROM_EMPTY, ROOT, blocks

from topologies.mininet import sandbox

pytestmark = pytest.mark.slow

UNTIL_CTRL_C = (
    *("feednet forward", "feednet status --watch", "feednet ssb --path ann peer"),
    "feednet tiny --path tom",
)
"""What a user ends; the first two belong together. Tests of stock peers run the third, those of tinySSB the
last."""

FORWARD = """
mount -t tmpfs none /run && ip link set dev lo up || exit 1
feednet forward > forward.txt & forwarder=$!
until grep -q ready forward.txt; do kill -0 $forwarder || exit 1; sleep 0.1; done
timeout --signal INT 3 feednet status --watch > status.txt
kill -INT $forwarder; wait $forwarder
"""


def commands(document: Path) -> list[str]:
    return [line for line in blocks(document) if re.match(r"(feednet|printf|tshark) ", line)]


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    kept = {
        name: os.environ[name] for name in ("PATH", "LANG", "JAVA_HOME", "PYTHONPATH") if name in os.environ
    }
    return {**kept, "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}"}


@pytest.mark.parametrize("document", FROM_EMPTY, ids=lambda path: path.name)
def test_they_work_one_after_the_other(document: Path, tmp_path: Path, surroundings: dict[str, str]) -> None:
    here = tmp_path / "empty"
    here.mkdir()
    beside = []
    for line in commands(document):
        if line in UNTIL_CTRL_C:
            continue
        command = line.removesuffix(" &")
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=here,
            env=surroundings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if command != line:
            beside.append((line, process))
        else:
            check(line, process)
    for line, process in beside:
        check(line, process)
    assert document.name != "captures.md" or (here / "s8" / "report.html").is_file()


def check(line: str, process: "subprocess.Popen[str]") -> None:
    try:
        out, errors = process.communicate(timeout=4 * PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0, f"{line}\n{errors}"
    assert "Traceback" not in errors, line
    assert out or shlex.split(line)[0] in ("printf", "tshark"), f"{line}: nothing was said"


@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"no namespaces: {sandbox.why_not()}")
def test_the_forwarder_runs_until_ctrl_c(tmp_path: Path, surroundings: dict[str, str]) -> None:
    assert set(UNTIL_CTRL_C) <= set(commands(ROOT / "README.md"))
    done = subprocess.run(
        sandbox.command(["bash", "-c", FORWARD]),
        cwd=tmp_path,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert "Traceback" not in done.stderr
    assert "ready" in (tmp_path / "forward.txt").read_text(encoding="utf-8")
    assert "feednet-" in (tmp_path / "status.txt").read_text(encoding="utf-8")
