"""Join a tinyISP: what the provider holds and hears, before and after a crash."""

from typing import Any

from testbed.labs.folder import Folder


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the run `isp`."""
    run = folder.run("isp")
    held = run.counters("tiny-isp").query("node == 'isp'")
    events = run.events("tiny-isp")
    crash = events[events.event == "restart"].time.iloc[0]
    return {
        "contracts": int(held.contracts.max()),
        "pairs": int(held.subscriptions.iloc[-1]),
        "after_crash": int(held[held.time > crash].contracts.iloc[0]),
        "lost": sum(run.manifest.workload.expected.values()) - int((events.event == "delivered").sum()),
    }
