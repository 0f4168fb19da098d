"""Send credit: the rate of items with each credit, and the round trip of a grant."""

from typing import Any

from testbed.labs.folder import Folder, deliveries


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the runs `credit-4`, `credit-8` and `credit-64`."""
    found = {}
    for credit in (4, 8, 64):
        got = deliveries(folder.run(f"credit-{credit}"), "lli").delivered
        found[f"rate_{credit}"] = (len(got) - 1) / (got.iloc[-1] - got.iloc[0]) * 1000
    packets = folder.run("credit-4").packets("lli")
    own = packets[packets.node == "s1"]
    grant = own[(own.kind == "lli") & own.name.str.endswith("seq=5")].time.iloc[0]
    answer = own[(own.kind == "data") & (own.seq == 5)].time.iloc[0]
    return found | {"round_trip_ms": (answer - grant) / 1e6}
