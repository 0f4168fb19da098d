"""Rate at which a provider drops packets, by reason: the processor cost of a flood."""

import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from random import Random
from zlib import crc32

from base.units import MS
from ssb.tiny.entry import DEMUX, PACKET
from ssb.tiny.goset import Claim, make_claim, set_demultiplexer
from ssb.tiny.vectors import make_want
from testbed.bench.figures import Line
from testbed.bench.tiny.provider_network import ISP, ProviderNetwork

_PACKETS = 2_000


def refusal() -> Iterator[Line]:
    """Return packets dropped per second of a provider's processor time."""
    random = Random(1)
    network = ProviderNetwork(2)
    ref = network.subscribe("c0", "c1")
    for content in range(20):
        network.send("c0", ref, [b"%d" % content])
    network.run(5)
    (contract,) = network.clients["c0"].contracts.values()
    store, facts = network.nodes["c0"].store, contract.facts
    held = [
        packet
        for sequence in range(1, store.feeds[facts.own_line[-1]].sequence + 1)
        if (packet := store.packet(facts.own_line[-1], sequence)) is not None
    ]
    expected = network.nodes[ISP].store.feeds[facts.own_control].expected
    keys = network.nodes[ISP].keys(contract.control_set)
    state = bytes(one ^ other for one, other in zip(*keys, strict=True))
    # A signature with a large last byte encodes no group element, and is refused without any arithmetic.
    of_expected = [expected + b"\1\5" + random.randbytes(PACKET - DEMUX - 3) + b"\0" for _ in range(_PACKETS)]
    yield _dropped(network, "garbage", [random.randbytes(PACKET) for _ in range(_PACKETS)], "unknown")
    yield _dropped(network, "entries that are held", held, "duplicate")
    yield _dropped(network, "forged entries", of_expected, "forged")
    yield _dropped(network, "want vectors for what was sent", [make_want(state, 0, [1, 1])[0]], "asked again")
    claim = make_claim(set_demultiplexer(contract.control_set), Claim(2, min(keys), max(keys), state))
    yield _dropped(network, "claims", [claim], "malformed")
    network.nodes[ISP].withheld.add(facts.own_control)
    yield _dropped(network, "entries of a feed that is withheld", of_expected, "withheld")


def _dropped(network: ProviderNetwork, case: str, packets: Sequence[bytes], reason: str) -> Line:
    node = network.nodes[ISP]
    sealed = [packet + crc32(packet).to_bytes(4) for packet in islice(cycle(packets), _PACKETS)]
    before, begun = node.dropped[reason], time.process_time()
    for number, packet in enumerate(sealed):
        node.receive(1, packet, None, network.now + number * 10 * MS)
        node.take_outputs()
    seconds = time.process_time() - begun
    if node.dropped[reason] - before < 0.9 * _PACKETS:
        raise RuntimeError(f"{case}: not all are dropped: {node.dropped}")
    return Line(case, {"packets a second": _PACKETS / seconds, "µs each": seconds / _PACKETS * 1e6})
