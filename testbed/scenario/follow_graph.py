"""Who follows whom among people: a graph that grows, with few hubs, and with friends who are friends.

People join one after the other. Each follows some of those who are there, the more likely the more followers
they have: so the numbers of followers have a power law (Barabási and Albert, "Emergence of scaling in random
networks", 1999). Part of the follows go to somebody whom the one chosen before follows, which closes
triangles (Holme and Kim, "Growing scale-free networks with tunable clustering", 2002). Part of them are
returned, so that hubs follow many, too.
"""

from collections.abc import Collection, Sequence
from random import Random

from testbed.scenario.sections import FollowGraph


def grow(
    authors: Sequence[str], readers: Collection[str], graph: FollowGraph, random: Random
) -> dict[str, list[str]]:
    """Return whom each of all people follows, in the order in which they have chosen.

    Only `authors` are followed. Those of `readers` who are no authors join last.
    """
    others = [reader for reader in readers if reader not in authors]
    joining = [*random.sample(authors, len(authors)), *random.sample(others, len(others))]
    follows: dict[str, dict[str, None]] = {person: {} for person in joining}
    popularity: list[str] = []  # each author, and again for each follower
    for number, person in enumerate(joining):
        before = min(number, len(authors))
        chosen = _chosen(min(graph.follows, before), joining[:before], follows, popularity, graph, random)
        is_founder = number <= graph.follows
        for other in chosen:
            follows[person][other] = None
            popularity.append(other)
            if number < len(authors) and (is_founder or random.random() < graph.mutual):
                follows[other][person] = None
                popularity.append(person)
        if number < len(authors):
            popularity.append(person)
    return {person: list(whom) for person, whom in follows.items()}


def _chosen(
    count: int,
    there: Sequence[str],
    follows: dict[str, dict[str, None]],
    popularity: Sequence[str],
    graph: FollowGraph,
    random: Random,
) -> list[str]:
    """Choose `count` of the people who are there."""
    if count == len(there):
        return [*there]
    chosen: list[str] = []
    while len(chosen) < count:
        friends: list[str] = []
        if chosen and random.random() < graph.closure:
            friends = [friend for friend in follows[chosen[-1]] if friend not in chosen]
        friend = random.choice(friends or popularity)
        if friend not in chosen:
            chosen.append(friend)
    return chosen
