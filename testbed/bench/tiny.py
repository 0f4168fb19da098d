"""What the paper on tinyISP claims, measured: `python -m testbed.bench.tiny [--messages N] [STUDY]...`

A provider and its clients, each on a link of its own (1 Mbit/s, 5 ms, no losses), in virtual time. Studies:

storage: bytes of packets that the provider stores while messages go from one client to another, and the most
that it, the sender and the reader store; with data feeds that hop and with one that never does, beside a pub
that keeps everything.
farewell: what the provider stores after pairs of clients have come and gone, with a farewell and without.
bundling: vectors between a client and the provider, with few and many contacts, beside one set of all the
feeds that the client exchanges with its contacts.
priority: how long a request for a subscription takes while data are waiting, on a slow medium, with the
priority of control feeds and without.
overhead: bytes on both links for each message that is delivered, by packets, beside plain tinySSB.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from statistics import median
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from analysis.decode.protocols.tiny import DECLARATION
from ssb.keys import Identity
from ssb.tiny.asking import MS, Timing
from ssb.tiny.goset import COMMON
from ssb.tiny.isp.client import Client
from ssb.tiny.isp.terms import SECOND, Terms
from ssb.tiny.node import Node
from testbed.bench.tiny_town import ISP, Even, Metered, Town

NEVER = 1_000_000
"""Entries of a data feed that does not hop."""
ASKING = ("want", "chunk_vector")
_PAIRS, _EACH = 4, 10
_STORES = ("most", ISP), ("sender", "c0"), ("reader", "c1")
_SHORT = 27
"""Bytes of content that an entry carries without a side chain."""
_PAGE = 25
"""Messages that are sent at once."""
_SLOW = Timing(gap=100 * MS, pause=500 * MS, retry=2 * SECOND)
"""Of a slow medium, where packets wait at who sends them."""


class Row(NamedTuple):
    """A row of a study: what it is about, and its figures by their titles."""

    what: str
    figures: dict[str, float]


def _texts(count: int, size: int = _SHORT) -> list[bytes]:
    """Return contents, no two of which are alike, nor any of their chunks: one chunk would do for both."""
    random = Random(size)
    return [random.randbytes(size).hex()[:size].encode() for _ in range(count)]


def storage(messages: int) -> Iterator[Row]:
    """What is stored while messages go from one client to another."""
    marks = [messages // 8, messages // 4, messages // 2, messages]
    for size, said in (
        (10, "feeds of 10 entries"),
        (50, "feeds of 50 entries"),
        (NEVER, "a feed that never hops"),
    ):
        yield Row(f"provider, {said}", _stored(Terms(size=size), marks))
    town, keys = _plain(2, [0, 1])
    figures, sent = {}, 0
    for mark in marks:
        _replicate(town, {keys[0]: _texts(mark - sent)}, _PAGE)
        sent = mark
        figures[f"kB after {mark}"] = town.size(ISP) / 1000
    sizes = {f"{what}, kB": town.size(name) / 1000 for what, name in _STORES}
    yield Row("a pub that keeps everything", figures | sizes)


def _stored(terms: Terms, marks: Sequence[int]) -> dict[str, float]:
    town = Town(2)
    town.open(terms)
    town.sign_up(terms, "c0", "c1")
    ref = town.subscribe("c0", "c1")
    figures: dict[str, float] = {}
    most = Counter[str]()
    sent = 0
    for mark in marks:
        while sent < mark:
            count = min(_PAGE, mark - sent)
            town.tunnel(ref, "c0", "c1", _texts(count))
            sent += count
            most |= Counter({name: town.size(name) for name in town.nodes})
        figures[f"kB after {mark}"] = town.size(ISP) / 1000
    figures |= {f"{what}, kB": most[name] / 1000 for what, name in _STORES}
    return figures | ({"bound, kB": 2 * terms.bound(1) / 1000} if terms.size < NEVER else {})


def _plain(clients: int, writers: Sequence[int]) -> tuple[Town, list[bytes]]:
    """Return a town whose nodes replicate a set of feeds, and the feeds by their writers (-1: the middle)."""
    town = Town(clients)
    names = [f"c{writer}" if writer >= 0 else ISP for writer in writers]
    random = Random("feeds")
    keys = [town.nodes[name].store.add_own(Identity.from_seed(random.randbytes(32))).key for name in names]
    for node in town.nodes.values():
        node.join(COMMON, keys, 0)
    return town, keys


def _replicate(town: Town, contents: dict[bytes, list[bytes]], page: int = 1) -> None:
    """Publish so many entries of each feed at once, again and again, until all nodes have everything."""
    writers = {
        key: node for node in town.nodes.values() for key in contents if node.store.feeds[key].identity
    }
    for begin in range(0, max(map(len, contents.values())), page):
        for key, texts in contents.items():
            for text in texts[begin : begin + page]:
                writers[key].publish(key, text, town.now)
        town.run(lambda: all(_has_all(town, key, writer) for key, writer in writers.items()))


def _has_all(town: Town, key: bytes, writer: Node) -> bool:
    last = writer.store.feeds[key].sequence
    return all(node.store.feeds[key].whole == last for node in town.nodes.values())


def farewell(messages: int) -> Iterator[Row]:
    """What the provider stores after pairs of clients have come and gone."""
    yield Row("with farewells", _left(messages // 8, is_said=True))
    yield Row("clients vanish, contracts stay", _left(messages // 8, is_said=False))


def _left(messages: int, *, is_said: bool) -> dict[str, float]:
    """Return what is left of clients who have exchanged so many messages, pair by pair."""
    terms = Terms(linger=10 * SECOND)
    town = Town(2 * _PAIRS)
    town.open(terms)
    figures: dict[str, float] = {}
    for pair in range(_PAIRS):
        names = f"c{2 * pair}", f"c{2 * pair + 1}"
        town.sign_up(terms, *names)
        town.tunnel(town.subscribe(*names), *names, _texts(messages))
        both = [town.clients[name] for name in names]
        if is_said:
            for client in both:
                client.farewell(town.isp.root.public_key, town.now)
            town.run(partial(_are_free, both))
            town.wait(30)  # the provider repeats its last word meanwhile
        figures[f"kB after {2 * (pair + 1)} clients"] = town.size(ISP) / 1000
    return figures | {"feeds left": len(town.nodes[ISP].store.feeds)}


def _are_free(clients: Sequence[Client]) -> bool:
    return not any(client.contracts for client in clients)


def bundling(_: int) -> Iterator[Row]:
    """Vectors between one client and the provider while each contact and the client exchange ten messages."""
    for contacts in (1, 5, 10, 20):
        yield Row(f"bundled, {contacts} contacts", _bundled(contacts))
        plain, keys = _plain(1, [*[0] * contacts, *[-1] * contacts])
        _replicate(plain, {key: _texts(_EACH) for key in keys})
        yield Row(f"a set of {2 * contacts} feeds", _vectors(plain, [(0, 0)] * 3, 2 * _EACH * contacts))


def _bundled(contacts: int) -> dict[str, float]:
    terms = Terms()
    town = Town(contacts + 1)
    town.open(terms)
    names = [f"c{number}" for number in range(contacts + 1)]
    town.sign_up(terms, *names)
    refs = {name: town.subscribe("c0", name) for name in names[1:]}
    before = _exchanged(town)
    ends = [(reader, ref) for name, ref in refs.items() for reader in ("c0", name)]

    def is_there() -> bool:
        return all(town.clients[reader].read(ref) for reader, ref in ends)

    for text in _texts(_EACH):
        for sender, ref in ends:
            town.clients[sender].send(ref, text, town.now)
        town.run(is_there)
        for reader, ref in ends:
            (entry,) = town.clients[reader].read(ref)
            town.clients[reader].confirm(ref, entry.sequence, town.now)
    return _vectors(town, before, 2 * _EACH * contacts)


def _exchanged(town: Town) -> list[tuple[int, int]]:
    """Return packets and bytes over the first client's link: want vectors, all vectors, everything."""
    return [town.sent(0, ("want",)), town.sent(0, ASKING), town.sent(0)]


