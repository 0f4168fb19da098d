"""Memory of a pending Interest: measured in a process of its own."""

import gc
import resource
from pathlib import Path
from random import Random

from forwarder.forwarder import Forwarder
from forwarder.wire.name import SEQUENCE, component, from_uri
from forwarder.wire.packet import SENT_HOP_LIMIT, make_interest
from forwarder.wire.tlv import nni
from testbed.bench.load import DOWN, UP, BenchError

_PREFIX = from_uri("/feednet/bench/pending")
_FIRST = 1 << 32  # sequence numbers of equal length
_LIFETIME_MS = 600_000


def resident_bytes() -> int:
    """Return this process's resident memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def measure(count: int) -> float:
    """Make `count` Interests of different names pending, each sent to one face; return bytes per entry."""
    forwarder = Forwarder(rng=Random(0))
    for face in (DOWN, UP):
        forwarder.add_face(face)
    forwarder.fib.add(_PREFIX, UP)
    gc.collect()
    gc.disable()  # without garbage it would only cost time
    before = resident_bytes()
    for number in range(count):
        name = _PREFIX + component(SEQUENCE, nni(_FIRST + number))
        interest = make_interest(name, nonce=number, lifetime_ms=_LIFETIME_MS, hop_limit=SENT_HOP_LIMIT)
        forwarder.receive(DOWN, interest, number)
        forwarder.take_outputs()
    taken = resident_bytes() - before
    if len(forwarder.pit) != count:
        raise BenchError(f"of {count} Interests {len(forwarder.pit)} are pending")
    return taken / count
