"""The tests see nothing of what a user has installed or set."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_what_is_installed_for_wireshark_does_not_matter(tmp_path: Path) -> None:
    """As for whoever has installed the plugin of ndn-tools, or prefers other columns."""
    home = tmp_path / "home"
    plugins = home / ".local" / "lib" / "wireshark" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "ndn.lua").write_text('local ndn = Proto("ndn", "Named Data Networking")\n')
    (home / ".config" / "wireshark").mkdir(parents=True)
    (home / ".config" / "wireshark" / "preferences").write_text('gui.column.format: "Time", "%t"\n')
    tests = "tests/captures/dissectors/test_dissect_wireshark.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, "-k", "texts"]
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'inner'}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**inherited, "HOME": str(home), "NDN_CLIENT_TRANSPORT": "unix:///nowhere", "COLUMNS": "20"},
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
