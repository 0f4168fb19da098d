"""Notifications to a supervisor: the protocol of sd_notify(3), which systemd and others read.

Without NOTIFY_SOCKET in the environment nothing is sent.
"""

import os
import socket
import time
from contextlib import suppress


def tell(*fields: str) -> None:
    """Send fields such as "READY=1". A supervisor that is gone is no error."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    if address:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto("\n".join(fields).encode(), address)


def notify_reloading() -> None:
    """Notify that a reload begins; READY=1 ends it."""
    tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def watchdog_s() -> float | None:
    """Return how often to send WATCHDOG=1, seconds: twice in the time allowed; None if nobody waits."""
    try:
        allowed = int(os.environ.get("WATCHDOG_USEC", ""))
        meant = int(os.environ.get("WATCHDOG_PID", os.getpid()))
    except ValueError:
        return None
    return allowed / 2e6 if allowed > 0 and meant == os.getpid() else None
