"""The page of `feednet model friends`, and its conclusion."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.cli.model.runs import command_line
from testbed.ladder.coverage import CHOICES, MOST, WANTED
from testbed.ladder.friends import CONNECTIONS, COSTS, NETWORKS, ROUNDS, Study

if TYPE_CHECKING:
    from analysis.metrics.study import Estimate
    from analysis.report.figures.plot import Figure
    from testbed.ladder.pages.model import Section

_SERIES = (*NETWORKS, *CHOICES)
_GRAPHS = {"social": "social graph", "random": "random graph"}
_DRAWN = ("reached", "mean", "depth", "copies")
_USUAL = "5"  # connections, and peers, in the conclusion: the paper's
_CLOSE = 0.05
"""Tolerance of the excess of a swarm's reach over that of friends."""

Estimates = Mapping[tuple[str, ...], "Estimate"]
"""(people, *key of testbed.ladder.friends.Found) -> estimate."""


def concluded(known: Estimates, people: str) -> str:
    """Return the conclusion in a few sentences, from the figures of networks of one size."""
    from analysis.report.words.numbers import pretty

    def of(*key: str) -> str:
        return _mean(known, people, *key)

    def share(*key: str) -> str:
        found = known.get((people, *key))
        return f"{pretty(None if found is None else 100 * found.mean)} %"

    texts: list[str] = []
    verdicts: dict[bool, list[str]] = {True: [], False: []}
    for hops, who, where in (
        ("1", "its author’s followers", "one follow out"),
        ("2", "those within two follows of its author", "two follows out"),
    ):
        flood, gossip = ("flood", hops, _USUAL), ("gossip", hops)
        near, swarm = (known.get((people, *flood, network, "reached")) for network in ("friends", "swarm"))
        if near is None or swarm is None:
            continue
        verdicts[near.mean > (1 - _CLOSE) * swarm.mean].append(where)
        texts.append(
            f"Among {who}, a flood over {_USUAL} connections to friends reaches"
            f" {share(*flood, 'friends', 'reached')}, at a mean depth of {of(*flood, 'friends', 'mean')}; in"
            f" a random swarm {share(*flood, 'swarm', 'reached')}, at {of(*flood, 'swarm', 'mean')}. Gossip"
            f" gets a message to 90 % in {of(*gossip, 'friends', 'nine tenths')} rounds, and in"
            f" {of(*gossip, 'swarm', 'nine tenths')} there."
        )
    judged = {
        "is a good approximation": " and ".join(verdicts[True]),
        "promises too much": " and ".join(verdicts[False]),
    }
    said = ", and ".join(f"{verdict} for replication {where}" for verdict, where in judged.items() if where)
    if said:
        texts.insert(0, f"A random swarm {said} (good: it reaches at most {100 * _CLOSE:g} % more).")
    coverage = ("coverage", "social")
    chosen = [
        f"{_USUAL} {title}: {share(*coverage, choice, _USUAL, 'friends')} and"
        f" {share(*coverage, choice, _USUAL, 'beyond')}"
        for choice, title in CHOICES.items()
    ]
    texts.append(f"Of a reader’s friends, and of their friends, a few peers replicate: {'; '.join(chosen)}.")
    return f"With {int(people):,} people. {' '.join(texts)}"


def write_page(path: Path, study: Study, sizes: Sequence[int], known: Estimates, conclusion: str) -> None:
    """Write the page. Raises OSError."""
    from testbed.ladder.pages.model import write_model

    names, hops = [f"{size}" for size in sizes], [f"{each}" for each in study.hops]
    write_model(
        path,
        "friends",
        "Replication among friends, and random swarms",
        [
            "How good an approximation is a random swarm for replication among friends? “Scalable Secure"
            " Scuttlebutt” (Tarr) computes with random swarms, and leaves the question open.",
            conclusion,
        ],
        _SERIES,
        [_flood(known, names, hops), _gossip(known, names, hops), _coverage(known, names)],
        command_line(),
    )


def _flood(known: Estimates, sizes: Sequence[str], hops: Sequence[str]) -> "Section":
    from testbed.ladder.pages.model import Section, Table, estimated

    members = [
        [_people(size), *(estimated(known.get((size, "size", each))) for each in hops)] for size in sizes
    ]
    rows = [
        [
            f"{_networks(size, each)}, {connections}",
            *(
                _mean(known, size, "flood", each, f"{connections}", network, cost)
                for cost in COSTS
                for network in NETWORKS
            ),
        ]
        for size in sizes
        for each in hops
        for connections in CONNECTIONS
    ]
    titles = (f"{title}, {network}" for title in COSTS.values() for network in NETWORKS)
    return Section(
        "The flood of a message",
        [
            "Only members replicate a message and pass it on: its author, and those from whom one follow (1"
            " hop) or two lead to the author. friends: each opens connections to random people that it"
            " follows, members or not. random: a random network of the same members with as many links as"
            " friends have among each other. swarm: each member opens its connections to random members, as"
            " in the paper."
        ],
        [_flood_figure(known, sizes, hops, cost) for cost in _DRAWN],
        [
            Table(
                "members", "Members of a message", ("people", *(f"hops: {each}" for each in hops)), members
            ),
            Table("flood", "As a table", ("network, hops, connections", *titles), rows),
        ],
        [
            "Authors are drawn as readers meet them: by followers. Depths and copies are of members"
            " that are reached."
        ],
    )


