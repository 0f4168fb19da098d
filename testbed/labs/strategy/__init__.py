"""Write a strategy: deliveries under best-route and under the student's own."""

from typing import Any

from testbed.labs.folder import Folder, deliveries


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the runs `strategy-best-route` and `strategy-mine`."""
    best, mine = folder.run("strategy-best-route"), folder.run("strategy-mine")
    packets = mine.packets("poll")
    asked = packets[(packets.node == "r2") & (packets.kind == "interest") & (packets.direction == "out")]
    got = {"best": len(deliveries(best, "poll")), "mine": len(deliveries(mine, "poll"))}
    share = 100 * float((asked.peer == "b").mean())
    return got | {"share_b": share, "all": True if got["mine"] == mine.manifest.workload.items else "not yet"}
