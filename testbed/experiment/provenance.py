"""Where figures come from: the code that ran, and the machine that it ran on."""

import os
import platform
import subprocess
from pathlib import Path

_HERE = Path(__file__).resolve()


def commit() -> str | None:
    """Return the commit that this code is of, with "+" if it has been changed since; None if git tracks it
    not: it was installed, and its version says what it is."""
    # Asked for this file, so that a package that lies in somebody's own repository is not named after that.
    if _git("ls-files", "--error-unmatch", _HERE.name) is None:
        return None
    head = _git("rev-parse", "--short=12", "HEAD")
    return head and head + ("+" if _git("status", "--porcelain", "--untracked-files=no", ":/") else "")


def _git(*arguments: str) -> str | None:
    """Return what git says in this file's directory, None if it cannot be asked or fails."""
    try:
        # Of another owner, which happens in containers and to root, is not out of order: nothing is run here.
        command = ["git", "-c", "safe.directory=*", "-C", str(_HERE.parent), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def processor() -> str:
    """Return the processor's name, and how many of it there are."""
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
