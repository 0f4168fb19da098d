"""Provenance of figures: the code, and the machine."""

import hashlib
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

from base import plugins

_HERE = Path(__file__).resolve()
_ROOT = _HERE.parents[2]

_ROOMS = (
    *("analysis", "base", "captures", "forwarder", "ndn_over_ssb", "ssb", "ssb_over_ndn", "testbed"),
    "topologies",
)
_DECIDE_NOTHING = (
    *(f"analysis/{room}" for room in ("export", "live", "player", "report")),
    *(f"testbed/{room}" for room in ("api", "artifact", "bench", "cli", "labs", "verify", "watch")),
    *("testbed/ladder/pages", "testbed/scenario/files", "testbed/study", "testbed/templates"),
)
"""Rooms without influence on what a run measures: pages, commands, checks. A study counts the files of its
scenarios, and its models, itself. All else counts, so that nothing new is forgotten."""


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


@cache
def code_version() -> str:
    """Return the SHA-256, in hexadecimal, of all files of feednet but those that decide nothing that a run
    measures, and of what other distributions add.

    It stays the same where only words of reports, commands or documents change.
    """
    digest = hashlib.sha256()
    for room in _ROOMS:
        for path in sorted((_ROOT / room).rglob("*")):
            name = path.relative_to(_ROOT).as_posix()
            if path.is_file() and counts(name):
                digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for source in plugins.sources():
        digest.update(hashlib.sha256(source).digest())
    return digest.hexdigest()


def counts(name: str) -> bool:
    """Return whether a file may decide what a run measures, by its path in feednet."""
    return "/__pycache__/" not in name and not name.startswith(tuple(f"{room}/" for room in _DECIDE_NOTHING))


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
