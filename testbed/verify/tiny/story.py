"""Stories of a provider and its clients, drawn from a seed."""

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal, NamedTuple

from base.units import MS, SECOND
from ssb.tiny.isp.terms import Terms
from testbed.layerings.tiny.hostile_client import Attack
from testbed.verify.kit.story import Step, Story

ISP = "isp"

Hostility = Attack | Literal["packet-replay", "garble", "forge", "mix", "withhold"]
OUTSIDE: tuple[Hostility, ...] = ("packet-replay", "garble")
"""Attacks of a node in the cell that is no client: it repeats packets, or changes them."""
INSIDE: tuple[Attack, ...] = ("flood", "false-fin", "malformed", "ignore-pause", "replay", "fork", "beg")
"""Attacks of a client."""
ASKING: tuple[Attack, ...] = ("flood", "false-fin")
"""Attacks with more commands than a provider reads."""
ABOVE: tuple[Hostility, ...] = ("forge", "mix", "withhold", "fork")
"""Attacks of a provider: false feeds, entries in the wrong lines, withheld entries, forks."""


class Kill(NamedTuple):
    """A kill and restart of a node: after a number of received packets, before it can answer.

    `within`: in the middle of the transaction instead.
    """

    node: str
    packets: int
    within: bool


@dataclass(frozen=True)
class Cell(Story):
    """A story.

    A step is "onboard", "leave" (a client), "dismiss" (a client, by the provider), "part" (a client, by both
    at once), "subscribe" and "unsubscribe" (a client, a client), "send" (a client, a client, sizes), "found"
    (clients: a group, by the first), "post" (a client, sizes), "unpeer" (two providers), "sleep" and "awake"
    (a client reads nothing), "off" and "on" (a node).

    Attributes:
        medium: parameters of the cell.
        terms: of all contracts.
        clients: their names.
        hostile: client, provider or "outsider" -> its attack.
        kills: in order of packets.
        home: client -> its provider.
        pace: minimum and maximum time between two rounds of a hostile client, ns.
        peers: pairs of providers; the first requests a contract from the second.
    """

    PAIRS: ClassVar[Mapping[str, str]] = {"off": "on", "sleep": "awake"}

    medium: dict[str, Any]
    terms: Terms
    clients: tuple[str, ...]
    hostile: dict[str, Hostility]
    kills: tuple[Kill, ...]
    home: dict[str, str]
    peers: tuple[tuple[str, str], ...] = ()
    pace: tuple[int, int] = (200 * MS, 1500 * MS)

    @property
    def isps(self) -> tuple[str, ...]:
        """The providers."""
        return tuple(sorted({*self.home.values(), *(isp for pair in self.peers for isp in pair)}))

    @property
    def columns(self) -> tuple[str, ...]:
        """All nodes of the cell."""
        known = (*self.isps, *self.clients)
        return (*known, *(name for name in self.hostile if name not in known))


def make_story(seed: int) -> Cell:
    """Draw a story."""
    rng = Random(f"tiny {seed}")
    clients = tuple(f"c{number}" for number in range(rng.randint(2, 4)))
    hostile: dict[str, Hostility] = {}
    if rng.random() < 0.2:
        hostile["outsider"] = rng.choice(OUTSIDE)
    elif rng.random() < 0.25:
        hostile[clients[-1]] = rng.choice([each for each in INSIDE if each != "beg"])
    steps = _steps(rng, clients)
    more = Random(f"tiny region {seed}")
    isps = tuple([ISP, "isp2", "isp3"][: more.choice([1, 1, 2, 3])])
    home = {client: isps[number % len(isps)] for number, client in enumerate(clients)}
    peers = tuple(itertools.pairwise(isps)) + (((isps[-1], ISP),) if len(isps) > 2 else ())
    if not hostile and more.random() < 0.2:
        hostile[more.choice(isps)] = more.choice(ABOVE)
    steps = (*steps, *_more_steps(more, clients, peers), *_sleeper(Random(f"tiny sleeper {seed}"), clients))
    steps = tuple(sorted(steps, key=lambda step: step.at))
    names = (*isps, *clients)
    kills = sorted(
        Kill(rng.choice(names), rng.randint(1, 160), rng.random() < 0.4)
        for _ in range(rng.choice([0, 1, 2, 4, 8]))
    )
    limits = Random(f"tiny limits {seed}")
    if not hostile and limits.random() < 0.15:
        hostile[clients[-1]] = "beg"
    terms = _terms(rng)._replace(
        receipt=more.choice([None, 10 * SECOND]),
        pace=limits.choice([100 * MS, SECOND, 5 * SECOND]),
        burst=limits.choice([4, 20, 128]),
        line_pace=limits.choice([None, None, 200 * MS]),
    )
    often = 4 if set(ASKING) & set(hostile.values()) else 1
    pace = 200 * MS // often, 1500 * MS // often
    return Cell(seed, steps, _medium(rng), terms, clients, hostile, tuple(kills), home, peers, pace)


