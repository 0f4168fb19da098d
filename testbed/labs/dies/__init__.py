"""Who dies unnoticed: deliveries and longest gaps under two strategies."""

from typing import Any

from testbed.labs.folder import Folder, deliveries


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the runs `dies-best-route` and `dies-asf`."""
    best, asf = folder.run("dies-best-route"), folder.run("dies-asf")
    return {
        "poll_best": len(deliveries(best, "poll")),
        "poll_asf": len(polled := deliveries(asf, "poll")),
        "longest_asf_ms": float(polled.delivered.diff().max()),
        "lli_best": len(pushed := deliveries(best, "lli")),
        "longest_lli_ms": float(pushed.delivered.diff().max()),
    }
