"""The memory that a process may still take."""

import os
from contextlib import suppress
from pathlib import Path

_GROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int:
    """Return the memory that is available: by Linux's estimate, and within the control group of a container.

    Elsewhere it is half of the machine's.
    """
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    with suppress(OSError, KeyError, ValueError):
        lines = (line.partition(":") for line in _MEMINFO.read_text("ascii").splitlines())
        found = int({name: rest for name, _, rest in lines}["MemAvailable"].split()[0]) << 10
    with suppress(OSError, ValueError):  # its limit is a word if there is none
        limit, taken = (int((_GROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        found = min(found, max(0, limit - taken))
    return found
