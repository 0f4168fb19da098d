"""Hostile clients on a shared medium: their share, and the share of honest clients."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from base.units import MS, SECOND
from ssb.tiny.isp.terms import Terms
from ssb.tiny.requests import Timing
from testbed.bench.figures import Line
from testbed.bench.tiny.nodes import MeteredNode
from testbed.bench.tiny.provider_network import ISP, ProviderNetwork
from testbed.layerings.tiny.hostile_client import Attack, HostileClient
from topologies.radio import Radio

ATTACKS: tuple[Attack, ...] = ("none", "crowd", "flood", "beg")
_HONEST, _HOSTILE = ("c0", "c1", "c2", "c3"), ("x0", "x1")
_PAIRS = ("c0", "c1"), ("c2", "c3")


class Shared(NamedTuple):
    """A shared medium.

    Attributes:
        medium: its parameters.
        timing: of all nodes.
        terms: of all contracts.
        pace: minimum and maximum time between two rounds of an attack, ns.
        messages: number from each of two honest clients to another.
        every: ns from one to the next.
    """

    medium: dict[str, Any]
    timing: Timing
    terms: Terms
    pace: tuple[int, int]
    messages: int
    every: int


_LORA = Radio(
    spreading_factor=7, bandwidth_khz=500.0, duty_cycle_percent=100.0, carrier_sense=True, backoff_ms=100.0
)
MEDIA = {
    "each sender 250 kbit/s": Shared(
        {"delay_ms": 1.0, "bw_mbit": 0.25}, Timing(), Terms(), (10 * MS, 20 * MS), 100, 50 * MS
    ),
    "one LoRa channel of 22 kbit/s": Shared(
        {"radio": _LORA},
        Timing(20 * SECOND, retry=4 * SECOND, pause=800 * MS, spread=100 * MS, gap=50 * MS),
        Terms(pace=10 * SECOND, burst=8),
        (100 * MS, 200 * MS),
        30,
        4 * SECOND,
    ),
}
LINE_PACE = {"each sender 250 kbit/s": 12 * MS, "one LoRa channel of 22 kbit/s": SECOND}
"""Twice an honest client's rate: an occasional entry of two packets."""


def storm() -> Iterator[Line]:
    """Return delays between honest clients beside two hostile ones on the same medium."""
    for name, shared in MEDIA.items():
        for limit, terms in (
            ("", shared.terms),
            (", lines have a pace", shared.terms._replace(size=10, line_pace=LINE_PACE[name])),
        ):
            for attack in ATTACKS:
                yield Line(f"{name}, {attack}{limit}", played(shared._replace(terms=terms), attack))


def played(shared: Shared, attack: Attack) -> dict[str, float]:
    """Return deliveries to honest clients and bytes by sender, during the traffic and a minute longer."""
    hostile = partial(HostileClient, attack="none", pace=shared.pace, talks=attack in ("flood", "beg"))
    network = ProviderNetwork(
        dict.fromkeys((*_HONEST, *_HOSTILE), ISP),
        shared.terms,
        medium=shared.medium,
        timing=shared.timing,
        make=MeteredNode,
        kinds=dict.fromkeys(_HOSTILE, hostile),
    )
    refs = {pair: network.subscribe(*pair) for pair in _PAIRS}
    bad = network.subscribe(*_HOSTILE)
    for name in _HOSTILE:
        client = network.clients[name]
        assert isinstance(client, HostileClient)
        client.attack = attack
    waits: list[float] = []
    sent: dict[tuple[str, int], int] = {}
    network.run(10)
    before, begun = _bytes(network), network.now
    for number in range(shared.messages):
        for pair, ref in refs.items():
            network.send(pair[0], ref, [b"%d" % number])
            sent[pair[0], number] = network.now
        _exchange(network, refs, bad, shared.every / SECOND, sent, waits)
    end = network.now
    _exchange(network, refs, bad, 60, sent, waits)
    in_time = sum(wait <= 30 for wait in waits)
    sizes = {name: size - before[name] for name, size in _bytes(network).items()}
    total = sum(sizes.values())
    return {
        "come, %": 100 * len(waits) / len(sent),
        "within 30 s, %": 100 * in_time / len(sent),
        "median wait, s": sorted(waits)[len(waits) // 2] if waits else 0.0,
        "sending takes, s": (end - begun) / SECOND,
        "hostile, %": 100 * sum(sizes[name] for name in _HOSTILE) / total,
        "provider, %": 100 * sizes[ISP] / total,
        "all, kbit/s": total * 8 / 1000 / ((network.now - begun) / SECOND),
    }


def _exchange(
    network: ProviderNetwork,
    refs: dict[tuple[str, str], bytes],
    bad: bytes,
    seconds: float,
    sent: dict[tuple[str, int], int],
    waits: list[float],
) -> None:
    """Run for some time, and let all read arrived entries."""
    until = network.now + round(seconds * SECOND)
    while network.now < until:
        network.run(min(0.1, (until - network.now) / SECOND))
        for (sender, reader), ref in refs.items():
            for entry in network.clients[reader].read(ref):
                waits.append((network.now - sent[sender, int(entry.content)]) / SECOND)
                network.clients[reader].confirm(ref, entry.sequence, network.now)
        for name in _HOSTILE:
            for entry in network.clients[name].read(bad):
                network.clients[name].confirm(bad, entry.sequence, network.now)


def _bytes(network: ProviderNetwork) -> dict[str, int]:
    nodes = network.nodes
    return {name: sum(node.bytes.values()) for name, node in nodes.items() if isinstance(node, MeteredNode)}
