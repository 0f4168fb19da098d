"""The module cs (NFD CsMgmt): config, erase, info."""

from collections.abc import Sequence

from forwarder.forwarder import Forwarder
from forwarder.management.module import Call, Command, Module, Refusal
from forwarder.management.parameters import CAPACITY, FLAGS, ControlParameters, ControlResponse
from forwarder.tables.content_store import ContentStore
from forwarder.wire.packet import make_interest, parse_interest
from forwarder.wire.tlv import element, nni

_ADMIT = 1
_SERVE = 2

_CS_INFO = 0x80
_HITS = 0x81
_MISSES = 0x82
_ENTRIES = 0x87

MOST_ERASED = 256
"""Packets that one command erases at most, as in NFD: the client asks again."""

LARGEST_CAPACITY = (1 << 31) - 1


class StoreModule(Module):
    """cs/config, cs/erase, cs/info.

    Args:
        forwarder: whose.
    """

    name = "cs"

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self.commands = {
            "config": Command(self._config, frozenset(), frozenset({"capacity", "flags", "mask"})),
            "erase": Command(self._erase, frozenset({"name"}), frozenset({"count"})),
        }
        self.datasets = {"info": self._info}

    @property
    def _store(self) -> ContentStore:
        return self._forwarder.cs

    def _flags(self) -> int:
        return _ADMIT * self._store.admits | _SERVE * self._store.serves

    def _config(self, call: Call) -> ControlResponse:
        asked, store = call.parameters, self._store
        if asked.capacity is not None:
            store.capacity = min(asked.capacity, LARGEST_CAPACITY)
        if asked.mask is not None and asked.flags is not None:
            if asked.mask & _ADMIT:
                store.admits = bool(asked.flags & _ADMIT)
            if asked.mask & _SERVE:
                store.serves = bool(asked.flags & _SERVE)
        return ControlResponse(200, "OK", ControlParameters(capacity=store.capacity, flags=self._flags()))

    def _erase(self, call: Call) -> ControlResponse:
        wanted = call.parameters.count
        if wanted == 0:
            raise Refusal(400, "Count is above 0")
        limit = MOST_ERASED if wanted is None else min(wanted, MOST_ERASED)
        prefix = call.parameters.name or b""
        erased = self._store.erase(prefix, limit)
        # Capacity in the answer means: the limit of one command, and more is left.
        is_cut = erased == MOST_ERASED < (wanted or MOST_ERASED + 1) and self._holds(prefix, call.now)
        return ControlResponse(
            200,
            "OK",
            ControlParameters(name=prefix, count=erased, capacity=MOST_ERASED if is_cut else None),
        )

    def _holds(self, prefix: bytes, now: int) -> bool:
        """Return whether the store (still) answers any Interest under a prefix."""
        if not prefix:
            return len(self._store) > 0
        interest = make_interest(prefix, nonce=0, can_be_prefix=True)
        return self._store.find(parse_interest(interest), now) is not None

    def _info(self, _rest: Sequence[tuple[int, bytes]], _now: int) -> bytes:
        numbers = (
            (CAPACITY, self._store.capacity),
            (FLAGS, self._flags()),
            (_ENTRIES, len(self._store)),
            (_HITS, self._forwarder.counters.cs_hits),
            (_MISSES, self._forwarder.counters.cs_misses),
        )
        return element(_CS_INFO, b"".join(element(kind, nni(value)) for kind, value in numbers))
