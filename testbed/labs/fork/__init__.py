"""The fork: whose branch each subscriber has, who was told, and who sent the first proof."""

from typing import Any

import pandas as pd

from testbed.labs.folder import Folder

_SEQ = 31
"""The first item after the fork."""


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the run `fork`."""
    run = folder.run("fork")
    packets = run.packets("lli")
    came = packets[(packets.kind == "data") & (packets.seq == _SEQ) & (packets.direction == "in")]
    peers = came.drop_duplicates("node").set_index("node").peer
    proofs = packets[packets.name.str.contains("32=fork", na=False) & (packets.direction == "out")]
    return {
        "s1_believes": _origin(peers, "s1"),
        "s3_believes": _origin(peers, "s3"),
        "told_lli": _told(run.events("lli")),
        "told_poll": _told(run.events("poll")),
        "prover": str(proofs.node.iloc[0]),
    }


def _origin(peers: "pd.Series[str]", node: str) -> str:
    """Return the publisher from which an item came to a node, neighbour by neighbour."""
    seen = set()
    while node in peers and node not in seen:
        seen.add(node)
        node = str(peers[node])
    return node


def _told(events: pd.DataFrame) -> set[str]:
    return set(events[events.event == "forked"].node)
