"""Stories of customers, providers and repositories, drawn from a seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Literal, get_args

from base.units import SECOND
from ndn_over_ssb.contract import Terms
from testbed.verify.kit.draw import Link, draw_links
from testbed.verify.kit.story import Step, Story

Hostility = Literal["floods", "garbles", "lies about what it read", "sends unasked", "ends at random"]
HOSTILE: tuple[Hostility, ...] = get_args(Hostility)


@dataclass(frozen=True)
class Network(Story):
    """A story.

    A step is "ask" (a customer, a URI, its lifetime in ms), "restart" (a node), "cut" and "heal" (the two
    ends of a link), "end" and "request" (a customer, a provider), "revoke" (a prefix), "give" (a prefix, a
    repository).

    Attributes:
        links: of the network.
        providers, customers, repositories: nodes; "root" is one more.
        contracts: customer, provider and terms; providers are customers of each other.
        prefixes: prefix -> its initial repository.
        delegates: the holder of the first prefix delegates a longer one to a holder without content.
        hostile: misbehaving node -> its behaviour.
    """

    PAIRS: ClassVar[Mapping[str, str]] = {"cut": "heal"}

    links: tuple[Link, ...]
    providers: tuple[str, ...]
    customers: tuple[str, ...]
    repositories: tuple[str, ...]
    contracts: tuple[tuple[str, str, Terms], ...]
    prefixes: dict[str, str]
    delegates: bool
    hostile: dict[str, Hostility]

    @property
    def columns(self) -> tuple[str, ...]:
        """All nodes with participants."""
        return ("root", *self.providers, *self.customers, *self.repositories)


def make_story(seed: int) -> Network:
    """Draw a story."""
    rng = Random(f"providers {seed}")
    providers = tuple(f"nfp{number}" for number in range(rng.randint(1, 4)))
    customers = tuple(f"c{number}" for number in range(rng.randint(1, 3)))
    repositories = tuple(f"r{number}" for number in range(rng.randint(1, 2)))
    contracts = _contracts(rng, providers, (*customers, *repositories))
    prefixes = {f"/p{number}": rng.choice(repositories) for number in range(rng.randint(1, 3))}
    hostile: dict[str, Hostility] = {}
    if rng.random() < 0.35:
        hostile[rng.choice([*customers, *repositories])] = rng.choice(HOSTILE)
    links = _links(rng, ("root", *providers, *customers, *repositories))
    steps = _steps(rng, links, providers, customers, repositories, contracts, prefixes)
    delegates = rng.random() < 0.3
    return Network(
        seed, steps, links, providers, customers, repositories, contracts, prefixes, delegates, hostile
    )


def _terms(rng: Random, *, transit: bool) -> Terms:
    return Terms(
        rate=rng.choice([20, 1000]),
        entries=rng.choice([4, 8, 64]),
        unread=rng.choice([1, 2]),
        transit=transit,
    )


def _contracts(
    rng: Random, providers: tuple[str, ...], others: tuple[str, ...]
) -> tuple[tuple[str, str, Terms], ...]:
    """Connect the providers randomly, and each other node to one or two of them."""
    pairs = {(other, rng.choice(providers[:at])) for at, other in enumerate(providers) if at}
    for at, one in enumerate(providers):
        for other in providers[at + 1 :]:
            if (other, one) not in pairs and rng.random() < 0.2:
                pairs.add((one, other))
    contracts = [(*pair, _terms(rng, transit=True)) for pair in sorted(pairs)]
    for node in others:
        for provider in rng.sample(providers, min(len(providers), rng.choice([1, 1, 2]))):
            contracts.append((node, provider, _terms(rng, transit=False)))
    return tuple(contracts)


def _links(rng: Random, nodes: tuple[str, ...]) -> tuple[Link, ...]:
    """Join the nodes to one router, by possibly bad links."""
    return draw_links(
        rng,
        [(node, "router") for node in nodes],
        delays=[0.5, 5.0, 20.0],
        bad=0.5,
        share=0.6,
        loss_percent=[0.0, 1.0, 3.0],
        reorder_percent=[0.0, 2.0],
        duplicate_percent=[0.0, 2.0],
    )


def _steps(
    rng: Random,
    links: tuple[Link, ...],
    providers: tuple[str, ...],
    customers: tuple[str, ...],
    repositories: tuple[str, ...],
    contracts: tuple[tuple[str, str, Terms], ...],
    prefixes: dict[str, str],
) -> tuple[Step, ...]:
    steps: list[Step] = []
    last = rng.randint(5, 20) * SECOND

    def at() -> int:
        return rng.randint(0, last)

    for customer in customers:
        for number in range(rng.randint(1, 40)):
            prefix = rng.choice([*prefixes, *prefixes, "/nobody"])
            name = f"{prefix}/{rng.choice(['shared', customer])}/{rng.randrange(number + 1)}"
            steps.append(Step(at(), "ask", (customer, name, rng.choice([200, 1000, 4000]))))
    for _ in range(rng.choice([0, 0, 1, 2])):
        time, link = at(), rng.choice(links)
        steps.append(Step(time, "cut", (link["a"], link["b"])))
        steps.append(Step(time + rng.randint(1, 6) * SECOND, "heal", (link["a"], link["b"])))
    for _ in range(rng.choice([0, 0, 1, 2])):
        steps.append(Step(at(), "restart", (rng.choice((*providers, *customers, *repositories)),)))
    for _ in range(rng.choice([0, 0, 1])):
        customer, provider, _ = rng.choice(contracts)
        time = at()
        steps.append(Step(time, "end", (customer, provider)))
        steps.append(Step(time + rng.randint(1, 4) * SECOND, "request", (customer, provider)))
    for _ in range(rng.choice([0, 0, 1])):
        prefix = rng.choice([*prefixes])
        time = at()
        steps.append(Step(time, "revoke", (prefix,)))
        if rng.random() < 0.7:
            steps.append(Step(time + rng.randint(1, 4) * SECOND, "give", (prefix, rng.choice(repositories))))
    return tuple(sorted(steps, key=lambda step: step.at))
