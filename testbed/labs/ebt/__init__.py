"""Eager and lazy: who brings the messages to cem before the cut and after it, and how long the gap is."""

from typing import Any

from testbed.labs.folder import Folder

_CUT = 20
"""The item at which the link breaks."""


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the run `ebt`."""
    run = folder.run("ebt")
    messages = run.messages("ebt").sort_values("time")
    came = messages[(messages.kind == "data") & (messages.direction == "in") & (messages.receiver == "cem")]
    senders = came[came.node == "cem"].drop_duplicates("seq").set_index("seq").sender
    events = run.events("ebt")
    cut = events[events.event == "link-down"].time.iloc[0]
    got = events[(events.event == "delivered") & (events.node == "cem")].set_index("seq").time
    published = events[events.event == "published"].seq.nunique()
    return {
        "before": str(senders[_CUT - 1]),
        "after": str(senders[_CUT]),
        "lost": int(published - got.index.nunique()),
        "gap_ms": float(got[_CUT] - cut) / 1e6,
    }
