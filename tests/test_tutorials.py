"""The commands of two tutorials, as a reader gives them; teach.md is in test_commands_of_documents.py, the
program of run-a-forwarder.md in test_application_page.py, packages of one's own in test_new.py.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_documents import ROOT, blocks

from topologies.mininet import sandbox

SHELL = f"""
set -e
feednet() {{ {sys.executable} -P -m feednet "$@"; }}
python() {{ {sys.executable} -P "$@"; }}
patiently() {{ for _ in $(seq 600); do if "$@"; then return; fi; sleep 0.1; done; return 1; }}
messages() {{ test "$(feednet ssb --path "$1" log | wc -l)" = "$2"; }}
"""

TWO_PEERS = """
ip link set dev lo up
ANN_WRITES
ANN_RUNS & patiently grep -q ready ann/peer.txt
INVITES | tee code.txt
CODE=$(cat code.txt)
ACCEPTS
BEN_WRITES
BEN_RUNS & patiently messages ben 5
echo; LOG
patiently messages ann 5
echo; feednet ssb --path ann log
kill $(jobs -p)
"""


def run(script: str, cwd: Path, *within: str) -> str:
    done = subprocess.run(
        [*within, "bash", "-c", SHELL + script],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(cwd)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_analyse_captures(tmp_path: Path) -> None:
    capture, *lines = blocks(ROOT / "docs" / "analyse-captures.md")
    assert capture.startswith("dumpcap ")  # needs a forwarder's traffic: the next lines do without it
    said = run("\n".join(line for line in lines if line), tmp_path)
    assert (tmp_path / "mine" / "report.html").is_file()
    waits = re.findall(r"^(pub|[rs]\d) +(\d+\.\d+)$", said, re.MULTILINE)
    assert len(waits) == 15
    assert 0 < float(dict(waits)["pub"]) < float(dict(waits)["s1"])


@pytest.mark.skipif(sandbox.why_not() is not None, reason=f"no namespaces: {sandbox.why_not()}")
def test_use_scuttlebutt(tmp_path: Path) -> None:
    page = ROOT / "docs" / "use-scuttlebutt.md"
    given = [line for line in blocks(page) if line]
    names = "ANN_WRITES", "ANN_RUNS", "INVITES", "ACCEPTS", "BEN_WRITES", "BEN_RUNS", "LOG"
    script = TWO_PEERS
    for name, line in zip(names, given, strict=True):
        told = " > ann/peer.txt 2>&1" if name == "ANN_RUNS" else ""
        script = script.replace(name, line.replace("CODE", '"$CODE"') + told)
    *_, bens, anns = run(script, tmp_path, *sandbox.command([])).split("\n\n")
    (shown,) = re.findall(r"^```text\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    contents = [re.sub(r"@\S{43}=|\d+\.\d+\.\d+\.\d+", "_", line[32:]) for line in shown.splitlines()]
    for log in (bens, anns):
        lines = [re.sub(r"@\S{43}=|\d+\.\d+\.\d+\.\d+", "_", line[32:]) for line in log.splitlines()]
        assert sorted(line for line in lines if line) == sorted(contents)
