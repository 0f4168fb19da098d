"""Studies that measure the claims of the tinyISP paper.

A provider and its clients, each on a link of its own (1 Mbit/s, 5 ms, no losses), in virtual time. Studies:

storage: packet bytes stored by the provider while messages pass between clients, and peaks of provider,
sender and receiver; with hopping data feeds and with a non-hopping one, compared with a pub that keeps
everything.
farewell: the provider's storage after pairs of clients have come and gone, with a farewell and without.
bundling: vectors between a client and the provider, with few and many contacts, compared with one set of all
the feeds exchanged.
priority: delay of a subscription request while data are waiting, on a slow medium, with the priority of
control feeds and without.
overhead: bytes on both links per delivered message, by packets, compared with plain tinySSB.
speed: packets that a provider handles per second of processor time, by its number of clients, each sending to
the next one. The store is in memory: a disk costs more.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from statistics import median

from analysis.decode.protocols.tiny import DECLARATION
from base.units import MS, SECOND
from ssb.keys import Identity
from ssb.tiny.goset import COMMON
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.subscription import STANDS
from ssb.tiny.isp.terms import Terms
from ssb.tiny.node import Node
from ssb.tiny.requests import Timing
from testbed.bench.figures import Line
from testbed.bench.tiny.nodes import MeteredNode, NodeWithoutPriority, TimedNode, WeighedNode, sent_on_link
from testbed.bench.tiny.provider_network import ISP, ON_LINKS, ProviderNetwork, TinyNetwork, star

NEVER = 1_000_000
"""Entries of a data feed that does not hop."""
ASKING = ("want", "chunk_vector")
_PAIRS, _EACH = 4, 10
_STORES = ("most", ISP), ("sender", "c0"), ("reader", "c1")
_SHORT = 27
"""Content bytes of an entry without a side chain."""
_PAGE = 25
"""Messages sent at once."""
_SLOW = Timing(gap=100 * MS, pause=500 * MS, retry=2 * SECOND)
"""Timing for a slow medium, on which packets queue at the sender."""


def _texts(count: int, size: int = _SHORT) -> list[bytes]:
    """Return contents without common chunks, because a node stores equal chunks once."""
    random = Random(size)
    return [random.randbytes(size).hex()[:size].encode() for _ in range(count)]


def storage(messages: int) -> Iterator[Line]:
    """Yield the storage while messages go from one client to another."""
    marks = [messages // 8, messages // 4, messages // 2, messages]
    for size, said in (
        (10, "feeds of 10 entries"),
        (50, "feeds of 50 entries"),
        (NEVER, "a feed that never hops"),
    ):
        yield Line(f"provider, {said}", _stored(Terms(size=size), marks))
    network, keys = _plain(2, [0, 1])
    figures, sent = {}, 0
    for mark in marks:
        _replicate(network, {keys[0]: _texts(mark - sent)}, _PAGE)
        sent = mark
        figures[f"kB after {mark}"] = network.size(ISP) / 1000
    sizes = {f"{role}, kB": network.size(name) / 1000 for role, name in _STORES}
    yield Line("a pub that keeps everything", figures | sizes)


def _stored(terms: Terms, marks: Sequence[int]) -> dict[str, float]:
    network = ProviderNetwork(2, terms, make=WeighedNode)
    ref = network.subscribe("c0", "c1")
    figures: dict[str, float] = {}
    sent = 0
    for mark in marks:
        while sent < mark:
            count = min(_PAGE, mark - sent)
            _tunnel(network, ref, "c0", "c1", _texts(count))
            sent += count
        figures[f"kB after {mark}"] = network.size(ISP) / 1000
    for role, name in _STORES:
        node = network.nodes[name]
        assert isinstance(node, WeighedNode)
        figures[f"{role}, kB"] = node.most / 1000
    return figures | ({"bound, kB": 2 * terms.bound(1) / 1000} if terms.size < NEVER else {})


def _tunnel(network: ProviderNetwork, ref: bytes, sender: str, reader: str, contents: list[bytes]) -> None:
    """Send contents over a subscription, and read them all."""
    network.send(sender, ref, contents)
    assert network.receive(reader, ref, len(contents)) == contents


def _plain(clients: int, writers: Sequence[int]) -> tuple[TinyNetwork, list[bytes]]:
    """Return plain tinySSB, without a provider: nodes that replicate a set of feeds.

    The feeds are in the order of their writers; writer -1 is the node in the middle.
    """
    network = TinyNetwork(star([(ISP, f"c{number}") for number in range(clients)]), ON_LINKS, MeteredNode)
    names = [f"c{writer}" if writer >= 0 else ISP for writer in writers]
    random = Random("feeds")
    keys = [network.nodes[name].store.add_own(Identity.from_seed(random.randbytes(32))).key for name in names]
    for node in network.nodes.values():
        node.join(COMMON, keys, 0)
    return network, keys


def _replicate(network: TinyNetwork, contents: dict[bytes, list[bytes]], page: int = 1) -> None:
    """Publish `page` entries of each feed at a time and wait until all nodes have them."""
    writers = {
        key: node for node in network.nodes.values() for key in contents if node.store.feeds[key].identity
    }
    for begin in range(0, max(map(len, contents.values())), page):
        for key, texts in contents.items():
            for text in texts[begin : begin + page]:
                writers[key].publish(key, text, network.now)
        network.run_until(lambda: all(_has_all(network, key, writer) for key, writer in writers.items()))


def _has_all(network: TinyNetwork, key: bytes, writer: Node) -> bool:
    last = writer.store.feeds[key].sequence
    return all(node.store.feeds[key].whole == last for node in network.nodes.values())


def farewell(messages: int) -> Iterator[Line]:
    """Yield the provider's storage after pairs of clients have come and gone."""
    yield Line("with farewells", _left(messages // 8, is_said=True))
    yield Line("clients vanish, contracts stay", _left(messages // 8, is_said=False))


def _left(messages: int, *, is_said: bool) -> dict[str, float]:
    """Return the storage left by clients after exchanging messages, pair by pair."""
    terms = Terms(linger=10 * SECOND)
    network = ProviderNetwork(2 * _PAIRS, terms, signs_up=False)
    figures: dict[str, float] = {}
    for pair in range(_PAIRS):
        names = f"c{2 * pair}", f"c{2 * pair + 1}"
        network.sign_up(*names)
        _tunnel(network, network.subscribe(*names), *names, _texts(messages))
        both = [network.clients[name] for name in names]
        if is_said:
            for client in both:
                client.farewell(network.key(ISP), network.now)
            network.run_until(partial(_are_free, both))
            network.run(30)  # the provider repeats its last word meanwhile
        figures[f"kB after {2 * (pair + 1)} clients"] = network.size(ISP) / 1000
    return figures | {"feeds left": len(network.nodes[ISP].store.feeds)}


def _are_free(clients: Sequence[Client]) -> bool:
    return not any(client.contracts for client in clients)


def bundling() -> Iterator[Line]:
    """Yield the vectors between one client and the provider during exchanges of ten messages with each
    contact.
    """
    for contacts in (1, 5, 10, 20):
        yield Line(f"bundled, {contacts} contacts", _bundled(contacts))
        plain, keys = _plain(1, [*[0] * contacts, *[-1] * contacts])
        _replicate(plain, {key: _texts(_EACH) for key in keys})
        yield Line(f"a set of {2 * contacts} feeds", _vectors(plain, [(0, 0)] * 3, 2 * _EACH * contacts))


def _bundled(contacts: int) -> dict[str, float]:
    network = ProviderNetwork(contacts + 1, make=MeteredNode)
    refs = {name: network.subscribe("c0", name) for name in network.clients if name != "c0"}
    before = _exchanged(network)
    ends = [(reader, ref) for name, ref in refs.items() for reader in ("c0", name)]

    def is_there() -> bool:
        return all(network.clients[reader].read(ref) for reader, ref in ends)

    for text in _texts(_EACH):
        for sender, ref in ends:
            network.clients[sender].send(ref, text, network.now)
        network.run_until(is_there)
        for reader, ref in ends:
            (entry,) = network.clients[reader].read(ref)
            network.clients[reader].confirm(ref, entry.sequence, network.now)
    return _vectors(network, before, 2 * _EACH * contacts)


def _exchanged(network: TinyNetwork) -> list[tuple[int, int]]:
    """Return packets and bytes on the first client's link: want vectors, all vectors, everything."""
    return [sent_on_link(network, 0, ("want",)), sent_on_link(network, 0, ASKING), sent_on_link(network, 0)]


def _vectors(network: TinyNetwork, before: Sequence[tuple[int, int]], messages: int) -> dict[str, float]:
    """Return the cost of vectors, with these messages and in the minute after them."""
    after = _exchanged(network)
    wants, asking, everything = (
        (now[0] - was[0], now[1] - was[1]) for now, was in zip(after, before, strict=True)
    )
    network.run(60)
    return {
        "want vector, bytes": wants[1] / wants[0],
        "vectors a message, bytes": asking[1] / messages,
        "all a message, bytes": everything[1] / messages,
        "an idle minute, bytes": _exchanged(network)[2][1] - after[2][1],
    }


def priority() -> Iterator[Line]:
    """Yield the delay of a request to a client with waiting data."""
    for make, said in ((Node, "control feeds first"), (NodeWithoutPriority, "all feeds alike")):
        times = [_request_s(make, seed) for seed in range(1, 8)]
        yield Line(said, {"median, s": median(times), "longest, s": max(times)})


def _request_s(make: type[Node], seed: int) -> float:
    network = ProviderNetwork(3, timing=_SLOW, make=make, seed=seed)
    network.send("c0", network.subscribe("c0", "c1"), _texts(45, 400))
    network.run(10)
    begun = network.now
    ref = network.request("c2", "c1")
    network.run_until(lambda: ref in network.clients["c1"].subscriptions)
    return (network.now - begun) / SECOND


def overhead(messages: int) -> Iterator[Line]:
    """Yield bytes on both links per message, by packets."""
    for size in (_SHORT, 400):
        contents = _texts(messages, size)
        network = ProviderNetwork(2, make=MeteredNode)
        ref = network.subscribe("c0", "c1")
        before = _both(network)
        for begin in range(0, messages, _PAGE):
            _tunnel(network, ref, "c0", "c1", contents[begin : begin + _PAGE])
        yield Line(f"tinyISP, {size} bytes", _per_message(before, _both(network), messages))
        plain, keys = _plain(2, [0, 1])
        _replicate(plain, {keys[0]: contents}, _PAGE)
        yield Line(f"tinySSB, {size} bytes", _per_message({}, _both(plain), messages))


def _both(network: TinyNetwork) -> dict[str, int]:
    """Return bytes on both links, by kind of packet."""
    return {
        kind: sum(sent_on_link(network, number, (kind,))[1] for number in (0, 1))
        for kind in DECLARATION.kinds
    }


def _per_message(before: dict[str, int], after: dict[str, int], messages: int) -> dict[str, float]:
    figures = {kind: (size - before.get(kind, 0)) / messages for kind, size in after.items()}
    return {kind: figures[kind] for kind in DECLARATION.kinds if kind not in ("novelty", "claim")} | {
        "all": sum(figures.values())
    }


def speed() -> Iterator[Line]:
    """Yield packets that a provider handles per second of processor time."""
    for clients in (5, 20, 80):
        packets, cpu_ns = _taken(clients)
        each = cpu_ns / packets / 1e3
        yield Line(
            f"{clients} clients", {"packets": packets, "µs each": each, "packets a second": 1e6 / each}
        )


def _taken(clients: int) -> tuple[int, int]:
    """Return the provider's processor time and packets while each client sends to the next one."""
    network = ProviderNetwork(clients, make=TimedNode)
    names = list(network.clients)
    pairs = list(zip(names, [*names[1:], names[0]], strict=True))
    refs = {pair: network.request(*pair) for pair in pairs}
    asked = {other: (network.clients[other], ref) for (_, other), ref in refs.items()}
    asking = {one: (network.clients[one], ref) for (one, _), ref in refs.items()}
    network.run_until(lambda: all(ref in client.subscriptions for client, ref in asked.values()))
    for client, ref in asked.values():
        client.answer(ref, network.now, accept=True)
    subscribed = [(client.subscriptions, ref) for client, ref in asking.values()]
    network.run_until(lambda: all(found[ref].state == STANDS for found, ref in subscribed))
    node = network.nodes[ISP]
    assert isinstance(node, TimedNode)
    received, cpu_ns = node.received, node.cpu_ns
    for text in _texts(_EACH, 400):
        for client, ref in asking.values():
            client.send(ref, text, network.now)
        network.run(1)
    assert all(len(client.read(ref)) == _EACH for client, ref in asked.values())
    return node.received - received, node.cpu_ns - cpu_ns


OF_MESSAGES: dict[str, Callable[[int], Iterator[Line]]] = {
    each.__name__: each for each in (storage, farewell, overhead)
}
"""Studies with a number of messages."""
CLAIMS: dict[str, Callable[[], Iterator[Line]]] = {each.__name__: each for each in (bundling, priority)}
"""Studies of claims with fixed cases."""
