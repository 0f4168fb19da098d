"""The module status (NFD ForwarderStatus)."""

from collections.abc import Sequence

from base.units import MS
from forwarder.forwarder import Forwarder
from forwarder.management.module import Module
from forwarder.wire.tlv import element, nni

_VERSION = 0x80


class StatusModule(Module):
    """status/general.

    Args:
        forwarder: whose.
        version: NfdVersion.
        started: start time, ns since 1970.
    """

    name = "status"

    def __init__(self, forwarder: Forwarder, version: str, started: int) -> None:
        self._forwarder = forwarder
        self._version = version
        self._started = started
        self.commands = {}
        self.datasets = {"general": self._general}

    def _general(self, _rest: Sequence[tuple[int, bytes]], now: int) -> bytes:
        node, counters = self._forwarder, self._forwarder.counters
        pending = len(node.pit)
        numbers = (
            (0x81, self._started // MS),
            (0x82, now // MS),
            (0x83, len(node.fib) + pending),  # there is no name tree; its entries would be these
            (0x84, len(node.fib)),
            (0x85, pending),
            (0x86, 0),  # strategies keep their own measurements
            (0x87, len(node.cs)),
            (0x90, counters.in_interests),
            (0x91, counters.in_data),
            (0x97, counters.in_nacks),
            (0x92, counters.out_interests),
            (0x93, counters.out_data),
            (0x98, counters.out_nacks),
            (0x99, counters.satisfied),
            (0x9A, counters.expired),
        )
        return element(_VERSION, self._version.encode()) + b"".join(
            element(kind, nni(value)) for kind, value in numbers
        )
