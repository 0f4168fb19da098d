"""Stories of people and their forwarders, drawn from a seed."""

from dataclasses import dataclass
from random import Random
from typing import Any, Literal, get_args

from base.units import MS, SECOND
from ssb.generate import FIRST_TIMESTAMP, generate_feed
from ssb.graph import CONTACT
from ssb.keys import Identity
from ssb.message import Message
from testbed.verify.kit.draw import Link, draw_links
from testbed.verify.kit.story import Step, Story

LAYERINGS = ("ssb-aware-poll", "ssb-aware", "social-routing")

Hostility = Literal["forges", "floods", "claims"]
HOSTILE: tuple[Hostility, ...] = get_args(Hostility)


@dataclass(frozen=True)
class Neighbourhood(Story):
    """A story.

    A step is "cut" and "heal" (the two ends of a link, and whether they notice), or "restart" (a node).

    Attributes:
        layering: of the nodes.
        hops: radius of graphs.
        routers, people, strangers: nodes; a stranger's name is its behaviour.
        links: two nodes, and the link's parameters.
        away: links that are down from the start, until somebody moves there.
        logs: person -> the log, and when each message is written, ns; it has the person's follows and blocks.
    """

    layering: str
    hops: int
    routers: tuple[str, ...]
    people: tuple[str, ...]
    strangers: dict[str, Hostility]
    links: tuple[Link, ...]
    away: tuple[tuple[str, str], ...]
    logs: dict[str, tuple[tuple[Message, ...], tuple[int, ...]]]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.people, *self.routers, *self.strangers)

    @property
    def last(self) -> int:
        times = [times[-1] for _, times in self.logs.values()] + [step.at for step in self.steps]
        return max(times)


def identity_of(seed: int, person: str) -> Identity:
    """Return a person's keys."""
    return Identity.from_seed(Random(f"social {seed} {person}").randbytes(32))


def make_story(seed: int) -> Neighbourhood:
    """Draw a story."""
    rng = Random(f"social {seed}")
    layering = rng.choice(LAYERINGS)
    routers = tuple(f"r{number}" for number in range(rng.randint(1, 4)))
    people = tuple(f"p{number}" for number in range(rng.randint(2, 6)))
    strangers: dict[str, Hostility] = {}
    if rng.random() < 0.4:
        strangers = {f"s{number}": rng.choice(HOSTILE) for number in range(rng.randint(1, 2))}
    links = _links(rng, routers, people, strangers)
    away, moves = _moves(rng, routers, people, links)
    hops = rng.choice([1, 2, 2, 3])
    logs = {person: _log(rng, seed, person, people) for person in people}
    steps = [*moves, *_faults(rng, routers, people, links, away)]
    steps.sort(key=lambda step: step.at)
    return Neighbourhood(
        seed, tuple(steps), layering, hops, routers, people, strangers, tuple(links), away, logs
    )


def _links(rng: Random, routers: Any, people: Any, strangers: Any) -> list[Link]:
    """Connect the routers, and attach everybody else to one of them; homes may be neighbours, too."""
    ends = [(routers[number], rng.choice(routers[:number])) for number in range(1, len(routers))]
    if len(routers) > 2 and rng.random() < 0.6:
        ends.append((routers[0], routers[-1]))
    ends += [(node, rng.choice(routers)) for node in (*people, *strangers)]
    if rng.random() < 0.3:
        ends.append((people[0], people[-1]))
    pairs = dict.fromkeys((min(pair), max(pair)) for pair in ends)
    links = draw_links(
        rng,
        pairs,
        delays=[1.0, 10.0, 40.0],
        bad=0.5,
        share=0.7,
        loss_percent=[0.0, 2.0, 8.0],
        duplicate_percent=[0.0, 2.0],
        jitter_ms=[0.0, 0.4],
    )
    return [*links]


def _moves(
    rng: Random, routers: Any, people: Any, links: list[Link]
) -> tuple[tuple[tuple[str, str], ...], list[Step]]:
    """Move some people to another router: one link goes down as another one comes up."""
    away, steps = [], []
    for person in people:
        at = next(
            other
            for link in links
            for one, other in ((link["a"], link["b"]), (link["b"], link["a"]))
            if one == person and other in routers
        )
        others = [router for router in routers if router != at]
        if not others or rng.random() > 0.25:
            continue
        to = rng.choice(others)
        links.append({"a": person, "b": to, "delay_ms": 10.0})
        away.append((person, to))
        leaves = rng.randint(1, 8) * SECOND
        arrives = leaves + rng.randint(1, 3000) * MS
        steps += [Step(leaves, "cut", (person, at, True)), Step(arrives, "heal", (person, to, True))]
    return tuple(away), steps


def _faults(rng: Random, routers: Any, people: Any, links: list[Link], away: Any) -> list[Step]:
    steps = []
    moving = {person for person, _ in away}
    stable = [(link["a"], link["b"]) for link in links if not {link["a"], link["b"]} & moving]
    for _ in range(rng.choice([0, 0, 1, 2])):
        if stable:
            a, b = rng.choice(stable)
            is_signalled = rng.random() < 0.5
            time = rng.randint(0, 8) * SECOND
            steps.append(Step(time, "cut", (a, b, is_signalled)))
            steps.append(Step(time + rng.randint(1, 5000) * MS, "heal", (a, b, is_signalled)))
    for _ in range(rng.choice([0, 0, 1, 2])):
        steps.append(Step(rng.randint(1, 8000) * MS, "restart", (rng.choice([*routers, *people]),)))
    return steps


def _log(
    rng: Random, seed: int, person: str, people: tuple[str, ...]
) -> tuple[tuple[Message, ...], tuple[int, ...]]:
    """Write a log: statements about others first, then posts, and changed statements between them."""
    identity = identity_of(seed, person)
    others = [other for other in people if other != person]
    contents: list[dict[str, Any] | None] = [
        _statement(rng, seed, other) for other in others if rng.random() < 0.7
    ]
    count = len(contents)
    contents += [None] * rng.randint(1, 12)
    for _ in range(rng.choice([0, 0, 1, 2])):
        contents.insert(rng.randint(count, len(contents)), _statement(rng, seed, rng.choice(others)))
    messages: list[Message] = []
    for content in contents:
        tip = messages[-1] if messages else None
        if content is None:
            messages += generate_feed(rng, 1, identity, tip)
        else:
            messages.append(Message.create(identity, tip, content, FIRST_TIMESTAMP))
    last = rng.randint(1, 9_000)
    times = sorted(rng.randint(100, 100 + last) * MS for _ in messages)
    return tuple(messages), tuple(times)


def _statement(rng: Random, seed: int, other: str) -> dict[str, Any]:
    said = rng.choice([{"following": True}] * 5 + [{"blocking": True}, {"following": False}])
    return {"type": CONTACT, "contact": identity_of(seed, other).ref, **said}