def _vectors(town: Town, before: Sequence[tuple[int, int]], messages: int) -> dict[str, float]:
    """Return what is asked for, with these messages and in the minute after them."""
    after = _exchanged(town)
    wants, asking, everything = (
        (now[0] - was[0], now[1] - was[1]) for now, was in zip(after, before, strict=True)
    )
    town.wait(60)
    return {
        "want vector, bytes": wants[1] / wants[0],
        "vectors a message, bytes": asking[1] / messages,
        "all a message, bytes": everything[1] / messages,
        "an idle minute, bytes": _exchanged(town)[2][1] - after[2][1],
    }


def priority(_: int) -> Iterator[Row]:
    """How long a request takes to get to a client for whom the provider has data."""
    for kind, said in ((Metered, "control feeds first"), (Even, "all feeds alike")):
        times = [_request_s(kind, seed) for seed in range(1, 8)]
        yield Row(said, {"median, s": median(times), "longest, s": max(times)})


def _request_s(kind: type[Metered], seed: int) -> float:
    terms = Terms()
    town = Town(3, _SLOW, kind, seed)
    town.open(terms)
    town.sign_up(terms, "c0", "c1", "c2")
    ref = town.subscribe("c0", "c1")
    for text in _texts(45, 400):
        town.clients["c0"].send(ref, text, town.now)
    town.wait(10)
    begun, asked = town.now, town.clients["c1"]
    ref = town.clients["c2"].subscribe(town.isp.root.public_key, asked.root.public_key, begun)
    town.run(lambda: ref in asked.subscriptions)
    return (town.now - begun) / SECOND


