"""Read a capture: the PIT of r1 for one second, from its packets by the rules of the analysis."""

from typing import Any

from analysis.pit.entry import Interval, Message
from analysis.pit.model import PitModel
from testbed.api.results import Results
from testbed.labs.folder import Folder

_BEGIN, _MIDDLE, _END = 1_000_000_000, 1_500_000_000, 2_000_000_000


def expected(folder: Folder) -> dict[str, Any]:
    """Return the right answers, from the run `capture`."""
    entries = _entries(folder.run("capture"))
    opened = [each for each in entries if _BEGIN <= each.opened <= _END]
    satisfied = [each for each in entries if each.outcome == "satisfied"]
    return {
        "opened": len(opened),
        "satisfied": sum(_BEGIN <= each.closed <= _END for each in satisfied),
        "at_1500": sum(each.opened <= _MIDDLE < each.closed for each in entries),
        "longest_ms": max(each.closed - each.opened for each in opened if each in satisfied) / 1e6,
    }


def _entries(run: Results) -> list[Interval]:
    """Return all entries of r1's PIT."""
    packets = run.packets("poll")
    seen = packets[(packets.node == "r1") & packets.name.notna()][list(Message._fields)].astype(object)
    model = PitModel()
    ended = []
    for row in seen.where(seen.notna(), None).itertuples(index=False):
        ended += model.receive(Message(*row))
    return ended + model.finish()