def pace(story: Cell) -> int:
    """Return the time that the messages of the busiest line need at a loss of 20 %, ns."""
    lines = Counter[tuple[str, str]]()
    for step in story.steps:
        if step.do == "send":
            lines["from", step.what[0]] += len(step.what[2])
            lines["to", step.what[1]] += len(step.what[2])
        elif step.do == "post":
            lines["from", step.what[0]] += len(step.what[1])
            lines.update({("to", client): len(step.what[1]) for client in story.clients})
    return -(-max(lines.values(), default=0) // (story.terms.size - 2)) * _HOP


_HOP = 4 * SECOND
"""From one data feed to the next."""


def _medium(rng: Random) -> dict[str, Any]:
    medium: dict[str, Any] = {"delay_ms": rng.choice([0.5, 5.0]), "bw_mbit": rng.choice([0.2, 2.0])}
    if rng.random() < 0.7:
        medium |= {
            "jitter_ms": rng.choice([0.0, 5.0, 40.0]),
            "loss_percent": rng.choice([0.0, 5.0, 20.0]),
            "duplicate_percent": rng.choice([0.0, 10.0]),
            "reorder_percent": rng.choice([0.0, 10.0]),
        }
    return medium


def _terms(rng: Random) -> Terms:
    return Terms(
        size=rng.choice([3, 4, 8, 50]),
        unread=rng.choice([2, 3]),
        term=rng.choice([None, None, None, 40 * SECOND]),
        largest=400,
        backlog=rng.choice([1, 4, 50]),
        linger=60 * SECOND,
        patience=90 * SECOND,
    )


def _steps(rng: Random, clients: tuple[str, ...]) -> tuple[Step, ...]:
    steps = [Step(rng.randint(0, 3 * SECOND), "onboard", (client,)) for client in clients]
    last = rng.randint(20, 60) * SECOND

    def at(first: int = 8 * SECOND) -> int:
        return rng.randint(first, last)

    def pair() -> tuple[str, ...]:
        return tuple(rng.sample(clients, 2))

    pairs = [pair() for _ in range(rng.randint(1, 4))]
    for both in pairs:
        steps.append(Step(at() // 2, "subscribe", both))
    for _ in range(rng.randint(2, 25)):
        both = rng.choice(pairs)
        both = both if rng.random() < 0.6 else both[::-1]
        sizes = tuple(rng.choice([0, 10, 27, 28, 120, 400]) for _ in range(rng.choice([1, 1, 3, 20])))
        steps.append(Step(at(), "send", (*both, sizes)))
    for _ in range(rng.choice([0, 0, 1])):
        steps.append(Step(at(), "unsubscribe", rng.choice(pairs)))
    for _ in range(rng.choice([0, 1, 2])):
        client, time = rng.choice(clients), at(10 * SECOND)
        steps.append(Step(time, rng.choice(["leave", "dismiss", "part"]), (client,)))
        if rng.random() < 0.4:
            steps.append(Step(time + rng.randint(0, 30) * SECOND, "onboard", (client,)))
    for _ in range(rng.choice([0, 0, 1, 2])):
        name, time = rng.choice((ISP, *clients)), at()
        do, undo = rng.choice([("off", "on"), ("sleep", "awake")])
        if name != ISP or do == "off":
            steps.append(Step(time, do, (name,)))
            steps.append(Step(time + rng.randint(1, 20) * SECOND, undo, (name,)))
    return tuple(sorted(steps, key=lambda step: step.at))


def _sleeper(rng: Random, clients: tuple[str, ...]) -> list[Step]:
    """Draw, now and then, a client that does not read, maybe for ever, while a contact writes and leaves."""
    if rng.random() > 0.2:
        return []
    writer, sleeper = rng.sample(clients, 2)
    steps = [Step(4 * SECOND, "subscribe", (writer, sleeper)), Step(9 * SECOND, "sleep", (sleeper,))]
    for _ in range(rng.randint(2, 6)):
        sizes = tuple(rng.choice([0, 27, 28]) for _ in range(20))
        steps.append(Step(rng.randint(10, 30) * SECOND, "send", (writer, sleeper, sizes)))
    steps.append(Step(rng.randint(25, 45) * SECOND, rng.choice(["leave", "dismiss", "part"]), (writer,)))
    if rng.random() < 0.5:
        steps.append(Step(rng.randint(100, 300) * SECOND, "awake", (sleeper,)))
    return steps


def _more_steps(rng: Random, clients: tuple[str, ...], peers: tuple[tuple[str, str], ...]) -> list[Step]:
    """Draw steps of more than two nodes: groups, and contracts between providers."""
    steps = []
    if len(clients) > 2 and rng.random() < 0.3:
        members = tuple(rng.sample(clients, 3))
        steps.append(Step(rng.randint(5, 15) * SECOND, "found", members))
        for _ in range(rng.randint(1, 6)):
            sizes = tuple(rng.choice([0, 28, 400]) for _ in range(rng.choice([1, 3, 10])))
            steps.append(Step(rng.randint(15, 40) * SECOND, "post", (rng.choice(members), sizes)))
    if peers and rng.random() < 0.3:
        steps.append(Step(rng.randint(15, 50) * SECOND, "unpeer", rng.choice(peers)))
    return steps
