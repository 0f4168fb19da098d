"""Logs with holes: peers replicate detached messages by EBT, and their contents beside them, as blobs."""

from collections.abc import Sequence
from typing import Any

from ssb.replication.blobs import Blobs
from ssb.store.contents import Contents
from ssb.store.feeds import read_log
from testbed.layerings.nodes.node import Context, SimpleLayering, StateSize
from testbed.layerings.nodes.peer_role import Publication
from testbed.layerings.nodes.titles import title
from testbed.layerings.nodes.workload import Feature
from testbed.layerings.peers.ladder import EbtParameters, RungNode
from testbed.layerings.peers.ssb import PEER_FEATURES


class HolesNode(RungNode):
    """A node whose peer holds the contents of the logs that it has read, unless they are to be deleted."""

    def __init__(self, context: Context) -> None:
        self._asked = context.workload.asked
        super().__init__(context)

    def held(self) -> dict[str, StateSize]:
        """Return the peer's state, and the contents that it holds, its own ones included."""
        store = self.state.blobs
        number = sum(1 for _ in store.blobs())
        return super().held() | {"contents": StateSize(number, store.used)}

    def counters(self) -> dict[str, Any]:
        """Return RungNode's counters; also the contents here that their author asks to delete sometime."""
        here = sum(self.state.blobs.size(blob) is not None for blob in self._asked)
        return super().counters() | {"asked_contents": here}

    def _held_blobs(self, context: Context) -> Blobs | None:
        store = context.state.blobs
        obeys = context.name not in context.workload.disobedient
        blobs = Blobs(store, contents=Contents(store, obeys=obeys))
        blobs.came(stored.message for stored in read_log(self._store, 0))
        return blobs

    def _publish_due(self, due: Sequence[Publication], now: int) -> None:
        for each in due:
            content = self._role.feeds[each.feed].contents.get(each.message.sequence)
            if content is not None:
                self.state.blobs.add(content)
        super()._publish_due(due, now)


HOLES = SimpleLayering(
    title("holes"),
    EbtParameters,
    HolesNode,
    "ssb",
    PEER_FEATURES - {Feature.PICTURES} | {Feature.DELETION},
)
"""Layering `holes`."""
