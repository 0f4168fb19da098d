"""The tables of a node, and the settings that its pipelines share."""

from random import Random
from typing import Final

from forwarder.pipelines.sized_feeds import SizedFeeds
from forwarder.strategies.strategy_choice import StrategyChoice
from forwarder.tables.content_store import ContentStore
from forwarder.tables.counters import Counters
from forwarder.tables.dead_nonces import DeadNonces
from forwarder.tables.face import Face
from forwarder.tables.fib import Fib
from forwarder.tables.pit import Pit, PitEntry
from forwarder.wire.name import GENERIC, component

FEEDS_FACE: Final = 0
"""The face number of PIT records on behalf of the node's own feeds; other faces count from 1."""
LOCALHOST: Final = component(GENERIC, b"localhost")
LOCALHOP: Final = component(GENERIC, b"localhop")
SCOPED: Final = (LOCALHOST, LOCALHOP)


class Tables:
    """Tables and settings of a node; Forwarder describes the arguments.

    Attributes:
        faces: all faces by number. Numbers are the caller's choice, above 0; every face must be added before
            use.
        network: numbers of those to the network, which are not local.
        regions: prefixes of the producer regions that this node is in. An Interest with a forwarding hint to
            one of them is forwarded by its name.
        unsolicited: whether unsolicited Data are cached: "drop-all", "admit-local", "admit-network" or
            "admit-all".
        strategies: strategies by prefix.
        feeds: controlled push, None without.
        pit_satisfied: PIT entries that Data from the network have ended.
    """

    strategies: StrategyChoice

    def __init__(self, rng: Random, cs_capacity: int, cs_policy: str, pit_capacity: int) -> None:
        self.rng = rng
        self.feeds: SizedFeeds | None = None
        self.faces: dict[int, Face] = {}
        self.fib = Fib()
        self.network: set[int] = set()
        self.pit = Pit(self.network)
        self.cs = ContentStore(cs_capacity, cs_policy)
        self.pit_capacity = pit_capacity
        self.dead_nonces = DeadNonces()
        self.counters = Counters(self.faces)
        self.regions: set[bytes] = set()
        self.unsolicited = "drop-all"
        self.pit_satisfied = 0

    def bury(self, entry: PitEntry, now: int) -> None:
        """Remember the nonces of an entry that ends: copies may still be on their way round a loop."""
        for record in entry.out_records:
            self.dead_nonces.add(entry.key[0], record.nonce, now)
