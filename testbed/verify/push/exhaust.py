"""A small model checker: plays a short exchange with the real objects under every schedule of a few faults.

Theory of operation. A story without luck is played; then again with each fault in each way at each of its
first frames; then each of these with a second fault at a later frame, and so on. A fault does not change the
frames before it, so adding faults in frame order enumerates every set of them exactly once.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from testbed.experiment.workers import work_off
from testbed.verify.kit.outcome import Outcome, Violation
from testbed.verify.kit.story import Step
from testbed.verify.push.family import PUSH
from testbed.verify.push.stories.story import MS, SECOND, Fate, Feed, Link, Node, Story, Subscriber

WAYS = (
    ("lost", 0),
    ("twice", MS // 10),  # a copy right behind
    ("twice", 80 * MS),  # a copy after the following frames
    ("late", 12 * MS),  # overtaken by the following frames
    ("late", 300 * MS),  # after it was given up
)
"""Fates of a frame: repeated, crossing and late; microseconds."""


@dataclass(frozen=True)
class ExhaustiveResult:
    """Results for an exchange: number of schedules, and the first with a violation."""

    name: str
    frames: int
    faults: int
    schedules: int
    slowest: int
    violation: Violation | None = None
    story: Story | None = None


def schedules(story: Story, frames: int, faults: int) -> Iterator[tuple[Story, Outcome]]:
    """Play a story with every set of at most `faults` faults among its first `frames` frames."""
    waiting: list[tuple[Fate, ...]] = [()]
    while waiting:
        fates = waiting.pop()
        tried = replace(story, fates=fates)
        outcome = PUSH.play(tried)
        yield tried, outcome
        if len(fates) < faults:
            last = fates[-1] if fates else None
            at = outcome.sent.index((last.a, last.b, last.n)) + 1 if last is not None else 0
            waiting += (
                (*fates, Fate(*frame, kind, by)) for frame in outcome.sent[at:frames] for kind, by in WAYS
            )


def cover(name: str, frames: int, faults: int) -> ExhaustiveResult:
    """Check the named exchange; or the smallest mesh of relays under every outage of a grid."""
    if name in GRIDS:
        frames = faults = 0
        tried = ((story, PUSH.play(story)) for story in outages(*GRIDS[name]))
    else:
        tried = ((story, outcome) for story, outcome in schedules(EXCHANGES[name], frames, faults))
    count = slowest = 0
    for story, outcome in tried:
        count += 1
        slowest = max(slowest, outcome.caught_up or 0)
        if outcome.violation is not None:
            return ExhaustiveResult(name, frames, faults, count, slowest, outcome.violation, story)
    return ExhaustiveResult(name, frames, faults, count, slowest)


def outages(step: int, until: int) -> Iterator[Story]:
    """Yield the mesh of two relays with every outage between multiples of `step` (us)."""
    for begins in range(0, until, step):
        for ends in range(begins + step, until + step, step):
            for is_signalled, converge in ((False, None), (True, None), (True, 30 * MS)):
                yield _outage(begins, ends, is_signalled=is_signalled, converge=converge)


GRIDS = {
    "two relays, every outage of up to 0.4 s": (40 * MS, 400 * MS),
    "two relays, every outage of up to 6 s": (700 * MS, 6300 * MS),
    "two relays, every outage of up to 30 s": (5 * SECOND, 30 * SECOND),
}
"""Grids of outage times: step and last time, us. They range from less than the grace to all tries at a silent
neighbour.
"""


def cover_all(frames: int, faults: int, jobs: int) -> Generator[ExhaustiveResult, None, None]:
    """Check every exchange and every grid, in `jobs` processes; yield the results as they arrive."""
    yield from work_off(partial(cover, frames=frames, faults=faults), [*EXCHANGES, *GRIDS], jobs)


def _story(line: str, *steps: Step, **changes: object) -> Story:
    """Two or three nodes in a line, 5 ms apart; a subscriber at the first, the publisher at the last."""
    plain = Story(
        seed=0,
        nodes=tuple(map(Node, line)),
        links=tuple(Link(a, b) for a, b in pairwise(line)),
        feeds=(Feed("native", 0, (line[-1],)),),
        subscribers=(Subscriber("s0", line[0], 0, credit=2),),
        steps=(*_PUBLISHED, Step(0, "subscribe", ("s0",)), *steps),
        calm=400 * MS,
        fates=(),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


_PUBLISHED = (
    Step(0, "publish", (0, 0, 2)),
    Step(40 * MS, "publish", (0, 0, 1)),
    Step(60 * MS, "publish", (0, 0, 2)),
)


def _all(names: str, **changes: object) -> tuple[Node, ...]:
    return tuple(Node(name, **changes) for name in names)  # type: ignore[arg-type]


_TWO = (Subscriber("s0", "a", 0, credit=2), Subscriber("s1", "a", 0, credit=3))
_RING = (Link("a", "b"), Link("b", "c"), Link("a", "c", delay=8 * MS))
_MESH = (Link("a", "b"), Link("a", "c"), Link("b", "c"), Link("c", "d"))


def _outage(begins: int, ends: int, *, is_signalled: bool, converge: int | None = None) -> Story:
    """Two relays, a and b, as each other's next hops; c joins them to the publisher d, and is cut off."""
    return _story(
        "abcd",
        Step(0, "subscribe", ("s1",)),
        Step(begins, "cut", ("c", "d", int(is_signalled))),
        Step(ends, "heal", ("c", "d")),
        Step(begins + 5 * MS, "publish", (0, 0, 1)),
        links=_MESH,
        routing="ways",
        converge=converge,
        calm=ends,
        subscribers=(Subscriber("s0", "a", 0, credit=2), Subscriber("s1", "b", 0, credit=3)),
    )


