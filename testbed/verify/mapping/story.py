"""Stories of a name service, its storages, devices and readers, drawn from a seed."""

from dataclasses import dataclass
from random import Random
from typing import Any

from base.units import MS, SECOND
from testbed.verify.kit.draw import Link, draw_links
from testbed.verify.kit.story import Step, Story

FORGER = "mallory"


@dataclass(frozen=True)
class Region(Story):
    """A story.

    A step is "leave" (a device, a router) and "attach" (the same); "cut" and "heal" (two routers), noticed by
    all or nobody; "restart" (a node); "lie" and "be honest" (a router, about packets under the records'
    prefix); "forge" (kind).

    Attributes:
        routers: with the services.
        links: of the network, including the forger's.
        devices: device -> its possible routers, the initial one first.
        readers: reader -> the devices of its feeds.
        items: device -> publication times, ns.
        parameters: of layering `link`.
        signalled: whether routes follow changes of links between routers.
    """

    routers: tuple[str, ...]
    links: tuple[Link, ...]
    devices: dict[str, tuple[str, ...]]
    readers: dict[str, tuple[str, ...]]
    items: dict[str, tuple[int, ...]]
    parameters: dict[str, Any]
    signalled: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """All honest nodes."""
        return (*self.routers, *self.devices, *self.readers)


FORGERIES = ("signature", "hijack", "replay", "garbage", "item", "foreign item")


def make_story(seed: int) -> Region:
    """Draw a story."""
    rng = Random(f"mapping {seed}")
    routers = tuple(f"r{number}" for number in range(rng.randint(2, 4)))
    devices = {
        f"d{number}": tuple(rng.sample(routers, rng.randint(2, len(routers))))
        for number in range(rng.randint(1, 3))
    }
    readers = {
        f"s{number}": tuple(rng.sample([*devices], rng.randint(1, len(devices))))
        for number in range(rng.randint(1, 3))
    }
    span = rng.randint(5, 20) * SECOND
    items = {
        device: tuple(sorted(rng.randint(SECOND // 2, span) for _ in range(rng.randint(2, 12))))
        for device in devices
    }
    parameters = {
        "window": rng.choice([1, 4]),
        "servers": rng.randint(1, 2),
        "stores": rng.randint(1, 3),
        "storage": rng.choice(["stays", "follows", "follows"]),
        "ttl_ms": rng.choice([100, 500, 3000]),
        "record_ms": rng.choice([2000, 4000, 8000]),
    }
    links = _links(rng, routers, devices, readers)
    steps = _steps(rng, routers, devices, readers, span)
    signalled = rng.random() < 0.6
    return Region(seed, steps, routers, links, devices, readers, items, parameters, signalled)


def _links(
    rng: Random,
    routers: tuple[str, ...],
    devices: dict[str, tuple[str, ...]],
    readers: dict[str, tuple[str, ...]],
) -> tuple[Link, ...]:
    """Join the routers in a line or a ring, and all others to them, by possibly bad links."""
    pairs = [(routers[at], routers[at + 1]) for at in range(len(routers) - 1)]
    if len(routers) > 2 and rng.random() < 0.7:
        pairs.append((routers[-1], routers[0]))
    pairs += [(device, router) for device, at in devices.items() for router in at]
    pairs += [(reader, rng.choice(routers)) for reader in readers]
    pairs.append((FORGER, rng.choice(routers)))
    return draw_links(
        rng,
        pairs,
        delays=[0.5, 5.0, 20.0],
        bad=0.6,
        share=0.6,
        loss_percent=[0.0, 2.0, 8.0],
        reorder_percent=[0.0, 5.0],
        duplicate_percent=[0.0, 5.0],
    )


def _steps(
    rng: Random,
    routers: tuple[str, ...],
    devices: dict[str, tuple[str, ...]],
    readers: dict[str, tuple[str, ...]],
    span: int,
) -> tuple[Step, ...]:
    steps: list[Step] = []

    def at() -> int:
        return rng.randint(SECOND, span)

    for device, places in devices.items():
        here, time = places[0], SECOND
        while rng.random() < 0.7 and (time := time + rng.randint(SECOND, 6 * SECOND)) < span:
            there = rng.choice([place for place in places if place != here])
            steps.append(Step(time, "leave", (device, here)))
            time += rng.choice([50 * MS, 400 * MS, 2 * SECOND])
            steps.append(Step(time, "attach", (device, there)))
            here = there
    if rng.random() < 0.4:
        begin = at()
        cut = tuple(rng.sample(routers, 2))
        steps += [Step(begin, "cut", cut), Step(begin + rng.randint(1, 5) * SECOND, "heal", cut)]
    for _ in range(rng.choice([0, 0, 1, 2])):
        steps.append(Step(at(), "restart", (rng.choice([*routers, *devices, *readers]),)))
    if rng.random() < 0.3:
        begin, liar = at(), rng.choice(routers)
        steps += [Step(begin, "lie", (liar,)), Step(begin + rng.randint(1, 4) * SECOND, "be honest", (liar,))]
    if rng.random() < 0.5:
        steps += [Step(at(), "forge", (rng.choice(FORGERIES),)) for _ in range(rng.randint(1, 8))]
    return tuple(sorted(steps, key=lambda step: step.at))