def _gossip(known: Estimates, sizes: Sequence[str], hops: Sequence[str]) -> "Section":
    from testbed.ladder.pages.model import Section, Table, estimated

    compared = [(until, network) for until in ROUNDS for network in ("friends", "swarm")]
    rows = [
        [
            _networks(size, each),
            *(estimated(known.get((size, "gossip", each, network, until))) for until, network in compared),
        ]
        for size in sizes
        for each in hops
    ]
    titles = (f"{until}, {network}" for until, network in compared)
    return Section(
        "Rounds of gossip",
        [
            "In each round each member calls one that it follows (friends), or any member (swarm), one call"
            " after the other."
        ],
        (),
        [Table("gossip", "Rounds until so many members have a message", ("network, hops", *titles), rows)],
    )


def _coverage(known: Estimates, sizes: Sequence[str]) -> "Section":
    from testbed.ladder.pages.model import Section, Table

    rows = [
        [
            f"{_people(size)} people, {_GRAPHS[kind]}, {peers}",
            *(
                _mean(known, size, "coverage", kind, choice, f"{peers}", wanted)
                for wanted in WANTED
                for choice in CHOICES
            ),
        ]
        for size in sizes
        for kind in _GRAPHS
        for peers in (1, 2, 3, 5, 10, MOST)
    ]
    titles = (f"{title}, {choice}" for title in WANTED.values() for choice in CHOICES.values())
    return Section(
        "What a few peers replicate of those one wants",
        [
            "Each peer replicates itself, those that it follows and those that these follow. The paper’s"
            " sample of Scuttlebutt: 5 random peers have all friends of a person, and about 75 % of their"
            " friends. Beside the social graph is a random one, in which each follows as many, all of them"
            " equally likely."
        ],
        [_coverage_figure(known, sizes, wanted) for wanted in WANTED],
        [Table("coverage", "As a table", ("network, graph, peers", *titles), rows)],
    )


def _people(size: str) -> str:
    from analysis.report.words.numbers import pretty

    return pretty(float(size))


def _networks(size: str, hops: str) -> str:
    return f"{_people(size)} people, {hops} {'hop' if hops == '1' else 'hops'}"


def _mean(known: Estimates, *key: str) -> str:
    from analysis.report.words.numbers import pretty

    found = known.get(key)
    return pretty(None if found is None else found.mean)


def _flood_figure(known: Estimates, sizes: Sequence[str], hops: Sequence[str], cost: str) -> "Figure":
    from analysis.report.figures.plot import Menu
    from testbed.ladder.pages.curves import curves

    def find(people: str, each: str) -> dict[str, dict[float, Any]]:
        found: dict[str, dict[float, Any]] = {}
        for network in NETWORKS:
            for connections in CONNECTIONS:
                key = (people, "flood", each, f"{connections}", network, cost)
                if key in known:
                    found.setdefault(network, {})[float(connections)] = known[key]
        return found

    title = COSTS[cost]
    return curves(
        f"friends-{cost}",
        f"{title[0].upper()}{title[1:]}",
        ("connections that each opens", title),
        _SERIES,
        (Menu("people", [*sizes]), Menu("hops", [*hops])),
        find,
        logarithms="xy" if cost == "copies" else "x",
        bounds=(0, 1.02) if cost == "reached" else None,
    )


def _coverage_figure(known: Estimates, sizes: Sequence[str], wanted: str) -> "Figure":
    from analysis.report.figures.plot import Menu
    from testbed.ladder.pages.curves import curves

    kinds = {title: kind for kind, title in _GRAPHS.items()}

    def find(people: str, title: str) -> dict[str, dict[float, Any]]:
        found: dict[str, dict[float, Any]] = {}
        for choice in CHOICES:
            for peers in range(1, MOST + 1):
                key = (people, "coverage", kinds[title], choice, f"{peers}", wanted)
                if key in known:
                    found.setdefault(choice, {})[float(peers)] = known[key]
        return found

    title = WANTED[wanted]
    return curves(
        f"friends-{wanted}-covered",
        f"{title[0].upper()}{title[1:]}",
        ("peers chosen", "share replicated"),
        _SERIES,
        (Menu("people", [*sizes]), Menu("graph", [*kinds])),
        find,
        bounds=(0, 1.02),
    )
