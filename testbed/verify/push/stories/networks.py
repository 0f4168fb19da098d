"""Draws realistic networks: meshes with several paths, users at their edge, and outages of all kinds.

Routers form a random connected graph, a grid, a scale-free graph, or a network of the library. Publishers and
readers sit behind access links or on the routers. Every router's next hops are all neighbours with a
loop-free path to the publisher; routes may follow link changes with a delay. Failures are realistic: a
publisher's access link, an inner link, all links between two parts, a router; each for about as long as one
of the protocol's timers, so that it ends before, at and after that timer.
"""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from forwarder.wire.hello import MOST_STANDINGS
from testbed.verify.kit.story import Step
from testbed.verify.push.stories.story import MS, RECOVERIES, SECOND, Feed, Link, Node, Story, Subscriber
from topologies import generate, library
from topologies.model import Topology

OUTAGES = (50 * MS, 250 * MS, SECOND, 3 * SECOND)
"""Timers of the protocol: grace, first search, waiting, Hello."""
_LIFETIMES_MS = (1_000, 5_000, 30_000, 30_000, 60_000)
_MOST_OUTAGE = 12 * SECOND
_CONVERGE = (None, None, 0, 50 * MS, 300 * MS, SECOND)
_PUBLISHED = (3, 5, 8)

Pair = tuple[str, str]


