"""Do you believe the emulator: latencies by hand, emulated, and with costs of operations."""

from typing import Any

from testbed.labs.folder import Folder, deliveries

_LINKS, _DELAY_MS, _BITS_A_MS = 3, 10.0, 10_000.0


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the runs `believe-free`, `believe-again` and `believe-cost`."""
    free, again, costly = (folder.run(f"believe-{name}") for name in ("free", "again", "cost"))
    packets = free.packets("poll")
    item = packets[(packets.kind == "data") & (packets.node == "s1")].frame_bytes.min()
    late = {
        (run.directory, layering): (got := deliveries(run, layering)).delivered - got.published
        for run in (free, costly)
        for layering in ("poll", "lli")
    }
    added = {
        layering: late[costly.directory, layering].median() - late[free.directory, layering].median()
        for layering in ("poll", "lli")
    }
    captures = [(run.directory / "poll" / "capture.pcapng").read_bytes() for run in (free, again)]
    return {
        "by_hand_ms": _LINKS * (_DELAY_MS + float(item) * 8 / _BITS_A_MS),
        "emulated_ms": float(late[free.directory, "poll"].min()),
        "cost_lli_ms": float(added["lli"]),
        "dearer": max(added, key=lambda layering: added[layering]),
        "repeats": captures[0] == captures[1],
    }
