"""A packet is lost: the first item that left r1 and did not come to r2."""

from typing import Any

from testbed.api.results import Results
from testbed.errors import UserError
from testbed.labs.folder import Folder, deliveries

_DELAY_MS = 20.0


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the run `lost`."""
    run = folder.run("lost")
    sender, lli_ms = _repair(run, "lli")
    _, selective_ms = _repair(run, "lli-selective")
    got = deliveries(run, "poll")
    poll_ms = (got.delivered - got.published).max()
    return {"who": sender, "lli_ms": lli_ms, "selective_ms": selective_ms, "poll_ms": poll_ms}


def _repair(run: Results, layering: str) -> tuple[str, float]:
    """Return who sent the first lost item again, and ms from when it should have come until it came."""
    packets = run.packets(layering)
    items = packets[(packets.kind == "data") & packets.seq.notna()]
    came = items[(items.node == "r2") & (items.direction == "in")].drop_duplicates("seq").set_index("seq")
    left = items[(items.node == "r1") & (items.peer == "r2") & (items.direction == "out")]
    first = left.drop_duplicates("seq").set_index("seq")
    late = (came.time - first.time) / 1e6 - _DELAY_MS
    lost = late[late > _DELAY_MS]  # of a frame that was not lost it is the time on the line
    if len(lost):
        return str(came.peer.loc[lost.index[0]]), float(lost.iloc[0])
    raise UserError(f"{run.directory}: nothing was lost under {layering}: take more items, or another seed")
