"""Draws small worlds: up to eight nodes in a line, a star, a tree or a ring, under every kind of fault."""

from itertools import pairwise
from random import Random

from testbed.verify.kit.story import Step
from testbed.verify.push.stories.story import (
    FORGERIES,
    MAX_ITEMS,
    MISCHIEF,
    MS,
    RECOVERIES,
    SECOND,
    Feed,
    Link,
    Node,
    Story,
    Subscriber,
)


class SmallWorld:
    """Draws a story. Difficulties vary by story, so that each also occurs alone."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = rng = Random(seed)
        self.nodes = [chr(ord("a") + index) for index in range(rng.choice((2, 3, 3, 4, 4, 5, 5, 6, 7, 8)))]
        self.calm = rng.choice((200 * MS, SECOND, SECOND, 3 * SECOND, 10 * SECOND))
        self.steps: list[Step] = []

    def make(self) -> Story:
        """Return the story."""
        rng = self.rng
        pairs = self._pairs()
        links = self._links(pairs)
        feeds = self._feeds()
        nodes = self._nodes({name for feed in feeds for name in feed.devices})
        subscribers = self._subscribers(feeds, nodes)
        for index, feed in enumerate(feeds):
            self._publish(index, feed, rng.randint(3, max(5, min(MAX_ITEMS, 100 // len(nodes)))))
        dead: tuple[tuple[str, str], ...] = ()
        if rng.random() < 0.45:
            self._cut(pairs)
            dead = self._dead(pairs)
        if rng.random() < 0.2:
            self._restart()
        if rng.random() < 0.35:
            self._attack(pairs)
        routing = rng.choice(("single", "downhill", "downhill", "all"))
        return Story(
            seed=self.seed,
            nodes=nodes,
            links=links,
            feeds=feeds,
            subscribers=subscribers,
            steps=tuple(sorted(self.steps, key=lambda step: step.at)),
            calm=self.calm,
            routing="all" if dead else routing,
            dead=dead,
        )

    def _pairs(self) -> list[tuple[str, str]]:
        """Draw a line, a star, a tree or a ring, possibly with links across."""
        rng, nodes = self.rng, self.nodes
        shape = rng.choice(("line", "star", "tree", "ring", "ring"))
        if shape == "star":
            pairs = [(nodes[0], node) for node in nodes[1:]]
        elif shape == "tree":
            pairs = [(nodes[rng.randrange(index)], nodes[index]) for index in range(1, len(nodes))]
        else:
            pairs = list(pairwise(nodes))
            if shape == "ring" and len(nodes) > 2:
                pairs.append((nodes[0], nodes[-1]))
        if rng.random() < 0.3:
            others = [(a, b) for a in nodes for b in nodes if a < b and (a, b) not in pairs]
            pairs += rng.sample(others, min(len(others), rng.randint(1, 2)))
        return pairs

    def _links(self, pairs: list[tuple[str, str]]) -> tuple[Link, ...]:
        rng = self.rng
        lost = rng.choice((0.0, 0.0, 0.02, 0.1, 0.3))
        twice = rng.choice((0.0, 0.0, 0.0, 0.05, 0.2))
        late = rng.choice((0.0, 0.0, 0.0, 0.1, 0.5))
        delay = rng.choice((1 * MS, 5 * MS, 40 * MS))
        narrow = rng.random() < 0.15
        return tuple(
            Link(
                a,
                b,
                delay=round(delay * rng.uniform(0.5, 1.5)),
                lost=lost,
                twice=twice,
                late=late,
                lateness=rng.choice((delay, 5 * delay, 20 * delay)) if late else 0,
                rate_kbit=rng.choice((200, 1000)) if narrow and rng.random() < 0.5 else None,
                queue=rng.choice((8, 50)),
            )
            for a, b in pairs
        )

    def _feeds(self) -> tuple[Feed, ...]:
        rng = self.rng
        feeds = []
        for number in range(rng.choice((1, 1, 1, 2, 3))):
            several = rng.random() < 0.3
            devices = rng.sample(self.nodes, 2) if several else [rng.choice(self.nodes)]
            fork = rng.randint(1, 8) if several and rng.random() < 0.6 else None
            feeds.append(Feed(rng.choice(("native", "native", "ssb")), number, tuple(devices), fork))
        return tuple(feeds)

    def _nodes(self, publishers: set[str]) -> tuple[Node, ...]:
        rng = self.rng
        recovery = rng.choice(("in-network", "in-network", *RECOVERIES))
        self.recovery = recovery
        legacy = [name for name in self.nodes if name not in publishers] if rng.random() < 0.2 else []
        legacy = rng.sample(legacy, min(len(legacy), rng.randint(1, 2)))
        small = rng.random() < 0.5
        return tuple(
            Node(
                name,
                push=name not in legacy,
                recovery=recovery,
                cache_items=rng.choice((1, 2, 4, 8)) if small else 256,
                cache_feeds=rng.choice((1, 2, 1024)) if small else 1024,
            )
            for name in self.nodes
        )

    def _subscribers(self, feeds: tuple[Feed, ...], nodes: tuple[Node, ...]) -> tuple[Subscriber, ...]:
        rng = self.rng
        homes = [node.name for node in nodes if node.push]
        subscribers = []
        for number in range(rng.choice((1, 1, 2, 3, 4))):
            name = f"s{number}"
            slow = rng.random() < 0.15
            subscribers.append(
                Subscriber(
                    name,
                    rng.choice(homes),
                    rng.randrange(len(feeds)),
                    credit=rng.choice((1, 2, 3, 5, 8, 16, 64)),
                    lifetime_ms=rng.choice((1_000, 5_000, 30_000, 100_000)),
                    recovery=self.recovery,
                    batch=rng.choice((1, 3)) if slow else 1,
                    pause=rng.choice((20 * MS, 200 * MS)) if slow else 0,
                )
            )
            joined = rng.randrange(self.calm) if rng.random() < 0.5 else 0
            self._step(joined, "subscribe", name)
            while rng.random() < 0.25:
                left = rng.randrange(joined, self.calm + 1)
                self._step(left, "cancel", name)
                joined = left + rng.choice((0, 10 * MS, rng.randrange(self.calm)))
                if joined > self.calm or rng.random() < 0.2:
                    break
                self._step(joined, "subscribe", name)
            if rng.random() < 0.15:
                self._step(at := rng.randrange(self.calm), "stall", name)
                self._step(rng.randrange(at, self.calm + 1), "read", name)
        return tuple(subscribers)

    def _publish(self, index: int, feed: Feed, items: int) -> None:
        """Publish some before any request, some during the faults, the last ones in the calm."""
        rng = self.rng
        manner = rng.choice(("bursts", "steady", "steady"))
        for device in range(len(feed.devices)):
            left = items
            if rng.random() < 0.4:
                left -= (early := rng.randint(1, items))
                self._step(0, "publish", index, device, early)
            late = min(left, rng.randint(0, 2))
            while left > late:
                some = 1 if manner == "steady" else rng.randint(1, left - late)
                self._step(rng.randrange(self.calm), "publish", index, device, some)
                left -= some
            for _ in range(late):
                self._step(self.calm + rng.randrange(20 * SECOND), "publish", index, device, 1)

    def _cut(self, pairs: list[tuple[str, str]]) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            a, b = rng.choice(pairs)
            at = rng.randrange(self.calm)
            self._step(at, "cut", a, b, rng.randrange(2))
            if rng.random() < 0.7:
                self._step(rng.randrange(at, self.calm + 1), "heal", a, b)

    def _dead(self, pairs: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Choose a cut link without which all nodes stay connected, to remain dead."""
        cut = next(step.what[:2] for step in self.steps if step.do == "cut")
        reached, frontier = {self.nodes[0]}, [self.nodes[0]]
        for node in frontier:  # grows as it goes
            for a, b in pairs:
                other = b if a == node else a
                if (a, b) != cut and node in (a, b) and other not in reached:
                    reached.add(other)
                    frontier.append(other)
        return ((str(cut[0]), str(cut[1])),) if len(reached) == len(self.nodes) else ()

    def _restart(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 2)):
            self._step(rng.randrange(self.calm), "restart", rng.choice(self.nodes), rng.randrange(2))

    def _attack(self, pairs: list[tuple[str, str]]) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 8)):
            a, b = rng.sample(rng.choice(pairs), 2)
            kind = rng.choice((*FORGERIES, *MISCHIEF))
            self._step(rng.randrange(self.calm), "inject", a, b, kind, rng.getrandbits(32))

    def _step(self, at: int, do: str, *what: str | int) -> None:
        self.steps.append(Step(at, do, what))
