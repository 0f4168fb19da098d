"""Measures of a social network, by the definitions of its literature."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from testbed.ladder.follows import Follows, grown
from testbed.ladder.networks import Network, Numbers, depths
from testbed.ladder.power_law import fit
from testbed.scenario.sections import FollowGraph
from testbed.scenario.workload import shares_by_rank

_PAIRS: Final = 50_000
"""Sampled pairs of neighbours for each clustering coefficient; its standard error is 0.002."""
_SOURCES: Final = 20
"""Sources of distance measurements."""
_HUBS: Final = 0.01
_POINTS: Final = 60  # of a distribution that is drawn

TRAITS: Final[Mapping[str, str]] = {
    "follows": "follows of a person, mean",
    "followers_exponent": "exponent, followers",
    "follows_exponent": "exponent, follows",
    "activity_exponent": "exponent, activity",
    "reciprocity": "follows that are returned",
    "local_clustering": "clustering, mean of people",
    "clustering": "clustering, of pairs",
    "distance": "mean distance",
    "distance_90": "90 % distance",
    "hubs": "follows of the top 1 %, share",
}
"""Trait -> its title."""


class Published(NamedTuple):
    """Published figures of a real network; None for missing ones.

    Attributes:
        people: number of people.
        traits: trait -> value.
        source: the reference, by its name in SOURCES.
        note: deviations from our definitions.
    """

    name: str
    people: int
    traits: Mapping[str, float]
    source: str
    note: str = ""


SOURCES: Final[Mapping[str, str]] = {
    "Mislove": "A. Mislove, M. Marcon, K. P. Gummadi, P. Druschel, B. Bhattacharjee: Measurement and"
    " Analysis of"
    " Online Social Networks, IMC 2007, tables 1, 3, 4 and 5",
    "KONECT": "J. Kunegis: KONECT, the Koblenz Network Collection, WWW 2013 Companion; konect.cc,"
    " statistics of the"
    " networks flickr-growth, youtube-links and soc-LiveJournal1",
    "Kwak": "H. Kwak, C. Lee, H. Park, S. Moon: What is Twitter, a Social Network or a News Media?, WWW 2010",
    "Backstrom": "L. Backstrom, P. Boldi, M. Rosa, J. Ugander, S. Vigna: Four Degrees of Separation,"
    " WebSci 2012",
}

_DIRECTED = "distances along follows; clustering counts follows among neighbours"
_TOTAL = "one exponent, of followers and follows together, from its tail"

_OF_MISLOVE = (
    "follows",
    "followers_exponent",
    "follows_exponent",
    "reciprocity",
    "local_clustering",
    "distance",
)
_OF_KONECT = ("follows", "followers_exponent", "reciprocity", "clustering", "distance", "distance_90")

PUBLISHED: Final = (
    *(
        Published(name, people, dict(zip(_OF_MISLOVE, values, strict=True)), "Mislove", note)
        for name, people, values, note in (
            ("Flickr", 1_846_198, (12.24, 1.78, 1.74, 0.620, 0.313, 5.67), _DIRECTED),
            ("LiveJournal", 5_284_457, (16.97, 1.65, 1.59, 0.735, 0.330, 5.88), _DIRECTED),
            (
                "Orkut",
                3_072_441,
                (106.1, 1.50, 1.50, 1.0, 0.171, 4.25),
                "friendships, which both have to want; a sample of the network",
            ),
            ("YouTube", 1_157_827, (4.29, 1.99, 1.63, 0.791, 0.136, 5.10), _DIRECTED),
        )
    ),
    *(
        Published(name, people, dict(zip(_OF_KONECT, values, strict=True)), "KONECT", _TOTAL)
        for name, people, values in (
            ("Flickr", 2_302_925, (14.39, 1.711, 0.6217, 0.1076, 5.459, 6.887)),
            ("YouTube", 1_138_499, (4.341, 2.141, 0.790, 0.00621, 5.43, 6.78)),
            ("LiveJournal", 4_847_571, (14.13, 2.651, 0.748, 0.118, 5.48, 6.19)),
        )
    ),
    Published(
        "Twitter",
        41_700_000,
        {
            "follows": 35.2,
            "followers_exponent": 2.276,
            "reciprocity": 0.221,
            "distance": 4.12,
            "distance_90": 4.8,
        },
        "Kwak",
        "its authors call the followers no power law: the exponent is of those below 100,000;"
        " distances along follows",
    ),
    Published(
        "Facebook", 721_000_000, {"distance": 4.74}, "Backstrom", "friendships, which both have to want"
    ),
)
"""Real networks, in the order of their references."""

Distributions = dict[str, list[tuple[int, float]]]
"""Quantity -> (number, share of people with at least that many)."""


class Measured(NamedTuple):
    """Measures of one network: trait -> value, and distributions."""

    traits: dict[str, float]
    distributions: Distributions


def measure(people: int, graph: FollowGraph, activity: float, messages: int, seed: int) -> Measured:
    """Grow a network, with an average number of messages per person, and measure it."""
    follows = grown(people, graph, seed)
    random = np.random.default_rng([seed, people])
    followers = np.bincount(follows.whom, minlength=people)
    active = np.array(shares_by_rank(messages * people, people, activity))
    network = follows.joined()
    mean, ninety = distances(network, random)
    traits = {
        "follows": float(follows.counts.mean()),
        "reciprocity": reciprocity(follows),
        "local_clustering": clustering(network, random, of_people=True),
        "clustering": clustering(network, random, of_people=False),
        "distance": mean,
        "distance_90": ninety,
        "hubs": float(np.sort(followers)[-max(round(_HUBS * people), 1) :].sum() / followers.sum()),
    }
    counted = {"followers": followers, "follows": follows.counts, "activity": active}
    for name, values in counted.items():
        found = fit(values)
        if found is not None:
            traits[f"{name}_exponent"] = found.exponent
    return Measured(traits, {name: at_least(values) for name, values in counted.items()})


def reciprocity(follows: Follows) -> float:
    """Return the share of follows that are returned."""
    ours = follows.who * follows.people + follows.whom
    theirs = follows.whom * follows.people + follows.who
    return float(np.isin(theirs, ours).mean())


def clustering(network: Network, random: np.random.Generator, *, of_people: bool) -> float:
    """Return the probability that two neighbours of a person are neighbours, from a sample of pairs.

    `of_people`: the mean over people, those with fewer than two neighbours counting as 0; else over pairs,
    dominated by people with many neighbours.
    """
    degrees = np.diff(network.starts)
    has_pairs = np.flatnonzero(degrees > 1)
    if not len(has_pairs):
        return 0.0
    weights = np.ones(len(has_pairs)) if of_people else degrees[has_pairs] * (degrees[has_pairs] - 1.0)
    middle = random.choice(has_pairs, _PAIRS, p=weights / weights.sum())
    first = random.integers(degrees[middle])
    second = (first + 1 + random.integers(degrees[middle] - 1)) % degrees[middle]
    ends = np.repeat(np.arange(network.peers), degrees) * network.peers + network.neighbours
    ends.sort()
    a, b = (network.neighbours[network.starts[middle] + place] for place in (first, second))
    wanted = a * network.peers + b
    found = ends[np.minimum(np.searchsorted(ends, wanted), len(ends) - 1)] == wanted
    share = float(found.mean())
    return share * len(has_pairs) / network.peers if of_people else share


def distances(network: Network, random: np.random.Generator) -> tuple[float, float]:
    """Return the mean distance of two people, and the 90th percentile.

    Links are undirected. Distances are from a sample of people to all reachable others. The second is
    interpolated between whole numbers (the "effective diameter").
    """
    sources = random.choice(network.peers, min(_SOURCES, network.peers), replace=False)
    counts = np.zeros(1, np.int64)
    for source in sources:
        found = depths(network, int(source))
        own = np.bincount(found[found > 0], minlength=len(counts))
        own[: len(counts)] += counts
        counts = own
    total = counts.sum()
    if not total:
        return 0.0, 0.0
    within = np.cumsum(counts) / total
    deepest = int(np.argmax(within >= 0.9))
    below = float(within[deepest - 1])
    ninety = deepest - 1 + (0.9 - below) / float(within[deepest] - below)
    return float(counts @ np.arange(len(counts)) / total), ninety


def at_least(values: Numbers) -> list[tuple[int, float]]:
    """Return the complementary cumulative distribution of numbers, at selected points."""
    numbers, counts = np.unique(values[values > 0], return_counts=True)
    if not len(numbers):
        return []
    shares = np.cumsum(counts[::-1])[::-1] / len(values)
    steps = np.geomspace(1, numbers[-1], _POINTS)
    chosen = np.unique(np.minimum(np.searchsorted(numbers, steps), len(numbers) - 1))
    return [(int(numbers[place]), float(shares[place])) for place in chosen]