def overhead(messages: int) -> Iterator[Row]:
    """Bytes on both links for each message, by packets."""
    for size in (_SHORT, 400):
        contents = _texts(messages, size)
        terms = Terms()
        town = Town(2)
        town.open(terms)
        town.sign_up(terms, "c0", "c1")
        ref = town.subscribe("c0", "c1")
        before = _both(town)
        for begin in range(0, messages, _PAGE):
            town.tunnel(ref, "c0", "c1", contents[begin : begin + _PAGE])
        yield Row(f"tinyISP, {size} bytes", _per_message(before, _both(town), messages))
        plain, keys = _plain(2, [0, 1])
        _replicate(plain, {keys[0]: contents}, _PAGE)
        yield Row(f"tinySSB, {size} bytes", _per_message({}, _both(plain), messages))


def _both(town: Town) -> dict[str, int]:
    return {kind: sum(town.sent(number, (kind,))[1] for number in (0, 1)) for kind in DECLARATION.kinds}


def _per_message(before: dict[str, int], after: dict[str, int], messages: int) -> dict[str, float]:
    figures = {kind: (size - before.get(kind, 0)) / messages for kind, size in after.items()}
    return {kind: figures[kind] for kind in DECLARATION.kinds if kind not in ("novelty", "claim")} | {
        "all": sum(figures.values())
    }


STUDIES = {each.__name__: each for each in (storage, farewell, bundling, priority, overhead)}


def show(name: str, rows: Sequence[Row]) -> None:
    """Print a study."""
    titles = list(dict.fromkeys(title for row in rows for title in row.figures))
    table = Table(name, *titles, title_justify="left")
    for row in rows:
        figures = (row.figures.get(title) for title in titles)
        table.add_row(row.what, *("" if figure is None else f"{figure:,.1f}" for figure in figures))
    Console(width=160).print(table)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--messages", type=click.IntRange(8), default=2000, show_default=True)
@click.argument("studies", nargs=-1, type=click.Choice([*STUDIES]))
def bench(messages: int, studies: Sequence[str]) -> None:
    """Measure what the paper on tinyISP claims."""
    for name in studies or STUDIES:
        show(name, [*STUDIES[name](messages)])


if __name__ == "__main__":
    sys.exit(bench())
