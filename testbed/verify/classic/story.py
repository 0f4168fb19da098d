"""Stories of classic NDN from a seed: Interests, prefixes and logs in the worlds of controlled push.

A family of its own: the same seed gives another story of controlled push. Some stories combine both.
"""

from dataclasses import replace

from testbed.verify.push.stories.small import SmallWorld
from testbed.verify.push.stories.story import (
    MS,
    SECOND,
    Feed,
    Follow,
    Link,
    Log,
    Node,
    Prefix,
    Story,
    Subscriber,
)

_STRATEGIES = (
    *("best-route", "best-route", "multicast", "multicast", "random", "access", "self-learning"),
    *("asf", "asf/probing-interval~1000"),
)
_LAYERINGS = ("pull", "sync-log", "poll", "long-lived", "notify", "persistent", "sync")
_MANNERS = (*("answers",) * 6, "never", "nacks", "nacks-first", "nacks-first")
_SELECTORS = (*("",) * 6, "p", "P", "f", "f", "pf", "Pf", "d", "x", "h", "hf")


def make_classic(seed: int) -> Story:
    """Make the classic story of a seed."""
    return _ClassicMaker(seed).make()


class _ClassicMaker(SmallWorld):
    """Draws a story, like its base; difficulties vary by story."""

    def make(self) -> Story:
        rng = self.rng
        self.nodes = self.nodes[:6]
        pairs = self._pairs()
        links = self._classic_links(pairs)
        feeds: tuple[Feed, ...] = ()
        subscribers: tuple[Subscriber, ...] = ()
        if rng.random() < 0.15:
            feeds = self._feeds()[:1]
        nodes = self._nodes({name for feed in feeds for name in feed.devices})
        if feeds:
            subscribers = self._subscribers(feeds, nodes)
            self._publish(0, feeds[0], rng.randint(3, 10))
        nodes, routing = self._classic_nodes(nodes, has_feeds=bool(feeds))
        prefixes = self._prefixes()
        logs, follows = self._logs() if rng.random() < 0.5 else ((), ())
        for _ in range(rng.choice((2, 5, 10, 20))):
            self._ask(prefixes)
        if rng.random() < 0.45:
            self._cut(pairs)
        if rng.random() < 0.2:
            self._restart()
        if rng.random() < 0.15:
            self._step(rng.randrange(self.calm), "renew", *rng.sample(rng.choice(pairs), 2))
        return Story(
            seed=self.seed,
            nodes=nodes,
            links=links,
            feeds=feeds,
            subscribers=subscribers,
            steps=tuple(sorted(self.steps, key=lambda step: step.at)),
            calm=self.calm,
            routing=routing,
            prefixes=prefixes,
            logs=logs,
            follows=follows,
        )

    def _classic_links(self, pairs: list[tuple[str, str]]) -> tuple[Link, ...]:
        rng = self.rng
        mtu = rng.choice((1500, 1500, 600, 256))
        reliable = rng.choice((0.0, 0.0, 0.5, 1.0))
        return tuple(
            replace(
                link,
                rate_kbit=link.rate_kbit and max(link.rate_kbit, 1000),
                queue=link.queue if mtu == 1500 else 100,  # else the fragments of one packet do not fit
                mtu=mtu,
                reliable=rng.random() < reliable,
                marks=rng.random() < 0.5,
            )
            for link in self._links(pairs)
        )

    def _classic_nodes(self, nodes: tuple[Node, ...], *, has_feeds: bool) -> tuple[tuple[Node, ...], str]:
        """Give nodes strategies and bounds; return them, and the suitable routing."""
        rng = self.rng
        strategy = rng.choice(_STRATEGIES)
        is_mixed = rng.random() < 0.25
        packets = rng.choice((0, 1, 4, 64, 64))
        pending = rng.choice((2, 4, 8)) if rng.random() < 0.05 and not has_feeds else 1 << 20
        made = tuple(
            replace(
                node,
                strategy=rng.choice(_STRATEGIES) if is_mixed else strategy,
                packets=packets,
                pending=pending,
            )
            for node in nodes
        )
        routing = rng.choice(("single", "downhill", "downhill", "all", "all"))
        if routing == "all" and any(node.strategy == "random" for node in made):
            routing = "downhill"  # random strategies could wander for ever among ways to and from
        if not is_mixed and strategy == "self-learning" and not has_feeds and rng.random() < 0.5:
            routing = "none"
        return made, routing

    def _prefixes(self) -> tuple[Prefix, ...]:
        rng = self.rng
        return tuple(
            Prefix(
                f"p{number}",
                tuple(rng.sample(self.nodes, rng.choice((1, 1, 1, 2)))),
                manner=rng.choice(_MANNERS),
                delay=rng.choice((0, 0, 0, 20 * MS, 200 * MS, 1 * SECOND, 3 * SECOND)),
                freshness_ms=rng.choice((0, 0, 10, 1_000, 10_000)),
                size=rng.choice((20, 100, 100, 1_000, 3_000, 8_000)),
            )
            for number in range(rng.choice((1, 1, 2, 3)))
        )

    def _logs(self) -> tuple[tuple[Log, ...], tuple[Follow, ...]]:
        rng = self.rng
        layering = rng.choice(_LAYERINGS)
        times = [rng.randrange(self.calm) for _ in range(rng.randint(2, 10))]
        times += [self.calm + rng.randrange(10 * SECOND) for _ in range(rng.randint(0, 2))]
        early = rng.choice((0, 0, len(times) // 2, len(times) - 1))
        times = sorted([0] * early + times[early:])
        log = Log("l0", rng.choice(self.nodes), layering, tuple(times))
        follows = tuple(
            Follow(
                f"f{number}",
                rng.choice(self.nodes),
                "l0",
                start=rng.choice((0, rng.randrange(self.calm))),
                pause=rng.choice((0, 0, 0, 20 * MS, 200 * MS)),
            )
            for number in range(rng.choice((1, 1, 2, 3)))
        )
        return (log,), follows

    def _ask(self, prefixes: tuple[Prefix, ...]) -> None:
        """Request once or until answered, possibly a name that others request, too."""
        rng = self.rng
        is_patient = rng.random() < 0.4
        at = rng.randrange(self.calm)
        if rng.random() < 0.1:
            at = self.calm + rng.randrange(5 * SECOND)
        self._step(
            at,
            "ask",
            rng.choice(self.nodes),
            rng.choice(("x", "x", "y")),
            rng.choice(prefixes).name,
            rng.choice((0, 0, 1, rng.randrange(20))),
            rng.choice(_SELECTORS),
            rng.choice((2_000, 4_000)) if is_patient else rng.choice((50, 200, 1_000, 4_000)),
            rng.choice((0, 32, 32)) if is_patient else rng.choice((0, 32, 32, 1, 2, 3)),
            0 if is_patient else rng.choice((1, 1, 3, 8)),
            rng.choice((0, 0, 20, 100, 500)),
        )
