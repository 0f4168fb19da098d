"""Provenance of figures: the code, and the machine."""

import os
import platform
import subprocess
from pathlib import Path

_HERE = Path(__file__).resolve()


def commit() -> str | None:
    """Return the commit of this code, with "+" after local changes; None if git does not track it: an
    installed version identifies itself.
    """
    # Queried for this file, so that a package inside somebody's own repository is not attributed to it.
    if _git("ls-files", "--error-unmatch", _HERE.name) is None:
        return None
    head = _git("rev-parse", "--short=12", "HEAD")
    return head and head + ("+" if _git("status", "--porcelain", "--untracked-files=no", ":/") else "")


def _git(*arguments: str) -> str | None:
    """Return git's output in this file's directory, None if unavailable or failed."""
    try:
        # A foreign owner, as in containers and for root, is harmless: nothing is executed.
        command = ["git", "-c", "safe.directory=*", "-C", str(_HERE.parent), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def processor() -> str:
    """Return the processor's name and number."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            name = value.strip()
            break
    return f"{os.cpu_count() or 1} \N{MULTIPLICATION SIGN} {name}"
