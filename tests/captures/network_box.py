"""The box that tests with real interfaces run in: namespaces that are gone when its first process is."""

import os
import subprocess
from functools import cache


def box(*command: str, rootless: bool | None = None) -> list[str]:
    """Return the command line that runs `command` as the first process of a box of its own.

    `rootless` makes the box without root's rights, in a user namespace; by default only if there are none.
    """
    if rootless is None:
        rootless = os.geteuid() != 0
    user = ["--user", "--map-root-user"] if rootless else []
    return [
        "unshare", *user, "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", *command
    ]  # fmt: skip


@cache
def why_not(rootless: bool | None = None) -> str | None:
    """Return why no box can be made here, or None."""
    if rootless is False and os.geteuid() != 0:
        return "not root"
    trial = box("ip", "link", "add", "box0", "type", "veth", "peer", "name", "box1", rootless=rootless)
    try:
        done = subprocess.run(trial, capture_output=True, check=False, text=True)
    except FileNotFoundError as error:
        return f"{error.filename} is not installed"
    return None if done.returncode == 0 else f"no namespaces here: {done.stderr.strip()}"