class NetworkMaker:
    """Draws a story."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = rng = Random(f"{seed} network's")
        size = rng.random()
        self.is_large = size > 0.97
        self.is_wide = size < 0.015  # in feeds
        if self.is_large:
            self.topology = self._large()
        elif size > 0.85:
            self.topology = self._graph(rng.randint(8, 16))
        else:
            self.topology = self._graph(rng.randint(3, 7))
        self.routers = list(self.topology.nodes)
        self.links = [
            Link(link.a, link.b, delay=max(round((link.delay_ms or 0) * MS), 500))
            for link in self.topology.links
        ]
        self.access: dict[str, Link] = {}
        self.steps: list[Step] = []
        self.lifetime_ms = rng.choice(_LIFETIMES_MS)
        self.quiet = rng.choice((0, 500 * MS, 2 * SECOND))  # before the first outage
        self.calm = 0

    def make(self) -> Story:
        """Return the story."""
        rng = self.rng
        feeds = self._feeds()
        subscribers = self._subscribers(feeds)
        links = [*self.links, *self.access.values()]
        self._outages(feeds, links)
        self.calm = max(self.calm, self.quiet) + rng.choice((1, 100 * MS, 2 * SECOND))
        for index in range(len(feeds)):
            self._publish(index)
        if rng.random() < 0.2:
            self._churn(subscribers)
        nodes = self._nodes(feeds, subscribers, links)
        recoveries = {node.name: node.recovery for node in nodes}
        return Story(
            seed=self.seed,
            nodes=nodes,
            links=self._faults(links),
            feeds=feeds,
            subscribers=tuple(replace(each, recovery=recoveries[each.node]) for each in subscribers),
            steps=tuple(sorted(self.steps, key=lambda step: step.at)),
            calm=self.calm,
            routing="ways",
            converge=rng.choice(_CONVERGE),
        )

    def _large(self) -> Topology:
        rng = self.rng
        if rng.random() < 0.5:
            return library.build(rng.choice(("abilene", "geant", "ndn-testbed", "sprint")))
        return self._graph(rng.randint(17, 50))

    def _graph(self, nodes: int) -> Topology:
        """Return a connected graph of about `nodes` routers."""
        rng = self.rng
        delay = rng.choice((1.0, 5.0, 5.0, 40.0))
        seed = rng.getrandbits(32)
        match rng.choice(("random", "random", "grid", "scale-free", "full")):
            case "grid":
                rows = min(rng.randint(2, 4), nodes // 2)
                graph = generate.grid(max(rows, 1), nodes // max(rows, 1))
            case "scale-free":
                graph = generate.scale_free(nodes, min(rng.choice((1, 2, 3)), nodes - 1), seed)
            case "full" if nodes <= 5:
                graph = generate.random(nodes, nodes - 1, seed)
            case _:
                least = 2 * (nodes - 1) / nodes
                graph = generate.random(nodes, min(max(rng.uniform(1.8, 3.5), least), nodes - 1), seed)
        links = (replace(link, delay_ms=delay * rng.uniform(0.5, 1.5)) for link in graph.links)
        return replace(graph, links=tuple(links))

    def _home(self, name: str, share: float) -> str:
        """Return a user's location: on a node behind a router, or on a router."""
        rng = self.rng
        router = rng.choice(self.routers)
        if rng.random() > share:
            return router
        self.access[name] = Link(router, name, delay=rng.choice((500, 2 * MS, 5 * MS)))
        return name

    def _feeds(self) -> tuple[Feed, ...]:
        rng = self.rng
        homes = [self._home(f"p{number}", 0.7) for number in range(rng.choice((1, 1, 2)))]
        many = rng.choice((20, 20, 40, 40, 100, 200)) if self.is_wide else rng.choice((1, 1, 1, 2, 3))
        feeds = []
        for number in range(many):
            devices: tuple[str, ...] = (rng.choice(homes),)
            if not self.is_wide and rng.random() < 0.15:
                devices = tuple({*devices, rng.choice(self.routers)})
            feeds.append(Feed("native", number, tuple(sorted(devices))))
        return tuple(feeds)

    def _subscribers(self, feeds: tuple[Feed, ...]) -> list[Subscriber]:
        rng = self.rng
        most = len(self.routers)
        homes = [self._home(f"r{number}", 0.4) for number in range(rng.randint(1, min(max(most, 2), 12)))]
        # A reader of many feeds reads a dozen; one may read more than a Hello has room for.
        shares = dict.fromkeys(homes, min(0.8, 12 / len(feeds)))
        if self.is_wide and rng.random() < 0.5:
            shares[homes[0]] = min(0.8, 2 * MOST_STANDINGS / len(feeds))
        wanted = [
            (home, feed) for home in homes for feed in range(len(feeds)) if rng.random() < shares[home]
        ] or [(homes[0], 0)]
        credit = rng.choice((1, 2, 4, 8, 16, 64))
        pause = rng.choice((20 * MS, 200 * MS)) if rng.random() < 0.1 else 0
        subscribers = []
        for number, (home, feed) in enumerate(wanted):
            lifetime_ms = self.lifetime_ms if rng.random() < 0.8 else rng.choice(_LIFETIMES_MS)
            slow = pause if rng.random() < 0.5 else 0
            subscribers.append(
                Subscriber(f"s{number}", home, feed, credit=credit, lifetime_ms=lifetime_ms, pause=slow)
            )
            self._step(0 if rng.random() < 0.7 else rng.randrange(SECOND), "subscribe", f"s{number}")
        return subscribers

    def _outages(self, feeds: tuple[Feed, ...], links: list[Link]) -> None:
        """Add outages, sequential or simultaneous."""
        rng = self.rng
        at = self.quiet
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            signalled = rng.random() < 0.6
            lasts = rng.choice((*OUTAGES, min(self.lifetime_ms * MS, _MOST_OUTAGE)))
            lasts = max(round(lasts * rng.choice((0.5, 0.9, 1.0, 1.1, 1.5))), 1)
            begins = at + rng.randrange(SECOND)
            self._outage(feeds, links, begins, begins + lasts, signalled=signalled)
            self.calm = max(self.calm, begins + lasts)
            at = rng.choice((at, begins + lasts))

    def _outage(
        self, feeds: tuple[Feed, ...], links: list[Link], begins: int, ends: int, *, signalled: bool
    ) -> None:
        rng = self.rng
        kind = rng.choice(("publisher", "publisher", "link", "cut", "router", "restart"))
        publisher = rng.choice(rng.choice(feeds).devices)
        router = rng.choice(self.routers)
        if kind == "restart":
            self._step(begins, "restart", router, int(signalled))
            return
        if kind == "publisher":
            down = _at(publisher, links)
        elif kind == "link":
            down = [rng.choice(links)]
        elif kind == "cut":
            down = _between(self._part(links), links)
        else:
            down = _at(router, links)
            self._step(begins, "restart", router, 0)
        for link in down:
            self._step(begins, "cut", link.a, link.b, int(signalled))
            self._step(ends, "heal", link.a, link.b)

    def _part(self, links: list[Link]) -> set[str]:
        """Return a connected part of the network, about a third."""
        rng = self.rng
        part = {rng.choice(self.routers)}
        while len(part) <= len(self.routers) // 3:
            around = sorted(
                {name for link in links for name in (link.a, link.b) if {link.a, link.b} & part} - part
            )
            if not around:
                break
            part.add(rng.choice(around))
        return part

    def _publish(self, index: int) -> None:
        """Publish some before, some around the outages, and the last ones in the calm."""
        rng = self.rng
        for at in (0, *(rng.randrange(self.calm + SECOND) for _ in range(rng.choice(_PUBLISHED)))):
            for device in range(2):  # steps of a missing device have no effect
                self._step(at, "publish", index, device, 1)
            if self.is_wide and rng.random() < 0.5:
                break

    def _churn(self, subscribers: Iterable[Subscriber]) -> None:
        rng = self.rng
        for wanted in subscribers:
            at = 0
            while rng.random() < 0.7 and at < self.calm:
                at += rng.randrange(1, 2 * SECOND)
                self._step(min(at, self.calm), "cancel", wanted.name)
                at += rng.choice((1, 10 * MS, 300 * MS, 2 * SECOND))
                self._step(min(at, self.calm), "subscribe", wanted.name)

    def _nodes(
        self, feeds: tuple[Feed, ...], subscribers: Iterable[Subscriber], links: Iterable[Link]
    ) -> tuple[Node, ...]:
        rng = self.rng
        names = [*self.routers, *self.access]
        ends = {name for feed in feeds for name in feed.devices} | {each.node for each in subscribers}
        legacy: list[str] = []
        if rng.random() < 0.12:
            others = [name for name in names if name not in ends]
            legacy = rng.sample(others, min(len(others), rng.randint(1, 2)))
        recovery = rng.choice(("in-network", "in-network", *RECOVERIES))
        is_mixed = rng.random() < 0.15
        cache_items = rng.choice((8, 8, 2)) if rng.random() < 0.3 else 256
        cache_feeds = rng.choice((1, 2)) if rng.random() < 0.04 else 1024
        return tuple(
            Node(
                name,
                push=name not in legacy,
                recovery=rng.choice(RECOVERIES) if is_mixed else recovery,
                cache_items=cache_items,
                cache_feeds=cache_feeds,
            )
            for name in names
        )

    def _faults(self, links: Iterable[Link]) -> tuple[Link, ...]:
        rng = self.rng
        faulty = rng.random() < 0.35
        lost = rng.choice((0.0, 0.01, 0.05, 0.2)) if faulty else 0.0
        twice = rng.choice((0.0, 0.0, 0.05)) if faulty else 0.0
        late = rng.choice((0.0, 0.0, 0.1)) if faulty else 0.0
        return tuple(
            replace(link, lost=lost, twice=twice, late=late, lateness=rng.choice((1, 5, 20)) * link.delay)
            for link in links
        )

    def _step(self, at: int, do: str, *what: str | int) -> None:
        self.steps.append(Step(at, do, what))


def _at(node: str, links: Iterable[Link]) -> list[Link]:
    return [link for link in links if node in (link.a, link.b)]


def _between(part: set[str], links: Iterable[Link]) -> list[Link]:
    return [link for link in links if (link.a in part) != (link.b in part)]
