"""PIT entries of polling and of controlled push, and the latencies with two windows."""

from typing import Any

from testbed.labs.folder import Folder, deliveries


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the runs `pit-4` and `pit-8`."""
    found: dict[str, Any] = {}
    for window in (4, 8):
        run = folder.run(f"pit-{window}")
        held = run.counters("poll").query("node == 'r1'")
        got = deliveries(run, "poll")
        found[f"entries_{window}"] = int(held["state.pit.entries"].max())
        found[f"late_{window}"] = float((got.delivered - got.published).median())
    held = run.counters("lli").query("node == 'r1'")
    return found | {"entries_lli": int(held["state.llis.entries"].max())}