EXCHANGES: dict[str, Story] = {
    "two nodes": _story("ab"),
    "a relay between": _story("abc"),
    "go-back-n": _story(
        "abc",
        nodes=_all("abc", recovery="go-back-n"),
        subscribers=(Subscriber("s0", "a", 0, credit=2, recovery="go-back-n"),),
    ),
    "selective": _story(
        "abc",
        nodes=_all("abc", recovery="selective"),
        subscribers=(Subscriber("s0", "a", 0, credit=2, recovery="selective"),),
    ),
    "a legacy forwarder between": _story("abc", nodes=(Node("a"), Node("b", push=False), Node("c"))),
    "a late joiner, caches of one item": _story(
        "abc", Step(70 * MS, "subscribe", ("s1",)), nodes=_all("abc", cache_items=1), subscribers=_TWO
    ),
    "a late joiner, the past is beyond a legacy forwarder": _story(
        "abc",
        Step(70 * MS, "subscribe", ("s1",)),
        nodes=(Node("a", cache_items=1), Node("b", push=False), Node("c")),
        subscribers=(_TWO[0], Subscriber("s1", "a", 0, credit=3, recovery="go-back-n")),
    ),
    "leaves and comes again": _story(
        "abc", Step(30 * MS, "cancel", ("s0",)), Step(45 * MS, "subscribe", ("s0",))
    ),
    "the relay restarts": _story("abc", Step(50 * MS, "restart", ("b", 0))),
    "the feed forks": _story(
        "abc", Step(20 * MS, "publish", (0, 1, 4)), feeds=(Feed("native", 0, ("c", "b"), fork=3),)
    ),
    "a link dies unnoticed, there is another way": _story(
        "abc", Step(30 * MS, "cut", ("b", "c", 0)), links=_RING, routing="all", dead=(("b", "c"),)
    ),
    "the cheapest link dies, told": _story(
        "abc", Step(30 * MS, "cut", ("a", "c", 1)), links=_RING, routing="all", dead=(("a", "c"),)
    ),
    "two followers in a ring": _story(
        "abc",
        Step(10 * MS, "subscribe", ("s1",)),
        links=_RING,
        routing="all",
        subscribers=(Subscriber("s0", "a", 0, credit=2), Subscriber("s1", "b", 0, credit=3)),
    ),
    "two relays lose their source for 100 ms, told": _outage(80 * MS, 180 * MS, is_signalled=True),
    "two relays lose their source for 2 s, nobody is told": _outage(80 * MS, 2080 * MS, is_signalled=False),
    "two relays lose their source, routes converge": _outage(
        80 * MS, SECOND, is_signalled=True, converge=30 * MS
    ),
}
"""Short exchanges between two to four nodes, by their special circumstance."""
